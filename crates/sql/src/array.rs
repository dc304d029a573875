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

/// The dimensions of arrays.
///
/// ```text
///   {{1,2},{3,4},{5,6}}            dimensions: 3 from 1, 2 from 1
///   [0:0][2:3]={{7,8}}             dimensions: 1 from 0, 2 from 2
/// ```
///
/// All parts of one dimension have the same length, so an array is the list of its elements and its
/// dimensions. An array without elements has no dimension.
mod shape {
    use super::{Writer, bounds, elements, malformed};
    use crate::error::{SqlError, code};
    use std::borrow::Cow;

    /// The most dimensions of an array.
    pub(crate) const DIMENSIONS_MAX: usize = 6;

    /// The dimensions of an array, the outermost first: the first number, and how many there are.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub(crate) struct Shape {
        pub(crate) dimensions: Vec<(i64, usize)>,
    }

    /// A fault of the braces of an array.
    pub(super) enum Wrong {
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
    pub(super) struct Nesting {
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
        pub(super) fn begun() -> Nesting {
            let (counts, lengths) = ([0; DIMENSIONS_MAX], [None; DIMENSIONS_MAX]);
            Nesting { depth: 1, counts, lengths, of_elements: None }
        }

        pub(super) fn open(&mut self) -> Result<(), Wrong> {
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

        pub(super) fn element(&mut self) -> Result<(), Wrong> {
            if *self.of_elements.get_or_insert(self.depth) != self.depth {
                return Err(Wrong::Uneven(UNEVEN));
            }
            self.counts[self.depth - 1] += 1;
            Ok(())
        }

        /// True if that was the last brace.
        pub(super) fn close(&mut self) -> Result<bool, Wrong> {
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

        /// The length of each dimension of an array that was read to its end.
        fn lengths(&self) -> Vec<usize> {
            let depth = self.of_elements.unwrap_or(0);
            self.lengths[..depth].iter().map(|length| length.unwrap_or(0)).collect()
        }
    }

    impl Shape {
        /// The number of elements.
        pub(crate) fn count(&self) -> usize {
            let lengths = self.dimensions.iter().map(|(_, length)| *length);
            lengths.fold(usize::from(!self.dimensions.is_empty()), usize::saturating_mul)
        }

        /// How many elements there are in a part of the dimension at this place.
        fn stride(&self, at: usize) -> usize {
            let inner = self.dimensions[at + 1..].iter().map(|(_, length)| *length);
            inner.fold(1, usize::saturating_mul)
        }

        /// How many dimensions end before the element at this place.
        fn ended(&self, place: usize) -> usize {
            let inner = 1..self.dimensions.len();
            inner.filter(|at| place.is_multiple_of(self.stride(at - 1).max(1))).count()
        }

        /// Writes the braces and commas before the element at this place.
        pub(super) fn write_before(&self, place: usize, text: &mut String) {
            let depth = self.dimensions.len().max(1);
            if place == 0 {
                text.extend(std::iter::repeat_n('{', depth));
                return;
            }
            let ended = self.ended(place);
            text.extend(std::iter::repeat_n('}', ended));
            text.push(',');
            text.extend(std::iter::repeat_n('{', ended));
        }

        /// The array of elements that were written with their braces.
        pub(super) fn written(&self, mut text: String) -> String {
            if text.is_empty() {
                return "{}".to_owned();
            }
            text.extend(std::iter::repeat_n('}', self.dimensions.len().max(1)));
            if self.dimensions.iter().all(|(first, _)| *first == 1) {
                return text;
            }
            format!("{}={text}", self.shown())
        }

        /// The bounds of all dimensions: `[1:2][0:3]`.
        pub(crate) fn shown(&self) -> String {
            let side =
                |(first, length): &(i64, usize)| format!("[{first}:{}]", last(*first, *length));
            self.dimensions.iter().map(side).collect()
        }

        /// The place of an element among all; `None` if it does not exist.
        fn place(&self, numbers: &[i64]) -> Option<usize> {
            if numbers.len() != self.dimensions.len() {
                return None;
            }
            let mut place = 0;
            for ((first, length), number) in self.dimensions.iter().zip(numbers) {
                let at = usize::try_from(number.checked_sub(*first)?).ok()?;
                place = place * length + Some(at).filter(|at| at < length)?;
            }
            Some(place)
        }

        /// The place of an element of a value of this shape.
        pub(crate) fn element(&self, numbers: &[i64]) -> Option<usize> {
            self.place(numbers)
        }
    }

    fn last(first: i64, length: usize) -> i64 {
        first + i64::try_from(length).unwrap_or(i64::MAX) - 1
    }

    /// True if an array has more than one dimension.
    pub(crate) fn is_nested(text: &str) -> bool {
        let body = super::behind_bounds(text).trim_start_matches(super::BLANKS);
        body.strip_prefix('{')
            .is_some_and(|rest| rest.trim_start_matches(super::BLANKS).starts_with('{'))
    }

    /// The dimensions of an array or a vector.
    ///
    /// # Errors
    /// 22P02, 2202E, 54000 for a malformed array.
    pub(crate) fn shape(text: &str) -> Result<Shape, SqlError> {
        let mut all = elements(text);
        let mut count = 0;
        for element in &mut all {
            element?;
            count += 1;
        }
        if all.nesting.of_elements.is_none() {
            // A vector is counted from 0.
            let dimensions = if count > 0 { vec![(0, count)] } else { Vec::new() };
            return Ok(Shape { dimensions });
        }
        let (lengths, said) = (all.nesting.lengths(), bounds(text)?);
        let fits = said.len() == lengths.len()
            && said
                .iter()
                .zip(&lengths)
                .all(|((first, end), length)| last(*first, *length) == *end);
        if !said.is_empty() && !fits {
            let what = "Specified array dimensions do not match array contents.";
            return Err(malformed(text, what));
        }
        let first = |at: usize| said.get(at).map_or(1, |(first, _)| *first);
        let side = |(at, length)| (first(at), length);
        Ok(Shape { dimensions: lengths.into_iter().enumerate().map(side).collect() })
    }

    /// All elements of an array, which was checked when it was made.
    fn all(text: &str) -> Result<Vec<Option<Cow<'_, str>>>, SqlError> {
        elements(text).collect()
    }

    fn written(shape: Shape, elements: &[Option<Cow<'_, str>>]) -> String {
        let mut written = Writer::of(shape);
        elements.iter().for_each(|element| written.push(element.as_deref()));
        written.end()
    }

    /// Two arrays one after the other, at least one of which has several dimensions. The inner
    /// dimensions must be the same; one with a dimension less is an element of the other.
    ///
    /// # Errors
    /// 2202E.
    pub(crate) fn concatenated(a: &str, b: &str) -> Result<String, SqlError> {
        let (first, second) = (shape(a)?, shape(b)?);
        if first.dimensions.is_empty() || second.dimensions.is_empty() {
            return Ok(if first.dimensions.is_empty() { b } else { a }.to_owned());
        }
        let wrong = |detail: String| {
            Err(SqlError::new("2202E", "cannot concatenate incompatible arrays").detail(detail))
        };
        let (left, right) = (first.dimensions.len(), second.dimensions.len());
        let (mut whole, more, part) = match left as i64 - right as i64 {
            0 => (first.clone(), second.dimensions[0].1, &second.dimensions[1..]),
            1 => (first.clone(), 1, &second.dimensions[..]),
            -1 => (second.clone(), 1, &first.dimensions[..]),
            _ => {
                return wrong(format!(
                    "Arrays of {left} and {right} dimensions are not compatible for concatenation."
                ));
            }
        };
        if whole.dimensions[1..] != *part {
            let what = match left == right {
                true => "element dimensions",
                false => "dimensions",
            };
            return wrong(format!(
                "Arrays with differing {what} are not compatible for concatenation."
            ));
        }
        whole.dimensions[0].1 += more;
        let mut both = all(a)?;
        both.extend(all(b)?);
        Ok(written(whole, &both))
    }

    /// The array of arrays of one shape.
    ///
    /// # Errors
    /// 2202E if the shapes differ, 54000 for too many dimensions.
    pub(crate) fn nested(parts: &[Option<&str>]) -> Result<String, SqlError> {
        let (mut inner, mut together): (Option<Shape>, Vec<Option<Cow<'_, str>>>) =
            (None, Vec::new());
        for part in parts {
            let part = part.unwrap_or("{}");
            let own = shape(part)?;
            if inner.as_ref().is_some_and(|inner| *inner != own) {
                let message =
                    "multidimensional arrays must have array expressions with matching dimensions";
                return Err(SqlError::new("2202E", message));
            }
            inner = Some(own);
            together.extend(all(part)?);
        }
        let Some(mut whole) = inner.filter(|inner| !inner.dimensions.is_empty()) else {
            return Ok("{}".to_owned());
        };
        whole.dimensions.insert(0, (1, parts.len()));
        if whole.dimensions.len() > DIMENSIONS_MAX {
            return Err(too_many(whole.dimensions.len()));
        }
        Ok(written(whole, &together))
    }

    /// The part of an array between bounds of its outer dimensions, counted from 1.
    pub(crate) fn sliced(
        text: &str,
        sides: &[(Option<i64>, Option<i64>)],
    ) -> Result<String, SqlError> {
        let whole = shape(text)?;
        if sides.len() > whole.dimensions.len() {
            return Ok("{}".to_owned());
        }
        let mut spans = Vec::with_capacity(whole.dimensions.len());
        for (at, (first, length)) in whole.dimensions.iter().enumerate() {
            let (from, to) = sides.get(at).copied().unwrap_or_default();
            let end = last(*first, *length);
            let (from, to) = (from.unwrap_or(*first).max(*first), to.unwrap_or(end).min(end));
            if to < from {
                return Ok("{}".to_owned());
            }
            spans.push(((from - first) as usize, (to - first) as usize));
        }
        let is_in = |place: usize| {
            spans.iter().enumerate().all(|(at, (from, to))| {
                let number = place / whole.stride(at) % whole.dimensions[at].1;
                (*from..=*to).contains(&number)
            })
        };
        let elements = all(text)?;
        let kept = elements.into_iter().enumerate().filter(|(place, _)| is_in(*place));
        let kept: Vec<_> = kept.map(|(_, element)| element).collect();
        let dimensions = spans.iter().map(|(from, to)| (1, to - from + 1)).collect();
        Ok(written(Shape { dimensions }, &kept))
    }

    /// An array with another element at these numbers.
    ///
    /// # Errors
    /// 2202E if there is no such element. An array without elements gets the one.
    pub(crate) fn put(text: &str, numbers: &[i64], new: Option<&str>) -> Result<String, SqlError> {
        let wrong = |message: &str| SqlError::new("2202E", message);
        let whole = shape(text)?;
        if whole.dimensions.is_empty() {
            let dimensions = numbers.iter().map(|number| (*number, 1)).collect();
            return Ok(written(Shape { dimensions }, &[new.map(Cow::Borrowed)]));
        }
        if numbers.len() != whole.dimensions.len() {
            return Err(wrong("wrong number of array subscripts"));
        }
        let place = whole.place(numbers).ok_or_else(|| wrong("array subscript out of range"))?;
        let mut elements = all(text)?;
        elements[place] = new.map(Cow::Borrowed);
        Ok(written(whole, &elements))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn arrays_of_several_dimensions_keep_their_shape() {
            let two = "{{1,2},{3,4},{5,6}}";
            let dimensions = |text: &str| shape(text).expect(text).dimensions;
            assert_eq!(dimensions(two), [(1, 3), (1, 2)]);
            assert_eq!(dimensions("[0:0][2:3]={{7,8}}"), [(0, 1), (2, 2)]);
            assert_eq!(dimensions("3 5"), [(0, 2)]);
            for text in [two, "[0:0][2:3]={{7,8}}", "{{{1},{2}},{{3},{4}}}", "{a}", "[3:3]={a}"] {
                let mut again = Writer::like(text);
                all(text).expect(text).iter().for_each(|element| again.push(element.as_deref()));
                assert_eq!(again.end(), text);
            }
            for wrong in ["[1:2][1:1]={{1,2}}", "{{},{}}", "{{},{1}}"] {
                assert!(shape(wrong).is_err(), "{wrong}");
            }
        }

        #[test]
        fn parts_are_taken_and_put_together() {
            let two = "{{1,2},{3,4},{5,6}}";
            let slice = |sides: &[(Option<i64>, Option<i64>)]| sliced(two, sides).expect("a part");
            assert_eq!(slice(&[(Some(2), None)]), "{{3,4},{5,6}}");
            assert_eq!(slice(&[(None, Some(2)), (Some(2), Some(9))]), "{{2},{4}}");
            assert_eq!(slice(&[(Some(4), Some(9))]), "{}");
            assert_eq!(slice(&[(None, None); 3]), "{}");
            assert_eq!(concatenated("{{1,2}}", "{3,4}").expect("one"), "{{1,2},{3,4}}");
            assert_eq!(concatenated("{3,4}", "{{1,2}}").expect("one"), "{{3,4},{1,2}}");
            assert_eq!(concatenated("{{1}}", "{{2},{3}}").expect("one"), "{{1},{2},{3}}");
            assert!(concatenated("{{1}}", "{{2,3}}").is_err());
            assert!(concatenated("{{{1}}}", "{1}").is_err());
            assert_eq!(nested(&[Some("{1,2}"), Some("{3,4}")]).expect("one"), "{{1,2},{3,4}}");
            assert!(nested(&[Some("{1}"), None]).is_err());
            assert_eq!(put(two, &[2, 1], Some("x")).expect("one"), "{{1,2},{x,4},{5,6}}");
            assert_eq!(put("{}", &[2, 1], Some("x")).expect("one"), "[2:2][1:1]={{x}}");
            assert!(put(two, &[4, 1], None).is_err());
            assert!(put(two, &[1], None).is_err());
            let whole = shape(two).expect("a shape");
            assert_eq!([whole.element(&[3, 2]), whole.element(&[3])], [Some(5), None]);
        }
    }
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
