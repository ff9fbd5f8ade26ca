//! How things look to people. `--json` has them exactly.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::event::Origin;
use crate::log::Gap;
use crate::sys;
use crate::view::records::{Problem, format_time};

/// Longer names are cut in tables, in characters.
const MOST_NAME_CHARS: usize = 60;

const SECOND: u64 = 1_000_000;
const UNITS: [(u64, &str); 6] = [
    (365 * 24 * 60 * 60 * SECOND, "year"),
    (30 * 24 * 60 * 60 * SECOND, "month"),
    (24 * 60 * 60 * SECOND, "day"),
    (60 * 60 * SECOND, "hour"),
    (60 * SECOND, "minute"),
    (SECOND, "second"),
];

/// Characters that would change how the rest of a terminal's line looks: controls, line and paragraph separators,
/// direction marks and overrides, and some that show nothing. Joiners stay: scripts and emoji need them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text of others on one line of a terminal.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    escape_if(text, is_unsafe)
}

/// The same for text of this program, which may have several lines.
pub(crate) fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_if(text, |c| c != '\n' && is_unsafe(c))
}

fn escape_if(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// A name in a table: escaped, and cut if it is very long.
pub(crate) fn name(name: &str) -> String {
    shortened(&escape(name), MOST_NAME_CHARS)
}

pub(crate) fn shortened(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// "3 days ago", "in 2 hours", "just now".
pub(crate) fn ago(micros: i64) -> String {
    between(micros, i64::try_from(sys::now_micros()).unwrap_or(i64::MAX))
}

fn between(micros: i64, now_micros: i64) -> String {
    let distance = now_micros.abs_diff(micros);
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| distance >= *unit) else { return "just now".into() };
    let count = distance / unit;
    let plural = if count == 1 { "" } else { "s" };
    if micros < now_micros { format!("{count} {name}{plural} ago") } else { format!("in {count} {name}{plural}") }
}

/// The same, "never" if there is no such time.
pub(crate) fn ago_or_never(micros: Option<i64>) -> String {
    micros.map_or_else(|| "never".into(), ago)
}

/// A time as the log has it, for `--json`.
pub(crate) fn exact_time(micros: u64) -> String {
    format_time(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// "1,234,567"
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// "1 event", "1,234 events"
pub(crate) fn count(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(count), if count == 1 { "" } else { "s" })
}

/// "512 bytes", "4.2 KiB"
pub(crate) fn size(bytes: u64) -> String {
    const STEP: f64 = 1024.0;
    let mut scaled = bytes as f64 / STEP;
    if scaled < 1.0 {
        return count(bytes, "byte");
    }
    let mut units = ["KiB", "MiB", "GiB", "TiB"].into_iter().peekable();
    while let Some(unit) = units.next() {
        if scaled < STEP || units.peek().is_none() {
            return format!("{scaled:.1} {unit}");
        }
        scaled /= STEP;
    }
    count(bytes, "byte")
}

/// "cli[1234]", "session[99]/monday"
pub(crate) fn origin(origin: &Origin<'_>) -> String {
    let mut text = format!("{}[{}]", escape(&origin.kind), origin.process);
    if let Some(session) = &origin.session {
        let _ = write!(text, "/{}", escape(session)); // writing to a string does not fail
    }
    text
}

pub(crate) fn origin_json(origin: &Origin<'_>) -> Value {
    json!({"kind": origin.kind, "process": origin.process, "session": origin.session})
}

/// `{"segment": 3, "offset": 64, "length": 12, "reason": "cut_off"}`; the length of a missing segment is null.
pub(crate) fn gap_json(gap: &Gap) -> Value {
    json!({
        "segment": gap.position.segment,
        "offset": gap.position.offset,
        "length": gap.len,
        "reason": gap.reason,
    })
}

pub(crate) fn gaps_json(gaps: &[Gap]) -> Value {
    gaps.iter().map(gap_json).collect()
}

pub(crate) fn problem(problem: &Problem) -> String {
    format!(".usage.json at offset {}: {}", problem.offset, escape(&problem.what))
}

pub(crate) fn problems_json(problems: &[Problem]) -> Value {
    problems.iter().map(|problem| json!({"offset": problem.offset, "what": problem.what})).collect()
}

/// "0f3a…", two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_now() {
        let now = 1_700_000_000_000_000;
        let second = 1_000_000;
        assert_eq!(between(now, now), "just now");
        assert_eq!(between(now - second / 2, now), "just now");
        assert_eq!(between(now - second, now), "1 second ago");
        assert_eq!(between(now - 3 * 86_400 * second, now), "3 days ago");
        assert_eq!(between(now + 2 * 3600 * second + 1, now), "in 2 hours");
        assert_eq!(between(i64::MIN, i64::MAX), "584942 years ago");
    }

    #[test]
    fn what_would_break_a_line_is_escaped_and_the_rest_stays() {
        assert_eq!(escape("a\nb\u{85}\u{2028}\u{1b}[31m\u{202e}"), "a\\nb\\u{85}\\u{2028}\\u{1b}[31m\\u{202e}");
        assert_eq!(escape("überblick 日本語 👩\u{200d}🚀 a\\b"), "überblick 日本語 👩\u{200d}🚀 a\\b");
    }

    #[test]
    fn numbers_and_sizes_are_readable() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(number)[..]);
        assert_eq!(["1 byte", "1023 bytes"], [1, 1023].map(size).map(|s| s.replace(',', ""))[..]);
        assert_eq!(["1.0 KiB", "4.0 MiB", "16777216.0 TiB"], [1 << 10, 4 << 20, u64::MAX].map(size)[..]);
    }
}
