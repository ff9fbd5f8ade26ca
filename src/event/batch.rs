//! The payload of a frame: `[time, origin, [event, ...]]` in MessagePack.
//!
//! A program reads what it knows and *carries* the rest: a payload with an unknown kind, more arguments to a kind than
//! expected, more elements than three, or another shape altogether, is kept verbatim through compaction, together with
//! the indices of the events that were not applied. A program that knows them applies them when it loads the checkpoint.

use serde::{Deserialize, Serialize};

use smallvec::SmallVec;

use crate::event::{Counter, Event, Origin};

/// A decoded payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Microseconds since the epoch (UTC), by the clock of the process that appended.
    pub time: u64,
    /// The process that appended.
    pub origin: Origin<'a>,
    /// The events that this program understands, with their index in the payload.
    pub events: Vec<Event<'a>>,
    /// Set if something in the payload is not understood.
    pub carried: Option<Unapplied>,
}

/// What was not applied of a payload that is carried along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unapplied {
    /// The events with these indices; possibly none, if only arguments or elements were not understood.
    Events(Vec<u32>),
    /// All of it: the payload has another shape.
    Payload,
}

/// The smallest event that counts: a header that claims more of them than there is room for asks for no memory.
const MIN_COUNT_LEN: usize = b"\x81\xa4used\x92\xa1a\x01".len();

#[derive(Deserialize)]
struct Strict<'a>(u64, #[serde(borrow)] Origin<'a>, #[serde(borrow)] Vec<Event<'a>>);

/// Appends the payload of a frame to `out`. `origin` is [encoded](encode_origin) once per process.
pub(crate) fn encode(out: &mut Vec<u8>, time: u64, origin: &[u8], events: &[Event<'_>]) {
    out.push(0x93); // array of three
    out.push(0xcf); // u64
    out.extend_from_slice(&time.to_be_bytes());
    out.extend_from_slice(origin);
    match u32::try_from(events.len()) {
        Ok(len @ 0..=15) => out.push(0x90 | len as u8),
        Ok(len) => {
            out.push(0xdd);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => return, // four billion events do not fit into a frame, whose length is checked by the writer
    }
    for event in events {
        encode_event(out, event);
    }
}

/// What is counted, which is nearly everything, without a detour; the bytes are those of rmp-serde.
#[inline]
fn encode_event(out: &mut Vec<u8>, event: &Event<'_>) {
    let (kind, skill, count): (&[u8], _, _) = match event {
        Event::Used { skill, count } => (b"\x81\xa4used\x92", skill, *count),
        Event::Viewed { skill, count } => (b"\x81\xa6viewed\x92", skill, *count),
        Event::Patched { skill, count } => (b"\x81\xa7patched\x92", skill, *count),
        other => {
            // Serialising into memory cannot fail: no event has a type that MessagePack lacks.
            let _ = rmp_serde::encode::write(out, other);
            return;
        }
    };
    match u8::try_from(skill.len()) {
        Ok(len @ 0..=31) if count < 128 => {
            out.extend_from_slice(kind);
            out.push(0xa0 | len);
            out.extend_from_slice(skill.as_bytes());
            out.push(count as u8);
        }
        _ => {
            let _ = rmp_serde::encode::write(out, event);
        }
    }
}

/// The bytes of an origin.
pub(crate) fn encode_origin(origin: &Origin<'_>) -> Vec<u8> {
    rmp_serde::to_vec(origin).unwrap_or_default()
}

/// Reads a payload whose frame has checked out. `None`: it has another shape, and is to be carried whole.
#[must_use]
pub fn decode(payload: &[u8]) -> Option<Batch<'_>> {
    decode_counts(payload).and_then(Counts::into_batch).or_else(|| decode_any(payload))
}

/// A payload of nothing but what is counted, which is nearly every one: what a fold needs of it, without the detour over
/// events.
pub(crate) struct Counts<'a> {
    pub(crate) time: u64,
    pub(crate) kind: &'a str,
    process: u64,
    session: Option<&'a str>,
    pub(crate) counts: SmallVec<[Count<'a>; 1]>,
}

/// So many of these, of that skill.
#[derive(Clone, Copy)]
pub(crate) struct Count<'a> {
    pub(crate) counter: Counter,
    pub(crate) skill: &'a str,
    pub(crate) count: u64,
}

