//! A segment is read piece by piece: what is found in it must not depend on where a piece ends.

use hermes_log::log::format::{FIRST_FRAME_OFFSET, FrameCodec, SEGMENT_HEADER_LEN};
use hermes_log::log::scan::{End, Found, Scan};
use hermes_log::{Gap, Position};

use crate::support::log_files::{Home, report, use_payload};
use crate::support::processes::{Random, is_long};

const CAPACITY: u32 = 4 << 20;
const FRAMES_END: usize = 3 << 20;

/// Frames of all sizes, some of which hold a whole frame; then damage of all sizes.
fn damaged_segment(home: &Home, random: &mut Random) -> Vec<u8> {
    let codec = FrameCodec::new(&home.header(1));
    let mut bytes = Vec::new();
    while bytes.len() < FRAMES_END {
        let mut payload = use_payload(&format!("s{}", random.below(50)));
        if random.below(4) == 0 {
            // A newer version's payload of any bytes: carried along.
            let len = [100, 5_000, 100_000, 700_000][random.below(4) as usize];
            let inner = home.frame(1, &use_payload("inside of a frame"));
            payload = inner.into_iter().cycle().take(len).collect();
        }
        codec.encode(&payload, &mut bytes);
    }
    for _ in 0..random.below(12) {
        let len = [1, 10, 1_000, 300_000, 600_000][random.below(5) as usize];
        let from = random.below(FRAMES_END as u64) as usize;
        let damaged = &mut bytes[from..(from + len).min(FRAMES_END)];
        match random.below(3) {
            0 => damaged.fill(0),
            1 => damaged.iter_mut().for_each(|byte| *byte ^= 0x5a),
            _ => damaged.rotate_left(1),
        }
    }
    bytes
}

/// Frames and gaps, by a scan of all bytes in one.
fn whole(home: &Home, bytes: &[u8], end: End) -> (u64, Vec<Gap>) {
    let codec = FrameCodec::new(&home.header(1));
    let mut scan = Scan::new(&codec, bytes, FIRST_FRAME_OFFSET, end);
    let (mut frames, mut gaps) = (0, Vec::new());
    loop {
        match scan.next() {
            Found::Frame { .. } => frames += 1,
            Found::Gap { offset, len, reason } => {
                gaps.push(Gap { position: Position { segment: 1, offset }, len: Some(len), reason });
            }
            Found::Void { .. } => {}
            Found::Sealed | Found::Pending => return (frames, gaps),
        }
    }
}

#[test]
fn a_segment_that_is_read_in_pieces_says_what_it_says_in_one() {
    let mut random = Random::new();
    for _ in 0..if is_long() { 500 } else { 25 } {
        let home = Home::new(CAPACITY);
        home.used("makes the segment");
        home.set_len(1, FIRST_FRAME_OFFSET);
        let bytes = damaged_segment(&home, &mut random);
        assert!(SEGMENT_HEADER_LEN + bytes.len() < CAPACITY as usize);
        home.append_bytes(1, &bytes);
        for end in [End::Live, End::Sealed] {
            if end == End::Sealed {
                home.seal(1);
            }
            let (frames, gaps) = whole(&home, &bytes, end);
            assert_eq!(home.view().frames(), frames, "{end:?}");
            assert_eq!(report(&home.profile).gaps, gaps, "{end:?}");
        }
    }
}
