//! Operations on a table with two layouts: see [`crate::scenario`], `reorder`.
//!
//! Rows of the second layout are written without a lock there. The version that each write replaces
//! is read for the record: no other transaction may have changed it at the commit.

use super::Statements;
use crate::history::{OpenStep, Value};
use crate::ledger;
use crate::world::SimTransport;
use isomer_cluster::Expect;
use isomer_cluster::open::{CancelToken, Isolation, LockMode, OpenError, OpenTransaction};
use isomer_cluster::reorder::{Batch, Copied};
use isomer_design::{Key, KeyRange, TableId, Time};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The rows and index entries of one row in a layout.
pub(crate) type Entered = Vec<(TableId, Key, Value)>;

impl Statements {
    /// Locks a table or a row without reading it. Only locks of [`Statements::lock`] are recorded.
    pub(crate) async fn hold(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
    ) -> Result<(), OpenError> {
        self.cluster.world.doing(|| format!("waits to hold {table}[{key}]"));
        self.txn().lock(table, key, mode, true).await
    }

    /// Writes a locked row, in place of the version that was read then.
    pub(crate) fn replace(
        &mut self,
        table: TableId,
        key: &Key,
        value: Option<Value>,
        expect: Expect,
    ) -> Result<(), OpenError> {
        let row = value.map(|value| ledger::encode(value).to_vec());
        self.txn().put(table, key.clone(), expect, row)?;
        let base = if let Expect::Version(base) = expect { base } else { None };
        self.record.steps.push(OpenStep::Write { table, key: key.clone(), value, base });
        Ok(())
    }

    /// Waits until all current writers of a table have ended.
    pub(crate) async fn wait_for_holders(&mut self, table: TableId) -> Result<(), OpenError> {
        self.cluster.world.doing(|| format!("waits for those who write to {table}"));
        self.txn().wait_for_holders(table, &Key::min()).await
    }

    /// The first current entry of an index in a range.
    pub(crate) async fn newest_entry(
        &mut self,
        index: TableId,
        range: &KeyRange,
    ) -> Result<Option<Key>, OpenError> {
        let mut found = None;
        let visit = |key: &[u8], _: &[u8]| {
            found = Some(Key::from_bytes(key));
            ControlFlow::Break(())
        };
        self.txn().scan_newest(index, range, visit).await?;
        Ok(found)
    }

    /// Writes a row or entry that is protected by the lock of a row elsewhere.
    pub(crate) async fn enter(
        &mut self,
        table: TableId,
        key: &Key,
        value: Option<Value>,
    ) -> Result<(), OpenError> {
        let own = self.record.left().get(&(table, key.clone())).map(|(_, base)| *base);
        let base = match own {
            Some(base) => base,
            None => present(self.txn(), table, key).await?,
        };
        if own.is_none() && base.is_none() && value.is_none() {
            return Ok(());
        }
        let row = value.map(|value| ledger::encode(value).to_vec());
        self.txn().put(table, key.clone(), Expect::Anything, row)?;
        self.record.steps.push(OpenStep::Entered { table, key: key.clone(), value, base });
        Ok(())
    }

    /// Copies rows of a table.
    pub(crate) async fn copy(
        &mut self,
        table: TableId,
        batch: &Batch,
        entered: impl Fn(&Key, Value) -> Entered,
    ) -> Result<Copied, OpenError> {
        let mut all = Entered::new();
        let entries = |key: &[u8], row: &[u8]| {
            let entered = entered(&Key::from_bytes(key), ledger::decode(row));
            all.extend(entered.iter().cloned());
            let row =
                |(to, key, value): (TableId, Key, Value)| (to, key, ledger::encode(value).to_vec());
            Some(entered.into_iter().map(row).collect())
        };
        let copied = self.txn().copy_rows(table, batch, entries).await?;
        for (to, key, value) in all {
            let base = self.base_of(to, &key).await?;
            self.record.steps.push(OpenStep::Entered { table: to, key, value: Some(value), base });
        }
        Ok(copied)
    }

    /// The current version, for a transaction that has written the row already.
    async fn base_of(&self, table: TableId, key: &Key) -> Result<Option<Time>, OpenError> {
        let gateway = self.cluster.gateway();
        let cancel = Arc::new(CancelToken::default());
        present(&mut gateway.begin(Isolation::ReadCommitted, cancel), table, key).await
    }
}

/// The commit time of the newest version of a row.
async fn present(
    txn: &mut OpenTransaction<SimTransport>,
    table: TableId,
    key: &Key,
) -> Result<Option<Time>, OpenError> {
    let there = txn.get_locked(table, key, |_| {}).await?;
    Ok(if let Expect::Version(base) = there.base { base } else { None })
}
