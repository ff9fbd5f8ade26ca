//! Compaction by itself: when the log asks for it, in the background, one at a time, and nobody is disturbed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::time::Instant;

use hermes_log::compact::Status;
use hermes_log::{EmitterOptions, Event};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::support::emitting::{Reports, emit_uses, emitter, until};
use crate::support::log_files::{Home, uses};
use crate::support::processes::{HANG, Stood, Task, Worker, tell, used, wait_for_go};

const CAPACITY: u32 = 4096;
const COMPACT_AFTER: u64 = 8 * CAPACITY as u64;

fn options() -> EmitterOptions {
    EmitterOptions { compact_after: Some(COMPACT_AFTER), ..EmitterOptions::default() }
}

fn holder(home: &Home) -> Option<String> {
    home.profile.locks()[0].1.clone()
}

#[test]
fn a_compaction_starts_by_itself_when_the_sealed_segments_pass_the_limit() {
    let home = Home::new(CAPACITY);
    let emitter = emitter(&home.profile, options());
    let mut rounds = 0;
    until("a compaction publishes a checkpoint", || {
        emit_uses(&emitter, 0..20);
        emitter.flush(HANG).unwrap();
        rounds += 1;
        home.checkpoints().last().is_some_and(|floor| *floor > 0)
    });
    let floor = home.checkpoints().into_iter().find(|floor| *floor > 0).unwrap();
    assert!(floor > COMPACT_AFTER / u64::from(CAPACITY), "compacted at segment {floor} already");
    until("it is done", || Status::read(&home.profile.log_folder()).unwrap().is_some() && holder(&home).is_none());
    let status = Status::read(&home.profile.log_folder()).unwrap().unwrap();
    assert_eq!((status.error.as_deref(), status.floor.is_some()), (None, true));
    assert!(home.profile.snapshot_path().exists());
    drop(emitter);
    assert!(uses(&home.view()).values().all(|count| *count == rounds));
}

#[test]
fn a_compaction_that_is_stuck_holds_up_nobody_who_emits() {
    let home = Home::new(CAPACITY);
    let skills = home.profile.snapshot_path().parent().unwrap().to_owned();
    fs::DirBuilder::new().mode(0o755).create(&skills).unwrap();
    let stock = OpenOptions::new().create(true).append(true).open(skills.join(".usage.json.lock")).unwrap();
    flock(&stock, FlockOperation::LockExclusive).unwrap();

    let emitter = emitter(&home.profile, EmitterOptions { channel_len: 16, ..options() });
    let mut emitted = 0;
    let mut emit = |count: u64| {
        emit_uses(&emitter, emitted..emitted + count);
        emitted += count;
        emitted
    };
    until("a compaction is under way", || {
        emit(20);
        emitter.flush(HANG).unwrap();
        holder(&home).is_some()
    });
    // The background thread is busy, so these are in the log because the callers appended.
    let emitted = emit(200);
    assert!(home.view().events() >= emitted - 16);
    emitter.flush(HANG).unwrap();
    assert_eq!(home.view().events(), emitted);
    assert_eq!(home.checkpoints(), [0], "the compaction was over already, so this proves nothing");
    flock(&stock, FlockOperation::Unlock).unwrap();
    until("it is done", || home.checkpoints().len() > 1);
    let view = home.view();
    assert_eq!(uses(&view).values().sum::<u64>(), emitted);
}

#[test]
fn of_two_processes_that_would_compact_one_does_and_the_other_goes_on() {
    let home = Home::new(CAPACITY);
    let start = |name: &str| Worker::start("emit on and on", home.path(), &[&CAPACITY, &name], "");
    let mut first = start("first");
    first.go_on();
    until("the first compacts", || {
        first.told_so_far().for_each(drop);
        let compacts = holder(&home).is_some();
        if compacts {
            first.signal(Signal::STOP);
            assert_eq!(first.stand(), Stood::Stopped);
            // It may have finished before it was stopped.
            let is_held = holder(&home).is_some();
            if !is_held {
                first.signal(Signal::CONT);
            }
            return is_held;
        }
        false
    });
    let checkpoints = home.checkpoints();
    let segments = home.segments().len();
    let mut second = start("second");
    second.go_on();
    until("the second has filled many segments", || {
        assert!(second.told().is_some(), "it ended");
        home.segments().len() > segments + 5 * (COMPACT_AFTER / u64::from(CAPACITY)) as usize
    });
    assert!(holder(&home).is_some());
    assert_eq!(home.checkpoints(), checkpoints, "somebody compacted beside the one who holds the lock");
    first.signal(Signal::CONT);
    until("somebody compacts again", || home.checkpoints() != checkpoints);
    for (worker, name) in [(first, "first"), (second, "second")] {
        assert_eq!(finish(worker), used(&home.view(), name), "{name}");
    }
}

/// Ends it, and returns how often it said that it emitted.
fn finish(mut worker: Worker) -> u64 {
    worker.go_on();
    let total = std::iter::from_fn(|| worker.told()).find_map(|line| line.strip_prefix("emitted ")?.parse().ok());
    assert_eq!(worker.stand(), Stood::Done);
    total.unwrap()
}

/// Emits and flushes until it is told to end.
pub(crate) fn emit_on_and_on(task: &Task) {
    let profile = task.profile();
    let emitter = emitter(&profile, options());
    let name = &task.words[1];
    wait_for_go();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        wait_for_go();
        let _ = sender.send(());
    });
    let mut emitted = 0_u64;
    while ended.try_recv().is_err() {
        emitter.emit(Event::used(name.clone()));
        emitter.emit(Event::viewed("x".repeat(500)));
        emitter.flush(HANG).unwrap();
        emitted += 1;
        tell("flushed");
    }
    drop(emitter);
    tell(&format!("emitted {emitted}"));
}

#[test]
fn a_compactor_that_fails_backs_off_and_disturbs_no_append() {
    let home = Home::new(CAPACITY);
    drop(home.writer());
    fs::create_dir(home.profile.log_folder().join("compact.lock")).unwrap();
    let mut worker = Worker::start("no lock to be had", home.path(), &[&CAPACITY], "");
    assert_eq!(worker.stand(), Stood::Done);
    fs::remove_dir(home.profile.log_folder().join("compact.lock")).unwrap();
    assert_eq!(home.compact().events, home.view().events());
}

pub(crate) fn no_lock_to_be_had(task: &Task) {
    let reports = Reports::listen();
    let start = Instant::now();
    let emitter = emitter(&task.profile(), options());
    let mut rounds = 0;
    let mut emit = || {
        emit_uses(&emitter, 0..20);
        emitter.flush(HANG).unwrap();
        rounds += 1;
    };
    until("a compaction fails", || {
        emit();
        reports.count("compaction failed") > 0
    });
    // Many more segments than it takes to start a compaction.
    (0..1000).for_each(|_| emit());
    let attempts = reports.count("compaction failed");
    let most = 1 + start.elapsed().as_secs() / 10;
    assert!(attempts as u64 <= most, "{attempts} attempts");
    assert_eq!(reports.all().len(), attempts, "{:#?}", reports.all());
    assert_eq!(emitter.counters().failed, 0);
    drop(emitter);
    let uses = uses(&task.profile().view().unwrap());
    assert!(uses.len() == 20 && uses.values().all(|count| *count == rounds));
}
