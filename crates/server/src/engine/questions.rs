//! Questions of gateways to the gateway of the conductor's process, and its replies.

use crate::cells::Cell;
use crate::numbers::NUMBERS;
use isomer_cluster::{Database, Error, Gateway, LockMode, LockShown, Owner};
use isomer_design::{Key, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest wait for the locks.
const LOCKS: Duration = Duration::from_secs(1);

/// A question of a gateway to that of the conductor.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Question {
    /// What have I missed?
    State,
    /// The rows of a view.
    Rows(String),
    /// Carry out a proposal, on behalf of a role.
    Approve(u64, String),
    Reject(u64, String, Option<String>),
    /// Keep a plan as a proposal, with the reason, on behalf of a role.
    Propose(String, Option<String>, String),
    /// Keep a statement about a table as a proposal, on behalf of a role.
    ProposeStatement(TableId, String, String),
    /// The locks that `pg_locks` shows.
    Locks,
    /// The load of the partitions.
    Load,
    /// The transactions that block this one.
    Blockers(Owner),
}

/// The answer.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    /// A state of the definitions, as text.
    State(String),
    Rows(Vec<Vec<Cell>>),
    Done,
    Locks(Vec<ToldLock>),
    Load(Vec<ToldLoad>),
    Blockers(Vec<Owner>),
    /// A message, a detail and a hint.
    Refused(String, Option<String>, Option<String>),
}

/// A lock: table, key, owner, mode, and whether it is granted.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct ToldLock(TableId, Vec<u8>, Owner, LockMode, bool);

impl ToldLock {
    pub(crate) fn of(lock: &LockShown) -> ToldLock {
        let LockShown { table, key, owner, mode, is_granted } = lock;
        ToldLock(*table, key.as_bytes().to_vec(), *owner, *mode, *is_granted)
    }

    pub(crate) fn shown(self) -> LockShown {
        let ToldLock(table, key, owner, mode, is_granted) = self;
        LockShown { table, key: Key::from_bytes(&key), owner, mode, is_granted }
    }
}

/// A copy of a partition, as a process tells others.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct ToldCopy {
    pub(crate) site: SiteId,
    pub(crate) table: TableId,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) is_master: bool,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) lag_ns: u64,
}

/// The load of a partition: its table and first key, and rows read and written in each second.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct ToldLoad(pub(crate) TableId, pub(crate) Vec<u8>, pub(crate) [f64; 2]);

/// Asks the gateway of the conductor.
///
/// # Errors
/// [`Error::NoSeat`] if there is no reply.
pub(crate) fn ask(database: &Database, question: &Question) -> Result<Reply, Error> {
    read(&database.others().question(written(question), None)?)
}

/// Like [`ask`], for up to a time.
///
/// # Errors
/// [`Error::NoSeat`]: the question may have arrived.
pub(crate) fn ask_within(
    database: &Database,
    question: &Question,
    longest: Duration,
) -> Result<Reply, Error> {
    read(&database.others().question(written(question), Some(longest))?)
}

fn written(question: &Question) -> Vec<u8> {
    serde_json::to_vec(question).expect("names of fields are text")
}

fn read(reply: &[u8]) -> Result<Reply, Error> {
    serde_json::from_slice(reply).map_err(|error| Error::AtConductor(error.to_string()))
}

/// Granted and waiting locks of tables and advisory locks, and those of rows with waiting
/// transactions, of all gateways. None while the conductor's process cannot be reached.
pub(crate) fn locks(gateway: &Gateway) -> Vec<LockShown> {
    if !gateway.database().is_gateway_only() {
        let is_whole = |table: TableId, key: &Key| table == NUMBERS || *key == Key::min();
        return gateway.locks(is_whole);
    }
    match ask_within(gateway.database(), &Question::Locks, LOCKS) {
        Ok(Reply::Locks(locks)) => locks.into_iter().map(ToldLock::shown).collect(),
        _ => Vec::new(),
    }
}

/// The transactions of all gateways that block this one.
pub(crate) fn blockers(gateway: &Gateway, of: Owner) -> Vec<Owner> {
    if !gateway.database().is_gateway_only() {
        return gateway.blockers(of);
    }
    match ask_within(gateway.database(), &Question::Blockers(of), LOCKS) {
        Ok(Reply::Blockers(blockers)) => blockers,
        _ => Vec::new(),
    }
}
