//! The number of a database.

use std::fmt;

/// A database's number, drawn at random when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatabaseId(pub u128);

impl DatabaseId {
    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<DatabaseId> {
        u128::from_str_radix(text, 16).ok().map(DatabaseId)
    }
}

impl DatabaseId {
    /// The number of the cluster whose processes have the database.
    pub fn cluster(self) -> u64 {
        // All bits are random, so either half will do.
        self.0 as u64
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
