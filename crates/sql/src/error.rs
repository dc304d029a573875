//! Errors in PostgreSQL's form: SQLSTATE, message, detail, hint, position.

use std::borrow::Cow;
use std::fmt;

/// Why a statement failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The primary message.
    pub message: String,
    /// The detail.
    pub detail: Option<String>,
    /// The hint.
    pub hint: Option<String>,
    /// The position in the statement, in characters from 1.
    pub position: Option<usize>,
    /// The object of the catalog that it is about, and its context.
    pub about: Option<Box<About>>,
}

/// The object and the context of an error, so that programs need not parse the message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct About {
    /// The schema of a table, or a type.
    pub schema: String,
    /// The table; as in all these fields, empty means none.
    pub table: String,
    /// A column of it.
    pub column: String,
    /// The type.
    pub datatype: String,
    /// A constraint of the table, or the type.
    pub constraint: String,
    /// The work of the server when it happened.
    pub context: String,
}

/// SQLSTATEs that are used in more than one place.
pub mod code {
    #![allow(missing_docs, reason = "the names are those of the SQL standard and of PostgreSQL")]
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const STRING_TOO_LONG: &str = "22001";
    pub const OUT_OF_RANGE: &str = "22003";
    pub const INVALID_DATETIME: &str = "22007";
    pub const DATETIME_OVERFLOW: &str = "22008";
    pub const INVALID_FRAME: &str = "22013";
    /// `invalid_escape_sequence`
    pub const INVALID_ESCAPE_SEQUENCE: &str = "22025";
    /// `ambiguous_parameter`
    pub const AMBIGUOUS_PARAMETER: &str = "42P08";
    /// `ambiguous_function`
    pub const AMBIGUOUS_FUNCTION: &str = "42725";
    /// A division by zero.
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const INVALID_PARAMETER: &str = "22023";
    pub const INVALID_TEXT: &str = "22P02";
    pub const INVALID_BINARY: &str = "22P03";
    pub const BAD_COPY: &str = "22P04";
    pub const NOT_NULL_VIOLATION: &str = "23502";
    pub const FOREIGN_KEY_VIOLATION: &str = "23503";
    pub const UNIQUE_VIOLATION: &str = "23505";
    pub const CHECK_VIOLATION: &str = "23514";
    pub const UNKNOWN_OUTCOME: &str = "08007";
    pub const ACTIVE_TRANSACTION: &str = "25001";
    pub const READ_ONLY: &str = "25006";
    pub const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    pub const NO_SAVEPOINT: &str = "3B001";
    pub const SERIALIZATION: &str = "40001";
    pub const DEADLOCK: &str = "40P01";
    pub const SYNTAX: &str = "42601";
    pub const INVALID_NAME: &str = "42602";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const DUPLICATE_ALIAS: &str = "42712";
    pub const GROUPING: &str = "42803";
    /// `windowing_error`
    pub const WINDOWING: &str = "42P20";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const CANNOT_COERCE: &str = "42846";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const DUPLICATE_OBJECT: &str = "42710";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub const INVALID_FOREIGN_KEY: &str = "42830";
    pub const INVALID_OBJECT_DEFINITION: &str = "42P17";
    pub const INVALID_GRANT: &str = "0LP01";
    pub const DEPENDENT_OBJECTS: &str = "2BP01";
    pub const WRONG_OBJECT: &str = "42809";
    /// `invalid_schema_name`
    pub const INVALID_SCHEMA: &str = "3F000";
    pub const DUPLICATE_SCHEMA: &str = "42P06";
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// `invalid_recursion`
    pub const INVALID_RECURSION: &str = "42P19";
    pub const GENERATED_ALWAYS: &str = "428C9";
    pub const INDETERMINATE_TYPE: &str = "42P18";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const PROGRAM_LIMIT: &str = "54000";
    pub const TOO_COMPLEX: &str = "54001";
    pub const TOO_MANY_COLUMNS: &str = "54011";
    pub const NOT_READY: &str = "55000";
    pub const OBJECT_IN_USE: &str = "55006";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const CANCELED: &str = "57014";
    pub const INTERNAL: &str = "XX000";
}

impl SqlError {
    /// Removes the position, which refers to another text than the client's.
    #[must_use]
    pub fn nowhere(self) -> SqlError {
        SqlError { position: None, ..self }
    }

    /// True for a data exception, caused by the values of an expression.
    pub fn is_of_data(&self) -> bool {
        self.code.starts_with("22")
    }

    /// An error with this code.
    pub fn new(code: &'static str, message: impl Into<String>) -> SqlError {
        let message = message.into();
        SqlError { code, message, detail: None, hint: None, position: None, about: None }
    }

    /// An error for a feature that is not supported.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(code::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the context: the work of the server when it happened.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.about.get_or_insert_default().context = context.into();
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a constraint of a table.
    #[must_use]
    pub fn about(mut self, schema: &str, table: &str, constraint: &str) -> SqlError {
        let [schema, table, constraint] = [schema, table, constraint].map(str::to_owned);
        self.about = Some(Box::new(About { schema, table, constraint, ..About::default() }));
        self
    }

    /// Adds a column of a table.
    #[must_use]
    pub fn about_column(self, schema: &str, table: &str, column: &str) -> SqlError {
        let mut error = self.about(schema, table, "");
        error.about.iter_mut().for_each(|about| about.column = column.to_owned());
        error
    }

    /// Adds a type, and possibly a constraint of it.
    #[must_use]
    pub fn about_type(self, schema: &str, datatype: &str, constraint: &str) -> SqlError {
        let mut error = self.about(schema, "", constraint);
        error.about.iter_mut().for_each(|about| about.datatype = datatype.to_owned());
        error
    }

    /// Adds a position, unless there is one.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> SqlError {
        self.position = self.position.or(position);
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let Some(position) = self.position {
            write!(f, " at {position}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "; {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

/// A text for an error message, truncated if it is long.
pub fn clipped(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 256;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The most similar name among `known`, if one is similar: for hints.
pub fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = |other: &&str| distance(name, other);
    known.min_by_key(near).filter(|other| distance(name, other) <= 1 + name.len() / 4)
}

/// The edit distance: characters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = corner + usize::from(from != *to);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let known = ["accounts", "tellers", "branches"];
        assert_eq!(similar("acounts", known.into_iter()), Some("accounts"));
        assert_eq!(similar("history", known.into_iter()), None);
    }
}
