//! One skill's folded record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{Counter, State};
use crate::view::external::Difference;
use crate::view::json_text;
use crate::view::policy::Policy;
use crate::view::records::{Record, format_time, parse_time};

/// A day, in microseconds: a time further ahead of its frame's arrival than this is taken for a mistake.
const FUTURE_LIMIT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// The time, or the arrival if it lies too far ahead of it: one wrong clock must not keep a skill active for ever.
pub(crate) fn clamp(time_micros: i64, arrival_micros: i64) -> i64 {
    if time_micros.saturating_sub(arrival_micros) > FUTURE_LIMIT_MICROS { arrival_micros } else { time_micros }
}

/// One incarnation of a skill: what is counted, and every other field of its record as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    counts: [u64; 3],
    last_micros: [Option<i64>; 3],
    /// Uses by reviews, kept apart so that a policy can choose.
    review_count: u64,
    review_last_micros: Option<i64>,
    /// The record's fields. For what is counted this only says that the field is there (0 or null), or keeps an unusual
    /// spelling of the same time.
    #[serde(with = "json_text")]
    fields: Arc<Map<String, Value>>,
}

impl Skill {
    /// A record as Hermes makes it on first sight.
    pub(crate) fn born(time_micros: i64) -> Skill {
        let mut fields = Map::new();
        for counter in Counter::ALL {
            fields.insert(counter.count_field().into(), 0.into());
            fields.insert(counter.last_field().into(), Value::Null);
        }
        fields.insert("archived_at".into(), Value::Null);
        fields.insert("created_at".into(), format_time(time_micros).into());
        fields.insert("created_by".into(), Value::Null);
        fields.insert("pinned".into(), false.into());
        fields.insert("state".into(), State::Active.as_str().into());
        Skill { fields: Arc::new(fields), ..Skill::blank() }
    }

    /// A record without any field: an old one that came from the file shows what it had there and no more.
    pub(crate) fn blank() -> Skill {
        Skill {
            counts: [0; 3],
            last_micros: [None; 3],
            review_count: 0,
            review_last_micros: None,
            fields: Arc::default(),
        }
    }

    /// Counts up, saturating.
    #[inline]
    pub(crate) fn count(&mut self, counter: Counter, count: u64, time_micros: i64) {
        if let (Some(total), Some(last)) =
            (self.counts.get_mut(counter as usize), self.last_micros.get_mut(counter as usize))
        {
            *total = total.saturating_add(count);
            *last = (*last).max(Some(time_micros));
        }
    }

    /// A use by a review.
    pub(crate) fn count_review(&mut self, count: u64, time_micros: i64) {
        self.review_count = self.review_count.saturating_add(count);
        self.review_last_micros = self.review_last_micros.max(Some(time_micros));
    }

    pub(crate) fn set(&mut self, field: &str, value: Value) {
        Arc::make_mut(&mut self.fields).insert(field.to_owned(), value);
    }

    pub(crate) fn unset(&mut self, field: &str) {
        Arc::make_mut(&mut self.fields).remove(field);
    }

    /// Counters add, times take the later, other fields theirs.
    pub(crate) fn apply_difference(&mut self, difference: &Difference, arrival_micros: i64) {
        for (counter, (count, last)) in Counter::ALL.iter().zip(difference.counts.iter().zip(difference.last_micros)) {
            if let Some(total) = self.counts.get_mut(*counter as usize) {
                *total = total.saturating_add(*count);
            }
            if let Some(time) = last {
                self.count(*counter, 0, clamp(time, arrival_micros));
            }
        }
        for (field, value) in &difference.set {
            self.set(field, value.clone());
        }
        for field in &difference.unset {
            self.unset(field);
        }
    }

    pub(crate) fn set_state(&mut self, state: State, time_micros: i64) {
        self.set("state", state.as_str().into());
        match state {
            State::Archived => self.set("archived_at", format_time(time_micros).into()),
            State::Active => self.set("archived_at", Value::Null),
            State::Stale => {}
        }
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.text("state") == Some(State::Archived.as_str())
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }
}

/// A skill as a [`Policy`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct SkillView<'a> {
    pub(crate) skill: &'a Skill,
    pub(crate) policy: Policy,
}

impl SkillView<'_> {
    /// How often it was used, viewed or patched.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        let own = self.skill.counts.get(counter as usize).copied().unwrap_or(0);
        if self.counts_reviews(counter) { own.saturating_add(self.skill.review_count) } else { own }
    }

    /// When it was last used, viewed or patched, in microseconds since the epoch (UTC).
    #[must_use]
    pub fn last_micros(&self, counter: Counter) -> Option<i64> {
        let own = self.skill.last_micros.get(counter as usize).copied().flatten();
        if self.counts_reviews(counter) { own.max(self.skill.review_last_micros) } else { own }
    }

    fn counts_reviews(&self, counter: Counter) -> bool {
        counter == if self.policy.reviews_are_views { Counter::View } else { Counter::Use }
    }

    /// Uses, views and patches together.
    #[must_use]
    pub fn activity(&self) -> u64 {
        Counter::ALL.iter().fold(0, |sum: u64, counter| sum.saturating_add(self.count(*counter)))
    }

    /// The newest of last used, viewed and patched, in microseconds since the epoch (UTC).
    #[must_use]
    pub fn last_activity_micros(&self) -> Option<i64> {
        Counter::ALL.iter().filter_map(|counter| self.last_micros(*counter)).max()
    }

    /// Lifecycle state; `Active` if the record says nothing or a word that only a fork knows.
    #[must_use]
    pub fn state(&self) -> State {
        self.skill.text("state").and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    /// Exempt from automatic transitions. Only `true` is pinned.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.skill.fields.get("pinned") == Some(&Value::Bool(true))
    }

    /// Whether the record puts the skill under the curator: an agent created it, by this field or a fork's.
    #[must_use]
    pub fn is_curated(&self) -> bool {
        self.created_by() == Some(Some("agent")) || self.skill.fields.get("agent_created") == Some(&Value::Bool(true))
    }

    /// When the record was made, in microseconds since the epoch (UTC).
    #[must_use]
    pub fn created_micros(&self) -> Option<i64> {
        self.skill.text("created_at").and_then(parse_time)
    }

    /// Who created the skill: `None` if the record does not say, `Some(None)` for null.
    #[must_use]
    pub fn created_by(&self) -> Option<Option<&str>> {
        self.skill.fields.get("created_by").map(Value::as_str)
    }

    /// The record as it stands in `.usage.json`.
    #[must_use]
    pub fn record(&self) -> Record {
        let mut record = Map::clone(&self.skill.fields);
        for counter in Counter::ALL {
            let count = self.count(counter);
            if count > 0 {
                record.insert(counter.count_field().into(), count.into());
            }
            if let Some(micros) = self.last_micros(counter) {
                // An unusual spelling of the same time stays.
                let shown = record.get(counter.last_field()).and_then(Value::as_str);
                if shown.and_then(parse_time) != Some(micros) {
                    record.insert(counter.last_field().into(), format_time(micros).into());
                }
            }
        }
        record
    }
}
