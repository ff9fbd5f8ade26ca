//! Secrets, and the fields of a credential, some of which are secrets.
//!
//! What is here prints as `[redacted]`, is wiped when it is dropped, and is compared in constant time. It goes to the log
//! and into checkpoints, which are binary; any serialiser for people (JSON) gets `[redacted]` instead. What a JSON parser
//! or the allocator put aside on the way is beyond what a program can wipe.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::error::{Error, Result};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// One secret value.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a text in.
    #[must_use]
    pub fn new(text: String) -> Secret {
        Secret(text.into())
    }

    /// The text itself. The only way to it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(REDACTED)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.reveal().as_bytes().ct_eq(other.reveal().as_bytes()).into()
    }
}

impl Eq for Secret {}

/// The fields of a credential: any JSON object. Which of them are secrets goes by [`Fields::is_secret`].
#[derive(Clone, PartialEq, Eq)]
pub struct Fields {
    /// The object as JSON, keys sorted.
    text: Secret,
    /// Names that are secrets in this credential, besides those that always are.
    declared: Vec<String>,
}

impl Fields {
    /// Reads a JSON object. `declared` names fields that are secrets here, besides those that always are.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not the text of a JSON object. The error does not hold the text.
    pub fn parse(text: &str, declared: Vec<String>) -> Result<Fields> {
        let invalid = |found: &str| Error::Invalid {
            what: "credential",
            found: found.to_owned(),
            allowed: "a JSON object, such as {\"access_token\": \"...\", \"refresh_token\": \"...\"}",
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Fields::new(fields, declared)),
            Ok(mut other) => {
                wipe(&mut other);
                Err(invalid("JSON of another type"))
            }
            // What serde_json says of a place holds no value.
            Err(e) => Err(invalid(&format!("no JSON (line {}, column {})", e.line(), e.column()))),
        }
    }

    /// The same, from an object that is at hand, and wiped.
    #[must_use]
    pub fn new(fields: Map<String, Value>, declared: Vec<String>) -> Fields {
        let object = Wiped(fields);
        // Fails for keys that are not strings: there are none.
        Fields { text: Secret::new(serde_json::to_string(&object.0).unwrap_or_default()), declared }
    }

    /// Whether a field of this name holds a secret, at any depth of the object: `access_token`, `refresh_token`,
    /// `agent_key`, `api_key`, whatever ends in `_token`, `_secret`, `_key` (also `-key`, `apiKey` and the like), `token`,
    /// `secret`, `password`, and what was declared.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        const WORDS: [&str; 4] = ["token", "secret", "key", "password"];
        let ends_in_word = |word: &str| {
            let Some(before) = name.to_ascii_lowercase().strip_suffix(word).map(str::len) else { return false };
            let (before, last) = name.split_at_checked(before).unwrap_or((name, ""));
            // A word of its own: `_key`, `-key`, `apiKey`; not `monkey`.
            before.is_empty() || before.ends_with(['_', '-', '.']) || last.starts_with(|c: char| c.is_ascii_uppercase())
        };
        name != "key" && WORDS.iter().any(|word| ends_in_word(word)) || self.declared.iter().any(|other| other == name)
    }

    /// The names that were declared to be secrets.
    #[must_use]
    pub fn declared(&self) -> &[String] {
        &self.declared
    }

    /// The same, with these names declared as well.
    #[must_use]
    pub fn declaring(&self, names: &[String]) -> Fields {
        let mut declared = self.declared.clone();
        declared.extend(names.iter().filter(|name| !self.declared.contains(name)).cloned());
        Fields { text: self.text.clone(), declared }
    }

    /// The whole object with its secrets, as JSON.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.text.reveal()
    }

    /// A field that holds a text, secret or not.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Secret> {
        match self.object().0.get_mut(name) {
            Some(Value::String(text)) => Some(Secret::new(std::mem::take(text))),
            _ => None,
        }
    }

    /// The object with [`REDACTED`] in the place of each secret, also where one stands inside another text.
    #[must_use]
    pub fn redacted(&self) -> Map<String, Value> {
        let mut object = self.object();
        let secrets = self.secret_texts();
        self.redact(&mut object.0);
        object.0.values_mut().for_each(|value| redact_echoes(value, &secrets));
        std::mem::take(&mut object.0)
    }

    /// The fields with others set over them, as a token endpoint's answer is: what it leaves out stays, and a secret that
    /// is `null` in it is left out.
    #[must_use]
    pub fn with(&self, others: &Fields) -> Fields {
        let (mut object, mut others_object) = (self.object(), others.object());
        others_object.0.retain(|name, value| !(value.is_null() && (self.is_secret(name) || others.is_secret(name))));
        object.0.append(&mut others_object.0);
        Fields::new(std::mem::take(&mut object.0), self.declaring(&others.declared).declared)
    }

    /// Whether both hold the same secrets, whatever else differs.
    #[must_use]
    pub fn has_secrets_of(&self, other: &Fields) -> bool {
        self.fingerprint() == other.fingerprint()
    }

    /// Tells one set of secrets from another without being one: SHA-256 of names and values, cut to 128 bits. Of an object
    /// without any secret, it is that of the whole.
    pub(crate) fn fingerprint(&self) -> [u8; 16] {
        let mut hasher = Sha256::new();
        let mut has_secrets = false;
        self.each_secret(&mut self.object().0, &mut |name, value| {
            let mut text = value.to_string();
            for part in [name, &text] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
            text.zeroize();
            has_secrets = true;
        });
        if !has_secrets {
            hasher.update(self.reveal());
        }
        let mut short = [0; 16];
        short.iter_mut().zip(hasher.finalize()).for_each(|(short, digit)| *short = digit);
        short
    }

    /// Whether nothing would come of [`with`](Self::with) these: no field but secrets that are `null`.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.object().0.iter().all(|(name, value)| value.is_null() && self.is_secret(name))
    }

    /// Whether there is a secret in it.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        let mut has_secrets = false;
        self.each_secret(&mut self.object().0, &mut |_, _| has_secrets = true);
        has_secrets
    }

    /// Takes each secret of this credential out of a text for people, such as an error that a server sent.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> String {
        clean_of(&self.secret_texts(), text)
    }

    /// The secrets as they could stand in a text, the longest first: one may be a part of another.
    fn secret_texts(&self) -> Vec<Secret> {
        let mut secrets = Vec::new();
        self.each_secret(&mut self.object().0, &mut |_, value| texts(value, &mut secrets));
        // Shorter ones are no secrets, and would take words out of any text.
        secrets.retain(|secret| secret.reveal().len() >= 4);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        secrets
    }

    fn object(&self) -> Wiped {
        Wiped(serde_json::from_str(self.reveal()).unwrap_or_default())
    }

    fn redact(&self, object: &mut Map<String, Value>) {
        self.each_secret(object, &mut |_, value| {
            wipe(value);
            *value = REDACTED.into();
        });
    }

    /// Passes on every secret, at any depth, with its name; `null` is none.
    fn each_secret(&self, object: &mut Map<String, Value>, sink: &mut dyn FnMut(&str, &mut Value)) {
        for (name, value) in object {
            if !self.is_secret(name) {
                self.each_secret_inside(value, sink);
            } else if !value.is_null() {
                sink(name, value);
            }
        }
    }

    fn each_secret_inside(&self, value: &mut Value, sink: &mut dyn FnMut(&str, &mut Value)) {
        match value {
            Value::Object(object) => self.each_secret(object, sink),
            Value::Array(values) => values.iter_mut().for_each(|value| self.each_secret_inside(value, sink)),
            _ => {}
        }
    }
}

