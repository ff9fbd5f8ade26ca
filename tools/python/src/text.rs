//! Python's strings can hold half a surrogate pair, UTF-8 cannot.
//!
//! Half a pair is written as U+FDD0 and its four hexadecimal digits, U+FDD0 itself twice. U+FDD0 is a code point that
//! Unicode keeps free of characters, so every other string is written as it is, no two are written alike, and what is
//! read back is equal. What is not written like this (by another program) is read as it stands.

use std::borrow::Cow;
use std::fmt::Write;

use pyo3::prelude::*;
use pyo3::types::PyString;

const MARK: char = '\u{FDD0}';

/// A name that Python gives, as the log has it.
pub(crate) struct Name(pub(crate) String);

impl FromPyObject<'_, '_> for Name {
    type Error = PyErr;

    fn extract(name: Borrowed<'_, '_, PyAny>) -> PyResult<Name> {
        Ok(Name(to_log(&*name.cast::<PyString>()?)?.into_owned()))
    }
}

/// A string as the log has it.
pub(crate) fn to_log<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    match text.to_str() {
        Ok(plain) if !plain.contains(MARK) => Ok(Cow::Borrowed(plain)),
        Ok(marked) => Ok(Cow::Owned(marked.replace(MARK, "\u{FDD0}\u{FDD0}"))),
        Err(_) => {
            let bytes: Vec<u8> = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?.extract()?;
            let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            let mut written = String::with_capacity(bytes.len());
            for unit in char::decode_utf16(units) {
                match unit {
                    Ok(MARK) => written.extend([MARK, MARK]),
                    Ok(plain) => written.push(plain),
                    Err(half) => {
                        written.push(MARK);
                        let _ = write!(written, "{:04x}", half.unpaired_surrogate()); // a String takes everything
                    }
                }
            }
            Ok(Cow::Owned(written))
        }
    }
}

/// The inverse of [`to_log`].
pub(crate) fn from_log<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    if !text.contains(MARK) {
        return Ok(PyString::new(py, text));
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut buffer = [0; 2];
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        if character == MARK {
            if let Some(after) = rest.strip_prefix(MARK) {
                rest = after;
            } else if let Some((half, after)) = half(rest) {
                units.push(half);
                rest = after;
                continue;
            }
        }
        units.extend_from_slice(character.encode_utf16(&mut buffer));
    }
    let bytes: Vec<u8> = units.into_iter().flat_map(u16::to_le_bytes).collect();
    let decoded = pyo3::types::PyBytes::new(py, &bytes).call_method1("decode", ("utf-16-le", "surrogatepass"))?;
    Ok(decoded.cast_into::<PyString>()?)
}

/// Half a surrogate pair at the start of a text, and what follows it.
fn half(text: &str) -> Option<(u16, &str)> {
    let (digits, after) = text.split_at_checked(4)?;
    let is_written = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let half = u16::from_str_radix(digits, 16).ok().filter(|half| (0xD800..=0xDFFF).contains(half))?;
    is_written.then_some((half, after))
}
