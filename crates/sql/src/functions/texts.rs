//! Functions that describe texts or convert them: characters and their code points, parts, names,
//! `format`.
//!
//! ```text
//!   split_part('a,b,c', ',', -1)              c
//!   encode('\x00ff', 'base64')                AP8=
//!   format('%-5s|%2$I|%%', 'ab', 'C')         ab   |"C"|%
//! ```
//!
//! The memory of a result is reserved before it is made.

use super::names::{identifiers, size, unescaped};
use super::strings::{copy, substring};
use crate::budget::Budget;
use crate::catalog::quoted;
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::row_value::RowValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

/// PostgreSQL breaks lines of base64 after this many characters.
const LINE: usize = 76;

/// A function of texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum TextFunc {
    Chr,
    Ascii,
    InitCap,
    SplitPart,
    ToHex {
        bits: u32,
    },
    Translate,
    Overlay,
    QuoteLiteral,
    QuoteNullable,
    Format,
    /// The length in bytes, or in bits.
    Bytes {
        of_each: i64,
    },
    Encode,
    Decode,
    /// `parse_ident`: a text, and whether nothing may follow the name.
    ParseIdent,
    Unistr,
    /// `pg_size_bytes`
    SizeBytes,
    /// The zone of `make_timestamptz` as that of AT TIME ZONE, where `+2` is west of Greenwich.
    ZoneBySign,
    /// A value and a delimiter as a row, for `string_agg`; NULL if the value is NULL.
    Beside,
    NullCount {
        of_nulls: bool,
    },
}

/// True if it has a result though an argument is NULL.
pub(super) fn takes_null(func: TextFunc) -> bool {
    matches!(
        func,
        TextFunc::QuoteNullable | TextFunc::Format | TextFunc::NullCount { .. } | TextFunc::Beside
    )
}

pub(super) fn call(func: TextFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    let int = |at: usize| args.get(at).and_then(Datum::as_int).unwrap_or(0);
    let bytes = |at: usize| match args.get(at) {
        Some(Datum::Bytes(bytes)) => bytes.as_slice(),
        _ => text(at).as_bytes(),
    };
    Ok(match func {
        TextFunc::Chr => Datum::Text(sign_numbered(int(0))?.to_string()),
        TextFunc::Ascii => Datum::Int(text(0).chars().next().map_or(0, |c| u32::from(c).into())),
        TextFunc::InitCap => initial_capitals(text(0), budget)?,
        TextFunc::SplitPart => copy(part(text(0), text(1), int(2))?, budget)?,
        TextFunc::ToHex { bits: 32 } => Datum::Text(format!("{:x}", int(0) as u32)),
        TextFunc::ToHex { .. } => Datum::Text(format!("{:x}", int(0))),
        TextFunc::Translate => translated(text(0), text(1), text(2), budget)?,
        TextFunc::Overlay => {
            overlaid(text(0), text(1), int(2), args.get(3).map(|_| int(3)), budget)?
        }
        TextFunc::QuoteNullable if args[0].is_null() => Datum::text("NULL"),
        TextFunc::QuoteLiteral | TextFunc::QuoteNullable => Datum::Text(literal(text(0), budget)?),
        TextFunc::Format if args[0].is_null() => Datum::Null,
        TextFunc::Format => formatted(text(0), &args[1..], budget)?,
        TextFunc::Bytes { of_each } => Datum::Int(bytes(0).len() as i64 * of_each),
        TextFunc::Encode => encoded(bytes(0), text(1), budget)?,
        TextFunc::Decode => decoded(text(0), text(1), budget)?,
        TextFunc::ParseIdent => identifiers(text(0), args[1].as_bool() == Some(true), budget)?,
        TextFunc::Unistr => Datum::Text(unescaped(text(0), budget)?),
        TextFunc::SizeBytes => Datum::Int(size(text(0))?),
        TextFunc::ZoneBySign => Datum::Text(zone_by_sign(text(0))?),
        TextFunc::Beside if args[0].is_null() => Datum::Null,
        TextFunc::Beside => {
            budget.charge(args.iter().map(Datum::bytes).sum())?;
            let column = |_: &Datum| (String::new(), crate::types::SqlType::Text);
            let columns = args.iter().map(column).collect();
            Datum::Row(Box::new(RowValue::of_nulls(columns).with(args)))
        }
        TextFunc::NullCount { of_nulls } => {
            Datum::Int(args.iter().filter(|value| value.is_null() == of_nulls).count() as i64)
        }
    })
}