fn clean_of(secrets: &[Secret], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |clean, secret| clean.replace(secret.reveal(), REDACTED))
}

/// Takes secrets out of the texts of a value that is none itself.
fn redact_echoes(value: &mut Value, secrets: &[Secret]) {
    match value {
        Value::String(text) => {
            let clean = clean_of(secrets, text);
            text.zeroize();
            *text = clean;
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact_echoes(value, secrets)),
        Value::Object(object) => object.values_mut().for_each(|value| redact_echoes(value, secrets)),
        _ => {}
    }
}

/// What a secret could stand as in a text, also as JSON spells it.
fn texts(value: &Value, found: &mut Vec<Secret>) {
    match value {
        Value::String(text) => {
            found.push(Secret::new(text.clone()));
            let mut spelled = value.to_string();
            if spelled.len() > text.len() + 2 {
                found.push(Secret::new(spelled.get(1..spelled.len() - 1).unwrap_or_default().to_owned()));
            }
            spelled.zeroize();
        }
        Value::Number(number) => found.push(Secret::new(number.to_string())),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(object) => object.values().for_each(|value| texts(value, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Value::Object(self.redacted()))
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.redacted().serialize(serializer);
        }
        (self.reveal(), &self.declared).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Fields, D::Error> {
        let (text, declared) = <(String, Vec<String>)>::deserialize(deserializer)?;
        Ok(Fields { text: Secret::new(text), declared })
    }
}

/// An object whose texts are wiped when it is dropped.
struct Wiped(Map<String, Value>);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe),
        Value::Object(object) => object.values_mut().for_each(wipe),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text, vec!["cookie".into()]).unwrap()
    }

    #[test]
    fn secrets_are_known_by_name_at_any_depth() {
        let all = fields("{}");
        for name in [
            "access_token",
            "refresh_token",
            "agent_key",
            "api_key",
            "id_token",
            "client_secret",
            "x-api-key",
            "apiKey",
            "accessToken",
            "token",
            "secret",
            "password",
            "cookie",
            "API_KEY",
        ] {
            assert!(all.is_secret(name), "{name}");
        }
        for name in ["monkey", "key", "token_type", "keys", "label", "expires_at", "tokens", "", "turkey", "ß"] {
            assert!(!all.is_secret(name), "{name}");
        }
        let deep = fields(
            r#"{"tokens": {"access_token": "AAAA", "kind": "x"}, "list": [{"api_key": ["BBBB"]}], "cookie": 7}"#,
        );
        let shown = format!("{deep:?}");
        assert!(!shown.contains("AAAA") && !shown.contains("BBBB") && !shown.contains('7'), "{shown}");
        assert!(shown.contains(r#""kind":"x""#), "{shown}");
        assert_eq!(deep.redact_text("bad AAAA, bad BBBB"), "bad [redacted], bad [redacted]");
    }

    #[test]
    fn json_gets_no_secret_and_the_log_gets_all() {
        let fields = fields(r#"{"access_token": "AAAA", "n": 1.50}"#);
        assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"access_token":"[redacted]","n":1.50}"#);
        let bytes = rmp_serde::to_vec(&fields).unwrap();
        assert_eq!(rmp_serde::from_slice::<Fields>(&bytes).unwrap(), fields);
        let secret = fields.text("access_token").unwrap();
        assert_eq!((format!("{secret} {secret:?}"), secret.reveal()), ("[redacted] [redacted]".into(), "AAAA"));
    }

    #[test]
    fn an_answer_is_set_over_what_was_there_and_only_secrets_tell_credentials_apart() {
        let old = fields(r#"{"access_token": "A", "refresh_token": "R", "label": "x"}"#);
        let new = old.with(&fields(r#"{"access_token": "B"}"#));
        assert_eq!(new.reveal(), r#"{"access_token":"B","label":"x","refresh_token":"R"}"#);
        let new = old.with(&fields(r#"{"access_token": "B", "refresh_token": null, "label": null}"#));
        assert_eq!(new.reveal(), r#"{"access_token":"B","label":null,"refresh_token":"R"}"#);
        assert!(fields(r#"{"access_token": null}"#).is_blank() && fields("{}").is_blank());
        assert!(!fields(r#"{"label": null}"#).is_blank() && !old.is_blank());
        assert!(!new.has_secrets_of(&old));
        assert!(old.has_secrets_of(&old.with(&fields(r#"{"label": "y", "count": 3}"#))));
        assert!(!fields(r#"{"kind": "a"}"#).has_secrets_of(&fields(r#"{"kind": "b"}"#)));
        for (one, other) in [
            ("[{\"api_key\": \"A\"}]", "[{\"api_key\": \"B\"}]"),
            ("{\"token\": {\"a\": 1}}", "{\"token\": {\"a\": 2}}"),
        ] {
            let inside = |value| fields(&format!("{{\"inside\": {value}}}"));
            assert!(!inside(one).has_secrets_of(&inside(other)) && inside(one).has_secrets_of(&inside(one)), "{one}");
            assert!(inside(one).has_secrets());
        }
        assert!(!fields(r#"{"kind": "a", "token": null}"#).has_secrets());
    }

    #[test]
    fn a_secret_that_is_a_part_of_another_leaves_no_rest_of_it() {
        let fields = fields(r#"{"api_key": "abcd", "token": "abcdefgh", "password": 123456}"#);
        assert_eq!(fields.redact_text("abcdefgh abcd 123456"), "[redacted] [redacted] [redacted]");
    }

    #[test]
    fn a_secret_that_stands_in_another_text_is_redacted_there() {
        let fields = fields(r#"{"api_key": "se\"cret", "headers": {"Authorization": ["Bearer se\"cret"]}, "n": 1}"#);
        let shown = serde_json::to_string(&fields).unwrap();
        assert_eq!(shown, r#"{"api_key":"[redacted]","headers":{"Authorization":["Bearer [redacted]"]},"n":1}"#);
        assert_eq!(fields.redact_text(r#"got {"k": "se\"cret"}"#), r#"got {"k": "[redacted]"}"#);
    }

    #[test]
    fn what_is_no_object_is_refused_without_being_repeated() {
        for text in ["", "[\"SECRET\"]", "\"SECRET\"", "{\"a\": SECRET}"] {
            let error = Fields::parse(text, Vec::new()).unwrap_err().to_string();
            assert!(!error.contains("SECRET") && error.contains("allowed"), "{error}");
        }
    }
}
