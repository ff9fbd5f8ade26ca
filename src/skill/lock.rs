//! Locks of skills.
//!
//! *What is locked.* A skill that is there: its own folder. One that is not: the folder of all skills, since a name is
//! unique in all categories. Whoever makes a skill appear or disappear under a name (create, install, delete, archive,
//! restore) holds the latter as well, for the moment of the rename and its event, so that these come in the log in the order
//! in which they took place.
//!
//! *No two processes wait for each other.* Skills' folders are taken in the order of device and inode, which is the same for
//! everybody whatever the names say; the folder of all skills comes after them, and who has it waits for nothing. If what
//! was locked is no longer what the names say, everything is released and looked for again. A thread has one set of locks at
//! a time: asking for another one is an error. (A hidden folder that was just made is locked out of order; nobody else
//! knows it, so nobody is waited for.)
//!
//! *Owner.* A lock belongs to the thread that took it, and to its process. Another thread of the process waits like
//! another process. In a forked child it neither holds nor releases anything, and every change through it is refused.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use super::{Skills, leftovers, place, refused};
use crate::budgets;
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::log::folder::MOST_ATTEMPTS;
use crate::sys::file::{self, Stat};
use crate::sys::posix::fork_generation;

thread_local! {
    /// The set of locks that this thread has.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

struct Held {
    generation: u64,
    names: Vec<String>,
}

/// The exclusive lock of one skill, held until it is dropped: of its folder, or, if it is not there, for its creation.
#[derive(Debug)]
pub struct SkillLock {
    pub(super) skills: Skills,
    pub(super) name: String,
    /// Where the skill is, and its lock.
    pub(super) there: Option<(PathBuf, Lock)>,
    /// The lock of the folder of all skills, shared by the whole set if one of it is not there.
    pub(super) all: Option<Rc<Lock>>,
    _set: Rc<Set>,
}

/// Ends the set when its last lock is dropped.
#[derive(Debug)]
struct Set {
    generation: u64,
}

impl Drop for Set {
    fn drop(&mut self) {
        if self.generation == fork_generation() {
            let _ = HELD.try_with(RefCell::take); // a thread that is ending has none
        }
    }
}

impl Skills {
    /// Locks one skill, waiting at most the limit.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] names the holder. [`Error::Invalid`]: this thread has a lock already; the name is empty.
    /// [`Error::Unsettled`], [`Error::Io`].
    pub fn lock(&self, name: &str) -> Result<SkillLock> {
        let mut locks = self.lock_many(&[name])?;
        locks.pop().ok_or_else(|| refused(name, "it has no lock")) // one name, one lock
    }

    /// Locks several skills, waiting at most the limit for all of them. The locks come in the order of the names; a name
    /// that is given twice is an error. If one of the skills is not there, the folder of all skills stays locked until the
    /// last of the locks is dropped.
    ///
    /// # Errors
    /// As [`lock`](Self::lock). Nothing is held after an error.
    pub fn lock_many(&self, names: &[&str]) -> Result<Vec<SkillLock>> {
        let set = Rc::new(Set::begin(names)?);
        let folder = self.folder()?;
        let start = Instant::now();
        for attempt in 0.. {
            if attempt >= MOST_ATTEMPTS && start.elapsed() >= self.limit {
                break;
            }
            if let Some(locks) = self.try_lock_many(&folder, names, &set, start)? {
                return Ok(locks);
            }
        }
        Err(Error::Unsettled { path: folder, attempts: MOST_ATTEMPTS })
    }

    /// `None`: what was locked is not what the names say.
    fn try_lock_many(
        &self,
        skills: &Path,
        names: &[&str],
        set: &Rc<Set>,
        start: Instant,
    ) -> Result<Option<Vec<SkillLock>>> {
        let mut wanted = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let Some(folder) = find_or_recover(skills, name)? else { continue };
            let Some(stat) = file::stat_if_there(&folder)? else { return Ok(None) };
            wanted.push((stat, index, folder));
        }
        wanted.sort_unstable_by_key(|(stat, ..)| (stat.device, stat.inode));
        let mut there: Vec<Option<(PathBuf, Lock)>> = names.iter().map(|_| None).collect();
        for (stat, index, folder) in wanted {
            // Another one that is there by now would be waited for out of order.
            let is_it = |opened: &Stat| opened.same_file(&stat);
            let lock = Lock::of_this_folder(&folder, is_it, budgets::SKILL, self.limit, start)?;
            let Some(lock) = lock else { return Ok(None) };
            if let Some(place) = there.get_mut(index) {
                *place = Some((folder, lock));
            }
        }
        let all = match there.iter().any(Option::is_none) {
            true => Some(Rc::new(self.lock_all(skills, start)?)),
            false => None,
        };
        for (name, _) in names.iter().zip(&there).filter(|(_, there)| there.is_none()) {
            place::check_folder_name("name of a skill that is not there yet", name)?;
        }
        let mut locks = Vec::new();
        for (name, there) in names.iter().zip(there) {
            let is_as_found = match &there {
                Some((folder, lock)) => lock.is_at(folder)? && place::name_of(folder)? == *name,
                None => place::find(skills, name)?.is_none(),
            };
            if !is_as_found {
                return Ok(None);
            }
            let (name, all) = ((*name).to_owned(), all.clone());
            locks.push(SkillLock { skills: self.clone(), name, there, all, _set: Rc::clone(set) });
        }
        Ok(Some(locks))
    }

    /// The folder of all skills, after every skill's own.
    pub(super) fn lock_all(&self, skills: &Path, start: Instant) -> Result<Lock> {
        let lock = Lock::of_folder(skills, budgets::SKILLS_FOLDER, self.limit, start)?;
        lock.ok_or_else(|| Error::Unsettled { path: skills.to_owned(), attempts: 1 })
    }

    /// Says that this thread has a lock, until what is returned is dropped.
    pub(super) fn begin_set(name: &str) -> Result<impl Drop + use<>> {
        Set::begin(&[name])
    }
}

