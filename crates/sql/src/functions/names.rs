//! Functions that parse a text by a grammar of SQL: qualified names, Unicode escapes, sizes.
//!
//! ```text
//!   parse_ident('"S".Tab')        {S,tab}
//!   unistr('d\0061t\+000061')     data
//!   pg_size_bytes('1.5 kB')       1536
//! ```

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::numeric::Decimal;

/// True for the white space between tokens of SQL.
fn is_space(sign: char) -> bool {
    matches!(sign, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// The parts of a qualified name. `is_strict`: nothing may follow it.
///
/// # Errors
/// 22023 for an invalid name.
pub(super) fn identifiers(text: &str, is_strict: bool, budget: &Budget) -> Result<Datum, SqlError> {
    let wrong = |detail: &str| {
        let message = format!("string is not a valid identifier: \"{}\"", clipped(text));
        let error = SqlError::new(code::INVALID_PARAMETER, message);
        if detail.is_empty() { error } else { error.detail(detail) }
    };
    budget.charge(64 * text.len())?;
    let (mut rest, mut parts) = (text.trim_start_matches(is_space), Vec::<String>::new());
    loop {
        match quoted_part(rest) {
            Quoted::Unclosed => return Err(wrong("String has unclosed double quotes.")),
            Quoted::Part(part, _) if part.is_empty() => {
                return Err(wrong("Quoted identifier must not be empty."));
            }
            Quoted::Part(part, behind) => {
                parts.push(part);
                rest = behind;
            }
            Quoted::No => {
                let is_first =
                    |sign: char| sign == '_' || sign.is_ascii_alphabetic() || !sign.is_ascii();
                let goes_on = |sign: char| is_first(sign) || sign == '$' || sign.is_ascii_digit();
                if !rest.starts_with(is_first) {
                    return Err(match (rest.starts_with('.'), parts.is_empty()) {
                        (true, _) => wrong("No valid identifier before \".\"."),
                        (false, false) => wrong("No valid identifier after \".\"."),
                        (false, true) => wrong(""),
                    });
                }
                let end = rest.find(|sign: char| !goes_on(sign)).unwrap_or(rest.len());
                parts.push(rest[..end].to_ascii_lowercase());
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start_matches(is_space),
            None if rest.is_empty() || !is_strict => break,
            None => return Err(wrong("")),
        }
    }
    Ok(Datum::Text(crate::array::format(parts.iter().map(|part| Some(part.as_str())))))
}

/// The beginning of a text: an identifier in double quotes, with the rest behind it.
enum Quoted<'t> {
    No,
    Unclosed,
    Part(String, &'t str),
}

fn quoted_part(text: &str) -> Quoted<'_> {
    let Some(mut rest) = text.strip_prefix('"') else { return Quoted::No };
    let mut part = String::new();
    loop {
        let Some((before, behind)) = rest.split_once('"') else { return Quoted::Unclosed };
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(behind) => {
                part.push('"');
                rest = behind;
            }
            None => return Quoted::Part(part, behind),
        }
    }
}

/// A text with its Unicode escapes replaced: `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX`.
///
/// # Errors
/// 42601 for an invalid escape or surrogate pair, 22023 for an invalid code point.
pub(super) fn unescaped(text: &str, budget: &Budget) -> Result<String, SqlError> {
    budget.charge(text.len())?;
    let no_pair = || SqlError::new(code::SYNTAX, "invalid Unicode surrogate pair");
    let (mut out, mut high) = (String::with_capacity(text.len()), None::<u32>);
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        if at > 0 && high.is_some() {
            return Err(no_pair());
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('\\') {
            if high.is_some() {
                return Err(no_pair());
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (number, behind) = escape(rest).ok_or_else(|| {
            SqlError::new(code::SYNTAX, "invalid Unicode escape")
                .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
        })?;
        rest = behind;
        if number == 0 || number > 0x10_ffff {
            let message = format!("invalid Unicode code point: {number:04X}");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        let sign = match (high.take(), number) {
            (None, 0xd800..=0xdbff) => {
                high = Some(number);
                continue;
            }
            (Some(high), 0xdc00..=0xdfff) => 0x1_0000 + ((high & 0x3ff) << 10) + (number & 0x3ff),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(no_pair()),
            (None, number) => number,
        };
        out.push(char::from_u32(sign).ok_or_else(no_pair)?);
    }
    if high.is_some() {
        return Err(no_pair());
    }
    out.push_str(rest);
    Ok(out)
}

/// The code point of the escape at the beginning of a text, behind its backslash, and the rest.
fn escape(text: &str) -> Option<(u32, &str)> {
    let (skip, digits) = match text.as_bytes().first()? {
        b'+' => (1, 6),
        b'u' => (1, 4),
        b'U' => (1, 8),
        _ => (0, 4),
    };
    let number = text.get(skip..skip + digits)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(number, 16).ok()).flatten()?;
    Some((number, &text[skip + digits..]))
}

/// The powers of 1024 of the units of a size.
const UNITS: [(&str, u32); 6] =
    [("bytes", 0), ("kb", 1), ("mb", 2), ("gb", 3), ("tb", 4), ("pb", 5)];

/// A size with a unit as a number of bytes.
///
/// # Errors
/// 22023 for an invalid size, 22003 if it is out of range.
pub(super) fn size(text: &str) -> Result<i64, SqlError> {
    let wrong = || {
        let message = format!("invalid size: \"{}\"", clipped(text));
        SqlError::new(code::INVALID_PARAMETER, message)
    };
    let trimmed = text.trim_matches(|sign: char| is_space(sign) || sign == '\x0b');
    let (number, unit) = trimmed.split_at(number_end(trimmed).ok_or_else(wrong)?);
    let unit = unit.trim();
    let power = match unit {
        "" => 0,
        unit => {
            let lower = unit.to_ascii_lowercase();
            let found = UNITS.iter().find(|(known, _)| *known == lower).map(|(_, power)| *power);
            found.ok_or_else(|| {
                wrong()
                    .detail(format!("Invalid size unit: \"{}\".", clipped(unit)))
                    .hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".")
            })?
        }
    };
    let number = Decimal::parse(number).ok_or_else(wrong)?;
    let bytes = number.times(&Decimal::int(1 << (10 * power)))?.rescale(0)?;
    let range = || SqlError::new(code::OUT_OF_RANGE, "bigint out of range");
    bytes.to_i64().ok_or_else(range)
}

/// The end of the number at the beginning of a text: a sign, digits, a fraction, an exponent.
fn number_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = usize::from(text.starts_with(['+', '-']));
    let whole = digits(start);
    let mut end = whole;
    let mut has_digits = whole > start;
    if bytes.get(end) == Some(&b'.') {
        end = digits(whole + 1);
        has_digits |= end > whole + 1;
    }
    if !has_digits {
        return None;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1", Some(1)),
            (" 1.5 kB ", Some(1536)),
            ("-.5MB", Some(-524_288)),
            ("1e3 bytes", Some(1000)),
            ("1 eB", None),
            ("kB", None),
            ("", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
    }
}
