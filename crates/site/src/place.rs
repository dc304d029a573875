//! Partitions by name, in messages and state.

use isomer_design::{Key, TableId, Version};
use serde::{Deserialize, Serialize};

/// A partition, by its table and first key.
pub(crate) type Place = (TableId, Key);

/// A partition that has reached a version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reached {
    /// The table.
    pub table: TableId,
    /// The partition's first key.
    pub start: Key,
    /// The version.
    pub version: Version,
}