/// An update that died between its two renames is undone before its skill counts as gone.
fn find_or_recover(skills: &Path, name: &str) -> Result<Option<PathBuf>> {
    match place::find(skills, name)? {
        None if leftovers::recover(skills)? => place::find(skills, name),
        found => Ok(found),
    }
}

impl Set {
    fn begin(names: &[&str]) -> Result<Set> {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        let is_twice = sorted.windows(2).any(|pair| matches!(pair, [one, other] if one == other));
        if is_twice || sorted.first().is_none_or(|name| name.is_empty()) {
            return Err(Error::Invalid {
                what: "names of skills to lock",
                found: format!("{names:?}"),
                allowed: "one or more, each once, none empty",
            });
        }
        HELD.with_borrow_mut(|held| match held {
            // A forked child has its parent's in name only.
            Some(held) if held.generation == fork_generation() => Err(Error::Invalid {
                what: "lock of a skill",
                found: format!("{names:?}, while this thread has the lock of {:?}", held.names),
                allowed: "one at a time; several with one call of lock_many",
            }),
            _ => {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                *held = Some(Held { generation: fork_generation(), names });
                Ok(Set { generation: fork_generation() })
            }
        })
    }
}

impl SkillLock {
    /// The skill's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The skill's folder; `None` if it is not there, and this is the lock for its creation.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.there.as_ref().map(|(folder, _)| folder.as_path())
    }

    /// The skill's folder, which it must have, and which must still be what was locked.
    pub(super) fn existing(&self) -> Result<&Path> {
        let Some((folder, lock)) = &self.there else {
            return Err(Error::NotFound { what: "skill", name: self.name.clone() });
        };
        self.check_owner(lock)?;
        if !lock.is_at(folder)? {
            return Err(refused(&self.name, "its folder was moved or replaced while it was locked"));
        }
        Ok(folder)
    }

    /// The skill must not be there.
    pub(super) fn absent(&self) -> Result<()> {
        match (&self.there, &self.all) {
            (None, Some(all)) => self.check_owner(all),
            _ => Err(refused(&self.name, "a skill of that name is there already")),
        }
    }

    fn check_owner(&self, lock: &Lock) -> Result<()> {
        if lock.is_own() {
            return Ok(());
        }
        Err(refused(&self.name, "its lock is the parent's, and a forked child does not share it"))
    }

    /// The lock of the folder of all skills, for the moment in which the skill appears or disappears.
    pub(super) fn with_all(&mut self) -> Result<()> {
        if self.all.is_none() {
            let skills = self.skills.folder()?;
            self.all = Some(Rc::new(self.skills.lock_all(&skills, Instant::now())?));
        }
        Ok(())
    }
}
