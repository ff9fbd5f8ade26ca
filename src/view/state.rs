//! The fold: the same frames give the same state, however they were read.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::batch::{self, Batch, Count, Unapplied};
use crate::event::{Counter, Event, Origin, State as Lifecycle};
use crate::log::{Gap, Position};
use crate::view::auth::AuthView;
use crate::view::external::{Difference, External, Lineage};
use crate::view::policy::Policy;
use crate::view::records::{Records, meaning};
use crate::view::salts::Salts;
use crate::view::skill::{Skill, SkillView};

/// As many gaps are remembered one by one; more are only counted (their bytes are in `damaged/`).
const MOST_GAPS: usize = 256;

/// The folded log: what a checkpoint holds, as MessagePack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    #[serde(serialize_with = "sorted")]
    skills: HashMap<String, Skill>,
    lineage: Lineage,
    /// Parts of an `external` event whose last part has not come yet, by its id.
    parts: BTreeMap<String, Vec<String>>,
    carried: Vec<Carried>,
    gaps: Gaps,
    salts: Salts,
    frames: u64,
    events: u64,
    #[serde(default)]
    auth: AuthView,
}

/// A payload that this program does not understand as a whole, kept to the letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Carried {
    position: Position,
    payload: Vec<u8>,
    unapplied: Unapplied,
}

/// What was met that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// How many bytes, missing segments left out.
    pub bytes: u64,
    /// The newest of them, oldest first.
    pub newest: Vec<Gap>,
}

/// Checkpoints are a pure function of the log, so their bytes must not depend on a hash seed.
fn sorted<S: serde::Serializer>(skills: &HashMap<String, Skill>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(skills.iter().collect::<BTreeMap<_, _>>())
}

/// A time in a frame, which nobody checked.
fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

