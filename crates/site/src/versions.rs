//! The times of rows, for procedures.
//!
//! A transaction that arrives statement by statement reads rows first, and writes them at the end
//! in one procedure. The time of the newest version tells the procedure whether a row is still the
//! version that was read.

use crate::error::Abort;
use crate::txn::Txn;
use isomer_design::{Access, Direction, KeyRange, TableId, Time};
use std::ops::ControlFlow;

impl Txn<'_> {
    /// The committed row in the snapshot, and the time of its commit, without the transaction's own
    /// writes.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`].
    pub fn committed(&self, table: TableId, key: &[u8]) -> Result<Option<(Time, &[u8])>, Abort> {
        let item = self.item(table, key, Access::Read)?;
        Ok(self.source.row(item, table, key).and_then(|(time, value)| Some((time, value?))))
    }

    /// As [`Txn::scan`], in key order along `way`, with the time of each row's commit, and without
    /// the transaction's own writes.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`] unless one item of the footprint covers the range.
    pub fn scan_committed(
        &self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&[u8], &[u8], Time) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        if range.is_empty() {
            return Ok(());
        }
        let item = self.covering(table, range)?;
        self.source.scan(item, table, (range, way), |key, value, time| match value {
            Some(value) => visit(key, value, time),
            None => ControlFlow::Continue(()),
        });
        Ok(())
    }
}
