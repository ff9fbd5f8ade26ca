//! A JSON object out of bytes that may be damaged: as much of it, from the front, as is whole.

use serde_json::{Map, Value};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// As `serde_json` has it.
const MAX_DEPTH: usize = 128;

/// The object, and what was wrong. Never fails; takes time linear in the number of bytes.
pub(super) fn decode(bytes: &[u8]) -> (Map<String, Value>, Vec<String>) {
    let mut problems = Vec::new();
    let body = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => {
            problems.push("a byte order mark".to_owned());
            body
        }
        None => bytes,
    };
    let text = String::from_utf8_lossy(body);
    if text.contains('\u{fffd}') && std::str::from_utf8(body).is_err() {
        problems.push("bytes that are not UTF-8".to_owned());
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => return (object, problems),
        Ok(_) => {
            problems.push("the top level is not an object".to_owned());
            return (Map::new(), problems);
        }
        // Only the place: what else serde_json says could repeat a piece of a value.
        Err(e) => problems.push(format!("not quite JSON from line {}, column {}", e.line(), e.column())),
    }
    // What Python's `json` writes and reads beyond JSON costs only itself.
    let text = plain(&text);
    let object = match serde_json::from_str(&closed(&text)) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    (object, problems)
}

/// The text with `null` for what is no number, and U+FFFD for half a surrogate pair.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let (mut rest, mut is_inside) = (text, false);
    while let Some(next) = rest.chars().next() {
        let (piece, len) = match next {
            '\\' if is_inside => escape(rest),
            '"' => {
                is_inside = !is_inside;
                (None, 1)
            }
            'N' | 'I' | '-' if !is_inside => {
                let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word));
                word.map_or((None, 1), |word| (Some("null"), word.len()))
            }
            other => (None, other.len_utf8()),
        };
        let (old, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        plain.push_str(piece.unwrap_or(old));
        rest = after;
    }
    plain
}

/// What stands for an escape, if it is half a surrogate pair, and its length.
fn escape(text: &str) -> (Option<&'static str>, usize) {
    let half = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    match (half(text), text.get(6..).and_then(half)) {
        (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => (None, 12),
        (Some(0xD800..0xE000), _) => (Some("\u{fffd}"), 6),
        (Some(_), _) => (None, 6),
        (None, _) => (None, 1 + text.chars().nth(1).map_or(0, char::len_utf8)),
    }
}

/// The text up to the last entry that is whole, with what is open then closed.
fn closed(text: &str) -> String {
    let mut scanner = Scanner { rest: text.trim_start(), open: Vec::new(), whole: None };
    let begin = scanner.rest;
    scanner.run(begin.len());
    let Some((left, open)) = scanner.whole else { return String::new() };
    let mut whole = begin.get(..begin.len() - left).unwrap_or_default().to_owned();
    whole.extend(open.iter().rev());
    whole
}

/// Reads values one by one, and remembers where the last whole one ended.
struct Scanner<'a> {
    rest: &'a str,
    /// What would close the containers that are open.
    open: Vec<char>,
    /// Bytes left after the last whole value inside a container, and what was open then.
    whole: Option<(usize, Vec<char>)>,
}

impl Scanner<'_> {
    fn run(&mut self, most: usize) {
        for _ in 0..=most {
            if self.value().is_none() {
                return;
            }
            // Behind a value: more of its container, or its end.
            loop {
                self.whole = Some((self.rest.len(), self.open.clone()));
                self.space();
                match self.rest.chars().next() {
                    Some(',') if !self.open.is_empty() => {
                        self.step(1);
                        break;
                    }
                    Some(closer) if self.open.last() == Some(&closer) => {
                        self.step(1);
                        self.open.pop();
                    }
                    _ => return,
                }
            }
            if self.open.is_empty() {
                return;
            }
        }
    }

    /// Up to the end of a value, or into a container that is not empty.
    fn value(&mut self) -> Option<()> {
        loop {
            self.space();
            if self.open.last() == Some(&'}') {
                self.of_type::<String>()?;
                self.space();
                self.rest = self.rest.strip_prefix(':')?;
                self.space();
            }
            let closer = match self.rest.chars().next()? {
                '{' => '}',
                '[' => ']',
                _ => return self.of_type::<Value>(),
            };
            if self.open.len() == MAX_DEPTH - 1 {
                return None;
            }
            self.step(1);
            self.open.push(closer);
            self.whole = Some((self.rest.len(), self.open.clone()));
            self.space();
            if self.rest.starts_with(closer) {
                self.step(1);
                self.open.pop();
                return Some(());
            }
        }
    }

    fn of_type<T: serde::de::DeserializeOwned>(&mut self) -> Option<()> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<T>();
        values.next()?.ok()?;
        let end = values.byte_offset();
        // A number at the very end may have been cut.
        let is_cut = end == self.rest.len() && self.rest.ends_with(|c: char| c.is_ascii_digit());
        self.step(end);
        (!is_cut).then_some(())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }

    fn step(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        r#"{"version": 1, "providers": {"a": {"token": "x}y", "n": [1, {"b": null}]}, "c": {}}, "active": true}"#;

    #[test]
    fn whatever_is_cut_off_the_rest_is_read() {
        assert_eq!(decode(WHOLE.as_bytes()).1, Vec::<String>::new());
        let mut most = 0;
        for cut in 0..WHOLE.len() {
            let (object, problems) = decode(&WHOLE.as_bytes()[..cut]);
            assert_eq!(problems.len(), 1, "{cut}");
            let token = object.get("providers").and_then(|p| p.get("a")).and_then(|a| a.get("token"));
            let expected = (cut > WHOLE.find("x}y\"").unwrap() + 3).then_some("x}y");
            assert_eq!(token.and_then(Value::as_str), expected, "{cut}: {object:?}");
            let len = Value::Object(object).to_string().len();
            assert!(len >= most || len == 2, "less of more: {cut}");
            most = most.max(len);
        }
    }

    #[test]
    fn what_python_reads_beyond_json_costs_only_itself() {
        let text = r#"{"a": {"n": NaN, "m": [-Infinity, Infinity, -1]}, "b": "\ud800 NaN \\ud800 \ud83d\ude00 \" -Infinity", "c": 1}"#;
        let (object, problems) = decode(text.as_bytes());
        let expected = serde_json::json!({"a": {"n": null, "m": [null, null, -1]},
            "b": "\u{fffd} NaN \\ud800 \u{1f600} \" -Infinity", "c": 1});
        assert_eq!((Value::Object(object), problems.len()), (expected, 1));
    }

    #[test]
    fn bytes_too_many_and_marks_cost_nothing() {
        for (bytes, what) in
            [(format!("{WHOLE}}}"), "extra"), (format!("\u{feff}{WHOLE}"), "mark"), (format!("{WHOLE}\0\0"), "zeros")]
        {
            let (object, problems) = decode(bytes.as_bytes());
            assert_eq!(Value::Object(object), serde_json::from_str::<Value>(WHOLE).unwrap(), "{what}");
            assert_eq!(problems.len(), 1, "{what}");
        }
        for nothing in [&b""[..], b"\0\0\0\0", b"[]", b"7", b"\xff\xfe"] {
            let (object, problems) = decode(nothing);
            assert!(object.is_empty() && !problems.is_empty(), "{nothing:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(!decode(deep.as_bytes()).1.is_empty());
    }
}
