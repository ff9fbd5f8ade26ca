//! What can happen to a profile.
//!
//! An event is encoded as a map of one entry, kind to arguments: `{"used": ["name", 1]}`. A newer version may add kinds,
//! and may append arguments to a kind; [`batch`] tells how both are carried along by a program that does not know them.

mod auth;
pub mod batch;
mod json;
mod origin;
mod secret;
mod skill;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use auth::{AuthEvent, MAX_AUTH_NAME_LEN, PROVIDER_STATE, Status, StatusKind};
pub use json::Line;
pub use origin::Origin;
pub use secret::{Fields, REDACTED, Secret};
pub use skill::{Counter, MAX_NAME_LEN, State};

/// One thing that happened. Borrowed from the log while it is folded, owned where it outlives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields that repeat: the skill's exact name, and how often it happened
pub enum Event<'a> {
    /// The skill was used, `count` times.
    #[serde(alias = "use")]
    Used {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(default = "one")]
        count: u64,
    },
    /// The skill was viewed.
    #[serde(alias = "view")]
    Viewed {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(default = "one")]
        count: u64,
    },
    /// The skill was patched.
    #[serde(alias = "patch")]
    Patched {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(default = "one")]
        count: u64,
    },
    /// The skill was created by `by`; an archived skill of that name is another incarnation, and ends.
    Created {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        by: Cow<'a, str>,
    },
    /// The skill has a record from now on, if it had none.
    Seeded {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// The skill's lifecycle state was set.
    State {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        state: State,
    },
    /// The skill was exempted from automatic transitions, or no longer is.
    #[serde(alias = "pin")]
    Pinned {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        pinned: bool,
    },
    /// Fields of the record were set (`set` is the text of a JSON object) and removed.
    Fields {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        set: Cow<'a, str>,
        #[serde(default)]
        unset: Vec<Cow<'a, str>>,
    },
    /// The record was dropped. The name starts from zero if it comes back.
    #[serde(alias = "forget")]
    Forgotten {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// The skill's `SKILL.md` was replaced.
    Edited {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// A file of the skill was written; `path` is relative to the skill's folder.
    FileWritten {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        path: Cow<'a, str>,
    },
    /// A file of the skill was removed.
    FileRemoved {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        path: Cow<'a, str>,
    },
    /// The skill was installed from `source`.
    Installed {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        source: Cow<'a, str>,
    },
    /// The skill was updated from `source`.
    Updated {
        #[serde(borrow)]
        skill: Cow<'a, str>,
        #[serde(borrow)]
        source: Cow<'a, str>,
    },
    /// The skill's folder went to the archive.
    Archived {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// The skill's folder came back from the archive.
    Restored {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// The skill's folder was deleted. The name starts from zero if it comes back.
    Deleted {
        #[serde(borrow)]
        skill: Cow<'a, str>,
    },
    /// A part of what the compactor found in `.usage.json` and wrote there, see [`crate::view::external`].
    /// It takes effect with its last part.
    External {
        #[serde(borrow)]
        id: Cow<'a, str>,
        part: u32,
        parts: u32,
        #[serde(borrow)]
        data: Cow<'a, str>,
    },
    /// Something happened to a credential.
    Auth(Box<AuthEvent>),
}

fn one() -> u64 {
    1
}

impl<'a> Event<'a> {
    /// So many of what is counted, from 1.
    #[inline]
    pub fn counted(counter: Counter, skill: impl Into<Cow<'a, str>>, count: u64) -> Self {
        let skill = skill.into();
        match counter {
            Counter::Use => Event::Used { skill, count },
            Counter::View => Event::Viewed { skill, count },
            Counter::Patch => Event::Patched { skill, count },
        }
    }

    /// One use of a skill.
    pub fn used(skill: impl Into<Cow<'a, str>>) -> Self {
        Event::Used { skill: skill.into(), count: 1 }
    }

    /// One view of a skill.
    pub fn viewed(skill: impl Into<Cow<'a, str>>) -> Self {
        Event::Viewed { skill: skill.into(), count: 1 }
    }

    /// One patch of a skill.
    pub fn patched(skill: impl Into<Cow<'a, str>>) -> Self {
        Event::Patched { skill: skill.into(), count: 1 }
    }

    /// The skill that the event is about, if it is about one.
    #[must_use]
    pub fn skill(&self) -> Option<&str> {
        match self {
            Event::Used { skill, .. }
            | Event::Viewed { skill, .. }
            | Event::Patched { skill, .. }
            | Event::Created { skill, .. }
            | Event::Seeded { skill }
            | Event::State { skill, .. }
            | Event::Pinned { skill, .. }
            | Event::Fields { skill, .. }
            | Event::Forgotten { skill }
            | Event::Edited { skill }
            | Event::FileWritten { skill, .. }
            | Event::FileRemoved { skill, .. }
            | Event::Installed { skill, .. }
            | Event::Updated { skill, .. }
            | Event::Archived { skill }
            | Event::Restored { skill }
            | Event::Deleted { skill } => Some(skill),
            Event::External { .. } | Event::Auth(_) => None,
        }
    }

    /// Whether it counts something up: such events add, in whatever order they come.
    #[must_use]
    pub fn is_count(&self) -> bool {
        matches!(self, Event::Used { .. } | Event::Viewed { .. } | Event::Patched { .. })
    }

    /// Bytes of the event's texts, roughly what it takes in a frame.
    pub(crate) fn text_len(&self) -> usize {
        let beside = match self {
            Event::Created { by: text, .. }
            | Event::FileWritten { path: text, .. }
            | Event::FileRemoved { path: text, .. }
            | Event::Installed { source: text, .. }
            | Event::Updated { source: text, .. }
            | Event::External { data: text, .. } => text.len(),
            Event::Auth(event) => event.text_len(),
            Event::Fields { set, unset, .. } => set.len() + unset.iter().map(|field| field.len() + 5).sum::<usize>(),
            _ => 0,
        };
        self.skill().map_or(0, str::len) + beside
    }

    /// The same, borrowed from nothing.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Event::Used { skill, count } => Event::Used { skill: own(skill), count },
            Event::Viewed { skill, count } => Event::Viewed { skill: own(skill), count },
            Event::Patched { skill, count } => Event::Patched { skill: own(skill), count },
            Event::Created { skill, by } => Event::Created { skill: own(skill), by: own(by) },
            Event::Seeded { skill } => Event::Seeded { skill: own(skill) },
            Event::State { skill, state } => Event::State { skill: own(skill), state },
            Event::Pinned { skill, pinned } => Event::Pinned { skill: own(skill), pinned },
            Event::Fields { skill, set, unset } => {
                Event::Fields { skill: own(skill), set: own(set), unset: unset.into_iter().map(own).collect() }
            }
            Event::Forgotten { skill } => Event::Forgotten { skill: own(skill) },
            Event::Edited { skill } => Event::Edited { skill: own(skill) },
            Event::FileWritten { skill, path } => Event::FileWritten { skill: own(skill), path: own(path) },
            Event::FileRemoved { skill, path } => Event::FileRemoved { skill: own(skill), path: own(path) },
            Event::Installed { skill, source } => Event::Installed { skill: own(skill), source: own(source) },
            Event::Updated { skill, source } => Event::Updated { skill: own(skill), source: own(source) },
            Event::Archived { skill } => Event::Archived { skill: own(skill) },
            Event::Restored { skill } => Event::Restored { skill: own(skill) },
            Event::Deleted { skill } => Event::Deleted { skill: own(skill) },
            Event::External { id, part, parts, data } => Event::External { id: own(id), part, parts, data: own(data) },
            Event::Auth(event) => Event::Auth(event),
        }
    }

    /// Checks what a caller gave.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty name or one over [`MAX_NAME_LEN`] bytes, a count of zero, or fields that are not
    /// the text of a JSON object.
    pub fn validate(&self) -> Result<()> {
        if let Some(name) = self.skill() {
            skill::validate_name(name)?;
        }
        match self {
            Event::Used { skill, count } | Event::Viewed { skill, count } | Event::Patched { skill, count } => {
                Event::validate_count(skill, *count)
            }
            Event::Created { by, .. } if by.is_empty() => {
                Err(Error::Invalid { what: "maker", found: "an empty name".into(), allowed: "a name, such as agent" })
            }
            Event::Fields { set, unset, .. } => {
                let invalid = |found| Error::Invalid {
                    what: "fields",
                    found,
                    allowed: "a JSON object without what is counted (use_count, last_used_at, ...)",
                };
                let set: serde_json::Map<String, serde_json::Value> =
                    serde_json::from_str(set).map_err(|e| invalid(e.to_string()))?;
                match set.keys().map(String::as_str).chain(unset.iter().map(|f| &**f)).find(|f| Counter::is_counted(f))
                {
                    Some(counted) => Err(invalid(format!("{counted:?}"))),
                    None => Ok(()),
                }
            }
            Event::Auth(event) => event.validate(),
            _ => Ok(()),
        }
    }

    /// The same for what is counted.
    #[inline]
    pub(crate) fn validate_count(skill: &str, count: u64) -> Result<()> {
        if count == 0 {
            return Err(Error::Invalid { what: "count", found: "0".into(), allowed: "a whole number from 1" });
        }
        skill::validate_name(skill)
    }
}
