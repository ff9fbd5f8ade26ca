//! What the holder of the emitter's lock works on: the writer, and what could not be written yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::compact::CompactOptions;
use crate::emitter::EmitterOptions;
use crate::emitter::merge::{Merged, Queued};
use crate::error::{Error, Result};
use crate::event::{Event, Origin};
use crate::log::Position;
use crate::log::writer::{Durability, Writer};
use crate::profile::Profile;
use crate::sys;

/// Events taken from the channel for one batch.
const BATCH_LEN: usize = 32 << 10;
/// What an event needs in a frame beside its texts, generously.
const EVENT_OVERHEAD_LEN: usize = 64;
/// A frame is cut here, in bytes: giving up what does not fit into the bound goes by frames.
const FRAME_LEN: usize = 16 << 10;
/// First and longest pause between two attempts to write.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// First and longest pause after a failed compaction.
const COMPACT_BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3600));

/// What became of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that were emitted.
    pub emitted: u64,
    /// Events that became part of another one, with a count.
    pub merged: u64,
    /// Events that are in the log, merged ones as one.
    pub appended: u64,
    /// Frames that were void and appended again.
    pub voided: u64,
    /// Events that are not in the log, or not known to be (merged ones as one): the sum of the next three.
    pub failed: u64,
    /// Events that are not allowed.
    pub refused: u64,
    /// Events that were given up while the log could not be written.
    pub given_up: u64,
    /// Events that were written without the system saying where: they count 0 or 1 times.
    pub unacknowledged: u64,
    /// Events in the channel.
    pub queued: u64,
    /// Events (merged ones as one) that wait for the log to become writable.
    pub waiting: u64,
}

/// A frame that is not written yet.
#[derive(Debug)]
struct Waiting {
    time_micros: u64,
    events: Vec<Event<'static>>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Core {
    profile: Profile,
    origin: Origin<'static>,
    backlog_len: usize,
    writer: Option<Writer>,
    merged: Merged,
    backlog: VecDeque<Waiting>,
    counters: Counters,
    /// Set while the log cannot be written.
    failing: Option<Failing>,
    position: Position,
    /// The first loss since the last flush.
    lost: Option<Error>,
}

/// The log cannot be written.
#[derive(Debug)]
struct Failing {
    /// When to try again, and how long to wait after that.
    due: Instant,
    pause: Duration,
    error: Arc<Error>,
    /// Whether events were given up already.
    gives_up: bool,
}

impl Core {
    pub(super) fn new(profile: Profile, origin: Origin<'static>, options: EmitterOptions) -> Core {
        Core {
            profile,
            origin,
            backlog_len: options.backlog_len,
            writer: None,
            merged: Merged::default(),
            backlog: VecDeque::new(),
            counters: Counters::default(),
            failing: None,
            position: Position::default(),
            lost: None,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let voided = self.writer.as_ref().map_or(0, Writer::voided);
        Counters { voided: self.counters.voided + voided, ..self.counters }
    }

    /// Where the last append went.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Takes `count` events from the channel and appends them, unless the log could not be written a moment ago.
    pub(super) fn drain(&mut self, receiver: &Receiver<Queued>, count: usize) {
        let mut left = count;
        while left > 0 {
            let batch = receiver.try_iter().take(left.min(BATCH_LEN));
            let mut taken = 0;
            for queued in batch {
                taken += 1;
                self.counters.emitted += 1;
                match self.merged.push(queued) {
                    Ok(is_merged) => self.counters.merged += u64::from(is_merged),
                    Err(e) => {
                        self.counters.refused += 1;
                        self.lose(1, e);
                    }
                }
            }
            if taken == 0 {
                break;
            }
            left -= taken;
            self.enqueue();
            self.write();
        }
        self.write(); // what waited before
    }

    /// Writes what waits, if it is time to try. Says whether nothing waits any more.
    pub(super) fn try_again(&mut self) -> bool {
        self.write();
        self.backlog.is_empty()
    }

    /// What was lost since the last time, else what keeps something waiting.
    pub(super) fn outcome(&mut self) -> Result<()> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        match &self.failing {
            Some(failing) if !self.backlog.is_empty() => {
                Err(Error::Waiting { frames: self.backlog.len(), source: Arc::clone(&failing.error) })
            }
            _ => Ok(()),
        }
    }

    /// Cuts what was merged into frames that fit.
    fn enqueue(&mut self) {
        let time_micros = sys::now_micros();
        let max_len = self.writer.as_mut().and_then(|writer| writer.max_payload_len().ok()).unwrap_or(FRAME_LEN);
        let most_events = (self.backlog_len / 4).max(1);
        let mut frame = Vec::new();
        let mut len = 0;
        for event in self.merged.take() {
            let event_len = EVENT_OVERHEAD_LEN + event.text_len();
            let is_full = len + event_len > max_len.min(FRAME_LEN) || frame.len() >= most_events;
            if is_full && !frame.is_empty() {
                self.backlog.push_back(Waiting { time_micros, events: std::mem::take(&mut frame) });
                len = 0;
            }
            len += event_len;
            self.counters.waiting += 1;
            frame.push(event);
        }
        if !frame.is_empty() {
            self.backlog.push_back(Waiting { time_micros, events: frame });
        }
    }

