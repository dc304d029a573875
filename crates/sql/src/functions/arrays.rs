//! Functions of arrays, which are texts that are parsed one element at a time.
//!
//! An element argument is a text in array notation, too; if elements are compared, the oid of their
//! type is the last argument.

use crate::array::{self, Writer};
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::SqlError;
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
    /// `string_to_array`: a text, the delimiter, and the text that stands for NULL.
    Split,
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
    Ok(match func {
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
            let mut left = Writer::default();
            for (element, value) in array::elements(array).zip(array::values(array, ty())) {
                let (element, is_wanted) = (element?, value? == wanted);
                match func {
                    Replace if is_wanted => left.push(text(2)),
                    Remove if is_wanted => {}
                    _ => left.push(element.as_deref()),
                }
            }
            Datum::Text(left.end_from(array::first_number(array)))
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
        Order => {
            let (a, b) = (all(array, ty())?, all(text(1).unwrap_or("{}"), ty())?);
            let mut pairs = a.iter().zip(&b).map(|(a, b)| a.order(b));
            let first = pairs.find(|order| order.is_ne());
            Datum::Int(match first.unwrap_or_else(|| a.len().cmp(&b.len())) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            })
        }
        Lower | Upper | Count | Dimensions | Shown => {
            let (first, count) =
                (array::first_number(array), array::elements(array).count() as i64);
            match func {
                _ if count == 0 => Datum::Null,
                Lower | Upper | Count if args[1].as_int() != Some(1) => Datum::Null,
                Lower => Datum::Int(first),
                Upper => Datum::Int(first + count - 1),
                Count => Datum::Int(count),
                Dimensions => Datum::Int(1),
                _ => Datum::Text(format!("[{first}:{}]", first + count - 1)),
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
        Put | PutSlice | Bound => unreachable!("they were looked at before"),
        Trim => {
            let gone = args[1].as_int().unwrap_or(0);
            let count = array::elements(array).count() as i64;
            if !(0..=count).contains(&gone) {
                let message = format!("number of elements to trim must be between 0 and {count}");
                return Err(SqlError::new("2202E", message));
            }
            let mut left = Writer::default();
            for element in array::elements(array).take((count - gone) as usize) {
                left.push(element?.as_deref());
            }
            Datum::Text(left.end())
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
