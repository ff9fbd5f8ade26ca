//! The only file that locks: `flock`, which the kernel releases when its holder dies, always with a limit.
//!
//! fs2 is called by full path: `std::fs::File` has methods of the same names, and they would win silently.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::budgets::{self, Budget};
use crate::error::{At, Error, Result};
use crate::sys::file::{self, File};
use crate::sys::procfs;

/// Pause between two attempts: a waiter costs next to nothing and wakes at most this long after the release.
const POLL: Duration = Duration::from_millis(5);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
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
            let file = File::open_lock(path, mode)?;
            own_like_folder(&file)?;
            wait(&file, limit.saturating_sub(start.elapsed()), start)?;
            let named = file::stat_if_there(path)?;
            let locked = file.stat()?;
            if named.is_some_and(|named| named.same_file(&locked)) {
                return Ok(Lock { file, budget, since: Instant::now() });
            }
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let held = self.since.elapsed();
        if held > self.budget.hold_ceiling {
            tracing::warn!(lock = self.budget.name, holder = std::process::id(), ?held, "held over its ceiling");
        }
        if let Err(e) = fs2::FileExt::unlock(self.file.std()) {
            // Closing the descriptor, right after this, releases it as well.
            tracing::debug!(lock = self.budget.name, error = %e, "unlock failed");
        }
    }
}

/// An append's exclusive hold of its segment, where the file system needs it.
pub(crate) fn appends(segment: &File) -> Result<impl Drop + use<>> {
    wait(segment, budgets::APPEND.wait_limit, Instant::now())?;
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

fn wait(file: &File, limit: Duration, start: Instant) -> Result<()> {
    let end = Instant::now() + limit;
    loop {
        match fs2::FileExt::try_lock_exclusive(file.std()) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == fs2::lock_contended_error().kind() => {}
            Err(e) => return Err(e).at("lock", file.path()),
        }
        if Instant::now() >= end {
            let holder = procfs::flock_holder(file.path());
            return Err(Error::LockTimeout { path: file.path().to_owned(), waited: start.elapsed(), holder });
        }
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
    }
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
