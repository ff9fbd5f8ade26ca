//! Promises P7, P9, P12: each system call fails in turn, once and for good; nothing panics, every error says what and where,
//! counts stay exact, nothing is written on the strength of a failed read, and afterwards everything works again.

mod support;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use hermes_log::compact::Snapshot;
use hermes_log::sys::fault;
use hermes_log::{Durability, Error, Event, Origin, Position, Profile, Result, Writer};
use support::processes::{at_once, is_long, places, profile, records, used};

const CAPACITY: u32 = 4096;
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EMFILE", "EACCES"];

fn home() -> (tempfile::TempDir, Profile) {
    let dir = tempfile::tempdir_in(places().last().unwrap()).unwrap();
    let profile = profile(dir.path(), CAPACITY);
    (dir, profile)
}

fn writer(profile: &Profile) -> Writer {
    profile.writer(Origin::here("session")).unwrap()
}

/// Does `act` once for each of its system calls, with a plan that makes that call fail: once, and it and all after it.
/// `act` arms it around what it tests.
fn each_call_failing(mut act: impl FnMut(&str)) {
    for error in ERRORS {
        for for_good in ["", "+"] {
            for call in 1.. {
                CALLS.set(0);
                let plan = format!("any@{call}{for_good}={error}");
                act(&plan);
                if CALLS.get() < call {
                    assert!(call > 3, "{plan}: only {} calls", CALLS.get());
                    break;
                }
            }
        }
    }
}

