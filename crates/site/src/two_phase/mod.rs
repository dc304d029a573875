//! Transactions over several sites: two-phase commit.
//!
//! A transaction that no single site can run is committed by two-phase commit. One of the sites
//! that hold its keys is the **coordinator**; the others are **participants**. The coordinator runs
//! the procedure on the rows that it has gathered, and decides.
//!
//! ```text
//!   coordinator s1                          s2                        s3 (read only)
//!   enter: lock 5, read at t                │                         │
//!   ── enter, t ──────────────────────────▶ lock 12, read at t        │
//!   ── enter, t ────────────────────────────┼───────────────────────▶ read at t, keep t
//!   procedure, on the rows of t             │                         │
//!   ── prepare, its writes, t ────────────▶ mark, log, propose 43     │
//!   decide: mark, log at 44, install ◀───── 43 (durable)              │
//!   durable: the client is answered         │                         │
//!   ┄┄ outcome: 44 ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ log, install at 44       │
//!   ┄┄ outcome: leave ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┼┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ releases t
//!   forgets it ◀┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ done ┄ (durable)
//! ```
//!
//! Straight lines are requests ([`Part`], answered); dotted ones are [messages](crate::Message).
//!
//! **Locks** are taken site by site, in the order of sites and then of keys, by all transactions.
//! So there are no deadlocks. Locked rows are the same at every later time. A participant with
//! unlocked reads may be unable to read at `t`; then the others with unlocked reads read again, at
//! the later time that it could.
//!
//! **One time.** A participant marks its partitions as publishing before it proposes a time, and
//! they stay marked until the outcome. The commit takes a time of the coordinator's clock after all
//! proposals. A snapshot at or after that time waits at the first mark that it meets, so no reader
//! sees half of the transaction. A feed is not closed up to an open proposal or beyond; replicas
//! apply the `end` frame like any commit.
//!
//! **Rows that a serializable transaction has only read** are locked and prepared like the others
//! ([`Part::PrepareAll`]), as an event without rows. So no later commit to their partitions gets a
//! time before the transaction's own, whichever site fails.
//!
//! **Presumed abort.** The coordinator's decision is one frame of its log, with its own writes.
//! Before that it notes the transaction in memory; a crash, or the end of the request, removes the
//! note. A participant that asks about a transaction without note and decision is told *aborted*.
//! So aborts need no log record, no acknowledgement and no time limit at the coordinator.
//!
//! | failed site | the transaction |
//!
//! | who dies | what becomes of the transaction |
//! | --- | --- |
//! | a participant that has only entered | aborts: after the restart it refuses to prepare |
//! | a prepared participant | recovery restores its locks and marks, and it asks the coordinator |
//! | the coordinator, before its decision is durable | aborts: participants ask, there is no record |
//! | the coordinator, later | commits: it finds its decision in its log, and tells the participants |
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`coordinator`] | a transaction from its shares to its decision |
//! | [`participant`] | entering, preparing, ending a part |
//! | [`outcome`] | messages and questions until all participants have ended; recovery |
//!
//! **Left out.** Readers of a marked partition wait even if their snapshot could be earlier, so
//! that a commit can be read at all masters once its client is answered. Another site does not take
//! over the decision of a failed coordinator: participants wait for its restart, as is usual with
//! two-phase commit. A participant logs the writes twice, so that a reader of the log need not join
//! two frames.

pub(crate) mod coordinator;
mod outcome;
pub(crate) mod participant;

use crate::backup::Seen;
use crate::error::Failure;
use crate::frame::TxnId;
use crate::overlay::RowWrite;
use crate::source::GatheredRow;
use isomer_design::{Footprint, SiteId, SiteSet, Time};
use isomer_log::Position;
use participant::Branch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// A request of a coordinator to a participant. Idempotent: repeated, it gets the same answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Lock the keys to write, and read all others as of `at`, or as soon after as possible.
    Enter {
        /// The transaction.
        txn: TxnId,
        /// The participant's share of its footprint.
        footprint: Footprint,
        /// The earliest time to read at.
        at: Time,
    },
    /// Vote on writing these rows at any time after `at`. Without rows: make sure that what was
    /// read is durable.
    Prepare {
        /// The transaction.
        txn: TxnId,
        /// The time of its snapshot.
        at: Time,
        /// The participant's share of its writes, ordered by table and key.
        writes: Vec<RowWrite>,
    },
    /// As [`Part::Prepare`]. In addition all locked partitions stay as they are until the outcome:
    /// a partition without rows to write gets an event without rows.
    PrepareAll {
        /// The transaction.
        txn: TxnId,
        /// The time of its snapshot.
        at: Time,
        /// The participant's share of its writes, ordered by table and key.
        writes: Vec<RowWrite>,
    },
}

/// A participant's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartAnswer {
    /// It has entered.
    Entered(Entered),
    /// It is prepared. The commit time must not be before this time.
    Prepared(Time),
}

/// The rows that a participant has read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entered {
    /// The time of the read.
    pub at: Time,
    /// All of them are locked, so they are the same at any later time.
    pub is_fixed: bool,
    /// The rows.
    pub rows: Vec<GatheredRow>,
}

/// Connects a coordinator to the participants.
#[allow(
    async_fn_in_trait,
    reason = "callers are generic; whether futures are Send is theirs to say"
)]
pub trait Peers {
    /// Sends a request to a participant, and returns the answer of
    /// [`Site::part`](crate::Site::part) there. After [`Failure::Stopped`] it is unknown whether
    /// the request was carried out.
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure>;
}

/// A site's state of transactions over several sites.
#[derive(Default)]
pub(crate) struct TransactionTable {
    /// The number of transactions that this run has begun.
    begun: u64,
    /// Transactions that this site coordinates and may yet commit.
    undecided: BTreeSet<TxnId>,
    /// Transactions that it has committed, and that not all participants are known to have ended.
    decided: BTreeMap<TxnId, Decided>,
    /// Transactions in which it is a participant.
    branches: BTreeMap<TxnId, Branch>,
    /// Transactions that committed here as a participant, to be acknowledged once `Seen` is
    /// durable.
    ended: Vec<(TxnId, Seen)>,
}

/// A decision to commit.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// The time of the commit.
    pub(crate) at: Time,
    /// The end of the decision in the log. Participants are told once the log is durable up to
    /// here.
    pub(crate) position: Position,
    /// The participants that have not acknowledged it.
    pub(crate) waiting: SiteSet,
    /// When they were last told.
    pub(crate) told: Time,
    /// Wakes the coordinator, if its client waits for all acknowledgements.
    pub(crate) waiter: Option<Waker>,
}
