//! Salvage: records out of bytes that only resemble JSON.

use memchr::memmem;
use serde_json::{Number, Value};

use super::text::{string_end, unescape};
use super::{COUNTS, Found, OTHERS, Record, TIMES, shown};

/// As in `serde_json`: what it takes, the scanner takes too.
const MAX_DEPTH: usize = 128;

/// Reads what can be read in any bytes, in linear time.
pub(super) fn salvage(bytes: &[u8]) -> Found {
    let indents = |spaces: &usize| memmem::find(bytes, format!("\n{:spaces$}\"", "").as_bytes()).is_some();
    let indent = [2, 4].into_iter().find(indents);
    let mut scanner = Scanner { bytes, at: 0, depth: 0, indent, unusable: false, found: Found::default() };
    scanner.top();
    scanner.found
}

/// Where to go on after damage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seek {
    /// The next record.
    Name,
    /// The next field of this record, or its end.
    Field,
}

/// Reads what only resembles JSON.
///
/// `at` never goes back, and looking ahead from a quote ends at the next one: that makes the time linear.
/// A method that returns `None` has met damage, and `at` is where.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Brackets open at `at`: 1 between records, 2 between the fields of one.
    depth: usize,
    /// By how many spaces the file indents, if it does.
    indent: Option<usize>,
    /// A `NaN` or an infinity was read as a part of this value.
    unusable: bool,
    found: Found,
}

