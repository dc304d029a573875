//! Arrays, as drivers use them: `id = ANY ($1)`, `ARRAY (SELECT ..)`, columns of the catalog.
//!
//! ```text
//!   {3,NULL,"a \"b\", c"}      an array: elements between commas, counted from 1
//!   [0:1]={3,4}                an array whose elements are counted from another number
//!   {{1,2},{3,4}}              an array of two dimensions, see the module of shapes
//!   3 5 7                      a vector in the catalog: between blanks, counted from 0
//! ```
//!
//! An array is stored as this text, in memory and in the store. Each array has one canonical text;
//! element access parses it once per row. Comparisons parse both sides, element by element
//! (`functions/arrays.rs`). Left out: the order of arrays in ORDER BY, keys and indexes.

mod shape;

use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::types::SqlType;
use shape::Nesting;
pub(crate) use shape::{
    DIMENSIONS_MAX, Shape, concatenated, is_nested, nested, put, shape, sliced,
};
use std::borrow::Cow;

/// The blanks that may surround elements and signs; they are part of no element.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// The elements of an array or a vector, one after the other, in all dimensions.
///
/// An element is an error if the text is malformed: 22P02.
pub(crate) fn elements(text: &str) -> Elements<'_> {
    let body = behind_bounds(text).trim_start_matches(BLANKS);
    match body.strip_prefix('{') {
        Some(rest) => Elements { text, rest, form: Form::First, nesting: Nesting::begun() },
        None => Elements { text, rest: body, form: Form::Vector, nesting: Nesting::begun() },
    }
}

/// The part of an array after its explicit bounds.
fn behind_bounds(text: &str) -> &str {
    match text.trim_start_matches(BLANKS) {
        bounded if bounded.starts_with('[') => bounded.split_once('=').map_or("", |both| both.1),
        plain => plain,
    }
}

/// The bounds of each dimension that the text states before its elements.
///
/// # Errors
/// 22P02 and 2202E for a malformed array of a client, 54000 for too many dimensions.
pub(crate) fn bounds(text: &str) -> Result<Vec<(i64, i64)>, SqlError> {
    const MISSING: &str = "Array value must start with \"{\" or dimension information.";
    let mut rest = text.trim_start_matches(BLANKS);
    let mut found = Vec::new();
    if rest.starts_with('{') {
        return Ok(found);
    }
    while let Some(inside) = rest.strip_prefix('[') {
        let (inside, behind) = inside
            .split_once(']')
            .ok_or_else(|| malformed(text, "Missing \"]\" after array dimensions."))?;
        rest = behind.trim_start_matches(BLANKS);
        let number = |digits: &str| {
            let wrong =
                || malformed(text, "\"[\" must introduce explicitly-specified array dimensions.");
            digits.trim_matches(BLANKS).parse::<i32>().map(i64::from).map_err(|_| wrong())
        };
        let (first, last) = match inside.split_once(':') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (1, number(inside)?),
        };
        if last < first {
            return Err(SqlError::new("2202E", "upper bound cannot be less than lower bound"));
        }
        if found.len() == DIMENSIONS_MAX {
            return Err(shape::too_many(DIMENSIONS_MAX + 1));
        }
        found.push((first, last));
    }
    if found.is_empty() {
        return Err(malformed(text, MISSING));
    }
    let is_begun =
        rest.strip_prefix('=').is_some_and(|rest| rest.trim_start_matches(BLANKS).starts_with('{'));
    if !is_begun {
        let what = match rest.starts_with('=') {
            true => "Array contents must start with \"{\".",
            false => "Missing \"=\" after array dimensions.",
        };
        return Err(malformed(text, what));
    }
    Ok(found)
}

/// 22P02: the text is no array.
pub(crate) fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed array literal: \"{}\"", clipped(text));
    SqlError::new(code::INVALID_TEXT, message).detail(detail)
}

/// The elements of two arrays of one dimension, counted from `first`.
pub(crate) fn joined(a: &str, b: &str, first: i64) -> String {
    let inside = |text: &str| {
        let text = behind_bounds(text);
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).to_owned()
    };
    match [inside(a), inside(b)] {
        [a, _] if a.is_empty() => b.to_owned(),
        [_, b] if b.is_empty() => a.to_owned(),
        [a, b] => counted_from(first, format!("{{{a},{b}}}")),
    }
}

