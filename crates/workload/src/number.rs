//! The number at the front of every row: a counter, or cents.
//!
//! It is the first column after the key, an `int64` of a schema without NULLs; so it lies in the
//! first eight bytes of the row, little-endian, and can be changed in place.

const BYTES: usize = size_of::<i64>();

/// The number of a row; `None` if the row is too short to have one.
pub(crate) fn number(row: &[u8]) -> Option<i64> {
    row.first_chunk::<BYTES>().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Changes the number of a row; `false` if it is too short, or if the sum does not fit.
pub(crate) fn add_to_number(row: &mut [u8], delta: i64) -> bool {
    let Some(bytes) = row.first_chunk_mut::<BYTES>() else { return false };
    match i64::from_le_bytes(*bytes).checked_add(delta) {
        Some(sum) => {
            *bytes = sum.to_le_bytes();
            true
        }
        None => false,
    }
}
