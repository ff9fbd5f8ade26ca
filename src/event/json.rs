//! Events as JSON lines: `{"event": "used", "skill": "name", "count": 1}`, the same for `emit -` and `tail --json`.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::event::Event;

/// An event as a JSON object.
pub struct Line;

impl Line {
    /// Reads one line.
    ///
    /// # Errors
    /// [`Error::Invalid`] says what is wrong with it and what is allowed.
    pub fn decode(line: &str) -> Result<Event<'static>> {
        const ALLOWED: &str = "a JSON object such as {\"event\": \"used\", \"skill\": \"NAME\", \"count\": 1}";
        let invalid = |found: String| Error::Invalid { what: "event", found, allowed: ALLOWED };
        let mut object: Map<String, Value> = serde_json::from_str(line).map_err(|e| invalid(e.to_string()))?;
        let kind = match object.remove("event") {
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(invalid(format!("\"event\" is {other}, not a string"))),
            None => return Err(invalid("no \"event\"".into())),
        };
        match kind.as_str() {
            "external" => return Err(invalid("\"external\" is written by the compactor alone".into())),
            "auth" => return Err(invalid("\"auth\" is written by the auth commands alone".into())),
            _ => {}
        }
        if let Some(fields @ Value::Object(_)) = object.get_mut("set") {
            *fields = Value::String(fields.to_string()); // on disk it is text, so that numbers keep their spelling
        }
        let tagged = Value::Object(Map::from_iter([(kind, Value::Object(object))]));
        let tagged = tagged.to_string();
        let event: Event<'_> = serde_json::from_str(&tagged).map_err(|e| invalid(reason(&e)))?;
        event.validate()?;
        Ok(event.into_owned())
    }

    /// Writes an event as an object, the inverse of [`Line::decode`].
    #[must_use]
    pub fn encode(event: &Event<'_>) -> Map<String, Value> {
        let tagged = serde_json::to_value(event).unwrap_or_default();
        let Value::Object(tagged) = tagged else { return Map::new() };
        let Some((kind, Value::Object(mut fields))) = tagged.into_iter().next() else { return Map::new() };
        if let Some(text) = fields.get("set").and_then(Value::as_str)
            && let Ok(set @ Value::Object(_)) = serde_json::from_str(text)
        {
            fields.insert("set".into(), set);
        }
        fields.insert("event".into(), Value::String(kind));
        fields
    }
}

/// What is wrong, without the place: it would be one in a text that the caller never saw.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [
            r#"{"event":"used","skill":"a","count":3}"#,
            r#"{"event":"pinned","skill":"a","pinned":true}"#,
            r#"{"event":"fields","skill":"a","set":{"x":1.50,"y":[null]},"unset":["z"]}"#,
            r#"{"event":"state","skill":"a\u0085","state":"stale"}"#,
        ] {
            let event = Line::decode(line).unwrap();
            let again = Line::decode(&Value::Object(Line::encode(&event)).to_string()).unwrap();
            assert_eq!(event, again);
        }
        assert_eq!(Line::decode(r#"{"event":"use","skill":"a"}"#).unwrap(), Event::used("a"));
    }

    #[test]
    fn a_wrong_line_is_refused_with_what_is_allowed() {
        for line in [
            "",
            "[]",
            r#"{"skill":"a"}"#,
            r#"{"event":"used"}"#,
            r#"{"event":"used","skill":""}"#,
            r#"{"event":"used","skill":"a","count":0}"#,
            r#"{"event":"used","skill":"a","count":-1}"#,
            r#"{"event":"used","skill":"a","count":"1"}"#,
            r#"{"event":"used","skill":1}"#,
            r#"{"event":"used","skill":"a","extra":1}"#,
            r#"{"event":"state","skill":"a","state":"asleep"}"#,
            r#"{"event":"pinned","skill":"a","pinned":"false"}"#,
            r#"{"event":"external","id":"a","part":0,"parts":1,"data":""}"#,
        ] {
            let error = Line::decode(line).unwrap_err().to_string();
            assert!(error.contains("allowed:"), "{line}: {error}");
        }
    }
}
