//! A busy emitter's process is forked at any moment, from any thread: no child hangs, nothing counts twice, nothing of
//! the parent's is lost.
#![allow(unsafe_code)] // fork and exec

mod support;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermes_log::{Durability, Emitter, EmitterOptions, Event, Origin, Profile};
use rustix::process::{Pid, WaitOptions};

use support::emitting::emitter;
use support::log_files::{Home, uses};
use support::processes::{HANG, Random, Stood, Task, Worker, is_long, tell};

const CAPACITY: u32 = 16 << 10;
const THREADS: u64 = 8;
/// Children of one thread at a time.
const MOST_CHILDREN: usize = 3;
/// A child that takes so long hangs.
const MOST_SECONDS: u32 = 50;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "fork under load" => fork_under_load(&task),
        "fork at the first event" => fork_at_the_first_event(&task),
        "after exec" => {
            let mut writer = task.profile().writer(Origin::here("cli")).unwrap();
            writer.append(&Event::used(task.words[1].clone()), Durability::Process).unwrap();
        }
        role => panic!("no such role: {role}"),
    }
}

#[test]
fn forks_at_any_moment_from_any_thread_lose_nothing_count_nothing_twice_and_do_not_hang() {
    let home = Home::new(CAPACITY);
    let mut random = Random::new();
    let end = Instant::now() + Duration::from_secs(if is_long() { 60 } else { 10 });
    let (mut children, mut compacted) = (0, 0);
    while Instant::now() < end {
        let seconds = end.saturating_duration_since(Instant::now()).as_secs().clamp(1, 5);
        let mut worker = Worker::start("fork under load", home.path(), &[&CAPACITY, &seconds, &random.next()], "");
        children += worker.told().expect("the worker says how many children it had").parse::<u64>().unwrap();
        assert_eq!(worker.stand(), Stood::Done);
        compacted = home.checkpoints().last().copied().unwrap_or(0);
    }
    assert!(children > 50, "only {children} children");
    assert!(compacted > 0, "no compaction was under way at any fork");
    assert!(home.profile.verify(|_| {}).unwrap().gaps.is_empty());
}

#[test]
fn a_fork_at_the_very_first_event_of_another_thread_makes_no_child_hang() {
    for _ in 0..if is_long() { 1000 } else { 40 } {
        let home = Home::new(CAPACITY);
        let mut worker = Worker::start("fork at the first event", home.path(), &[&CAPACITY], "");
        assert_eq!(worker.stand(), Stood::Done);
    }
}

/// What a child does. Chosen before the fork, so that the parent knows what must be in the log.
#[derive(Clone)]
struct Plan {
    skill: String,
    events: u64,
    way: Way,
}

/// How a child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It emits, flushes and leaves by `_exit`.
    Flush,
    /// It emits, and what it emitted is not flushed: it counts in part, and never twice.
    NoFlush,
    /// It flushes and exits as programs do, handlers included.
    Exit,
    /// It has an emitter of its own, which it drops.
    Own,
    /// A thread of its own emits; it flushes.
    Thread,
    /// It flushes, forks itself, its child does the same, then it does so again.
    Again,
    /// It flushes and becomes another program, which appends once.
    Exec,
    /// It becomes another program at once.
    ExecAtOnce,
}

const WAYS: [Way; 8] =
    [Way::Flush, Way::NoFlush, Way::Exit, Way::Own, Way::Thread, Way::Again, Way::Exec, Way::ExecAtOnce];

impl Plan {
    fn new(random: &mut Random, skill: String) -> Plan {
        Plan { skill, events: 1 + random.below(300), way: WAYS[random.below(WAYS.len() as u64) as usize] }
    }

    /// How often its skill must have been used: from, to.
    fn expected(&self) -> (u64, u64) {
        match self.way {
            Way::Flush | Way::Exit | Way::Own | Way::Thread => (self.events, self.events),
            Way::NoFlush => (0, self.events),
            Way::Again => (3 * self.events, 3 * self.events),
            Way::Exec => (self.events + 1, self.events + 1),
            Way::ExecAtOnce => (1, 1),
        }
    }
}

/// Everything that a child needs is made before the fork.
struct Host {
    profile: Profile,
    emitter: Emitter,
    program: CString,
}

impl Host {
    fn new(task: &Task) -> Host {
        let options = EmitterOptions { channel_len: 64, compact_after: Some(64 << 10), ..EmitterOptions::default() };
        let program = std::env::current_exe().unwrap();
        let program = CString::new(program.as_os_str().as_bytes()).unwrap();
        Host { emitter: emitter(&task.profile(), options), profile: task.profile(), program }
    }

    fn emit(&self, skill: &str, events: u64) {
        (0..events).for_each(|_| self.emitter.emit(Event::used(skill.to_owned())));
    }

