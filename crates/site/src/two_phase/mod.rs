//! Transactions over several sites: two-phase commit.
//!
//! A transaction that no single site can run is **coordinated** by one of the sites that hold its keys;
//! the others **take part**. The coordinator runs the procedure, on rows that it gathers, and decides.
//!
//! ```text
//!   coordinator s1                          s2                        s3 (read only)
//!   enter: lock 5, read at t                │                         │
//!   ── enter, t ──────────────────────────▶ lock 12, read at t        │
//!   ── enter, t ────────────────────────────┼───────────────────────▶ read at t, keep t
//!   procedure, on the rows of t             │                         │
//!   ── prepare, its writes, t ────────────▶ mark, log, propose 43     │
//!   decide: mark, log at 44, install ◀───── 43 (durable)              │
//!   durable: the client is told             │                         │
//!   ┄┄ outcome: 44 ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ log, install at 44       │
//!   ┄┄ outcome: leave ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┼┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ lets go of t
//!   forgets it ◀┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ done ┄ (durable)
//! ```
//!
//! Straight lines are requests ([`Part`], answered); dotted ones are [messages](crate::Message).
//!
//! **Locks** are taken site by site, in the order of sites and then keys, by everyone; so nobody waits in
//! a circle. What is locked is the same at any later time; so only who reads more than that may have to
//! read once more, if another site cannot show what was there at `t`, and the time moves on.
//!
//! **One time.** A participant marks its partitions as publishing before it proposes a time, and they stay
//! marked until the outcome. The commit gets a time of the coordinator's clock after all proposals. So a
//! snapshot at or after it waits at a mark, wherever it looks first: nobody sees half. A feed does not
//! speak for a time at or after an open proposal; replicas follow the `end` as any commit.
//!
//! **What a serializable transaction has only read** is locked and prepared like the rest ([`Part::PrepareAll`]), as an
//! event without rows: so no commit there gets a time before its own that it has not seen, whatever dies meanwhile.
//!
//! **Presumed abort.** The coordinator's decision is one frame of its log, with its own writes. It licenses
//! itself to decide by a note in memory, made before anybody is asked and gone with a crash or with the
//! request. Who asks about a transaction that is neither noted nor decided is told that it was aborted:
//! so an abort needs no record, no acknowledgement and no time limit at the coordinator.
//!
//! | who dies | what becomes of the transaction |
//! | --- | --- |
//! | a participant that has only entered | aborted: it does not know what it is asked to prepare |
//! | a participant that is prepared | it comes back with its locks and marks, and asks |
//! | the coordinator, before its decision is durable | aborted: participants ask, there is no record |
//! | the coordinator, after | committed: it finds its decision in its log, and tells those who wait |
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`coordinator`] | a transaction from its shares to its decision |
//! | [`participant`] | entering, preparing, ending a part |
//! | [`outcome`] | who tells whom, who asks whom, until all have heard; recovery |
//!
//! **Left out.** Readers of a marked partition wait even if their snapshot could be earlier: whatever a
//! client was told can be read at the masters from then on, by anybody. A decision is not handed to
//! another site if the coordinator stays away: participants wait for it (this is what two-phase commit is
//! known for). The writes are in a participant's log twice, so that who reads a log need not join two of
//! its frames.

pub(crate) mod coordinator;
mod outcome;
pub(crate) mod participant;

use crate::backup::Seen;
use crate::error::Failure;
use crate::frame::TxnId;
use crate::source::GatheredRow;
use isomer_design::{Footprint, Key, SiteId, SiteSet, TableId, Time};
use isomer_log::Position;
use participant::Branch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// What a coordinator asks of a participant. Asked twice, it is answered the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Lock what is to be written, and read everything as it is at `at`, or as soon after as can be.
    Enter {
        /// The transaction.
        txn: TxnId,
        /// The participant's share of its footprint.
        footprint: Footprint,
        /// Not before this time.
        at: Time,
    },
    /// Make sure that these rows can be written, whatever happens, at whatever time after `at`. Without
    /// rows: that what was read is durable.
    Prepare {
        /// The transaction.
        txn: TxnId,
        /// The time of its snapshot.
        at: Time,
        /// The participant's share of its writes, ordered by table and key.
        writes: Vec<RowWrite>,
    },
    /// As [`Part::Prepare`], and everything that is locked stays as it is until the outcome, written or not: a
    /// partition without rows to write gets an event without rows.
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
    /// It is prepared: the commit must not be before this time.
    Prepared(Time),
}

/// What a participant has read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entered {
    /// At which time.
    pub at: Time,
    /// It has locked all that it has read: the rows are the same at any later time.
    pub is_fixed: bool,
    /// The rows.
    pub rows: Vec<GatheredRow>,
}

/// A row that a transaction over several sites writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowWrite {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// The value; `None`: it is deleted.
    #[serde(with = "serde_bytes")]
    pub value: Option<Vec<u8>>,
}

/// How a coordinator reaches the sites that take part.
#[allow(
    async_fn_in_trait,
    reason = "callers are generic; whether futures are Send is theirs to say"
)]
pub trait Peers {
    /// Asks a participant: what [`Site::part`](crate::Site::part) answers there.
    /// [`Failure::Stopped`] says nothing about whether the request was carried out.
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure>;
}

/// What a site knows of transactions over several sites.
#[derive(Default)]
pub(crate) struct TransactionTable {
    /// How many were begun by this run.
    begun: u64,
    /// Those that this site coordinates and may yet commit.
    undecided: BTreeSet<TxnId>,
    /// Those that it has committed, and that not all participants are known to have ended.
    decided: BTreeMap<TxnId, Decided>,
    /// Those that it takes part in.
    branches: BTreeMap<TxnId, Branch>,
    /// Those that it took part in and that were committed: to be acknowledged once this is safe.
    ended: Vec<(TxnId, Seen)>,
}

/// A decision to commit.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// The time of the commit.
    pub(crate) at: Time,
    /// Nobody is told before the log is durable up to here.
    pub(crate) position: Position,
    /// The participants that have not acknowledged it.
    pub(crate) waiting: SiteSet,
    /// When they were told last.
    pub(crate) told: Time,
    /// The coordinator, if its client waits until all have acknowledged.
    pub(crate) waiter: Option<Waker>,
}
