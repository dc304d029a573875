//! Levels of isolation, as options name them.

use clap::ValueEnum;

/// How the transactions of sessions are isolated, where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum IsolationLevel {
    /// Each statement sees what was committed before it
    ReadCommitted,
    /// A transaction sees what was committed before its first statement: REPEATABLE READ
    Snapshot,
    /// As if transactions ran one after the other: SERIALIZABLE. One that is in the way of another ends with 40001, and
    /// has to be run again
    Serializable,
}

impl IsolationLevel {
    /// As the setting `default_transaction_isolation` names it.
    pub fn setting(self) -> &'static str {
        match self {
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::Snapshot => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// Whether it may refuse a transaction that is right by itself, with 40001.
    pub fn refuses(self) -> bool {
        self != IsolationLevel::ReadCommitted
    }
}
