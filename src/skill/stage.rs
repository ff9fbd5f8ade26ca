//! The hidden folder in which a skill is made ready, and from which an old one is removed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place::{ARCHIVE, HIDDEN_PREFIX};
use crate::budgets;
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::log::folder::MOST_ATTEMPTS;
use crate::sys::{self, file, tree};

/// What a hidden folder holds that is to be put back.
fn aside(hidden: &Path) -> PathBuf {
    hidden.join(ARCHIVE).join("aside")
}

/// A hidden folder, locked, and removed with everything in it when it is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    folder: PathBuf,
    /// The lock of what was made ready, so that nobody has it before its event is in the log.
    inner: Option<Lock>,
    _lock: Lock,
}

impl Stage {
    /// Makes one in a folder, beside what is in there.
    pub(super) fn beside(parent: &Path) -> Result<Stage> {
        for _ in 0..MOST_ATTEMPTS {
            let folder = parent.join(format!("{HIDDEN_PREFIX}{}", sys::fresh_suffix()));
            if !file::make_folder(&folder, 0o700)? {
                continue;
            }
            match Lock::of_folder(&folder, budgets::SKILL, Duration::ZERO, Instant::now()) {
                Ok(Some(lock)) => {
                    let stage = Stage { folder, inner: None, _lock: lock };
                    file::make_folder(&stage.folder.join(ARCHIVE), 0o700)?;
                    return Ok(stage);
                }
                // Who cleans up, or looks for what can be put back, was faster. The latter leaves it where it is.
                Ok(None) | Err(Error::LockTimeout { .. }) => tree::remove_tree(&folder)?,
                Err(e) => {
                    tree::remove_tree(&folder)?;
                    return Err(e);
                }
            }
        }
        Err(Error::Unsettled { path: parent.to_owned(), attempts: MOST_ATTEMPTS })
    }

    /// Where a skill is while it is nobody's.
    pub(super) fn inner(&self) -> PathBuf {
        self.folder.join(ARCHIVE).join("skill")
    }

    /// Where a skill is while it is replaced in two steps: in a folder of its own, from which it can be put back.
    pub(super) fn make_aside(&self, name: &OsStr) -> Result<PathBuf> {
        let aside = aside(&self.folder);
        file::make_folder(&aside, 0o700)?;
        file::sync_folder(&self.folder.join(ARCHIVE))?;
        Ok(aside.join(name))
    }

    /// Makes the folder of a new skill.
    pub(super) fn make_inner(&self) -> Result<PathBuf> {
        let inner = self.inner();
        file::make_folder(&inner, 0o755)?;
        Ok(inner)
    }

    /// What was made ready is complete: it goes to the disk, gets the owner of the skills, and is locked.
    pub(super) fn complete(&mut self, skills: &Path) -> Result<()> {
        let inner = self.inner();
        tree::own_like(&inner, &file::stat(skills)?)?;
        file::sync_folder(&inner)?;
        self.inner = Lock::of_folder(&inner, budgets::SKILL, Duration::ZERO, Instant::now())?;
        Ok(())
    }

    /// The entries that a rename out of it, or into it, has changed.
    pub(super) fn sync(&self, parent: &Path) -> Result<()> {
        file::sync_folder(&self.folder.join(ARCHIVE))?;
        file::sync_folder(parent)
    }

    /// Lets go of the new skill, whose event is in the log.
    pub(super) fn publish(&mut self) {
        self.inner = None;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self._lock.is_own() {
            return; // the parent's
        }
        if let Err(error) = put_back(&self.folder).and_then(|_| tree::remove_tree(&self.folder)) {
            tracing::debug!(%error, "left to the next compaction");
        }
    }
}

/// Puts a skill back that an update in two steps had moved aside, unless the new one is in its place.
pub(super) fn put_back(hidden: &Path) -> Result<bool> {
    let aside = aside(hidden);
    let entries = match tree::entries(&aside) {
        Err(e) if e.is_not_found() => return Ok(false),
        other => other?,
    };
    let parent = hidden.parent().unwrap_or(hidden);
    for (name, _) in entries {
        match tree::rename_new(&aside.join(&name), &parent.join(&name)) {
            Err(e) if e.is_already_there() => {}
            other => {
                other?;
                file::sync_folder(parent)?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::skill::leftovers;

    #[test]
    fn nothing_is_left_of_a_stage_that_somebody_looked_into() {
        let skills = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(!leftovers::recover(skills.path()).unwrap());
                    }
                });
            }
            for _ in 0..2000 {
                Stage::beside(skills.path()).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(tree::entries(skills.path()).unwrap(), []);
    }
}
