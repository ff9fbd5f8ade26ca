//! JSON strings, also damaged ones.

/// Where the string that begins with the quote at `start` has its other quote, else where it breaks off. JSON has no
/// raw control characters in strings: one means that the quote is lost, or that bytes were overwritten.
pub(super) fn string_end(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start.saturating_add(1);
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at),
            Some(b'\\') if bytes.get(at.saturating_add(1)) >= Some(&b' ') => at = at.saturating_add(2),
            Some(b' '..) => at = at.saturating_add(1),
            Some(_) | None => return Err(at),
        }
    }
}

/// The text between two quotes. Nothing in it is dropped: what is not text stays in the nearest form that is.
pub(super) fn unescape(raw: &[u8]) -> (String, Option<&'static str>) {
    let mut problem = None;
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let kind = if byte == b'\\' { tail.first() } else { None };
        let plain = match kind {
            None => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(&kind @ (b'"' | b'\\' | b'/')) => kind,
            Some(_) => {
                let (text, len) = unicode(rest).unwrap_or_else(|lone| {
                    problem = Some(lone);
                    ("\\".to_owned(), 0)
                });
                bytes.extend_from_slice(text.as_bytes());
                rest = rest.get(len..).unwrap_or_default();
                continue;
            }
        };
        bytes.push(plain);
        rest = rest.get(usize::from(kind.is_some())..).unwrap_or_default();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|&byte| char::from(byte)));
        problem = if chunk.invalid().is_empty() { problem } else { Some("bytes that are not UTF-8") };
    }
    (text, problem)
}

/// What `uXXXX`, or `uXXXX\uXXXX` of a surrogate pair, stands for, and its length. Half a pair is refused, and then
/// stays as it is spelled: names that differ only there stay different.
fn unicode(escape: &[u8]) -> Result<(String, usize), &'static str> {
    let unit = |at: usize| {
        let digits =
            escape.get(at..)?.strip_prefix(b"u")?.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0).ok_or("an escape that JSON does not know")?;
    let second = unit(6).filter(|_| escape.get(5) == Some(&b'\\'));
    match char::decode_utf16(std::iter::once(first).chain(second)).next() {
        Some(Ok(char)) => Ok((char.to_string(), if char.len_utf16() == 2 { 11 } else { 5 })),
        _ => Err("half a surrogate pair"),
    }
}
