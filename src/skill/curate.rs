//! What is due, done.

use super::{Action, Due, Protections, Rule, SkillLock, Skills, due_of};
use crate::error::{Error, Result};
use crate::event::{Event, State};
use crate::log::writer::Durability;
use crate::sys;

/// What became of what was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was done.
    Done(Action),
    /// Under the lock it was not due any more.
    NoLongerDue(Due),
}

impl Skills {
    /// Does what is due for a skill, decided under its lock, on what is in the log and on disk then: a use that landed
    /// since the plan was made saves the skill.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the skill is gone; as [`SkillLock::archive`].
    pub fn apply_due(&self, name: &str, rule: Rule) -> Result<Applied> {
        let lock = self.lock(name)?;
        let Some(folder) = lock.folder() else {
            return Err(Error::NotFound { what: "skill", name: name.to_owned() });
        };
        let view = self.settled(name)?;
        let protections = Protections::read(&self.profile)?;
        let now_micros = i64::try_from(sys::now_micros()).unwrap_or(i64::MAX);
        match due_of(name, folder, view.skill(name), &protections, rule, now_micros) {
            Due::Act(action) => self.act(lock, action).map(|()| Applied::Done(action)),
            keep @ Due::Keep(_) => Ok(Applied::NoLongerDue(keep)),
        }
    }

    fn act(&self, lock: SkillLock, action: Action) -> Result<()> {
        let skill = || lock.name().to_owned().into();
        let event = match action {
            Action::Archive => return lock.archive().map(drop),
            Action::MarkStale => Event::State { skill: skill(), state: State::Stale },
            Action::Reactivate => Event::State { skill: skill(), state: State::Active },
            Action::Seed => Event::Seeded { skill: skill() },
        };
        self.writer()?.append(&event, Durability::Disk).map(drop)
    }
}
