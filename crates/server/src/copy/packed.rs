//! COPY in the format binary.
//!
//! ```text
//!   PGCOPY\n\377\r\n\0   flags   length of header extension     the header
//!   2   4 00000007   -1                                         a row: the number of values, and
//!                                                               of each its length and its bytes
//!   -1                                                          the trailer
//! ```
//!
//! Values are as in the protocol ([`isomer_sql::binary`]); a length of -1 is NULL. Data arrive in
//! pieces of any size, so a row is parsed once it is complete.

use isomer_sql::datum::Datum;
use isomer_sql::{SqlError, SqlType, binary, code};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The flags that a reader must understand.
const CRITICAL: u32 = 0xffff_0000;

/// The result of reading a piece.
pub(super) enum Found {
    /// The piece is incomplete.
    Part,
    /// The header, and its length in bytes.
    Head(usize),
    /// A row, and its length in bytes.
    Row(Vec<Datum>, usize),
    /// The trailer.
    End,
}

/// Parses the header.
///
/// # Errors
/// 22P04 for an invalid header.
pub(super) fn head(bytes: &[u8]) -> Result<Found, SqlError> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(bad("COPY file signature not recognized"));
    }
    let Some((flags, rest)) = bytes.get(SIGNATURE.len()..).and_then(word) else {
        return Ok(Found::Part);
    };
    if flags & CRITICAL != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let Some((more, rest)) = word(rest) else { return Ok(Found::Part) };
    if more > i32::MAX as u32 {
        return Err(bad("invalid COPY file header (wrong length)"));
    }
    let all = bytes.len() - rest.len() + more as usize;
    Ok(if bytes.len() < all { Found::Part } else { Found::Head(all) })
}

/// Parses a row of values of these types.
///
/// # Errors
/// 22P04 for a wrong number of values; errors of the values' input functions.
pub(super) fn row(
    bytes: &[u8],
    types: impl ExactSizeIterator<Item = SqlType>,
) -> Result<Found, SqlError> {
    let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(Found::Part) };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Found::End);
    }
    if usize::try_from(count) != Ok(types.len()) {
        return Err(bad(&format!("row field count is {count}, expected {}", types.len())));
    }
    // Incomplete rows are not parsed twice.
    if !is_whole(rest, types.len())? {
        return Ok(Found::Part);
    }
    let mut values = Vec::with_capacity(types.len());
    for ty in types {
        let Some((length, behind)) = word(rest) else { return Ok(Found::Part) };
        rest = behind;
        values.push(match usize::try_from(length as i32) {
            Err(_) => Datum::Null,
            Ok(length) => {
                let (value, behind) = rest.split_at(length);
                rest = behind;
                binary::decode(value, ty)?
            }
        });
    }
    Ok(Found::Row(values, bytes.len() - rest.len()))
}

/// True if `count` values are complete.
fn is_whole(mut bytes: &[u8], count: usize) -> Result<bool, SqlError> {
    for _ in 0..count {
        let Some((length, rest)) = word(bytes) else { return Ok(false) };
        bytes = match length as i32 {
            -1 => rest,
            length => {
                let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
                let Some(rest) = rest.get(length..) else { return Ok(false) };
                rest
            }
        };
    }
    Ok(true)
}

/// Appends the header.
pub(super) fn put_head(body: &mut Vec<u8>) {
    body.extend(SIGNATURE);
    body.extend([0; 8]);
}

/// Appends a row.
pub(super) fn put_row(types: &[SqlType], values: &[Datum], body: &mut Vec<u8>) {
    body.extend((types.len() as i16).to_be_bytes());
    for (value, ty) in values.iter().zip(types) {
        let at = body.len();
        if value.is_null() {
            body.extend((-1i32).to_be_bytes());
            continue;
        }
        body.extend([0; 4]);
        binary::encode(value, *ty, body);
        let length = (body.len() - at - 4) as i32;
        body[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends the trailer.
pub(super) fn put_end(body: &mut Vec<u8>) {
    body.extend((-1i16).to_be_bytes());
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*word), rest))
}

fn bad(message: &str) -> SqlError {
    SqlError::new(code::BAD_COPY, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_input_is_read_once_it_is_complete() {
        let types = [SqlType::Int4, SqlType::Text];
        let values = [Datum::Int(7), Datum::Null];
        let mut bytes = Vec::new();
        put_head(&mut bytes);
        let begin = bytes.len();
        put_row(&types, &values, &mut bytes);
        let end = bytes.len();
        put_end(&mut bytes);
        for part in 0..begin {
            assert!(matches!(head(&bytes[..part]), Ok(Found::Part)), "{part}");
        }
        assert!(matches!(head(&bytes), Ok(Found::Head(size)) if size == begin));
        for part in begin..end {
            assert!(matches!(row(&bytes[begin..part], types.into_iter()), Ok(Found::Part)));
        }
        let Ok(Found::Row(found, size)) = row(&bytes[begin..], types.into_iter()) else { panic!() };
        assert_eq!((found, size), (values.to_vec(), end - begin));
        assert!(matches!(row(&bytes[end..], types.into_iter()), Ok(Found::End)));
        assert!(row(&bytes[begin..], [SqlType::Int4].into_iter()).is_err());
        assert!(row(&[0, 1, 255, 255, 255, 254], [SqlType::Int4].into_iter()).is_err());
        assert!(head(b"PGCOPY\r\n").is_err());
    }
}
