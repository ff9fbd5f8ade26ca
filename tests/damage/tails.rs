//! The end of a segment: torn, pending, void, padding; sealed by whoever, shrunk by whoever.

use std::fs;
use std::ops::ControlFlow;

use hermes_log::log::format::SegmentHeader;
use hermes_log::{Durability, Entry, Event, Gap, Origin, Position, Reason};

use crate::oracle::CAPACITY;
use crate::support::log_files::{Home, Image, Report, payload, report, use_payload, uses};

fn used_once(report: &Report) -> Vec<&str> {
    assert!(report.uses.values().all(|count| *count == 1), "{report:?}");
    report.uses.keys().map(String::as_str).collect()
}

/// A home with one frame, and where the next begins.
fn begun() -> (Home, u64) {
    let home = Home::new(CAPACITY);
    home.used("first");
    let at = home.len(1);
    (home, at)
}

fn gap(segment: u64, offset: u64, len: u64, reason: Reason) -> Gap {
    Gap { position: Position { segment, offset }, len: Some(len), reason }
}

#[test]
fn torn_frame_before_a_valid_one_is_a_gap_in_a_live_segment_too() {
    let (home, at) = begun();
    let torn = home.frame(1, &use_payload("torn"));
    let image = Image::of(&home, CAPACITY);
    for cut in 1..torn.len() {
        let home = image.home();
        home.append_bytes(1, &torn[..cut]);
        assert_eq!(report(&home.profile).gaps, [], "pending");
        home.used("last");
        let found = report(&home.profile);
        let reason = if cut == 1 { Reason::NoMarker } else { Reason::CutOff };
        assert_eq!(found.gaps, [gap(1, at, cut as u64, reason)]);
        assert_eq!(used_once(&found), ["first", "last"]);
    }
}

#[test]
fn torn_tail_of_a_live_segment_is_pending_until_a_frame_follows() {
    let (home, at) = begun();
    let frame = home.frame(1, &use_payload("late"));
    let (mut completed, mut overtaken) = (home.view(), Image::of(&home, CAPACITY).home());
    for cut in 1..frame.len() {
        home.append_bytes(1, &frame[cut - 1..cut]);
        completed.refresh().unwrap();
        assert_eq!((completed.position().offset, completed.gaps_met()), (at, &[][..]), "{cut} bytes are there");
        assert!(completed.skill("late").is_none());
    }
    home.append_bytes(1, &frame[frame.len() - 1..]);
    completed.refresh().unwrap();
    assert_eq!(uses(&completed)["late"], 1);
    assert_eq!((completed.position().offset, completed.gaps_met()), (home.len(1), &[][..]));

    let mut view = overtaken.view();
    overtaken.append_bytes(1, &frame[..20]);
    view.refresh().unwrap();
    assert_eq!(view.gaps_met(), []);
    overtaken.used("next");
    view.refresh().unwrap();
    assert_eq!(view.gaps_met(), [gap(1, at, 20, Reason::CutOff)]);
    assert_eq!(uses(&view).into_keys().collect::<Vec<_>>(), ["first", "next"]);
    // What is a gap stays one, whatever comes.
    overtaken = Image::of(&overtaken, CAPACITY).home();
    overtaken.append_bytes(1, &frame[20..]);
    overtaken.used("next");
    assert_eq!(overtaken.view().gaps_met()[0], gap(1, at, 20, Reason::CutOff));
    assert!(overtaken.view().skill("late").is_none());
}

#[test]
fn frame_that_was_cut_off_is_never_completed_by_what_comes_behind_it() {
    let zeros = Event::Seeded { skill: format!("cut{}", "\0".repeat(20)).into() };
    let ones = Event::Used { skill: "cut".into(), count: u64::MAX };
    for event in [zeros, ones] {
        let (home, _) = begun();
        let bytes = payload(1, &Origin::here("session"), std::slice::from_ref(&event));
        assert!(bytes.ends_with(&[0; 8]) || bytes.ends_with(&[0xff; 8]));
        let frame = home.frame(1, &bytes);
        let image = Image::of(&home, CAPACITY);
        for cut in 1..frame.len() {
            let sealed = image.home();
            sealed.append_bytes(1, &frame[..cut]);
            sealed.seal(1);
            sealed.used("last");
            let followed = image.home();
            followed.append_bytes(1, &frame[..cut]);
            followed.used("last");
            for home in [&sealed, &followed] {
                assert_eq!(used_once(&report(&home.profile)), ["first", "last"], "cut to {cut} bytes");
                home.compact();
                assert_eq!(used_once(&report(&home.profile)), ["first", "last"], "cut to {cut} bytes");
            }
        }
    }
}

