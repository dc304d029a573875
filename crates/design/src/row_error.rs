//! Errors of values, keys and row bytes, given a schema.

use crate::column::name_list;
use crate::key::KEY_BYTES_MAX;
use crate::row::ROW_BYTES_MAX;
use crate::{Column, ColumnType, Schema, Value};
use thiserror::Error;

/// Why values are not a row, or bytes cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RowError {
    /// Too few or too many values for the columns.
    #[error("{given} values for {what} of table {table}: {expected} are needed, for {columns}")]
    ValueCount {
        /// The table.
        table: String,
        /// `a row` or `a key`.
        what: &'static str,
        /// The columns to be filled.
        columns: String,
        /// The number of columns.
        expected: usize,
        /// The number of values.
        given: usize,
    },
    /// A value of another type than its column.
    #[error("column {table}.{column} is {ty}, not {given}: give {example}", example = ty.example())]
    WrongType {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The column's type.
        ty: ColumnType,
        /// The kind of the value, in a word.
        given: &'static str,
    },
    /// NULL where it is not accepted.
    #[error("column {table}.{column} does not accept NULL: give {example}", example = ty.example())]
    UnexpectedNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The column's type.
        ty: ColumnType,
    },
    /// A NaN in a key, where it would have no place in the order.
    #[error("key column {table}.{column} cannot be NaN: keys need an order, give a number")]
    NanInKey {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A column that the table lacks.
    #[error("table {table} has no column {column}: columns are {columns}")]
    UnknownColumn {
        /// The table.
        table: String,
        /// The column asked for, by name or number.
        column: String,
        /// The columns that exist.
        columns: String,
    },
    /// A key that is too long.
    #[error("a key of table {table} takes {bytes} bytes: at most {KEY_BYTES_MAX} are possible")]
    KeyTooLong {
        /// The table.
        table: String,
        /// The length that it would have.
        bytes: usize,
    },
    /// A row that is too long.
    #[error("a row of table {table} takes {bytes} bytes: at most {ROW_BYTES_MAX} are possible")]
    RowTooLong {
        /// The table.
        table: String,
        /// The length that it would have.
        bytes: usize,
    },
    /// Bytes that no key of the table has.
    #[error(
        "{key} is no key of table {table}: bytes of type {ty} were expected for column {column}"
    )]
    DamagedKey {
        /// The table.
        table: String,
        /// The first column that cannot be read.
        column: String,
        /// Its type.
        ty: ColumnType,
        /// The key, as far as it can be printed.
        key: String,
    },
    /// A key with something after its last column.
    #[error("{key} is no key of table {table}: bytes follow its last column, {column}")]
    KeyTooWide {
        /// The table.
        table: String,
        /// The last key column.
        column: String,
        /// The key, as far as it can be printed.
        key: String,
    },
    /// Bytes that no row of the table has.
    #[error("a row of table {table} is damaged at column {column}: {damage}")]
    DamagedRow {
        /// The table.
        table: String,
        /// The first column that cannot be read.
        column: String,
        /// The damage, and what was expected.
        damage: String,
    },
}

impl Schema {
    /// Checks that a column may hold a value.
    pub(crate) fn check_value(&self, column: &Column, value: &Value) -> Result<(), RowError> {
        let ty = column.ty;
        let names = || (self.name().to_owned(), column.name.clone());
        match value {
            Value::Null if column.nullable => Ok(()),
            Value::Null => {
                let (table, column) = names();
                Err(RowError::UnexpectedNull { table, column, ty })
            }
            value if ty.accepts(value) => Ok(()),
            value => {
                let (table, column) = names();
                Err(RowError::WrongType { table, column, ty, given: value.kind() })
            }
        }
    }

    /// The index of a column by its name, or an error that lists the columns.
    pub fn column_index(&self, name: &str) -> Result<usize, RowError> {
        self.find_column(name).ok_or_else(|| self.unknown_column(name.to_owned()))
    }

    pub(crate) fn unknown_column(&self, column: String) -> RowError {
        let columns = name_list(self.columns());
        RowError::UnknownColumn { table: self.name().to_owned(), column, columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn owners() -> Schema {
        let columns = vec![
            Column::new("name", ColumnType::Text),
            Column::new("rank", ColumnType::Int64),
            Column::new("note", ColumnType::Text).or_null(),
        ];
        Schema::new("owners", columns, &["name", "rank"]).unwrap()
    }

    fn message<T: std::fmt::Debug>(result: Result<T, RowError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_column_and_what_would_be_right() {
        let schema = owners();
        let long = Value::from("x".repeat(1100));
        assert_eq!(
            message(schema.encode_key(&[long, Value::from(1)])),
            "a key of table owners takes 1104 bytes: at most 1024 are possible"
        );
        assert_eq!(
            message(schema.encode_key(&[Value::from("Ann")])),
            "1 values for a key of table owners: 2 are needed, for name, rank"
        );
        assert_eq!(
            message(schema.column_index("age")),
            "table owners has no column age: columns are name, rank, note"
        );
        assert_eq!(
            message(schema.read_column(&[], &[], 3)),
            "table owners has no column number 3: columns are name, rank, note"
        );
        let long = Value::from("x".repeat(ROW_BYTES_MAX));
        assert_eq!(
            message(schema.encode_row(&[Value::from("Ann"), Value::from(1), long])),
            "a row of table owners takes 16777221 bytes: at most 16777216 are possible"
        );
    }

    #[test]
    fn damaged_bytes_are_told_from_those_of_another_table() {
        let schema = owners();
        assert_eq!(
            message(schema.decode_key(&Key::int(7))),
            "7 is no key of table owners: bytes of type text were expected for column name"
        );
        assert_eq!(
            message(schema.decode_key(b"Ann\0\0")),
            "x416e6e0000 is no key of table owners: bytes of type int64 were expected for column rank"
        );
        let (key, row) = schema.encode_row(&["Ann".into(), 1.into(), Value::Null]).unwrap();
        assert_eq!(
            message(schema.decode_key(&key.successor())),
            "x416e6e0000810100 is no key of table owners: bytes follow its last column, rank"
        );
        assert_eq!(
            message(schema.decode_row(&key, &[&row[..], &[0]].concat())),
            "a row of table owners is damaged at column note: 5 bytes were expected, not 6"
        );
    }
}
