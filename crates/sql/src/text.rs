//! Values as text: the format that clients use unless they request the binary one.

use crate::dates::{self, Beside, Moment, TimeStyle, civil};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::interval::Interval;
use crate::numeric::{Decimal, Unreadable, overflow};
use crate::types::{Family, SqlType};
use crate::zone::Zone;
use std::borrow::Cow;

const DAY_US: i64 = 86_400_000_000;

/// A value as text; the empty text for NULL.
pub fn format(value: &Datum, ty: SqlType) -> Cow<'_, str> {
    let ty = ty.plain();
    match (value, ty) {
        (Datum::Null, _) => Cow::Borrowed(""),
        (Datum::Text(text), SqlType::Char(Some(length))) => {
            let missing = (length as usize).saturating_sub(text.chars().count());
            if missing == 0 {
                return Cow::Borrowed(text);
            }
            Cow::Owned(format!("{text}{:missing$}", ""))
        }
        (Datum::Text(text) | Datum::Json(text), _) => Cow::Borrowed(text),
        (Datum::Bool(true), _) => Cow::Borrowed("t"),
        (Datum::Bool(false), _) => Cow::Borrowed("f"),
        (Datum::Int(days), SqlType::Date) => Cow::Owned(match infinity(*days) {
            Some(word) => word.to_owned(),
            None => with_era(format_date(*days), *days),
        }),
        (Datum::Int(within), SqlType::Time) => Cow::Owned(format_clock(*within)),
        (Datum::Int(value), _) => Cow::Owned(value.to_string()),
        (Datum::Float(value), SqlType::Float4) => Cow::Owned(format_float(*value, true)),
        (Datum::Float(value), _) => Cow::Owned(format_float(*value, false)),
        (Datum::Numeric(value), _) => Cow::Owned(value.to_string()),
        (Datum::Bytes(bytes), SqlType::Uuid) => {
            let mut digits = hexadecimal("", bytes);
            for at in [20, 16, 12, 8] {
                digits.insert(at.min(digits.len()), '-');
            }
            Cow::Owned(digits)
        }
        (Datum::Bytes(key), SqlType::Enum(labels)) => Cow::Owned(labels.label(key)),
        (Datum::Bytes(bytes), _) => Cow::Owned(hexadecimal("\\x", bytes)),
        (Datum::TimeTz(within, ahead), _) => {
            Cow::Owned(format_clock(*within) + &crate::zone::suffix((*ahead).into()))
        }
        (Datum::Interval(span), _) => Cow::Owned(span.to_string()),
        (Datum::Row(row), _) => Cow::Owned(row.shown(None)),
        (Datum::Timestamp(micros), _) => {
            let suffix = if ty == SqlType::TimestampTz { "+00" } else { "" };
            Cow::Owned(format_timestamp(*micros, suffix))
        }
    }
}

/// As [`format()`], with instants in the local time of a zone.
pub fn format_in<'v>(value: &'v Datum, ty: SqlType, zone: &Zone) -> Cow<'v, str> {
    match (value, ty.plain()) {
        (Datum::Timestamp(micros), SqlType::TimestampTz) => {
            Cow::Owned(format_timestamp(zone.local(*micros), &zone.suffix(*micros)))
        }
        (Datum::Row(row), _) => Cow::Owned(row.shown(Some(zone))),
        _ => format(value, ty),
    }
}

/// An upper bound of the memory that this takes, for long values.
pub fn format_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) | Datum::Json(text) => text.len(),
        Datum::Bytes(bytes) => 2 * bytes.len() + 2,
        Datum::Numeric(number) => number.text_bytes(),
        Datum::Row(row) => row.fields().map(|(_, _, value)| 2 * format_bytes(value) + 3).sum(),
        _ => 64,
    }
}

