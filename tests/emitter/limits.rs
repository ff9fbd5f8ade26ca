//! Waiting has a limit, and what is not allowed hurts nobody.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hermes_log::{EmitterOptions, Error, Event, Options, Profile};
use rustix::fs::{FlockOperation, flock};

use crate::support::emitting::{emit_uses, emitter, flush_until_all_is_in_the_log, is_waiting, plain, until};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Stood, Task, Worker, used};

const CAPACITY: u32 = 4096;

#[test]
fn an_event_that_is_not_allowed_is_counted_as_failed_and_hurts_nobody() {
    let home = Home::new(CAPACITY);
    let emitter = emitter(&home.profile, plain());
    let count_of_zero = Event::Viewed { skill: "pdf".into(), count: 0 };
    let set = r#"{"use_count":7}"#.into();
    let counted_field = Event::Fields { skill: "pdf".into(), set, unset: Vec::new() };
    // Allowed as such, but no frame of this log can hold it.
    let too_large = || Event::used("x".repeat(2000));
    let bad = [Event::used(""), count_of_zero, counted_field, Event::used("x".repeat(5000)), too_large(), too_large()];
    for (number, event) in (1..).zip(bad) {
        for skill in ["before", "after"] {
            emitter.emit(Event::used(format!("{skill}-{number}")));
            emitter.emit(event.clone());
            emitter.emit(Event::used(skill));
        }
        let error = emitter.flush(HANG).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        emitter.flush(HANG).unwrap();
        let view = home.view();
        let counts = [used(&view, "before"), used(&view, "after")];
        assert_eq!(counts, [number, number], "an event that is not allowed cost another one");
        assert_eq!(view.skills().len() as u64, 2 + 2 * number);
    }
    let counters = emitter.counters();
    assert_eq!(counters.emitted, 3 * 2 * 6);
    // Those that are too large in a row may have become one.
    assert!((10..=12).contains(&counters.failed), "{counters:?}");
    assert_eq!(counters.merged + counters.appended + counters.failed, counters.emitted);
}

#[test]
fn a_flush_returns_while_others_keep_emitting() {
    let home = Home::new(64 << 10);
    let emitter = emitter(&home.profile, EmitterOptions { channel_len: 4, ..plain() });
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let emitting: Vec<_> = (0..4)
            .map(|_| {
                threads.spawn(|| {
                    let mut emitted = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        emitter.emit(Event::used("others"));
                        emitted += 1;
                    }
                    emitted
                })
            })
            .collect();
        for round in 1..=20 {
            emitter.emit(Event::used("own"));
            let flushed = emitter.flush(HANG / 4);
            let seen = used(&home.view(), "own");
            is_over.store(round == 20 || flushed.is_err(), Ordering::Relaxed);
            flushed.unwrap();
            assert_eq!(seen, round);
        }
        let emitted: u64 = emitting.into_iter().map(|thread| thread.join().unwrap()).sum();
        emitter.flush(HANG).unwrap();
        assert_eq!(used(&home.view(), "others"), emitted);
    });
}

#[test]
fn a_flush_gives_up_after_its_limit_while_somebody_holds_everything_up() {
    let home = Home::new(CAPACITY);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("HERMES_LOG_STATFS", "6969"); // appends take a lock there
    let mut worker = Worker::start_as(command, "held up", home.path(), &[&CAPACITY], "");
    assert_eq!(worker.stand(), Stood::Done);
}

pub(crate) fn held_up(task: &Task) {
    let options = Options { capacity: Some(CAPACITY), allow_network_fs: true };
    let profile = Profile::at(&task.home).with_options(options);
    let emitter = emitter(&profile, plain());
    emitter.emit(Event::used("pdf"));
    emitter.flush(HANG).unwrap();
    let segment = std::fs::File::open(profile.log_folder().join(format!("{:020}.seg", 1))).unwrap();
    flock(&segment, FlockOperation::LockExclusive).unwrap();
    let mut emitted = 1;
    until("the background thread is held up", || {
        emitter.emit(Event::used("pdf"));
        emitted += 1;
        // It need not be this one that appends; if it is, it is held up itself, and the next time decides.
        std::thread::sleep(Duration::from_millis(20));
        matches!(emitter.flush(Duration::from_millis(1)), Err(Error::FlushTimeout { .. }))
    });
    flock(&segment, FlockOperation::Unlock).unwrap();
    flush_until_all_is_in_the_log(&emitter);
    assert_eq!(used(&profile.view().unwrap(), "pdf"), emitted);
}

#[test]
fn emitting_does_not_wait_for_a_flush_that_waits_for_the_log() {
    let home = Home::new(CAPACITY);
    let emitter = emitter(&home.profile, EmitterOptions { channel_len: 4, ..plain() });
    // The log cannot be written until everything is emitted.
    let folder = home.profile.log_folder();
    std::fs::write(&folder, "not a folder").unwrap();
    thread::scope(|threads| {
        emit_uses(&emitter, 0..1);
        let flushing = threads.spawn(|| emitter.flush(HANG / 5));
        until("the log cannot be written", || is_waiting(&emitter));
        emit_uses(&emitter, 1..100);
        assert!(!flushing.is_finished(), "the flush had to end before anybody could emit");
        std::fs::remove_file(&folder).unwrap();
        let _ = flushing.join().unwrap();
    });
    flush_until_all_is_in_the_log(&emitter);
    assert_eq!(home.view().events(), 100);
}
