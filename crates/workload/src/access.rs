//! The interface between transactions and the data, independent of the executor.

use isomer_design::{KeyRange, TableId};
use std::ops::ControlFlow;

/// The data as one transaction sees it: a snapshot overlaid with its own writes.
///
/// Executors implement this trait. Keys are encoded by [`Key`](isomer_design::Key), rows by the
/// schema of their table.
pub trait DataAccess {
    /// Why an access failed. The transaction returns it and ends.
    type Error;

    /// Returns a row, or `None` if the key has none.
    ///
    /// # Errors
    /// If the row cannot be read.
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Self::Error>;

    /// Inserts or replaces a row.
    ///
    /// # Errors
    /// If the row cannot be written.
    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Self::Error>;

    /// Inserts a row with a new key.
    ///
    /// # Errors
    /// If the key has a row already, or the row cannot be written.
    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Self::Error>;

    /// Changes the bytes of a row without changing its length. Returns `false` if the key has no
    /// row.
    ///
    /// # Errors
    /// If the row cannot be read or written.
    fn update(
        &mut self,
        table: TableId,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Self::Error> {
        let Some(row) = self.get(table, key)? else { return Ok(false) };
        let mut row = row.to_vec();
        change(&mut row);
        self.put(table, key, &row)?;
        Ok(true)
    }

    /// Deletes a row. Returns `false` if the key has no row.
    ///
    /// # Errors
    /// If the row cannot be deleted.
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Self::Error>;

    /// Visits the rows of a range with their keys, in key order, until `visit` breaks.
    ///
    /// # Errors
    /// If the rows cannot be read.
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;
}
