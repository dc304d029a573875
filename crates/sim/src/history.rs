//! The history of a run: the observations of clients, and the contents of the redo logs.
//!
//! ```text
//!   clients   transactions: their reads and writes, and the answers to their clients ─┐
//!   logs      commits: site, writes and time, in the one order of commits             ├─▶ checkers
//!             terms: the master of each key range over time                           │
//!   sites     copies: the rows of each replica in the end                             ─┘
//! ```
//!
//! The system is not asked whether it behaved. Clients record what they saw, and the rest is read
//! from the sites' disks at the end. A transaction whose answer was lost is in the history, too: it
//! may have committed, and the logs tell.

use isomer_cluster::Isolation;
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::Position;
use isomer_site::RowWrite;
use std::collections::BTreeMap;

/// Values of rows. A run never writes the same value twice, so a value identifies its writer.
pub type Value = i64;

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// It read a key, and found this.
    Read(TableId, Key, Option<Value>),
    /// It scanned a range, and found these rows.
    Scan(TableId, KeyRange, Vec<(Key, Value)>),
    /// It wrote a key, or deleted it.
    Write(TableId, Key, Option<Value>),
}

/// The answer to a client about its transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has committed.
    Committed {
        /// The site.
        site: SiteId,
        /// Its snapshot.
        snapshot: Time,
        /// The time of its writes; `None` if it wrote nothing.
        commit: Option<Time>,
    },
    /// It had no effect, for this reason.
    Nothing(String),
    /// No answer came.
    Unknown,
}

/// One transaction, as its client saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its client's session. A session's transactions are in order.
    pub session: u64,
    /// The operations of the procedure's last run.
    pub ops: Vec<Op>,
    /// The answer to the client.
    pub outcome: Outcome,
}

/// A transaction that arrived statement by statement, as its client saw it. Its writes are in a
/// [`Transaction`] as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// Its number.
    pub number: u64,
    /// Its isolation level.
    pub isolation: Isolation,
    /// The operations of its client, with their results.
    pub steps: Vec<OpenStep>,
    /// The final answer to the client.
    pub outcome: Outcome,
}

/// One operation of a client in an open transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenStep {
    /// A statement began. By then, some client had been told of a commit at this time.
    Begin(Time),
    /// It read this, at the time of its snapshot.
    Read(Option<Time>, Op),
    /// It locked a row, and read its newest version.
    Locked {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The value.
        value: Option<Value>,
        /// The commit time of the version.
        base: Option<Time>,
        /// The snapshot, if the transaction has one for all statements.
        snapshot: Option<Time>,
        /// When it asked for the lock, some client had been told of a commit at this time.
        acknowledged: Time,
    },
    /// It wrote a row that it had locked, or deleted it.
    Write {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The value.
        value: Option<Value>,
        /// The version that the write replaces.
        base: Option<Time>,
    },
    /// It wrote or deleted a row that is protected by the lock of another row.
    Entered {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The value.
        value: Option<Value>,
        /// The version that the transaction saw before; `None`: it saw none.
        base: Option<Time>,
    },
    /// It set a savepoint.
    Savepoint,
    /// It rolled back to the savepoint of this number; later ones are released.
    BackTo(usize),
}

/// The remaining writes of an open transaction: the value of each row, and the version that it
/// replaces.
pub type Left = BTreeMap<(TableId, Key), (Option<Value>, Option<Time>)>;

impl Open {
    /// Why a transaction had no effect: it met the write of another transaction.
    pub const CHANGED: &str = "a row has changed";
    /// Why it had no effect, though others may have seen it.
    pub const UNDONE: &str = "it is gone with its site";
    /// Why it had no effect, though it committed.
    pub const ONLY_READ: &str = "it only read";

    /// Its writes that it has not rolled back.
    pub fn left(&self) -> Left {
        let (mut left, mut savepoints) = (Left::new(), Vec::new());
        for step in &self.steps {
            match step {
                OpenStep::Write { table, key, value, base }
                | OpenStep::Entered { table, key, value, base } => {
                    left.insert((*table, key.clone()), (*value, *base));
                }
                OpenStep::Savepoint => savepoints.push(left.clone()),
                OpenStep::BackTo(number) => {
                    savepoints.truncate(number + 1);
                    left.clone_from(&savepoints[*number]);
                }
                _ => {}
            }
        }
        left
    }

    /// The same as its commit has them: a row that it inserted and deleted was never there.
    pub fn written(&self) -> Vec<Op> {
        let left = self.left().into_iter();
        let there = left.filter(|(_, (value, base))| value.is_some() || base.is_some());
        there.map(|((table, key), (value, _))| Op::Write(table, key, value)).collect()
    }
}

/// A commit, as the redo logs of its masters have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The site whose log decides about it.
    pub site: SiteId,
    /// Its time.
    pub time: Time,
    /// Its writes.
    pub writes: Vec<Written>,
    /// The writes of each site.
    pub parts: Vec<(SiteId, Vec<Written>)>,
}

/// A row of a commit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Written {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// The value; `None`: deleted.
    pub value: Option<Value>,
}

/// The state of the disks when a client was told of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The site whose log decides about the commit.
    pub site: SiteId,
    /// The time of the commit.
    pub time: Time,
    /// The durable position of each site's log.
    pub durable: Vec<(SiteId, Position)>,
    /// The backups of each table.
    pub backups: BTreeMap<TableId, Backups>,
}

/// An item in a replica's log that was committed at another site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The replica's site.
    pub site: SiteId,
    /// Its position in the log.
    pub position: Position,
    /// The table.
    pub table: TableId,
    /// The item.
    pub what: CopiedWhat,
}

