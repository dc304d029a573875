//! The encoding of rows: all columns outside of the key, each of which can be read alone. For key
//! columns of type `numeric` the row keeps the digits as written: 1.50 and 1.5 are one key, and
//! print as written. Of a floating point key it keeps the sign of a negative zero.
//!
//! ```text
//!   nulls          fixed                            ends                   tail
//!   1 bit for      8 bytes  int64, float64,         u32 for each text,     the texts, digits and
//!   each column             timestamp               numeric or bytes       bytes, one after the
//!   that accepts   16 bytes decimal                 column: where its      other
//!   NULL           1 byte   bool                    part of the tail ends
//!
//!   orders(id int64, note text nullable, paid bool, total decimal(2), city text)  key id
//!   (7, NULL, true, 12.50, 'Bonn')
//!
//!   01       01    e2 04 00 … (16)     00 00 00 00   04 00 00 00     42 6f 6e 6e
//!   note     paid  total               note ends     city ends       Bonn
//!   is NULL
//! ```
//!
//! Columns that a table got when it already had rows follow the tail: [`crate::added`].
//!
//! Numbers are little-endian. The position of a column depends on the schema alone, except in the
//! tail, which takes two reads of `ends`. So a procedure that reads one column of a wide row
//! touches only the bytes of that column. A NULL leaves zeros in `fixed`, and nothing in the tail.
//!
//! Every read is checked: bytes that [`Schema::encode_row`] has not written give
//! [`RowError::DamagedRow`].
//!
//! **Left out.** Smaller integers and ends. Eight bytes for a small number cost memory, but keep
//! the position of every column constant.

use crate::added::{Added, Writer};
use crate::column::name_list;
use crate::layout::{END_BYTES, Place, Slot, fixed_bytes};
use crate::{ColumnType, Key, RowError, Schema, Value};
use std::ops::Range;

/// The longest row, in bytes.
pub const ROW_BYTES_MAX: usize = 16 << 20;

impl Schema {
    /// The key and the row bytes of a row: one value per column, in the order of the columns.
    pub fn encode_row(&self, values: &[Value]) -> Result<(Key, Vec<u8>), RowError> {
        if values.len() != self.columns().len() {
            return Err(RowError::ValueCount {
                table: self.name().to_owned(),
                what: "a row",
                columns: name_list(self.columns()),
                expected: self.columns().len(),
                given: values.len(),
            });
        }
        for (column, value) in self.columns().iter().zip(values) {
            self.check_value(column, value)?;
        }
        let key =
            self.encode_key_columns(self.primary_key().iter().map(|&index| &values[index]))?;
        Ok((key, self.encode_columns(values)?))
    }

    /// The row bytes with other values in some columns, none of which is in the key. Unchanged
    /// columns are not decoded, and if only fixed columns change, no bytes move.
    ///
    /// # Panics
    /// If a column is in the key, or does not exist.
    pub fn patch_row(
        &self,
        mut row: Vec<u8>,
        changes: &[(usize, Value)],
    ) -> Result<Vec<u8>, RowError> {
        let added = row.split_off(self.check_row_length(&row)?);
        let mut moves = false;
        for (index, value) in changes {
            self.check_value(&self.columns()[*index], value)?;
            let Slot { place, null_bit } = self.layout().slots[*index];
            if let Some(bit) = null_bit {
                let mark = 1 << (bit % 8);
                row[bit / 8] &= !mark;
                row[bit / 8] |= if *value == Value::Null { mark } else { 0 };
            }
            match place {
                Place::Key(_) => panic!("column {index} of {} is in the key", self.name()),
                Place::Fixed(at) => {
                    let bytes = fixed_bytes(self.columns()[*index].ty).unwrap_or(0);
                    row[at..at + bytes].fill(0);
                    put_fixed(value, &mut row[at..]);
                }
                Place::Tail(_) => moves = true,
                Place::Added(_) => {}
            }
        }
        if moves {
            row = self.patch_tail(&row, changes)?;
        }
        self.patch_added(&mut row, &added, changes)?;
        self.check_row_bytes(row)
    }

