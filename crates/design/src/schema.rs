//! The structure of a table's rows: columns, their types, and the primary key.
//!
//! A schema turns values into bytes and back in two ways. The key columns become the [`Key`], whose
//! byte order is the order of the rows ([`crate::key_code`]); the other columns become the row
//! bytes, in which each column can be read alone ([`crate::row`]). Key columns are not repeated in
//! the row bytes:
//!
//! ```text
//!   accounts(id int64, owner text, balance decimal(2))  key id
//!
//!   (7, 'Ann', 12.50)   key   81 07
//!                       row   e2 04 00…   'Ann'
//! ```
//!
//! Every schema is valid: [`Schema::new`] refuses all others. So other code need not check names,
//! key columns or scales.
//!
//! A schema changes in one way: it gets a column ([`Schema::add_column`]). Older rows then have
//! that column's missing value ([`crate::added`]). Otherwise, row bytes are read by the schema that
//! wrote them.
//!
//! **Left out.** Removing columns, changing types, added columns in the text form and in a
//! [`Design`], whose tables keep their first schema.
//!
//! [`Design`]: crate::Design

use crate::column::{Column, name_list};
use crate::layout::Layout;
use crate::row::stored;
use crate::{ColumnType, DECIMAL_SCALE_MAX, RowError, Value};
use std::fmt;
use thiserror::Error;

/// The most columns of one table.
pub const COLUMNS_MAX: usize = 1024;

/// The longest name of a table or column, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The columns of a table and its primary key.
///
/// ```
/// use isomer_design::{Column, ColumnType, Schema, Value};
/// let columns = vec![
///     Column::new("id", ColumnType::Int64),
///     Column::new("owner", ColumnType::Text).or_null(),
/// ];
/// let accounts = Schema::new("accounts", columns, &["id"])?;
/// let (key, row) = accounts.encode_row(&[Value::from(7), Value::from("Ann")]).unwrap();
/// assert_eq!(accounts.format_key(&key), "7");
/// assert_eq!(accounts.read_column(&key, &row, 1), Ok(Value::from("Ann")));
/// # Ok::<(), isomer_design::SchemaError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Schema {
    name: String,
    columns: Vec<Column>,
    primary_key: Vec<usize>,
    added: Vec<AddedColumn>,
    layout: Layout,
}

/// A column that older rows lack.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AddedColumn {
    /// Its index among the columns.
    pub(crate) index: usize,
    /// The value of rows that lack it: stored bytes, or NULL.
    pub(crate) missing: Option<Box<[u8]>>,
}

/// Why columns and a key are not a schema.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SchemaError {
    /// A table or column name that the text form cannot express.
    #[error(
        "`{name}` cannot be the name of a {what}: names are 1 to {NAME_BYTES_MAX} letters, digits \
         and underscores, not starting with a digit"
    )]
    BadName {
        /// `table` or `column`.
        what: &'static str,
        /// The name given.
        name: String,
    },
    /// Two columns of one name.
    #[error("table {table} has two columns named {column}: give each its own name")]
    DuplicateColumn {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// More columns than a table may have.
    #[error("table {table} has {columns} columns: at most {COLUMNS_MAX} are possible")]
    TooManyColumns {
        /// The table.
        table: String,
        /// The number of columns.
        columns: usize,
    },
    /// No key columns.
    #[error("table {table} has no primary key: name at least one key column")]
    EmptyKey {
        /// The table.
        table: String,
    },
    /// A key column that the table lacks.
    #[error("the key of table {table} names {column}, which is no column: columns are {columns}")]
    UnknownKeyColumn {
        /// The table.
        table: String,
        /// The name given.
        column: String,
        /// The columns that exist.
        columns: String,
    },
    /// A key column named twice.
    #[error("the key of table {table} names {column} twice: once is enough")]
    RepeatedKeyColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A key column that accepts NULL.
    #[error("key column {column} of table {table} accepts NULL: a key column must not")]
    NullableKeyColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// More digits after the point than a decimal has.
    #[error(
        "column {column} of table {table} is {ty}: a decimal has at most {DECIMAL_SCALE_MAX} \
         digits after the point"
    )]
    DecimalScale {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        ty: ColumnType,
    },
    /// A missing value that does not fit the added column.
    #[error(transparent)]
    MissingValue(#[from] RowError),
}

impl Schema {
    /// A schema of these columns, with the named ones as the primary key, in that order.
    pub fn new(
        name: impl Into<String>,
        columns: Vec<Column>,
        primary_key: &[&str],
    ) -> Result<Schema, SchemaError> {
        let name = name.into();
        check_columns(&name, &columns)?;
        let primary_key = find_key(&name, &columns, primary_key)?;
        let layout = Layout::of(&columns, &primary_key, &[]);
        Ok(Schema { name, columns, primary_key, added: Vec::new(), layout })
    }

