//! For agents that must not wait even a microsecond: events go into a bounded channel, a background thread appends them.
//!
//! Whoever holds the `Core`'s lock drains the channel and appends, in the channel's order: usually the background
//! thread, at a [`flush`](Emitter::flush) or a full channel the caller. So nothing is dropped and nothing is reordered.

mod core;
mod merge;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, TrySendError};

use crate::error::{Error, Result};
use crate::event::{Event, Origin};
use crate::profile::Profile;
use crate::sys::posix::PerProcess;

use self::core::Core;
pub use self::core::Counters;
use self::merge::Queued;

/// After an append the thread lets events gather this long: one write for many, and no wake-up for each.
const LINGER: Duration = Duration::from_millis(1);
/// How often an idle thread looks whether something that could not be written can be now.
const IDLE: Duration = Duration::from_secs(1);
/// Pause between two looks while a limit runs.
const POLL: Duration = Duration::from_millis(1);

/// How an emitter behaves.
#[derive(Clone, Copy, Debug)]
pub struct EmitterOptions {
    /// Events that the channel holds; when it is full, a caller appends.
    pub channel_len: usize,
    /// Events that are kept while the log cannot be written; more are given up, and counted.
    pub backlog_len: usize,
    /// A compaction starts, in the background thread, when sealed segments above the floor pass this many bytes;
    /// `None`: never.
    pub compact_after: Option<u64>,
    /// How long dropping the emitter waits for the log.
    pub drop_limit: Duration,
}

impl Default for EmitterOptions {
    fn default() -> Self {
        EmitterOptions {
            channel_len: 32 << 10,
            backlog_len: 256 << 10,
            compact_after: Some(16 << 20),
            drop_limit: Duration::from_secs(5),
        }
    }
}

/// Emits events without waiting. Shared between threads by reference; usable in a forked child, where it starts anew:
/// what the parent had not written yet is the parent's.
///
/// What is emitted is *acknowledged* by a [`flush`](Self::flush) that succeeds; dropping the emitter flushes, also
/// while a panic unwinds. A process that is killed takes with it what was still in the channel.
#[derive(Debug)]
pub struct Emitter {
    profile: Profile,
    origin: Origin<'static>,
    options: EmitterOptions,
    /// At a fork another thread may hold its lock or be inside its channel, so a child makes its own.
    running: PerProcess<Running>,
    is_closed: AtomicBool,
}

