//! Functions of arrays, which are texts that are parsed one element at a time.
//!
//! An element argument is a text in array notation, too; if elements are compared, the oid of their
//! type is the last argument.

use crate::array::{self, Writer};
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A function of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum ArrayFunc {
    Append,
    Prepend,
    Position,
    Positions,
    Remove,
    Replace,
    Contains,
    Overlap,
    /// A number less than, equal to or greater than 0.
    Order,
    /// The least or the greatest of arrays that are not NULL.
    Extreme {
        is_least: bool,
    },
    Lower,
    Upper,
    Count,
    Dimensions,
    Shown,
    Slice,
    Trim,
    /// Replaces an element, by its number.
    Put,
    /// Replaces a slice of elements.
    PutSlice,
    /// The bound of an assigned slice, which must not be NULL.
    Bound,
    /// An array of arrays.
    Nest,
    /// An element, by its number in each dimension.
    At,
    /// A slice, by bounds of several dimensions.
    Slices,
    /// Replaces an element, by its number in each dimension.
    PutAt,
    /// `array_fill`: an element, the lengths, and the first numbers.
    Fill,
    /// A text fits any or all of the patterns of the array.
    Fits(EachPattern),
    /// `string_to_array`: a text, the delimiter, and the text that stands for NULL.
    Split,
}

/// The test of a text with each pattern of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EachPattern {
    /// A regular expression, not a pattern of LIKE.
    pub is_regex: bool,
    /// It ignores case.
    pub folds: bool,
    /// The text must not fit.
    pub negated: bool,
    /// ALL, not ANY.
    pub all: bool,
}

impl EachPattern {
    /// Its operator.
    pub(crate) fn sign(self) -> &'static str {
        match (self.is_regex, self.folds, self.negated) {
            (false, false, false) => "~~",
            (false, true, false) => "~~*",
            (false, false, true) => "!~~",
            (false, true, true) => "!~~*",
            (true, false, false) => "~",
            (true, true, false) => "~*",
            (true, false, true) => "!~",
            (true, true, true) => "!~*",
        }
    }

    /// Whether a text fits; NULL if that depends on unknown values.
    fn holds(self, array: &str, text: Option<&str>, budget: &Budget) -> Result<Datum, SqlError> {
        let mut is_unknown = false;
        for pattern in array::elements(array) {
            let pattern = pattern?;
            let (Some(text), Some(pattern)) = (text, pattern.as_deref()) else {
                is_unknown = true;
                continue;
            };
            let fits = match self.is_regex {
                true => crate::regex::matches(text, pattern, self.folds, budget)?,
                false => crate::pattern::like(text, pattern, self.folds, budget)?,
            };
            if (fits != self.negated) != self.all {
                return Ok(Datum::Bool(!self.all));
            }
        }
        Ok(if is_unknown { Datum::Null } else { Datum::Bool(self.all) })
    }
}

/// True if the function can have a result although an argument is NULL.
pub(super) fn takes_null(func: ArrayFunc) -> bool {
    use ArrayFunc::*;
    matches!(
        func,
        Append
            | Prepend
            | Position
            | Positions
            | Remove
            | Replace
            | Slice
            | Split
            | Put
            | PutSlice
            | Bound
            | Nest
            | Slices
            | PutAt
            | Fill
            | Fits(_)
            | Extreme { .. }
    )
}