fn sign_numbered(number: i64) -> Result<char, SqlError> {
    if number == 0 {
        return Err(SqlError::new(code::PROGRAM_LIMIT, "null character not permitted"));
    }
    if number < 0 {
        return Err(SqlError::new(code::INVALID_PARAMETER, "character number must be positive"));
    }
    let found = u32::try_from(number).ok().and_then(char::from_u32);
    found.ok_or_else(|| {
        let message = format!("requested character not valid for encoding: {number}");
        SqlError::new(code::PROGRAM_LIMIT, message)
    })
}

/// Each word with an upper-case letter followed by lower-case ones. A word is letters and digits.
fn initial_capitals(text: &str, budget: &Budget) -> Result<Datum, SqlError> {
    budget.charge(super::cased_bytes(text))?;
    let mut capital = String::with_capacity(text.len());
    let mut is_in_word = false;
    for c in text.chars() {
        match is_in_word {
            true => capital.extend(c.to_lowercase()),
            false => capital.extend(c.to_uppercase()),
        }
        is_in_word = c.is_alphanumeric();
    }
    Ok(Datum::Text(capital))
}

/// The part with this number, from 1; negative numbers count from the end.
fn part<'t>(text: &'t str, between: &str, number: i64) -> Result<&'t str, SqlError> {
    let at = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    if number == 0 {
        return Err(SqlError::new(code::INVALID_PARAMETER, "field position must not be zero"));
    }
    if between.is_empty() {
        return Ok(if at == 1 { text } else { "" });
    }
    let found = match number > 0 {
        true => text.split(between).nth(at - 1),
        false => {
            // Counted from the front, as overlapping separators are matched from there.
            let count = text.split(between).count();
            count.checked_sub(at).and_then(|at| text.split(between).nth(at))
        }
    };
    Ok(found.unwrap_or(""))
}

/// Replaces each character of `from` by the one at the same position in `to`, or drops it if there
/// is none.
fn translated(text: &str, from: &str, to: &str, budget: &Budget) -> Result<Datum, SqlError> {
    budget.charge(32 * from.len())?;
    let mut becomes = BTreeMap::new();
    let mut to = to.chars();
    for c in from.chars() {
        let other = to.next();
        becomes.entry(c).or_insert(other);
    }
    budget.charge(4 * text.len())?;
    let chars = text.chars().filter_map(|c| becomes.get(&c).copied().unwrap_or(Some(c)));
    Ok(Datum::Text(chars.collect()))
}

/// A text in which `length` characters from a position on are replaced.
fn overlaid(
    text: &str,
    new: &str,
    from: i64,
    length: Option<i64>,
    budget: &Budget,
) -> Result<Datum, SqlError> {
    if from < 1 {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let length = length.unwrap_or(new.chars().count() as i64);
    let before = substring(text, 1, Some(from - 1))?;
    let after = substring(text, from.saturating_add(length), None)?;
    budget.charge(before.len() + new.len() + after.len())?;
    Ok(Datum::Text([before, new, after].concat()))
}

/// A text as a literal of SQL.
fn literal(text: &str, budget: &Budget) -> Result<String, SqlError> {
    budget.charge(4 * text.len() + 4)?;
    let escapes = if text.contains('\\') { "E" } else { "" };
    let inner = text.replace('\\', "\\\\").replace('\'', "''");
    Ok(format!("{escapes}'{inner}'"))
}

/// # Errors
/// 22023 for a number without a sign.
fn zone_by_sign(zone: &str) -> Result<String, SqlError> {
    let zone = clipped(zone);
    if zone.starts_with(|sign: char| sign.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{zone}\"");
        let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
        return Err(SqlError::new(code::INVALID_PARAMETER, message).hint(hint));
    }
    Ok(match zone.split_at_checked(1) {
        Some(("+", hours)) => format!("-{hours}"),
        Some(("-", hours)) => format!("+{hours}"),
        _ => zone.to_string(),
    })
}

