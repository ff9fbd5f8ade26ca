//! What `emit` costs its caller.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use hermes_log::{Emitter, EmitterOptions, Event, Origin};

use crate::append::SKILL;
use crate::logs::Home;
use crate::measure::{Effort, Row, Side, Target, interleave, time};

pub const LIMIT: Duration = Duration::from_secs(60);

pub fn emitter(home: &Home) -> Emitter {
    Emitter::new(home.profile.clone(), Origin::here("session"), EmitterOptions::default())
}

/// A channel of the emitter's length and a thread that takes everything out of it, as seldom as the emitter's does.
pub struct Drained {
    pub sender: Sender<Event<'static>>,
    receiver: Receiver<Event<'static>>,
}

impl Drained {
    pub fn new() -> Drained {
        let (sender, receiver) = crossbeam_channel::bounded(EmitterOptions::default().channel_len);
        let drain = receiver.clone();
        thread::spawn(move || {
            while drain.recv().is_ok() {
                drain.try_iter().for_each(drop);
                thread::sleep(Duration::from_millis(1));
            }
        });
        Drained { sender, receiver }
    }

    pub fn wait_until_empty(&self) {
        while !self.receiver.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Bursts that fit into the channel, from so many threads.
pub fn threads(effort: Effort, threads: u64) -> Row {
    let home = Home::new();
    let emitter = emitter(&home);
    let drained = Drained::new();
    let each = 12_000 / threads;
    let pair = interleave(effort.pick(20, 1000), each, |side| match side {
        Side::Ours => {
            let took = burst(threads, || (0..each).for_each(|_| emitter.emit(Event::used(SKILL))));
            emitter.flush(LIMIT).unwrap();
            took
        }
        Side::Floor => {
            let took = burst(threads, || (0..each).for_each(|_| drained.sender.send(Event::used(SKILL)).unwrap()));
            drained.wait_until_empty();
            took
        }
    });
    let counters = emitter.counters();
    assert_eq!(counters.merged + counters.appended, counters.emitted);
    let what = match threads {
        1 => "`emit` on the caller, one thread".to_owned(),
        _ => format!("`emit` on the caller, {threads} threads"),
    };
    Row::of_times(what, "crossbeam `send` of the same event, a thread drains", pair, Target::Times(1.5))
}

/// How long it takes a thread, on average.
fn burst(threads: u64, work: impl Fn() + Sync) -> Duration {
    let start = Barrier::new(threads as usize);
    let took: Duration = thread::scope(|scope| {
        let one = || {
            start.wait();
            time(&work)
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    took / threads as u32
}
