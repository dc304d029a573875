//! Open transactions in a world: statement by statement, each recorded as its client saw it.
//!
//! The result of a read is told to a client, and recorded, once it is durable. The client's writes
//! are also kept in a second, simpler way: a map, copied at each savepoint. The log must agree with
//! it.
//!
//! Row locks are recorded as they are granted. A holder is removed when it begins to commit or to
//! roll back, because the exact time of the release is not visible from outside.

mod orders;

use crate::cluster::Cluster;
use crate::history::{History, Op, Open, OpenStep, Outcome, Transaction, Value};
use crate::ledger;
use crate::plant::Plant;
use crate::world::SimTransport;
use isomer_cluster::open::{
    CancelToken, Isolation, LockMode, OpenError, OpenTransaction, Owner, Savepoint,
};
use isomer_cluster::{Expect, Ran};
use isomer_design::{Direction, Key, KeyRange, SiteId, TableId, Time};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use orders::Entered;

/// How many of a thousand opportunities a planted bug uses.
const SPOILT_PER_MILLE: u64 = 100;

/// The holders of each row, as far as clients were told.
pub(crate) type Holders = std::collections::BTreeMap<(TableId, Key), Vec<(Owner, LockMode)>>;

/// See the [module documentation](self).
pub struct Statements {
    cluster: Rc<Cluster>,
    txn: Option<OpenTransaction<SimTransport>>,
    owner: Owner,
    savepoints: Vec<Savepoint>,
    record: Open,
    /// The indexes of its records: among the transactions, and among the open ones.
    at: (usize, usize),
}

impl Statements {
    /// Begins a transaction.
    pub fn begin(
        cluster: &Rc<Cluster>,
        isolation: Isolation,
        cancel: Arc<CancelToken>,
    ) -> Statements {
        let txn = cluster.gateway().begin(isolation, cancel);
        // Each conductor numbers them anew.
        let (owner, outcome) = (cluster.terms.get() << 40 | txn.owner(), Outcome::Unknown);
        let record = Open { number: owner, isolation, steps: Vec::new(), outcome };
        let (txn, savepoints, at) = (Some(txn), Vec::new(), cluster.enter(&record));
        Statements { cluster: cluster.clone(), txn, owner, savepoints, record, at }
    }

    fn txn(&mut self) -> &mut OpenTransaction<SimTransport> {
        self.txn.as_mut().expect("it is open")
    }

    /// Begins a statement.
    pub fn next(&mut self) {
        self.txn().next_statement();
        self.record.steps.push(OpenStep::Begin(self.cluster.acknowledged()));
    }

    /// Reads a key.
    ///
    /// # Errors
    /// Those of the database; the transaction must be rolled back then. So for the others.
    pub async fn get(&mut self, table: TableId, key: &Key) -> Result<Option<Value>, OpenError> {
        let mut value = None;
        self.txn().get(table, key, |row| value = Some(ledger::decode(row))).await?;
        self.told(Op::Read(table, key.clone(), value)).await?;
        Ok(value)
    }

