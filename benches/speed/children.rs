//! Real processes: this program runs itself again, and each child does as it is told, line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hermes_log::{Durability, Event, Origin, Profile, Writer};

use crate::append::{Bare, SKILL};

pub const PROCESSES: u64 = 8;
/// Set for a child: the home that it works on.
const CHILD: &str = "HERMES_LOG_BENCH_CHILD";

/// As many children on one home.
pub struct Children(Vec<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Children {
    pub fn start(home: &Path, count: u64) -> Children {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(CHILD, home);
        Children::start_as(command, count)
    }

    /// Children that are another program, which takes the same words.
    pub fn start_as(mut command: Command, count: u64) -> Children {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = || {
            let mut child = command.spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            (child, stdin, BufReader::new(stdout))
        };
        Children((0..count).map(|_| child()).collect())
    }

    /// All of them do it so often: from the word to the first until the last is done.
    pub fn run(&mut self, what: &str, times: u64) -> Duration {
        let start = Instant::now();
        for (_, stdin, _) in &mut self.0 {
            stdin.write_all(format!("{times} {what}\n").as_bytes()).unwrap();
        }
        for (_, _, stdout) in &mut self.0 {
            let mut answer = String::new();
            stdout.read_line(&mut answer).unwrap();
            assert_eq!(answer, "done\n");
        }
        start.elapsed()
    }

    pub fn end(self) {
        for (mut child, stdin, _) in self.0 {
            drop(stdin);
            assert!(child.wait().unwrap().success());
        }
    }
}

/// Whether this process is a child; if so, it has done all that it was told when this returns.
pub fn is_child() -> bool {
    let Some(home) = std::env::var_os(CHILD).map(PathBuf::from) else { return false };
    let event = Event::used(SKILL);
    let mut writer: Option<Writer> = None;
    let mut bare = Bare::open(&home);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            [times, "log"] => {
                let open = || Profile::at(&home).writer(Origin::here("session")).unwrap();
                let writer = writer.get_or_insert_with(open);
                for _ in 0..times.parse().unwrap() {
                    writer.append(&event, Durability::Process).unwrap();
                }
            }
            [times, "bare", len] => bare.append(&vec![0xa5; len.parse().unwrap()], times.parse().unwrap()),
            _ => panic!("told to do {line:?}"),
        }
        println!("done");
    }
    true
}
