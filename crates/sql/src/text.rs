//! Values as text: what clients read and write unless they ask for bytes.

use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::numeric::Decimal;
use crate::types::SqlType;
use crate::zone::Zone;
use std::borrow::Cow;

const DAY_US: i64 = 86_400_000_000;

/// A value as text. NULL has none, and gives the empty one.
pub fn format(value: &Datum, ty: SqlType) -> Cow<'_, str> {
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
        (Datum::Int(days), SqlType::Date) => Cow::Owned(format_date(*days)),
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
        (Datum::Bytes(bytes), _) => Cow::Owned(hexadecimal("\\x", bytes)),
        (Datum::Timestamp(micros), SqlType::TimestampTz) => {
            Cow::Owned(format!("{}+00", format_timestamp(*micros)))
        }
        (Datum::Timestamp(micros), _) => Cow::Owned(format_timestamp(*micros)),
    }
}

/// As [`format()`], where moments are written as the wall shows them in a zone.
pub fn format_in<'v>(value: &'v Datum, ty: SqlType, zone: &Zone) -> Cow<'v, str> {
    match (value, ty) {
        (Datum::Timestamp(micros), SqlType::TimestampTz) => {
            let shown = format_timestamp(zone.local(*micros));
            Cow::Owned(shown + &zone.suffix(*micros))
        }
        _ => format(value, ty),
    }
}

/// How much memory that takes at most, for a value that is long.
pub fn format_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) | Datum::Json(text) => text.len(),
        Datum::Bytes(bytes) => 2 * bytes.len() + 2,
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

/// As [`parse`], where moments that are written without a zone are what the wall shows in this one.
///
/// # Errors
/// As [`parse`].
pub fn parse_in(text: &str, ty: SqlType, zone: &Zone) -> Result<Datum, SqlError> {
    match ty {
        SqlType::TimestampTz => {
            let (local, offset) = moment(text)?;
            let known = |offset| local - offset;
            Ok(Datum::Timestamp(offset.map_or_else(|| zone.instant(local), known)))
        }
        ty => parse(text, ty),
    }
}

/// What the wall shows at a moment that is written, and how far that is ahead of UTC, if it says so.
///
/// # Errors
/// As [`parse`].
pub(crate) fn moment(text: &str) -> Result<(i64, Option<i64>), SqlError> {
    parse_timestamp(text.trim()).map_err(|wrong| wrong.error(text, SqlType::TimestampTz))
}

/// Reads a value of a type. Moments that are written without a zone are in UTC.
///
/// # Errors
/// 22P02 if the text is none, 22003 if it is out of range.
pub fn parse(text: &str, ty: SqlType) -> Result<Datum, SqlError> {
    let trimmed = text.trim();
    match ty {
        SqlType::Bool => parse_bool(trimmed).map(Datum::Bool).ok_or_else(|| bad(text, ty)),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid => {
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
            let number = Decimal::parse(trimmed).ok_or_else(|| bad(text, ty))?;
            crate::datum::fit(number, modifier).map(Datum::Numeric)
        }
        SqlType::Bytea => parse_bytes(text).map(Datum::Bytes).ok_or_else(|| bad(text, ty)),
        SqlType::Date => {
            let (micros, _) = parse_timestamp(trimmed).map_err(|wrong| wrong.error(text, ty))?;
            Ok(Datum::Int(micros.div_euclid(DAY_US)))
        }
        SqlType::Timestamp => {
            let (micros, _) = parse_timestamp(trimmed).map_err(|wrong| wrong.error(text, ty))?;
            Ok(Datum::Timestamp(micros))
        }
        SqlType::TimestampTz => {
            let (micros, offset) = moment(text)?;
            Ok(Datum::Timestamp(micros - offset.unwrap_or(0)))
        }
        SqlType::Json => crate::json::check(text).map(|()| Datum::text(text)),
        SqlType::Jsonb => crate::json::canonical(text).map(Datum::Json),
        SqlType::Uuid => parse_uuid(text).map(Datum::Bytes).ok_or_else(|| bad(text, ty)),
        SqlType::Array(element) => {
            // Each array is written in one way, so that equal ones are equal texts.
            let mut written = crate::array::Writer::default();
            for value in crate::array::values(text, *element) {
                let value = value?;
                written.push((!value.is_null()).then(|| format(&value, *element)).as_deref());
            }
            Ok(Datum::Text(written.end()))
        }
        SqlType::Int2Vector => Ok(Datum::text(trimmed)),
        SqlType::Char(_)
        | SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::Name
        | SqlType::Unknown => crate::datum::convert(Datum::text(text), ty, false),
    }
}

fn bad(text: &str, ty: SqlType) -> SqlError {
    let (ty, text) = (without_modifier(ty), clipped(text));
    let message = format!("invalid input syntax for type {ty}: \"{text}\"");
    SqlError::new(code::INVALID_TEXT, message)
}

/// What is wrong with a date or a time.
#[derive(Clone, Copy, PartialEq, Debug)]
enum WrongTime {
    /// It is not written as one.
    Form,
    /// There is no such month, day, hour.
    Field,
    /// There is no such time zone.
    Zone,
}