impl Scanner<'_> {
    fn top(&mut self) {
        self.space();
        self.depth = 1;
        if !self.eat(b'{') {
            self.damage("the file does not begin with an opening brace");
            self.resync(Seek::Name);
        }
        self.entries();
    }

    fn entries(&mut self) {
        let (mut first, mut closed) = (true, false);
        loop {
            let commas = self.commas();
            if closed && self.peek().is_some() {
                self.resync(Seek::Name);
            }
            match self.peek() {
                None if closed => return,
                None => return self.note(self.at, "cut off before the closing brace"),
                // What `at_name` takes must be taken here, else this would not end.
                Some(b'"') if self.line_level().is_none_or(|level| level == 1) || self.record_ahead() == Some(true) => {
                    if !closed {
                        self.check_commas(commas, first);
                    }
                    first = !self.entry(closed);
                }
                Some(b'}') => {
                    self.check_commas(commas, true);
                    self.step(1);
                    closed = true;
                    self.space();
                    if self.peek().is_some() {
                        self.damage("something after the closing brace");
                    }
                }
                Some(_) => {
                    self.damage("something between two records");
                    self.resync(Seek::Name);
                    first = true;
                }
            }
        }
    }

    /// `"name": {record}`. False after damage.
    fn entry(&mut self, closed: bool) -> bool {
        let start = self.at;
        let Some(name) = self.string() else {
            self.note(start, "a name that does not end");
            self.resync(Seek::Name);
            return false;
        };
        self.colon();
        if self.peek() == Some(b'{') {
            let record = self.record(&name);
            // Behind the end can lie the rest of an older, longer file.
            if !closed || !self.found.records.contains_key(&name) {
                self.found.records.insert(name, record);
            }
            return true;
        }
        self.note(start, &format!("the value of {} is not an object", shown(&name)));
        let whole = self.value().is_some();
        if !whole {
            self.resync(Seek::Name);
        }
        whole
    }

    /// The fields that are whole, also those of a record that is not.
    fn record(&mut self, name: &str) -> Record {
        let mut record = Record::new();
        let (mut first, mut lines) = (true, false);
        // Behind damage a field that comes again is one of another record, whose name is gone; and so is what follows.
        let (mut damaged, mut other) = (false, false);
        self.step(1);
        self.depth = 2;
        loop {
            let commas = self.commas();
            match self.peek() {
                None => {
                    self.note(self.at, &format!("cut off inside the record of {}", shown(name)));
                    return record;
                }
                // Where fields have lines of their own, so has the brace that closes them.
                Some(b'}') if self.line_level().map_or(!lines, |level| level == 1) => {
                    self.check_commas(commas, true);
                    self.step(1);
                    self.depth = 1;
                    return record;
                }
                Some(b'"') if self.line_level() == Some(1) && self.record_ahead().is_some() => {
                    self.note(self.at, &format!("the record of {} is not closed", shown(name)));
                    self.depth = 1;
                    return record;
                }
                Some(b'"') => {
                    self.check_commas(commas, first);
                    first = false;
                    lines |= self.line_level().is_some();
                    if let Some((field, value)) = self.field() {
                        if damaged && !other && record.contains_key(&field) {
                            self.note(self.at, &format!("fields of a record without a name behind {}", shown(name)));
                            other = true;
                        }
                        if other {
                            continue;
                        }
                        if self.unusable {
                            self.note(self.at, &format!("{} of {} is NaN or infinite", shown(&field), shown(name)));
                        } else {
                            record.insert(field, value);
                        }
                        continue;
                    }
                }
                Some(_) => {}
            }
            if self.peek().is_some() {
                self.damage(&format!("damage inside the record of {}", shown(name)));
                (first, damaged) = (true, true);
                if !self.resync(Seek::Field) {
                    return record;
                }
            }
        }
    }

    fn field(&mut self) -> Option<(String, Value)> {
        let field = self.string()?;
        self.colon();
        self.unusable = false;
        Some((field, self.value()?))
    }

    /// Goes forward to where [`Scanner::entries`] or [`Scanner::record`] can go on. True: at a field of the same record.
    fn resync(&mut self, seek: Seek) -> bool {
        while let Some(byte) = self.peek() {
            match byte {
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    // Where lines are indented, a bracket inside a line says little.
                    let inline = self.depth.saturating_sub(usize::from(self.indent.is_none()));
                    self.depth = self.line_level().unwrap_or(inline).max(1);
                    if seek == Seek::Field && self.depth == 1 {
                        self.step(1);
                        return false;
                    }
                }
                // An escaped quote begins no string; to look ahead from each would take quadratic time.
                b'"' if self.bytes.get(self.at.wrapping_sub(1)) != Some(&b'\\') => {
                    self.depth = self.line_level().unwrap_or(self.depth);
                    if self.at_name() {
                        self.depth = 1;
                        return false;
                    }
                    if seek == Seek::Field && self.depth == 2 && self.after_key().is_some() {
                        return true;
                    }
                }
                _ => {}
            }
            self.step(1);
        }
        false
    }

    /// Whether a record begins here, `"name": {`, where names stand. Brackets may have been lost, so a known field right
    /// behind the brace is as good where no indentation says otherwise.
    fn at_name(&self) -> bool {
        match (self.record_ahead(), self.line_level()) {
            (Some(_), Some(level)) => level == 1,
            (Some(known), None) => known || (self.indent.is_none() && self.depth == 1),
            (None, _) => false,
        }
    }

    /// Whether `"name": {` stands here, and whether a known field is the first inside.
    fn record_ahead(&self) -> Option<bool> {
        let brace = self.after_space(self.after_key()?);
        self.bytes.get(brace).filter(|&&byte| byte == b'{')?;
        let quote = self.after_space(brace.saturating_add(1));
        let end = string_end(self.bytes, quote).unwrap_or(quote);
        let field = self.bytes.get(quote..end).unwrap_or_default().strip_prefix(b"\"");
        let mut known = COUNTS.iter().chain(&TIMES).chain(&OTHERS);
        Some(known.any(|known| Some(known.as_bytes()) == field))
    }

    /// How deep the indentation says that this is, if it is the first on its line.
    fn line_level(&self) -> Option<usize> {
        let before = self.bytes.get(..self.at)?;
        let spaces = before.iter().rev().take_while(|&&byte| byte == b' ').count();
        let begins = before.len().checked_sub(spaces)?.checked_sub(1).and_then(|at| before.get(at)) == Some(&b'\n');
        let indent = self.indent.filter(|_| begins)?;
        (spaces.checked_rem(indent)? == 0).then(|| spaces.checked_div(indent))?
    }

    /// Behind the colon of the `"key":` that begins here, if one does.
    fn after_key(&self) -> Option<usize> {
        let quote = string_end(self.bytes, self.at).ok()?;
        let colon = self.after_space(quote.saturating_add(1));
        (self.bytes.get(colon) == Some(&b':')).then(|| colon.saturating_add(1))
    }

    fn value(&mut self) -> Option<Value> {
        match self.peek()? {
            b'"' => self.string().map(Value::String),
            b'{' | b'[' if self.depth >= MAX_DEPTH => None,
            b'{' => self.object().map(Value::Object),
            b'[' => self.list().map(Value::Array),
            b'0'..=b'9' => self.number(),
            _ if self.word("null") => Some(Value::Null),
            _ if self.word("true") => Some(Value::Bool(true)),
            _ if self.word("false") => Some(Value::Bool(false)),
            _ if self.word("NaN") || self.word("Infinity") || self.word("-Infinity") => {
                self.unusable = true;
                Some(Value::Null)
            }
            b'-' => self.number(),
            _ => None,
        }
    }

    /// An object inside a record, as strict as JSON: what is damaged costs the whole field.
    fn object(&mut self) -> Option<Record> {
        let mut object = Record::new();
        self.open();
        if self.close(b'}') {
            return Some(object);
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.eat(b':').then_some(())?;
            self.space();
            object.insert(key, self.value()?);
            if self.close(b'}') {
                return Some(object);
            }
            self.eat(b',').then_some(())?;
        }
    }

    fn list(&mut self) -> Option<Vec<Value>> {
        let mut list = Vec::new();
        self.open();
        if self.close(b']') {
            return Some(list);
        }
        loop {
            self.space();
            list.push(self.value()?);
            if self.close(b']') {
                return Some(list);
            }
            self.eat(b',').then_some(())?;
        }
    }

    fn open(&mut self) {
        self.step(1);
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self, bracket: u8) -> bool {
        self.space();
        let closes = self.eat(bracket);
        self.depth = self.depth.saturating_sub(usize::from(closes));
        closes
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)).count();
        let number = str::from_utf8(rest.get(..len)?).ok()?.parse::<Number>().ok();
        self.step(len);
        // Cut off or overwritten right behind a digit, it may have been longer.
        let delimited = matches!(rest.get(len)?, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        number.filter(|_| delimited).map(Value::Number)
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.peek()? != b'"' {
            return None;
        }
        match string_end(self.bytes, start) {
            Ok(quote) => {
                let (text, problem) = unescape(self.bytes.get(start.saturating_add(1)..quote)?);
                self.at = quote.saturating_add(1);
                if let Some(problem) = problem {
                    self.note(start, &format!("{problem} in {}", shown(&text)));
                }
                Some(text)
            }
            Err(end) => {
                self.at = end;
                None
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let alone = !rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric);
        let found = alone && rest.starts_with(word.as_bytes());
        self.step(if found { word.len() } else { 0 });
        found
    }

    fn colon(&mut self) {
        let mut count = 0_usize;
        self.space();
        while self.eat(b':') {
            count = count.saturating_add(1);
            self.space();
        }
        if count != 1 && self.peek().is_some() {
            self.note(self.at, if count == 0 { "a missing colon" } else { "a doubled colon" });
        }
    }

    fn commas(&mut self) -> usize {
        let mut count = 0_usize;
        self.space();
        while self.eat(b',') {
            count = count.saturating_add(1);
            self.space();
        }
        count
    }

    fn check_commas(&mut self, count: usize, first: bool) {
        match (count, first) {
            (0, true) | (1, false) => {}
            (0, false) => self.note(self.at, "a missing comma"),
            _ => self.note(self.at, "a comma too many"),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn step(&mut self, len: usize) {
        self.at = self.at.saturating_add(len).min(self.bytes.len());
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.step(usize::from(found));
        found
    }

    fn space(&mut self) {
        self.at = self.after_space(self.at);
    }

    fn after_space(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        at.saturating_add(rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count())
    }

    fn damage(&mut self, what: &str) {
        let zeros = self.peek() == Some(0);
        self.note(self.at, &if zeros { format!("{what}: NUL bytes") } else { what.to_owned() });
    }

    /// One problem a place: the first says it best.
    fn note(&mut self, offset: usize, what: &str) {
        if self.found.problems.last().is_some_and(|last| last.offset == offset) {
            return;
        }
        self.found.note(offset, what);
    }
}
