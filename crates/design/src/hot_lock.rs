//! A hot lock: reported by sites, and split by strategies.

use crate::{Key, TableId};
use serde::{Deserialize, Serialize};

/// A partition whose lock many transactions wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HotLock {
    /// Its table.
    pub table: TableId,
    /// The first key of the partition.
    pub start: Key,
    /// The number of waiting transactions.
    pub waiting: usize,
    /// A sample of the keys that they want to write there, oldest first.
    pub keys: Vec<Key>,
}