/// Calls a function.
///
/// # Errors
/// 22P02 for a malformed array, 2202E and others, depending on the function.
pub(super) fn call(func: ArrayFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    use ArrayFunc::*;
    let text = |at: usize| args.get(at).and_then(Datum::as_text);
    let bytes = |value: &Datum| 2 * value.heap_bytes() + 8;
    budget.charge(2 * args.iter().map(bytes).sum::<usize>())?;
    budget.tick(args[0].heap_bytes() / 16)?;
    let ty = || {
        let number = args.last().and_then(Datum::as_int);
        number.and_then(SqlType::numbered).unwrap_or(SqlType::Text)
    };
    match func {
        Bound if args[0].is_null() => return Err(no_number()),
        Bound => return Ok(args[0].clone()),
        Extreme { is_least } => {
            let arrays = args.len().saturating_sub(1);
            return extreme(&args[..arrays], is_least, ty());
        }
        Nest => {
            let parts: Vec<Option<&str>> = args.iter().map(Datum::as_text).collect();
            return array::nested(&parts).map(Datum::Text);
        }
        PutAt => {
            let numbers = args[2..].iter().map(|number| number.as_int().ok_or_else(no_number));
            let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
            return array::put(text(0).unwrap_or("{}"), &numbers, text(1)).map(Datum::Text);
        }
        Fill => return fill(text(0), text(1), args.get(2).map(Datum::as_text), budget),
        Put | PutSlice if text(0).is_some_and(array::is_nested) => {
            return Err(SqlError::new("2202E", "wrong number of array subscripts"));
        }
        Put => {
            let number = args[1].as_int().ok_or_else(no_number)?;
            return put(
                text(0),
                (Some(number), Some(number)),
                &[text(2).map(Cow::Borrowed)],
                budget,
            );
        }
        // Assigning NULL to a slice changes nothing.
        PutSlice if args[3].is_null() => return Ok(args[0].clone()),
        PutSlice => {
            let new = array::elements(text(3).unwrap_or("{}")).collect::<Result<Vec<_>, _>>()?;
            return put(text(0), (args[1].as_int(), args[2].as_int()), &new, budget);
        }
        _ => {}
    }
    let Some(array) = text(0) else {
        return Ok(match func {
            // An element added to NULL makes an array of one element.
            Append | Prepend => Datum::Text(array::format([text(1)])),
            _ => Datum::Null,
        });
    };
    let is_nested = array::is_nested(array);
    if is_nested {
        refuse_nested(func)?;
    }
    Ok(match func {
        At => {
            let numbers = args[1..args.len() - 1].iter().map(|number| number.as_int().unwrap_or(0));
            let numbers: Vec<i64> = numbers.collect();
            let place = array::shape(array)?.element(&numbers);
            let found = place.and_then(|place| array::values(array, ty()).nth(place));
            found.unwrap_or(Ok(Datum::Null))?
        }
        Slices => {
            let sides = args[1..].chunks(2).map(|side| (side[0].as_int(), side[1].as_int()));
            Datum::Text(array::sliced(array, &sides.collect::<Vec<_>>())?)
        }
        Slice if is_nested => {
            Datum::Text(array::sliced(array, &[(args[1].as_int(), args[2].as_int())])?)
        }
        Append | Prepend => {
            let (new, first) = (array::format([text(1)]), array::first_number(array));
            Datum::Text(match func {
                Append => array::joined(array, &new, first),
                _ => array::joined(&new, array, first),
            })
        }
        Position | Positions => {
            let wanted = one(text(1), ty())?;
            let from = args.get(2).filter(|_| args.len() > 3).and_then(Datum::as_int);
            let mut found = Vec::new();
            for (at, value) in array::values(array, ty()).enumerate() {
                let number = at as i64 + array::first_number(array);
                if value? == wanted && from.is_none_or(|from| number >= from) {
                    if func == Position {
                        return Ok(Datum::Int(number));
                    }
                    found.push(number.to_string());
                }
            }
            match func {
                Position => Datum::Null,
                _ => Datum::Text(array::format(found.iter().map(|at| Some(at.as_str())))),
            }
        }
        Remove | Replace => {
            let wanted = one(text(1), ty())?;
            let mut left = match func {
                Replace => Writer::like(array),
                _ => Writer::default(),
            };
            for (element, value) in array::elements(array).zip(array::values(array, ty())) {
                let (element, is_wanted) = (element?, value? == wanted);
                match func {
                    Replace if is_wanted => left.push(text(2)),
                    Remove if is_wanted => {}
                    _ => left.push(element.as_deref()),
                }
            }
            Datum::Text(match func {
                Replace => left.end(),
                _ => left.end_from(array::first_number(array)),
            })
        }
        Contains | Overlap => {
            let (whole, part) = (all(array, ty())?, all(text(1).unwrap_or("{}"), ty())?);
            budget.tick(whole.len() * part.len())?;
            let is_there = |value: &Datum| !value.is_null() && whole.contains(value);
            Datum::Bool(match func {
                Contains => part.iter().all(is_there),
                _ => part.iter().any(is_there),
            })
        }
        Order => Datum::Int(match order(array, text(1).unwrap_or("{}"), ty())? {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        Lower | Upper | Count | Dimensions | Shown => {
            let shape = array::shape(array)?;
            let number = args.get(1).and_then(Datum::as_int).unwrap_or(0);
            let side = usize::try_from(number - 1).ok().and_then(|at| shape.dimensions.get(at));
            let side = side.map(|(first, count)| (*first, *count as i64));
            match (func, side) {
                _ if shape.dimensions.is_empty() => Datum::Null,
                (Dimensions, _) => Datum::Int(shape.dimensions.len() as i64),
                (Shown, _) => Datum::Text(shape.shown()),
                (_, None) => Datum::Null,
                (Lower, Some((first, _))) => Datum::Int(first),
                (Upper, Some((first, count))) => Datum::Int(first + count - 1),
                (_, Some((_, count))) => Datum::Int(count),
            }
        }
        Slice => {
            let bound = |at: usize, default: i64| args[at].as_int().unwrap_or(default);
            let (from, to) = (bound(1, i64::MIN), bound(2, i64::MAX));
            let mut left = Writer::default();
            for (at, element) in array::elements(array).enumerate() {
                let (number, element) = (at as i64 + array::first_number(array), element?);
                if (from..=to).contains(&number) {
                    left.push(element.as_deref());
                }
            }
            Datum::Text(left.end())
        }
        Fits(each) => each.holds(array, text(1), budget)?,
        Put | PutSlice | PutAt | Bound | Nest | Fill | Extreme { .. } => {
            unreachable!("they were looked at before")
        }
        Trim => {
            let gone = args[1].as_int().unwrap_or(0);
            let shape = array::shape(array)?;
            let count = shape.dimensions.first().map_or(0, |(_, count)| *count as i64);
            if !(0..=count).contains(&gone) {
                let message = format!("number of elements to trim must be between 0 and {count}");
                return Err(SqlError::new("2202E", message));
            }
            let first = shape.dimensions.first().map_or(1, |(first, _)| *first);
            Datum::Text(array::sliced(array, &[(None, Some(first + count - gone - 1))])?)
        }
        Split => {
            let mut parts = Writer::default();
            let null = text(2);
            let mut push = |part: &str| parts.push((null != Some(part)).then_some(part));
            match text(1) {
                _ if array.is_empty() => {}
                None => array.chars().for_each(|sign| push(sign.encode_utf8(&mut [0; 4]))),
                Some("") => push(array),
                Some(between) => array.split(between).for_each(push),
            }
            Datum::Text(parts.end())
        }
    })
}

/// Compares two arrays of values of a type: element by element, then by their number and shape.
///
/// # Errors
/// 22P02 for a malformed array.
pub(crate) fn order(a: &str, b: &str, element: SqlType) -> Result<Ordering, SqlError> {
    let values = (all(a, element)?, all(b, element)?);
    let mut pairs = values.0.iter().zip(&values.1).map(|(a, b)| a.order(b));
    let first = pairs.find(|order| order.is_ne());
    let shapes = || {
        let (Ok(a), Ok(b)) = (array::shape(a), array::shape(b)) else { return Ordering::Equal };
        let count = a.dimensions.len().cmp(&b.dimensions.len());
        count.then_with(|| a.dimensions.cmp(&b.dimensions))
    };
    Ok(first.unwrap_or_else(|| values.0.len().cmp(&values.1.len()).then_with(shapes)))
}

/// The least or the greatest of arrays; NULL if all of them are.
fn extreme(arrays: &[Datum], is_least: bool, element: SqlType) -> Result<Datum, SqlError> {
    let mut best: Option<&str> = None;
    for array in arrays.iter().filter_map(Datum::as_text) {
        let is_better = match best {
            None => true,
            Some(best) if is_least => order(array, best, element)?.is_lt(),
            Some(best) => order(array, best, element)?.is_gt(),
        };
        best = if is_better { Some(array) } else { best };
    }
    Ok(best.map_or(Datum::Null, Datum::text))
}

/// Refuses what PostgreSQL does not do with arrays of several dimensions.
fn refuse_nested(func: ArrayFunc) -> Result<(), SqlError> {
    let message = match func {
        ArrayFunc::Position | ArrayFunc::Positions => {
            "searching for elements in multidimensional arrays is not supported"
        }
        ArrayFunc::Remove => "removing elements from multidimensional arrays is not supported",
        ArrayFunc::Append | ArrayFunc::Prepend => {
            return Err(SqlError::new("22000", "argument must be empty or one-dimensional array"));
        }
        _ => return Ok(()),
    };
    Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
}

/// An array of these lengths, all of whose elements are one value.
fn fill(
    element: Option<&str>,
    lengths: Option<&str>,
    firsts: Option<Option<&str>>,
    budget: &Budget,
) -> Result<Datum, SqlError> {
    let null = || SqlError::new("22004", "dimension array or low bound array cannot be null");
    let numbers = |text: &str| {
        let number = |value: Result<Datum, SqlError>| {
            value?.as_int().ok_or_else(|| SqlError::new("22004", "dimension values cannot be null"))
        };
        array::values(text, SqlType::Int4).map(number).collect::<Result<Vec<_>, SqlError>>()
    };
    let lengths = numbers(lengths.ok_or_else(null)?)?;
    let firsts = match firsts {
        None => vec![1; lengths.len()],
        Some(firsts) => numbers(firsts.ok_or_else(null)?)?,
    };
    if firsts.len() != lengths.len() {
        let error = SqlError::new("2202E", "wrong number of array subscripts");
        return Err(error.detail("Low bound array has different size than dimensions array."));
    }
    if lengths.len() > array::DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({}) exceeds the maximum allowed ({})",
            lengths.len(),
            array::DIMENSIONS_MAX
        );
        return Err(SqlError::new(code::PROGRAM_LIMIT, message));
    }
    let length = |length: &i64| {
        usize::try_from(*length).map_err(|_| {
            SqlError::new(code::PROGRAM_LIMIT, "array size exceeds the maximum allowed")
        })
    };
    let lengths = lengths.iter().map(length).collect::<Result<Vec<_>, _>>()?;
    let shape = array::Shape { dimensions: firsts.into_iter().zip(lengths).collect() };
    let count = shape.count();
    budget.charge(count.saturating_mul(2 * element.map_or(4, str::len) + 4))?;
    let mut filled = Writer::of(shape);
    (0..count).for_each(|_| filled.push(element));
    Ok(Datum::Text(filled.end()))
}

