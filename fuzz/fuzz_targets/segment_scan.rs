//! Arbitrary bytes as a segment: the scan never panics and stays inside, a live segment shows a part of what the sealed
//! one does, and a scan that is taken up at any offset that one returned goes on as it did.
#![no_main]

use hermes_log::log::format::{
    FIRST_FRAME_OFFSET, FrameCodec, MARKER, MIN_CAPACITY, SEGMENT_HEADER_LEN, SegmentHeader,
};
use hermes_log::log::scan::{End, Found, Scan};
use libfuzzer_sys::fuzz_target;

/// The salt of the seeds, and of every segment whose header the fuzzer broke: else no frame would be valid.
const HEADER: SegmentHeader = SegmentHeader { capacity: MIN_CAPACITY, log_id: [7; 16], number: 1, salt: 1, created: 1 };

fuzz_target!(|bytes: &[u8]| {
    let header = SegmentHeader::decode(bytes).unwrap_or(HEADER);
    let bytes = repaired(bytes, &header);
    let codec = FrameCodec::new(&header);
    let live = scan(&codec, &bytes, FIRST_FRAME_OFFSET, End::Live);
    let sealed = scan(&codec, &bytes, FIRST_FRAME_OFFSET, End::Sealed);
    assert_eq!(sealed.get(..live.len()), Some(&live[..]), "a seal changes nothing that was found before");
    for (at, (_, end)) in live.iter().enumerate() {
        assert_eq!(scan(&codec, &bytes, *end, End::Live), live[at + 1..], "taken up at {end}, live");
        assert_eq!(scan(&codec, &bytes, *end, End::Sealed), sealed[at + 1..], "taken up at {end}, sealed");
    }
    // A beginning of what is there already shows a beginning of what is found, whatever stands inside a frame.
    for cut in
        [3, 2, 1].map(|part| bytes.len().saturating_sub(1) / part).into_iter().filter(|cut| *cut >= SEGMENT_HEADER_LEN)
    {
        let chunk = scan(&codec, &bytes[..cut], FIRST_FRAME_OFFSET, End::More);
        assert_eq!(live.get(..chunk.len()), Some(&chunk[..]), "a chunk of {cut} bytes");
    }
    // A reader that came earlier saw a beginning of the file: what it found is final.
    // (But for a frame inside a frame, which no writer makes: 0xFF never occurs in a text.)
    let cuts = if has_nested(&codec, &bytes) { &[][..] } else { &[3, 2, 1][..] };
    for cut in cuts.iter().map(|part| bytes.len().saturating_sub(1) / part) {
        if cut >= SEGMENT_HEADER_LEN {
            let earlier = scan(&codec, &bytes[..cut], FIRST_FRAME_OFFSET, End::Live);
            let end = earlier.last().map_or(FIRST_FRAME_OFFSET, |(_, end)| *end);
            let resumed = scan(&codec, &bytes, end, End::Sealed);
            assert_eq!(frames(&earlier) + frames(&resumed), frames(&sealed), "read up to {cut} and then on");
        }
    }
    // What a seal adds, and what lies beyond the capacity, makes no difference.
    let mut longer = bytes.clone();
    longer.resize(longer.len().max(header.capacity.min(1 << 20) as usize) + 100, 0);
    if header.capacity <= 1 << 20 {
        // (Where the scan ends is the end of what it was given.)
        let finds = |finds: Finds| finds.into_iter().map(|(found, _)| found).collect::<Vec<_>>();
        assert_eq!(
            finds(scan(&codec, &longer, FIRST_FRAME_OFFSET, End::Sealed)),
            finds(sealed),
            "zeros up to the capacity"
        );
    }
});

/// A frame, or what else was found there, and where the scan went on.
type Finds = Vec<(String, u64)>;

fn scan(codec: &FrameCodec, segment: &[u8], base: u64, end: End) -> Finds {
    let bytes = segment.get(base as usize..).unwrap_or_default();
    let limit = (segment.len() as u64).min(u64::from(codec.capacity())).max(base);
    let mut scan = Scan::new(codec, bytes, base, end);
    let mut finds = Vec::new();
    loop {
        let before = scan.offset();
        let found = match scan.next() {
            Found::Sealed if end == End::Sealed => break,
            Found::Pending if end != End::Sealed => break,
            Found::Frame { offset, payload } => {
                assert_eq!(codec.decode(&segment[offset as usize..limit as usize]), Some(payload));
                assert_eq!(offset, before);
                format!("frame at {offset}")
            }
            other => format!("{other:?}"),
        };
        assert!(scan.offset() > before && scan.offset() <= limit, "{before} {} {limit}", scan.offset());
        finds.push((found, scan.offset()));
    }
    assert!(scan.offset() <= limit);
    finds
}

/// Whether a frame's payload holds a marker.
fn has_nested(codec: &FrameCodec, segment: &[u8]) -> bool {
    let bytes = segment.get(FIRST_FRAME_OFFSET as usize..).unwrap_or_default();
    let mut scan = Scan::new(codec, bytes, FIRST_FRAME_OFFSET, End::Sealed);
    loop {
        match scan.next() {
            Found::Frame { payload, .. } if payload.windows(2).any(|pair| pair == MARKER) => return true,
            Found::Sealed | Found::Pending => return false,
            _ => {}
        }
    }
}

fn frames(finds: &Finds) -> usize {
    finds.iter().filter(|(found, _)| found.starts_with("frame")).count()
}

/// Gives most frames the checksum that they need, so that the fuzzer gets past it: a frame whose CRC field is `CRC!` or
/// zeros, and whose length fits, is encoded anew.
fn repaired(bytes: &[u8], header: &SegmentHeader) -> Vec<u8> {
    let codec = FrameCodec::new(header);
    let mut repaired = bytes.to_vec();
    for at in SEGMENT_HEADER_LEN..bytes.len() {
        let Some([0xff, 0x48, length @ .., c0, c1, c2, c3]) = bytes.get(at..at + 10) else { continue };
        let wanted = matches!([*c0, *c1, *c2, *c3], [0, 0, 0, 0] | [b'C', b'R', b'C', b'!']);
        let len = u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
        if wanted && let Some(payload) = at.checked_add(10).and_then(|from| bytes.get(from..from.checked_add(len)?)) {
            let mut frame = Vec::new();
            codec.encode(payload, &mut frame);
            let room = repaired.len() - at;
            frame.truncate(room);
            repaired[at..at + frame.len()].copy_from_slice(&frame);
        }
    }
    repaired
}
