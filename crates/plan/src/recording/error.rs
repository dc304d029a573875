//! Faults of recordings, with their positions.

use std::fmt;
use std::io;
use thiserror::Error;

/// A malformed line: position, fault, and the right form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The line, from 1; line 1 is the header.
    pub line: u64,
    /// The first character of the field, from 1.
    pub column: usize,
    /// The field's name.
    pub field: &'static str,
    /// The fault, and the right form.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {} ({}): {}", self.line, self.column, self.field, self.problem)
    }
}

/// Why a recording cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The bytes could not be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// A malformed line.
    #[error("{0}")]
    Malformed(Fault),
    /// The first line does not name the columns.
    #[error("the header is \"{found}\", expected {expected}")]
    Header {
        /// The first line.
        found: String,
        /// The expected first line.
        expected: String,
    },
    /// A binary recording ends early or holds what the form does not allow.
    #[error("binary recording, byte {at}: {problem}")]
    Binary {
        /// The bytes read before the fault.
        at: u64,
        /// The fault.
        problem: &'static str,
    },
    /// A number of a transaction returns after other transactions.
    #[error(
        "transaction {0} comes back after others: lines of one transaction must stand together \
         and numbers must not repeat (sort the recording by transaction, or renumber it)"
    )]
    TransactionComesBack(u64),
    /// Nothing was recorded.
    #[error("the recording is empty: it needs at least one access")]
    Empty,
    /// More tables or keys than can be numbered.
    #[error("too many {what}: {limit} can be held")]
    TooMany {
        /// The kind that there are too many of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A share at which a recording cannot be cut.
    #[error("cannot hold out {0} of the recording: a share above 0 and below 1 is needed")]
    Share(f64),
    /// A name that no table of the recording has.
    #[error("no table \"{name}\" in the recording; it has {known}")]
    UnknownTable {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}