/// Reads a payload if there is nothing in it but what is counted.
#[inline(always)]
pub(crate) fn decode_counts(payload: &[u8]) -> Option<Counts<'_>> {
    let (time, rest) = payload.strip_prefix(b"\x93\xcf")?.split_first_chunk()?;
    let (kind, rest) = text(rest.strip_prefix(b"\x93")?)?;
    let (process, rest) = unsigned(rest)?;
    let (session, rest) = match rest.strip_prefix(b"\xc0") {
        Some(rest) => (None, rest),
        None => text(rest).map(|(session, rest)| (Some(session), rest))?,
    };
    let (count, mut rest) = array(rest)?;
    let mut counts = SmallVec::with_capacity((count as usize).min(rest.len() / MIN_COUNT_LEN));
    for _ in 0..count {
        let (kind, after) = string(rest.strip_prefix(b"\x81")?)?;
        let counter = match kind {
            b"used" => Counter::Use,
            b"viewed" => Counter::View,
            b"patched" => Counter::Patch,
            _ => return None,
        };
        let (skill, after) = text(after.strip_prefix(b"\x92")?)?;
        let (count, after) = unsigned(after)?;
        counts.push(Count { counter, skill, count });
        rest = after;
    }
    let is_whole = rest.is_empty() && u32::try_from(process).is_ok();
    is_whole.then(|| Counts { time: u64::from_be_bytes(*time), kind, process, session, counts })
}

impl<'a> Counts<'a> {
    fn into_batch(self) -> Option<Batch<'a>> {
        let event = |Count { counter, skill, count }: Count<'a>| Event::counted(counter, skill, count);
        let process = u32::try_from(self.process).ok()?;
        let origin = Origin { kind: self.kind.into(), process, session: self.session.map(Into::into) };
        Some(Batch { time: self.time, origin, events: self.counts.into_iter().map(event).collect(), carried: None })
    }
}

/// Whether there can be an auth event in it: the name of its kind is in there. Cheap, and never wrongly false.
pub(crate) fn may_hold_auth(payload: &[u8]) -> bool {
    memchr::memmem::find(payload, b"\xa4auth").is_some()
}

fn decode_any(payload: &[u8]) -> Option<Batch<'_>> {
    match rmp_serde::from_slice::<Strict<'_>>(payload) {
        Ok(Strict(time, origin, events)) if is_whole(payload) => Some(Batch { time, origin, events, carried: None }),
        _ => decode_leniently(payload),
    }
}

/// `from_slice` ignores what follows the value. The array's header says 3, so only bytes behind it can be more; the
/// encoder writes none, and a newer version may not either (it appends elements).
fn is_whole(payload: &[u8]) -> bool {
    payload.first() == Some(&0x93)
}

/// The slow way, for payloads of another version.
fn decode_leniently(payload: &[u8]) -> Option<Batch<'_>> {
    let (elements, mut rest) = array(payload)?;
    if elements < 3 {
        return None;
    }
    let mut element = || {
        let (value, after) = split(rest)?;
        rest = after;
        Some(value)
    };
    let time = rmp_serde::from_slice(element()?).ok()?;
    let origin = element()?;
    let origin = rmp_serde::from_slice(origin).ok().or_else(|| shortened(origin))?;
    let (count, mut rest) = array(element()?)?;
    let (mut events, mut unapplied) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (value, after) = split(rest)?;
        rest = after;
        match rmp_serde::from_slice(value).ok().or_else(|| known_part(value)) {
            Some(event) => events.push(event),
            None => unapplied.push(index),
        }
    }
    Some(Batch { time, origin, events, carried: Some(Unapplied::Events(unapplied)) })
}

/// The events with these indices, where this program understands them now.
pub(crate) fn decode_some(payload: &[u8], wanted: &[u32]) -> Vec<(u32, Event<'static>)> {
    let found = || -> Option<Vec<(u32, Event<'static>)>> {
        let (_, rest) = array(payload)?;
        let (_, rest) = split(rest)?;
        let (_, rest) = split(rest)?;
        let (count, mut rest) = array(rest)?;
        let mut found = Vec::new();
        for index in 0..count {
            let (value, after) = split(rest)?;
            rest = after;
            if wanted.contains(&index) {
                let event = owned_event(value).or_else(|| known_part(value));
                found.extend(event.map(|event| (index, event)));
            }
        }
        Some(found)
    };
    found().unwrap_or_default()
}

