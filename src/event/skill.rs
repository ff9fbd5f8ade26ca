//! Terms of a skill's life.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Longest skill name, in bytes of UTF-8.
pub const MAX_NAME_LEN: usize = 4096;

/// Names are exact: any non-empty UTF-8, no folding, no normalisation.
pub(super) fn validate_name(name: &str) -> Result<()> {
    let found = match name.len() {
        0 => "an empty name".to_owned(),
        1..=MAX_NAME_LEN => return Ok(()),
        len => format!("a name of {len} bytes"),
    };
    Err(Error::Invalid { what: "skill name", found, allowed: "1 to 4096 bytes of UTF-8" })
}

/// Lifecycle state of a skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In use.
    #[default]
    Active,
    /// Not used for long.
    Stale,
    /// Its folder is in the archive.
    Archived,
}

impl State {
    /// The word in `.usage.json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Stale => "stale",
            State::Archived => "archived",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for State {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "active" => Ok(State::Active),
            "stale" => Ok(State::Stale),
            "archived" => Ok(State::Archived),
            _ => Err(Error::Invalid { what: "state", found: format!("{word:?}"), allowed: "active, stale, archived" }),
        }
    }
}

/// The three things that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// `use_count`
    Use,
    /// `view_count`
    View,
    /// `patch_count`
    Patch,
}

impl Counter {
    /// All of them, in the order in which they are indexed.
    pub const ALL: [Counter; 3] = [Counter::Use, Counter::View, Counter::Patch];

    /// Whether a field of the record is one of the counts or their times, which only counting changes.
    #[must_use]
    pub fn is_counted(field: &str) -> bool {
        Counter::ALL.iter().any(|counter| counter.count_field() == field || counter.last_field() == field)
    }

    /// The count's field in `.usage.json`.
    #[must_use]
    pub fn count_field(self) -> &'static str {
        match self {
            Counter::Use => "use_count",
            Counter::View => "view_count",
            Counter::Patch => "patch_count",
        }
    }

    /// The field of the time of the last one.
    #[must_use]
    pub fn last_field(self) -> &'static str {
        match self {
            Counter::Use => "last_used_at",
            Counter::View => "last_viewed_at",
            Counter::Patch => "last_patched_at",
        }
    }
}
