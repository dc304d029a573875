//! The part of a row after its tail: columns that the table got when it already had rows.
//!
//! Adding a column to a table rewrites none of its rows. A row has the added columns that existed
//! when it was written, and their number. For later columns it has their *missing values*, which
//! the schema keeps.
//!
//! ```text
//!   accounts(id int64, owner text)  key id     then  stage int64, missing 5     then  note text nullable, missing NULL
//!
//!                        row before the part   count   ends                      values             read as
//!   (7, 'Ann')           03 00 00 00  A n n                                                         5, NULL
//!   (8, 'Bob', 6)        03 00 00 00  B o b    01 00   08 00 00 00               06 00 … (8)        6, NULL
//!   (9, 'Eve', 6, 'x')   03 00 00 00  E v e    02 00   08 00 00 00  09 00 00 00  06 00 … (8)  x     6, 'x'
//! ```
//!
//! Each value ends where `ends` says, also if its type has a fixed length, and the highest bit of
//! its end marks a NULL. So the position of a column depends on the row's count alone, and the time
//! to read one does not depend on the others.
//!
//! **Negative zeros.** A key holds -0 as 0, because they are equal. The row of such a key has the
//! highest bit of the count set, and then a bit for each column of the key that is -0:
//!
//! ```text
//!   rates(rate float64, note text)  key rate
//!
//!                        row before the part   count   signs
//!   (0, 'a')             01 00 00 00  a
//!   (-0, 'a')            01 00 00 00  a        00 80   01 00 00 00
//! ```
//!
//! **Invariants.** The part is absent or has a column or a sign; the last value ends with the row;
//! columns are in the order in which they were added. A schema may know fewer columns than the row
//! has, such as that of an older plan. It reads those that it knows, and keeps the others when it
//! patches the row.
//!
//! Tables without added columns have no such part, and their rows are as before.

use crate::Value;
use crate::layout::END_BYTES;
use crate::row::stored;

/// The bit of the count that marks a row with signs. Schemas have fewer columns.
const SIGNED: u16 = 1 << 15;
/// The bit of an end that marks a NULL. Rows are too short for an end to need it.
const NULL: u32 = 1 << 31;

/// The added part of a row; without columns if the row has none.
#[derive(Clone, Copy)]
pub(crate) struct Added<'row> {
    /// The columns of the key that are -0: the lowest bit is the first of them.
    pub(crate) signs: u32,
    ends: &'row [[u8; END_BYTES]],
    values: &'row [u8],
}

impl<'row> Added<'row> {
    /// The added part, given all bytes after the tail; `None` if they are too short for it.
    pub(crate) fn read(bytes: &'row [u8]) -> Option<Added<'row>> {
        if bytes.is_empty() {
            return Some(Added { signs: 0, ends: &[], values: &[] });
        }
        let (count, mut rest) = bytes.split_first_chunk()?;
        let (count, mut signs) = (u16::from_le_bytes(*count), 0);
        if count & SIGNED != 0 {
            let (given, others) = rest.split_first_chunk()?;
            (signs, rest) = (u32::from_le_bytes(*given), others);
        }
        let (ends, values) = rest.split_at_checked(usize::from(count & !SIGNED) * END_BYTES)?;
        Some(Added { signs, ends: ends.as_chunks().0, values })
    }

    /// The number of its columns.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The value of one of its columns; the inner `None` for NULL, the outer one if it lies beyond
    /// the row.
    pub(crate) fn value(&self, at: usize) -> Option<Option<&'row [u8]>> {
        let end = self.end(at)?;
        let start = at.checked_sub(1).map_or(Some(0), |before| self.end(before))? & !NULL;
        let bytes = self.values.get(start as usize..(end & !NULL) as usize)?;
        Some((end & NULL == 0).then_some(bytes))
    }

    /// True if the part has columns or signs, and ends where its last value does.
    pub(crate) fn is_whole(&self) -> bool {
        let Some(last) = self.count().checked_sub(1) else {
            return self.signs != 0 && self.values.is_empty();
        };
        self.end(last).is_some_and(|end| (end & !NULL) as usize == self.values.len())
    }

    fn end(&self, at: usize) -> Option<u32> {
        self.ends.get(at).map(|end| u32::from_le_bytes(*end))
    }
}

/// Appends added columns to a row, one after the other.
pub(crate) struct Writer {
    next_end: usize,
    values_at: usize,
}

impl Writer {
    /// Begins the part, for `count` columns and the signs of the key's zeros.
    pub(crate) fn begin(row: &mut Vec<u8>, count: usize, signs: u32) -> Writer {
        // A schema has at most [`COLUMNS_MAX`](crate::COLUMNS_MAX) columns.
        let mark = if signs == 0 { 0 } else { SIGNED };
        row.extend_from_slice(&(count as u16 | mark).to_le_bytes());
        if signs != 0 {
            row.extend_from_slice(&signs.to_le_bytes());
        }
        let next_end = row.len();
        let values_at = next_end + count * END_BYTES;
        row.resize(values_at, 0);
        Writer { next_end, values_at }
    }

