//! The text of an array, element after element.

use crate::error::{SqlError, clipped, code};
use std::borrow::Cow;

/// The most dimensions of an array.
pub(crate) const DIMENSIONS_MAX: usize = 6;

/// The blanks that may surround elements and signs; they are part of no element.
pub(super) const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

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
pub(super) fn behind_bounds(text: &str) -> &str {
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
            return Err(too_many(DIMENSIONS_MAX + 1));
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

/// True if an array has more than one dimension.
pub(crate) fn is_nested(text: &str) -> bool {
    let body = behind_bounds(text).trim_start_matches(BLANKS);
    body.strip_prefix('{').is_some_and(|rest| rest.trim_start_matches(BLANKS).starts_with('{'))
}

/// The number of the first element.
pub(crate) fn first_number(text: &str) -> i64 {
    bounds(text).map_or(0, |bounds| bounds.first().map_or(1, |(first, _)| *first))
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
    /// The length of each dimension of an array that was read to its end; `None` for a vector, and
    /// for an array without elements.
    pub(super) fn lengths(&self) -> Option<Vec<usize>> {
        let lengths = &self.nesting.lengths[..self.nesting.of_elements?];
        Some(lengths.iter().map(|length| length.unwrap_or(0)).collect())
    }

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

    fn refused(&self, what: Wrong) -> SqlError {
        match what {
            Wrong::Uneven(detail) => self.wrong(detail),
            Wrong::TooDeep => too_many(DIMENSIONS_MAX + 1),
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

/// A fault of the braces of an array.
enum Wrong {
    Uneven(&'static str),
    TooDeep,
}

const UNEVEN: &str = "Multidimensional arrays must have sub-arrays with matching dimensions.";

/// 54000: an array has too many dimensions.
pub(super) fn too_many(count: usize) -> SqlError {
    let message = format!(
        "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
    );
    SqlError::new(code::PROGRAM_LIMIT, message)
}

/// The braces of an array while it is read.
#[derive(Clone)]
struct Nesting {
    /// How many braces are open.
    depth: usize,
    /// How many parts each of them has so far.
    counts: [usize; DIMENSIONS_MAX],
    /// The length of each dimension, once it is known.
    lengths: [Option<usize>; DIMENSIONS_MAX],
    /// The depth of the elements, once there is one.
    of_elements: Option<usize>,
}

impl Nesting {
    /// After the first brace.
    fn begun() -> Nesting {
        let (counts, lengths) = ([0; DIMENSIONS_MAX], [None; DIMENSIONS_MAX]);
        Nesting { depth: 1, counts, lengths, of_elements: None }
    }

    fn open(&mut self) -> Result<(), Wrong> {
        if self.of_elements.is_some_and(|depth| depth <= self.depth) {
            return Err(Wrong::Uneven(UNEVEN));
        }
        if self.depth == DIMENSIONS_MAX {
            return Err(Wrong::TooDeep);
        }
        self.counts[self.depth] = 0;
        self.depth += 1;
        Ok(())
    }

    fn element(&mut self) -> Result<(), Wrong> {
        if *self.of_elements.get_or_insert(self.depth) != self.depth {
            return Err(Wrong::Uneven(UNEVEN));
        }
        self.counts[self.depth - 1] += 1;
        Ok(())
    }

    /// True if that was the last brace.
    fn close(&mut self) -> Result<bool, Wrong> {
        let at = self.depth - 1;
        if at > 0 && self.counts[at] == 0 {
            return Err(Wrong::Uneven("Unexpected \"}\" character."));
        }
        if *self.lengths[at].get_or_insert(self.counts[at]) != self.counts[at] {
            return Err(Wrong::Uneven(UNEVEN));
        }
        self.depth = at;
        if at > 0 {
            self.counts[at - 1] += 1;
        }
        Ok(at == 0)
    }
}
