//! Functions of texts. Positions count characters, not bytes; what would become very long is an error.

use crate::datum::Datum;
use crate::error::{SqlError, code};

pub(super) fn substring(text: &str, from: i64, length: Option<i64>) -> Result<Datum, SqlError> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let end = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let start = from.max(1);
    let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    let skip = usize::try_from(start - 1).unwrap_or(usize::MAX);
    Ok(Datum::Text(text.chars().skip(skip).take(count).collect()))
}

/// The first (or last) characters; with a negative count, all but so many.
pub(super) fn take(text: &str, count: i64, from_end: bool) -> String {
    let length = text.chars().count() as i64;
    let count = if count < 0 { (length + count).max(0) } else { count.min(length) };
    let skip = if from_end { length - count } else { 0 };
    text.chars().skip(skip as usize).take(count as usize).collect()
}

const TEXT_BYTES_MAX: usize = 64 << 20;

fn too_long() -> SqlError {
    SqlError::new(code::PROGRAM_LIMIT, "requested length too large: a text has at most 64 MB")
}

pub(super) fn repeat(text: &str, count: i64) -> Result<Datum, SqlError> {
    let count = usize::try_from(count).unwrap_or(0);
    match text.len().checked_mul(count) {
        Some(bytes) if bytes <= TEXT_BYTES_MAX => Ok(Datum::Text(text.repeat(count))),
        _ => Err(too_long()),
    }
}

pub(super) fn pad(text: &str, length: i64, with: &str, left: bool) -> Result<Datum, SqlError> {
    let length = usize::try_from(length).unwrap_or(0);
    if length > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    let have = text.chars().count();
    let cut: String = text.chars().take(length).collect();
    let fill: String = with
        .chars()
        .cycle()
        .take(if with.is_empty() { 0 } else { length.saturating_sub(have) })
        .collect();
    Ok(Datum::Text(if left { format!("{fill}{cut}") } else { format!("{cut}{fill}") }))
}
