//! Skills' files: one writer for each skill, changes that a crash does not cut in half, and a record of what was done.
//!
//! Readers need nothing: each file and each folder is replaced in one step. Writers exclude each other by a `flock` on the
//! skill's own folder, see [`lock`](SkillLock). Each change says so in the log, while the lock is still held.
//!
//! | change | steps | killed before the last one |
//! |---|---|---|
//! | [`edit`](SkillLock::edit), [`write_file`](SkillLock::write_file) | temporary file in the skill's folder, synced; rename; sync | a temporary file |
//! | [`remove_file`](SkillLock::remove_file) | unlink; sync | |
//! | [`create`](SkillLock::create), [`install`](SkillLock::install) | everything in a hidden folder beside it, synced; rename; sync | a hidden folder |
//! | [`update`](SkillLock::update) | the same; exchange; sync; remove the old one | a hidden folder, with the new one or the old one in it |
//! | [`delete`](SkillLock::delete) | rename into a hidden folder beside it; sync; unlock; remove | the same |
//! | [`archive`](SkillLock::archive), [`restore`](Skills::restore) | rename; sync | |
//!
//! The event follows, synced too, and the lock is released after it. A process that dies between a change and its event
//! leaves the change; the next one that needs it to be known (a name that is used again) does not rely on the event.
//!
//! A hidden folder is named `.hermes-log-` and 16 digits, is locked by whoever uses it, and holds what it holds in a folder
//! `.archive`, which Hermes's scanners skip. Compaction removes those that nobody holds.

mod archive;
mod change;
mod curate;
mod due;
mod install;
mod leftovers;
mod lock;
mod place;
mod protect;
mod stage;

use std::path::PathBuf;
use std::time::Duration;

use crate::budgets;
use crate::compact;
use crate::error::{Error, Result};
use crate::event::{Event, Origin};
use crate::log::writer::{Durability, Writer};
use crate::profile::Profile;
use crate::sys::file;
use crate::sys::tree;
use crate::view::View;

pub use curate::Applied;
pub use due::{Action, Due, Rule, Why, due, due_of};
pub(crate) use leftovers::clean_up;
pub use lock::SkillLock;
pub use place::Found;
pub use protect::Protections;

/// The skills of a profile, for a process of one origin.
#[derive(Clone, Debug)]
pub struct Skills {
    profile: Profile,
    origin: Origin<'static>,
    limit: Duration,
}

impl Skills {
    pub(crate) fn new(profile: Profile, origin: Origin<'static>) -> Skills {
        Skills { profile, origin, limit: budgets::SKILL.wait_limit }
    }

    /// The same, with another limit for every wait for a lock (30 s if nothing else is said; zero: one attempt).
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Skills {
        Skills { limit, ..self }
    }

    /// All skills that are not archived, sorted by name.
    ///
    /// # Errors
    /// [`Error::Io`]: a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Found>> {
        place::scan(&self.profile.skills_folder())
    }

    /// The folder of a skill, as of now: it may be elsewhere in a moment, unless the skill is [locked](Self::lock).
    ///
    /// # Errors
    /// [`Error::Io`]
    pub fn find(&self, name: &str) -> Result<Option<PathBuf>> {
        place::find(&self.profile.skills_folder(), name)
    }

    /// The folders in the archive, sorted.
    ///
    /// # Errors
    /// [`Error::Io`]
    pub fn archived(&self) -> Result<Vec<Found>> {
        archive::list(&self.profile.skills_folder().join(place::ARCHIVE))
    }

    /// Where the skills really are.
    fn folder(&self) -> Result<PathBuf> {
        let folder = self.profile.skills_folder();
        if file::make_folder(&folder, 0o755)? {
            file::own_like(&folder, &file::stat(self.profile.home())?)?;
        }
        tree::canonical(&folder)
    }

    /// A view in which the log has all that is known of a skill's record.
    fn settled(&self, name: &str) -> Result<View> {
        let mut view = self.profile.view()?;
        compact::settle(&self.profile, &mut view, name, self.limit)?;
        Ok(view)
    }

    /// A writer, opened before anything is changed: what keeps the log from being written shows before, not after.
    fn writer(&self) -> Result<Writer> {
        self.profile.writer(Origin { process: crate::process_id(), ..self.origin.clone() })
    }

    /// Whether no user has asked for what this process does.
    fn is_background(&self) -> bool {
        matches!(&*self.origin.kind, "review" | "curator")
    }
}

/// Says in the log what was done, once it is on the disk: a power loss takes neither the change nor its event.
fn record(synced: Result<()>, mut writer: Writer, skill: &str, events: &[Event<'_>]) -> Result<()> {
    match synced.and_then(|()| writer.append_batch(events, Durability::Disk)) {
        Ok(_) => Ok(()),
        Err(error @ Error::NotDurable { .. }) => Err(error), // it is in the log
        Err(error) => Err(Error::NotLogged { skill: skill.to_owned(), source: Box::new(error) }),
    }
}

fn refused(skill: &str, why: impl Into<String>) -> Error {
    Error::Refused { skill: skill.to_owned(), why: why.into() }
}
