//! Key columns as bytes whose order is the order of the values.
//!
//! Columns follow each other without separators. Each encoding contains its own end, and no
//! encoding of a column is a prefix of another encoding of the same column. So the first column
//! that differs decides the order.
//!
//! ```text
//!   type        bytes                                                   example
//!   ─────────   ─────────────────────────────────────────────────────   ─────────────────────
//!   int64       0x80 + n, then n significant bytes, n ≤ 8               7      81 07
//!               negative: 0x7f − n, then the n low bytes                −2     7e fe
//!   decimal     the mantissa, like int64 but n ≤ 16                     12.50  82 04 e2
//!   timestamp   the microseconds, like int64
//!   float64     8 bytes; positive: sign bit set; negative: all flipped  1.0    bf f0 00 00 …
//!   bool        00 or 01                                                true   01
//!   text        the bytes, 00 written as 00 ff, closed by 00 00         'a'    61 00 00
//!   bytes       like text                                               x'00'  00 ff 00 00
//!   numeric     pairs of digits: see [`crate::numeric_code`]            12.50  03 81 01 0d 33 00
//! ```
//!
//! A value has one encoding and an encoding one value: −0.0 is stored as 0.0, NaN is refused, and
//! integers that take more bytes than they need are damage. So keys are equal exactly if their
//! bytes are.
//!
//! Fewer columns than the key has are a *prefix*: it sorts before all keys that begin with it, so
//! it can be a bound between keys, though not a key. The keys of district 3 are
//! [`KeyRange::starting_with`](crate::KeyRange::starting_with) it.

use crate::{
    Column, ColumnType, KEY_BYTES_MAX, Key, RowError, Schema, Value, numeric_code, put_int,
    take_int,
};

impl Schema {
    /// The key of the given values: one per key column, in the order of the key.
    pub fn encode_key(&self, values: &[Value]) -> Result<Key, RowError> {
        self.check_key_count(values, values.len() == self.key_columns().len())?;
        self.encode_key_columns(values.iter())
    }

    /// A bound before all keys that begin with the given values: at most one per key column.
    pub fn encode_prefix(&self, values: &[Value]) -> Result<Key, RowError> {
        self.check_key_count(values, values.len() <= self.key_columns().len())?;
        self.encode_key_columns(values.iter())
    }

    /// The values of the key columns, in the order of the key.
    pub fn decode_key(&self, key: &[u8]) -> Result<Vec<Value>, RowError> {
        let (values, used) = self.decode_prefix(key);
        if let Some(column) = self.key_columns().nth(values.len()) {
            return Err(self.damaged_key(column, key));
        }
        match self.key_columns().last() {
            Some(last) if used < key.len() => Err(RowError::KeyTooWide {
                table: self.name().to_owned(),
                column: last.name.clone(),
                key: Key::from_bytes(key).to_string(),
            }),
            _ => Ok(values),
        }
    }

    /// As many key columns as can be read from the front of a key or bound, and the bytes they
    /// take.
    pub fn decode_prefix(&self, key: &[u8]) -> (Vec<Value>, usize) {
        let (mut values, mut used) = (Vec::new(), 0);
        for column in self.key_columns() {
            let Some((value, bytes)) = take_value(column.ty, &key[used..]) else { break };
            values.push(value);
            used += bytes;
        }
        (values, used)
    }

    pub(crate) fn encode_key_columns<'a>(
        &self,
        values: impl Iterator<Item = &'a Value>,
    ) -> Result<Key, RowError> {
        let mut key = Key::min();
        for (column, value) in self.key_columns().zip(values) {
            self.check_value(column, value)?;
            if matches!(value, Value::Float64(number) if number.is_nan()) {
                let (table, column) = (self.name().to_owned(), column.name.clone());
                return Err(RowError::NanInKey { table, column });
            }
            put_value(column.ty, value, &mut key);
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(RowError::KeyTooLong { table: self.name().to_owned(), bytes: key.len() });
        }
        Ok(key)
    }

    /// The value of the `wanted`-th key column.
    pub(crate) fn decode_key_column(&self, key: &[u8], wanted: usize) -> Result<Value, RowError> {
        let mut rest = key;
        for (index, column) in self.key_columns().enumerate() {
            let (value, used) =
                take_value(column.ty, rest).ok_or_else(|| self.damaged_key(column, key))?;
            if index == wanted {
                return Ok(value);
            }
            rest = &rest[used..];
        }
        Err(self.unknown_column(format!("{wanted} of its key")))
    }

    fn damaged_key(&self, column: &Column, key: &[u8]) -> RowError {
        RowError::DamagedKey {
            table: self.name().to_owned(),
            column: column.name.clone(),
            ty: column.ty,
            key: Key::from_bytes(key).to_string(),
        }
    }

    fn check_key_count(&self, values: &[Value], is_right: bool) -> Result<(), RowError> {
        if is_right {
            return Ok(());
        }
        let columns: Vec<&str> = self.key_columns().map(|column| column.name.as_str()).collect();
        Err(RowError::ValueCount {
            table: self.name().to_owned(),
            what: "a key",
            expected: columns.len(),
            columns: columns.join(", "),
            given: values.len(),
        })
    }
}

