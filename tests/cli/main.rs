//! The contract of every command: what it does, what stdout and stderr carry, with `--json` and without, exit codes.

#[path = "../support/mod.rs"]
mod support;

mod compact;
mod demo;
mod due;
mod dump;
mod emit;
mod lines;
mod output;
mod show;
mod skill;
mod stat;
mod tail;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::log_files::Home;
use support::processes::HANG;

const CAPACITY: u32 = 64 << 10;

const DONE: i32 = 0;
const NOT_FOUND: i32 = 1;
const USAGE: i32 = 2;
const GAPS: i32 = 3;
const FAILED: i32 = 4;
const LOCKED: i32 = 75;

/// The program, in an environment that says nothing about profiles and colours.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-log"));
    for name in ["HERMES_HOME", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The same, for a profile.
fn of(home: &Path, words: &[&str]) -> Command {
    let mut command = program();
    command.args(words).arg("--home").arg(home);
    command
}

/// How a run of the program ended.
#[derive(Debug)]
struct Ran {
    exit: i32,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Ran {
    run_with_input(command, b"")
}

fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // Who ends before it has read everything has its reasons.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    Ran {
        exit: output.status.code().expect("it ends by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn on(home: &Home, words: &[&str]) -> Ran {
    run(&mut of(home.path(), words))
}

impl Ran {
    #[track_caller]
    fn exits(self, exit: i32) -> Ran {
        assert_eq!(self.exit, exit, "{self:#?}");
        self
    }

    /// Exit 0 and nothing on stderr.
    #[track_caller]
    fn quietly(self) -> Ran {
        let ran = self.exits(DONE);
        assert_eq!(ran.stderr, "");
        ran
    }

    /// The only JSON value on stdout.
    #[track_caller]
    fn json(&self) -> Value {
        let values = self.json_lines();
        assert_eq!(values.len(), 1, "{self:#?}");
        values.into_iter().next().unwrap()
    }

    fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// stderr must be JSON too.
    fn json_messages(&self) -> Vec<Value> {
        self.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A program that runs on, with `--json`, and what it prints. It dies with this.
struct Running {
    child: Child,
    stdout: Receiver<Value>,
    stderr: Receiver<Value>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, stdout: values(stdout), stderr: values(stderr) }
    }

    /// The next value on stdout.
    fn next(&self) -> Value {
        self.stdout.recv_timeout(HANG).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end, at which all of its output is there.
    fn exit(&mut self) -> Option<i32> {
        let end = Instant::now() + HANG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn values(pipe: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(pipe).lines().map_while(Result::ok);
        lines.map(|line| serde_json::from_str(&line).unwrap()).try_for_each(|value| sender.send(value))
    });
    receiver
}

/// A lock that this process holds.
struct Held(std::fs::File);

impl Held {
    fn lock(path: &Path) -> Held {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.lock().unwrap();
        Held(file)
    }
}

impl Held {
    fn folder(path: &Path) -> Held {
        let folder = std::fs::File::open(path).unwrap();
        folder.lock().unwrap();
        Held(folder)
    }
}

impl Drop for Held {
    /// Closing it would not do: another test may be starting a process, which has the descriptor for a moment.
    fn drop(&mut self) {
        self.0.unlock().unwrap();
    }
}

/// Names of a JSON object.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Makes the last frame of the live segment a gap: damaged, with a sound one behind it.
fn damage_last_frame(home: &Home, segment: u64) -> u64 {
    let end = home.len(segment);
    home.edit(&home.segment_path(segment), |bytes| *bytes.last_mut().unwrap() ^= 1);
    home.used("after-the-gap");
    end
}