    /// Appends the next value.
    pub(crate) fn put_value(&mut self, row: &mut Vec<u8>, value: &Value) {
        stored(value, |bytes| self.put(row, (*value != Value::Null).then_some(bytes)));
    }

    /// Appends the stored bytes of the next value; `None` is NULL.
    pub(crate) fn put(&mut self, row: &mut Vec<u8>, value: Option<&[u8]>) {
        row.extend_from_slice(value.unwrap_or_default());
        // Rows beyond the limit are refused at the end, so the number fits.
        let end = (row.len() - self.values_at) as u32 | if value.is_none() { NULL } else { 0 };
        row[self.next_end..self.next_end + END_BYTES].copy_from_slice(&end.to_le_bytes());
        self.next_end += END_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Column, ColumnType, Design, Invalid, Key, Placement, Schema, SchemaError, SiteId, Value,
    };

    fn column(name: &str, ty: ColumnType) -> Column {
        Column::new(name, ty).or_null()
    }

    /// The table of the module's picture, at each of its times.
    fn accounts() -> [Schema; 3] {
        let columns =
            vec![Column::new("id", ColumnType::Int64), Column::new("owner", ColumnType::Text)];
        let old = Schema::new("accounts", columns, &["id"]).unwrap();
        let stage = Column::new("stage", ColumnType::Int64);
        let middle = old.add_column(2, stage, &Value::from(5)).unwrap();
        let new = middle.add_column(3, column("note", ColumnType::Text), &Value::Null).unwrap();
        [old, middle, new]
    }

    #[test]
    fn rows_are_the_bytes_of_the_picture_and_each_schema_reads_them_all() {
        let [old, middle, new] = accounts();
        let (ann, before) = old.encode_row(&[7.into(), "Ann".into()]).unwrap();
        let (bob, between) = middle.encode_row(&[8.into(), "Bob".into(), 6.into()]).unwrap();
        let eve = [9.into(), "Eve".into(), 6.into(), "x".into()];
        let (eve, after) = new.encode_row(&eve).unwrap();
        assert_eq!(before, *b"\x03\0\0\0Ann");
        assert_eq!(between, *b"\x03\0\0\0Bob\x01\0\x08\0\0\0\x06\0\0\0\0\0\0\0");
        assert_eq!(after, *b"\x03\0\0\0Eve\x02\0\x08\0\0\0\x09\0\0\0\x06\0\0\0\0\0\0\0x");
        let read = |schema: &Schema| {
            [(&ann, &before), (&bob, &between), (&eve, &after)]
                .map(|(key, row)| schema.decode_row(key, row).unwrap().split_off(2))
        };
        assert_eq!(read(&old), [vec![], vec![], vec![]]);
        assert_eq!(read(&middle), [vec![5.into()], vec![6.into()], vec![6.into()]]);
        let null = || Value::Null;
        let expected = [vec![5.into(), null()], vec![6.into(), null()], vec![6.into(), "x".into()]];
        assert_eq!(read(&new), expected);
    }

    #[test]
    fn a_missing_value_that_does_not_fit_its_column_is_refused() {
        let [old, _, new] = accounts();
        let stage = || Column::new("stage", ColumnType::Int64);
        let null = old.add_column(2, stage(), &Value::Null);
        assert!(matches!(null, Err(SchemaError::MissingValue(_))));
        let text = old.add_column(2, stage(), &Value::from("x"));
        assert!(matches!(text, Err(SchemaError::MissingValue(_))));
        let twice = new.add_column(4, stage(), &Value::from(1));
        assert!(matches!(twice, Err(SchemaError::DuplicateColumn { .. })));
        let mut design = Design::new([SiteId(1)]).unwrap();
        let partitions = [(Key::min(), Placement::at(SiteId(1)))];
        let refused = design.create_table(crate::TableId(1), new, partitions);
        assert!(matches!(refused, Err(Invalid::AddedColumns { .. })));
    }