/// An array whose elements are counted from `first`.
fn counted_from(first: i64, text: String) -> String {
    let count = if first == 1 { 0 } else { elements(&text).count() as i64 };
    match count {
        0 => text,
        count => format!("[{first}:{}]={text}", first + count - 1),
    }
}

/// See [`elements`].
pub(crate) struct Elements<'t> {
    text: &'t str,
    rest: &'t str,
    form: Form,
    nesting: Nesting,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// After an opening brace.
    First,
    /// After a comma.
    Next,
    /// After an element, or a part in braces.
    Behind,
    /// Between blanks.
    Vector,
    /// After the closing brace, or after an error.
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
            Form::First | Form::Next | Form::Behind => {
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
    fn wrong(&self, detail: &str) -> SqlError {
        malformed(self.text, detail)
    }

    fn too_short(&self) -> SqlError {
        self.wrong("Unexpected end of input.")
    }

    /// The next element; the outer `None` means that there are no more.
    fn element(&mut self) -> Result<Option<Option<Cow<'t, str>>>, SqlError> {
        loop {
            self.rest = self.rest.trim_start_matches(BLANKS);
            let first = self.rest.chars().next().ok_or_else(|| self.too_short())?;
            match (self.form, first) {
                (Form::First | Form::Behind, '}') => {
                    self.rest = self.rest[1..].trim_start_matches(BLANKS);
                    let is_closed = self.nesting.close().map_err(|what| self.refused(what))?;
                    self.form = Form::Behind;
                    if !is_closed {
                        continue;
                    }
                    self.form = Form::End;
                    return match self.rest.is_empty() {
                        true => Ok(None),
                        false => Err(self.wrong("Junk after closing right brace.")),
                    };
                }
                (Form::Behind, ',') => (self.rest, self.form) = (&self.rest[1..], Form::Next),
                (Form::Behind, '{') => return Err(self.wrong("Unexpected \"{\" character.")),
                (Form::Behind, _) => return Err(self.wrong("Unexpected array element.")),
                (_, '{') => {
                    self.nesting.open().map_err(|what| self.refused(what))?;
                    (self.rest, self.form) = (&self.rest[1..], Form::First);
                }
                (_, ',' | '}') => {
                    return Err(self.wrong(&format!("Unexpected \"{first}\" character.")));
                }
                (_, first) => {
                    self.nesting.element().map_err(|what| self.refused(what))?;
                    self.form = Form::Behind;
                    if first == '"' {
                        let (element, length) = self.quoted()?;
                        self.rest = &self.rest[length..];
                        return Ok(Some(Some(element)));
                    }
                    let (element, length) = self.plain()?;
                    self.rest = &self.rest[length..];
                    let is_null = matches!(&element, Cow::Borrowed(word)
                        if word.eq_ignore_ascii_case("null"));
                    return Ok(Some((!is_null).then_some(element)));
                }
            }
        }
    }

    fn refused(&self, what: shape::Wrong) -> SqlError {
        match what {
            shape::Wrong::Uneven(detail) => self.wrong(detail),
            shape::Wrong::TooDeep => shape::too_many(DIMENSIONS_MAX + 1),
        }
    }

    /// A quoted element, and its length with the quotes.
    fn quoted(&self) -> Result<(Cow<'t, str>, usize), SqlError> {
        let inside = &self.rest[1..];
        let end = inside.find(['"', '\\']).ok_or_else(|| self.too_short())?;
        if inside[end..].starts_with('"') {
            return Ok((Cow::Borrowed(&inside[..end]), end + 2));
        }
        let (mut element, mut chars) = (inside[..end].to_owned(), inside[end..].char_indices());
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Ok((Cow::Owned(element), end + at + 2)),
                '\\' => element.push(chars.next().ok_or_else(|| self.too_short())?.1),
                c => element.push(c),
            }
        }
        Err(self.too_short())
    }

    /// An unquoted element, and its length. Trailing blanks belong to it only after a backslash.
    fn plain(&self) -> Result<(Cow<'t, str>, usize), SqlError> {
        let end = self.rest.find([',', '}', '{', '"', '\\']).ok_or_else(|| self.too_short())?;
        if !self.rest[end..].starts_with(['"', '\\']) {
            return Ok((Cow::Borrowed(self.rest[..end].trim_end_matches(BLANKS)), end));
        }
        let (mut element, mut kept) = (self.rest[..end].to_owned(), 0);
        let mut chars = self.rest[end..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                ',' | '}' | '{' => {
                    let end_of_element = element.trim_end_matches(BLANKS).len().max(kept);
                    element.truncate(end_of_element);
                    return Ok((Cow::Owned(element), end + at));
                }
                '"' => return Err(self.wrong("Unexpected array element.")),
                '\\' => {
                    element.push(chars.next().ok_or_else(|| self.too_short())?.1);
                    kept = element.len();
                }
                c => element.push(c),
            }
        }
        Err(self.too_short())
    }
}

