//! Waiting for a lock: in the kernel's queue, with a limit.
//!
//! A waiter that blocks in `flock` costs nothing, is woken at once, and gets its turn in the order of arrival; one that
//! dies or is stopped leaves the queue. But `flock` knows no limit, so a thread of its own blocks for the one who waits.
//! When the limit runs out, the thread cannot be called back. It goes on waiting, for the next attempt of this process at
//! the same lock, which adopts it and its place in the queue; if there is none it lets go at once of what it gets. So there
//! is at most one such thread for each thread that ever waited for that lock at the same time.
//!
//! The kernel gives a free lock to whoever asks first, and a woken waiter needs some microseconds to ask: a process that
//! releases and takes again would always win. So one that takes a lock which it has just released pauses first.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{Descriptor, poll, timeout};
use crate::error::Result;
use crate::sys::file::Stat;
use crate::sys::posix::PerProcess;

/// Between a release and the next attempt of the same process. Those that wait are woken well within it.
const PAUSE: Duration = Duration::from_millis(1);
/// The thread makes two system calls.
const STACK_LEN: usize = 128 << 10;

/// Device and inode.
type Key = (u64, u64);

/// This process's waits. A forked child has none of its parent's.
static WAITS: PerProcess<Mutex<Waits>> = PerProcess::new();

#[derive(Debug, Default)]
struct Waits {
    /// Threads that wait for nobody at the moment.
    abandoned: HashMap<Key, Vec<Arc<Waiter>>>,
    released: Vec<(Key, Instant)>,
}

/// What a waiting thread and the one that it waits for share.
#[derive(Debug, Default)]
struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_abandoned: bool,
    is_over: bool,
    got: Option<Result<Descriptor>>,
}

/// Takes the lock that a descriptor is open on. Returns the one that has it, which is another one if an earlier attempt is
/// still in the queue.
pub(super) fn wait(descriptor: Descriptor, stat: &Stat, limit: Duration, start: Instant) -> Result<Descriptor> {
    let key = (stat.device, stat.inode);
    pause_after_release(key);
    if descriptor.try_lock()? {
        return Ok(descriptor);
    }
    let adopted = std::iter::from_fn(|| waits().abandoned.get_mut(&key)?.pop()).find(|waiter| waiter.adopt());
    let mut left = limit.saturating_sub(start.elapsed());
    if adopted.is_some() {
        left = left.max(PAUSE); // it may be this process's own thread that has the lock at the moment
    } else if left.is_zero() {
        return Err(timeout(descriptor.0.path(), start));
    }
    let path = descriptor.0.path().to_owned();
    let waiter = match adopted {
        Some(waiter) => waiter,
        None => match start_thread(descriptor, key) {
            Ok(waiter) => waiter,
            Err(descriptor) => return poll(&descriptor.0, limit, start).map(|()| descriptor),
        },
    };
    let state = lock(&waiter.state);
    let is_waiting = |state: &mut State| state.got.is_none();
    let (mut state, _) =
        waiter.changed.wait_timeout_while(state, left, is_waiting).unwrap_or_else(PoisonError::into_inner);
    if let Some(got) = state.got.take() {
        return got;
    }
    state.is_abandoned = true;
    waits().abandoned.entry(key).or_default().push(Arc::clone(&waiter));
    drop(state); // the thread finds itself among the abandoned
    Err(timeout(&path, start))
}

/// Remembers a release, for the next attempt.
pub(super) fn note_release(stat: &Stat) {
    let now = Instant::now();
    let released = &mut waits().released;
    released.retain(|(_, at)| now.duration_since(*at) < PAUSE);
    released.push(((stat.device, stat.inode), now));
}

fn pause_after_release(key: Key) {
    let last = waits().released.iter().filter(|(released, _)| *released == key).map(|(_, at)| *at).max();
    if let Some(left) = last.and_then(|at| PAUSE.checked_sub(at.elapsed())) {
        std::thread::sleep(left);
    }
}

impl Waiter {
    /// Whether the thread still waits, now for the caller.
    fn adopt(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_abandoned = false;
        !state.is_over
    }
}

/// A thread that blocks until it has the lock. Without one, the descriptor comes back.
fn start_thread(descriptor: Descriptor, key: Key) -> Result<Arc<Waiter>, Descriptor> {
    let waiter = Arc::new(Waiter::default());
    let shared = Arc::clone(&waiter);
    let slot = Arc::new(Mutex::new(Some(descriptor)));
    let given = Arc::clone(&slot);
    let spawned = Builder::new().name("hermes-log lock".into()).stack_size(STACK_LEN).spawn(move || {
        let Some(descriptor) = lock(&given).take() else { return };
        let got = descriptor.lock().map(|()| descriptor);
        let mut state = lock(&shared.state);
        if !state.is_abandoned {
            state.got = Some(got);
            shared.changed.notify_one();
            return;
        }
        state.is_over = true;
        drop(state);
        drop(got); // nobody wants it any more
        let mut waits = waits();
        if let Some(others) = waits.abandoned.get_mut(&key) {
            others.retain(|other| !Arc::ptr_eq(other, &shared));
            if others.is_empty() {
                waits.abandoned.remove(&key);
            }
        }
    });
    let Err(error) = spawned else { return Ok(waiter) };
    tracing::debug!(%error, "no thread to wait in, the lock is asked for again and again");
    let unused = lock(&slot).take(); // the closure was dropped without having run
    unused.map_or(Ok(waiter), Err)
}

fn waits() -> MutexGuard<'static, Waits> {
    lock(WAITS.get_or_init(Mutex::default))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::budgets;
    use crate::lock::Lock;

    #[test]
    fn who_releases_and_takes_again_does_not_win_against_who_waits() {
        let home = tempfile::tempdir().unwrap();
        let take = || {
            let limit = Duration::from_secs(100);
            Lock::of_folder(home.path(), budgets::SKILL, limit, Instant::now()).unwrap().unwrap()
        };
        let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut passed_by: Vec<u64> = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _lock = take();
                    turns.fetch_add(1, Ordering::Relaxed);
                    let until = Instant::now() + Duration::from_micros(200);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
            });
            let waits = (0..50).map(|_| {
                let before = turns.load(Ordering::Relaxed);
                let lock = take();
                let passed_by = turns.load(Ordering::Relaxed) - before;
                drop(lock);
                std::thread::sleep(2 * PAUSE);
                passed_by
            });
            let passed_by = waits.collect();
            stop.store(true, Ordering::Relaxed);
            passed_by
        });
        passed_by.sort_unstable();
        assert!(passed_by[25] <= 2, "the other one had so many turns meanwhile: {passed_by:?}");
    }
}
