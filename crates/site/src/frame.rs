//! What a frame of the redo log is for: its head.
//!
//! A frame is one step of the site, all or nothing. Most are commits of the site's own. A transaction
//! over several sites is in the logs of all of them ([`crate::two_phase`]):
//!
//! ```text
//!   coordinator s1                 participant s2
//!                                  prepare   what it is going to write; not in effect
//!   decide    its own writes
//!                                  end       the same writes, in effect from the time of s1's frame;
//!                                            or none, if the transaction was aborted
//! ```
//!
//! So who reads a log for what is in effect (a follower that catches up, a checker) passes over what is
//! prepared, and needs to know no more: that [`read_frame`](crate::read_frame) gives no records of a
//! prepare sees to it.

use crate::record::{BadFrame, Reader, put_sites};
use isomer_design::{SiteId, SiteSet, Time};
use isomer_log::Position;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The code of [`FrameKind::Decide`].
pub(crate) const DECIDE: u8 = 4;

/// A transaction over several sites.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TxnId {
    /// The site that decides about it.
    pub coordinator: SiteId,
    /// The run of that site in which it began.
    pub incarnation: u64,
    /// Counts the transactions of that run.
    pub number: u64,
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {} of {}", self.number, self.coordinator)
    }
}

/// A frame's place in time, and what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// When its records took effect; of a prepare: the earliest time at which they can.
    pub time: Time,
    /// What it is for.
    pub kind: FrameKind,
}

/// What a frame is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A step of this site alone.
    Commit,
    /// What a replica applied.
    Refresh {
        /// The site whose log it came from.
        from: SiteId,
        /// From where to read on there.
        position: Position,
    },
    /// This site will commit a transaction if its coordinator decides so, and has no say any more.
    Prepare(TxnId),
    /// This site, the coordinator, has decided to commit a transaction, and has done its own part.
    Decide {
        /// The transaction.
        txn: TxnId,
        /// The sites that are prepared.
        others: SiteSet,
    },
    /// A prepared transaction has ended here.
    End(TxnId),
    /// How this site takes the word of another one from now on. A fence holds until it is lifted, so a restart must
    /// not lift it.
    Hears(SiteId, Hearing),
}

/// How a site takes the word of another one ([`crate::tail`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// It listens.
    Open,
    /// What the other one says as a master or coordinator is void.
    Fenced,
    /// So it is, and others have taken over: nobody waits for it.
    Replaced,
}

impl Hearing {
    pub(crate) fn code(self) -> u8 {
        match self {
            Hearing::Open => 0,
            Hearing::Fenced => 1,
            Hearing::Replaced => 2,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Hearing, BadFrame> {
        Ok(match reader.u8()? {
            0 => Hearing::Open,
            1 => Hearing::Fenced,
            2 => Hearing::Replaced,
            _ => return Err(reader.bad("how a site is heard, 0 to 2")),
        })
    }
}

impl FrameKind {
    /// In a replica's log: the site whose log the records came from, and where to read on there.
    pub fn origin(&self) -> Option<(SiteId, Position)> {
        match self {
            FrameKind::Refresh { from, position } => Some((*from, *position)),
            _ => None,
        }
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.code());
        match self {
            FrameKind::Commit => {}
            FrameKind::Refresh { from, position } => {
                bytes.extend_from_slice(&from.0.to_le_bytes());
                bytes.extend_from_slice(&position.to_le_bytes());
            }
            FrameKind::Prepare(txn) | FrameKind::End(txn) => txn.write(bytes),
            FrameKind::Decide { txn, others } => {
                txn.write(bytes);
                put_sites(bytes, others);
            }
            FrameKind::Hears(site, how) => {
                bytes.extend_from_slice(&site.0.to_le_bytes());
                bytes.push(how.code());
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FrameKind, BadFrame> {
        Ok(match reader.u8()? {
            1 => FrameKind::Commit,
            2 => FrameKind::Refresh { from: reader.site()?, position: reader.u64()? },
            3 => FrameKind::Prepare(TxnId::read(reader)?),
            4 => FrameKind::Decide { txn: TxnId::read(reader)?, others: reader.sites()? },
            5 => FrameKind::End(TxnId::read(reader)?),
            6 => FrameKind::Hears(reader.site()?, Hearing::read(reader)?),
            _ => return Err(reader.bad("the code of a kind of frame, 1 to 6")),
        })
    }

    fn code(&self) -> u8 {
        match self {
            FrameKind::Commit => 1,
            FrameKind::Refresh { .. } => 2,
            FrameKind::Prepare(_) => 3,
            FrameKind::Decide { .. } => DECIDE,
            FrameKind::End(_) => 5,
            FrameKind::Hears(..) => 6,
        }
    }
}

impl TxnId {
    pub(crate) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.coordinator.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<TxnId, BadFrame> {
        Ok(TxnId { coordinator: reader.site()?, incarnation: reader.u64()?, number: reader.u64()? })
    }
}
