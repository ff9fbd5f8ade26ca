//! Worker processes: this test program again, running its test `worker`, which tells the test what it did over a pipe.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hermes_log::{CompactOptions, Counter, Options, Profile, View};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

const ROLE: &str = "HERMES_LOG_TEST_ROLE";
const HOME: &str = "HERMES_LOG_TEST_HOME";
const WORDS: &str = "HERMES_LOG_TEST_WORDS";
/// Begins what a worker tells; everything else on its output is the test harness's.
const TELL: &str = "tell: ";
/// Nothing here takes a second. Who waits this long waits for ever, and the test says so instead of hanging.
pub const HANG: Duration = Duration::from_secs(100);

/// What a worker was started for.
pub struct Task {
    pub role: String,
    pub home: PathBuf,
    pub words: Vec<String>,
}

impl Task {
    /// In a worker: its task. In a test run: `None`.
    pub fn given() -> Option<Task> {
        let variable = |name| std::env::var(name).ok();
        Some(Task {
            role: variable(ROLE)?,
            home: variable(HOME)?.into(),
            words: variable(WORDS)?.split(' ').map(str::to_owned).collect(),
        })
    }

    pub fn number(&self, index: usize) -> u64 {
        self.words[index].parse().unwrap()
    }

    /// The profile at the task's home, with the capacity that stands first among its words.
    pub fn profile(&self) -> Profile {
        profile(&self.home, u32::try_from(self.number(0)).unwrap())
    }
}

pub fn profile(home: &Path, capacity: u32) -> Profile {
    Profile::at(home).with_options(Options { capacity: Some(capacity), ..Options::default() })
}

/// In a worker: one line to the test, with one write, so that it is whole or not there.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{TELL}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// In a worker: waits until the test says [`Worker::go_on`].
pub fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

/// A worker process. It dies with this.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// How a worker came to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stood {
    /// A fault stopped it.
    Stopped,
    /// It passed its test.
    Done,
    /// A fault killed it.
    Killed,
}

impl Worker {
    /// Starts one. `words` begin with the capacity; `fault` is a plan for the fault seam, or empty.
    pub fn start(role: &str, home: &Path, words: &[&dyn std::fmt::Display], fault: &str) -> Worker {
        Worker::start_as(Command::new(std::env::current_exe().unwrap()), role, home, words, fault)
    }

    pub fn start_as(
        mut command: Command,
        role: &str,
        home: &Path,
        words: &[&dyn std::fmt::Display],
        fault: &str,
    ) -> Worker {
        command.args(["worker", "--exact", "--nocapture", "--test-threads=1"]);
        command.envs(Worker::environment(role, home, words)).stdin(Stdio::piped()).stdout(Stdio::piped());
        if !fault.is_empty() {
            command.env("HERMES_LOG_FAULT", fault);
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if let Some(told) = line.strip_prefix(TELL)
                    && sender.send(told.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Worker { child, input, lines }
    }

    /// What makes this program's test `worker` one of that role.
    pub fn environment(role: &str, home: &Path, words: &[&dyn std::fmt::Display]) -> [(&'static str, OsString); 3] {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        [(ROLE, role.into()), (WORDS, words.join(" ").into()), (HOME, home.into())]
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets it pass [`wait_for_go`].
    pub fn go_on(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    /// The next thing that it tells; `None` when it has ended.
    pub fn told(&self) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError;
        match self.lines.recv_timeout(HANG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the worker hangs"),
        }
    }

    /// The same, if it tells it within this time.
    pub fn told_within(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// What it has told and nobody has asked for yet.
    pub fn told_so_far(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.try_iter()
    }

    /// Waits until a fault stops or kills it, or it ends.
    pub fn stand(&mut self) -> Stood {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = rustix::process::waitid(WaitId::Pid(self.pid()), options).unwrap().unwrap();
        if status.stopped() {
            return Stood::Stopped;
        }
        let status = self.child.wait().unwrap();
        match status.signal() {
            Some(9) => Stood::Killed,
            _ => {
                assert!(status.success(), "the worker ended with {status}");
                Stood::Done
            }
        }
    }

    /// Lets a stopped worker go on to its end, and returns the last thing that it told.
    pub fn finish(mut self) -> Option<String> {
        self.signal(Signal::CONT);
        assert_eq!(self.stand(), Stood::Done);
        std::iter::from_fn(|| self.told()).last()
    }

    /// Lets a stopped worker that is, or will be, at [`wait_for_go`] go on to its end.
    pub fn finish_after_go(mut self) {
        self.go_on();
        self.finish();
    }

    /// Kills it, and returns what it had told and nobody had asked for.
    pub fn kill(mut self) -> Vec<String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::iter::from_fn(|| self.told()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A home on the disk (where the temporary files are), and one in memory where that can be had.
pub fn places() -> Vec<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    std::iter::once(std::env::temp_dir()).chain(memory.is_dir().then_some(memory)).collect()
}

/// Where tests run that take every system call in turn: both places if the long versions are wanted, else memory.
pub fn quick_places() -> Vec<PathBuf> {
    let mut places = places();
    if !is_long() {
        places.drain(..places.len() - 1);
    }
    places
}

/// One attempt for each lock, and nothing that is folded twice is kept.
pub fn at_once() -> CompactOptions {
    CompactOptions {
        lock_wait: Duration::ZERO,
        snapshot_wait: Duration::ZERO,
        retain: Duration::ZERO,
        ..CompactOptions::default()
    }
}

/// Uses of a skill.
pub fn used(view: &View, skill: &str) -> u64 {
    view.skill(skill).map_or(0, |s| s.count(Counter::Use))
}

/// Every record of a view.
pub fn records(view: &View) -> BTreeMap<String, serde_json::Map<String, serde_json::Value>> {
    view.skills().into_iter().map(|(name, skill)| (name.to_owned(), skill.record())).collect()
}

/// Whether the long versions of the tests are wanted.
pub fn is_long() -> bool {
    std::env::var_os("HERMES_LOG_LONG").is_some()
}

/// Random numbers that can be had again: `HERMES_LOG_SEED` chooses the seed, which is printed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let given = std::env::var("HERMES_LOG_SEED").ok().and_then(|seed| seed.parse().ok());
        let fresh = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.subsec_nanos().into()
        };
        let seed = given.unwrap_or_else(fresh);
        eprintln!("HERMES_LOG_SEED={seed}");
        Random(seed)
    }

    pub fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