fn hexadecimal(before: &str, bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(before.len() + 2 * bytes.len());
    text.push_str(before);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

/// As [`parse`], with the settings of a session. Times without a zone are in its zone, and the
/// fields of a date are in its order.
///
/// # Errors
/// As [`parse`].
pub fn parse_in(text: &str, ty: SqlType, style: &TimeStyle) -> Result<Datum, SqlError> {
    parse_at(text, ty, style, None)
}

/// As [`parse_in`], for a text from a client: `now` and `today` refer to `now_us`.
///
/// # Errors
/// As [`parse`].
pub fn parse_sent(
    text: &str,
    ty: SqlType,
    style: &TimeStyle,
    now_us: i64,
) -> Result<Datum, SqlError> {
    match ty.family() {
        // The statement looks the name up.
        _ if matches!(ty, SqlType::Reg(_)) => Ok(Datum::text(text)),
        Family::Time | Family::Clock => parse_at(text, ty, style, Some(now_us)),
        _ => parse_in(text, ty, style),
    }
}

/// A literal of a type as a value of another type, by an assignment cast; one of unknown type is
/// parsed as by [`parse_sent`]. `None` if there is no such cast.
pub fn assigned(
    value: &Datum,
    (from, to): (SqlType, SqlType),
    style: &TimeStyle,
    now_us: i64,
) -> Option<Result<Datum, SqlError>> {
    if !crate::bind::is_assignable(from, to) {
        return None;
    }
    Some(match value {
        Datum::Text(text) if from == SqlType::Unknown => parse_sent(text, to, style, now_us),
        value => cast(value, (from, to), false, (style, now_us)),
    })
}

/// A value of one type as one of another; an explicit cast truncates texts.
fn cast(
    value: &Datum,
    (from, to): (SqlType, SqlType),
    explicit: bool,
    (style, now_us): (&TimeStyle, i64),
) -> Result<Datum, SqlError> {
    let (own, wanted) = (from.plain(), to.plain());
    match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Text(array) if own.is_array() && wanted.is_array() && own != wanted => {
            let types = (own.element().unwrap_or(own), wanted.element().unwrap_or(wanted));
            let array = elements_as(array, types, explicit, (style, now_us))?;
            crate::datum::convert(array, to, explicit)
        }
        Datum::Text(text) if from.family() == Family::Text && to.family() != Family::Text => {
            parse_at(text, to, style, Some(now_us))
        }
        value if to.family() == Family::Text && from.family() != Family::Text => {
            let shown = match value {
                Datum::Bool(truth) => truth.to_string(),
                value => format_in(value, from, &style.zone).into_owned(),
            };
            crate::datum::convert(Datum::Text(shown), to, explicit)
        }
        value => crate::datum::convert(style.zone.retyped(value.clone(), from, to), to, explicit),
    }
}

/// An array whose elements are cast from one type to another.
///
/// # Errors
/// The errors of the cast.
pub(crate) fn elements_as(
    array: &str,
    (from, to): (SqlType, SqlType),
    explicit: bool,
    around: (&TimeStyle, i64),
) -> Result<Datum, SqlError> {
    let mut written = crate::array::Writer::like(array);
    for value in crate::array::values(array, from) {
        let value = cast(&value?, (from, to), explicit, around)?;
        let text = (!value.is_null()).then(|| format(&value, to));
        written.push(text.as_deref());
    }
    Ok(Datum::Text(written.end()))
}

/// As [`parse_in`]; words that refer to the current time (`now`, `today`) are accepted if it is
/// known.
pub(crate) fn parse_at(
    text: &str,
    ty: SqlType,
    style: &TimeStyle,
    now: Option<i64>,
) -> Result<Datum, SqlError> {
    match ty {
        SqlType::Rounded(of, digits) => {
            parse_at(text, *of, style, now).map(|value| crate::datum::rounded(value, digits))
        }
        SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => {
            let read = dates::moment(text, style.order).map_err(|wrong| wrong.error(text, ty))?;
            if let (Moment::At(day, ..), SqlType::Date) = (&read, ty) {
                return Ok(Datum::Int(*day));
            }
            let micros = in_zone(read, ty, &style.zone, now, text)?;
            let is_infinite = matches!(micros, i64::MIN | i64::MAX);
            Ok(match ty {
                SqlType::Date if is_infinite => Datum::Int(micros),
                SqlType::Date => Datum::Int(micros.div_euclid(DAY_US)),
                _ => Datum::Timestamp(micros),
            })
        }
        SqlType::Time | SqlType::TimeTz => {
            let (within, beside, day) =
                dates::time_of_day(text).map_err(|wrong| wrong.error(text, ty))?;
            if ty == SqlType::Time {
                return Ok(Datum::Int(within));
            }
            let of_zone = |zone: &Zone, moment: i64| (zone.ahead(moment) / 1_000_000) as i32;
            let ahead = match (beside, day, now) {
                (Some(Beside::Offset(ahead)), ..) => (ahead / 1_000_000) as i32,
                (Some(Beside::Zone(zone)), Some(day), _) => {
                    of_zone(&zone, zone.instant(day * DAY_US + within))
                }
                (_, Some(day), _) => {
                    of_zone(&style.zone, style.zone.instant(day * DAY_US + within))
                }
                (_, None, Some(now)) => of_zone(&style.zone, now),
                (_, None, None) if style.zone.is_fixed() => of_zone(&style.zone, 0),
                _ => {
                    let what = "a time with time zone without its zone, in a parameter or COPY,";
                    return Err(SqlError::unsupported(what));
                }
            };
            Ok(Datum::TimeTz(within, ahead))
        }
        ty => parse(text, ty),
    }
}

