//! A hot lock: what sites observe, and strategies split.

use crate::{Key, TableId};
use serde::{Deserialize, Serialize};

/// A partition whose lock many transactions wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HotLock {
    /// Its table.
    pub table: TableId,
    /// Where the partition begins.
    pub start: Key,
    /// How many wait.
    pub waiting: usize,
    /// Keys that they want to write there: a sample, the oldest first.
    pub keys: Vec<Key>,
}
