//! Times as Hermes writes and reads them.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::{DateTimeParser, PiecesOffset};

/// Microseconds since the epoch, if Python's `datetime.fromisoformat` reads this text. Without an offset it is UTC.
/// Oddities that Python takes too are not read: week dates, more than nine digits of a second, fractions of an offset.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    // jiff knows these extensions, Python does not: `[zone]`, signed years, leap seconds.
    let date_len = if text.as_bytes().get(4) == Some(&b'-') { 10 } else { 8 };
    let (day, rest) = text.split_at_checked(date_len)?;
    let mut rest = rest.chars();
    // Python separates date and time by any one character.
    let (separated, clock) = (rest.next().is_some(), rest.as_str());
    if day.starts_with(['-', '+']) || clock.contains(['[', 'z']) || separated && clock.is_empty() {
        return None;
    }
    let text = if separated { format!("{day}T{clock}") } else { day.to_owned() };
    let pieces = DateTimeParser::new().parse_pieces(&text).ok()?;
    let second = if clock.get(2..3) == Some(":") { clock.get(6..8) } else { clock.get(4..6) };
    let offset = match pieces.offset() {
        None | Some(PiecesOffset::Zulu) => 0,
        Some(PiecesOffset::Numeric(numeric)) => numeric.offset().seconds(),
        Some(_) => return None,
    };
    if second == Some("60") || pieces.date().year() < 1 || offset.unsigned_abs() >= 86_400 {
        return None;
    }
    let time = pieces.time().unwrap_or_else(Time::midnight);
    let since_epoch = pieces.date().to_datetime(time).duration_since(epoch());
    // Floor, not towards zero: Python cuts the digits of the fraction.
    let micros = i64::try_from(since_epoch.as_nanos().div_euclid(1000)).ok()?;
    micros.checked_sub(i64::from(offset).checked_mul(1_000_000)?)
}

/// What Python's `datetime.fromtimestamp(…, timezone.utc).isoformat()` prints; beyond the years 1 to 9999 the nearest.
#[must_use]
pub fn format_time(micros: i64) -> String {
    const FIRST: i64 = -62_135_596_800_000_000;
    const LAST: i64 = 253_402_300_799_999_999;
    let since_epoch = SignedDuration::from_micros(micros.clamp(FIRST, LAST));
    let time = epoch().checked_add(since_epoch).unwrap_or_else(|_| epoch());
    let fraction = match time.subsec_nanosecond() {
        0 => String::new(),
        nanos => format!(".{:06}", nanos.div_euclid(1000)),
    };
    format!("{}{fraction}+00:00", time.strftime("%Y-%m-%dT%H:%M:%S"))
}

fn epoch() -> DateTime {
    Date::constant(1970, 1, 1).to_datetime(Time::midnight())
}