/// A parsed time as a value of a type: a local time, or an instant.
fn in_zone(
    read: Moment,
    ty: SqlType,
    zone: &Zone,
    now: Option<i64>,
    text: &str,
) -> Result<i64, SqlError> {
    let is_moment = ty == SqlType::TimestampTz;
    let now = || {
        let shown = clipped(text);
        now.ok_or_else(|| SqlError::unsupported(format!("\"{shown}\" in a parameter or COPY")))
    };
    let of_wall = |wall: i64, beside: Option<Beside>| match beside {
        _ if !is_moment => wall,
        None => zone.instant(wall),
        Some(Beside::Offset(ahead)) => wall.saturating_sub(ahead),
        Some(Beside::Zone(zone)) => zone.instant(wall),
    };
    let micros = match read {
        Moment::Infinity { is_later } => return Ok(if is_later { i64::MAX } else { i64::MIN }),
        Moment::Epoch => 0,
        Moment::Now if is_moment => now()?,
        Moment::Now => zone.local(now()?),
        Moment::Today(after, within, beside) => {
            let today = zone.local(now()?).div_euclid(DAY_US);
            of_wall((today + after) * DAY_US + within, beside)
        }
        Moment::At(day, within, beside) => {
            let wall = day.checked_mul(DAY_US).and_then(|wall| wall.checked_add(within));
            of_wall(wall.unwrap_or(i64::MAX), beside)
        }
    };
    // A local time may be in range though its instant is not.
    if !dates::DAYS.contains(&micros.div_euclid(DAY_US)) || matches!(micros, i64::MIN | i64::MAX) {
        let message = format!("timestamp out of range: \"{}\"", clipped(text));
        return Err(SqlError::new(code::DATETIME_OVERFLOW, message));
    }
    Ok(micros)
}