fn owned_event(bytes: &[u8]) -> Option<Event<'static>> {
    rmp_serde::from_slice::<Event<'_>>(bytes).ok().map(Event::into_owned)
}

/// The event in `{kind: [known..., unknown...]}`, if the kind is known.
fn known_part(value: &[u8]) -> Option<Event<'static>> {
    let (head, arguments) = value.split_at_checked(1)?;
    if head != [0x81] {
        return None; // not a map of one
    }
    let (kind, arguments) = split(arguments)?;
    let prefix = [head, kind].concat();
    shortened_with(&prefix, arguments, owned_event)
}

fn shortened(origin: &[u8]) -> Option<Origin<'static>> {
    shortened_with(&[], origin, |bytes| rmp_serde::from_slice::<Origin<'_>>(bytes).ok().map(Origin::into_owned))
}

/// Drops elements from the end of the array until the rest is understood.
fn shortened_with<T>(prefix: &[u8], list: &[u8], understand: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    const MOST_ARGUMENTS: u32 = 64;
    let (count, elements) = array(list)?;
    let mut ends = vec![0];
    let mut rest = elements;
    for _ in 0..count.min(MOST_ARGUMENTS) {
        let (_, after) = split(rest)?;
        rest = after;
        ends.push(elements.len() - rest.len());
    }
    ends.pop();
    while let Some(end) = ends.pop() {
        let mut shorter = prefix.to_vec();
        shorter.push(0xdc); // array with a 16-bit length
        shorter.extend_from_slice(&u16::try_from(ends.len()).ok()?.to_be_bytes());
        shorter.extend_from_slice(elements.get(..end)?);
        if let Some(known) = understand(&shorter) {
            return Some(known);
        }
    }
    None
}

/// Length of an array, and what follows its header. MessagePack specification, "array format family".
fn array(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match first {
        0x90..=0x9f => Some((u32::from(first & 0x0f), rest)),
        0xdc => big_endian(rest, 2),
        0xdd => big_endian(rest, 4),
        _ => None,
    }
}

/// A string, if there is one.
#[inline]
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (text, rest) = string(bytes)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// A string's bytes. "str format family".
#[inline]
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        0xa0..=0xbf => (u32::from(first & 0x1f), rest),
        0xd9 => big_endian(rest, 1)?,
        0xda => big_endian(rest, 2)?,
        _ => return None,
    };
    rest.split_at_checked(len as usize)
}

/// A number from zero, if there is one. "int format family".
#[inline]
fn unsigned(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match first {
        0x00..=0x7f => Some((u64::from(*first), rest)),
        0xcc => big_endian(rest, 1).map(|(n, rest)| (n.into(), rest)),
        0xcd => big_endian(rest, 2).map(|(n, rest)| (n.into(), rest)),
        0xce => big_endian(rest, 4).map(|(n, rest)| (n.into(), rest)),
        0xcf => rest.split_first_chunk().map(|(n, rest)| (u64::from_be_bytes(*n), rest)),
        _ => None,
    }
}

#[inline]
fn big_endian(bytes: &[u8], len: usize) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(len)?;
    Some((digits.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)), rest))
}

