//! A child of a process that emits: what was not yet written is the parent's, and the child starts anew.
#![allow(unsafe_code)] // fork

use hermes_log::Event;

use crate::support::emitting::{background_threads, emitter, plain};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Stood, Task, Worker, used};

const CAPACITY: u32 = 64 << 10;

#[test]
fn what_was_not_yet_written_at_a_fork_is_written_by_the_parent_alone() {
    let home = Home::new(CAPACITY);
    let mut worker = Worker::start("forked", home.path(), &[&CAPACITY], "");
    assert_eq!(worker.stand(), Stood::Done);
    let view = home.view();
    assert_eq!((used(&view, "parent"), used(&view, "child")), (30 * 1000, 20 * 7));
}

pub(crate) fn fork_with_a_full_channel(task: &Task) {
    let profile = task.profile();
    for round in 0..30 {
        let mut emitter = Some(emitter(&profile, plain()));
        let emit = |emitter: &hermes_log::Emitter, skill: &str, count| {
            (0..count).for_each(|_| emitter.emit(Event::used(skill.to_owned())));
        };
        emit(emitter.as_ref().unwrap(), "parent", 1000);
        // SAFETY: the child leaves by `_exit` and does nothing but emit; the C library makes its allocator usable there.
        match unsafe { libc::fork() } {
            0 => {
                let child = || {
                    assert_eq!(background_threads(), 0);
                    if round % 3 > 0 {
                        emit(emitter.as_ref()?, "child", 7);
                    }
                    if round % 3 == 1 {
                        emitter.as_ref()?.flush(HANG).ok()?;
                        assert_eq!(emitter.as_ref()?.counters().emitted, 7);
                    }
                    drop(emitter.take());
                    Some(())
                };
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                // SAFETY: it does not return.
                unsafe { libc::_exit(i32::from(!matches!(done, Ok(Some(()))))) }
            }
            pid => {
                assert!(pid > 0);
                let status = rustix::process::waitpid(
                    rustix::process::Pid::from_raw(pid),
                    rustix::process::WaitOptions::empty(),
                );
                assert_eq!(status.unwrap().unwrap().1.exit_status(), Some(0), "round {round}");
                emitter.as_ref().unwrap().flush(HANG).unwrap();
                assert_eq!(emitter.as_ref().unwrap().counters().emitted, 1000);
            }
        }
    }
}
