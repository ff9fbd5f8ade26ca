//! What a process costs that does next to nothing: no thread before the first event, and thousands of them are exact.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hermes_log::{Durability, Event, Origin};

use crate::support::emitting::{background_threads, emitter, plain};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Stood, Task, Worker, tell, used};

const CAPACITY: u32 = 4096;

fn run(role: &str, home: &Path, words: &[&dyn std::fmt::Display]) {
    let words: Vec<_> = [&CAPACITY as &dyn std::fmt::Display].into_iter().chain(words.iter().copied()).collect();
    let mut worker = Worker::start(role, home, &words, "");
    assert_eq!(worker.stand(), Stood::Done);
}

#[test]
fn no_thread_runs_before_the_first_event_and_none_for_an_append() {
    run("threads", Home::new(CAPACITY).path(), &[]);
}

pub(crate) fn count_threads(task: &Task) {
    let profile = task.profile();
    let mut writer = profile.writer(Origin::here("session")).unwrap();
    writer.append(&Event::used("pdf"), Durability::Process).unwrap();
    let emitter = emitter(&profile, plain());
    assert_eq!(background_threads(), 0, "after an append");
    emitter.flush(HANG).unwrap();
    assert_eq!(emitter.counters().emitted, 0);
    assert_eq!(background_threads(), 0, "before the first event");
    emitter.emit(Event::used("pdf"));
    // A thread names itself only once it runs.
    let start = std::time::Instant::now();
    while background_threads() != 1 {
        assert!(start.elapsed() < HANG && background_threads() < 2);
        thread::yield_now();
    }
    tell("counted");
}

#[test]
fn hundreds_of_processes_that_append_once_count_exactly() {
    const PROCESSES: u64 = 500;
    let home = Home::new(CAPACITY);
    let started = AtomicU64::new(0);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while started.fetch_add(1, Ordering::Relaxed) < PROCESSES {
                    run("append once", home.path(), &[&"by-writer"]);
                    run("append once", home.path(), &[&"by-emitter"]);
                }
            });
        }
    });
    let view = home.view();
    assert_eq!((used(&view, "by-writer"), used(&view, "by-emitter")), (PROCESSES, PROCESSES));
    assert!(home.segments().len() > 5 && view.gaps_met().is_empty());
}

pub(crate) fn append_once(task: &Task) {
    let profile = task.profile();
    if task.words[1] == "by-writer" {
        let mut writer = profile.writer(Origin::here("cron")).unwrap();
        writer.append(&Event::used("by-writer"), Durability::Process).unwrap();
    } else {
        emitter(&profile, plain()).emit(Event::used("by-emitter"));
    }
}