/// Splits off the first MessagePack value, whatever it is, without recursion.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    let mut values: u64 = 1; // still to be passed
    while values > 0 {
        values -= 1;
        let (first, after) = rest.split_first()?;
        // What a value has behind its first byte: a length of `digits` bytes, fixed bytes, and values inside.
        let (digits, fixed, per_length, inside) = match first {
            0x00..=0x7f | 0xc0..=0xc3 | 0xe0..=0xff => (0, 0, 0, 0),
            0x80..=0x8f => (0, 0, 0, 2 * u64::from(first & 0x0f)),
            0x90..=0x9f => (0, 0, 0, u64::from(first & 0x0f)),
            0xa0..=0xbf => (0, usize::from(first & 0x1f), 0, 0),
            0xcc | 0xd0 => (0, 1, 0, 0),
            0xcd | 0xd1 => (0, 2, 0, 0),
            0xca | 0xce | 0xd2 => (0, 4, 0, 0),
            0xcb | 0xcf | 0xd3 => (0, 8, 0, 0),
            0xd4..=0xd8 => (0, 1 + (1 << (first - 0xd4)), 0, 0),
            0xc4 | 0xd9 => (1, 0, 0, 0),
            0xc5 | 0xda => (2, 0, 0, 0),
            0xc6 | 0xdb => (4, 0, 0, 0),
            0xc7 => (1, 1, 0, 0),
            0xc8 => (2, 1, 0, 0),
            0xc9 => (4, 1, 0, 0),
            0xdc => (2, 0, 1, 0),
            0xdd => (4, 0, 1, 0),
            0xde => (2, 0, 2, 0),
            0xdf => (4, 0, 2, 0),
        };
        let (length, after) = big_endian(after, digits)?;
        let own = if per_length == 0 { fixed.checked_add(usize::try_from(length).ok()?)? } else { fixed };
        rest = after.get(own..)?;
        values += inside + per_length * u64::from(length);
    }
    bytes.split_at_checked(bytes.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn payload(events: &[Event<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, 7, &encode_origin(&Origin::here("cli")), events);
        out
    }

    #[test]
    fn a_payload_is_read_as_it_was_written() {
        let many: Vec<_> = (0..40).map(|n| Event::Used { skill: format!("s{n}").into(), count: n + 1 }).collect();
        let bytes = payload(&many);
        let batch = decode(&bytes).unwrap();
        assert_eq!((batch.time, batch.events, batch.carried), (7, many, None));
    }

    #[test]
    fn the_short_way_reads_and_writes_what_the_long_way_does() {
        let long = "n".repeat(300);
        let names = ["", "a", "\u{85}\u{2028}", &long[..31], &long[..32], &long[..255], &long[..256]];
        for name in names {
            for count in [1, 127, 128, 255, 256, 65_536, u64::from(u32::MAX) + 1, u64::MAX] {
                let skill = || Cow::from(name);
                for event in [
                    Event::Used { skill: skill(), count },
                    Event::Viewed { skill: skill(), count },
                    Event::Patched { skill: skill(), count },
                ] {
                    let mut bytes = Vec::new();
                    encode_event(&mut bytes, &event);
                    assert_eq!(bytes, rmp_serde::to_vec(&event).unwrap());
                    let bytes = payload(&[event.clone(), Event::used("b")]);
                    let short = decode_counts(&bytes).unwrap().into_batch();
                    assert_eq!(short, decode_any(&bytes));
                    assert_eq!(short.unwrap().events[0], event);
                }
            }
        }
    }

    #[test]
    fn an_unknown_kind_among_known_ones_is_carried() {
        let mut bytes = payload(&[Event::used("a"), Event::used("b")]);
        let at = bytes.windows(4).rposition(|w| w == b"used").unwrap();
        bytes[at..at + 4].copy_from_slice(b"sung");
        let batch = decode(&bytes).unwrap();
        assert_eq!(batch.events, [Event::used("a")]);
        assert_eq!(batch.carried, Some(Unapplied::Events(vec![1])));
    }

    #[test]
    fn more_arguments_and_more_elements_are_carried_and_the_known_part_applies() {
        let mut bytes = Vec::from([0x94, 0x07]); // four elements
        bytes.extend(encode_origin(&Origin::here("cli")));
        bytes.extend([0x91, 0x81, 0xa4]);
        bytes.extend(b"used\x93\xa1a\x05\xc0"); // ["a", 5, nil]
        bytes.push(0xc3);
        let batch = decode(&bytes).unwrap();
        assert_eq!(batch.events, [Event::Used { skill: "a".into(), count: 5 }]);
        assert_eq!(batch.carried, Some(Unapplied::Events(vec![])));
    }

    #[test]
    fn a_payload_of_another_shape_is_carried_whole_and_nothing_panics() {
        for bytes in [&b""[..], b"\x93", b"\xc1", b"\x93\x07\x07\x07", b"\xdd\xff\xff\xff\xff", b"\x92\x07\x90"] {
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
        let whole = payload(&[Event::used("a"), Event::Seeded { skill: "b".into() }]);
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), None);
        }
    }
}
