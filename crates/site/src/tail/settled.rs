//! The effects of the part of a log that a tail no longer keeps.

use super::FrameBytes;
use crate::frame::TxnId;
use isomer_design::{Key, TableId, Time, Version};
use serde::{Deserialize, Serialize};

/// The effects of a log's stable frames, whose bytes are no longer kept.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// Transactions that they have left open.
    pub unended: Vec<(TxnId, Unended)>,
    /// The version to which they have brought each partition. A backup that has acknowledged a
    /// version in memory only may have lost it in a restart.
    pub versions: Vec<((TableId, Key), Version)>,
}

/// A transaction over several sites that a log has left open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unended {
    /// The site is prepared to commit the writes of this frame.
    Prepared(FrameBytes),
    /// The site has decided to commit it, at this time.
    Decided(Time),
}
