//! What a change of a record is, as events: pure.
//!
//! | change | event |
//! |---|---|
//! | a count went up | `used`, `viewed`, `patched` by that much; its time is that of the append |
//! | another field | `state`, `pinned`, `created`, else `fields` |
//! | a record came | `seeded`, and what is not as in a new one |
//! | a record went | `forgotten` |
//!
//! No event says that a count went down, or that a time is another one without a count: [`Change::Beyond`]. Such a record
//! has to be written to `.usage.json` itself, from where it comes into the log as the work of another program.

use std::borrow::Cow;

use hermes_log::event::State;
use hermes_log::view::records::{Record, format_time, meaning, parse_time};
use hermes_log::{Counter, Event};
use serde_json::{Map, Value};

/// A time this close to now is that of the event, in microseconds.
const NOW_MICROS: u64 = 2_000_000;

/// What was done to one record.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// Nothing but counting.
    Counted(Vec<Event<'static>>),
    /// Fields were set. With `depends` there are some whose new value may depend on the one before, because nobody here
    /// knows what they mean.
    Events { events: Vec<Event<'static>>, depends: bool },
    /// No event can say it. With `reset` a value went back, so the record begins anew; else only the last times moved on.
    Beyond { reset: bool },
}

/// The change from one record (`None`: none) to another, at a time in microseconds since the epoch. Fields that are the same
/// may be left out of both.
pub(crate) fn change(skill: &str, before: Option<&Record>, after: &Record, now: i64) -> Change {
    let after = &corrected(after);
    let is_new = before.is_none();
    let born;
    let (before, mut events) = match before {
        Some(before) => (before, Vec::new()),
        None => {
            born = new_record(after, now);
            match &born {
                Some(born) => (born, vec![Event::Seeded { skill: skill.to_owned().into() }]),
                None => return Change::Beyond { reset: true },
            }
        }
    };
    let mut moved = false;
    for counter in Counter::ALL {
        let (count_before, count) = (count(before, counter), count(after, counter));
        let time = last(after, counter);
        let is_now = time.is_some_and(|time| is_close(time, now));
        if count > count_before && is_now {
            // Whatever the time before: a clock that was set back is no reason to begin anew.
            events.push(Event::counted(counter, skill.to_owned(), count - count_before));
            continue;
        }
        let time_before = last(before, counter);
        if count < count_before || time < time_before && !is_now {
            return Change::Beyond { reset: true };
        }
        if count > count_before {
            if is_new || time != time_before {
                return Change::Beyond { reset: true };
            }
            events.push(Event::counted(counter, skill.to_owned(), count - count_before));
        } else if time > time_before {
            moved = true;
        }
    }
    let counts = events.len();
    let depends = other_fields(skill, before, after, now, &mut events);
    match (moved, is_new || events.len() > counts) {
        (true, true) => Change::Beyond { reset: true },
        (true, false) if counts > 0 => Change::Beyond { reset: true },
        (true, false) => Change::Beyond { reset: false },
        (false, true) => Change::Events { events, depends },
        (false, false) => Change::Counted(events),
    }
}

/// Whether two times are so close that one event can stand for both.
pub(crate) fn is_close(time: i64, now: i64) -> bool {
    now.abs_diff(time) <= NOW_MICROS
}

/// Everything that is not counted. Returns whether a field is among it that nobody here knows.
fn other_fields(skill: &str, before: &Record, after: &Record, now: i64, events: &mut Vec<Event<'static>>) -> bool {
    let skill = Cow::<'static, str>::Owned(skill.to_owned());
    let (mut set, mut unset) = (Map::new(), Vec::new());
    // What the events so far make of the fields that they touch.
    let mut archived_at = before.get("archived_at").cloned();
    for (field, value) in after {
        if Counter::is_counted(field) || field == "archived_at" || before.get(field) == Some(value) {
            continue;
        }
        match (field.as_str(), value) {
            ("state", Value::String(word)) if let Ok(state) = word.parse::<State>() => {
                events.push(Event::State { skill: skill.clone(), state });
                match state {
                    State::Active => archived_at = Some(Value::Null),
                    State::Archived => archived_at = Some(format_time(now).into()),
                    State::Stale => {}
                }
            }
            ("pinned", Value::Bool(pinned)) => events.push(Event::Pinned { skill: skill.clone(), pinned: *pinned }),
            // On an archived skill the event would end its life; here only the field was set.
            ("created_by", Value::String(by))
                if !by.is_empty() && before.get("state").and_then(Value::as_str) != Some("archived") =>
            {
                // First: an event before it must not belong to another life of the name.
                let first = events.iter().take_while(|event| matches!(event, Event::Seeded { .. })).count();
                events.insert(first, Event::Created { skill: skill.clone(), by: by.clone().into() });
            }
            _ => drop(set.insert(field.clone(), value.clone())),
        }
    }
    if let Some(wanted) = after.get("archived_at").filter(|wanted| Some(*wanted) != archived_at.as_ref()) {
        let is_said = |value: Option<&Value>| value.and_then(Value::as_str).and_then(parse_time);
        let both = is_said(Some(wanted)).zip(is_said(archived_at.as_ref()));
        if !both.is_some_and(|(one, other)| is_close(one, other)) {
            set.insert("archived_at".into(), wanted.clone());
        }
    }
    for field in before.keys().filter(|field| !after.contains_key(*field) && !Counter::is_counted(field)) {
        unset.push(Cow::<'static, str>::Owned(field.clone()));
    }
    let is_known = |field: &str| matches!(field, "archived_at" | "created_at" | "created_by" | "pinned" | "state");
    let depends = set.keys().any(|field| !is_known(field)) || unset.iter().any(|field| !is_known(field));
    if !set.is_empty() || !unset.is_empty() {
        events.push(Event::Fields { skill, set: Value::Object(set).to_string().into(), unset });
    }
    depends
}

/// The record that `seeded` makes, for a new one that has all that is counted and was made now: what it differs in
/// beyond that, events can say.
fn new_record(after: &Record, now: i64) -> Option<Record> {
    let mut born = Map::new();
    for counter in Counter::ALL {
        after.get(counter.count_field())?;
        after.get(counter.last_field())?;
        born.insert(counter.count_field().into(), 0.into());
        born.insert(counter.last_field().into(), Value::Null);
    }
    let created = after.get("created_at").and_then(Value::as_str).and_then(parse_time);
    let made_now = created.filter(|created| is_close(*created, now));
    let created_at = if made_now.is_some() { after.get("created_at").cloned() } else { None };
    born.insert("created_at".into(), created_at.unwrap_or_else(|| format_time(now).into()));
    for (field, value) in [
        ("archived_at", Value::Null),
        ("created_by", Value::Null),
        ("pinned", false.into()),
        ("state", "active".into()),
    ] {
        born.insert(field.into(), value);
    }
    Some(born)
}

/// Known fields of a wrong type, given the value that they can only mean, as when the file is read.
fn corrected(record: &Record) -> Cow<'_, Record> {
    let wrong = record.iter().filter_map(|(field, value)| Some((field, meaning(field, value)?)));
    let wrong: Vec<(String, Value)> = wrong.map(|(field, meant)| (field.clone(), meant)).collect();
    if wrong.is_empty() {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    record.extend(wrong);
    Cow::Owned(record)
}

fn count(record: &Record, counter: Counter) -> u64 {
    record.get(counter.count_field()).and_then(Value::as_u64).unwrap_or(0)
}

fn last(record: &Record, counter: Counter) -> Option<i64> {
    record.get(counter.last_field()).and_then(Value::as_str).and_then(parse_time)
}
