//! What clients did, saw, and were told.
//!
//! ```text
//!   a s1 3..8: read x [1 2]; append x 3, read y []       committed, in session s1, from step 3 to 8
//!   b s2 4.. unknown: append x 4                         no answer came: it may have committed
//!   c failed snapshot: append y 5                        had no effect; ran at another level than the rest
//! ```
//!
//! A line is a transaction: statements with `;` between them, each with operations at one moment. Steps count
//! what all clients together began and ended. A transaction without them may have run at any time.

use std::fmt;
use std::str::FromStr;

/// The name of a list.
pub type Key = String;

/// What is appended to a list: never twice the same number to the same list.
pub type Value = i64;

/// What a transaction was promised. See the table of the [crate].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Level {
    /// Each statement reads at a moment of its own.
    ReadCommitted,
    /// All is read at one moment, and nobody else writes the same until the commit.
    #[default]
    Snapshot,
    /// All happens at one moment.
    Serializable,
}

/// One thing that a transaction did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// It appended a value to a list.
    Append(Key, Value),
    /// It read a list, and found this.
    Read(Key, Vec<Value>),
}

/// What a client was told of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Outcome {
    /// It has committed.
    #[default]
    Committed,
    /// It has had no effect.
    Failed,
    /// Nothing: the connection was lost. It has committed if somebody sees what it wrote.
    Unknown,
}

/// One transaction, as its client saw it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Transaction {
    /// What it is called in stories about it.
    pub name: String,
    /// Its client's session; a session's transactions are in order.
    pub session: Option<String>,
    /// Before this step it had not begun.
    pub begun: Option<u64>,
    /// After this step it had ended.
    pub ended: Option<u64>,
    /// What its client was told.
    pub outcome: Outcome,
    /// What it was promised.
    pub level: Level,
    /// What each of its statements did.
    pub statements: Vec<Vec<Op>>,
}

/// Transactions, those of a session in order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History {
    /// All of them.
    pub transactions: Vec<Transaction>,
}

impl Transaction {
    /// All that it did.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.statements.iter().flatten()
    }

    /// What it appended to a list, in order.
    pub fn appends<'t>(&'t self, to: &'t str) -> impl DoubleEndedIterator<Item = Value> + 't {
        self.statements.iter().flatten().filter_map(move |op| match op {
            Op::Append(key, value) if key == to => Some(*value),
            _ => None,
        })
    }
}

impl History {
    /// The same, had all been promised this.
    #[must_use]
    pub fn at(mut self, level: Level) -> History {
        self.transactions.iter_mut().for_each(|transaction| transaction.level = level);
        self
    }

    /// The lines of the module's documentation.
    pub fn to_text(&self) -> String {
        self.transactions.iter().map(|transaction| format!("{transaction}\n")).collect()
    }
}

impl FromStr for History {
    type Err = String;

    /// Reads lines as [`History::to_text`] writes them; empty ones are passed over.
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
