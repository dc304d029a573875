//! Arrays, as drivers use them: `id = ANY ($1)`, `ARRAY (SELECT ..)`, what the catalog holds.
//!
//! ```text
//!   {3,NULL,"a \"b\", c"}      an array: elements between commas, counted from 1
//!   3 5 7                      a vector of the catalog: between blanks, counted from 0
//! ```
//!
//! An array is kept as this text, in memory and in the store: each is written in one way, and one that is looked into is
//! read once for each row. Comparisons read both, element by element (`functions/arrays.rs`). Left out: more than one
//! dimension, bounds other than 1, and their order in ORDER BY, keys and indexes.

use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::types::SqlType;
use std::borrow::Cow;

/// The elements of an array or a vector, one after the other.
///
/// Each is an error if it is none: 22P02, 0A000 for more than one dimension.
pub(crate) fn elements(text: &str) -> Elements<'_> {
    let text = text.trim();
    match text.strip_prefix('{') {
        Some(rest) => Elements { text, rest, form: Form::First },
        None => Elements { text, rest: text, form: Form::Vector },
    }
}

/// The elements of one array, and then those of another.
pub(crate) fn joined(a: &str, b: &str) -> String {
    let inside = |text: &str| {
        let text = text.trim();
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).to_owned()
    };
    match [inside(a), inside(b)] {
        [a, b] if a.is_empty() || b.is_empty() => format!("{{{a}{b}}}"),
        [a, b] => format!("{{{a},{b}}}"),
    }
}

/// See [`elements`].
pub(crate) struct Elements<'t> {
    text: &'t str,
    rest: &'t str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Behind the opening brace.
    First,
    /// Behind a comma.
    Next,
    /// Between blanks.
    Vector,
    /// Behind the closing brace, or a mistake.
    End,
}

impl<'t> Iterator for Elements<'t> {
    type Item = Result<Option<Cow<'t, str>>, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.form {
            Form::End => None,
            Form::Vector => {
                self.rest = self.rest.trim_start();
                let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
                let (element, rest) = self.rest.split_at(end);
                self.rest = rest;
                (!element.is_empty()).then_some(Ok(Some(Cow::Borrowed(element))))
            }
            Form::First | Form::Next => {
                let element = self.element();
                if element.is_err() {
                    self.form = Form::End;
                }
                element.transpose()
            }
        }
    }
}

impl<'t> Elements<'t> {
    fn wrong(&self) -> SqlError {
        let message = format!("malformed array literal: \"{}\"", clipped(self.text));
        SqlError::new(code::INVALID_TEXT, message).hint("Write it as {1,2,3}.")
    }

    /// What stands before the next comma or the closing brace; the outer none: nothing, in an array that is empty.
    fn element(&mut self) -> Result<Option<Option<Cow<'t, str>>>, SqlError> {
        let (mut element, mut is_quoted, mut in_quotes) = (String::new(), false, false);
        // As long as all characters stand for themselves, the element is a part of the text.
        let (mut is_plain, mut chars) = (true, self.rest.char_indices());
        loop {
            let (at, c) = chars.next().ok_or_else(|| self.wrong())?;
            match c {
                '\\' | '"' => {
                    if is_plain {
                        element.push_str(&self.rest[..at]);
                        is_plain = false;
                    }
                    match c {
                        '"' => (in_quotes, is_quoted) = (!in_quotes, true),
                        _ => element.push(chars.next().ok_or_else(|| self.wrong())?.1),
                    }
                }
                c if in_quotes => element.push(c),
                '{' => return Err(SqlError::unsupported("an array of several dimensions")),
                end @ (',' | '}') => {
                    let is_first = self.form == Form::First;
                    let found = match (is_plain, is_quoted) {
                        (true, _) => Cow::Borrowed(self.rest[..at].trim()),
                        (false, true) => Cow::Owned(element),
                        (false, false) => Cow::Owned(element.trim().to_owned()),
                    };
                    self.rest = &self.rest[at + 1..];
                    self.form = if end == '}' { Form::End } else { Form::Next };
                    if end == '}' && !self.rest.is_empty() {
                        return Err(self.wrong());
                    }
                    if is_quoted || !found.is_empty() {
                        let is_null = !is_quoted && found.eq_ignore_ascii_case("null");
                        return Ok(Some((!is_null).then_some(found)));
                    }
                    return if end == '}' && is_first { Ok(None) } else { Err(self.wrong()) };
                }
                c if !is_plain => element.push(c),
                _ => {}
            }
        }
    }
}

/// So many zeros the exponents of an array's numbers may stand for, all together.
const ZEROS_MAX: usize = 1 << 20;

