//! Appending: one process, eight, batches.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use hermes_log::log::format::DEFAULT_CAPACITY;
use hermes_log::{Counter, Durability, Event};

use crate::children::{Children, PROCESSES};
use crate::logs::{Home, Skills};
use crate::measure::{Effort, Pair, Row, Side, Target, interleave, time};

/// What the rows of one event append.
pub const SKILL: &str = "pdf-forms";
const BATCH: usize = 64;
/// The stricter floor.
pub const INLINED: &str = "the same system calls inlined into the loop, so that no function returns after them";

/// A file for bare appends. Its pages are as fresh as a log's, which has a new segment now and then: it is emptied when
/// it has the length of one.
pub struct Bare(File);

impl Bare {
    pub fn open(home: &Path) -> Bare {
        Bare(OpenOptions::new().create(true).append(true).open(home.join("bare")).unwrap())
    }

    pub fn empty_if_long(&mut self) {
        if self.0.metadata().unwrap().len() >= u64::from(DEFAULT_CAPACITY) {
            self.0.set_len(0).unwrap();
        }
    }

    /// Appends `bytes` so often, each with one `write(2)` of the C library.
    pub fn append(&mut self, bytes: &[u8], times: u64) {
        for _ in 0..times {
            assert_eq!(self.0.write(bytes).unwrap(), bytes.len());
        }
    }

    /// The same without a function around the system call: nothing returns to a caller between two of them.
    pub fn append_inlined(&mut self, bytes: &[u8], times: u64) {
        for _ in 0..times {
            assert_eq!(rustix::io::write(&self.0, bytes).unwrap(), bytes.len());
        }
    }
}

/// One event in one process.
pub fn single(effort: Effort) -> Vec<Row> {
    let what = |len| format!("append of one event ({len} bytes), one process");
    against_both(what, effort.pick(20, 2000), 500, &[Event::used(SKILL)], 1.5)
}

/// A batch in one frame.
pub fn batch(effort: Effort) -> Vec<Row> {
    let what = |len| format!("a batch of {BATCH} events in one write ({len} bytes)");
    against_both(what, effort.pick(20, 1000), 200, &Skills::new().take(BATCH), 2.0)
}

/// A row for each of the two ways to make a system call: where a return after one is expensive they are far apart.
fn against_both(what: impl Fn(usize) -> String, rounds: usize, each: u64, events: &[Event<'_>], most: f64) -> Vec<Row> {
    let (pair, len) = alone(rounds, each, events, Bare::append);
    let library = Row::of_times(what(len), "`write(2)` of the same bytes", pair, Target::Times(most));
    let (pair, _) = alone(rounds, each, events, Bare::append_inlined);
    vec![library, Row::of_times("the same", INLINED, pair, Target::Times(most))]
}

fn alone(rounds: usize, each: u64, events: &[Event<'_>], floor: fn(&mut Bare, &[u8], u64)) -> (Pair, usize) {
    let home = Home::new();
    let mut writer = home.writer();
    let frame = home.frame(writer.append_batch(events, Durability::Process).unwrap());
    let mut bare = Bare::open(home.path());
    let pair = interleave(rounds, each, |side| match side {
        Side::Ours => time(|| {
            for _ in 0..each {
                writer.append_batch(events, Durability::Process).unwrap();
            }
        }),
        Side::Floor => {
            bare.empty_if_long();
            time(|| floor(&mut bare, &frame, each))
        }
    });
    (pair, frame.len())
}

/// Eight processes on one log, each event counted afterwards.
pub fn processes(effort: Effort) -> Row {
    let home = Home::new();
    let first = home.writer().append(&Event::used(SKILL), Durability::Process).unwrap();
    let len = home.frame(first).len();
    let mut bare = Bare::open(home.path());
    let mut children = Children::start(home.path(), PROCESSES);
    let (each, mut appended) = (effort.pick(1000, 5000), 1);
    let pair = interleave(effort.pick(3, 101), each * PROCESSES, |side| {
        if side == Side::Floor {
            bare.empty_if_long();
            return children.run(&format!("bare {len}"), each);
        }
        appended += each * PROCESSES;
        children.run("log", each)
    });
    children.end();
    let counted = home.profile.view().unwrap().skill(SKILL).map_or(0, |skill| skill.count(Counter::Use));
    assert_eq!(counted, appended, "every event of every process counts");
    let what = format!("the same, {PROCESSES} processes on one log, all {counted} events counted afterwards");
    let against = format!("the same {PROCESSES} processes with bare `write(2)`");
    Row::of_rates(what, against, pair, Target::Throughput(0.75))
}