fn unknown_form(name: &str) -> SqlError {
    let message = format!("unrecognized encoding: \"{}\"", clipped(name));
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Bytes as a text, in one of the formats `hex`, `base64`, `escape`.
fn encoded(bytes: &[u8], form: &str, budget: &Budget) -> Result<Datum, SqlError> {
    budget.charge(4 * bytes.len())?;
    Ok(Datum::Text(match form.to_ascii_lowercase().as_str() {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64" => {
            let all = STANDARD.encode(bytes);
            let lines: Vec<&str> =
                (0..all.len()).step_by(LINE).map(|at| &all[at..all.len().min(at + LINE)]).collect();
            lines.join("\n")
        }
        "escape" => {
            let mut escaped = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    b'\\' => escaped.push_str("\\\\"),
                    0 | 128.. => escaped.push_str(&format!("\\{byte:03o}")),
                    byte => escaped.push(char::from(*byte)),
                }
            }
            escaped
        }
        _ => return Err(unknown_form(form)),
    }))
}

/// The bytes that a text encodes.
fn decoded(text: &str, form: &str, budget: &Budget) -> Result<Datum, SqlError> {
    budget.charge(2 * text.len())?;
    let given = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let invalid = |message: &str| SqlError::new(code::INVALID_PARAMETER, message);
    Ok(Datum::Bytes(match form.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: Vec<u8> = given
                .map(|byte| {
                    let digit = char::from(byte).to_digit(16);
                    let message = format!("invalid hexadecimal digit: \"{}\"", char::from(byte));
                    digit.map(|digit| digit as u8).ok_or_else(|| invalid(&message))
                })
                .collect::<Result<_, _>>()?;
            if digits.len() % 2 == 1 {
                return Err(invalid("invalid hexadecimal data: odd number of digits"));
            }
            digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
        }
        "base64" => {
            let all: Vec<u8> = given.collect();
            STANDARD
                .decode(all)
                .map_err(|error| invalid("invalid base64 sequence").detail(error.to_string()))?
        }
        "escape" => {
            let mut bytes = Vec::with_capacity(text.len());
            let mut rest = text.as_bytes();
            while let Some((first, behind)) = rest.split_first() {
                let (byte, taken) = match (first, behind) {
                    (b'\\', [b'\\', ..]) => (b'\\', 2),
                    (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                        ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), 4)
                    }
                    (b'\\', _) => {
                        let message = "invalid input syntax for type bytea";
                        return Err(SqlError::new(code::INVALID_TEXT, message));
                    }
                    (byte, _) => (*byte, 1),
                };
                bytes.push(byte);
                rest = &rest[taken..];
            }
            bytes
        }
        _ => return Err(unknown_form(form)),
    }))
}

/// A format specifier of `format`: `%[position$][-][width]kind`.
struct Specifier {
    place: Option<usize>,
    is_left: bool,
    width: Option<Width>,
    kind: char,
}

enum Width {
    Chars(usize),
    /// The value of the next argument, or of the one with this number.
    Of(Option<usize>),
}