    /// The row with the same columns before its tail, and another tail.
    fn patch_tail(&self, row: &[u8], changes: &[(usize, Value)]) -> Result<Vec<u8>, RowError> {
        let layout = self.layout();
        let longer = changes.iter().map(|(_, value)| tail_bytes(value).len()).sum::<usize>();
        let mut patched = Vec::with_capacity(row.len() + longer);
        patched.extend_from_slice(&row[..layout.tail_at]);
        for (index, slot) in layout.slots.iter().enumerate() {
            let Place::Tail(part) = slot.place else { continue };
            let bytes = match last_change(changes, index) {
                Some(value) => tail_bytes(value),
                None => {
                    let old = self.tail_range(row, part).and_then(|range| row.get(range));
                    old.ok_or_else(|| self.damaged_row(index, "it ends before it begins"))?
                }
            };
            layout.put_tail(&mut patched, part, bytes);
        }
        Ok(patched)
    }

    /// Appends the added columns to a row: all that this schema or the old row has.
    fn patch_added(
        &self,
        row: &mut Vec<u8>,
        old: &[u8],
        changes: &[(usize, Value)],
    ) -> Result<(), RowError> {
        let damaged = |index: usize| self.damaged_row(index, "its added columns are cut short");
        let part = Added::read(old).ok_or_else(|| damaged(0))?;
        let count = part.count().max(self.added().len());
        if count == 0 && part.signs == 0 {
            return Ok(());
        }
        let mut writer = Writer::begin(row, count, part.signs);
        for at in 0..count {
            let known = self.added().get(at);
            let change = known.and_then(|column| last_change(changes, column.index));
            if let Some(value) = change {
                writer.put_value(row, value);
            } else if at < part.count() {
                let index = known.map_or(0, |column| column.index);
                let value = part.value(at).ok_or_else(|| damaged(index))?;
                writer.put(row, value);
            } else {
                writer.put(row, known.and_then(|column| column.missing.as_deref()));
            }
        }
        Ok(())
    }

    /// The values of a row, in the order of the columns.
    pub fn decode_row(&self, key: &[u8], row: &[u8]) -> Result<Vec<Value>, RowError> {
        self.check_row_length(row)?;
        let mut key_values = self.decode_key(key)?;
        let read = |(column, slot): (usize, &Slot)| match slot.place {
            Place::Key(index) => {
                let value = std::mem::replace(&mut key_values[index], Value::Null);
                Ok(with_sign(self, value, row, index))
            }
            _ => self.read_row_column(row, column),
        };
        self.layout().slots.iter().enumerate().map(read).collect()
    }

    /// The value of one column, by its index. The others are not decoded.
    pub fn read_column(&self, key: &[u8], row: &[u8], column: usize) -> Result<Value, RowError> {
        match self.layout().slots.get(column) {
            None => Err(self.unknown_column(format!("number {column}"))),
            Some(Slot { place: Place::Key(index), .. }) => {
                let value = self.decode_key_column(key, *index)?;
                Ok(with_sign(self, value, row, *index))
            }
            Some(_) => self.read_row_column(row, column),
        }
    }

