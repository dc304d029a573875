//! Requests to run a transaction, and their answers.
//!
//! ```text
//!   Request   footprint, session, body, options ────────▶ site: locks, snapshot, body, commit
//!                     published at 44 ◀───────────────────  its writes can be seen
//!   Reply     committed at 44, output, timing ◀───────────  and are durable
//! ```
//!
//! The answer has two parts. Row locks are released at publication, before the commit is durable. A
//! reader of the rows waits for the same log before its own client is answered.
//!
//! A [`Body`] says what runs on the snapshot. Checked writes and calls by name are data, so any
//! process can send them. Only an embedded caller can pass code.
//!
//! | body | used for |
//! | --- | --- |
//! | [`Body::Writes`] | the commit of a transaction that arrived statement by statement |
//! | [`Body::Validated`] | the same, if it is serializable |
//! | [`Body::Call`] | stored procedures, and deterministic batches, which log and send their input |
//! | [`Body::Here`] | embedded callers |

use crate::error::Abort;
use crate::message::TimeSource;
use crate::txn::Txn;
use crate::validate::{ReadSet, write_validated};
use isomer_design::{Footprint, Key, SiteId, TableId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The code of a transaction. It may run more than once if a first run could not commit, so it must
/// have no effect but through the [`Txn`].
pub trait Procedure {
    /// Runs on one snapshot.
    ///
    /// # Errors
    /// Any [`Abort`] ends the transaction without a commit.
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort>;
}

impl<F: FnMut(&mut Txn<'_>) -> Result<(), Abort>> Procedure for F {
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort> {
        self(txn)
    }
}

/// The branches of a transaction over several sites: each item of its footprint, or piece of an
/// item, is assigned to one site that can serve it.
pub type Shares = BTreeMap<SiteId, Footprint>;

/// Called with the time of a commit once its writes are visible. They are not durable yet, so the
/// client must not be answered.
pub type Published<'a> = &'a mut dyn FnMut(Time);

/// A request to run a transaction.
pub struct Request<'a> {
    /// All keys and ranges that it reads and writes.
    pub footprint: &'a Footprint,
    /// The latest time that its session has seen: its snapshot is not earlier.
    pub session: Time,
    /// Its branches; `None` if one site serves all.
    pub branches: Option<&'a Shares>,
    /// The work.
    pub body: Body<'a>,
    /// Asynchronous commit: the client of a commit at one site is answered before the log has
    /// synced. A crash loses a suffix of such commits, never one from the middle. Other sites learn
    /// of them once they are durable.
    pub is_asynchronous: bool,
    /// Whether the reply reports its timing.
    pub is_measured: bool,
    /// Whether keys that the footprint names as written stay locked until the commit has its time,
    /// also at several sites, even if they are only read. The transaction is serializable if its
    /// footprint names all reads that way. A commit that [validates](Body::Validated) its reads
    /// always does this.
    pub is_serializable: bool,
    /// The seat of the gateway that writes, or 0 for the conductor's own gateway: see
    /// [`Admission`](crate::Admission).
    pub seat: u64,
}

/// The work of a transaction on its snapshot. See the [module documentation](self).
pub enum Body<'a> {
    /// Writes rows, if all of them are as expected.
    Writes(&'a CheckedWrites),
    /// Calls a named procedure of the database.
    Call {
        /// Its name.
        name: &'a str,
        /// Its parameters.
        params: &'a [u8],
    },
    /// Runs code of this process.
    Here(&'a mut dyn Procedure),
    /// Writes rows, if all of them are as expected and the read set is unchanged. The footprint
    /// names the reads as written, so that they are locked until the commit has its time.
    Validated {
        /// The read set.
        reads: &'a ReadSet,
        /// The rows.
        writes: &'a CheckedWrites,
    },
}

/// Writes that take effect all together or not at all.
pub type CheckedWrites = BTreeMap<TableId, BTreeMap<Key, CheckedWrite>>;

/// The write of one row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckedWrite {
    /// The expected state of the row.
    pub expect: Expect,
    /// The new value; `None` deletes the row.
    #[serde(with = "serde_bytes")]
    pub row: Option<Vec<u8>>,
}

/// The state of a row that a write requires at the commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Expect {
    /// The version of this commit; `None`: no row.
    Version(Option<Time>),
    /// Any: the writer has checked and locked another row instead.
    Anything,
}

/// A transaction that has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Committed {
    /// The time of its snapshot.
    pub snapshot: Time,
    /// The time of its writes; `None` if it wrote nothing.
    pub commit: Option<Time>,
}

impl Committed {
    /// The latest time that the session has seen now.
    pub fn session(&self) -> Time {
        self.commit.unwrap_or(self.snapshot)
    }
}

/// The answer to a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Its snapshot and commit time.
    pub committed: Committed,
    /// The result of a [call](Body::Call); otherwise empty.
    #[serde(with = "serde_bytes")]
    pub output: Vec<u8>,
    /// Its timing, if [requested](Request::is_measured).
    pub timing: Option<Timing>,
}

/// The phases of a transaction at its site, in nanoseconds.
///
/// ```text
///   arrived   locked   body begins   ends        durable
///      ├─ lock ──┼── wait ──┼── run ───┼── commit ──┤
///                ├──────── held ────────────┤ published
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timing {
    /// Waiting for locks.
    pub lock_ns: u64,
    /// Waiting for replicas to be up to date.
    pub wait_ns: u64,
    /// Running the body.
    pub run_ns: u64,
    /// From the end of the body until all is durable.
    pub commit_ns: u64,
    /// How long it held locks; 0 if it wrote nothing.
    pub held_ns: u64,
    /// Rows read and written.
    pub rows: [usize; 2],
}

