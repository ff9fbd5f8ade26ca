//! A log that cannot be written: events are kept up to a bound, the rest is counted, and nothing is written twice.

use std::fs;
use std::io::Write;
use std::time::Duration;

use hermes_log::{EmitterOptions, Error, Event};

use crate::support::emitting::{
    Reports, emit_uses, emitter, flush_until_all_is_in_the_log, is_waiting, mount_small, plain, until, with_own_mounts,
};
use crate::support::log_files::{Home, uses};
use crate::support::processes::{HANG, Stood, Task, Worker, profile};

const CAPACITY: u32 = 64 << 10;
const CANNOT_WRITE: &str = "the log cannot be written, events are kept";
const CAN_WRITE: &str = "can be written again";

fn run(role: &str, home: &Home, fault: &str) {
    let mut worker = Worker::start(role, home.path(), &[&CAPACITY], fault);
    assert_eq!(worker.stand(), Stood::Done);
}

#[track_caller]
fn assert_uses_of_each_skill(task: &Task, skills: u64, uses_each: u64) {
    let uses = uses(&profile(&task.home, CAPACITY).view().unwrap());
    assert_eq!(uses.len() as u64, skills);
    assert!(uses.values().all(|count| *count == uses_each), "{uses:?}");
}

#[test]
fn a_disk_that_stays_full_costs_what_is_beyond_the_bound_and_makes_one_report() {
    let home = Home::new(CAPACITY);
    // Two writes make the log, one appends.
    run("full disk for good", &home, "write@4+=ENOSPC");
    assert_eq!(home.view().events(), 1);
}

pub(crate) fn full_disk_for_good(task: &Task) {
    const BOUND: u64 = 1000;
    let reports = Reports::listen();
    let options = EmitterOptions { backlog_len: BOUND as usize, drop_limit: Duration::from_millis(50), ..plain() };
    let emitter = emitter(&task.profile(), options);
    emit_uses(&emitter, 0..1);
    emitter.flush(HANG).unwrap();
    for round in 0..5 {
        emit_uses(&emitter, round * 2000..(round + 1) * 2000);
        let error = emitter.flush(Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Error::GivenUp { .. }), "{error}");
        let counters = emitter.counters();
        assert!(counters.waiting <= BOUND && counters.waiting >= BOUND / 2, "kept up to the bound: {counters:?}");
        assert_eq!((counters.appended, counters.queued), (1, 0));
        assert_eq!((counters.waiting + counters.failed + 1, counters.merged), (counters.emitted, 0), "{counters:?}");
        assert_eq!(counters.failed, counters.given_up);
    }
    drop(emitter);
    let told = [CANNOT_WRITE, "were given up", "when the emitter was dropped"].map(|text| reports.count(text));
    assert_eq!((told, reports.all().len()), ([1, 1, 1], 3), "{:#?}", reports.all());
}

#[test]
fn when_a_folder_that_was_lost_is_back_what_was_kept_is_written_exactly_once() {
    run("no folder", &Home::new(CAPACITY), "");
}

pub(crate) fn no_folder(task: &Task) {
    let reports = Reports::listen();
    let profile = task.profile();
    let emitter = emitter(&profile, EmitterOptions { channel_len: 64, ..plain() });
    let (folder, aside) = (profile.log_folder(), task.home.join("aside"));
    for round in 1..=3 {
        emit_uses(&emitter, 0..1000);
        flush_until_all_is_in_the_log(&emitter);
        fs::rename(&folder, &aside).unwrap();
        fs::write(&folder, "not a folder").unwrap();
        // What comes before it is noticed goes into the folder that was moved.
        let mut emitted = 0;
        until("it is noticed", || {
            emit_uses(&emitter, emitted..emitted + 1);
            emitted += 1;
            is_waiting(&emitter)
        });
        assert!(emitted < 1000, "{emitted}");
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let part = (1000 - emitted) / 4 + 1;
                let skills = emitted + thread * part..(emitted + (thread + 1) * part).min(1000);
                threads.spawn(|| emit_uses(&emitter, skills));
            }
        });
        assert!(is_waiting(&emitter));
        assert!(emitter.counters().waiting > 0);
        fs::remove_file(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        flush_until_all_is_in_the_log(&emitter);
        assert_uses_of_each_skill(task, 1000, 2 * round);
        let counters = emitter.counters();
        assert_eq!((counters.waiting, counters.failed, counters.emitted), (0, 0, 2000 * round));
        let told = (reports.count(CANNOT_WRITE), reports.count(CAN_WRITE));
        assert_eq!(told, (round as usize, round as usize), "{:#?}", reports.all());
    }
}

