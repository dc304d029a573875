//! Values as text: what clients read and write unless they ask for bytes.

use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::numeric::Decimal;
use crate::types::SqlType;
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
        (Datum::Text(text), _) => Cow::Borrowed(text),
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

/// How much memory that takes at most, for a value that is long.
pub fn format_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len(),
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

/// Reads a value of a type.
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
            if value.is_infinite() && !trimmed.to_ascii_lowercase().contains("inf") {
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
            let (micros, _) = parse_timestamp(trimmed).ok_or_else(|| bad_time(text, ty))?;
            Ok(Datum::Int(micros.div_euclid(DAY_US)))
        }
        SqlType::Timestamp => {
            let (micros, _) = parse_timestamp(trimmed).ok_or_else(|| bad_time(text, ty))?;
            Ok(Datum::Timestamp(micros))
        }
        SqlType::TimestampTz => {
            let (micros, offset) = parse_timestamp(trimmed).ok_or_else(|| bad_time(text, ty))?;
            Ok(Datum::Timestamp(micros - offset))
        }
        SqlType::Uuid => parse_uuid(trimmed).map(Datum::Bytes).ok_or_else(|| bad(text, ty)),
        SqlType::Array(element) => {
            crate::array::values(text, *element).try_for_each(|value| value.map(|_| ()))?;
            Ok(Datum::text(trimmed))
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

fn bad_time(text: &str, ty: SqlType) -> SqlError {
    let message = format!("invalid input syntax for type {ty}: \"{}\"", clipped(text));
    SqlError::new(code::INVALID_DATETIME, message).hint("write it as 2026-11-21 09:30:00.5")
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

/// Thirty-two digits, with dashes where people put them.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let digits = inner.replace('-', "");
    let is_whole = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_whole { parse_bytes(&format!("\\x{digits}")) } else { None }
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
fn days(year: i64, month: i64, day: i64) -> i64 {
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

/// Microseconds since 1970 as written, and the offset of the time zone.
fn parse_timestamp(text: &str) -> Option<(i64, i64)> {
    let (date, time) = match text.find([' ', 'T']) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => (text, ""),
    };
    let mut parts = date.splitn(3, '-');
    let mut number = |least: i64, most: i64| -> Option<i64> {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|n| digits && (least..=most).contains(n))
    };
    let (year, month, day) = (number(1, 9999)?, number(1, 12)?, number(1, 31)?);
    let date = days(year, month, day);
    if civil(date) != (year, month as u32, day as u32) {
        return None;
    }
    let (time, offset) = split_zone(time)?;
    Some((date * DAY_US + parse_time(time)?, offset))
}

fn split_zone(time: &str) -> Option<(&str, i64)> {
    let lower = time.to_ascii_lowercase();
    for utc in ["z", "utc", "gmt"] {
        if lower.ends_with(utc) {
            return Some((time[..time.len() - utc.len()].trim_end(), 0));
        }
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (hours, minutes) = match time[at + 1..].split_once(':') {
        Some((hours, minutes)) => (hours, minutes.parse::<i64>().ok()?),
        None => (&time[at + 1..], 0),
    };
    let seconds = hours.parse::<i64>().ok().filter(|h| *h <= 15)? * 3600 + minutes * 60;
    let sign = if time[at..].starts_with('-') { -1 } else { 1 };
    Some((time[..at].trim_end(), sign * seconds * 1_000_000))
}

fn parse_time(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let mut parts = text.splitn(3, ':');
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let (seconds, fraction) = match parts.next() {
        None => ("0", ""),
        Some(part) => part.split_once('.').unwrap_or((part, "")),
    };
    let number = |text: &str, most: i64| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i64>().ok().filter(|n| digits && *n <= most)
    };
    let seconds = (number(hours, 24)? * 60 + number(minutes, 59)?) * 60 + number(seconds, 60)?;
    let fraction = if fraction.is_empty() {
        0
    } else {
        let six: String = format!("{fraction:0<6}").chars().take(6).collect();
        number(&six, 999_999)?
    };
    Some(seconds * 1_000_000 + fraction)
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
            (SqlType::Timestamp, "2026-02-30", code::INVALID_DATETIME),
            (SqlType::Varchar(Some(3)), "abcd", code::STRING_TOO_LONG),
            (SqlType::Bytea, "\\x0", code::INVALID_TEXT),
            (SqlType::Bool, "maybe", code::INVALID_TEXT),
            (SqlType::Uuid, "0000-1", code::INVALID_TEXT),
            (SqlType::Array(&SqlType::Int4), "{1,x}", code::INVALID_TEXT),
        ];
        for (ty, text, expected) in cases {
            assert_eq!(parse(text, ty).unwrap_err().code, expected, "{text}");
        }
        let zoned = parse("2026-01-01 12:00:00+02", SqlType::TimestampTz).expect("a time");
        assert_eq!(format(&zoned, SqlType::TimestampTz), "2026-01-01 10:00:00+00");
    }
}
