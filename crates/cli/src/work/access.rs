//! A transaction of the database, as workloads see it.

use crate::work::Memory;
use isomer_cluster::{Abort, Txn};
use isomer_design::{KeyRange, TableId};
use isomer_workload::DataAccess;
use std::ops::ControlFlow;

/// A running transaction, and what its session remembers.
pub(crate) struct Access<'a, 't> {
    pub(crate) txn: &'a mut Txn<'t>,
    pub(crate) memory: Option<&'a mut Memory>,
}

impl DataAccess for Access<'_, '_> {
    type Error = Abort;

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        let row = self.txn.get(table, key)?;
        if let (Some(memory), Some(row)) = (&mut self.memory, row) {
            memory.read(table, key, row);
        }
        Ok(row)
    }

    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.txn.put(table, key, row)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.txn.insert(table, key, row)
    }

    fn update(
        &mut self,
        table: TableId,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Abort> {
        let memory = &mut self.memory;
        self.txn.update(table, key, |row| {
            if let Some(memory) = memory {
                memory.read(table, key, row);
            }
            change(row);
        })
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.txn.delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        self.txn.scan(table, range, visit)
    }
}
