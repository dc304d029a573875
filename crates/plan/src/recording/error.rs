//! What can be wrong with a recording, and where.

use std::fmt;
use std::io;
use thiserror::Error;

/// A malformed line: where, what, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The line, from 1; line 1 is the header.
    pub line: u64,
    /// The first character of the field, from 1.
    pub column: usize,
    /// The field's name.
    pub field: &'static str,
    /// What stands there, and what would be right.
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
    /// The bytes could not be had.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// A malformed line.
    #[error("{0}")]
    Malformed(Fault),
    /// The first line does not name the columns.
    #[error("the header is \"{found}\", expected {expected}")]
    Header {
        /// What the first line says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// A binary recording ends early or holds what the form does not allow.
    #[error("binary recording, byte {at}: {problem}")]
    Binary {
        /// How many bytes were read before.
        at: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// The numbers of transactions do not separate transactions.
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
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
    /// A recording cannot be cut there.
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