fn formatted(pattern: &str, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let mut written = String::new();
    let (mut rest, mut next) = (pattern, 0);
    while let Some(at) = rest.find('%') {
        budget.charge(2 * at + 1)?;
        written.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            written.push('%');
            rest = behind;
            continue;
        }
        let specifier = Specifier::read(&mut rest)?;
        let width = match specifier.width {
            None => 0,
            Some(Width::Chars(chars)) => chars as i64,
            Some(Width::Of(place)) => {
                let width = argument(args, place, &mut next)?;
                let number = width.as_text().map_or(Some(0), |text| text.parse::<i32>().ok());
                let invalid = || {
                    let message = "a width of format is an integer";
                    SqlError::new(code::INVALID_TEXT, message)
                };
                number.ok_or_else(invalid)?.into()
            }
        };
        let value = argument(args, specifier.place, &mut next)?;
        let shown = shown(value, specifier.kind, budget)?;
        let is_left = specifier.is_left || width < 0;
        let width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        let blanks = width.saturating_sub(shown.chars().count());
        budget.charge(2 * (shown.len() + blanks))?;
        if !is_left {
            written.extend(std::iter::repeat_n(' ', blanks));
        }
        written.push_str(&shown);
        if is_left {
            written.extend(std::iter::repeat_n(' ', blanks));
        }
    }
    budget.charge(2 * rest.len())?;
    written.push_str(rest);
    Ok(Datum::Text(written))
}

/// The argument at a position, or the next one; after an explicit position, counting continues from
/// there.
fn argument<'d>(
    args: &'d [Datum],
    place: Option<usize>,
    next: &mut usize,
) -> Result<&'d Datum, SqlError> {
    let at = place.map_or(*next, |place| place - 1);
    *next = at + 1;
    args.get(at)
        .ok_or_else(|| SqlError::new(code::INVALID_PARAMETER, "too few arguments for format()"))
}

fn shown(value: &Datum, kind: char, budget: &Budget) -> Result<String, SqlError> {
    match (value.as_text(), kind) {
        (None, 'I') => {
            Err(SqlError::new("22004", "null values cannot be formatted as an SQL identifier"))
        }
        (None, 'L') => Ok("NULL".to_owned()),
        (None, _) => Ok(String::new()),
        (Some(text), 'I') => {
            budget.charge(2 * text.len() + 2)?;
            Ok(quoted(text))
        }
        (Some(text), 'L') => literal(text, budget),
        (Some(text), _) => {
            budget.charge(text.len())?;
            Ok(text.to_owned())
        }
    }
}

impl Specifier {
    fn read(rest: &mut &str) -> Result<Specifier, SqlError> {
        let place = place(rest)?;
        let behind = rest.trim_start_matches('-');
        let is_left = behind.len() < rest.len();
        *rest = behind;
        let width = match rest.strip_prefix('*') {
            Some(behind) => {
                *rest = behind;
                Some(Width::Of(self::place(rest)?))
            }
            None => number(rest)?.map(Width::Chars),
        };
        let mut chars = rest.chars();
        let kind = chars.next().ok_or_else(|| {
            SqlError::new(code::INVALID_PARAMETER, "unterminated format() type specifier")
                .hint("For a single \"%\" use \"%%\".")
        })?;
        *rest = chars.as_str();
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(SqlError::new(code::INVALID_PARAMETER, message)
                .hint("For a single \"%\" use \"%%\"."));
        }
        Ok(Specifier { place, is_left, width, kind })
    }
}

/// Reads `3$`, if it is there.
fn place(rest: &mut &str) -> Result<Option<usize>, SqlError> {
    let mut behind = *rest;
    let Some(place) = number(&mut behind)? else { return Ok(None) };
    let Some(behind) = behind.strip_prefix('$') else { return Ok(None) };
    if place == 0 {
        let message = "format specifies argument 0, but arguments are numbered from 1";
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    *rest = behind;
    Ok(Some(place))
}

/// Reads digits, if there are some.
fn number(rest: &mut &str) -> Result<Option<usize>, SqlError> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(end);
    if digits.is_empty() {
        return Ok(None);
    }
    *rest = behind;
    let number = digits.parse::<i32>().ok().map(|number| number as usize);
    let out = || SqlError::new(code::OUT_OF_RANGE, "number is out of range");
    number.map(Some).ok_or_else(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_each_form_and_back() {
        let budget = Budget::unlimited();
        let bytes: Vec<u8> = (0..=255).collect();
        for form in ["hex", "base64", "escape"] {
            let Ok(Datum::Text(text)) = encoded(&bytes, form, &budget) else { panic!("{form}") };
            assert_eq!(decoded(&text, form, &budget), Ok(Datum::Bytes(bytes.clone())), "{form}");
        }
    }
}
