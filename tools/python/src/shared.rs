//! A value that threads share and that a forked child can use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use hermes_log::process_id;

use crate::error::Result;

/// A value behind a lock. A child that was forked while another thread held the lock, which will never be released
/// there, makes its own.
///
/// The outer lock is only ever held attached to Python and for an instant, so no fork of Python's finds it held.
pub(crate) struct Shared<T> {
    cell: Mutex<Cell<T>>,
}

struct Cell<T> {
    process: u32,
    value: Arc<Mutex<T>>,
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        Shared { cell: Mutex::new(Cell { process: process_id(), value: Arc::new(Mutex::new(value)) }) }
    }

    /// The value of this process; [`locked`] gives access. `make` is called in a child whose copy cannot be used.
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<Mutex<T>>> {
        let mut cell = locked(&self.cell);
        let process = process_id();
        if cell.process != process {
            if matches!(cell.value.try_lock(), Err(TryLockError::WouldBlock)) {
                cell.value = Arc::new(Mutex::new(make()?));
            }
            cell.process = process;
        }
        Ok(Arc::clone(&cell.value))
    }
}

/// Takes a lock. What a panic left is whole: the library's types are changed by whole frames.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