    /// Random numbers, by a linear congruence.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) as usize % end
        }

        fn value(&mut self, column: &Column) -> Value {
            if column.nullable && self.below(3) == 0 {
                return Value::Null;
            }
            let number = self.below(1000) as i64 - 500;
            match column.ty {
                ColumnType::Int64 | ColumnType::Date => Value::Int64(number),
                ColumnType::Float64 => Value::Float64(number as f64 / 8.0),
                ColumnType::Decimal { .. } => Value::Decimal(number.into()),
                ColumnType::Bool => Value::Bool(number > 0),
                ColumnType::Timestamp => Value::Timestamp(number),
                ColumnType::Text => Value::Text("ab".repeat(self.below(4))),
                ColumnType::Bytes => Value::Bytes(vec![self.below(256) as u8; self.below(5)]),
                ColumnType::Numeric => Value::Text(number.to_string()),
            }
        }

        fn column(&mut self, name: String) -> Column {
            const TYPES: [ColumnType; 9] = [
                ColumnType::Int64,
                ColumnType::Float64,
                ColumnType::Decimal { scale: 2 },
                ColumnType::Bool,
                ColumnType::Timestamp,
                ColumnType::Text,
                ColumnType::Bytes,
                ColumnType::Numeric,
                ColumnType::Date,
            ];
            Column { name, ty: TYPES[self.below(9)], nullable: self.below(2) == 0 }
        }
    }

    /// Columns are added at random places, also before the key. Rows are written, patched and read
    /// by the schemas of all times, and compared with a model of plain values.
    #[test]
    fn rows_have_the_values_that_a_table_written_anew_would_have() {
        for seed in 0..200 {
            let mut chance = Chance(seed);
            let first: Vec<Column> =
                (0..chance.below(4)).map(|n| chance.column(format!("c{n}"))).collect();
            let key = Column::new("id", ColumnType::Int64);
            let mut schemas = vec![Schema::new("t", [first, vec![key]].concat(), &["id"]).unwrap()];
            let mut rows: Vec<(Key, Vec<u8>, Vec<Value>)> = Vec::new();
            for step in 0..60 {
                let schema = schemas.last().expect("the first is there").clone();
                let columns = schema.columns().to_vec();
                let id = schema.primary_key()[0];
                match chance.below(4) {
                    0 => {
                        let (at, column) =
                            (chance.below(columns.len() + 1), chance.column(format!("a{step}")));
                        let missing = chance.value(&column);
                        schemas.push(schema.add_column(at, column, &missing).unwrap());
                        rows.iter_mut()
                            .for_each(|(_, _, values)| values.insert(at, missing.clone()));
                    }
                    1 if !rows.is_empty() => {
                        let at = chance.below(rows.len());
                        let (_, row, values) = &mut rows[at];
                        let set: Vec<usize> = (0..columns.len())
                            .filter(|at| *at != id && chance.below(3) == 0)
                            .collect();
                        let changes: Vec<(usize, Value)> =
                            set.into_iter().map(|at| (at, chance.value(&columns[at]))).collect();
                        changes.iter().for_each(|(at, value)| values[*at] = value.clone());
                        *row = schema.patch_row(std::mem::take(row), &changes).unwrap();
                        assert_eq!(*row, schema.encode_row(values).unwrap().1, "seed {seed}");
                    }
                    _ => {
                        let mut values: Vec<Value> =
                            columns.iter().map(|column| chance.value(column)).collect();
                        values[id] = Value::from(step);
                        let (key, row) = schema.encode_row(&values).unwrap();
                        rows.push((key, row, values));
                    }
                }
                let (old, new) =
                    (&schemas[chance.below(schemas.len())], schemas.last().expect("it is there"));
                for (key, row, values) in &rows {
                    assert_eq!(new.decode_row(key, row).as_ref(), Ok(values), "seed {seed}");
                    for (at, column) in old.columns().iter().enumerate() {
                        let now = new.find_column(&column.name).expect("no column goes");
                        assert_eq!(
                            old.read_column(key, row, at).as_ref(),
                            Ok(&values[now]),
                            "seed {seed}"
                        );
                    }
                }
            }
            // A patch by an older schema keeps the columns that it does not know.
            let (old, new) = (&schemas[0], schemas.last().expect("it is there"));
            for (key, row, mut values) in rows {
                for (at, column) in
                    old.columns().iter().enumerate().filter(|(_, column)| column.name != "id")
                {
                    let value = chance.value(column);
                    values[new.find_column(&column.name).expect("no column goes")] = value.clone();
                    let row = old.patch_row(row.clone(), &[(at, value.clone())]).unwrap();
                    assert_eq!(
                        new.read_column(&key, &row, new.find_column(&column.name).unwrap()),
                        Ok(value)
                    );
                    assert_eq!(new.decode_row(&key, &row).unwrap().len(), values.len());
                }
            }
        }
    }

    #[test]
    fn damaged_rows_are_errors_or_other_values() {
        let [_, _, new] = accounts();
        let values = [9.into(), "Eve".into(), 6.into(), "x".into()];
        let (key, row) = new.encode_row(&values).unwrap();
        for length in (0..row.len()).filter(|length| *length != 7) {
            assert!(new.decode_row(&key, &row[..length]).is_err(), "{length}");
            assert!(new.patch_row(row[..length].to_vec(), &[]).is_err(), "{length}");
        }
        for at in 0..row.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = row.clone();
                damaged[at] ^= flip;
                // Some damage gives other values, none may panic.
                let _ = new.decode_row(&key, &damaged);
                (0..4).for_each(|column| drop(new.read_column(&key, &damaged, column)));
                let _ = new.patch_row(damaged, &[(1, "Ann".into()), (3, Value::Null)]);
            }
        }
    }
}
