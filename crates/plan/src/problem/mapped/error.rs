//! Mismatches between recorded keys and a design.

use isomer_design::{Invalid, RowError, SITES_MAX, SchemaError, SiteId};
use thiserror::Error;

/// Why recorded keys do not fit a design, or a placement is no design.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MappedError {
    /// A recorded table that the design lacks.
    #[error("the recording has table {table}, the design has {known}: add the table to the design")]
    UnknownTable {
        /// The table.
        table: String,
        /// The tables of the design.
        known: String,
    },
    /// A recorded key that is none of its table.
    #[error("\"{key}\" is no key of table {table}, whose first key column is {column}: {problem}")]
    Key {
        /// The key.
        key: String,
        /// Its table.
        table: String,
        /// The first key column, and its type.
        column: String,
        /// The fault of the key.
        problem: String,
    },
    /// The rows of one recorded key are on several sites.
    #[error(
        "the rows of {key} are on {first} and on {second}: record the column that decides where \
         rows are"
    )]
    Cut {
        /// The recorded key.
        key: String,
        /// The site of its first rows.
        first: SiteId,
        /// Another of its sites.
        second: SiteId,
    },
    /// Two recorded keys that are one in the design.
    #[error("{first} and {second} are the same key in the design: record it in one way")]
    Same {
        /// One key.
        first: String,
        /// The other key.
        second: String,
    },
    /// A number below the highest site is unused.
    #[error("the design lacks {missing}: planners number sites from s1 on without gaps")]
    Gap {
        /// The lowest unused number.
        missing: SiteId,
    },
    /// More sites than a design can have.
    #[error("{sites} sites: a design has at most {SITES_MAX}")]
    Sites {
        /// The sites.
        sites: usize,
    },
    /// A table whose name no design could have.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A key that is too long.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A step that is not possible.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
