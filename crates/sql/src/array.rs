//! Arrays, as drivers use them: `id = ANY ($1)`, `ARRAY (SELECT ..)`, what the catalog holds.
//!
//! ```text
//!   {3,NULL,"a \"b\", c"}      an array: elements between commas, counted from 1
//!   3 5 7                      a vector of the catalog: between blanks, counted from 0
//! ```
//!
//! An array is kept as this text, since nothing but a parameter, a literal or the catalog has one: there
//! are no columns of arrays, and one that is looked into is read once for each row. Left out: arrays of
//! more than one dimension.

use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::types::SqlType;

/// The elements of an array or a vector.
///
/// # Errors
/// 22P02 if it is none, 0A000 for more than one dimension.
pub(crate) fn elements(text: &str) -> Result<Vec<Option<String>>, SqlError> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix('{') else {
        return Ok(text.split_whitespace().map(|element| Some(element.to_owned())).collect());
    };
    let wrong = || {
        let message = format!("malformed array literal: \"{text}\"");
        SqlError::new(code::INVALID_TEXT, message).hint("Write it as {1,2,3}.")
    };
    let mut found = Vec::new();
    let (mut element, mut is_quoted) = (String::new(), false);
    let mut signs = rest.chars();
    let mut in_quotes = false;
    loop {
        match signs.next().ok_or_else(wrong)? {
            '\\' => element.push(signs.next().ok_or_else(wrong)?),
            '"' => (in_quotes, is_quoted) = (!in_quotes, true),
            sign if in_quotes => element.push(sign),
            '{' => return Err(SqlError::unsupported("an array of several dimensions")),
            end @ (',' | '}') => {
                let plain = if is_quoted { element.as_str() } else { element.trim() };
                match plain {
                    "" if !is_quoted && end == '}' && found.is_empty() => {}
                    "" if !is_quoted => return Err(wrong()),
                    null if !is_quoted && null.eq_ignore_ascii_case("null") => found.push(None),
                    plain => found.push(Some(plain.to_owned())),
                }
                (element, is_quoted) = (String::new(), false);
                if end == '}' {
                    break;
                }
            }
            sign => element.push(sign),
        }
    }
    if signs.as_str().is_empty() { Ok(found) } else { Err(wrong()) }
}

