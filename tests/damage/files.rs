//! Whole files: missing, damaged, one after the other.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_log::compact::Snapshot;
use hermes_log::{Counter, Durability, Event, Gap, Position, Reason};

use crate::oracle::{CAPACITY, SmallLog, segment_file};
use crate::support::log_files::{Home, Image, report, uses};

/// A log of these segments, each sealed but the last, with one frame in each.
fn segments(last: u64) -> Home {
    let home = Home::new(CAPACITY);
    for number in 1..=last {
        if number > 1 {
            home.seal(number - 1);
        }
        assert_eq!(home.used(&format!("in-{number}")).segment, number);
    }
    home
}

fn missing(segment: u64) -> Gap {
    Gap { position: Position { segment, offset: 0 }, len: None, reason: Reason::SegmentMissing }
}

#[test]
fn damage_in_a_segment_that_is_kept_for_followers_is_found() {
    let home = segments(3);
    home.profile.compact(&Default::default()).unwrap();
    let before = home.profile.verify(|_| {}).unwrap();
    assert!(before.is_sound() && before.events > 3, "{before:?}");
    let mut bytes = fs::read(home.segment_path(1)).unwrap();
    bytes[80] ^= 1;
    fs::write(home.segment_path(1), bytes).unwrap();
    let after = home.profile.verify(|_| {}).unwrap();
    assert_eq!((after.gaps.len(), after.gaps[0].position.segment, after.events + 1), (1, 1, before.events));
}

#[test]
fn missing_segment_is_a_gap_of_unknown_size() {
    for lost in [vec![1], vec![2], vec![3], vec![1, 2, 3], vec![2, 3], vec![1, 3]] {
        let home = segments(4);
        for number in &lost {
            fs::remove_file(home.segment_path(*number)).unwrap();
        }
        let expected: Vec<Gap> = lost.iter().map(|number| missing(*number)).collect();
        let before = report(&home.profile);
        assert_eq!(before.gaps, expected);
        assert_eq!(before.uses.len(), 4 - lost.len());
        assert_eq!(home.compact().gaps, expected);
        let after = report(&home.profile);
        assert_eq!((after.uses, after.gaps), (before.uses, vec![]));
        assert_eq!(home.view().gaps().count, lost.len() as u64);
    }
}

#[test]
fn view_that_waits_at_a_segment_that_is_lost_reports_it_and_goes_on() {
    let home = Home::new(CAPACITY);
    home.used("in-1");
    home.seal(1);
    let mut view = home.view();
    assert_eq!(view.position().segment, 2, "nobody has needed segment 2 yet");
    view.refresh().unwrap();
    assert_eq!(view.gaps_met(), []);
    home.used("in-2");
    home.seal(2);
    home.used("in-3");
    fs::remove_file(home.segment_path(2)).unwrap();
    view.refresh().unwrap();
    assert_eq!(view.gaps_met(), [missing(2)]);
    assert_eq!(uses(&view).into_keys().collect::<Vec<_>>(), ["in-1", "in-3"]);
}

#[test]
fn segment_with_a_bad_header_is_one_gap_and_a_writer_creates_its_successor() {
    for len in [0, 10, 63, 64, 100, 5000] {
        let home = segments(2);
        let id = home.header(1).log_id;
        fs::write(home.segment_path(2), vec![0x55; len]).unwrap();
        let position = Position { segment: 2, offset: 0 };
        let gap = Gap { position, len: Some(len as u64), reason: Reason::SegmentHeader };
        assert_eq!(report(&home.profile).gaps, [gap]);
        let at = home.writer().append(&Event::used("in-3"), Durability::Disk).unwrap();
        assert_eq!((at.segment, home.len(2), home.header(3).log_id), (3, len as u64, id));
        let found = report(&home.profile);
        assert_eq!((found.gaps, found.uses.len()), (vec![gap], 2));
        assert_eq!(home.compact().gaps, [gap]);
        assert_eq!(home.view().gaps_met(), []);
        assert_eq!(uses(&home.view()).len(), 2);
    }
}

#[test]
fn segment_of_another_log_is_one_gap() {
    let (home, other) = (segments(3), segments(3));
    fs::copy(other.segment_path(2), home.segment_path(2)).unwrap();
    let position = Position { segment: 2, offset: 0 };
    let gap = Gap { position, len: Some(home.len(2)), reason: Reason::OtherLog };
    let found = report(&home.profile);
    assert_eq!((found.gaps, found.uses.len()), (vec![gap], 2));
    assert_eq!(home.compact().gaps, [gap]);
}

#[test]
fn segment_under_the_name_of_another_is_one_gap() {
    let home = segments(3);
    fs::copy(home.segment_path(1), home.segment_path(2)).unwrap();
    let found = report(&home.profile);
    assert_eq!((found.gaps.len(), found.gaps[0].reason), (1, Reason::SegmentHeader));
    assert_eq!(found.uses.into_iter().collect::<Vec<_>>(), [("in-1".into(), 1), ("in-3".into(), 1)]);
}

