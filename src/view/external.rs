//! External work: what processes without this project did to `.usage.json`.
//!
//! It is the difference of the file to its *base*, the records as last written here. The compactor puts it into the log
//! as an `external` event; a view adds what the file has beyond the base now.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Counter;
use crate::view::policy::Policy;
use crate::view::records::{self, Record, Records, format_time, parse_time};
use crate::view::skill::clamp;

/// What an `external` event carries, as JSON text, in as many parts as the frames' size asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct External {
    /// When the file was found written, in microseconds since the epoch: the differences' time of arrival.
    pub arrival_micros: i64,
    /// By which the records were written.
    pub policy: Policy,
    /// Name of the new snapshot before it was renamed into place, beside `.usage.json`. While a file of this name
    /// exists, the rename has not happened.
    pub temporary: String,
    /// What others did to the file since the base.
    pub differences: Vec<Difference>,
    /// The records as found in the file.
    pub before: Records,
    /// The records as written to the new snapshot.
    pub after: Records,
}

/// What was done to one skill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    /// The skill.
    pub skill: String,
    /// The base did not have it: the record came as it is.
    #[serde(skip_serializing_if = "is_default")]
    pub is_new: bool,
    /// The file no longer has it; this is the base's record. It is forgotten if the log still has the same, else it is
    /// active in the log, and stays.
    #[serde(skip_serializing_if = "is_default")]
    pub removed: Option<Record>,
    /// Counted up by this much: uses, views, patches.
    #[serde(skip_serializing_if = "is_default")]
    pub counts: [u64; 3],
    /// Later times, in microseconds since the epoch.
    #[serde(skip_serializing_if = "is_default")]
    pub last_micros: [Option<i64>; 3],
    /// Other fields that have another value.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Value>,
    /// Fields that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The newest `external` event, as far as it is needed to find the base. The records are kept as the text that Hermes
/// would write: a file that nobody touched is known by comparing bytes, and nothing is parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    pub(crate) temporary: String,
    before: Arc<str>,
    after: Arc<str>,
}

impl Lineage {
    pub(crate) fn new(temporary: String, before: &Records, after: &Records) -> Lineage {
        let text = |records| String::from_utf8(records::encode(records)).unwrap_or_default().into();
        Lineage { temporary, before: text(before), after: text(after) }
    }

    /// What the file on disk descends from. A digest could not decide this: an external writer may have written since,
    /// on either.
    pub(crate) fn base(&self, temporary_exists: bool) -> Base<'_> {
        Base(if temporary_exists { &self.before } else { &self.after })
    }
}

/// The base, as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base<'a>(&'a str);

impl Base<'_> {
    /// Whether a file of these bytes is the base to the letter. (Before the first event there is no base, and an empty
    /// file is a damaged one.)
    pub(crate) fn is(self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && self.0.as_bytes() == bytes
    }

    pub(crate) fn records(self) -> Records {
        // Written by `encode`, under a checkpoint's checksum; empty before the first event.
        serde_json::from_str(self.0).unwrap_or_default()
    }
}

/// What was done to the file since its base. A damaged file (`is_whole` false) says nothing about what it lacks.
/// `arrival_micros` is when the file was written: times too far ahead of it are clamped.
pub(crate) fn differences(base: &Records, file: &Records, is_whole: bool, arrival_micros: i64) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (skill, record) in file {
        let difference = match base.get(skill) {
            Some(before) if before == record => continue,
            before => compare(skill, before, record, arrival_micros),
        };
        let blank = Difference { skill: skill.clone(), ..Difference::default() };
        if difference != blank {
            differences.push(difference);
        }
    }
    if is_whole {
        let removed = base.iter().filter(|(skill, _)| !file.contains_key(*skill));
        differences.extend(removed.map(|(skill, record)| Difference {
            skill: skill.clone(),
            removed: Some(record.clone()),
            ..Difference::default()
        }));
    }
    differences
}

fn compare(skill: &str, before: Option<&Record>, record: &Record, arrival_micros: i64) -> Difference {
    let mut difference = Difference { skill: skill.to_owned(), is_new: before.is_none(), ..Difference::default() };
    let counts = Counter::ALL.iter().zip(&mut difference.counts).zip(&mut difference.last_micros);
    for ((counter, count), last) in counts {
        let number = |record: &Record| record.get(counter.count_field()).and_then(Value::as_u64).unwrap_or(0);
        // Never less than nothing: a file that was set back is no work.
        *count = number(record).saturating_sub(before.map_or(0, number));
        let time = |record: &Record| record.get(counter.last_field()).and_then(Value::as_str).and_then(parse_time);
        let later = time(record).map(|time| clamp(time, arrival_micros));
        *last = later.filter(|later| Some(*later) > before.and_then(time));
    }
    for (field, value) in record {
        if is_count(field) {
            if difference.is_new {
                let marker = if value.is_null() { Value::Null } else { 0.into() };
                difference.set.insert(field.clone(), marker);
            }
        } else if is_last(field) {
            let unusual = value.as_str().filter(|text| parse_time(text).map(format_time).as_deref() != Some(text));
            let is_changed = before.is_some_and(|before| before.get(field) != Some(value));
            if difference.is_new || (is_changed && unusual.is_some()) {
                difference.set.insert(field.clone(), unusual.map_or(Value::Null, Value::from));
            }
        } else if before.is_none_or(|before| before.get(field) != Some(value)) {
            difference.set.insert(field.clone(), value.clone());
        }
    }
    let gone = before.into_iter().flatten().map(|(field, _)| field);
    difference.unset =
        gone.filter(|field| !record.contains_key(*field) && !is_count(field) && !is_last(field)).cloned().collect();
    difference
}

fn is_count(field: &str) -> bool {
    Counter::ALL.iter().any(|counter| counter.count_field() == field)
}

fn is_last(field: &str) -> bool {
    Counter::ALL.iter().any(|counter| counter.last_field() == field)
}