#[test]
fn when_a_full_file_system_is_emptied_what_was_kept_is_written_exactly_once() {
    let Some(command) = with_own_mounts() else { return };
    let home = Home::new(CAPACITY);
    let mut worker = Worker::start_as(command, "full tmpfs", home.path(), &[&CAPACITY], "");
    assert_eq!(worker.stand(), Stood::Done);
    assert!(!home.profile.log_folder().exists(), "the log was on a file system of the worker's own");
}

pub(crate) fn full_tmpfs(task: &Task) {
    mount_small(&task.home, "1m");
    let reports = Reports::listen();
    let emitter = emitter(&task.profile(), plain());
    emit_uses(&emitter, 0..10);
    emitter.flush(HANG).unwrap();
    for round in 1..=3 {
        let ballast = task.home.join("others' files");
        let mut file = fs::File::create(&ballast).unwrap();
        while file.write_all(&[0xa5; 1000]).is_ok() {}
        // The rest of the segment's last page can still be had; the write that needs another one is cut short.
        let mut emitted = 0;
        until("there is no room", || {
            emit_uses(&emitter, emitted..(emitted + 10).min(1000));
            emitted = (emitted + 10).min(1000);
            is_waiting(&emitter)
        });
        emit_uses(&emitter, emitted..1000);
        assert!(is_waiting(&emitter));
        assert!(emitter.counters().waiting > 0);
        // Room for a part of it, page by page: what fits is written, and stays written.
        let appended = emitter.counters().appended;
        until("a part is written", || {
            file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
            assert!(is_waiting(&emitter), "all of it was written at once");
            emitter.counters().appended > appended
        });
        fs::remove_file(&ballast).unwrap();
        drop(file);
        flush_until_all_is_in_the_log(&emitter);
        let uses = uses(&profile(&task.home, CAPACITY).view().unwrap());
        let first: u64 = (0..1000).map(|n| uses[&format!("skill-{n}")] - u64::from(n < 10)).sum();
        assert_eq!((uses.len(), first), (1000, 1000 * round));
        assert!(uses.iter().all(|(_, count)| (round..=round + 1).contains(count)));
        let told = (reports.count(CANNOT_WRITE), reports.count(CAN_WRITE));
        assert_eq!(told, (round as usize, round as usize), "{:#?}", reports.all());
    }
    assert_eq!(emitter.counters().failed, 0);
}

#[test]
fn a_write_whose_end_the_system_will_not_tell_is_not_written_again() {
    let home = Home::new(CAPACITY);
    run("uncertain", &home, "offset@2=EIO");
    // The second write is uncertain: it is there, or not, once; the third is there.
    let uses = uses(&home.view());
    assert_eq!((uses["first"], uses["third"]), (1, 1));
    assert_eq!(uses.get("second").copied().unwrap_or(1), 1);
}

pub(crate) fn uncertain(task: &Task) {
    let emitter = emitter(&task.profile(), plain());
    emitter.emit(Event::used("first"));
    emitter.flush(HANG).unwrap();
    emitter.emit(Event::used("second"));
    emitter.flush(HANG).unwrap_err();
    emitter.emit(Event::used("third"));
    emitter.flush(HANG).unwrap();
    let counters = emitter.counters();
    assert_eq!((counters.appended, counters.unacknowledged, counters.waiting), (2, 1, 0));
}
