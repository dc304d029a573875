//! Keys: byte strings whose order is the order of the rows.
//!
//! A primary key of several typed columns is encoded column after column, so that comparing two
//! encodings byte by byte compares the keys column by column. Integers take as many bytes as they
//! need, which keeps the common keys short:
//!
//! ```text
//!   int64          one byte 0x80 + n, then the n significant bytes, big-endian     7 → 81 07
//!                  (negative: 0x7f − n, then the n low bytes)                     −1 → 7e ff
//!   text, bytes    the bytes, 00 written as 00 ff, closed by 00 00              "a" → 61 00 00
//!   float64        8 bytes, sign flipped so that bytes order like numbers
//!   bool           00 or 01
//! ```
//!
//! This module holds the byte string itself and the integer form, which everything below the
//! schema needs; `key_code.rs` encodes the other types.

use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;

/// The longest key, in bytes, that a table accepts.
pub const KEY_BYTES_MAX: usize = 1024;

/// An encoded primary key, or a bound between keys. Keys of up to 24 bytes cost no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(SmallVec<[u8; 24]>);

impl Key {
    /// The empty key, which is less than or equal to every key.
    pub fn min() -> Key {
        Key::default()
    }

    /// A key from its encoded bytes.
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }

    /// The key of a table whose primary key is one `int64` column.
    pub fn int(value: i64) -> Key {
        Key::ints(&[value])
    }

    /// The key of a table whose primary key is several `int64` columns.
    pub fn ints(values: &[i64]) -> Key {
        let mut key = Key::default();
        for &value in values {
            put_int(value, |bytes| key.0.extend_from_slice(bytes));
        }
        key
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The least key greater than this one: a range `[key, key.successor())` holds this key alone.
    pub fn successor(&self) -> Key {
        let mut next = self.clone();
        next.0.push(0);
        next
    }

    /// Appends encoded columns.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The memory held outside the key itself, in bytes: none for keys of up to 24 bytes.
    pub fn heap_bytes(&self) -> usize {
        if self.0.spilled() { self.0.capacity() } else { 0 }
    }

    /// Reads the key as `int64` columns, if that is what it is.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        let mut rest = self.as_bytes();
        let mut values = Vec::new();
        while !rest.is_empty() {
            let (value, used) = take_int(rest)?;
            values.push(value);
            rest = &rest[used..];
        }
        Some(values)
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Integers and their tuples print as such (`7`, `3/7`), other keys as hexadecimal bytes (`x0a`). A
/// single-key bound (`successor`) prints with a trailing `+`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(values) = self.to_ints() {
            let text: Vec<String> = values.iter().map(i64::to_string).collect();
            return write!(f, "{}", text.join("/"));
        }
        if let Some((0, head)) = self.0.split_last()
            && !head.is_empty()
            && Key::from_bytes(head).to_ints().is_some()
        {
            return write!(f, "{}+", Key::from_bytes(head));
        }
        write!(f, "x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Passes the order-preserving encoding of an integer to `put`.
pub fn put_int(value: i64, mut put: impl FnMut(&[u8])) {
    let magnitude = if value < 0 { !(value as u64) } else { value as u64 };
    // For negative numbers the complement holds the same number of significant bytes as the
    // magnitude less one, which keeps -1 and 0 apart: -1 takes one byte, 0 takes none.
    let significant =
        if value < 0 { (magnitude | 1).leading_zeros() } else { magnitude.leading_zeros() };
    let count = 8 - significant as usize / 8;
    let mut bytes = [0u8; 9];
    bytes[1..].copy_from_slice(&(value as u64).to_be_bytes());
    bytes[8 - count] = if value < 0 { 0x7f - count as u8 } else { 0x80 + count as u8 };
    put(&bytes[8 - count..]);
}

/// Reads an integer from the front of `bytes`: the value and how many bytes it took.
pub fn take_int(bytes: &[u8]) -> Option<(i64, usize)> {
    let head = *bytes.first()?;
    let (negative, count) = match head {
        0x80..=0x88 => (false, usize::from(head - 0x80)),
        0x77..=0x7e => (true, usize::from(0x7f - head)),
        _ => return None,
    };
    let body = bytes.get(1..1 + count)?;
    let start = if negative { u64::MAX } else { 0 };
    let value = body.iter().fold(start, |value, &byte| value << 8 | u64::from(byte)) as i64;
    // Accept only what `put_int` writes, so that a key has one encoding.
    let mut canonical = false;
    put_int(value, |bytes_again| canonical = bytes_again == &bytes[..1 + count]);
    canonical.then_some((value, 1 + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_order_like_their_encodings_and_come_back() {
        let mut values =
            vec![i64::MIN, i64::MIN + 1, -65537, -65536, -257, -256, -255, -2, -1, 0, 1, 2];
        values.extend([127, 128, 255, 256, 257, 65535, 65536, i64::MAX - 1, i64::MAX]);
        let keys: Vec<Key> = values.iter().map(|&v| Key::int(v)).collect();
        for (pair, window) in keys.windows(2).zip(values.windows(2)) {
            assert!(pair[0] < pair[1], "{} < {}", window[0], window[1]);
        }
        for (&value, key) in values.iter().zip(&keys) {
            assert_eq!(key.to_ints(), Some(vec![value]));
        }
    }

    #[test]
    fn tuples_order_by_column_and_print_as_written() {
        assert!(Key::ints(&[1, 500]) < Key::ints(&[2, 3]));
        assert!(Key::ints(&[1]) < Key::ints(&[1, 0]));
        assert_eq!(Key::ints(&[3, -7]).to_string(), "3/-7");
        assert_eq!(Key::int(5).successor().to_string(), "5+");
        assert_eq!(Key::from_bytes(b"\x01\x02").to_string(), "x0102");
    }
}