thread_local! {
    /// Made while a fault was armed.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The fault is armed as long as this is there.
struct Armed;

impl Armed {
    fn with(plan: &str) -> Armed {
        fault::arm(plan);
        Armed
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        CALLS.set(CALLS.get() + fault::disarm());
    }
}

/// A sentence for people that says what was tried, and where.
fn check_message(error: &Error, profile: &Profile, plan: &str) {
    let (text, home) = (error.to_string(), profile.home().display().to_string());
    assert!(text.contains(&home), "{plan}: the error does not say where: {text}");
    let is_told = ["cannot ", "kept changing"].iter().any(|phrase| text.contains(phrase));
    assert!(is_told, "{plan}: the error does not say what was tried: {text}");
}

/// Every file of a home that has content that counts.
fn files(profile: &Profile) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![profile.home().to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with(".lock") && name != "ballast" {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn an_append_whose_calls_fail_counts_what_it_says_that_it_counts() {
    // One event, and batches that straddle the capacity.
    for (events, batches) in [(1_u64, 1), (20, 12)] {
        for durability in [Durability::Process, Durability::Disk] {
            let mut outcomes = BTreeMap::new();
            each_call_failing(|plan| {
                let what = format!("{plan}, {events} x {batches}, {durability:?}");
                let (_dir, profile) = home();
                writer(&profile).append(&Event::used("before"), Durability::Process).unwrap();
                let batch = vec![Event::used("failing"); events as usize];
                let armed = Armed::with(plan);
                let opened = profile.writer(Origin::here("session"));
                let (mut opened, outcome) = match opened {
                    Ok(mut writer) => {
                        let outcome = writer.append_batches(&vec![&batch[..]; batches], durability);
                        (Some(writer), outcome)
                    }
                    Err(e) => (None, Err(e)),
                };
                drop(armed);
                let counted = used(&profile.view().unwrap(), "failing");
                assert_eq!(counted % events, 0, "{what}");
                let frames = (counted / events) as usize;
                match &outcome {
                    Ok(positions) => assert_eq!((frames, positions.len()), (batches, batches), "{what}"),
                    Err(Error::NotRecorded { recorded, total, .. }) => {
                        assert_eq!((frames, *total), (recorded.len(), batches), "{what}");
                        assert!(frames < batches, "{what}: not recorded, and all of it is");
                    }
                    Err(Error::NotDurable { recorded, .. }) => {
                        assert_eq!((frames, recorded.len()), (batches, batches), "{what}");
                    }
                    Err(Error::NotAcknowledged { .. }) => assert!(frames <= batches, "{what}"),
                    Err(_) => assert_eq!(frames, 0, "{what}"),
                }
                if let Err(e) = &outcome {
                    check_message(e, &profile, &what);
                }
                let kind =
                    outcome.map_or_else(|e| format!("{e:?}").split(' ').next().unwrap().to_owned(), |_| "Ok".into());
                *outcomes.entry(kind).or_insert(0) += 1;
                // The same writer goes on, and so do others.
                if let Some(writer) = &mut opened {
                    writer.append(&Event::used("before"), durability).unwrap();
                }
                writer(&profile).append(&Event::used("before"), durability).unwrap();
                for _ in 0..2 {
                    let view = profile.view().unwrap();
                    let expected = (2 + u64::from(opened.is_some()), counted);
                    assert_eq!((used(&view, "before"), used(&view, "failing")), expected, "{what}");
                    profile.compact(&at_once()).unwrap();
                }
            });
            let wanted: &[&str] = match durability {
                Durability::Process => &["NotAcknowledged", "NotRecorded", "Ok"],
                Durability::Disk => &["NotAcknowledged", "NotDurable", "NotRecorded", "Ok"],
            };
            assert!(wanted.iter().all(|kind| outcomes.contains_key(*kind)), "{outcomes:?}");
        }
    }
}

/// A home with two checkpoints, a snapshot that others have worked on, and events above the floor.
fn busy_home() -> (tempfile::TempDir, Profile) {
    let (dir, profile) = home();
    let mut writer = writer(&profile);
    for _ in 0..2 {
        for n in 0..60 {
            writer.append(&Event::used(["a", "b"][n % 2]), Durability::Process).unwrap();
        }
        profile.compact(&at_once()).unwrap();
    }
    let snapshot = fs::read_to_string(profile.snapshot_path()).unwrap();
    let bumped = snapshot.replace("\"use_count\": 60", "\"use_count\": 67");
    assert_ne!(snapshot, bumped);
    fs::write(profile.snapshot_path(), bumped).unwrap();
    for _ in 0..100 {
        writer.append(&Event::viewed("a"), Durability::Process).unwrap();
    }
    (dir, profile)
}

#[test]
fn reading_whose_calls_fail_is_an_error_and_writes_nothing() {
    type Read = fn(&Profile) -> Result<()>;
    let readers: [(&str, Read); 3] = [
        ("view", |profile| profile.view().map(drop)),
        ("verify", |profile| profile.verify(|_| {}).map(drop)),
        ("scan", |profile| profile.scan(None, |_| std::ops::ControlFlow::Continue(())).map(drop)),
    ];
    let (_dir, profile) = busy_home();
    let (before, values) = (files(&profile), records(&profile.view().unwrap()));
    for (name, read) in readers {
        each_call_failing(|plan| {
            let armed = Armed::with(plan);
            let outcome = read(&profile);
            drop(armed);
            if let Err(e) = &outcome {
                check_message(e, &profile, &format!("{name}, {plan}"));
            }
            assert_eq!(files(&profile), before, "{name}, {plan}: a reader wrote");
            assert_eq!(records(&profile.view().unwrap()), values, "{name}, {plan}");
        });
    }
}

#[test]
fn a_refresh_whose_calls_fail_leaves_a_view_that_goes_on_exactly() {
    for compactions in 0..3 {
        each_call_failing(|plan| {
            let (_dir, profile) = busy_home();
            let mut view = profile.view().unwrap();
            let mut last = used(&view, "a");
            writer(&profile).append(&Event::used("a"), Durability::Process).unwrap();
            for _ in 0..compactions {
                profile.compact(&at_once()).unwrap();
                writer(&profile).append(&Event::used("a"), Durability::Process).unwrap();
            }
            let before = files(&profile);
            let armed = Armed::with(plan);
            for _ in 0..2 {
                if let Err(e) = view.refresh() {
                    check_message(&e, &profile, plan);
                }
                assert!(used(&view, "a") >= last, "{plan}: went backwards");
                last = used(&view, "a");
            }
            drop(armed);
            assert_eq!(files(&profile), before, "{plan}: a reader wrote");
            view.refresh().unwrap();
            assert_eq!(records(&view), records(&profile.view().unwrap()), "{plan}");
        });
    }
}

#[test]
fn a_compaction_whose_calls_fail_changes_no_value_and_writes_nothing_for_a_failed_read() {
    each_call_failing(|plan| {
        let (_dir, profile) = busy_home();
        let (before, values) = (files(&profile), records(&profile.view().unwrap()));
        let mut old_view = profile.view().unwrap();
        let armed = Armed::with(plan);
        let outcome = profile.compact(&at_once());
        drop(armed);
        match &outcome {
            Ok(done) => {
                if let Snapshot::Busy(e) | Snapshot::Failed(e) = &done.snapshot {
                    check_message(e, &profile, plan);
                }
            }
            Err(e) => check_message(e, &profile, plan),
        }
        check_files(&before, &profile, &values, plan);
        for round in 0..2 {
            old_view.refresh().unwrap();
            assert_eq!(records(&old_view), values, "{plan}, old view, round {round}");
            assert_eq!(records(&profile.view().unwrap()), values, "{plan}, round {round}");
            let done = profile.compact(&at_once()).unwrap();
            assert!(matches!(done.snapshot, Snapshot::Unchanged | Snapshot::Written { .. }), "{plan}: {done:?}");
        }
        assert_eq!(in_snapshot(&profile), values, "{plan}");
        assert!(profile.verify(|_| {}).unwrap().is_sound(), "{plan}");
    });
}

#[test]
fn an_external_event_waits_until_the_one_before_it_is_in_a_checkpoint() {
    let (_dir, profile) = home();
    writer(&profile).append(&Event::used("a"), Durability::Process).unwrap();
    fs::create_dir_all(profile.snapshot_path().parent().unwrap()).unwrap();
    let stock = |uses: u64| fs::write(profile.snapshot_path(), format!(r#"{{"b": {{"use_count": {uses}}}}}"#)).unwrap();
    stock(1);
    // Appended, and then its segment cannot be synced: a power loss may take it, and who comes next cannot know.
    fault::arm("fdatasync@1+=EIO");
    let outcome = profile.compact(&at_once());
    fault::disarm();
    assert!(outcome.is_err(), "{outcome:?}");
    stock(3);
    let done = profile.compact(&at_once()).unwrap();
    let is_checkpoint = |name: &str| name.starts_with("checkpoint-");
    let names =
        fs::read_dir(profile.log_folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut checkpoints: Vec<String> = names.filter(|name| is_checkpoint(name)).collect();
    checkpoints.sort_unstable();
    let expected = [done.floor - 1, done.floor].map(|floor| format!("checkpoint-{floor:020}"));
    assert_eq!(checkpoints, expected, "one for what it builds on, one for itself");
    let view = profile.view().unwrap();
    assert_eq!((used(&view, "a"), used(&view, "b")), (1, 3));
    assert_eq!(in_snapshot(&profile), records(&view));
}

type Values = BTreeMap<String, serde_json::Map<String, serde_json::Value>>;

fn in_snapshot(profile: &Profile) -> Values {
    serde_json::from_slice(&fs::read(profile.snapshot_path()).unwrap()).unwrap()
}

/// Each file is what it was, or what it may become: a snapshot that says what the views say, a segment with more behind
/// what it had, nothing else.
fn check_files(before: &BTreeMap<PathBuf, Vec<u8>>, profile: &Profile, values: &Values, plan: &str) {
    let after = files(profile);
    for (path, was) in before {
        let is = after.get(path);
        let name = path.file_name().unwrap().to_str().unwrap();
        if is == Some(was) {
            continue;
        }
        match name.rsplit('.').next().unwrap() {
            "json" => assert_eq!(in_snapshot(profile), *values, "{plan}: the snapshot is neither the old nor the new"),
            "seg" => assert!(is.is_none_or(|is| is.starts_with(was)), "{plan}: {name} lost bytes"),
            _ => assert!(is.is_none() && name.starts_with("checkpoint-"), "{plan}: {name} changed"),
        }
    }
}

#[test]
fn after_a_failed_sync_the_event_counts_once_and_its_segment_takes_no_more() {
    for batches in [1, 12] {
        let (_dir, profile) = home();
        let mut writer = writer(&profile);
        writer.append(&Event::used("a"), Durability::Disk).unwrap();
        let batch = vec![Event::used("a"); 20];
        fault::arm("fdatasync@1+=EIO");
        let outcome = writer.append_batches(&vec![&batch[..]; batches], Durability::Disk);
        fault::disarm();
        let Err(Error::NotDurable { recorded, source }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(recorded.len(), batches);
        check_message(&source, &profile, "fdatasync");
        let failed = recorded.last().unwrap().segment;
        let path = profile.log_folder().join(format!("{failed:020}.seg"));
        assert!(fs::metadata(path).unwrap().len() >= u64::from(CAPACITY), "sealed");
        let next = writer.append(&Event::used("a"), Durability::Disk).unwrap();
        assert!(next.segment > failed, "{next} after a failed sync in {failed}");
        assert_eq!(used(&profile.view().unwrap(), "a"), 2 + 20 * batches as u64);
        profile.compact(&at_once()).unwrap();
        assert_eq!(used(&profile.view().unwrap(), "a"), 2 + 20 * batches as u64);
    }
}

/// Appends with a write cut to `len` bytes, and returns where the frames came to stand.
fn cut(profile: &Profile, batches: &[&[Event<'_>]], len: usize) -> Vec<Position> {
    let mut writer = writer(profile);
    writer.append(&Event::used("first"), Durability::Process).unwrap();
    fault::arm(&format!("write@1=short:{len}"));
    let positions = writer.append_batches(batches, Durability::Process);
    fault::disarm();
    positions.unwrap()
}

fn gap_lens(profile: &Profile) -> Vec<u64> {
    profile.view().unwrap().gaps_met().iter().filter_map(|gap| gap.len).collect()
}

#[test]
fn a_frame_of_600_bytes_cut_at_any_length_is_recorded_once_and_the_torn_bytes_are_a_gap() {
    let name = "x".repeat(551);
    let event = [Event::used(name.as_str())];
    let mut frame_len = 600;
    for len in 0..=600 {
        let (_dir, profile) = home();
        let positions = cut(&profile, &[&event], len);
        let view = profile.view().unwrap();
        assert_eq!((used(&view, &name), used(&view, "first")), (1, 1), "cut at {len}");
        let expected = if len == 0 || len >= frame_len { vec![] } else { vec![len as u64] };
        assert_eq!(gap_lens(&profile), expected, "cut at {len}");
        if len == 0 {
            let file = profile.log_folder().join(format!("{:020}.seg", positions[0].segment));
            frame_len = (fs::metadata(file).unwrap().len() - positions[0].offset) as usize;
            assert!((590..=600).contains(&frame_len), "{frame_len}");
        }
    }
}

#[test]
fn a_write_of_several_frames_cut_at_any_length_records_each_once() {
    let batches: Vec<Vec<Event<'_>>> = (1..6).map(|n| vec![Event::used("several"); n]).collect();
    let slices: Vec<&[Event<'_>]> = batches.iter().map(Vec::as_slice).collect();
    let mut gaps = 0;
    for len in 0..400 {
        let (_dir, profile) = home();
        let positions = cut(&profile, &slices, len);
        assert_eq!(positions.len(), 5);
        let view = profile.view().unwrap();
        assert_eq!((used(&view, "several"), used(&view, "first")), (15, 1), "cut at {len}");
        gaps += gap_lens(&profile).len();
        assert!(gap_lens(&profile).len() <= 1);
    }
    assert!(gaps > 200, "{gaps}");
}

#[test]
fn writes_that_are_always_short_end_in_an_error_and_not_in_an_endless_loop() {
    let (_dir, profile) = home();
    let mut writer = writer(&profile);
    writer.append(&Event::used("a"), Durability::Process).unwrap();
    for len in [0, 1, 20] {
        fault::arm(&format!("write@1+=short:{len}"));
        let outcome = writer.append(&Event::used("a"), Durability::Process);
        fault::disarm();
        assert!(matches!(&outcome, Err(Error::NotRecorded { recorded, .. }) if recorded.is_empty()), "{outcome:?}");
        check_message(&outcome.unwrap_err(), &profile, "short");
    }
    writer.append(&Event::used("a"), Durability::Process).unwrap();
    assert_eq!(used(&profile.view().unwrap(), "a"), 2);
}

#[test]
fn every_pair_of_failures_leaves_a_compaction_that_can_be_finished() {
    let most = if is_long() { 200 } else { 12 };
    for first in 1..=most {
        let (_dir, profile) = busy_home();
        let values = records(&profile.view().unwrap());
        let mut second = first;
        while second < 200 {
            fault::arm(&format!("any@{second}=EIO"));
            let _ = profile.compact(&at_once());
            let calls = fault::disarm();
            assert_eq!(records(&profile.view().unwrap()), values, "failing at {first} and every {most} on: {second}");
            if calls < second {
                break;
            }
            second += most;
        }
        profile.compact(&at_once()).unwrap();
        assert_eq!(in_snapshot(&profile), values, "failing at {first} and every {most} on");
    }
}