/// Fills the live segment until exactly `room` bytes are left.
fn fill(home: &Home, room: u64) {
    let frame = |name_len: usize| home.frame(1, &use_payload(&"f".repeat(name_len)));
    let left = || u64::from(CAPACITY) - room - home.len(1);
    while left() > 1000 {
        home.append_bytes(1, &frame(500));
    }
    let last = (1..1000).map(frame).find(|frame| frame.len() as u64 == left()).unwrap();
    home.append_bytes(1, &last);
}

#[test]
fn void_frame_is_no_gap_however_much_of_it_lies_within_the_capacity() {
    for room in 1..70 {
        let (home, _) = begun();
        fill(&home, room);
        let before = report(&home.profile);
        let at = home.writer().append(&Event::used("x".repeat(60)), Durability::Process).unwrap();
        assert_eq!(at.segment, 2, "room {room}");
        let (mut voids, mut frames) = (Vec::new(), 0);
        let mut see = |entry: Entry<'_>| {
            match entry {
                Entry::Void(position) => voids.push(position),
                Entry::Frame { .. } => frames += 1,
                other => panic!("room {room}: {other:?}"),
            }
            ControlFlow::Continue(())
        };
        home.profile.scan(None, &mut see).unwrap();
        let begin = Position { segment: 1, offset: u64::from(CAPACITY) - room };
        // Where not even the smallest frame fits, what stands there is padding.
        assert_eq!(voids, if room < 12 { vec![] } else { vec![begin] }, "room {room}");
        assert_eq!(home.profile.verify(|_| {}).unwrap().voids, voids.len() as u64);
        let after = report(&home.profile);
        assert_eq!((after.gaps, after.uses.len()), (vec![], before.uses.len() + 1), "room {room}");
        assert_eq!(home.compact().gaps, [], "room {room}");
    }
}

#[test]
fn frame_that_ends_at_the_capacity_counts_and_one_byte_more_is_void() {
    for room in [200, 201, 202] {
        let (home, _) = begun();
        fill(&home, room);
        let len_of = |name_len| home.frame(1, &use_payload(&"z".repeat(name_len))).len() as u64;
        let exact = (1..300).find(|name_len| len_of(*name_len) == room).unwrap();
        let image = Image::of(&home, CAPACITY);
        for (name_len, segment) in [(exact, 1), (exact + 1, 2)] {
            let home = image.home();
            home.append_bytes(1, &home.frame(1, &use_payload(&"z".repeat(name_len))));
            let found = report(&home.profile);
            assert_eq!(found.gaps, []);
            assert_eq!(found.uses.contains_key(&"z".repeat(name_len)), segment == 1, "room {room}");
        }
    }
}

#[test]
fn copy_of_a_whole_frame_inside_a_name_is_never_a_frame() {
    let (home, at) = begun();
    let copy = home.frame(1, &use_payload("ghost"));
    // As text, which a real writer takes: the marker is not UTF-8, so it is not there any more.
    for name in [copy.iter().map(|byte| char::from(*byte)).collect(), String::from_utf8_lossy(&copy).into_owned()] {
        let home = Image::of(&home, CAPACITY).home();
        home.used(&name);
        let end = home.len(1);
        home.used("last");
        assert_eq!(report(&home.profile).uses[&name], 1);
        for byte in at..end {
            let damaged = Image::of(&home, CAPACITY).home();
            damaged.edit(&damaged.segment_path(1), |bytes| bytes[usize::try_from(byte).unwrap()] ^= 0x10);
            assert_eq!(used_once(&report(&damaged.profile)), ["first", "last"], "byte {byte}");
        }
    }
    // As raw bytes, which no release writes: whole inside a frame that checks out.
    let raw = [&b"\x93\x07\x93\xa1x\x07\xc0\x91\x81\xa4used\x92\xd9"[..], &[copy.len() as u8], &copy, b"\x01"].concat();
    home.append_bytes(1, &home.frame(1, &raw));
    home.used("last");
    let found = report(&home.profile);
    assert_eq!((used_once(&found), &*found.gaps), (vec!["first", "last"], &[][..]));
    assert_eq!(home.view().carried(), 1);
}