/// The most zeros that the exponents of an array's numbers may expand to, in total.
const ZEROS_MAX: usize = 1 << 20;

/// Writes an array, an element at a time.
#[derive(Default)]
pub(crate) struct Writer {
    text: String,
    /// Of an array of several dimensions.
    shape: Option<Shape>,
    count: usize,
}

impl Writer {
    /// For as many elements as an array of this shape has.
    pub(crate) fn of(shape: Shape) -> Writer {
        Writer { shape: Some(shape), ..Writer::default() }
    }

    /// For as many elements as another array has.
    pub(crate) fn like(array: &str) -> Writer {
        Writer { shape: shape(array).ok(), ..Writer::default() }
    }

    /// Appends an element.
    pub(crate) fn push(&mut self, element: Option<&str>) {
        match &self.shape {
            Some(shape) => shape.write_before(self.count, &mut self.text),
            None => self.text.push(if self.text.is_empty() { '{' } else { ',' }),
        }
        self.count += 1;
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.eq_ignore_ascii_case("null")
                && !text.contains(|c: char| BLANKS.contains(&c) || "{}\",\\".contains(c))
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

    /// Refuses an output much longer than the `read` bytes of its input: numbers with exponents are
    /// expanded.
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

    /// The array: counted from 1, or as its shape says.
    pub(crate) fn end(mut self) -> String {
        if let Some(shape) = &self.shape {
            return shape.written(self.text);
        }
        self.text.push_str(if self.text.is_empty() { "{}" } else { "}" });
        self.text
    }

    /// The array, counted from `first`.
    pub(crate) fn end_from(self, first: i64) -> String {
        counted_from(first, self.end())
    }
}

/// The array of these elements.
pub(crate) fn format<'e>(elements: impl IntoIterator<Item = Option<&'e str>>) -> String {
    let mut writer = Writer::default();
    elements.into_iter().for_each(|element| writer.push(element));
    writer.end()
}

/// The values of an array of one type. A value is an error as in [`elements`], or if it is not of
/// the type.
pub(crate) fn values(
    text: &str,
    ty: SqlType,
) -> impl Iterator<Item = Result<Datum, SqlError>> + '_ {
    elements(text).map(move |element| match element? {
        Some(text) => crate::text::parse(&text, ty),
        None => Ok(Datum::Null),
    })
}

/// The number of the first element.
pub(crate) fn first_number(text: &str) -> i64 {
    bounds(text).map_or(0, |bounds| bounds.first().map_or(1, |(first, _)| *first))
}

/// An element by its number, counted from `first`; NULL if it does not exist.
///
/// # Errors
/// As [`values`].
pub(crate) fn element(text: &str, number: i64, first: i64, ty: SqlType) -> Result<Datum, SqlError> {
    let place = usize::try_from(number.saturating_sub(first)).ok();
    let Some(at) = place.filter(|_| !is_nested(text)) else { return Ok(Datum::Null) };
    values(text, ty).nth(at).unwrap_or(Ok(Datum::Null))
}

