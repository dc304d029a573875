//! What happened, as far as anybody can say: what clients saw, and what the redo logs hold.
//!
//! ```text
//!   clients   transactions: what each read and wrote, and what it was told      ─┐
//!   logs      commits: who wrote what and when, in the one order of commits      ├─▶ checkers
//!             terms: who was master of which keys from when to when             │
//!   sites     copies: what each replica holds in the end                        ─┘
//! ```
//!
//! Nobody asks the system whether it behaved. Clients note what they saw, and the rest is read from
//! what the sites' disks hold when all is over. A transaction whose answer was lost is in the
//! history too: it may have committed, and the logs know.

use isomer_cluster::Isolation;
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::Position;
use std::collections::BTreeMap;

/// Values of rows. A run never writes the same one twice, so a value names its writer.
pub type Value = i64;

/// One thing that a transaction did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// It read a key, and found this.
    Read(TableId, Key, Option<Value>),
    /// It scanned a range, and found these rows.
    Scan(TableId, KeyRange, Vec<(Key, Value)>),
    /// It wrote a key, or deleted it.
    Write(TableId, Key, Option<Value>),
}

/// What a client was told about its transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has committed.
    Committed {
        /// Where.
        site: SiteId,
        /// What it saw.
        snapshot: Time,
        /// When it wrote; `None` if it wrote nothing.
        commit: Option<Time>,
    },
    /// It has had no effect, for this reason.
    Nothing(String),
    /// No answer came.
    Unknown,
}

/// One transaction, as its client saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its client's session. A session's transactions are in order.
    pub session: u64,
    /// What the procedure did when it last ran.
    pub ops: Vec<Op>,
    /// What the client was told.
    pub outcome: Outcome,
}

/// A transaction that arrived statement by statement, as its client saw it. What it has written is in a
/// [`Transaction`] as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// Its number.
    pub number: u64,
    /// How much it sees of others.
    pub isolation: Isolation,
    /// What its client did and was told.
    pub steps: Vec<OpenStep>,
    /// What the client was told in the end.
    pub outcome: Outcome,
}

/// One thing that a client did in an open transaction, or was told.
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
        /// The commit of the version.
        base: Option<Time>,
        /// The snapshot of a transaction that sees one time.
        snapshot: Option<Time>,
        /// Some client had been told of a commit at this time when it asked for the lock.
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
        /// The version that this is in place of.
        base: Option<Time>,
    },
    /// It wrote a row, or deleted it, whose lock is that of another row.
    Entered {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The value.
        value: Option<Value>,
        /// The version that was there, as far as it could see.
        base: Option<Time>,
    },
    /// It marked a place to go back to.
    Savepoint,
    /// It went back to the place of this number; later ones are gone.
    BackTo(usize),
}

/// What is left of the writes of an open transaction: for each row its value, and the version that this is in
/// place of.
pub type Left = BTreeMap<(TableId, Key), (Option<Value>, Option<Time>)>;

impl Open {
    /// Why a transaction had no effect that has met another one's write.
    pub const CHANGED: &str = "a row has changed";
    /// Why it had none, though others may have seen it.
    pub const UNDONE: &str = "it is gone with its site";
    /// Why it had none, though it has committed.
    pub const ONLY_READ: &str = "it only read";

    /// What it has written and not undone.
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

    /// The same as a commit has it: a row that it has made and deleted was never there.
    pub fn written(&self) -> Vec<Op> {
        let left = self.left().into_iter();
        let there = left.filter(|(_, (value, base))| value.is_some() || base.is_some());
        there.map(|((table, key), (value, _))| Op::Write(table, key, value)).collect()
    }
}

/// A commit, as the redo logs of its masters tell it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Whose log decides about it.
    pub site: SiteId,
    /// When it was.
    pub time: Time,
    /// What was written.
    pub writes: Vec<Written>,
    /// Who wrote it: the site alone, or several sites, each its part of the writes.
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

/// A client was told of a commit, and by then the disks held this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Whose log decides about the commit.
    pub site: SiteId,
    /// When it was.
    pub time: Time,
    /// Up to where each site's log was durable.
    pub durable: Vec<(SiteId, Position)>,
    /// What each table asked for.
    pub backups: BTreeMap<TableId, Backups>,
}

/// Something that a replica's log holds of what was committed elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The replica's site.
    pub site: SiteId,
    /// Where it is in the log.
    pub position: Position,
    /// The table.
    pub table: TableId,
    /// What it is.
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

/// A time during which a site was master of some keys.
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
    /// The last one; `None` if it is master still.
    pub until: Option<Time>,
}

/// What a site holds of a partition when all is over.
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
    /// The site's master; `None` if this is the master's copy.
    pub source: Option<SiteId>,
    /// At the master, who follows.
    pub followers: SiteSet,
    /// The rows.
    pub rows: Vec<(Key, Value)>,
}

/// Everything that checkers look at.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History {
    /// As the clients began them.
    pub transactions: Vec<Transaction>,
    /// Those that arrived statement by statement, as they began.
    pub opens: Vec<Open>,
    /// Row locks that were granted to two at a time, in words.
    pub conflicts: Vec<String>,
    /// In the order of time.
    pub commits: Vec<Commit>,
    /// In no particular order.
    pub terms: Vec<Term>,
    /// As clients were told.
    pub acks: Vec<Ack>,
    /// Of all logs, each in its order.
    pub copied: Vec<Copied>,
    /// What is held in the end; empty if the run did not come to its end.
    pub copies: Vec<Copy>,
    /// What the router's design says about it, by table and range.
    pub placements: Vec<(TableId, KeyRange, isomer_design::Placement)>,
    /// Which sites share a process.
    pub domains: isomer_design::Domains,
}

impl Transaction {
    /// What it wrote in the end: its last write of each key, in the order of keys.
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
    /// Where a transaction has committed of which only its rows have told, until it is [located](History::locate).
    pub const NO_SITE: SiteId = SiteId(0);

    /// Finds in the logs where transactions have committed that were told only when.
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

    /// The newest write of a key at or before a time, and when it was.
    pub fn newest(&self, table: TableId, key: &Key, at: Time) -> Option<(Time, Option<Value>)> {
        let end = self.commits.partition_point(|commit| commit.time <= at);
        self.commits[..end].iter().rev().find_map(|commit| {
            let written = commit.writes.iter().find(|w| w.table == table && w.key == *key)?;
            Some((commit.time, written.value))
        })
    }

    /// When a key was given a value.
    pub fn written(&self, table: TableId, key: &Key, value: Option<Value>) -> Option<&Commit> {
        self.commits.iter().find(|commit| {
            commit.writes.iter().any(|w| w.table == table && w.key == *key && w.value == value)
        })
    }
}