/// One process's channel, core and thread.
#[derive(Debug)]
struct Running {
    sender: Sender<Queued>,
    receiver: Receiver<Queued>,
    core: Arc<Mutex<Core>>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Emitter {
    /// An emitter for a process of this origin. Nothing is opened and no thread runs before the first event.
    #[must_use]
    pub fn new(profile: Profile, origin: Origin<'static>, options: EmitterOptions) -> Emitter {
        Emitter { profile, origin, options, running: PerProcess::default(), is_closed: AtomicBool::new(false) }
    }

    /// Takes an event. Never fails its caller; an event that is not allowed is counted as failed and reported through
    /// `tracing` and the next [`flush`](Self::flush).
    #[inline]
    pub fn emit(&self, event: Event<'static>) {
        let running = self.running();
        match running.sender.try_send(event.into()) {
            Ok(()) => {}
            Err(TrySendError::Full(queued) | TrySendError::Disconnected(queued)) => running.emit_when_full(queued),
        }
    }

    /// Returns when everything that was emitted before is in the log.
    ///
    /// # Errors
    /// The first of what was lost since the last flush (events that were given up or not allowed), else what keeps the log
    /// from being written now: then events are kept, and tried again. [`Error::FlushTimeout`] when `limit` runs out.
    pub fn flush(&self, limit: Duration) -> Result<()> {
        self.running.get().map_or(Ok(()), |running| running.flush(limit))
    }

    /// What dropping it does: flushes, at most for [`EmitterOptions::drop_limit`], and tells of a failure through `tracing`.
    /// Dropping it later tries once more and waits for nothing.
    pub fn close(&self) {
        if let Err(e) = self.flush(self.options.drop_limit) {
            tracing::warn!(error = %e, "events were not written when the emitter was closed");
        }
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// What became of the events so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Some(running) = self.running.get() else { return Counters::default() };
        let mut counters = lock(&running.core).counters();
        counters.queued = running.receiver.len() as u64;
        counters.emitted += counters.queued;
        counters
    }

    #[inline]
    fn running(&self) -> &Running {
        self.running.get_or_init(|| Running::start(self))
    }
}

impl Drop for Emitter {
    fn drop(&mut self) {
        // In a forked child there is nothing to write before the child's own first event: the rest is the parent's.
        let limit = if *self.is_closed.get_mut() { Duration::ZERO } else { self.options.drop_limit };
        if let Some(running) = self.running.take()
            && let Err(e) = running.flush(limit)
        {
            tracing::warn!(error = %e, "events were not written when the emitter was dropped");
        }
    }
}

impl Running {
    fn start(emitter: &Emitter) -> Running {
        let (sender, receiver) = crossbeam_channel::bounded(emitter.options.channel_len.max(1));
        let (stop, stopped) = crossbeam_channel::bounded(1);
        let mut origin = emitter.origin.clone();
        origin.process = crate::process_id();
        let core = Arc::new(Mutex::new(Core::new(emitter.profile.clone(), origin, emitter.options)));
        let thread = std::thread::Builder::new().name("hermes-log".into()).spawn({
            let (receiver, core) = (receiver.clone(), Arc::clone(&core));
            let compactor = core::Compactor::new(emitter.profile.clone(), emitter.options.compact_after);
            move || run(&receiver, &stopped, &core, compactor)
        });
        if let Err(e) = &thread {
            tracing::warn!(error = %e, "no background thread; events are appended when the channel is full, and at a flush");
        }
        Running { sender, receiver, core, stop, thread: thread.ok() }
    }

    /// The channel is full: the caller appends what is in it, so that nothing is dropped, and then its own. If another
    /// thread is appending, that one makes room.
    #[cold]
    fn emit_when_full(&self, queued: Queued) {
        let mut queued = Some(queued);
        while let Some(still) = queued.take() {
            if let Some(mut core) = try_lock(&self.core) {
                core.drain(&self.receiver, self.receiver.len());
            }
            match self.sender.send_timeout(still, POLL) {
                Ok(()) => {}
                Err(SendTimeoutError::Timeout(still) | SendTimeoutError::Disconnected(still)) => queued = Some(still),
            }
        }
    }

    fn flush(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let mut left = None;
        loop {
            // Everything emitted before is in the channel, or with whoever has the lock, who appends it first.
            if let Some(mut core) = try_lock(&self.core) {
                core.drain(&self.receiver, left.unwrap_or(self.receiver.len()));
                left = Some(0);
                if core.try_again() || start.elapsed() >= limit {
                    return core.outcome();
                }
            } else if start.elapsed() >= limit {
                return Err(Error::FlushTimeout { waited: start.elapsed() });
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.try_send(());
        // A compaction under way is not waited for: it may die at any point.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn try_lock(core: &Mutex<Core>) -> Option<MutexGuard<'_, Core>> {
    match core.try_lock() {
        Ok(core) => Some(core),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    // A panic in the core would be a bug; what it left is whole batches.
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The background thread.
fn run(receiver: &Receiver<Queued>, stopped: &Receiver<()>, core: &Mutex<Core>, mut compactor: core::Compactor) {
    loop {
        // Waits without taking: an event is always in the channel or with the holder of the lock.
        let mut ready = crossbeam_channel::Select::new();
        ready.recv(receiver);
        let stop = ready.recv(stopped);
        match ready.ready_timeout(IDLE) {
            Ok(index) if index == stop => return,
            Ok(_) | Err(_) => {}
        }
        let position = {
            let mut core = lock(core);
            core.drain(receiver, receiver.len());
            core.position()
        };
        compactor.run_if_due(position);
        let begin = Instant::now();
        // Not for longer than until the channel is half full: else the callers would do this work.
        while begin.elapsed() < LINGER && receiver.len() <= receiver.capacity().unwrap_or(0) / 2 {
            match stopped.recv_timeout(LINGER / 8) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