/// Appends an array in binary form: dimensions, whether it contains NULLs, the element type, the
/// length, the first number; and each element with its length.
pub(crate) fn encode(text: &str, ty: SqlType, out: &mut Vec<u8>) {
    // The text was checked when it became an array.
    let all = || values(text, ty).map_while(Result::ok);
    let word = |value: usize| (value as i32).to_be_bytes();
    let (mut count, mut has_null) = (0, false);
    all().for_each(|value| (count, has_null) = (count + 1, has_null | value.is_null()));
    let dimensions = match (count, shape(text)) {
        (0, _) => Vec::new(),
        (_, Ok(shape)) => shape.dimensions,
        (count, Err(_)) => vec![(first_number(text), count)],
    };
    out.extend(word(dimensions.len()));
    out.extend(word(usize::from(has_null)));
    out.extend(ty.oid().to_be_bytes());
    for (first, length) in dimensions {
        out.extend(word(length));
        out.extend((first as i32).to_be_bytes());
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

/// Parses an array in binary form.
///
/// # Errors
/// 22P03 for invalid bytes, 54000 for too many dimensions.
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
    let dimensions = usize::try_from(dimensions).map_err(|_| wrong())?;
    if dimensions > DIMENSIONS_MAX {
        return Err(shape::too_many(dimensions));
    }
    let is_own = of as u32 == ty.oid();
    let of = if is_own { ty } else { SqlType::of_oid(of as u32).ok_or_else(wrong)? };
    let mut sides = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        let (length, first) = (number(take(4)?), number(take(4)?));
        sides.push((i64::from(first), usize::try_from(length).map_err(|_| wrong())?));
    }
    let lengths = sides.iter().map(|(_, length)| *length);
    let count = lengths.fold(usize::from(!sides.is_empty()), usize::saturating_mul);
    if count == 0 {
        return Ok(Writer::default().end());
    }
    let mut elements = Writer::of(Shape { dimensions: sides });
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
        for text in [
            "{}",
            "{1}",
            "{1,NULL,-7}",
            "[-1:0]={1,2}",
            "{{1,2},{3,NULL}}",
            "[0:0][2:3]={{1,2}}",
            "{{{1}},{{2}}}",
        ] {
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
    fn blanks_beside_elements_do_not_count() {
        for (text, expected) in [
            (" { a , b c } ", vec![Some("a"), Some("b c")]),
            ("{\"a\", \"b\" ,\t\" c \"\n}", vec![Some("a"), Some("b"), Some(" c ")]),
            ("{a\\ ,\\NULL, null ,\"null\"}", vec![Some("a "), Some("NULL"), None, Some("null")]),
            ("[-1:0]={a,b}", vec![Some("a"), Some("b")]),
            ("{ }", vec![]),
        ] {
            let read: Result<Vec<_>, _> = elements(text).collect();
            let read = read.expect(text);
            assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{text}");
        }
        for (text, expected) in [
            ("{}", Ok(vec![])),
            (" [0:1] = {a}", Ok(vec![(0, 1)])),
            ("[3]={a}", Ok(vec![(1, 3)])),
            ("[1:1] [2:3] = {{a}}", Ok(vec![(1, 1), (2, 3)])),
            ("", Err(code::INVALID_TEXT)),
            ("1 2", Err(code::INVALID_TEXT)),
            ("[x]={a}", Err(code::INVALID_TEXT)),
            ("[1:1]", Err(code::INVALID_TEXT)),
            ("[1:0]={a}", Err("2202E")),
            ("[1][1][1][1][1][1][1]={a}", Err(code::PROGRAM_LIMIT)),
        ] {
            assert_eq!(bounds(text).map_err(|error| error.code), expected, "{text}");
        }
    }

    #[test]
    fn invalid_arrays_are_refused() {
        for (text, expected) in [
            ("{1", code::INVALID_TEXT),
            ("{1,}", code::INVALID_TEXT),
            ("{1}2", code::INVALID_TEXT),
            ("{\"1", code::INVALID_TEXT),
            ("{,}", code::INVALID_TEXT),
            ("{1\\", code::INVALID_TEXT),
            ("{a\"b\"}", code::INVALID_TEXT),
            ("{\"a\" b}", code::INVALID_TEXT),
            ("{\"a\"\"b\"}", code::INVALID_TEXT),
            ("{{1},2}", code::INVALID_TEXT),
            ("{1,{2}}", code::INVALID_TEXT),
            ("{{1},{2,3}}", code::INVALID_TEXT),
            ("{{1}", code::INVALID_TEXT),
            ("{{1},}", code::INVALID_TEXT),
            ("{{{{{{{1}}}}}}}", code::PROGRAM_LIMIT),
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
