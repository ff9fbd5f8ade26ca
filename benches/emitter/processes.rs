//! Real processes: emitters on one log, bare writers, a compactor, one that does next to nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hermes_log::{CompactOptions, Counter, Durability, Emitter, EmitterOptions, Event, Origin, Profile};

use crate::append::{Bare, SKILL};
use crate::caller::LIMIT;
use crate::children::{Children, PROCESSES};
use crate::logs::Home;
use crate::measure::{Effort, Row, Side, Target, interleave, time};
use crate::short;

/// Set for a child: what it is.
const ROLE: &str = "HERMES_LOG_BENCH_ROLE";
const HOME: &str = "HERMES_LOG_BENCH_HOME";
/// Frames of a bare write.
const FRAMES: u64 = 64;

pub fn command(role: &str, home: &Home) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(HOME, home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Whether this process is a child; if so, it has done all that it was told when this returns.
pub fn is_child() -> bool {
    let (Ok(role), Some(home)) = (std::env::var(ROLE), std::env::var_os(HOME)) else { return false };
    let profile = Profile::at(&home);
    match role.as_str() {
        "emit" => emit_or_write(&profile),
        "compact" => compact(&profile),
        "once" => short::once(&profile),
        role => panic!("no such role: {role}"),
    }
    true
}

/// Eight processes on one log, each event counted afterwards.
pub fn eight(effort: Effort) -> Row {
    let home = Home::new();
    let first = home.writer().append(&Event::used(SKILL), Durability::Process).unwrap();
    let len = home.frame(first).len();
    let mut bare = Bare::open(home.path());
    let mut children = Children::start_as(command("emit", &home), PROCESSES);
    let (each, mut emitted) = (effort.pick(64_000, 640_000), 1);
    let pair = interleave(effort.pick(3, 31), each * PROCESSES, |side| {
        if side == Side::Floor {
            bare.empty_if_long();
            return children.run(&format!("bare {}", len as u64 * FRAMES), each);
        }
        emitted += each * PROCESSES;
        children.run("emit", each)
    });
    children.end();
    let counted = home.profile.view().unwrap().skill(SKILL).map_or(0, |skill| skill.count(Counter::Use));
    assert_eq!(counted, emitted, "every event of every process counts");
    let what = format!("{PROCESSES} processes with emitters on one log, all {counted} events counted afterwards");
    let against = format!("{PROCESSES} processes with bare `write(2)` of {FRAMES} frames a call");
    Row::of_rates(what, against, pair, Target::Throughput(1.0))
}

fn emit_or_write(profile: &Profile) {
    let emitter = Emitter::new(profile.clone(), Origin::here("session"), EmitterOptions::default());
    let mut bare = Bare::open(profile.home());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            [times, "emit"] => {
                (0..times.parse().unwrap()).for_each(|_| emitter.emit(Event::used(SKILL)));
                emitter.flush(LIMIT).unwrap();
            }
            [times, "bare", len] => {
                bare.append(&vec![0xa5; len.parse().unwrap()], times.parse::<u64>().unwrap() / FRAMES);
            }
            _ => panic!("told to do {line:?}"),
        }
        println!("done");
    }
}

/// A process that compacts without a pause.
pub struct Compactor {
    child: Child,
}

impl Compactor {
    pub fn start(home: &Home) -> Compactor {
        let mut child = command("compact", home).spawn().unwrap();
        let mut begun = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
        Compactor { child }
    }

    /// How many compactions there were.
    pub fn end(mut self) -> u64 {
        drop(self.child.stdin.take());
        let output = BufReader::new(self.child.stdout.take().unwrap());
        let compactions = output.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).last();
        assert!(self.child.wait().unwrap().success());
        compactions.unwrap()
    }
}

fn compact(profile: &Profile) {
    let (sender, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().count();
        drop(sender);
    });
    let mut compactions = 0_u64;
    let options = CompactOptions { lock_wait: Duration::from_secs(10), retain: Duration::ZERO, ..Default::default() };
    while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
        profile.compact(&options).unwrap();
        compactions += 1;
        if compactions == 1 {
            println!();
        }
    }
    println!("{compactions}");
}

/// Runs a child that tells one number.
pub fn number_of(role: &str, home: &Home) -> u64 {
    let output = command(role, home).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// In a child: how long this took, in nanoseconds.
pub fn tell_time(work: impl FnOnce()) {
    println!("{}", time(work).as_nanos());
}