/// Appends a value to a key. NULL has no encoding and appends nothing.
fn put_value(ty: ColumnType, value: &Value, key: &mut Key) {
    match value {
        Value::Text(digits) if ty == ColumnType::Numeric => numeric_code::put(digits, key),
        Value::Null => {}
        Value::Int64(number) | Value::Timestamp(number) => {
            put_int(*number, |bytes| key.extend(bytes));
        }
        Value::Decimal(mantissa) => put_wide_int(*mantissa, |bytes| key.extend(bytes)),
        Value::Float64(number) => key.extend(&ordered_bits(*number).to_be_bytes()),
        Value::Bool(truth) => key.extend(&[u8::from(*truth)]),
        Value::Text(text) => put_bytes(text.as_bytes(), key),
        Value::Bytes(bytes) => put_bytes(bytes, key),
    }
}

/// Reads a value from the front of `bytes`: the value, and how many bytes it took.
fn take_value(ty: ColumnType, bytes: &[u8]) -> Option<(Value, usize)> {
    match ty {
        ColumnType::Int64 | ColumnType::Date => {
            take_int(bytes).map(|(number, used)| (Value::Int64(number), used))
        }
        ColumnType::Timestamp => {
            take_int(bytes).map(|(micros, used)| (Value::Timestamp(micros), used))
        }
        ColumnType::Decimal { .. } => {
            take_wide_int(bytes).map(|(mantissa, used)| (Value::Decimal(mantissa), used))
        }
        ColumnType::Float64 => {
            let bits = u64::from_be_bytes(*bytes.first_chunk()?);
            Some((Value::Float64(number_of(bits)?), 8))
        }
        ColumnType::Bool => match bytes.first()? {
            0 => Some((Value::Bool(false), 1)),
            1 => Some((Value::Bool(true), 1)),
            _ => None,
        },
        ColumnType::Text => {
            let (bytes, used) = take_bytes(bytes)?;
            Some((Value::Text(String::from_utf8(bytes).ok()?), used))
        }
        ColumnType::Bytes => take_bytes(bytes).map(|(bytes, used)| (Value::Bytes(bytes), used)),
        ColumnType::Numeric => {
            numeric_code::take(bytes).map(|(digits, used)| (Value::Text(digits), used))
        }
    }
}

/// The integer form of `put_int`, for up to 16 bytes.
fn put_wide_int(value: i128, mut put: impl FnMut(&[u8])) {
    let magnitude = if value < 0 { !value as u128 | 1 } else { value as u128 };
    let count = 16 - magnitude.leading_zeros() as usize / 8;
    let mut bytes = [0; 17];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    bytes[16 - count] = if value < 0 { 0x7f - count as u8 } else { 0x80 + count as u8 };
    put(&bytes[16 - count..]);
}

fn take_wide_int(bytes: &[u8]) -> Option<(i128, usize)> {
    let head = *bytes.first()?;
    let (start, count) = match head {
        0x80..=0x90 => (0, usize::from(head - 0x80)),
        0x6f..=0x7e => (u128::MAX, usize::from(0x7f - head)),
        _ => return None,
    };
    let encoding = bytes.get(..1 + count)?;
    // Sixteen bytes shift the start out completely, so a shift by eight at a time never overflows.
    let value = encoding[1..].iter().fold(start, |value, &byte| value << 8 | u128::from(byte));
    let mut is_canonical = false;
    put_wide_int(value as i128, |again| is_canonical = again == encoding);
    is_canonical.then_some((value as i128, 1 + count))
}

const SIGN_BIT: u64 = 1 << 63;

/// The bits of a number, changed so that they order like the numbers.
fn ordered_bits(number: f64) -> u64 {
    // Adding zero turns the negative zero into the positive one, and changes nothing else.
    let bits = (number + 0.0).to_bits();
    if bits & SIGN_BIT == 0 { bits | SIGN_BIT } else { !bits }
}

fn number_of(ordered: u64) -> Option<f64> {
    let bits = if ordered & SIGN_BIT == 0 { !ordered } else { ordered & !SIGN_BIT };
    let number = f64::from_bits(bits);
    let is_canonical = !number.is_nan() && ordered_bits(number) == ordered;
    is_canonical.then_some(number)
}

