//! The only file that locks: `flock`, which the kernel releases when its holder dies, always with a limit.
//!
//! A lock belongs to an open file. Two threads that open it exclude each other like two processes do, and a forked child
//! would share it: its copy of the descriptor is closed before the child does anything else, so it neither holds the lock
//! nor releases it. A command that is started does not inherit it.
//!
//! fs2 is called by full path: `std::fs::File` has methods of the same names, and they would win silently.

mod queue;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::budgets::{self, Budget, MOST_LOCKS};
use crate::error::{At, Error, Result};
use crate::sys::file::{self, File, Stat};
use crate::sys::posix::Unshared;
use crate::sys::procfs;

/// Pause between two attempts where nothing can wake a waiter.
const POLL: Duration = Duration::from_millis(5);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    descriptor: Descriptor,
    stat: Stat,
    budget: Budget,
    since: Instant,
}

impl Lock {
    /// Takes the lock whose file is at `path` (made if need be), waiting at most `limit`; zero means one attempt.
    ///
    /// After getting it, the path still names the file that was locked, or the wait goes on with the new one.
    pub(crate) fn take(path: &Path, mode: u32, budget: Budget, limit: Duration) -> Result<Lock> {
        let start = Instant::now();
        loop {
            let descriptor = Descriptor::open(path, || File::open_lock(path, mode))?;
            own_like_folder(&descriptor.0)?;
            let lock = Lock::wait(descriptor, budget, limit, start)?;
            if lock.is_at(path)? {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock of a folder. `None`: the path names no folder, or it names another one than at the time that the
    /// wait began.
    pub(crate) fn of_folder(path: &Path, budget: Budget, limit: Duration, start: Instant) -> Result<Option<Lock>> {
        Lock::of_this_folder(path, |_| true, budget, limit, start)
    }

    /// The same, but nothing is waited for unless the path names the folder that `is_it` knows.
    pub(crate) fn of_this_folder(
        path: &Path,
        is_it: impl Fn(&Stat) -> bool,
        budget: Budget,
        limit: Duration,
        start: Instant,
    ) -> Result<Option<Lock>> {
        let descriptor = match Descriptor::open(path, || File::open_folder(path)) {
            Err(e) if e.is_not_found() || e.is_no_folder() => return Ok(None),
            other => other?,
        };
        if !is_it(&descriptor.0.stat()?) {
            return Ok(None);
        }
        let lock = Lock::wait(descriptor, budget, limit, start)?;
        Ok(lock.is_at(path)?.then_some(lock))
    }

    fn wait(descriptor: Descriptor, budget: Budget, limit: Duration, start: Instant) -> Result<Lock> {
        let stat = descriptor.0.stat()?;
        let descriptor = queue::wait(descriptor, &stat, limit, start)?;
        Ok(Lock { descriptor, stat, budget, since: Instant::now() })
    }

    /// Whether a path names what is locked.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool> {
        Ok(file::stat_if_there(path)?.is_some_and(|named| named.same_file(&self.stat)))
    }

    /// Whether it is this process's: a forked child has the parent's in name only.
    pub(crate) fn is_own(&self) -> bool {
        self.descriptor.0.is_own()
    }

    pub(crate) fn file(&self) -> &File {
        &self.descriptor.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let held = self.since.elapsed();
        if held > self.budget.hold_ceiling {
            tracing::warn!(lock = self.budget.name, holder = std::process::id(), ?held, "held over its ceiling");
        }
        queue::note_release(&self.stat);
    }
}

/// An open file to lock with. Dropping it releases, in the process that opened it; in a forked child nothing is touched.
#[derive(Debug)]
struct Descriptor(Unshared<File>);

impl Descriptor {
    fn open(path: &Path, open: impl Fn() -> Result<File>) -> Result<Descriptor> {
        Unshared::open(open)?.map(Descriptor).ok_or_else(|| Error::Invalid {
            what: "number of locks at a time",
            found: format!("more than {MOST_LOCKS}, with {}", path.display()),
            allowed: "1024 in a process",
        })
    }

    /// Whether the lock was free, and is had.
    fn try_lock(&self) -> Result<bool> {
        match fs2::FileExt::try_lock_exclusive(self.0.std()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == fs2::lock_contended_error().kind() => Ok(false),
            Err(e) => Err(e).at("lock", self.0.path()),
        }
    }

    /// Waits without a limit, in the kernel's queue.
    fn lock(&self) -> Result<()> {
        loop {
            match fs2::FileExt::lock_exclusive(self.0.std()) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other.at("lock", self.0.path()),
            }
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Explicitly: a child that is being made at this moment may keep the open file for an instant.
        if self.0.is_own()
            && let Err(e) = fs2::FileExt::unlock(self.0.std())
        {
            tracing::debug!(lock = %self.0.path().display(), error = %e, "unlock failed"); // closing releases as well
        }
    }
}

/// An append's exclusive hold of its segment, where the file system needs it.
pub(crate) fn appends(segment: &File) -> Result<impl Drop + use<>> {
    poll(segment, budgets::APPEND.wait_limit, Instant::now())?;
    let descriptor = segment.std().try_clone().at("lock", segment.path())?;
    Ok(Unlock(descriptor))
}

struct Unlock(std::fs::File);

impl Drop for Unlock {
    fn drop(&mut self) {
        // A failure shows as a timeout of the next append, with this process as the holder.
        let _ = fs2::FileExt::unlock(&self.0);
    }
}

fn poll(file: &File, limit: Duration, start: Instant) -> Result<()> {
    let end = start + limit;
    loop {
        match fs2::FileExt::try_lock_exclusive(file.std()) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == fs2::lock_contended_error().kind() => {}
            Err(e) => return Err(e).at("lock", file.path()),
        }
        if Instant::now() >= end {
            return Err(timeout(file.path(), start));
        }
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
    }
}

fn timeout(path: &Path, start: Instant) -> Error {
    let holder = procfs::flocks().ok().and_then(|flocks| flocks.at(path)?.holders.first().map(ToString::to_string));
    Error::LockTimeout { path: path.to_owned(), waited: start.elapsed(), holder }
}

/// A lock file that root makes in another user's home must be usable by that user.
fn own_like_folder(lock: &File) -> Result<()> {
    if !file::is_root() {
        return Ok(());
    }
    let Some(folder) = lock.path().parent() else { return Ok(()) };
    let (folder, own) = (file::stat(folder)?, lock.stat()?);
    if own.uid == file::user() && folder.uid != file::user() {
        lock.set_owner(folder.uid, folder.gid)?;
    }
    Ok(())
}