    /// The stored bytes of a column outside the key, borrowed from the row: a text as UTF-8, a
    /// number little-endian; a missing value is borrowed from the schema. `None` for NULL.
    pub fn read_column_bytes<'row>(
        &'row self,
        row: &'row [u8],
        column: usize,
    ) -> Result<Option<&'row [u8]>, RowError> {
        let Some(slot) = self.layout().slots.get(column) else {
            return Err(self.unknown_column(format!("number {column}")));
        };
        let found = match slot.place {
            Place::Key(_) => return Err(self.damaged_row(column, "it is stored in the key")),
            Place::Fixed(at) => {
                let bytes = fixed_bytes(self.columns()[column].ty).unwrap_or(0);
                row.get(at..at + bytes)
            }
            Place::Tail(part) => self.tail_range(row, part).and_then(|range| row.get(range)),
            Place::Added(at) => {
                let read = self.read_added(row, at);
                return read.ok_or_else(|| self.damaged_row(column, "it lies beyond its row"));
            }
        };
        let is_null = slot.null_bit.map(|bit| read_bit(row, bit));
        match (is_null, found) {
            (Some(Some(true)), Some(_)) => Ok(None),
            (None | Some(Some(false)), Some(bytes)) => Ok(Some(bytes)),
            _ => {
                Err(self
                    .damaged_row(column, &format!("it lies beyond the row's {} bytes", row.len())))
            }
        }
    }

    /// The stored bytes of an added column; the inner `None` for NULL, the outer one for a damaged
    /// row.
    fn read_added<'row>(&'row self, row: &'row [u8], at: usize) -> Option<Option<&'row [u8]>> {
        let part = Added::read(row.get(self.layout().tail_end(row)?..)?)?;
        match at < part.count() {
            true => part.value(at),
            false => Some(self.added()[at].missing.as_deref()),
        }
    }

    fn encode_columns(&self, values: &[Value]) -> Result<Vec<u8>, RowError> {
        let layout = self.layout();
        let tail = values.iter().map(|value| tail_bytes(value).len()).sum::<usize>();
        let mut row = Vec::with_capacity(layout.tail_at + tail);
        row.resize(layout.tail_at, 0);
        for (slot, value) in layout.slots.iter().zip(values) {
            if let (Value::Null, Some(bit)) = (value, slot.null_bit) {
                row[bit / 8] |= 1 << (bit % 8);
            }
            match slot.place {
                Place::Key(_) | Place::Added(_) => {}
                Place::Fixed(at) => put_fixed(value, &mut row[at..]),
                Place::Tail(part) => layout.put_tail(&mut row, part, tail_bytes(value)),
            }
        }
        let signs = signs(self, values);
        if self.has_added_columns() || signs != 0 {
            let mut writer = Writer::begin(&mut row, self.added().len(), signs);
            self.added().iter().for_each(|added| writer.put_value(&mut row, &values[added.index]));
        }
        self.check_row_bytes(row)
    }

    fn check_row_bytes(&self, row: Vec<u8>) -> Result<Vec<u8>, RowError> {
        if row.len() > ROW_BYTES_MAX {
            return Err(RowError::RowTooLong { table: self.name().to_owned(), bytes: row.len() });
        }
        Ok(row)
    }

    fn read_row_column(&self, row: &[u8], column: usize) -> Result<Value, RowError> {
        let Some(bytes) = self.read_column_bytes(row, column)? else { return Ok(Value::Null) };
        let ty = self.columns()[column].ty;
        take_stored(ty, bytes)
            .ok_or_else(|| self.damaged_row(column, &format!("its bytes are no {ty}")))
    }

    /// Where a part of the tail lies in the row.
    fn tail_range(&self, row: &[u8], part: usize) -> Option<Range<usize>> {
        let layout = self.layout();
        let end_of = |part: usize| {
            let end = row.get(layout.ends_at + part * END_BYTES..)?.first_chunk()?;
            Some(layout.tail_at + u32::from_le_bytes(*end) as usize)
        };
        let start = if part == 0 { layout.tail_at } else { end_of(part - 1)? };
        Some(start..end_of(part)?)
    }

    /// Checks that the row ends with its last column; returns the end of its tail.
    fn check_row_length(&self, row: &[u8]) -> Result<usize, RowError> {
        let layout = self.layout();
        let end = layout.tail_end(row);
        let added = end.and_then(|end| row.get(end..));
        let is_whole = |added| Added::read(added).is_some_and(|part| part.is_whole());
        match (end, added) {
            (Some(end), Some(added)) if added.is_empty() || is_whole(added) => Ok(end),
            _ => {
                let last = self.columns().len() - 1;
                let expected = end.unwrap_or(layout.tail_at).max(layout.tail_at);
                let damage = format!("{expected} bytes were expected, not {}", row.len());
                Err(self.damaged_row(last, &damage))
            }
        }
    }

    fn damaged_row(&self, column: usize, damage: &str) -> RowError {
        RowError::DamagedRow {
            table: self.name().to_owned(),
            column: self.columns()[column].name.clone(),
            damage: damage.to_owned(),
        }
    }
}

