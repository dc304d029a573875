//! Workload recordings: the keys that transactions touched together, and when.
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
//! * `transaction`: a number; the lines of one transaction are adjacent. A number that returns
//!   later is an error, because it would join two transactions or split one.
//! * `key`: the value of the partitioning column, an integer or any text. Rows with the same value
//!   are one *vertex* for the planners.
//! * `access`: `r` or `w`.
//!
//! [`CsvReader`] and [`BinaryReader`] stream accesses and keep a line and a few names in memory.
//! [`import`] converts files of other projects into the same stream. [`Recording`] holds a
//! recording in memory, for planners that read it more than once: about 5 bytes per access and 40
//! per key.
//!
//! # Left out
//!
//! Left out: ranges (a scan is recorded as the keys it returned), values, and the statements
//! themselves.

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
    /// The time in microseconds since a moment common to the whole recording.
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

/// The reaction to a malformed line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFault {
    /// Stop with the error.
    Stop,
    /// Skip the line, count it, and remember the first few.
    Skip,
}

/// A stream of accesses; the lines of one transaction are adjacent.
pub trait Source {
    /// The next access, or `None` at the end. The access borrows the reader's line.
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError>;

    /// The lines skipped so far, and the first few of them.
    fn skipped(&self) -> Skipped<'_> {
        Skipped::default()
    }
}

/// Lines that a reader skipped.
#[derive(Clone, Copy, Default, Debug)]
pub struct Skipped<'a> {
    /// Their number.
    pub lines: u64,
    /// The faults of the first of them.
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
