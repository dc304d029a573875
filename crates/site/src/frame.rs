//! The head of a frame of the redo log: its time and its kind.
//!
//! A frame is one atomic step of the site. Most are commits of this site alone. A transaction over
//! several sites is in the logs of all of them ([`crate::two_phase`]):
//!
//! ```text
//!   coordinator s1                 participant s2
//!                                  prepare   what it is going to write; not in effect
//!   decide    its own writes
//!                                  end       the same writes, in effect from the time of s1's frame;
//!                                            or none, if the transaction was aborted
//! ```
//!
//! A reader of the effects of a log (a follower that catches up, a checker) skips prepares and
//! needs to know nothing else about them: [`read_frame`](crate::read_frame) returns no records of a
//! prepare.

use crate::ordered::BatchOutcome;
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

/// The time and the kind of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// When its records took effect; for a prepare, the earliest time at which they can.
    pub time: Time,
    /// Its kind.
    pub kind: FrameKind,
}

/// The purpose of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A step of this site alone.
    Commit,
    /// Events that a replica applied.
    Refresh {
        /// The site whose log it came from.
        from: SiteId,
        /// The position in that log from which to read on.
        position: Position,
    },
    /// This site votes to commit a transaction: only its coordinator can still abort it.
    Prepare(TxnId),
    /// This site, the coordinator, has decided to commit a transaction, and has committed its own
    /// part.
    Decide {
        /// The transaction.
        txn: TxnId,
        /// The participants, which are prepared.
        others: SiteSet,
    },
    /// A prepared transaction has ended here.
    End(TxnId),
    /// How this site takes messages of another site from now on. Logged, because a restart must not
    /// lift a fence.
    Hears(SiteId, Hearing),
    /// The rows of a batch of the total order ([`crate::ordered`]), with its outcome. Before it,
    /// the outcomes of earlier batches that the order may not have durably.
    Batch(Vec<BatchOutcome>),
}

/// How a site takes messages of another site ([`crate::tail`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// It accepts them.
    Open,
    /// Fenced: messages of the other site as a master or coordinator are void.
    Fenced,
    /// Fenced, and other sites have taken over: no request waits for it.
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
    /// For a frame of a replica: the site whose log the records came from, and the position there
    /// from which to read on.
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
            FrameKind::Batch(outcomes) => BatchOutcome::write_all(outcomes, bytes),
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
            7 => FrameKind::Batch(BatchOutcome::read_all(reader.bytes_with_length()?)?),
            _ => return Err(reader.bad("the code of a kind of frame, 1 to 7")),
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
            FrameKind::Batch(_) => 7,
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