/// A bit for each of the key's first 32 columns that is a negative zero.
fn signs(schema: &Schema, values: &[Value]) -> u32 {
    let key = schema.primary_key().iter().take(u32::BITS as usize).enumerate();
    let is_negative = |index: usize| match values[index] {
        Value::Float64(number) => number == 0.0 && number.is_sign_negative(),
        _ => false,
    };
    key.filter(|&(_, &index)| is_negative(index)).fold(0, |signs, (at, _)| signs | 1 << at)
}

/// A column of the key with the sign that the row has for it.
fn with_sign(schema: &Schema, value: Value, row: &[u8], index: usize) -> Value {
    if value != Value::Float64(0.0) || index >= u32::BITS as usize {
        return value;
    }
    let part = schema.layout().tail_end(row).and_then(|end| Added::read(row.get(end..)?));
    let is_negative = part.is_some_and(|part| part.signs >> index & 1 == 1);
    if is_negative { Value::Float64(-0.0) } else { value }
}

fn read_bit(row: &[u8], bit: usize) -> Option<bool> {
    row.get(bit / 8).map(|byte| byte >> (bit % 8) & 1 == 1)
}

/// The bytes of a value in the tail.
fn tail_bytes(value: &Value) -> &[u8] {
    match value {
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

fn put_fixed(value: &Value, place: &mut [u8]) {
    stored(value, |bytes| place[..bytes.len()].copy_from_slice(bytes));
}

/// Passes the stored bytes of a value to `take`; NULL has none.
pub(crate) fn stored<R>(value: &Value, take: impl FnOnce(&[u8]) -> R) -> R {
    match value {
        Value::Int64(number) | Value::Timestamp(number) => take(&number.to_le_bytes()),
        Value::Float64(number) => take(&number.to_le_bytes()),
        Value::Decimal(mantissa) => take(&mantissa.to_le_bytes()),
        Value::Bool(truth) => take(&[u8::from(*truth)]),
        Value::Null | Value::Text(_) | Value::Bytes(_) => take(tail_bytes(value)),
    }
}

/// The new value of a column, if it changes: the last one, if the column is named twice.
fn last_change(changes: &[(usize, Value)], column: usize) -> Option<&Value> {
    changes.iter().rev().find(|(changed, _)| *changed == column).map(|(_, value)| value)
}

/// The value of stored bytes, which for fixed types have the right length.
fn take_stored(ty: ColumnType, bytes: &[u8]) -> Option<Value> {
    Some(match ty {
        ColumnType::Int64 | ColumnType::Date => {
            Value::Int64(i64::from_le_bytes(bytes.try_into().ok()?))
        }
        ColumnType::Timestamp => Value::Timestamp(i64::from_le_bytes(bytes.try_into().ok()?)),
        ColumnType::Float64 => Value::Float64(f64::from_le_bytes(bytes.try_into().ok()?)),
        ColumnType::Decimal { .. } => Value::Decimal(i128::from_le_bytes(bytes.try_into().ok()?)),
        ColumnType::Bool => match bytes {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return None,
        },
        ColumnType::Text | ColumnType::Numeric => {
            Value::Text(str::from_utf8(bytes).ok()?.to_owned())
        }
        ColumnType::Bytes => Value::Bytes(bytes.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    /// The table of the module's picture, with the key in the middle and one column of each type.
    fn orders() -> Schema {
        let columns = vec![
            Column::new("note", ColumnType::Text).or_null(),
            Column::new("id", ColumnType::Int64),
            Column::new("paid", ColumnType::Bool),
            Column::new("total", ColumnType::Decimal { scale: 2 }),
            Column::new("city", ColumnType::Text),
            Column::new("at", ColumnType::Timestamp).or_null(),
            Column::new("weight", ColumnType::Float64),
            Column::new("stamp", ColumnType::Bytes).or_null(),
            Column::new("line", ColumnType::Int64),
        ];
        Schema::new("orders", columns, &["id", "line"]).unwrap()
    }

    fn full_row() -> Vec<Value> {
        vec![
            Value::from("call first"),
            Value::from(7),
            Value::from(true),
            Value::Decimal(-1250),
            Value::from("Bonn"),
            Value::Timestamp(-1),
            Value::from(0.5),
            Value::from(vec![0, 255, 0]),
            Value::from(-3),
        ]
    }

    fn sparse_row() -> Vec<Value> {
        let mut row = full_row();
        for (column, value) in orders().columns().iter().zip(&mut row) {
            if column.nullable {
                *value = Value::Null;
            }
        }
        row
    }

    #[test]
    fn negative_zeros_of_a_key_come_back() {
        let columns =
            vec![Column::new("note", ColumnType::Text), Column::new("rate", ColumnType::Float64)];
        let old = Schema::new("rates", columns, &["rate"]).unwrap();
        let missing = Value::from(5);
        let new = old.add_column(2, Column::new("n", ColumnType::Int64), &missing).unwrap();
        let (zero, plain) = old.encode_row(&["a".into(), 0.0.into()]).unwrap();
        let (negative, signed) = old.encode_row(&["a".into(), (-0.0).into()]).unwrap();
        assert_eq!(zero, negative);
        assert_eq!(plain, *b"\x01\0\0\0a");
        assert_eq!(signed, *b"\x01\0\0\0a\0\x80\x01\0\0\0");
        let (_, added) = new.encode_row(&["a".into(), (-0.0).into(), 7.into()]).unwrap();
        let patched = new.patch_row(signed.clone(), &[(0, "bc".into()), (2, 8.into())]).unwrap();
        let is_negative = |schema: &Schema, row: &[u8]| {
            let whole = schema.decode_row(&zero, row).unwrap();
            let signs = [whole[1].clone(), schema.read_column(&zero, row, 1).unwrap()];
            let sign = |value: Value| matches!(value, Value::Float64(f) if f.is_sign_negative());
            signs.map(sign)
        };
        assert_eq!(is_negative(&old, &plain), [false; 2]);
        for (schema, row) in
            [(&old, &signed), (&new, &signed), (&new, &added), (&new, &patched), (&old, &patched)]
        {
            assert_eq!(is_negative(schema, row), [true; 2], "{row:?}");
        }
        assert_eq!(new.read_column(&zero, &signed, 2), Ok(missing));
        assert_eq!(new.read_column(&zero, &patched, 2), Ok(Value::from(8)));
    }

    #[test]
    fn rows_come_back_whole_and_column_by_column() {
        let schema = orders();
        for values in [full_row(), sparse_row()] {
            let (key, row) = schema.encode_row(&values).unwrap();
            assert_eq!(schema.format_key(&key), "7/-3");
            assert_eq!(schema.decode_row(&key, &row), Ok(values.clone()));
            for (column, value) in values.iter().enumerate() {
                assert_eq!(schema.read_column(&key, &row, column).as_ref(), Ok(value));
            }
        }
        let (_, row) = schema.encode_row(&full_row()).unwrap();
        assert_eq!(schema.read_column_bytes(&row, 4), Ok(Some(&b"Bonn"[..])));
        assert_eq!(row.len(), 1 + (1 + 16 + 8 + 8) + 3 * 4 + (10 + 4 + 3));
    }

    #[test]
    fn a_patched_row_is_the_row_that_would_be_encoded() {
        let schema = orders();
        let (full, sparse) = (full_row(), sparse_row());
        let longer = |value: &Value| match value {
            Value::Text(text) => Value::from(format!("{text}, and once more").as_str()),
            Value::Bytes(bytes) => Value::from(bytes.repeat(3)),
            Value::Int64(number) => Value::from(number + 1),
            other => other.clone(),
        };
        let changed: Vec<Value> = full.iter().map(longer).collect();
        let outside = |(at, _): &(usize, Value)| ![1, 8].contains(at);
        for (from, to) in
            [(&full, &sparse), (&sparse, &full), (&full, &changed), (&sparse, &changed)]
        {
            let (_, row) = schema.encode_row(from).unwrap();
            let values = to.iter().cloned().enumerate().filter(outside);
            // Column by column, and all of them at once.
            let (mut one_by_one, mut expected) = (row.clone(), from.clone());
            for (at, value) in values.clone() {
                expected[at] = value.clone();
                one_by_one = schema.patch_row(one_by_one, &[(at, value)]).unwrap();
                assert_eq!(one_by_one, schema.encode_row(&expected).unwrap().1, "column {at}");
            }
            let at_once = schema.patch_row(row, &values.collect::<Vec<_>>()).unwrap();
            assert_eq!(at_once, one_by_one);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_patched_in() {
        let schema = orders();
        let (_, row) = schema.encode_row(&full_row()).unwrap();
        let patch = |at, value| schema.patch_row(row.clone(), &[(at, value)]);
        assert!(matches!(patch(2, Value::from(1)), Err(RowError::WrongType { .. })));
        assert!(matches!(patch(2, Value::Null), Err(RowError::UnexpectedNull { .. })));
        let long = "x".repeat(ROW_BYTES_MAX);
        assert!(matches!(patch(4, Value::from(long.as_str())), Err(RowError::RowTooLong { .. })));
        for length in 0..row.len() {
            let cut = schema.patch_row(row[..length].to_vec(), &[(4, Value::from("Ulm"))]);
            assert!(matches!(cut, Err(RowError::DamagedRow { .. })), "{length}");
        }
    }

    #[test]
    fn a_table_of_key_columns_has_empty_rows() {
        let schema = Schema::new("tags", vec![Column::new("tag", ColumnType::Text)], &["tag"]);
        let schema = schema.unwrap();
        let (key, row) = schema.encode_row(&[Value::from("x")]).unwrap();
        assert!(row.is_empty());
        assert_eq!(schema.decode_row(&key, &row), Ok(vec![Value::from("x")]));
    }

    #[test]
    fn a_numeric_of_a_key_is_there_as_it_was_written() {
        let columns = vec![
            Column::new("price", ColumnType::Numeric),
            Column::new("of", ColumnType::Text),
            Column::new("was", ColumnType::Numeric).or_null(),
        ];
        let schema = Schema::new("prices", columns, &["price", "of"]).unwrap();
        let values = |price: &str| vec![Value::from(price), Value::from("x"), Value::from("2.00")];
        let (key, row) = schema.encode_row(&values("1.50")).unwrap();
        let (same, other) = schema.encode_row(&values("1.5")).unwrap();
        assert_eq!((&key, schema.format_key(&key)), (&same, "1.5/'x'".to_owned()));
        assert_eq!(schema.parse_key("1.500/'x'"), Ok(key.clone()));
        assert_eq!(schema.decode_row(&key, &row), Ok(values("1.50")));
        assert_eq!(schema.decode_row(&key, &other), Ok(values("1.5")));
        assert_eq!(schema.read_column(&key, &row, 0), Ok(Value::from("1.50")));
        let refused = schema.encode_row(&values("a lot")).unwrap_err();
        assert!(matches!(refused, RowError::WrongType { .. }));
    }

    #[test]
    fn damaged_rows_are_errors_whatever_is_damaged() {
        let schema = orders();
        let (key, row) = schema.encode_row(&full_row()).unwrap();
        for length in 0..row.len() {
            let cut = schema.decode_row(&key, &row[..length]);
            assert!(matches!(cut, Err(RowError::DamagedRow { .. })), "{length}");
        }
        for at in 0..row.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = row.clone();
                damaged[at] ^= flip;
                // Some damage gives other values, none may panic.
                let _ = schema.decode_row(&key, &damaged);
                for column in 0..schema.columns().len() + 1 {
                    let _ = schema.read_column(&key, &damaged, column);
                }
            }
        }
        for length in 0..key.len() {
            assert!(schema.decode_row(&key[..length], &row).is_err());
        }
    }
}
