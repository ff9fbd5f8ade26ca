//! Events as `tail` and `dump` show them.

use serde_json::{Value, json};

use crate::cli::display;
use crate::event::batch::{Batch, Unapplied};
use crate::event::{AuthEvent, Event, Line};
use crate::log::Position;

/// What an event of the log looks like: kind, skill, details.
pub(crate) struct Described {
    pub(crate) kind: &'static str,
    pub(crate) skill: String,
    pub(crate) details: String,
}

impl std::fmt::Display for Described {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<10}", self.kind)?;
        for word in [&self.skill, &self.details].into_iter().filter(|word| !word.is_empty()) {
            write!(f, "  {word}")?;
        }
        Ok(())
    }
}

/// Everything in a frame, in order, what is not understood last.
pub(crate) fn describe_all(batch: Option<&Batch<'_>>) -> Vec<Described> {
    let Some(batch) = batch else { return vec![not_understood("its shape is of a newer version".into())] };
    let mut all: Vec<Described> = batch.events.iter().map(describe).collect();
    match &batch.carried {
        None => {}
        Some(Unapplied::Events(indices)) if indices.is_empty() => {
            all.push(not_understood("arguments of a newer version".into()));
        }
        Some(Unapplied::Events(indices)) => {
            all.push(not_understood(format!("{} of a newer version", display::count(indices.len() as u64, "event"))));
        }
        Some(Unapplied::Payload) => all.push(not_understood("its shape is of a newer version".into())),
    }
    all
}

fn not_understood(details: String) -> Described {
    Described { kind: "not understood, kept", skill: String::new(), details }
}

fn describe(event: &Event<'_>) -> Described {
    let times = |count: &u64| if *count == 1 { String::new() } else { format!("x {}", display::number(*count)) };
    let (kind, details) = match event {
        Event::Used { count, .. } => ("used", times(count)),
        Event::Viewed { count, .. } => ("viewed", times(count)),
        Event::Patched { count, .. } => ("patched", times(count)),
        Event::Created { by, .. } => ("created", format!("by {}", display::name(by))),
        Event::Seeded { .. } => ("seeded", String::new()),
        Event::State { state, .. } => ("state", state.to_string()),
        Event::Pinned { pinned: true, .. } => ("pinned", String::new()),
        Event::Pinned { pinned: false, .. } => ("unpinned", String::new()),
        Event::Fields { set, unset, .. } => ("fields", fields(set, unset)),
        Event::Forgotten { .. } => ("forgotten", String::new()),
        Event::Edited { .. } => ("edited", String::new()),
        Event::FileWritten { path, .. } => ("file written", display::name(path)),
        Event::FileRemoved { path, .. } => ("file removed", display::name(path)),
        Event::Installed { source, .. } => ("installed", format!("from {}", display::name(source))),
        Event::Updated { source, .. } => ("updated", format!("from {}", display::name(source))),
        Event::Archived { .. } => ("archived", String::new()),
        Event::Restored { .. } => ("restored", String::new()),
        Event::Deleted { .. } => ("deleted", String::new()),
        Event::External { part, parts, data, .. } => {
            let part = u64::from(*part) + 1;
            let size = display::size(data.len() as u64);
            ("external", format!("what .usage.json says, part {part} of {parts}, {size}"))
        }
        Event::Auth(event) => auth(event),
    };
    Described { kind, skill: event.skill().map(display::name).unwrap_or_default(), details }
}

/// Redacted, as everything that prints a credential's fields.
fn auth(event: &AuthEvent) -> (&'static str, String) {
    let (provider, credential) = event.names();
    let names: Vec<String> = [provider, credential].into_iter().flatten().map(display::name).collect();
    let (kind, details) = match event {
        AuthEvent::CredentialSet { .. } => ("credential set", String::new()),
        AuthEvent::RefreshClaimed { generation, .. } => ("refresh claimed", format!("of generation {generation}")),
        AuthEvent::Refreshed { base, .. } => ("refreshed", format!("from generation {base}")),
        AuthEvent::RefreshFailed { generation, message, .. } => {
            ("refresh failed", format!("of generation {generation}: {}", display::escape(message)))
        }
        AuthEvent::Status { generation, status, .. } => {
            ("status", format!("of generation {generation}: {}", status.kind.as_str()))
        }
        AuthEvent::Removed { .. } => ("credential removed", String::new()),
        AuthEvent::ActiveProvider { .. } => ("active provider", String::new()),
        AuthEvent::SourceSuppressed { .. } => ("source suppressed", String::new()),
        AuthEvent::Unsuppressed { .. } => ("unsuppressed", String::new()),
    };
    (kind, format!("{}  {details}", names.join(" ")).trim_end().to_owned())
}

fn fields(set: &str, unset: &[std::borrow::Cow<'_, str>]) -> String {
    const MOST_CHARS: usize = 120;
    let mut text = format!("set {}", display::escape(set));
    if !unset.is_empty() {
        text = format!("{text}, removed {}", display::escape(&unset.join(", ")));
    }
    display::shortened(&text, MOST_CHARS)
}

/// The objects of a frame: one for each event, and one for what is not understood:
/// `{"position", "time", "origin", "event"}`, where `event` is null and `not_understood` is there for the latter.
pub(crate) fn frame_json(position: Position, batch: Option<&Batch<'_>>) -> Vec<Value> {
    let position = position.to_string();
    let Some(batch) = batch else {
        return vec![json!({"position": position, "event": null, "not_understood": "payload"})];
    };
    let whole = |event: Value| {
        json!({
            "position": position,
            "time": display::exact_time(batch.time),
            "origin": display::origin_json(&batch.origin),
            "event": event,
        })
    };
    let mut all: Vec<Value> = batch.events.iter().map(|event| whole(Value::Object(Line::encode(event)))).collect();
    if let Some(unapplied) = &batch.carried {
        let mut entry = whole(Value::Null);
        if let Some(object) = entry.as_object_mut() {
            object.insert("not_understood".into(), unapplied_json(unapplied));
        }
        all.push(entry);
    }
    all
}

/// The indices of the events that are not understood (none, if only arguments are not), or "payload".
pub(crate) fn unapplied_json(unapplied: &Unapplied) -> Value {
    match unapplied {
        Unapplied::Events(indices) => json!(indices),
        Unapplied::Payload => json!("payload"),
    }
}
