//! One column of a table.

use crate::ColumnType;
use std::fmt;

/// A column: its name and its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// True if it may hold NULL; a key column may not.
    pub nullable: bool,
}

impl Column {
    /// A column that does not accept NULL.
    pub fn new(name: impl Into<String>, ty: ColumnType) -> Column {
        Column { name: name.into(), ty, nullable: false }
    }

    /// The column, accepting NULL.
    #[must_use]
    pub fn or_null(self) -> Column {
        Column { nullable: true, ..self }
    }
}

/// `id int64`, `owner text nullable`.
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.name, self.ty, if self.nullable { " nullable" } else { "" })
    }
}

/// `id, owner, balance`, for messages.
pub(crate) fn name_list(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    names.join(", ")
}