impl State {
    /// The bytes of a checkpoint's state. The empty state has none.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if *self == State::default() { Vec::new() } else { rmp_serde::to_vec(self).unwrap_or_default() }
    }

    /// Reads a checkpoint's state and applies what was carried in it and is understood now. `None`: the bytes are no
    /// state.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<State> {
        if bytes.is_empty() {
            return Some(State::default());
        }
        let mut state: State = rmp_serde::from_slice(bytes).ok()?;
        state.adopt_carried();
        Some(state)
    }

    /// Applies one frame.
    pub(crate) fn apply_frame(&mut self, position: Position, payload: &[u8]) {
        self.frames += 1;
        if let Some(batch) = batch::decode_counts(payload) {
            let (time, is_review) = (signed(batch.time), batch.kind == Origin::REVIEW);
            self.events += batch.counts.len() as u64;
            for &Count { counter, skill, count } in &batch.counts {
                self.count(time, is_review, counter, skill, count);
            }
            return;
        }
        match batch::decode(payload) {
            Some(Batch { time, origin, events, carried }) => {
                for event in &events {
                    self.apply(time, &origin, event);
                }
                if let Some(unapplied) = carried {
                    self.carried.push(Carried { position, payload: payload.to_vec(), unapplied });
                }
            }
            None => {
                self.carried.push(Carried { position, payload: payload.to_vec(), unapplied: Unapplied::Payload });
            }
        }
    }

    pub(crate) fn apply_gap(&mut self, gap: Gap) {
        self.gaps.count += 1;
        self.gaps.bytes = self.gaps.bytes.saturating_add(gap.len.unwrap_or(0));
        if self.gaps.newest.len() == MOST_GAPS {
            self.gaps.newest.remove(0);
        }
        self.gaps.newest.push(gap);
    }

    pub(crate) fn apply_opened(&mut self, number: u64, salt: u64) {
        self.salts.insert(number, salt);
    }

    fn adopt_carried(&mut self) {
        for mut carried in std::mem::take(&mut self.carried) {
            if let Some(Batch { time, origin, events, carried: still }) = batch::decode(&carried.payload) {
                match carried.unapplied {
                    Unapplied::Payload => events.iter().for_each(|event| self.apply(time, &origin, event)),
                    Unapplied::Events(ref indices) => {
                        for (_, event) in batch::decode_some(&carried.payload, indices) {
                            self.apply(time, &origin, &event);
                        }
                    }
                }
                match still {
                    Some(unapplied) => carried.unapplied = unapplied,
                    None => continue,
                }
            }
            self.carried.push(carried);
        }
    }

    fn apply(&mut self, time: u64, origin: &Origin<'_>, event: &Event<'_>) {
        self.events += 1;
        let time = signed(time);
        let is_review = origin.is_review();
        match event {
            Event::Used { skill, count } => self.count(time, is_review, Counter::Use, skill, *count),
            Event::Viewed { skill, count } => self.count(time, is_review, Counter::View, skill, *count),
            Event::Patched { skill, count } => self.count(time, is_review, Counter::Patch, skill, *count),
            Event::Created { skill, by } => {
                if self.skills.get(&**skill).is_some_and(Skill::is_archived) {
                    self.skills.remove(&**skill); // the name is used again: another incarnation
                }
                self.skill(skill, time).set("created_by", Value::from(&**by));
            }
            Event::State { skill, state } => self.skill(skill, time).set_state(*state, time),
            Event::Archived { skill } => self.skill(skill, time).set_state(Lifecycle::Archived, time),
            Event::Restored { skill } => self.skill(skill, time).set_state(Lifecycle::Active, time),
            Event::Pinned { skill, pinned } => self.skill(skill, time).set("pinned", Value::Bool(*pinned)),
            Event::Fields { skill, set, unset } => self.set_fields(time, skill, set, unset),
            Event::Forgotten { skill } | Event::Deleted { skill } => {
                self.skills.remove(&**skill);
            }
            Event::Seeded { skill }
            | Event::Edited { skill }
            | Event::FileWritten { skill, .. }
            | Event::FileRemoved { skill, .. }
            | Event::Installed { skill, .. }
            | Event::Updated { skill, .. } => {
                self.skill(skill, time);
            }
            Event::External { id, part, parts, data } => self.apply_part(id, *part, *parts, data),
            Event::Auth(event) => self.auth.apply(origin, event),
        }
    }

    #[inline]
    fn count(&mut self, time: i64, is_review: bool, counter: Counter, skill: &str, count: u64) {
        let skill = self.skill(skill, time);
        if is_review && counter == Counter::Use {
            skill.count_review(count, time);
        } else {
            skill.count(counter, count, time);
        }
    }

    #[inline]
    fn skill(&mut self, name: &str, time: i64) -> &mut Skill {
        self.skills.entry_ref(name).or_insert_with(|| Skill::born(time))
    }

    /// What is counted is not set: [`Event::validate`] refuses it, and what came into the log all the same is no count.
    fn set_fields<S: AsRef<str>>(&mut self, time: i64, name: &str, set: &str, unset: &[S]) {
        let Ok(set) = serde_json::from_str::<serde_json::Map<String, Value>>(set) else { return };
        let skill = self.skill(name, time);
        for (field, value) in set.into_iter().filter(|(field, _)| !Counter::is_counted(field)) {
            // As it would be read from the file: a compaction must not change what it means.
            skill.set(&field, meaning(&field, &value).unwrap_or(value));
        }
        for field in unset.iter().map(AsRef::as_ref).filter(|field| !Counter::is_counted(field)) {
            skill.unset(field);
        }
    }

    /// The event takes effect with its last part; parts of another one are of a compactor that died.
    fn apply_part(&mut self, id: &str, part: u32, parts: u32, data: &str) {
        let so_far = self.parts.entry(id.to_owned()).or_default();
        if so_far.len() != part as usize {
            return; // a part before it was damaged, so the event cannot be read
        }
        so_far.push(data.to_owned());
        if part.checked_add(1) != Some(parts) {
            return;
        }
        let text = so_far.concat();
        self.parts.clear();
        let Ok(external) = serde_json::from_str::<External>(&text) else { return };
        let External { arrival_micros, policy, temporary, differences, before, after } = external;
        self.apply_differences(&differences, arrival_micros, policy);
        self.lineage = Lineage::new(temporary, &before, &after);
    }

    /// What a difference makes of its skill: `Some(None)` forgets it, `None` changes nothing.
    #[allow(clippy::option_option)]
    pub(crate) fn effect(&self, difference: &Difference, arrival_micros: i64, policy: Policy) -> Option<Option<Skill>> {
        let known = self.skills.get(&difference.skill);
        if let Some(removed) = &difference.removed {
            return (SkillView { skill: known?, policy }.record() == *removed).then_some(None);
        }
        // Where the log has none: an old record as it came, or, when only the log forgot it, a new incarnation.
        let unknown = || if difference.is_new { Skill::blank() } else { Skill::born(arrival_micros) };
        let mut skill = known.cloned().unwrap_or_else(unknown);
        skill.apply_difference(difference, arrival_micros);
        Some(Some(skill))
    }

    /// Applies what others did to the file.
    pub(crate) fn apply_differences(&mut self, differences: &[Difference], arrival_micros: i64, policy: Policy) {
        for difference in differences {
            match self.effect(difference, arrival_micros, policy) {
                Some(Some(skill)) => drop(self.skills.insert(difference.skill.clone(), skill)),
                Some(None) => drop(self.skills.remove(&difference.skill)),
                None => {}
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.skills.keys().map(String::as_str)
    }

    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    pub(crate) fn auth(&self) -> &AuthView {
        &self.auth
    }

    pub(crate) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    pub(crate) fn salts(&self) -> &Salts {
        &self.salts
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How many payloads are carried along because this program does not understand all of them.
    pub(crate) fn carried(&self) -> usize {
        self.carried.len()
    }

    /// Every record, as a snapshot holds them.
    pub(crate) fn records(&self, policy: Policy) -> Records {
        self.skills.iter().map(|(name, skill)| (name.clone(), SkillView { skill, policy }.record())).collect()
    }
}
