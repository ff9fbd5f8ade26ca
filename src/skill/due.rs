//! The curator's rule: which skills are due to become stale, archived or active again, and why the others are not.
//!
//! A pure function of the view, the skills on disk and what protects them. It is what `apply_automatic_transitions` of
//! Hermes 0.19.0 does, with these differences: a file of Hermes's that cannot be read is an error, where Hermes goes on
//! without it; only `true` is pinned; a time too far in the future does not keep a skill active.

use std::path::Path;
use std::time::Duration;

use super::{Found, Protections};
use crate::event::{Counter, State};
use crate::view::{SkillView, View};

/// After how long without activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A skill becomes stale.
    pub stale_after: Duration,
    /// A skill is archived.
    pub archive_after: Duration,
}

/// What is due for a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Something is to be done.
    Act(Action),
    /// It stays as it is.
    Keep(Why),
}

/// What is to be done with a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It becomes stale.
    MarkStale,
    /// It goes to the archive.
    Archive,
    /// It was used again, and becomes active.
    Reactivate,
    /// A bundled skill without a record gets one: its time begins now.
    Seed,
}

/// Why a skill stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is pinned.
    Pinned,
    /// A cron job names it.
    InCronJob,
    /// It belongs to Hermes, the hub or others.
    Protected(&'static str),
    /// No record says that an agent created it.
    NotCurated,
    /// It was never used, and is younger than the stale window.
    TooYoung,
    /// It was active a short time ago, or is already what it should be.
    InOrder,
}

/// What is due, for every skill on disk.
#[must_use]
pub fn due(view: &View, found: &[Found], protections: &Protections, rule: Rule, now_micros: i64) -> Vec<(String, Due)> {
    let mut names: Vec<&Found> = found.iter().collect();
    names.sort_unstable();
    names.dedup_by(|a, b| a.name == b.name); // as Hermes: a name counts once
    let due =
        |found: &Found| due_of(&found.name, &found.folder, view.skill(&found.name), protections, rule, now_micros);
    names.into_iter().map(|found| (found.name.clone(), due(found))).collect()
}

/// What is due for one skill.
#[must_use]
pub fn due_of(
    name: &str,
    folder: &Path,
    record: Option<SkillView<'_>>,
    protections: &Protections,
    rule: Rule,
    now_micros: i64,
) -> Due {
    if let Some(why) = protections.off_limits(name, folder) {
        return Due::Keep(Why::Protected(why));
    }
    let is_bundled = protections.bundled.contains(name);
    if !is_bundled && !record.is_some_and(|record| record.is_curated()) {
        return Due::Keep(Why::NotCurated);
    }
    if record.is_some_and(|record| record.is_pinned()) {
        return Due::Keep(Why::Pinned);
    }
    if protections.cron.contains(name) {
        return Due::Keep(Why::InCronJob);
    }
    let Some(record) = record else { return Due::Act(Action::Seed) };
    let idle_since = record.last_activity_micros().or(record.created_micros()).unwrap_or(now_micros);
    let is_over = |limit: Duration| idle_since <= now_micros.saturating_sub(micros(limit));
    let is_stale = is_over(rule.stale_after);
    match record.state() {
        // Never used is no evidence of not being needed, while it is young.
        State::Active | State::Archived if !is_stale && record.count(Counter::Use) == 0 => Due::Keep(Why::TooYoung),
        State::Active | State::Stale if is_over(rule.archive_after) && (is_stale || record.count(Counter::Use) > 0) => {
            Due::Act(Action::Archive)
        }
        State::Active if is_stale => Due::Act(Action::MarkStale),
        State::Stale if !is_stale => Due::Act(Action::Reactivate),
        _ => Due::Keep(Why::InOrder),
    }
}

impl std::fmt::Display for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Due::Act(Action::MarkStale) => "mark stale",
            Due::Act(Action::Archive) => "archive",
            Due::Act(Action::Reactivate) => "reactivate",
            Due::Act(Action::Seed) => "seed",
            Due::Keep(_) => "keep",
        })
    }
}

/// A phrase for people.
impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Why::Pinned => "pinned",
            Why::InCronJob => "a cron job names it",
            Why::Protected(why) => why,
            Why::NotCurated => "no record says that an agent created it",
            Why::TooYoung => "never used, and too young",
            Why::InOrder => "in order",
        })
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
