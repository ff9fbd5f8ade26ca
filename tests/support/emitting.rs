//! Emitters in tests: how they are set up, and what they report.

use std::fmt::Debug;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hermes_log::{Emitter, EmitterOptions, Error, Event, Origin, Profile};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use super::processes::{HANG, Random};

/// As users get it, but without compactions.
pub fn plain() -> EmitterOptions {
    EmitterOptions { compact_after: None, ..EmitterOptions::default() }
}

pub fn emitter(profile: &Profile, options: EmitterOptions) -> Emitter {
    Emitter::new(profile.clone(), Origin::here("session"), options)
}

/// One use of each of these skills.
pub fn emit_uses(emitter: &Emitter, skills: Range<u64>) {
    skills.for_each(|n| emitter.emit(Event::used(format!("skill-{n}"))));
}

/// Flushes until one says that everything is in the log; those before may tell what went wrong until then.
pub fn flush_until_all_is_in_the_log(emitter: &Emitter) {
    until("a flush succeeds", || emitter.flush(HANG).is_ok());
}

/// Whether the log cannot be written, and events are kept.
pub fn is_waiting(emitter: &Emitter) -> bool {
    loop {
        match emitter.flush(Duration::from_millis(20)) {
            Err(Error::FlushTimeout { .. }) => {} // somebody else was about to find out
            outcome => return matches!(outcome, Err(Error::Waiting { .. })),
        }
    }
}

/// Waits for something that comes by itself.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "it never happens that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An increment, or anything else that can happen to a skill.
pub fn any_event(random: &mut Random, skill: String) -> Event<'static> {
    let skill = skill.into();
    match random.below(24) {
        0 => Event::Forgotten { skill },
        1 => Event::Deleted { skill },
        2 => Event::Pinned { skill, pinned: random.below(2) == 0 },
        3 => Event::State {
            skill,
            state: [hermes_log::State::Stale, hermes_log::State::Active][random.below(2) as usize],
        },
        4 => Event::Archived { skill },
        5 => Event::Created { skill, by: "agent".into() },
        6 => Event::Fields { skill, set: format!(r#"{{"extra":{}}}"#, random.below(9)).into(), unset: Vec::new() },
        7 => Event::Edited { skill },
        8..12 => Event::Viewed { skill, count: 1 + random.below(3) },
        12..14 => Event::Patched { skill, count: 1 },
        _ => Event::Used { skill, count: 1 + random.below(3) },
    }
}

/// The background threads of this process.
pub fn background_threads() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    names.filter(|comm| fs::read_to_string(comm).is_ok_and(|name| name.trim() == "hermes-log")).count()
}

/// What the library tells through `tracing`, from `INFO` on, as one line each. For a whole process, so for workers only.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    pub fn listen() -> Reports {
        let reports = Reports::default();
        tracing::subscriber::set_global_default(reports.clone()).unwrap();
        reports
    }

    /// How many contain this.
    pub fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|report| report.contains(text)).count()
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Reports {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

/// This program in a mount namespace of its own, whose mounts go away with it. `None`, with a message, where this user
/// may not have one.
pub fn with_own_mounts() -> Option<Command> {
    unshared(&["--mount", "--user", "--map-root-user"], "true")
}

/// This program where inotify is not to be had.
pub fn without_inotify() -> Option<Command> {
    unshared(&["--user", "--map-root-user"], "echo 0 > /proc/sys/user/max_inotify_instances")
}

/// This program in namespaces of its own, in which a shell has done something first.
fn unshared(namespaces: &[&str], first: &str) -> Option<Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", script]);
        command
    };
    if !unshare(first).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a namespace of its own is not to be had here");
        return None;
    }
    let mut command = unshare(&format!(r#"{first} && exec "$0" "$@""#));
    command.arg(std::env::current_exe().unwrap());
    Some(command)
}

/// In such a program: a small file system in memory at `place`.
pub fn mount_small(place: &Path, len: &str) {
    let options = format!("size={len},mode=0700");
    let mut mount = Command::new("mount");
    assert!(mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place).status().unwrap().success());
}