/// The array of these elements.
pub(crate) fn format<'e>(elements: impl IntoIterator<Item = Option<&'e str>>) -> String {
    let plain = |text: &str| {
        !text.is_empty()
            && !text.eq_ignore_ascii_case("null")
            && !text.contains(|c: char| c.is_whitespace() || "{}\",\\".contains(c))
    };
    let element = |element: Option<&str>| match element {
        None => "NULL".to_owned(),
        Some(text) if plain(text) => text.to_owned(),
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let all: Vec<String> = elements.into_iter().map(element).collect();
    format!("{{{}}}", all.join(","))
}

/// The values of an array, all of one type.
///
/// # Errors
/// As [`elements`], and what is wrong with one of them.
pub(crate) fn values(text: &str, ty: SqlType) -> Result<Vec<Datum>, SqlError> {
    let value = |element: Option<String>| match element {
        Some(text) => crate::text::parse(&text, ty),
        None => Ok(Datum::Null),
    };
    elements(text)?.into_iter().map(value).collect()
}

/// The number of the first element, in subscripts.
pub(crate) fn first_number(text: &str) -> i64 {
    i64::from(text.trim_start().starts_with('{'))
}

/// An element by its number, counted from `first`; NULL if there is none.
///
/// # Errors
/// As [`values`].
pub(crate) fn element(text: &str, number: i64, first: i64, ty: SqlType) -> Result<Datum, SqlError> {
    let at = usize::try_from(number.saturating_sub(first)).ok();
    let mut values = values(text, ty)?;
    let at = at.filter(|at| *at < values.len());
    Ok(at.map_or(Datum::Null, |at| values.swap_remove(at)))
}

/// Appends an array as bytes: dimensions, whether there are NULLs, the type, the length, the first
/// number; and each element with its length.
pub(crate) fn encode(text: &str, ty: SqlType, out: &mut Vec<u8>) {
    // What is in an array was checked when it became one.
    let values = values(text, ty).unwrap_or_default();
    let word = |value: usize| (value as i32).to_be_bytes();
    let has_null = values.iter().any(Datum::is_null);
    out.extend(word(usize::from(!values.is_empty())));
    out.extend(word(usize::from(has_null)));
    out.extend(ty.oid().to_be_bytes());
    if !values.is_empty() {
        out.extend(word(values.len()));
        out.extend((first_number(text) as i32).to_be_bytes());
    }
    for value in &values {
        if value.is_null() {
            out.extend((-1i32).to_be_bytes());
            continue;
        }
        let mut bytes = Vec::new();
        crate::binary::encode(value, ty, &mut bytes);
        out.extend(word(bytes.len()));
        out.extend(bytes);
    }
}

/// Reads an array of these bytes.
///
/// # Errors
/// 22P03 if they are none, 0A000 for more than one dimension.
pub(crate) fn decode(bytes: &[u8], ty: SqlType) -> Result<String, SqlError> {
    let wrong = || {
        let message = format!("{} bytes are no array of type {ty}", bytes.len());
        SqlError::new(code::INVALID_BINARY, message)
    };
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, after) = rest.split_at_checked(count).ok_or_else(wrong)?;
        rest = after;
        Ok::<&[u8], SqlError>(taken)
    };
    let number = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("four bytes"));
    let (dimensions, _, of) = (number(take(4)?), take(4)?, number(take(4)?));
    if dimensions > 1 {
        return Err(SqlError::unsupported("an array of several dimensions"));
    }
    let of = SqlType::of_oid(of as u32).ok_or_else(wrong)?;
    let count = if dimensions == 1 { number(take(4)?) } else { 0 };
    if dimensions == 1 {
        take(4)?;
    }
    let mut elements = Vec::new();
    for _ in 0..count {
        let length = number(take(4)?);
        elements.push(match usize::try_from(length) {
            Ok(length) => {
                let value = crate::binary::decode(take(length)?, of)?;
                Some(crate::text::format(&value, of).into_owned())
            }
            Err(_) => None,
        });
    }
    Ok(format(elements.iter().map(Option::as_deref)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_as_text_and_as_bytes() {
        for text in ["{}", "{1}", "{1,NULL,-7}"] {
            let mut bytes = Vec::new();
            encode(text, SqlType::Int4, &mut bytes);
            assert_eq!(decode(&bytes, SqlType::Int4).expect("it was written"), text);
        }
        let odd = "{\"a \\\"b\\\", c\",\"\",\"null\",plain}";
        let read = elements(odd).expect("an array");
        let expected = ["a \"b\", c", "", "null", "plain"].map(|text| Some(text.to_owned()));
        assert_eq!(read, expected);
        assert_eq!(format(read.iter().map(Option::as_deref)), odd);
        let at = |text, number| element(text, number, first_number(text), SqlType::Int4);
        assert_eq!(at("{5,6}", 1).expect("one"), Datum::Int(5));
        assert_eq!(at("5 6", 1).expect("one"), Datum::Int(6));
        assert!(at("{5,6}", 3).expect("none").is_null());
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for (text, expected) in [
            ("{1", code::INVALID_TEXT),
            ("{1,}", code::INVALID_TEXT),
            ("{1}2", code::INVALID_TEXT),
            ("{\"1", code::INVALID_TEXT),
            ("{{1}}", code::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(elements(text).unwrap_err().code, expected, "{text}");
        }
        for length in 0..40 {
            for fill in [0, 1, 0xff] {
                let _ = decode(&vec![fill; length], SqlType::Int4);
            }
        }
    }
}