impl Timing {
    /// From the arrival until all was durable.
    pub fn total_ns(&self) -> u64 {
        self.lock_ns + self.wait_ns + self.run_ns + self.commit_ns
    }
}

impl<'a> Request<'a> {
    /// A request of a new session, at one site, with default options.
    pub fn new(footprint: &'a Footprint, body: Body<'a>) -> Request<'a> {
        let (session, branches) = (Time::ZERO, None);
        let (is_asynchronous, is_measured) = (false, false);
        let is_serializable = matches!(body, Body::Validated { .. });
        Request {
            footprint,
            session,
            branches,
            body,
            is_asynchronous,
            is_measured,
            is_serializable,
            seat: 0,
        }
    }

    /// The same request, [serializable](Request::is_serializable).
    #[must_use]
    pub fn serializable(self) -> Request<'a> {
        Request { is_serializable: true, ..self }
    }

    /// The same request, for another attempt.
    pub fn again(&mut self) -> Request<'_> {
        let body = match &mut self.body {
            Body::Writes(writes) => Body::Writes(writes),
            Body::Call { name, params } => Body::Call { name, params },
            Body::Here(procedure) => Body::Here(&mut **procedure),
            Body::Validated { reads, writes } => Body::Validated { reads, writes },
        };
        Request { body, ..*self }
    }
}

impl Body<'_> {
    pub(crate) fn run(
        &mut self,
        txn: &mut Txn<'_>,
        procedures: &Procedures,
    ) -> Result<Vec<u8>, Abort> {
        match self {
            Body::Here(procedure) => procedure.run(txn).map(|()| Vec::new()),
            Body::Writes(writes) => write_checked(writes, txn).map(|()| Vec::new()),
            Body::Call { name, params } => procedures.get(name)?(txn, params),
            Body::Validated { reads, writes } => {
                write_validated(reads, writes, txn).map(|()| Vec::new())
            }
        }
    }
}

pub(crate) fn write_checked(writes: &CheckedWrites, txn: &mut Txn<'_>) -> Result<(), Abort> {
    for (&table, rows) in writes {
        for (key, write) in rows {
            let newest = txn.committed(table, key)?.map(|(time, _)| time);
            if matches!(write.expect, Expect::Version(expected) if expected != newest) {
                return Err(Abort::Changed { table, key: key.clone() });
            }
            match &write.row {
                Some(row) => txn.put(table, key, row)?,
                None if newest.is_some() => {
                    txn.delete(table, key)?;
                }
                None => {}
            }
        }
    }
    Ok(())
}

type Named = Box<dyn Fn(&mut Txn<'_>, &[u8]) -> Result<Vec<u8>, Abort> + Send + Sync>;

/// The procedures that can be called by name, the same at all sites.
///
/// As any body, one may be run more than once, and has no effect but through the [`Txn`].
#[derive(Default)]
pub struct Procedures(BTreeMap<String, Named>);

impl Procedures {
    /// Adds a procedure; replaces an earlier one of this name.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        procedure: impl Fn(&mut Txn<'_>, &[u8]) -> Result<Vec<u8>, Abort> + Send + Sync + 'static,
    ) {
        self.0.insert(name.into(), Box::new(procedure));
    }

    fn get(&self, name: &str) -> Result<&Named, Abort> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            Abort::UnknownProcedure { name: name.to_owned(), known: known.join(", ") }
        })
    }
}

/// The stages of a transaction at its site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Arrived,
    Locked,
    Begun,
    Ended,
    Published,
    Durable,
}

/// State of a running transaction for its publication and its reply.
pub(crate) struct Progress<'a> {
    published: Published<'a>,
    output: Vec<u8>,
    /// The clock, read at each stage, if the transaction is measured.
    clock: Option<&'a dyn TimeSource>,
    marks: [Time; 6],
    rows: [usize; 2],
}

impl<'a> Progress<'a> {
    pub(crate) fn new(clock: Option<&'a dyn TimeSource>, published: Published<'a>) -> Progress<'a> {
        let (output, marks, rows) = (Vec::new(), [Time::ZERO; 6], [0; 2]);
        Progress { published, output, clock, marks, rows }
    }

    /// Records that a stage is reached. The locks may be taken more than once, if partitions are
    /// replaced meanwhile; the first time counts, because the later waits are not for locks.
    pub(crate) fn pass(&mut self, mark: Mark) {
        let Some(clock) = self.clock else { return };
        let at = &mut self.marks[mark as usize];
        if mark != Mark::Locked || *at == Time::ZERO {
            *at = clock.now();
        }
    }

    pub(crate) fn run(
        &mut self,
        body: &mut Body<'_>,
        txn: &mut Txn<'_>,
        procedures: &Procedures,
    ) -> Result<(), Abort> {
        self.pass(Mark::Begun);
        self.output = body.run(txn, procedures)?;
        self.pass(Mark::Ended);
        self.rows = txn.rows();
        Ok(())
    }

    pub(crate) fn published(&mut self, time: Time) {
        self.pass(Mark::Published);
        (self.published)(time);
    }

    /// The reply of a transaction that is durable.
    pub(crate) fn reply(mut self, committed: Committed) -> Reply {
        self.pass(Mark::Durable);
        let between = |from: Mark, to: Mark| {
            self.marks[to as usize].0.saturating_sub(self.marks[from as usize].0)
        };
        let timing = self.clock.is_some().then(|| Timing {
            lock_ns: between(Mark::Arrived, Mark::Locked),
            wait_ns: between(Mark::Locked, Mark::Begun),
            run_ns: between(Mark::Begun, Mark::Ended),
            commit_ns: between(Mark::Ended, Mark::Durable),
            held_ns: between(Mark::Locked, Mark::Published),
            rows: self.rows,
        });
        Reply { committed, output: self.output, timing }
    }
}