    /// Forks a child that does as planned.
    fn fork(&self, plan: &Plan) -> Pid {
        let exec = Exec::new(self, plan);
        // SAFETY: the child uses the C library, whose allocator and handlers are made for this, and this crate, which is
        // what is tested; it never returns.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: no pointers. It ends a child that hangs, which the parent sees.
                unsafe { libc::alarm(MOST_SECONDS) };
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.child(plan, &exec)));
                // SAFETY: does not return.
                unsafe { libc::_exit(if matches!(done, Ok(Some(()))) { 0 } else { 9 }) }
            }
            pid => Pid::from_raw(pid).expect("fork failed"),
        }
    }

    fn child(&self, plan: &Plan, exec: &Exec) -> Option<()> {
        match plan.way {
            Way::ExecAtOnce => return exec.run(),
            Way::Own => {
                let own = Emitter::new(self.profile.clone(), Origin::here("sub-agent"), EmitterOptions::default());
                (0..plan.events).for_each(|_| own.emit(Event::used(plan.skill.clone())));
                return Some(());
            }
            Way::Thread => thread::scope(|threads| {
                threads.spawn(|| self.emit(&plan.skill, plan.events));
            }),
            _ => self.emit(&plan.skill, plan.events),
        }
        if plan.way == Way::NoFlush {
            return Some(());
        }
        self.emitter.flush(HANG).ok()?;
        match plan.way {
            Way::Exit => std::process::exit(0),
            Way::Exec => exec.run(),
            Way::Again => {
                self.wait(self.fork(&Plan { way: Way::Flush, ..plan.clone() }));
                self.emit(&plan.skill, plan.events);
                self.emitter.flush(HANG).ok()
            }
            _ => Some(()),
        }
    }

    fn wait(&self, child: Pid) {
        while !self.has_ended(child) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn has_ended(&self, child: Pid) -> bool {
        match rustix::process::waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            None => false,
            Some((_, status)) => {
                assert_eq!(status.exit_status(), Some(0), "a child could not do what it should: {status:?}");
                true
            }
        }
    }
}

/// Another program: this one, which appends one event. Nothing is allocated between the fork and it.
struct Exec {
    program: CString,
    environment: Vec<CString>,
}

impl Exec {
    fn new(host: &Host, plan: &Plan) -> Exec {
        let variables = Worker::environment("after exec", host.profile.home(), &[&CAPACITY, &plan.skill]);
        let variables = variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let environment = variables.into_iter().map(|variable| CString::new(variable).unwrap()).collect();
        Exec { program: host.program.clone(), environment }
    }

    /// Returns only if it fails.
    fn run(&self) -> Option<()> {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        let words =
            ["test", "worker", "--exact", "--test-threads=1", "--quiet"].map(|word| CString::new(word).unwrap());
        let (words, environment) = (pointers(&words), pointers(&self.environment));
        // SAFETY: strings that end in NUL, and arrays of them that end in null.
        unsafe { libc::execve(self.program.as_ptr(), words.as_ptr(), environment.as_ptr()) };
        None
    }
}

fn fork_under_load(task: &Task) {
    let host = Host::new(task);
    let before = uses(&host.profile.view().unwrap());
    let end = Instant::now() + Duration::from_secs(task.number(1));
    let mut random = Random::seeded(task.number(2));
    let process = std::process::id();
    let expected: Vec<BTreeMap<String, (u64, u64)>> = thread::scope(|threads| {
        let host = &host;
        let busy: Vec<_> = (0..THREADS)
            .map(|number| {
                let mut random = Random::seeded(random.next());
                threads.spawn(move || {
                    let mut expected = BTreeMap::new();
                    let own = format!("parent-{number}");
                    let (mut children, mut emitted) = (Vec::new(), 0);
                    while Instant::now() < end {
                        let events = random.below(2000);
                        host.emit(&own, events);
                        emitted += events;
                        if children.len() < MOST_CHILDREN {
                            let plan = Plan::new(&mut random, format!("child-{process}-{number}-{}", expected.len()));
                            children.push(host.fork(&plan));
                            expected.insert(plan.skill.clone(), plan.expected());
                        }
                        children.retain(|child| !host.has_ended(*child));
                    }
                    children.into_iter().for_each(|child| host.wait(child));
                    expected.insert(own, (emitted, emitted));
                    expected
                })
            })
            .collect();
        busy.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let Host { profile, emitter, .. } = host;
    emitter.flush(HANG).unwrap();
    let counters = emitter.counters();
    let own: u64 = expected.iter().flatten().filter(|(skill, _)| skill.starts_with("parent")).map(|(_, n)| n.0).sum();
    assert_eq!((counters.emitted, counters.failed), (own, 0));
    drop(emitter);
    let found = uses(&profile.view().unwrap());
    let mut children = 0;
    for (skill, (from, to)) in expected.iter().flatten() {
        let count = |uses: &BTreeMap<String, u64>| uses.get(skill).copied().unwrap_or(0);
        let used = count(&found) - count(&before);
        assert!((*from..=*to).contains(&used), "{skill} was used {used} times, not {from} to {to}");
        children += u64::from(skill.starts_with("child"));
    }
    tell(&children.to_string());
}

/// One thread forks while the others emit their first events.
fn fork_at_the_first_event(task: &Task) {
    let host = Host::new(task);
    let (ready, go) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = |number| Plan { skill: format!("child-{number}"), events: 1, way: Way::Flush };
    thread::scope(|threads| {
        for number in 0..THREADS {
            let (host, ready, go) = (&host, &ready, &go);
            threads.spawn(move || {
                ready.fetch_add(1, Ordering::Relaxed);
                while !go.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                if number % 2 == 0 {
                    host.emit("parent", 1);
                } else {
                    let child = host.fork(&plan(number));
                    host.wait(child);
                }
            });
        }
        while ready.load(Ordering::Relaxed) < THREADS {
            thread::yield_now();
        }
        go.store(true, Ordering::Relaxed);
    });
    host.emitter.flush(HANG).unwrap();
    let found = uses(&host.profile.view().unwrap());
    let children = (0..THREADS).filter(|number| number % 2 == 1).map(|number| (format!("child-{number}"), 1));
    assert_eq!(found, children.chain([("parent".to_owned(), THREADS / 2)]).collect());
}