impl WrongTime {
    fn error(self, text: &str, ty: SqlType) -> SqlError {
        let shown = clipped(text);
        let (code, message) = match self {
            WrongTime::Form => {
                (code::INVALID_DATETIME, format!("invalid input syntax for type {ty}: \"{shown}\""))
            }
            WrongTime::Field => (
                code::DATETIME_OVERFLOW,
                format!("date/time field value out of range: \"{shown}\""),
            ),
            WrongTime::Zone => {
                ("22009", format!("time zone displacement out of range: \"{shown}\""))
            }
        };
        SqlError::new(code, message).hint("Write it as 2026-11-21 09:30:00.5, the year first.")
    }
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

/// The shortest digits that give the number back; an exponent where PostgreSQL writes one.
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

/// Sixteen pairs of digits, in braces or not; a dash may stand behind each second pair.
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

/// Year, month and day of a day since 1970, in the Gregorian calendar.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    // Counted from the first of March of the year 0, so that the leap day is a year's last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// The day since 1970.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn format_date(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

fn format_timestamp(micros: i64) -> String {
    let (day, within) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let (seconds, fraction) = (within / 1_000_000, within % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("{} {hours:02}:{minutes:02}:{:02}", format_date(day), seconds % 60);
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

/// Microseconds since 1970 as written, and the offset of the time zone, if there is one.
fn parse_timestamp(text: &str) -> Result<(i64, Option<i64>), WrongTime> {
    let (date, time) = match text.find([' ', 'T']) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => (text, ""),
    };
    let (time, offset) = split_zone(time)?;
    Ok((parse_date(date)? * DAY_US + parse_time(time)?, offset))
}

/// The day since 1970. The year comes first, or the order would be a matter of `DateStyle`: what begins with one
/// or two digits is no year, so `99-01-08` has a month 99.
fn parse_date(text: &str) -> Result<i64, WrongTime> {
    let mut parts = [""; 3];
    if text.len() == 8 && is_number(text) {
        parts = [&text[..4], &text[4..6], &text[6..]];
    } else {
        let mut rest = text.split('-');
        parts.fill_with(|| rest.next().unwrap_or_default());
        if rest.next().is_some() {
            return Err(WrongTime::Form);
        }
    }
    let mut fields = [0i64; 3];
    for (field, part) in fields.iter_mut().zip(parts) {
        *field = number(part)?;
    }
    let [year, month, day] = fields;
    if parts[0].len() < 3 {
        return Err(if year > 12 { WrongTime::Field } else { WrongTime::Form });
    }
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(WrongTime::Field);
    }
    let date = days(year, month, day);
    let is_there = civil(date) == (year, month as u32, day as u32);
    if is_there { Ok(date) } else { Err(WrongTime::Field) }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Result<i64, WrongTime> {
    if !is_number(text) {
        return Err(WrongTime::Form);
    }
    text.parse().map_err(|_| WrongTime::Field)
}

fn split_zone(time: &str) -> Result<(&str, Option<i64>), WrongTime> {
    let lower = time.to_ascii_lowercase();
    for utc in ["z", "utc", "gmt"] {
        if lower.ends_with(utc) {
            return Ok((time[..time.len() - utc.len()].trim_end(), Some(0)));
        }
    }
    let Some(at) = time.rfind(['+', '-']) else { return Ok((time, None)) };
    let zone = &time[at + 1..];
    let (hours, minutes) = match zone.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if zone.len() == 4 && is_number(zone) => zone.split_at(2),
        None => (zone, "0"),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours > 15 || minutes > 59 {
        return Err(WrongTime::Zone);
    }
    let sign = if time[at..].starts_with('-') { -1 } else { 1 };
    Ok((time[..at].trim_end(), Some(sign * (hours * 60 + minutes) * 60_000_000)))
}

/// Microseconds since midnight, which ends a day as 24:00.
fn parse_time(text: &str) -> Result<i64, WrongTime> {
    if text.is_empty() {
        return Ok(0);
    }
    let (hours, rest) = text.split_once(':').ok_or(WrongTime::Form)?;
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    if hours > 24 || minutes > 59 || seconds > 60 {
        return Err(WrongTime::Field);
    }
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros_of(fraction)?;
    if micros > DAY_US { Err(WrongTime::Field) } else { Ok(micros) }
}

/// The nearest number of microseconds to the digits behind the point of a second.
fn micros_of(fraction: &str) -> Result<i64, WrongTime> {
    if fraction.is_empty() {
        return Ok(0);
    }
    if !is_number(fraction) {
        return Err(WrongTime::Form);
    }
    let seven: String = format!("{fraction:0<7}").chars().take(7).collect();
    Ok((number(&seven)? + 5) / 10)
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
    fn what_is_no_value_is_refused_with_the_right_code() {
        let cases = [
            (SqlType::Int4, "12x", code::INVALID_TEXT),
            (SqlType::Int4, "2147483648", code::OUT_OF_RANGE),
            (SqlType::Int8, "99999999999999999999", code::OUT_OF_RANGE),
            (SqlType::Numeric(Some((4, 2))), "100", code::OUT_OF_RANGE),
            (SqlType::Timestamp, "2026-02-30", code::DATETIME_OVERFLOW),
            (SqlType::Timestamp, "2026-02-03 24:00:01", code::DATETIME_OVERFLOW),
            (SqlType::Timestamp, "2026-02-03 12", code::INVALID_DATETIME),
            (SqlType::TimestampTz, "2026-02-03 12:00+16", "22009"),
            (SqlType::Date, "99-01-08", code::DATETIME_OVERFLOW),
            (SqlType::Date, "1-2-3", code::INVALID_DATETIME),
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