/// Parses a value of a type. Instants without a zone are in UTC.
///
/// # Errors
/// 22P02 if the text is not a value, 22003 if it is out of range. Of a catalog object, only its
/// number is known here.
pub fn parse(text: &str, ty: SqlType) -> Result<Datum, SqlError> {
    let trimmed = text.trim();
    match ty {
        SqlType::Bool => parse_bool(trimmed).map(Datum::Bool).ok_or_else(|| bad(text, ty)),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid | SqlType::Reg(_) => {
            match trimmed.parse::<i64>() {
                Ok(value) => {
                    crate::datum::check_int(value, ty).map(Datum::Int).map_err(|mut error| {
                        let shown = clipped(trimmed);
                        error.message = format!("value \"{shown}\" is out of range for type {ty}");
                        error
                    })
                }
                Err(error) => {
                    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                    if matches!(error.kind(), PosOverflow | NegOverflow) {
                        let shown = clipped(trimmed);
                        let message = format!("value \"{shown}\" is out of range for type {ty}");
                        return Err(SqlError::new(code::OUT_OF_RANGE, message));
                    }
                    Err(bad(text, ty))
                }
            }
        }
        SqlType::Float4 | SqlType::Float8 => {
            let value = parse_float(trimmed).ok_or_else(|| bad(text, ty))?;
            let value = if ty == SqlType::Float4 { f64::from(value as f32) } else { value };
            let is_too_large = value.is_infinite() && !trimmed.to_ascii_lowercase().contains("inf");
            let digits = trimmed.split(['e', 'E']).next().unwrap_or_default();
            let is_too_small = value == 0.0 && digits.contains(|c| ('1'..='9').contains(&c));
            if is_too_large || is_too_small {
                let message = format!("\"{}\" is out of range for type {ty}", clipped(trimmed));
                return Err(SqlError::new(code::OUT_OF_RANGE, message));
            }
            Ok(Datum::Float(value))
        }
        SqlType::Numeric(modifier) => {
            let number = Decimal::read(trimmed).map_err(|why| match why {
                Unreadable::Syntax => bad(text, ty),
                Unreadable::Overflow => overflow(),
            })?;
            crate::datum::fit(number, modifier).map(Datum::Numeric)
        }
        SqlType::Bytea => parse_bytes(text).map(Datum::Bytes).ok_or_else(|| bad(text, ty)),
        SqlType::Date
        | SqlType::Timestamp
        | SqlType::TimestampTz
        | SqlType::Time
        | SqlType::TimeTz
        | SqlType::Rounded(..) => parse_in(text, ty, &TimeStyle::default()),
        SqlType::Interval => Interval::parse(text, None).map(Datum::Interval),
        SqlType::Spanned(fields, digits) => Interval::parse(text, Some(fields))
            .map(|span| crate::datum::spanned(Datum::Interval(span), fields, digits)),
        SqlType::Json => crate::json::check(text).map(|()| Datum::text(text)),
        SqlType::Jsonb => crate::json::canonical(text).map(Datum::Json),
        SqlType::Uuid => parse_uuid(text).map(Datum::Bytes).ok_or_else(|| bad(text, ty)),
        SqlType::Array(_) | SqlType::EnumArray(_) => {
            let element = ty.element().expect("an array has elements");
            // Each array has one representation, so that equal arrays are equal texts.
            let said = crate::array::bounds(text)?;
            let has_shape = said.len() > 1 || crate::array::is_nested(text);
            let mut written = match has_shape {
                true => crate::array::Writer::of(crate::array::shape(text)?),
                false => crate::array::Writer::default(),
            };
            let mut count = 0;
            for value in crate::array::values(text, element) {
                let value = value?;
                count += 1;
                written.push((!value.is_null()).then(|| format(&value, element)).as_deref());
                written.check_length(text.len())?;
            }
            let (first, last) = said.first().map_or((1, count), |bounds| *bounds);
            if !has_shape && last - first + 1 != count {
                let what = "Specified array dimensions do not match array contents.";
                return Err(crate::array::malformed(text, what));
            }
            Ok(Datum::Text(if has_shape { written.end() } else { written.end_from(first) }))
        }
        SqlType::Limited(..) => crate::datum::convert(Datum::text(text), ty, false),
        SqlType::Enum(labels) => labels.key(text).map(Datum::Bytes),
        SqlType::Int2Vector => Ok(Datum::text(trimmed)),
        SqlType::Record => Err(SqlError::unsupported("input of anonymous composite types")),
        SqlType::Char(_)
        | SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::Name
        | SqlType::Letter
        | SqlType::Unknown => crate::datum::convert(Datum::text(text), ty, false),
    }
}

fn bad(text: &str, ty: SqlType) -> SqlError {
    let (ty, text) = (without_modifier(ty), clipped(text));
    let message = format!("invalid input syntax for type {ty}: \"{text}\"");
    SqlError::new(code::INVALID_TEXT, message)
}

fn without_modifier(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Numeric(_) => SqlType::Numeric(None),
        other => other,
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let starts = |word: &str| !lower.is_empty() && word.starts_with(lower.as_str());
    match lower.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if starts("true") || starts("yes") => Some(true),
        _ if starts("false") || starts("no") => Some(false),
        _ => None,
    }
}

fn parse_float(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "infinity" | "+infinity" | "inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
        lower if lower.bytes().all(|b| b.is_ascii_digit() || b"+-.e".contains(&b)) => {
            lower.parse().ok()
        }
        _ => None,
    }
}