/// See [`Copied`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopiedWhat {
    /// A row of the commit at this time.
    Row(Key, Time),
    /// All rows of a range, as of this time.
    Range(KeyRange, Time),
}

/// A term: one uninterrupted mastership of some keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// The site.
    pub site: SiteId,
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// The first event as master.
    pub from: Time,
    /// The last event; `None` if the term has not ended.
    pub until: Option<Time>,
}

/// A copy of a partition at the end of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copy {
    /// The site.
    pub site: SiteId,
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// Events so far.
    pub version: Version,
    /// The site of the master; `None` if this is the master's copy.
    pub source: Option<SiteId>,
    /// At the master, its followers.
    pub followers: SiteSet,
    /// The rows.
    pub rows: Vec<(Key, Value)>,
}

/// A batch of the total order, as its log and the logs of sites have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Its number.
    pub number: u64,
    /// The number of its commits; `None` if it is not in the order.
    pub commits: Option<usize>,
    /// Its time, and which of its commits were applied, by each log that knows it:
    /// [`History::NO_SITE`] stands for the order itself.
    pub outcomes: Vec<(SiteId, Time, Vec<bool>)>,
    /// The rows that its applied commits write.
    pub ordered: Vec<RowWrite>,
    /// The rows that sites have installed.
    pub installed: Vec<(SiteId, RowWrite)>,
    /// The rows of its time that replicas have in their logs.
    pub copied: Vec<(SiteId, RowWrite)>,
}

/// The input of the checkers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History {
    /// In the order in which clients began them.
    pub transactions: Vec<Transaction>,
    /// Transactions that arrived statement by statement, in the order in which they began.
    pub opens: Vec<Open>,
    /// Row locks that were granted to two holders, as messages.
    pub conflicts: Vec<String>,
    /// In the order of time.
    pub commits: Vec<Commit>,
    /// The rows that sites have installed, if there are ordered tables: those of a batch are one
    /// commit there, with stubs and fused rows. Otherwise empty, as they are the commits.
    pub installed: Vec<Commit>,
    /// The batches of the total order, in this order.
    pub batches: Vec<Batch>,
    /// The rows that have moved between sites without a client's write, and when.
    pub moves: Vec<(TableId, Key, Time)>,
    /// In no particular order.
    pub terms: Vec<Term>,
    /// In the order in which clients were told.
    pub acks: Vec<Ack>,
    /// From all logs, each in its order.
    pub copied: Vec<Copied>,
    /// The copies at the end; empty if the run did not reach it.
    pub copies: Vec<Copy>,
    /// The placements in the router's design, by table and range.
    pub placements: Vec<(TableId, KeyRange, isomer_design::Placement)>,
    /// Which sites share a process.
    pub domains: isomer_design::Domains,
}

impl Transaction {
    /// Its final writes: the last write of each key, in the order of keys.
    pub fn writes(&self) -> Vec<Written> {
        let mut writes = BTreeMap::new();
        for op in &self.ops {
            if let Op::Write(table, key, value) = op {
                writes.insert((*table, key.clone()), *value);
            }
        }
        writes.into_iter().map(|((table, key), value)| Written { table, key, value }).collect()
    }
}

impl History {
    /// The site of a commit of which only the rows are known, until it is
    /// [located](History::locate).
    pub const NO_SITE: SiteId = SiteId(0);

    /// Finds in the logs the sites of commits of which the client was told the time only.
    pub fn locate(&mut self) {
        let opens = self.opens.iter_mut();
        let mut open: BTreeMap<u64, _> = opens.map(|open| (u64::MAX - open.number, open)).collect();
        for transaction in &mut self.transactions {
            let writes = transaction.writes();
            let Outcome::Committed { site, commit: Some(time), .. } = &mut transaction.outcome
            else {
                continue;
            };
            let found = |commit: &&Commit| commit.time == *time && commit.writes == writes;
            let Some(commit) = self.commits.iter().find(found).filter(|_| *site == Self::NO_SITE)
            else {
                continue;
            };
            *site = commit.site;
            let is_its_own = |ack: &&mut Ack| ack.site == Self::NO_SITE && ack.time == commit.time;
            self.acks.iter_mut().filter(is_its_own).for_each(|ack| ack.site = commit.site);
            if let Some(open) = open.get_mut(&transaction.session) {
                open.outcome = transaction.outcome.clone();
            }
        }
    }

    /// True if there are ordered tables.
    pub fn is_ordered(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The commits as sites have installed them: a batch of the order is one.
    pub fn installed(&self) -> &[Commit] {
        if self.is_ordered() { &self.installed } else { &self.commits }
    }

    /// The commits of a site at a time. A batch has several.
    pub fn at(&self, site: SiteId, time: Time) -> impl Iterator<Item = &Commit> {
        self.commits.iter().filter(move |commit| commit.site == site && commit.time == time)
    }

    /// The newest write of a key at or before a time, with its time.
    pub fn newest(&self, table: TableId, key: &Key, at: Time) -> Option<(Time, Option<Value>)> {
        let end = self.commits.partition_point(|commit| commit.time <= at);
        self.commits[..end].iter().rev().find_map(|commit| {
            let written = commit.writes.iter().find(|w| w.table == table && w.key == *key)?;
            Some((commit.time, written.value))
        })
    }

    /// The commit that gave a key a value.
    pub fn written(&self, table: TableId, key: &Key, value: Option<Value>) -> Option<&Commit> {
        self.commits.iter().find(|commit| {
            commit.writes.iter().any(|w| w.table == table && w.key == *key && w.value == value)
        })
    }
}
