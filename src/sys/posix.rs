//! The two calls that neither std nor rustix has: a handler for `fork`, and a signal held off. All unsafe code is here.
#![allow(unsafe_code)]

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How often this process was forked off from one that had the library loaded. One relaxed load once the handler is
/// installed.
///
/// A child shares the parent's file offsets, so an `lseek` after its append could tell where the *parent's* write
/// ended. Whoever caches a descriptor keeps the generation beside it and opens again when it differs. A child made by a
/// bare `clone(2)`, without the C library's handlers, is not noticed.
#[inline]
pub(crate) fn fork_generation() -> u64 {
    INSTALL.call_once(|| {
        #[cfg(not(miri))] // Miri has no fork
        // SAFETY: `in_child` touches one atomic, which is async-signal-safe, and lives as long as the process (or the
        // shared object, whose unloading drops the handler in glibc).
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        #[cfg(miri)]
        let _ = in_child;
    });
    GENERATION.load(Ordering::Relaxed)
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
