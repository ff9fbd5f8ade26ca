//! What neither std nor rustix has: a handler for `fork`, a value for each process, a signal held off. All unsafe code is
//! here.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};

use crate::budgets::MOST_LOCKS;

static GENERATION: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Forks of this process that began and that ended: equal while none is under way.
static FORKS_BEGUN: AtomicU64 = AtomicU64::new(0);
static FORKS_ENDED: AtomicU64 = AtomicU64::new(0);
/// Descriptors that a child closes before it does anything else; -1: free.
static CLOSED_IN_CHILD: [AtomicI32; MOST_LOCKS] = [const { AtomicI32::new(-1) }; MOST_LOCKS];

extern "C" fn before_fork() {
    FORKS_BEGUN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_parent() {
    FORKS_ENDED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    FORKS_ENDED.store(FORKS_BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
    for descriptor in &CLOSED_IN_CHILD {
        let number = descriptor.swap(-1, Ordering::SeqCst);
        if number >= 0 {
            // SAFETY: the number is the child's own copy, and whoever owns it in the parent never closes it here.
            unsafe { libc::close(number) };
        }
    }
}

/// An open file that no forked child keeps: its copy of the descriptor is closed before the child does anything else, and
/// what the child has of this is only a name. Its owner must ask [`is_own`](Self::is_own) before it uses it.
#[derive(Debug)]
pub(crate) struct Unshared<T: AsRawFd> {
    file: ManuallyDrop<T>,
    slot: usize,
    generation: u64,
}

impl<T: AsRawFd> Unshared<T> {
    /// Opens a file that no child will have, also when another thread forks meanwhile. `None`: all slots are taken.
    pub(crate) fn open<E>(open: impl Fn() -> Result<T, E>) -> Result<Option<Self>, E> {
        loop {
            let generation = fork_generation();
            let ended = FORKS_ENDED.load(Ordering::SeqCst);
            let file = open()?;
            let number = file.as_raw_fd();
            let is_free =
                |slot: &AtomicI32| slot.compare_exchange(-1, number, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            let Some(slot) = CLOSED_IN_CHILD.iter().position(is_free) else { return Ok(None) };
            let unshared = Unshared { file: ManuallyDrop::new(file), slot, generation };
            // A fork between the opening and the entry would have copied the descriptor without knowing of it.
            if FORKS_BEGUN.load(Ordering::SeqCst) == ended {
                return Ok(Some(unshared));
            }
            drop(unshared);
            std::thread::yield_now();
        }
    }

    /// Whether this process opened it.
    pub(crate) fn is_own(&self) -> bool {
        self.generation == fork_generation()
    }
}

impl<T: AsRawFd> std::ops::Deref for Unshared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.file
    }
}

impl<T: AsRawFd> Drop for Unshared<T> {
    fn drop(&mut self) {
        if !self.is_own() {
            return; // closed, and its number may belong to another file
        }
        if let Some(slot) = CLOSED_IN_CHILD.get(self.slot) {
            slot.store(-1, Ordering::SeqCst); // before the number can be given to another file
        }
        // SAFETY: nothing uses the file after this.
        unsafe { ManuallyDrop::drop(&mut self.file) };
    }
}

/// How often this process was forked off from one that had the library loaded. One relaxed load once the handler is
/// installed.
///
/// A child shares the parent's file offsets, so an `lseek` after its append could tell where the *parent's* write
/// ended. Whoever caches a descriptor keeps the generation beside it and opens again when it differs. A child made by a
/// bare `clone(2)`, without the C library's handlers, is not noticed.
#[inline]
pub(crate) fn fork_generation() -> u64 {
    if !INSTALLED.load(Ordering::Relaxed) {
        install();
    }
    GENERATION.load(Ordering::Relaxed)
}

/// This process's id, asked of the kernel once in every process: asking each time takes a good part of an append. A child
/// made by a bare `clone(2)`, without the C library's handlers, is told its parent's.
#[inline]
pub fn process_id() -> u32 {
    /// The id, and above it the generation that it is of, cut to half its length.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let generation = fork_generation() << u32::BITS;
    let known = KNOWN.load(Ordering::Relaxed);
    let process = known ^ generation;
    if let Ok(process @ 1..) = u32::try_from(process) {
        return process;
    }
    let process = std::process::id();
    KNOWN.store(generation | u64::from(process), Ordering::Relaxed);
    process
}

/// Not a `Once`: a child that is forked while another thread is inside one would wait in it for ever. Two threads may both
/// install it, and every fork then counts as two, which is as good.
#[cold]
fn install() {
    #[cfg(not(miri))] // Miri has no fork
    // SAFETY: the handlers touch atomics and close descriptors, which is async-signal-safe, and live as long as the process (or the shared
    // object, whose unloading drops the handler in glibc).
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
    }
    #[cfg(miri)]
    let _ = (before_fork, in_parent, in_child);
    INSTALLED.store(true, Ordering::Relaxed);
}