#[test]
fn no_checkpoint_at_all_is_the_empty_state_and_a_writer_makes_it_again() {
    let log = SmallLog::new();
    let mut changed = log.image.clone();
    changed.files.remove(Path::new("event-log/checkpoint-00000000000000000000"));
    log.check(&changed, true, "no checkpoint");
    let home = changed.home();
    home.view();
    assert!(home.checkpoints().is_empty(), "readers never write");
    home.used("more");
    assert_eq!(home.checkpoints(), [0]);
}

/// Two checkpoints, a segment that both may need, a live one, and `.usage.json` with work of others in it.
fn compacted() -> Home {
    let home = Home::new(CAPACITY);
    for round in 1..=3 {
        home.used("always");
        home.used(&format!("round-{round}"));
        home.compact();
    }
    home.edit(&home.profile.snapshot_path(), |bytes| {
        let mut records: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        records["round-1"]["use_count"] = 5.into();
        *bytes = serde_json::to_vec_pretty(&records).unwrap();
    });
    home.compact();
    home.used("always");
    home
}

#[test]
fn any_single_file_but_the_live_segment_can_be_lost_or_damaged_and_nothing_else_is_lost() {
    let original = compacted();
    let truth = uses(&original.view());
    assert_eq!((truth["always"], truth["round-1"]), (4, 5));
    let live = segment_file(*original.segments().last().unwrap());
    let mut files: Vec<PathBuf> = Image::of(&original, CAPACITY).files.into_keys().collect();
    files.retain(|file| *file != live);
    files.extend(["event-log/compact.lock", "event-log/ballast", "skills/.usage.json.lock"].map(PathBuf::from));
    assert_eq!(files.len(), 7, "{files:?}");
    type Way = (&'static str, fn(&Path));
    let ways: [Way; 5] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("emptied", |path| fs::write(path, b"").unwrap()),
        ("zeroed", |path| fs::write(path, vec![0; fs::metadata(path).unwrap().len() as usize]).unwrap()),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("written over", |path| fs::write(path, b"\xef\xbb\xbfnot what it was\0").unwrap()),
    ];
    for file in &files {
        for (way, damage) in ways {
            let home = compacted();
            let what = format!("{} {way}", file.display());
            let (mut open, mut writer) = (home.view(), home.writer());
            damage(&home.path().join(file));
            assert_eq!(uses(&home.view()), truth, "a new view, {what}");
            open.refresh().unwrap();
            assert_eq!(uses(&open), truth, "an open view, {what}");
            home.compact();
            assert_eq!(uses(&home.view()), truth, "after compaction, {what}");
            open.refresh().unwrap();
            assert_eq!(uses(&open), truth, "an open view after compaction, {what}");

            writer.append(&Event::used("always"), Durability::Process).unwrap();
            home.compact();
            let view = home.view();
            assert_eq!(view.skill("always").unwrap().count(Counter::Use), 5, "{what}");
            let verified = home.profile.verify(|_| {}).unwrap();
            assert!(verified.is_sound(), "{what}: {verified:?}");
            assert!(fs::read_to_string(home.profile.snapshot_path()).unwrap().contains("\"use_count\": 5"), "{what}");
        }
    }
}

#[test]
fn damaged_older_checkpoint_does_not_stop_the_compactions_of_an_idle_log() {
    let home = compacted();
    home.compact();
    let [older, _] = home.checkpoints()[..] else { panic!("not two checkpoints") };
    let truth = uses(&home.view());
    fs::write(home.checkpoint_path(older), b"damaged").unwrap();
    home.profile.compact(&Default::default()).unwrap();
    home.profile.compact(&Default::default()).unwrap();
    assert_eq!(uses(&home.view()), truth);
}

#[test]
fn missing_snapshot_is_written_again() {
    let home = compacted();
    home.compact();
    let before = fs::read(home.profile.snapshot_path()).unwrap();
    fs::remove_file(home.profile.snapshot_path()).unwrap();
    assert!(matches!(home.compact().snapshot, Snapshot::Written { external: 0 }));
    assert_eq!(fs::read(home.profile.snapshot_path()).unwrap(), before);
}

#[test]
fn bytes_of_a_gap_are_kept_when_its_segment_goes() {
    let home = Home::new(CAPACITY);
    home.used("first");
    let at = home.append_bytes(1, b"what nobody can read");
    home.used("second");
    let name = format!("segment-{:020}-offset-{at}", 1);
    let kept = |home: &Home| home.damaged().get(&name).cloned();
    let done = home.compact();
    assert_eq!(done.set_aside, [home.profile.log_folder().join("damaged").join(&name)]);
    while home.segments().contains(&1) {
        assert_eq!(kept(&home).as_deref(), Some(&b"what nobody can read"[..]));
        home.used("more");
        home.compact();
    }
    assert_eq!(kept(&home).as_deref(), Some(&b"what nobody can read"[..]));
    assert_eq!(home.view().gaps().newest.len(), 1, "history remembers it");
}