fn no_number() -> SqlError {
    SqlError::new("22004", "array subscript in assignment must not be null")
}

/// Replaces the elements from one number to another; gaps become NULL.
fn put(
    array: Option<&str>,
    (from, to): (Option<i64>, Option<i64>),
    new: &[Option<Cow<'_, str>>],
    budget: &Budget,
) -> Result<Datum, SqlError> {
    let wrong = |message: &str| SqlError::new("2202E", message);
    let mut all = array::elements(array.unwrap_or("{}")).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() && (from.is_none() || to.is_none()) {
        let detail = "When assigning to a slice of an empty array value, slice boundaries must be \
                      fully specified.";
        return Err(wrong("array slice subscript must provide both boundaries").detail(detail));
    }
    let mut first =
        array.filter(|_| !all.is_empty()).map_or(from.unwrap_or(1), array::first_number);
    let end = first + all.len() as i64;
    let (from, to) = (from.unwrap_or(first), to.unwrap_or(end - 1));
    if to < from {
        return Err(wrong("upper bound cannot be less than lower bound"));
    }
    if (new.len() as i64) < to - from + 1 {
        return Err(wrong("source array too small"));
    }
    let (before, behind) = ((first - from).max(0) as usize, (to + 1 - end).max(0) as usize);
    let more = before.saturating_add(behind);
    budget.charge(more.saturating_mul(size_of::<Option<Cow<'_, str>>>() + 10))?;
    all.splice(..0, std::iter::repeat_n(None, before));
    all.resize(all.len() + behind, None);
    first = first.min(from);
    let (at, count) = ((from - first) as usize, (to - from + 1) as usize);
    all[at..at + count].clone_from_slice(&new[..count]);
    let mut written = Writer::default();
    all.iter().for_each(|element| written.push(element.as_deref()));
    Ok(Datum::Text(written.end_from(first)))
}

/// The value of an element from its text.
fn one(text: Option<&str>, ty: SqlType) -> Result<Datum, SqlError> {
    text.map_or(Ok(Datum::Null), |text| crate::text::parse(text, ty))
}

fn all(array: &str, ty: SqlType) -> Result<Vec<Datum>, SqlError> {
    array::values(array, ty).collect()
}
