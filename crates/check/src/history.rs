//! Histories: what clients did, saw and were told.
//!
//! ```text
//!   a s1 3..8: read x [1 2]; append x 3, read y []      committed, in session s1, from step 3 to 8
//!   b s2 4.. unknown: append x 4                        no answer arrived: it may have committed
//!   c failed snapshot: append y 5                       had no effect; ran at snapshot isolation
//! ```
//!
//! Each line is a transaction. `;` separates its statements; the operations of a statement happen
//! at one moment. Steps count the begins and ends of all clients' transactions. A transaction
//! without steps may have run at any time.

use std::fmt;
use std::str::FromStr;

/// The name of a list.
pub type Key = String;

/// A number that is appended to a list, at most once to each list.
pub type Value = i64;

/// The isolation level of a transaction. See the table in the [crate] documentation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Level {
    /// Each statement reads its own snapshot.
    ReadCommitted,
    /// The transaction reads one snapshot. Until its commit, no other transaction commits a write
    /// to a list that it writes.
    #[default]
    Snapshot,
    /// The whole transaction happens at one moment.
    Serializable,
}

/// An operation of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Appended a value to a list.
    Append(Key, Value),
    /// Read a list and found these values.
    Read(Key, Vec<Value>),
}

/// The outcome of a transaction as its client was told.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Outcome {
    /// Committed.
    #[default]
    Committed,
    /// Had no effect.
    Failed,
    /// No answer, because the connection was lost. The transaction has committed if a read
    /// sees its writes.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Transaction {
    /// Its name in reports.
    pub name: String,
    /// Its session. The transactions of a session are in order.
    pub session: Option<String>,
    /// It had not begun before this step.
    pub begun: Option<u64>,
    /// It had ended after this step.
    pub ended: Option<u64>,
    /// The outcome that the client was told.
    pub outcome: Outcome,
    /// The promised isolation level.
    pub level: Level,
    /// The operations of each statement.
    pub statements: Vec<Vec<Op>>,
}

/// A list of transactions; those of a session are in order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History {
    /// All transactions.
    pub transactions: Vec<Transaction>,
}

impl Transaction {
    /// All operations in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.statements.iter().flatten()
    }

    /// The values that it appended to a list, in order.
    pub fn appends<'t>(&'t self, to: &'t str) -> impl DoubleEndedIterator<Item = Value> + 't {
        self.statements.iter().flatten().filter_map(move |op| match op {
            Op::Append(key, value) if key == to => Some(*value),
            _ => None,
        })
    }
}

impl History {
    /// The same history with this level promised for every transaction.
    #[must_use]
    pub fn at(mut self, level: Level) -> History {
        self.transactions.iter_mut().for_each(|transaction| transaction.level = level);
        self
    }

    /// The text of the history in the format of the module documentation.
    pub fn to_text(&self) -> String {
        self.transactions.iter().map(|transaction| format!("{transaction}\n")).collect()
    }
}

impl FromStr for History {
    type Err = String;

    /// Parses the output of [`History::to_text`]. Skips empty lines.
    fn from_str(text: &str) -> Result<History, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parsed = lines.map(|(at, line)| {
            line.parse().map_err(|error: String| format!("line {}: {error}", at + 1))
        });
        Ok(History { transactions: parsed.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::ReadCommitted => "read committed",
            Level::Snapshot => "snapshot",
            Level::Serializable => "serializable",
        })
    }
}
