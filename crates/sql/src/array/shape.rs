//! The dimensions of arrays.
//!
//! ```text
//!   {{1,2},{3,4},{5,6}}            dimensions: 3 from 1, 2 from 1
//!   [0:0][2:3]={{7,8}}             dimensions: 1 from 0, 2 from 2
//! ```
//!
//! All parts of one dimension have the same length, so an array is the list of its elements and its
//! dimensions. An array without elements has no dimension.

use super::read::{BLANKS, DIMENSIONS_MAX, behind_bounds, bounds, elements, malformed, too_many};
use crate::error::{SqlError, code};
use std::borrow::Cow;

/// The dimensions of an array, the outermost first: the first number, and how many there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) dimensions: Vec<(i64, usize)>,
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
    fn write_before(&self, place: usize, text: &mut String) {
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
    fn written(&self, mut text: String) -> String {
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
        let side = |(first, length): &(i64, usize)| format!("[{first}:{}]", last(*first, *length));
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
    let Some(lengths) = all.lengths() else {
        // A vector is counted from 0.
        let dimensions = if count > 0 { vec![(0, count)] } else { Vec::new() };
        return Ok(Shape { dimensions });
    };
    let said = bounds(text)?;
    let fits = said.len() == lengths.len()
        && said.iter().zip(&lengths).all(|((first, end), length)| last(*first, *length) == *end);
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
    let (mut inner, mut together): (Option<Shape>, Vec<Option<Cow<'_, str>>>) = (None, Vec::new());
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
pub(crate) fn sliced(text: &str, sides: &[(Option<i64>, Option<i64>)]) -> Result<String, SqlError> {
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
