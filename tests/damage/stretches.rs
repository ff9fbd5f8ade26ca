//! Cut off, and zeroed, at every offset.

use crate::oracle::{SmallLog, segment_file};
use crate::support::log_files::{Home, report, use_payload};
use crate::support::processes::is_long;
use hermes_log::{Durability, Event, Gap, Position, Reason};

/// Every offset up to the end of the frames; in the padding behind them one in 64 stands for the others (all of them with
/// `HERMES_LOG_LONG=1`).
fn offsets(log: &SmallLog, segment: u64) -> impl Iterator<Item = usize> {
    let (frames_end, end) = (log.frames_end(segment), log.bytes(segment).len());
    let is_long = is_long();
    (0..end).filter(move |at| is_long || *at < frames_end + 16 || *at + 16 > end || at % 64 == 0)
}

#[test]
fn cut_off_at_every_offset() {
    let log = SmallLog::new();
    for segment in [1, 2] {
        for len in offsets(&log, segment) {
            let mut changed = log.image.clone();
            changed.files.get_mut(&segment_file(segment)).unwrap().truncate(len);
            log.check(&changed, len % 4 == 0, &format!("segment {segment} cut to {len} bytes"));
        }
    }
}

#[test]
fn zeroed_from_every_offset_to_the_end_as_if_it_were_cut_off_there() {
    let log = SmallLog::new();
    for segment in [1, 2] {
        for from in offsets(&log, segment) {
            let mut zeroed = log.image.clone();
            zeroed.files.get_mut(&segment_file(segment)).unwrap()[from..].fill(0);
            log.check(&zeroed, from % 4 == 0, &format!("segment {segment} zeroed from {from}"));
            if from >= 64 {
                let mut cut = log.image.clone();
                cut.files.get_mut(&segment_file(segment)).unwrap().truncate(from);
                assert_eq!(report(&zeroed.home().profile), report(&cut.home().profile), "segment {segment} at {from}");
            }
        }
    }
}

#[test]
fn zeroed_stretches_in_the_middle() {
    let log = SmallLog::new();
    for segment in [1, 2] {
        let end = log.frames_end(segment);
        for from in 0..end {
            for len in [1, 9, 100] {
                let mut changed = log.image.clone();
                let bytes = changed.files.get_mut(&segment_file(segment)).unwrap();
                let to = (from + len).min(bytes.len());
                bytes[from..to].fill(0);
                log.check(&changed, from % 8 == 0, &format!("segment {segment} zeroed from {from} to {to}"));
            }
        }
    }
}

#[test]
fn megabytes_of_zeros_between_two_frames_are_one_gap() {
    const ZEROS: u64 = 5 << 20;
    let home = Home::new(8 << 20);
    home.used("before");
    let hole = home.len(1);
    home.set_len(1, hole + ZEROS);
    // A live segment: nobody can tell yet whether a frame will stand there.
    assert_eq!(report(&home.profile).gaps, []);
    home.append_bytes(1, &home.frame(1, &use_payload("after")));
    let gap = Gap { position: Position { segment: 1, offset: hole }, len: Some(ZEROS), reason: Reason::Zeros };
    let found = report(&home.profile);
    assert_eq!(found.gaps, [gap]);
    assert_eq!(found.uses.into_iter().collect::<Vec<_>>(), [("after".into(), 1), ("before".into(), 1)]);
    let at = home.writer().append(&Event::used("later"), Durability::Process).unwrap();
    assert!(at.offset > ZEROS);
    assert_eq!(home.compact().gaps, [gap]);
}
