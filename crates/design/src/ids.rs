//! Identifiers of tables, sites and versions, and the time that they share.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A table of the database. The catalog assigns the numbers, from 1, and never reuses them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// A data site: holds masters and replicas. Sites are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteId(pub u16);

/// The version of a partition: how many events (commits and design changes) its stream has seen.
/// Versions order the redo records of one partition; they say nothing about other partitions.
pub type Version = u64;

/// A point in the one order of all commits of the database, in nanoseconds of a hybrid clock. It is
/// close to real time, and greater than any time that the committing site has seen. Snapshots are
/// cuts through this order (`docs/decisions/0002-commit-times.md`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// Before every commit.
    pub const ZERO: Time = Time(0);
    /// After every commit.
    pub const MAX: Time = Time(u64::MAX >> 1);

    /// The next representable point.
    pub fn next(self) -> Time {
        Time(self.0 + 1)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
