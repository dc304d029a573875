//! Arrays, as drivers use them: `id = ANY ($1)`, `ARRAY (SELECT ..)`, columns of the catalog.
//!
//! ```text
//!   {3,NULL,"a \"b\", c"}      an array: elements between commas, counted from 1
//!   [0:1]={3,4}                an array whose elements are counted from another number
//!   {{1,2},{3,4}}              an array of two dimensions, see [`shape`](mod@shape)
//!   3 5 7                      a vector in the catalog: between blanks, counted from 0
//! ```
//!
//! An array is stored as this text, in memory and in the store. Each array has one canonical text;
//! element access parses it once per row. Comparisons parse both sides, element by element
//! (`functions/arrays.rs`). Left out: the order of arrays in ORDER BY, keys and indexes.

use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use read::too_many;
pub(crate) use read::{DIMENSIONS_MAX, bounds, elements, first_number, is_nested, malformed};
pub(crate) use shape::{Shape, Writer, concatenated, format, joined, nested, put, shape, sliced};

mod read;
mod shape;

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
        return Err(too_many(dimensions));
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