    /// The schema with one more column at this index. Older rows have `missing` there.
    ///
    /// ```
    /// use isomer_design::{Column, ColumnType, Schema, Value};
    /// let old = Schema::new("accounts", vec![Column::new("id", ColumnType::Int64)], &["id"])?;
    /// let (key, row) = old.encode_row(&[Value::from(7)]).unwrap();
    /// let new = old.add_column(1, Column::new("stage", ColumnType::Int64), &Value::from(5))?;
    /// assert_eq!(new.read_column(&key, &row, 1), Ok(Value::from(5)));
    /// # Ok::<(), isomer_design::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// If the column does not fit the others, or `missing` does not fit the column.
    ///
    /// # Panics
    /// If the index is beyond the end of the columns.
    pub fn add_column(
        &self,
        at: usize,
        column: Column,
        missing: &Value,
    ) -> Result<Schema, SchemaError> {
        self.check_value(&column, missing)?;
        check_count(&self.name, self.columns.len() + 1)?;
        check_column(&self.name, &self.columns, &column)?;
        let mut schema = self.clone();
        schema.columns.insert(at, column);
        let behind = |index: &&mut usize| **index >= at;
        schema.primary_key.iter_mut().filter(behind).for_each(|index| *index += 1);
        let indexes = schema.added.iter_mut().map(|added| &mut added.index);
        indexes.filter(behind).for_each(|index| *index += 1);
        let missing = (*missing != Value::Null).then(|| stored(missing, |bytes| bytes.into()));
        schema.added.push(AddedColumn { index: at, missing });
        let added: Vec<usize> = schema.added.iter().map(|added| added.index).collect();
        schema.layout = Layout::of(&schema.columns, &schema.primary_key, &added);
        Ok(schema)
    }

    /// True if the schema has columns that older rows lack.
    pub fn has_added_columns(&self) -> bool {
        !self.added.is_empty()
    }

    /// The columns that were added, in that order.
    pub(crate) fn added(&self) -> &[AddedColumn] {
        &self.added
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns, in the order in which rows list their values.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The indexes of the key columns, in the order of the key.
    pub fn primary_key(&self) -> &[usize] {
        &self.primary_key
    }

    /// The key columns, in the order of the key.
    pub fn key_columns(&self) -> impl ExactSizeIterator<Item = &Column> + Clone {
        self.primary_key.iter().map(|&index| &self.columns[index])
    }

    /// The index of a column by its name.
    pub fn find_column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

fn check_columns(table: &str, columns: &[Column]) -> Result<(), SchemaError> {
    check_name("table", table)?;
    check_count(table, columns.len())?;
    let mut columns = columns.iter().enumerate().map(|(index, _)| columns.split_at(index));
    columns.try_for_each(|(before, from)| check_column(table, before, &from[0]))
}

fn check_count(table: &str, columns: usize) -> Result<(), SchemaError> {
    if columns > COLUMNS_MAX {
        return Err(SchemaError::TooManyColumns { table: table.to_owned(), columns });
    }
    Ok(())
}

/// Checks one column, given those before it.
pub(crate) fn check_column(
    table: &str,
    before: &[Column],
    Column { name, ty, .. }: &Column,
) -> Result<(), SchemaError> {
    check_name("column", name)?;
    let (table, column) = (table.to_owned(), name.clone());
    if before.iter().any(|other| other.name == *name) {
        return Err(SchemaError::DuplicateColumn { table, column });
    }
    if matches!(ty, ColumnType::Decimal { scale } if *scale > DECIMAL_SCALE_MAX) {
        return Err(SchemaError::DecimalScale { table, column, ty: *ty });
    }
    Ok(())
}

/// Names must survive the text form unquoted.
fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if is_word && starts_well && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(SchemaError::BadName { what, name: name.to_owned() })
}

fn find_key(table: &str, columns: &[Column], names: &[&str]) -> Result<Vec<usize>, SchemaError> {
    let table = || table.to_owned();
    if names.is_empty() {
        return Err(SchemaError::EmptyKey { table: table() });
    }
    let mut key = Vec::new();
    for &name in names {
        let column = name.to_owned();
        let Some(index) = columns.iter().position(|column| column.name == name) else {
            let columns = name_list(columns);
            return Err(SchemaError::UnknownKeyColumn { table: table(), column, columns });
        };
        if key.contains(&index) {
            return Err(SchemaError::RepeatedKeyColumn { table: table(), column });
        }
        if columns[index].nullable {
            return Err(SchemaError::NullableKeyColumn { table: table(), column });
        }
        key.push(index);
    }
    Ok(key)
}

/// `accounts(id int64, owner text nullable) key id`.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.columns.iter().map(Column::to_string).collect();
        let key: Vec<&str> = self.key_columns().map(|column| column.name.as_str()).collect();
        write!(f, "{}({}) key {}", self.name, columns.join(", "), key.join(", "))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_breaks_a_rule_is_refused() {
        let id = || Column::new("id", ColumnType::Int64);
        let refused = |columns: Vec<Column>, key: &[&str]| {
            Schema::new("accounts", columns, key).unwrap_err().to_string()
        };
        assert_eq!(
            refused(vec![id(), id()], &["id"]),
            "table accounts has two columns named id: give each its own name"
        );
        assert_eq!(
            refused(vec![id()], &[]),
            "table accounts has no primary key: name at least one key column"
        );
        assert_eq!(
            refused(vec![id()], &["id", "id"]),
            "the key of table accounts names id twice: once is enough"
        );
        assert_eq!(
            refused(vec![id().or_null()], &["id"]),
            "key column id of table accounts accepts NULL: a key column must not"
        );
        assert_eq!(
            refused(vec![Column::new("2nd", ColumnType::Bool)], &["2nd"]),
            "`2nd` cannot be the name of a column: names are 1 to 63 letters, digits and \
             underscores, not starting with a digit"
        );
        let many = (0..=COLUMNS_MAX).map(|n| Column::new(format!("c{n}"), ColumnType::Bool));
        assert_eq!(
            refused(many.collect(), &["c0"]),
            "table accounts has 1025 columns: at most 1024 are possible"
        );
        for name in ["", "a b", "a-b", "ä", &"a".repeat(NAME_BYTES_MAX + 1)] {
            let error = Schema::new(name, vec![id()], &["id"]).unwrap_err();
            assert!(matches!(error, SchemaError::BadName { what: "table", .. }), "{name}");
        }
    }
}
