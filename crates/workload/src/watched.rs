//! The adapter between a workload and a site's transaction. An observer sees its reads and writes.

use crate::DataAccess;
use isomer_design::{KeyRange, TableId};
use isomer_site::{Abort, Txn};
use std::ops::ControlFlow;

/// Observes the rows of a transaction.
pub trait Watch {
    /// A row was read by its key; `None` if there is none.
    fn read(&mut self, table: TableId, key: &[u8], row: Option<&[u8]>);

    /// A row was written, or removed.
    fn wrote(&mut self) {}

    /// A scan has come to a row.
    fn met(&mut self) {}
}

/// See the [module documentation](self).
pub struct Watched<'a, 't, W> {
    /// The transaction.
    pub txn: &'a mut Txn<'t>,
    /// The observer.
    pub watch: W,
}

impl<W: Watch> DataAccess for Watched<'_, '_, W> {
    type Error = Abort;

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        let row = self.txn.get(table, key)?;
        self.watch.read(table, key, row);
        Ok(row)
    }

    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.watch.wrote();
        self.txn.put(table, key, row)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Abort> {
        self.watch.wrote();
        self.txn.insert(table, key, row)
    }

    fn update(
        &mut self,
        table: TableId,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Abort> {
        let watch = &mut self.watch;
        watch.wrote();
        self.txn.update(table, key, |row| {
            watch.read(table, key, Some(row));
            change(row);
        })
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.watch.wrote();
        self.txn.delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let watch = &mut self.watch;
        self.txn.scan(table, range, |key, row| {
            watch.met();
            visit(key, row)
        })
    }
}
