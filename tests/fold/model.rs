//! What events mean, in the plainest way.

use std::collections::{BTreeMap, HashMap};

use hermes_log::view::records::{Record, format_time};
use hermes_log::{Event, Policy, State};
use serde_json::Value;

#[derive(Clone, Debug)]
struct Skill {
    /// Uses, views, patches, uses by reviews: how many, and when the last was.
    counted: [(u64, Option<i64>); 4],
    fields: BTreeMap<String, Value>,
}

const COUNTED: [(&str, &str); 3] =
    [("use_count", "last_used_at"), ("view_count", "last_viewed_at"), ("patch_count", "last_patched_at")];
const USES: usize = 0;
const VIEWS: usize = 1;
const PATCHES: usize = 2;
const REVIEWS: usize = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    skills: HashMap<String, Skill>,
}

impl Model {
    pub(crate) fn apply(&mut self, time: i64, is_review: bool, event: &Event<'_>) {
        let Some(name) = event.skill() else { return };
        let is_archived =
            self.skills.get(name).is_some_and(|skill| skill.fields.get("state") == Some(&"archived".into()));
        let ends = match event {
            Event::Forgotten { .. } | Event::Deleted { .. } => true,
            Event::Created { .. } => is_archived,
            _ => false,
        };
        if ends {
            self.skills.remove(name);
        }
        if matches!(event, Event::Forgotten { .. } | Event::Deleted { .. }) {
            return;
        }
        let skill = self.skills.entry(name.to_owned()).or_insert_with(|| {
            let fields = [
                ("archived_at", Value::Null),
                ("created_at", format_time(time).into()),
                ("created_by", Value::Null),
                ("pinned", false.into()),
                ("state", "active".into()),
            ];
            Skill { counted: [(0, None); 4], fields: fields.map(|(name, value)| (name.to_owned(), value)).into() }
        });
        let mut count = |what: usize, by: u64| {
            let (count, last) = &mut skill.counted[what];
            *count = count.saturating_add(by);
            *last = Some(last.map_or(time, |last| last.max(time)));
        };
        match event {
            Event::Used { count: by, .. } => count(if is_review { REVIEWS } else { USES }, *by),
            Event::Viewed { count: by, .. } => count(VIEWS, *by),
            Event::Patched { count: by, .. } => count(PATCHES, *by),
            Event::Created { by, .. } => skill.set("created_by", (&**by).into()),
            Event::State { state, .. } => skill.set_state(*state, time),
            Event::Archived { .. } => skill.set_state(State::Archived, time),
            Event::Restored { .. } => skill.set_state(State::Active, time),
            Event::Pinned { pinned, .. } => skill.set("pinned", (*pinned).into()),
            Event::Fields { set, unset, .. } => {
                let set: serde_json::Map<String, Value> = serde_json::from_str(set).unwrap();
                skill.fields.extend(set);
                unset.iter().for_each(|field| drop(skill.fields.remove(&**field)));
            }
            _ => {}
        }
    }

    pub(crate) fn records(&self, policy: Policy) -> BTreeMap<String, Record> {
        self.skills.iter().map(|(name, skill)| (name.clone(), skill.record(policy))).collect()
    }
}

impl Skill {
    fn set(&mut self, field: &str, value: Value) {
        self.fields.insert(field.to_owned(), value);
    }

    fn set_state(&mut self, state: State, time: i64) {
        self.set("state", state.as_str().into());
        match state {
            State::Archived => self.set("archived_at", format_time(time).into()),
            State::Active => self.set("archived_at", Value::Null),
            State::Stale => {}
        }
    }

    fn record(&self, policy: Policy) -> Record {
        let mut record: Record = self.fields.clone().into_iter().collect();
        let reviews_are = if policy.reviews_are_views { VIEWS } else { USES };
        for (what, (count_field, last_field)) in COUNTED.into_iter().enumerate() {
            let (mut count, mut last) = self.counted[what];
            if what == reviews_are {
                count = count.saturating_add(self.counted[REVIEWS].0);
                last = last.max(self.counted[REVIEWS].1);
            }
            record.insert(count_field.into(), count.into());
            record.insert(last_field.into(), last.map_or(Value::Null, |micros| format_time(micros).into()));
        }
        record
    }
}