    /// Reads a range.
    pub async fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
    ) -> Result<Vec<(Key, Value)>, OpenError> {
        let mut rows = Vec::new();
        let visit = |key: &[u8], row: &[u8]| {
            rows.push((Key::from_bytes(key), ledger::decode(row)));
            ControlFlow::Continue(())
        };
        self.txn().scan(table, range, Direction::Forward, visit).await?;
        self.told(Op::Scan(table, range.clone(), rows.clone())).await?;
        Ok(rows)
    }

    /// Records a read once it is durable.
    async fn told(&mut self, op: Op) -> Result<(), OpenError> {
        // The transaction's own write is read without a snapshot.
        let at = self.txn().snapshot_time();
        self.txn().until_durable().await?;
        self.record.steps.push(OpenStep::Read(at, op));
        Ok(())
    }

    /// Locks a row, and reads its newest version.
    pub async fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
    ) -> Result<(Option<Value>, Expect), OpenError> {
        let acknowledged = self.cluster.acknowledged();
        self.cluster.world.doing(|| format!("waits for the lock of {table}[{key}]"));
        self.txn().lock(table, key, mode, true).await?;
        if !self.cluster.is_ordered() {
            self.cluster.granted(self.owner, table, key, mode);
        }
        self.txn().look_again();
        let mut value = None;
        let visit = |row: &[u8]| value = Some(ledger::decode(row));
        let locked = self.txn().get_locked(table, key, visit).await?;
        self.txn().until_durable().await?;
        let base = if let Expect::Version(base) = locked.base { base } else { None };
        let (key, snapshot) = (key.clone(), self.txn().fixed_time());
        let step = OpenStep::Locked { table, key, value, base, snapshot, acknowledged };
        self.record.steps.push(step);
        Ok((value, locked.base))
    }

    /// Locks and writes a row; `None` deletes it.
    pub async fn put(
        &mut self,
        table: TableId,
        key: &Key,
        value: Option<Value>,
    ) -> Result<(), OpenError> {
        let (before, expect) = self.lock(table, key, LockMode::Exclusive).await?;
        if before.is_none() && value.is_none() {
            return Ok(());
        }
        let row = value.map(|value| ledger::encode(value).to_vec());
        self.txn().put(table, key.clone(), expect, row)?;
        let base = if let Expect::Version(base) = expect { base } else { None };
        self.record.steps.push(OpenStep::Write { table, key: key.clone(), value, base });
        Ok(())
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) {
        let savepoint = self.txn().savepoint();
        self.savepoints.push(savepoint);
        self.record.steps.push(OpenStep::Savepoint);
    }

    /// Rolls back to a savepoint, numbered from 0; later ones are released.
    ///
    /// # Panics
    /// If there is no such savepoint.
    pub fn back_to(&mut self, number: usize) {
        self.savepoints.truncate(number + 1);
        let savepoint = self.savepoints[number];
        // The database decides which locks are released.
        self.cluster.ended(self.owner);
        if !self.cluster.world.spoils(Plant::KeptWrite, SPOILT_PER_MILLE) {
            self.txn().back_to(savepoint);
        }
        self.record.steps.push(OpenStep::BackTo(number));
    }

    /// The number of savepoints.
    pub fn savepoints(&self) -> usize {
        self.savepoints.len()
    }

    /// Commits.
    pub async fn commit(mut self) -> Result<Option<Ran>, OpenError> {
        let txn = self.txn.take().expect("it is open");
        self.cluster.ended(self.owner);
        self.cluster.update(self.at, &self.record);
        let result = txn.commit().await;
        self.record.outcome = match &result {
            // It has committed, at an unknown time.
            Ok(Some(ran)) if ran.is_found && ran.committed.commit.is_none() => Outcome::Unknown,
            Ok(Some(ran @ Ran { committed, .. })) => Outcome::Committed {
                site: self.site_of(ran),
                snapshot: committed.snapshot,
                commit: committed.commit,
            },
            Ok(None) => Outcome::Nothing(Open::ONLY_READ.into()),
            Err(OpenError::Database(error)) if error.is_unknown() => Outcome::Unknown,
            Err(OpenError::Changed) => Outcome::Nothing(Open::CHANGED.into()),
            Err(OpenError::Undone) => Outcome::Nothing(Open::UNDONE.into()),
            Err(error) => Outcome::Nothing(error.to_string()),
        };
        if let Ok(Some(ran)) = &result {
            self.cluster.acknowledge(ran.committed.session());
            if let Some(time) = ran.committed.commit {
                self.cluster.note_ack(self.site_of(ran), time);
            }
        }
        result
    }

    /// The site whose log has decided about a commit, if that was told. A batch names any of its
    /// sites.
    fn site_of(&self, ran: &Ran) -> SiteId {
        let is_told = !ran.is_found && !self.cluster.is_ordered();
        if is_told { ran.place.site() } else { History::NO_SITE }
    }

    /// Rolls back.
    pub fn roll_back(mut self, why: &str) {
        self.record.outcome = Outcome::Nothing(why.into());
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.cluster.ended(self.owner);
        drop(self.txn.take());
        self.cluster.update(self.at, &self.record);
    }
}

impl Cluster {
    /// The latest commit that any client was told of.
    pub(crate) fn acknowledged(&self) -> Time {
        self.acknowledged.get()
    }

    pub(crate) fn acknowledge(&self, time: Time) {
        self.acknowledged.set(self.acknowledged.get().max(time));
    }

    /// Records an open transaction; returns the indexes of its records.
    fn enter(&self, open: &Open) -> (usize, usize) {
        let (mut transactions, mut opens) =
            (self.transactions.borrow_mut(), self.opens.borrow_mut());
        // Each open transaction is the only one of its session.
        let session = u64::MAX - open.number;
        let outcome = open.outcome.clone();
        transactions.push(Transaction { session, ops: Vec::new(), outcome });
        opens.push(open.clone());
        (transactions.len() - 1, opens.len() - 1)
    }

    fn update(&self, (transaction, at): (usize, usize), open: &Open) {
        let transaction = &mut self.transactions.borrow_mut()[transaction];
        (transaction.ops, transaction.outcome) = (open.written(), open.outcome.clone());
        self.opens.borrow_mut()[at] = open.clone();
    }

    /// Records that a row lock was granted.
    fn granted(&self, owner: Owner, table: TableId, key: &Key, mode: LockMode) {
        let mut holders = self.holders.borrow_mut();
        let holders = holders.entry((table, key.clone())).or_default();
        let conflicts = |(other, held): &&(Owner, LockMode)| {
            *other != owner && (*held == LockMode::Exclusive || mode == LockMode::Exclusive)
        };
        if let Some((other, held)) = holders.iter().find(conflicts) {
            let what = format!(
                "{table}[{key}] is held by {other} ({held:?}) and was given to {owner} ({mode:?})"
            );
            self.conflicts.borrow_mut().push(what);
        }
        holders.push((owner, mode));
    }

    /// The locks of an owner may be released from now on.
    fn ended(&self, owner: Owner) {
        let mut holders = self.holders.borrow_mut();
        holders.values_mut().for_each(|holders| holders.retain(|(other, _)| *other != owner));
    }
}
