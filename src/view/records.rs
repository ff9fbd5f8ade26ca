//! The codec of `.usage.json`: bytes to records and back, without I/O.
//!
//! A file that is JSON is taken as JSON says. Only what is not JSON goes through the scanner, which may guess:
//! by the indentation that Hermes writes, else by counting brackets. Either way, every deviation is a [`Problem`].

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};
use crate::event::Event;

mod scan;
mod text;
mod time;

pub use time::{format_time, parse_time};

/// The fields of one skill. Those that this project does not know are kept as they are, numbers digit by digit
/// (only `1E5` becomes `1e+5`).
pub type Record = Map<String, Value>;

/// All records of a file by name, in the order in which Python sorts them (code points, which is the order of UTF-8).
pub type Records = BTreeMap<String, Record>;

/// What a file told, and what was wrong with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// What can be read.
    pub records: Records,
    /// By offset; at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
}

/// One deviation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it shows, in bytes. For a field of a wrong type: where the name of its record stands.
    pub offset: usize,
    /// A phrase for people. It names skills and fields, never values.
    pub what: String,
}

/// A file of garbage must not become a list of garbage.
pub const MAX_PROBLEMS: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// `serde_json` takes an object with this key for a number. The scanner does not.
const NUMBER_KEY: &[u8] = b"$serde_json::private::Number";

const COUNTS: [&str; 3] = ["use_count", "view_count", "patch_count"];
const TIMES: [&str; 5] = ["last_used_at", "last_viewed_at", "last_patched_at", "created_at", "archived_at"];
const OTHERS: [&str; 3] = ["created_by", "pinned", "state"];

/// Reads whatever bytes it is given. Never fails, never panics, takes time linear in their number.
#[must_use]
pub fn decode(bytes: &[u8]) -> Found {
    let body = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut found = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(entries)) if memmem::find(body, NUMBER_KEY).is_none() => trust(body, entries),
        Ok(Value::Object(_)) => scan::salvage(body),
        Ok(_) => Found::default().with(0, "the top level is not an object"),
        Err(error) => match scan::salvage(body) {
            found if found.problems.is_empty() => found.with(0, &format!("not quite JSON ({error})")),
            found => found,
        },
    };
    let mark_len = bytes.len().saturating_sub(body.len());
    found.problems.iter_mut().for_each(|problem| problem.offset = problem.offset.saturating_add(mark_len));
    correct(bytes, &mut found);
    if mark_len > 0 {
        found.problems.truncate(MAX_PROBLEMS.saturating_sub(1));
        found.note(0, "a byte order mark");
    }
    found.problems.sort_by_key(|problem| problem.offset);
    found
}

/// The entries of a file that is JSON.
fn trust(bytes: &[u8], entries: Map<String, Value>) -> Found {
    let mut found = Found::default();
    for (name, value) in entries {
        match value {
            Value::Object(record) => drop(found.records.insert(name, record)),
            _ if found.problems.len() == MAX_PROBLEMS => {}
            _ => found.note(place(bytes, &name), &format!("the value of {} is not an object", shown(&name))),
        }
    }
    found
}

/// Writes what Hermes would: Python's `json.dump(indent=2, sort_keys=True, ensure_ascii=False)`, no newline at the end.
#[must_use]
pub fn encode(records: &Records) -> Vec<u8> {
    // Fails for keys that are not strings and for writers that fail: there are neither.
    serde_json::to_vec_pretty(records).unwrap_or_default()
}

impl Found {
    fn note(&mut self, offset: usize, what: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { offset, what: what.to_owned() });
        }
    }

    fn with(mut self, offset: usize, what: &str) -> Found {
        self.note(offset, what);
        self
    }
}

/// Gives every known field of a wrong type the value that it can only mean.
fn correct(bytes: &[u8], found: &mut Found) {
    let mut wrong = Vec::new();
    for (name, record) in &mut found.records {
        for (field, value) in record {
            let Some(meant) = meaning(field, value) else { continue };
            *value = meant;
            if wrong.len() < MAX_PROBLEMS {
                wrong.push((place(bytes, name), format!("{field} of {} is of the wrong type", shown(name))));
            }
        }
    }
    wrong.iter().for_each(|(offset, what)| found.note(*offset, what));
}

/// What a known field is meant to hold, if that is not what it holds. `null` is an absent count and an absent pin.
#[must_use]
pub fn meaning(field: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null if field == "state" => Some(Value::from("active")),
        Value::Null => None,
        _ if COUNTS.contains(&field) => match value {
            Value::Number(number) if number.as_u64().is_some() => None,
            Value::Number(number) => Some(whole(number).into()),
            Value::String(text) => {
                let number = || text.trim().parse().ok().as_ref().map(whole);
                Some(text.trim().parse().ok().or_else(number).unwrap_or(0_u64).into())
            }
            _ => Some(0.into()),
        },
        _ if TIMES.contains(&field) => {
            let readable = value.as_str().is_some_and(|text| parse_time(text).is_some());
            (!readable).then_some(Value::Null)
        }
        _ if field == "pinned" && !value.is_boolean() => {
            let text = value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"));
            Some((text || value.as_u64() == Some(1)).into())
        }
        _ if field == "state" && !value.is_string() => Some(Value::from("active")),
        _ => None,
    }
}

/// Refuses an event that sets a known field to what it cannot hold, or `state`, which has an event of its own.
///
/// # Errors
/// [`Error::Invalid`]
pub fn check_fields(event: &Event<'_>) -> Result<()> {
    let Event::Fields { set, .. } = event else { return Ok(()) };
    let set: Map<String, Value> = serde_json::from_str(set).unwrap_or_default(); // else the event is refused anyway
    let is_wrong = |field: &str, value: &Value| match field {
        "state" => true, // an event of its own, which sets archived_at as well
        "pinned" => !value.is_boolean(),
        _ => meaning(field, value).is_some(),
    };
    match set.iter().find(|(field, value)| is_wrong(field, value)) {
        None => Ok(()),
        Some((field, value)) => Err(Error::Invalid {
            what: "field",
            found: format!("{field} = {value}"),
            allowed: "true or false for pinned, null or an ISO 8601 time for created_at and archived_at; state has an event of its own",
        }),
    }
}

/// The value of a number that is a count after all (`12`, `12.0`, `1.2e1`), else 0.
fn whole(number: &Number) -> u64 {
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..u64::MAX as f64).contains(float));
    number.as_u64().unwrap_or(float.map_or(0, |float| float as u64))
}

/// Where a name first stands in a file, else 0. A search of the whole file: only for problems that are shown.
fn place(bytes: &[u8], name: &str) -> usize {
    memmem::find(bytes, Value::from(name).to_string().as_bytes()).unwrap_or(0)
}

/// A name as messages show it: quoted, and not longer than a line.
fn shown(name: &str) -> String {
    format!("{:?}", name.chars().take(80).collect::<String>())
}

#[cfg(test)]
mod tests;
