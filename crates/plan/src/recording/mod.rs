//! Workload recordings: who touched what together, and when.
//!
//! Every planner of this crate starts from the same question: *which keys does a transaction touch
//! together, and how often?* A recording answers it, one access a line:
//!
//! ```text
//! time,transaction,table,key,access
//! 0.000120,1,suppliers,1,r
//! 0.000120,1,parts,17,r          transaction 1 touched a supplier and two parts
//! 0.000120,1,parts,42,w
//! 0.000950,2,parts,17,r          transaction 2 touched one part
//! ```
//!
//! * `time`: seconds, with up to six decimals, or an ISO date and time; only differences matter.
//! * `transaction`: a number; the lines of one transaction stand together. A number that comes
//!   back later is an error, for it would join two transactions, or break one in two.
//! * `key`: the value of the column that decides where the row lives, an integer or any text.
//!   Rows that live together by that value are one *vertex* for the planners.
//! * `access`: `r` or `w`.
//!
//! [`CsvReader`] and [`BinaryReader`] stream accesses and hold a line and a few names; [`import`]
//! turns other people's files into the same stream; [`Recording`] is what the planners that need
//! to look twice keep in memory: about 5 bytes an access and 40 a key.
//!
//! # Left out
//!
//! Ranges (a scan is recorded as the keys it returned), values, and the statements themselves.

mod binary;
mod collect;
mod csv;
mod error;
pub mod import;
mod keys;
mod lines;
mod open;
mod stat;

pub(crate) use csv::{parse_key, write_key, write_text};
pub(crate) use lines::{Lines, parse_time};
pub(crate) use open::unpack;

pub use binary::{BINARY_MAGIC, BinaryReader, BinaryWriter};
pub use collect::{Recording, Transaction};
pub use csv::{CSV_HEADER, CsvReader, CsvWriter};
pub use error::{Fault, RecordingError};
pub use keys::{KeyTable, RecordedKey, Vertex};
pub use open::{Reader, numbers, open};
pub use stat::{Statistics, TableStatistics};

/// The key of an access, as it stands in the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyRef<'a> {
    /// An integer key.
    Int(i64),
    /// Any other key.
    Text(&'a str),
}

/// One access of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access<'a> {
    /// When, in microseconds since a moment that the whole recording shares.
    pub time_us: i64,
    /// The number of the transaction.
    pub transaction: u64,
    /// The table.
    pub table: &'a str,
    /// The value of the partitioning column.
    pub key: KeyRef<'a>,
    /// True if the row was written.
    pub write: bool,
}

/// What to do with a malformed line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFault {
    /// End the reading with the error.
    Stop,
    /// Leave the line out, count it, and remember the first few.
    Skip,
}

/// A stream of accesses, the lines of one transaction together.
pub trait Source {
    /// The next access, or `None` at the end. The access borrows the reader's line.
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError>;

    /// The lines left out so far, and the first few of them.
    fn skipped(&self) -> Skipped<'_> {
        Skipped::default()
    }
}

/// Lines that a reader left out.
#[derive(Clone, Copy, Default, Debug)]
pub struct Skipped<'a> {
    /// How many.
    pub lines: u64,
    /// What was wrong with the first of them.
    pub first: &'a [Fault],
}

impl<S: Source + ?Sized> Source for &mut S {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        (**self).next_access()
    }

    fn skipped(&self) -> Skipped<'_> {
        (**self).skipped()
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        (**self).next_access()
    }

    fn skipped(&self) -> Skipped<'_> {
        (**self).skipped()
    }
}
