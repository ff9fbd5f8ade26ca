//! `emit -`: JSON lines from stdin, one event and one frame each, many frames a write.

use std::io::{self, Read};

use serde_json::json;

use crate::cli::display;
use crate::cli::emit::Settler;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::error::{Error, Result};
use crate::event::{Event, Line};
use crate::log::Position;
use crate::log::writer::{Durability, Writer};
use crate::view::records::check_fields;

/// One read, and so one batch: a pipe's size.
const CHUNK_LEN: usize = 64 << 10;
/// No event that fits into a frame is longer as JSON, where a byte can take six.
const MOST_LINE_LEN: usize = 8 << 20;

pub(super) fn append(
    writer: Writer,
    settler: Settler<'_>,
    durability: Durability,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut stream = Stream { writer, settler, durability, out, line: 0, appended: 0, bad: 0, last: None };
    let outcome = out_of_stdin(&mut stream);
    let Stream { out, appended, bad, last, .. } = stream;
    let position = last.map(|position| position.to_string());
    let printed = if out.is_json() {
        out.value(&json!({"position": position, "appended": appended, "bad": bad}))
    } else {
        position.map_or(Ok(()), |position| out.line(&position))
    };
    outcome.and(printed)?;
    if !out.is_json() {
        let bad = if bad == 0 { String::new() } else { format!(", {}", display::count(bad, "bad line")) };
        out.message(&format!("{} appended{bad}", display::count(appended, "event")));
    }
    Ok(if bad > 0 { Exit::Usage } else { Exit::Done })
}

/// A read returns what has arrived, so that is what is appended before the next one waits.
fn out_of_stdin(stream: &mut Stream<'_>) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut chunk = vec![0; CHUNK_LEN];
    let mut unfinished = Vec::new();
    let mut is_overlong = false;
    loop {
        let taken = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(taken) => taken,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Failure::failed(format!("cannot read stdin after line {}: {e}", stream.line))),
        };
        let mut arrived = chunk.get(..taken).unwrap_or_default();
        if is_overlong {
            let Some(end) = memchr::memchr(b'\n', arrived) else { continue };
            arrived = arrived.get(end + 1..).unwrap_or_default();
            is_overlong = false;
        }
        let whole_len = memchr::memrchr(b'\n', arrived).map_or(0, |end| end + 1);
        let (whole, rest) = arrived.split_at_checked(whole_len).unwrap_or_default();
        if !whole.is_empty() {
            unfinished.extend_from_slice(whole);
            stream.append_lines(&unfinished)?;
            unfinished.clear();
        }
        unfinished.extend_from_slice(rest);
        if unfinished.len() > MOST_LINE_LEN {
            stream.line += 1;
            stream.bad_line(stream.line, &format!("longer than {}", display::size(MOST_LINE_LEN as u64)));
            is_overlong = true;
            unfinished = Vec::new();
        }
    }
    stream.append_lines(&unfinished)
}

struct Stream<'a> {
    writer: Writer,
    settler: Settler<'a>,
    durability: Durability,
    out: &'a mut Output,
    /// Number of the last line that was looked at.
    line: u64,
    appended: u64,
    bad: u64,
    last: Option<Position>,
}

impl Stream<'_> {
    /// Appends whole lines, but for bad and blank ones.
    fn append_lines(&mut self, lines: &[u8]) -> Result<(), Failure> {
        let (mut numbers, mut events) = (Vec::new(), Vec::new());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.line += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match std::str::from_utf8(line).map_err(|e| e.to_string()).and_then(decode) {
                Ok(event) => {
                    numbers.push(self.line);
                    events.push(event);
                }
                Err(reason) => self.bad_line(self.line, &reason),
            }
        }
        self.append(&numbers, &events)
    }

    fn append(&mut self, numbers: &[u64], events: &[Event<'_>]) -> Result<(), Failure> {
        for event in events {
            if let Err(e) = self.settler.before(event, self.out) {
                return Err(self.stopped(&e, numbers));
            }
        }
        let batches: Vec<&[Event<'_>]> = events.chunks(1).collect();
        match self.writer.append_batches(&batches, self.durability) {
            Ok(positions) => {
                self.acknowledged(&positions);
                Ok(())
            }
            // An event is too large for a frame, which shows only here: one by one it can be named.
            Err(e) if is_invalid(&e) => {
                let recorded = recorded(&e);
                self.acknowledged(recorded);
                let rest = numbers.iter().zip(events).skip(recorded.len());
                for (number, event) in rest {
                    match self.writer.append(event, self.durability) {
                        Ok(position) => self.acknowledged(&[position]),
                        Err(e @ Error::Invalid { .. }) => self.bad_line(*number, &e.to_string()),
                        Err(e) => return Err(self.stopped(&e, &[*number])),
                    }
                }
                Ok(())
            }
            Err(e) => Err(self.stopped(&e, numbers)),
        }
    }

    /// The error of an append of the lines with these numbers.
    fn stopped(&mut self, error: &Error, numbers: &[u64]) -> Failure {
        let recorded = recorded(error);
        self.acknowledged(recorded);
        let first = |skipped: usize| numbers.get(skipped).copied().unwrap_or(self.line);
        let text = match error {
            Error::NotDurable { .. } => format!("{error}; nothing after line {} was read", self.line),
            Error::NotAcknowledged { .. } => {
                format!("lines {} to {}: {error}; nothing after them was read", first(0), self.line)
            }
            _ => format!("{error}; from line {} on nothing is recorded", first(recorded.len())),
        };
        Failure::Said { exit: Exit::of(error), text }
    }

    fn acknowledged(&mut self, positions: &[Position]) {
        self.appended += positions.len() as u64;
        self.last = positions.last().copied().or(self.last);
    }

    fn bad_line(&mut self, number: u64, reason: &str) {
        self.bad += 1;
        if self.out.is_json() {
            self.out.report_json(&json!({"line": number, "error": reason, "exit": Exit::Usage as u8}));
        } else {
            self.out.error(&format!("line {number}: {reason}"), Exit::Usage);
        }
    }
}

fn decode(line: &str) -> Result<Event<'static>, String> {
    let event = Line::decode(line.trim_end()).map_err(|e| e.to_string())?;
    check_fields(&event).map(|()| event).map_err(|e| e.to_string())
}

fn is_invalid(error: &Error) -> bool {
    match error {
        Error::Invalid { .. } => true,
        Error::NotRecorded { source, .. } => is_invalid(source),
        _ => false,
    }
}

/// What is in the log all the same: always the first ones of a call.
fn recorded(error: &Error) -> &[Position] {
    match error {
        Error::NotRecorded { recorded, .. }
        | Error::NotDurable { recorded, .. }
        | Error::NotAcknowledged { recorded, .. } => recorded,
        _ => &[],
    }
}
