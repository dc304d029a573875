//! Isolation levels as options name them.

use clap::ValueEnum;

/// The default isolation level of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum IsolationLevel {
    /// Each statement sees the commits before it
    ReadCommitted,
    /// A transaction sees the commits before its first statement: REPEATABLE READ
    Snapshot,
    /// As if transactions ran one after the other: SERIALIZABLE. A transaction in conflict with
    /// another ends with 40001 and must be repeated
    Serializable,
}

impl IsolationLevel {
    /// The value of the setting `default_transaction_isolation`.
    pub fn setting(self) -> &'static str {
        match self {
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::Snapshot => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// True if this level may refuse a valid transaction with 40001.
    pub fn refuses(self) -> bool {
        self != IsolationLevel::ReadCommitted
    }
}
