//! How often this process was forked off from one that had the library loaded.
//!
//! A child shares the parent's file offsets, so an `lseek` after its append could tell where the *parent's* write
//! ended. Whoever caches a descriptor keeps the generation beside it and opens again when it differs. A child made by a
//! bare `clone(2)`, without the C library's handlers, is not noticed.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The generation of this process. One relaxed load once the handler is installed.
#[inline]
pub(crate) fn generation() -> u64 {
    INSTALL.call_once(|| {
        #[cfg(not(miri))] // Miri has no fork
        #[allow(unsafe_code)]
        // SAFETY: `in_child` is a function of this library that touches one atomic, which is async-signal-safe, and
        // it lives as long as the process (or the shared object, whose unloading drops the handler in glibc).
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        #[cfg(miri)]
        let _ = in_child;
    });
    GENERATION.load(Ordering::Relaxed)
}
