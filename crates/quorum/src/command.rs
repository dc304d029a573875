//! The data of an entry: a command of a process, which names the process, so that it recognizes its
//! own when the entry is committed.

use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

/// Identifies a request of a process in one of its runs.
pub type Ticket = u64;

/// Records with their offsets and the places of their writers.
pub type Records = Vec<(u64, usize, Vec<u8>)>;

/// A command.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Command<'c> {
    /// The member that asks for it, as a place in the list of names.
    pub(crate) origin: u64,
    /// The run of that process.
    pub(crate) run: u64,
    pub(crate) ticket: Ticket,
    #[serde(borrow)]
    pub(crate) body: Body<'c>,
}

/// The contents of a command. Variants are stored: new ones are added at the end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Body<'c> {
    /// A record of the partition.
    #[serde(borrow)]
    Record(&'c Bytes),
    /// The records before this offset are not needed any more.
    RemoveBefore(u64),
}

impl Command<'_> {
    pub(crate) fn write(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("commands have no rules of their own")
    }

    /// Parses the data of an entry; `None` for that of a new leader, which is empty.
    pub(crate) fn read(data: &[u8]) -> Option<Command<'_>> {
        postcard::from_bytes(data).ok()
    }
}

/// True if the data of an entry contains a record.
pub(crate) fn is_record(data: &[u8]) -> bool {
    matches!(Command::read(data), Some(Command { body: Body::Record(_), .. }))
}