/// The shortest digits that identify the number; with an exponent where PostgreSQL writes one.
fn format_float(value: f64, single: bool) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let scientific = if single { format!("{:e}", value as f32) } else { format!("{value:e}") };
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = if single { 6 } else { 15 };
    if (-4..most).contains(&exponent) {
        return if single { format!("{}", value as f32) } else { format!("{value}") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok().filter(|_| pair.len() == 2)
        };
        return digits.chunks(2).map(pair).collect();
    }
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'\\' => bytes.push(b'\\'),
            first @ b'0'..=b'3' => {
                let digit = |byte: u8| (b'0'..=b'7').contains(&byte).then(|| byte - b'0');
                let (second, third) = (digit(rest.next()?)?, digit(rest.next()?)?);
                bytes.push((first - b'0') * 64 + second * 8 + third);
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// Sixteen pairs of digits, with optional braces; a dash may follow every second pair.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut rest = inner.bytes().peekable();
    let mut bytes = Vec::with_capacity(16);
    for pair in 1..=16 {
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        bytes.push((digit()? * 16 + digit()?) as u8);
        if pair % 2 == 0 && pair < 16 {
            let _ = rest.next_if_eq(&b'-');
        }
    }
    rest.next().is_none().then_some(bytes)
}

/// The names of the infinite times.
fn infinity(value: i64) -> Option<&'static str> {
    match value {
        i64::MAX => Some("infinity"),
        i64::MIN => Some("-infinity"),
        _ => None,
    }
}

/// A day, without its era, which is written last.
fn format_date(day: i64) -> String {
    let (year, month, day) = civil(day);
    let year = if year > 0 { year } else { 1 - year };
    format!("{year:04}-{month:02}-{day:02}")
}

fn with_era(shown: String, day: i64) -> String {
    if civil(day).0 > 0 { shown } else { shown + " BC" }
}