/// Writes an array, an element at a time.
#[derive(Default)]
pub(crate) struct Writer {
    text: String,
}

impl Writer {
    /// Appends an element.
    pub(crate) fn push(&mut self, element: Option<&str>) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.eq_ignore_ascii_case("null")
                && !text.contains(|c: char| c.is_whitespace() || "{}\",\\".contains(c))
        };
        match element {
            None => self.text.push_str("NULL"),
            Some(text) if is_plain(text) => self.text.push_str(text),
            Some(text) => {
                self.text.push('"');
                for c in text.chars() {
                    if matches!(c, '\\' | '"') {
                        self.text.push('\\');
                    }
                    self.text.push(c);
                }
                self.text.push('"');
            }
        }
    }

    /// Refuses to write much more than so many bytes that are read: numbers with exponents are written out.
    ///
    /// # Errors
    /// 54000.
    pub(crate) fn check_length(&self, read: usize) -> Result<(), SqlError> {
        if self.text.len() <= 8 * read + ZEROS_MAX {
            return Ok(());
        }
        let message = format!("numbers with exponents stand for more than {ZEROS_MAX} digits");
        Err(SqlError::new(code::PROGRAM_LIMIT, message))
    }

    /// The array.
    pub(crate) fn end(mut self) -> String {
        self.text.push_str(if self.text.is_empty() { "{}" } else { "}" });
        self.text
    }
}

/// The array of these elements.
pub(crate) fn format<'e>(elements: impl IntoIterator<Item = Option<&'e str>>) -> String {
    let mut writer = Writer::default();
    elements.into_iter().for_each(|element| writer.push(element));
    writer.end()
}

/// The values of an array, all of one type. Each is an error as [`elements`] has them, or if it is no value.
pub(crate) fn values(
    text: &str,
    ty: SqlType,
) -> impl Iterator<Item = Result<Datum, SqlError>> + '_ {
    elements(text).map(move |element| match element? {
        Some(text) => crate::text::parse(&text, ty),
        None => Ok(Datum::Null),
    })
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
    let Ok(at) = usize::try_from(number.saturating_sub(first)) else { return Ok(Datum::Null) };
    values(text, ty).nth(at).unwrap_or(Ok(Datum::Null))
}

/// Appends an array as bytes: dimensions, whether there are NULLs, the type, the length, the first
/// number; and each element with its length.
pub(crate) fn encode(text: &str, ty: SqlType, out: &mut Vec<u8>) {
    // What is in an array was checked when it became one.
    let all = || values(text, ty).map_while(Result::ok);
    let word = |value: usize| (value as i32).to_be_bytes();
    let (mut count, mut has_null) = (0, false);
    all().for_each(|value| (count, has_null) = (count + 1, has_null | value.is_null()));
    out.extend(word(usize::from(count > 0)));
    out.extend(word(usize::from(has_null)));
    out.extend(ty.oid().to_be_bytes());
    if count > 0 {
        out.extend(word(count));
        out.extend((first_number(text) as i32).to_be_bytes());
    }
    for value in all() {
        if value.is_null() {
            out.extend((-1i32).to_be_bytes());
            continue;
        }
        let at = out.len();
        out.extend([0; 4]);
        crate::binary::encode(&value, ty, out);
        let length = word(out.len() - at - 4);
        out[at..at + 4].copy_from_slice(&length);
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
    let is_own = of as u32 == ty.oid();
    let of = if is_own { ty } else { SqlType::of_oid(of as u32).ok_or_else(wrong)? };
    let count = if dimensions == 1 { number(take(4)?) } else { 0 };
    if dimensions == 1 {
        take(4)?;
    }
    let mut elements = Writer::default();
    for _ in 0..count {
        let length = number(take(4)?);
        match usize::try_from(length) {
            Ok(length) => {
                let value = crate::binary::decode(take(length)?, of)?;
                elements.push(Some(&crate::text::format(&value, of)));
                elements.check_length(bytes.len())?;
            }
            Err(_) => elements.push(None),
        }
    }
    Ok(elements.end())
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
        let read: Result<Vec<_>, _> = elements(odd).collect();
        let read = read.expect("an array");
        let shown: Vec<Option<&str>> = read.iter().map(Option::as_deref).collect();
        assert_eq!(shown, ["a \"b\", c", "", "null", "plain"].map(Some));
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
            let read: Result<Vec<_>, _> = elements(text).collect();
            assert_eq!(read.unwrap_err().code, expected, "{text}");
        }
        for length in 0..40 {
            for fill in [0, 1, 0xff] {
                let _ = decode(&vec![fill; length], SqlType::Int4);
            }
        }
    }
}