fn put_bytes(bytes: &[u8], key: &mut Key) {
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        key.extend(piece);
        if piece.last() == Some(&0) {
            key.extend(&[0xff]);
        }
    }
    key.extend(&[0, 0]);
}

fn take_bytes(encoded: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    loop {
        let plain = encoded[at..].iter().position(|&byte| byte == 0)?;
        bytes.extend_from_slice(&encoded[at..at + plain]);
        at += plain + 2;
        match encoded.get(at - 1)? {
            0 => return Some((bytes, at)),
            0xff => bytes.push(0),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(ty: ColumnType, value: &Value) -> Key {
        let mut key = Key::min();
        put_value(ty, value, &mut key);
        key
    }

    /// Given values in order, checks that encodings are in order and come back.
    fn check_order(ty: ColumnType, values: impl IntoIterator<Item = Value>) {
        let values: Vec<Value> = values.into_iter().collect();
        let keys: Vec<Key> = values.iter().map(|value| encoded(ty, value)).collect();
        for (pair, window) in keys.windows(2).zip(values.windows(2)) {
            assert!(pair[0] < pair[1], "{window:?}");
            assert!(!pair[1].starts_with(&pair[0]), "{window:?}");
        }
        for (value, key) in values.into_iter().zip(&keys) {
            let mut longer = key.clone();
            longer.extend(&[0xff, 0]);
            assert_eq!(take_value(ty, &longer), Some((value, key.len())));
            assert_eq!(take_value(ty, &key[..key.len() - 1]), None, "cut short: {key:?}");
        }
    }

    #[test]
    fn decimals_order_like_their_encodings() {
        let near = |at: i128| [at.saturating_sub(1), at, at.saturating_add(1)];
        let powers = (1..127).flat_map(|bits| near(1 << bits).into_iter().chain(near(-1 << bits)));
        let mut mantissas: Vec<i128> = powers.chain([i128::MIN, i128::MAX, 0]).collect();
        mantissas.sort_unstable();
        mantissas.dedup();
        check_order(ColumnType::Decimal { scale: 2 }, mantissas.into_iter().map(Value::Decimal));
    }

    #[test]
    fn small_decimals_take_the_bytes_of_integers() {
        for number in [i64::MIN, -70_000, -256, -2, -1, 0, 1, 255, 256, i64::MAX] {
            let ty = ColumnType::Decimal { scale: 0 };
            assert_eq!(encoded(ty, &Value::Decimal(number.into())), Key::int(number));
        }
    }

    #[test]
    fn floats_order_like_their_encodings() {
        let numbers = [f64::NEG_INFINITY, -1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, f64::INFINITY];
        check_order(ColumnType::Float64, numbers.map(Value::Float64));
        let zero = |zero| encoded(ColumnType::Float64, &Value::Float64(zero));
        assert_eq!(zero(-0.0), zero(0.0));
        for never_written in [0x7fff_ffff_ffff_ffff_u64, u64::MAX, 0] {
            assert_eq!(take_value(ColumnType::Float64, &never_written.to_be_bytes()), None);
        }
    }

    #[test]
    fn texts_and_bytes_order_like_their_encodings() {
        let texts = ["", "\0", "\0\0", "\0a", "\u{1}", "a", "a\0", "a\0b", "ab", "b", "ü"];
        check_order(ColumnType::Text, texts.map(Value::from));
        check_order(ColumnType::Bytes, texts.map(|text| Value::Bytes(text.into())));
        check_order(ColumnType::Bool, [Value::Bool(false), Value::Bool(true)]);
        assert_eq!(take_value(ColumnType::Text, &[0xff, 0, 0]), None, "not UTF-8");
        assert_eq!(take_value(ColumnType::Bytes, &[0, 7]), None, "a zero must be marked");
    }

    #[test]
    fn any_bytes_can_be_offered_as_a_key() {
        let columns = [
            ColumnType::Int64,
            ColumnType::Float64,
            ColumnType::Decimal { scale: 3 },
            ColumnType::Bool,
            ColumnType::Text,
            ColumnType::Timestamp,
            ColumnType::Numeric,
        ];
        for ty in columns {
            for head in 0..=255 {
                for tail in [&[][..], &[0], &[0, 0], &[0xff; 20], &[0; 20]] {
                    let bytes = [&[head], tail].concat();
                    if let Some((value, used)) = take_value(ty, &bytes) {
                        assert_eq!(
                            encoded(ty, &value).as_bytes(),
                            &bytes[..used],
                            "{ty} {value:?}"
                        );
                    }
                }
            }
        }
    }
}