    fn write(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        if self.failing.as_ref().is_some_and(|failing| Instant::now() < failing.due) {
            return self.give_up();
        }
        while !self.backlog.is_empty() {
            if let Err(error) = self.write_some() {
                let (pause, gives_up) = match &self.failing {
                    Some(failing) => ((failing.pause * 2).min(BACKOFF.1), failing.gives_up),
                    None => {
                        tracing::warn!(%error, waiting = self.counters.waiting, "the log cannot be written, events are kept");
                        (BACKOFF.0, false)
                    }
                };
                self.failing = Some(Failing { due: Instant::now() + pause, pause, error: Arc::new(error), gives_up });
                return self.give_up();
            }
        }
        if self.failing.take().is_some() {
            tracing::info!("the log can be written again, what was kept is in it");
        }
    }

    /// Appends everything that waits, in as few writes as possible. What is in the log leaves the backlog, whatever the
    /// outcome: it is written exactly once.
    fn write_some(&mut self) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.profile.writer(self.origin.clone())?),
        };
        let frames = self.backlog.iter().map(|frame| (frame.time_micros, frame.events.as_slice()));
        let (recorded, uncertain, outcome) = match writer.append_at(frames, Durability::Process) {
            Ok(positions) => (positions, 0, Ok(())),
            Err(Error::NotRecorded { recorded, source, .. }) => (recorded, 0, Err(*source)),
            Err(Error::NotAcknowledged { recorded, uncertain, source }) => (recorded, uncertain, Err(*source)),
            Err(error) => (Vec::new(), 0, Err(error)),
        };
        self.position = recorded.last().copied().unwrap_or(self.position);
        self.counters.appended += self.leave_backlog(recorded.len());
        match outcome {
            // They count 0 or 1 times: trying again could make it 2.
            Err(error) if uncertain > 0 => {
                let events = self.leave_backlog(uncertain);
                self.counters.unacknowledged += events;
                self.lose(events, Error::NotAcknowledged { recorded: Vec::new(), uncertain, source: Box::new(error) });
                Ok(())
            }
            // The frame at the front is too large for this log's capacity.
            Err(error @ Error::Invalid { .. }) => {
                let events = self.leave_backlog(1);
                self.counters.refused += events;
                self.lose(events, error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Takes the oldest frames out of the backlog. Returns how many events they had.
    fn leave_backlog(&mut self, frames: usize) -> u64 {
        let events = self.backlog.drain(..frames.min(self.backlog.len())).map(|frame| frame.events.len() as u64).sum();
        self.counters.waiting = self.counters.waiting.saturating_sub(events);
        events
    }

    /// Gives up the oldest of what waits beyond the bound.
    fn give_up(&mut self) {
        let Some(failing) = &mut self.failing else { return };
        if self.counters.waiting <= self.backlog_len as u64 {
            return;
        }
        let error = Error::GivenUp { bound: self.backlog_len, source: Arc::clone(&failing.error) };
        if !std::mem::replace(&mut failing.gives_up, true) {
            tracing::warn!(%error);
        }
        let mut events = 0;
        while self.counters.waiting > self.backlog_len as u64 && !self.backlog.is_empty() {
            events += self.leave_backlog(1);
        }
        self.counters.given_up += events;
        self.lose(events, error);
    }

    fn lose(&mut self, events: u64, error: Error) {
        tracing::debug!(%error, events, "events are not recorded");
        self.counters.failed += events;
        self.lost.get_or_insert(error);
    }
}

/// Compaction by itself: in the background thread, with one try for the lock.
#[derive(Debug)]
pub(super) struct Compactor {
    profile: Profile,
    after: Option<u64>,
    /// The segment at which it was last asked.
    segment: u64,
    /// After a failure: not before, and the pause.
    failing: Option<(Instant, Duration)>,
}

impl Compactor {
    pub(super) fn new(profile: Profile, after: Option<u64>) -> Compactor {
        Compactor { profile, after, segment: 0, failing: None }
    }

    /// Asked after each batch; looks at the folder only when appends have reached another segment.
    pub(super) fn run_if_due(&mut self, position: Position) {
        let Some(after) = self.after else { return };
        if position.segment == self.segment || self.failing.is_some_and(|(due, _)| Instant::now() < due) {
            return;
        }
        self.segment = position.segment;
        match self.profile.unfolded_len() {
            Ok(len) if len <= after => return,
            Ok(_) => {}
            Err(error) => return tracing::debug!(%error, "the log's size is not known"),
        }
        let options = CompactOptions { lock_wait: Duration::ZERO, ..CompactOptions::default() };
        match self.profile.compact(&options) {
            Ok(_) => self.failing = None,
            Err(Error::LockTimeout { .. }) => {} // somebody else is at it
            Err(error) => {
                let pause = self.failing.map_or(COMPACT_BACKOFF.0, |(_, pause)| (pause * 2).min(COMPACT_BACKOFF.1));
                tracing::warn!(%error, ?pause, "compaction failed");
                self.failing = Some((Instant::now() + pause, pause));
            }
        }
    }
}