/// What can stand behind the last frame of a segment.
fn tails(home: &Home) -> Vec<Vec<u8>> {
    let frame = home.frame(1, &use_payload("torn"));
    let mut implausible = frame.clone();
    implausible[4] = 0x7f;
    let long = home.frame(1, &use_payload(&"v".repeat(900)));
    vec![
        vec![],
        vec![0; 1],
        vec![0; 200],
        vec![0xff],
        vec![0xff, 0x48],
        b"garbage".to_vec(),
        [&[0; 50], &frame[..15]].concat(),
        frame[..9].to_vec(),
        frame[..frame.len() - 1].to_vec(),
        [&frame[..frame.len() - 1], &[0; 30]].concat(),
        long[..500].to_vec(),
        implausible,
    ]
}

/// Links in a segment 2 with one frame, as a writer made it before a power loss took the seal of segment 1.
fn add_successor(home: &Home) {
    let header = SegmentHeader { number: 2, salt: 5, ..home.header(1) };
    fs::write(home.segment_path(2), header.encode()).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(home.segment_path(2), fs::Permissions::from_mode(0o600)).unwrap();
    home.append_bytes(2, &home.frame(2, &use_payload("successor")));
}

#[test]
fn unsealed_segment_with_a_successor_reads_the_same_whether_or_not_somebody_seals_it() {
    for room in [3000, 300, 11, 12, 13, 40] {
        let (home, _) = begun();
        fill(&home, room);
        add_successor(&home);
        let image = Image::of(&home, CAPACITY);
        for tail in tails(&home) {
            let tail = &tail[..tail.len().min(usize::try_from(room).unwrap() - 1)];
            let what = format!("room {room}, tail {tail:x?}");
            let home = image.home();
            home.append_bytes(1, tail);
            let unsealed = report(&home.profile);
            assert!(unsealed.uses.contains_key("successor"), "{what}");
            let compacted = image.home();
            compacted.append_bytes(1, tail);
            assert_eq!(compacted.compact().gaps, unsealed.gaps, "{what}");
            home.seal(1);
            assert_eq!(report(&home.profile), unsealed, "{what}");
            assert_eq!(home.used("more").segment, 2, "{what}");
            assert_eq!(home.compact().gaps, unsealed.gaps, "{what}");
        }
    }
}

#[test]
fn shrinking_to_the_capacity_never_changes_a_report() {
    for room in [3000, 300, 9, 10, 11, 12, 13, 40] {
        let (home, _) = begun();
        fill(&home, room);
        add_successor(&home);
        let image = Image::of(&home, CAPACITY);
        for tail in tails(&home) {
            for beyond in [1, 40, 2000] {
                let home = image.home();
                home.append_bytes(1, &tail);
                // A slow writer's frame begins wherever the file ends.
                let frame = home.frame(1, &use_payload(&"w".repeat(beyond)));
                if home.len(1) + (frame.len() as u64) < u64::from(CAPACITY) {
                    home.seal(1);
                }
                home.append_bytes(1, &frame);
                assert!(home.len(1) > u64::from(CAPACITY));
                let before = report(&home.profile);
                home.set_len(1, u64::from(CAPACITY));
                assert_eq!(report(&home.profile), before, "room {room}, tail {tail:x?}, beyond {beyond}");
                assert!(before.uses.keys().all(|name| !name.starts_with('w')));
            }
        }
    }
}