/// A value that is made on first use, and made anew on the first use in a forked child, which never touches or frees the
/// parent's: at the fork another thread may have held its locks. Costs two loads.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    current: AtomicPtr<Owned<T>>,
    _owns: std::marker::PhantomData<T>,
}

#[derive(Debug)]
struct Owned<T> {
    generation: u64,
    value: T,
}

impl<T> PerProcess<T> {
    /// A value that is not made yet.
    pub(crate) const fn new() -> Self {
        PerProcess { current: AtomicPtr::new(ptr::null_mut()), _owns: std::marker::PhantomData }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        PerProcess::new()
    }
}

impl<T: Send + Sync> PerProcess<T> {
    /// This process's value, if it was made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: as in `get_or_init`.
        let owned = unsafe { current.as_ref() }?;
        (owned.generation == fork_generation()).then_some(&owned.value)
    }

    /// This process's value, made now if need be.
    #[inline]
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` in `init`. It is freed only by `take`, which has `self` to itself, and
        // replaced only by a forked child, which leaks the parent's.
        match unsafe { current.as_ref() } {
            Some(owned) if owned.generation == fork_generation() => &owned.value,
            _ => self.init(current, make),
        }
    }

    #[cold]
    fn init(&self, old: *mut Owned<T>, make: impl FnOnce() -> T) -> &T {
        let new = Box::into_raw(Box::new(Owned { generation: fork_generation(), value: make() }));
        let installed = match self.current.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(of_another_thread) => {
                // SAFETY: `new` was made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                of_another_thread
            }
        };
        // SAFETY: as in `get_or_init`, and not null: whoever installed it made it.
        unsafe { &(*installed).value }
    }

    /// Takes this process's value out, if it was used here.
    pub(crate) fn take(&mut self) -> Option<T> {
        let current = std::mem::replace(self.current.get_mut(), ptr::null_mut());
        // SAFETY: as in `get_or_init`.
        if unsafe { current.as_ref() }?.generation != fork_generation() {
            return None; // the parent's, which a child leaks
        }
        // SAFETY: made by `Box::into_raw`, and no longer reachable.
        Some(unsafe { Box::from_raw(current) }.value)
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = std::mem::replace(self.current.get_mut(), ptr::null_mut());
        // SAFETY: as in `take`.
        if unsafe { current.as_ref() }.is_some_and(|owned| owned.generation == fork_generation()) {
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

/// Runs a write of a process with a file size limit: where the kernel would kill it with SIGXFSZ, the write's error
/// (`EFBIG`) is all that happens.
pub(crate) fn without_sigxfsz<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: the sets are initialised by sigemptyset before anything reads them, all pointers are to locals that
    // outlive the calls, and the signal mask is the calling thread's own. SIGXFSZ is sent to the thread that wrote, so
    // taking the pending one away cannot take one that is meant for another.
    unsafe {
        let mut xfsz = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut xfsz);
        libc::sigaddset(&raw mut xfsz, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const xfsz, &raw mut before);
        let written = write();
        let was_free = libc::sigismember(&raw const before, libc::SIGXFSZ) == 0;
        if was_free && written.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EFBIG)) {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&raw const xfsz, std::ptr::null_mut(), &raw const at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        written
    }
}

/// Stops the process with the calling thread exactly here. (A signal to the process may reach another thread first.)
#[cfg(feature = "fault-injection")]
pub(crate) fn stop_here() {
    // SAFETY: no memory is involved.
    unsafe {
        libc::raise(libc::SIGSTOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_of_a_process_is_made_once_and_dropped_once() {
        let (token, cell) = (Arc::new(()), PerProcess::<Arc<()>>::default());
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| cell.get_or_init(|| Arc::clone(&token)));
            }
        });
        assert_eq!(Arc::strong_count(&token), 2);
        drop(cell);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    #[cfg(not(miri))] // Miri has no fork
    fn a_child_makes_its_own_and_leaks_the_parents() {
        let mut cell = PerProcess::<u32>::default();
        assert_eq!(*cell.get_or_init(|| 1), 1);
        // SAFETY: the child touches its own memory, and ends without running anything of the harness.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = *cell.get_or_init(|| 2) == 2 && cell.take() == Some(2) && cell.take().is_none();
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_own)) }
        }
        let mut status = -1;
        // SAFETY: the child of above, and a place for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        assert_eq!(cell.take(), Some(1), "the parent's is untouched");
    }
}