fn format_clock(within: i64) -> String {
    let (seconds, fraction) = (within / 1_000_000, within % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

fn format_timestamp(micros: i64, suffix: &str) -> String {
    if let Some(word) = infinity(micros) {
        return word.to_owned();
    }
    let (day, within) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    with_era(format!("{} {}{suffix}", format_date(day), format_clock(within)), day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_written() {
        let cases = [
            (SqlType::Timestamp, "2026-11-21 09:30:00.5"),
            (SqlType::Timestamp, "1969-12-31 23:59:59.999999"),
            (SqlType::TimestampTz, "2000-02-29 00:00:00+00"),
            (SqlType::Date, "1900-03-01"),
            (SqlType::Int8, "-9223372036854775808"),
            (SqlType::Float8, "1e+300"),
            (SqlType::Float8, "0.1"),
            (SqlType::Float8, "-Infinity"),
            (SqlType::Float4, "0.1"),
            (SqlType::Numeric(Some((5, 2))), "-0.05"),
            (SqlType::Bytea, "\\x00ff"),
            (SqlType::Uuid, "00000000-0000-0001-ffff-000000000002"),
            (SqlType::Array(&SqlType::Int4), "{1,NULL,3}"),
            (SqlType::Bool, "t"),
            (SqlType::Char(Some(4)), "ab  "),
        ];
        for (ty, text) in cases {
            let value = parse(text, ty).expect(text);
            assert_eq!(format(&value, ty), text);
        }
    }

    #[test]
    fn invalid_values_are_refused_with_the_right_code() {
        let cases = [
            (SqlType::Int4, "12x", code::INVALID_TEXT),
            (SqlType::Int4, "2147483648", code::OUT_OF_RANGE),
            (SqlType::Int8, "99999999999999999999", code::OUT_OF_RANGE),
            (SqlType::Numeric(Some((4, 2))), "100", code::OUT_OF_RANGE),
            (SqlType::Timestamp, "2026-02-30", code::DATETIME_OVERFLOW),
            (SqlType::Timestamp, "2026-02-03 24:00:01", code::DATETIME_OVERFLOW),
            (SqlType::Timestamp, "2026-02-03 x", code::INVALID_DATETIME),
            (SqlType::TimestampTz, "2026-02-03 12:00+16", "22009"),
            (SqlType::Date, "99-01-08", code::DATETIME_OVERFLOW),
            (SqlType::Time, "25:00", code::DATETIME_OVERFLOW),
            (SqlType::Time, "", code::INVALID_DATETIME),
            (SqlType::Date, "0-2-3", code::DATETIME_OVERFLOW),
            (SqlType::Date, "1999-01", code::INVALID_DATETIME),
            (SqlType::Varchar(Some(3)), "abcd", code::STRING_TOO_LONG),
            (SqlType::Bytea, "\\x0", code::INVALID_TEXT),
            (SqlType::Bool, "maybe", code::INVALID_TEXT),
            (SqlType::Uuid, "0000-1", code::INVALID_TEXT),
            (SqlType::Uuid, "a0-eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", code::INVALID_TEXT),
            (SqlType::Uuid, "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11", code::INVALID_TEXT),
            (SqlType::Uuid, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", code::INVALID_TEXT),
            (SqlType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-", code::INVALID_TEXT),
            (SqlType::Array(&SqlType::Int4), "{1,x}", code::INVALID_TEXT),
        ];
        for (ty, text, expected) in cases {
            assert_eq!(parse(text, ty).unwrap_err().code, expected, "{text}");
        }
        for (ty, text, shown) in [
            (SqlType::TimestampTz, "2026-01-01 12:00:00+02", "2026-01-01 10:00:00+00"),
            (SqlType::TimestampTz, "2026-01-01 12:00-0530", "2026-01-01 17:30:00+00"),
            (SqlType::Timestamp, "2026-01-01 24:00:00", "2026-01-02 00:00:00"),
            (SqlType::Timestamp, "2026-01-01 12:00:00.9999996", "2026-01-01 12:00:01"),
            (SqlType::Date, "20260101", "2026-01-01"),
            (SqlType::Date, "1/8/1999", "1999-01-08"),
            (SqlType::Date, "1/18/1999", "1999-01-18"),
            (SqlType::Date, "January 8, 99 BC", "0099-01-08 BC"),
            (SqlType::Date, "08-Jan-99", "1999-01-08"),
            (SqlType::Date, "Jan-08-1999", "1999-01-08"),
            (SqlType::Date, "1999.008", "1999-01-08"),
            (SqlType::Date, "J2451187", "1999-01-08"),
            (SqlType::Date, "infinity", "infinity"),
            (SqlType::Timestamp, "Mon Feb 10 17:32:01 1997 PST", "1997-02-10 17:32:01"),
            (SqlType::TimestampTz, "Feb 10 1997 5:32PM PST", "1997-02-11 01:32:00+00"),
            (SqlType::TimestampTz, "19970210 173201 America/New_York", "1997-02-10 22:32:01+00"),
            (SqlType::Timestamp, "2011-01-01T10:20:30.5Z", "2011-01-01 10:20:30.5"),
            (SqlType::Timestamp, "20111227T040506", "2011-12-27 04:05:06"),
            (SqlType::TimestampTz, "2011-12-27 04:05:06.789-08", "2011-12-27 12:05:06.789+00"),
            (SqlType::Timestamp, "epoch", "1970-01-01 00:00:00"),
            (SqlType::Timestamp, "-infinity", "-infinity"),
            (SqlType::Time, "04:05 PM", "16:05:00"),
            (SqlType::Time, "040506", "04:05:06"),
            (SqlType::TimeTz, "04:05:06.789 EST", "04:05:06.789-05"),
            (SqlType::TimeTz, "2003-07-07 15:36:39 America/New_York", "15:36:39-04"),
            (SqlType::Interval, "1 day ago", "-1 days"),
            (SqlType::Array(&SqlType::Int4), "{ 1, 02 ,null}", "{1,2,NULL}"),
            (SqlType::Date, "099-1-8", "0099-01-08"),
            (
                SqlType::Uuid,
                "{00000000-00000001-ffff0000-00000002}",
                "00000000-0000-0001-ffff-000000000002",
            ),
        ] {
            let value = parse(text, ty).expect(text);
            assert_eq!(format(&value, ty), shown);
        }
    }
}
