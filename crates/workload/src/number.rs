//! The number at the front of every row: a counter, or an amount in cents.
//!
//! It is the first column after the key, an `int64` of a schema without NULLs. It therefore
//! occupies the first eight bytes of the row, little-endian, and can be changed in place.

const BYTES: usize = size_of::<i64>();

/// Returns the number of a row, or `None` if the row is too short.
pub(crate) fn number(row: &[u8]) -> Option<i64> {
    row.first_chunk::<BYTES>().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Adds to the number of a row. Returns `false` if the row is too short or the sum overflows.
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
