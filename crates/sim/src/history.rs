//! What happened, as far as anybody can say: what clients saw, and what the redo logs hold.
//!
//! ```text
//!   clients   transactions: what each read and wrote, and what it was told      ─┐
//!   logs      commits: who wrote what and when, in the one order of commits      ├─▶ checkers
//!             reigns: who was master of which keys from when to when             │
//!   sites     copies: what each replica holds in the end                        ─┘
//! ```
//!
//! Nobody asks the system whether it behaved. Clients note what they saw, and the rest is read from
//! what the sites' disks hold when all is over. A transaction whose answer was lost is in the
//! history too: it may have committed, and the logs know.

use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};

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

/// A time during which a site was master of some keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reign {
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
    /// In the order of time.
    pub commits: Vec<Commit>,
    /// In no particular order.
    pub reigns: Vec<Reign>,
    /// What is held in the end; empty if the run did not come to its end.
    pub copies: Vec<Copy>,
    /// What the router's design says about it, by table and range.
    pub placements: Vec<(TableId, KeyRange, isomer_design::Placement)>,
}

impl Transaction {
    /// What it wrote in the end: its last write of each key, in the order of keys.
    pub fn writes(&self) -> Vec<Written> {
        let mut writes = std::collections::BTreeMap::new();
        for op in &self.ops {
            if let Op::Write(table, key, value) = op {
                writes.insert((*table, key.clone()), *value);
            }
        }
        writes.into_iter().map(|((table, key), value)| Written { table, key, value }).collect()
    }
}

impl History {
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
