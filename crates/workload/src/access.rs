//! What a transaction can do to the data, whoever executes it.

use isomer_design::{KeyRange, TableId};
use std::ops::ControlFlow;

/// The data as one transaction sees it: a snapshot, and its own writes.
///
/// To be implemented by whatever executes transactions. Keys are encoded as by
/// [`Key`](isomer_design::Key), rows as by the schema of their table.
pub trait DataAccess {
    /// Why an access failed. It ends the transaction, which passes it on.
    type Error;

    /// A row, or `None` if there is no such row.
    ///
    /// # Errors
    /// Whatever keeps the row from being read.
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Self::Error>;

    /// Writes a row, whether it exists or not.
    ///
    /// # Errors
    /// Whatever keeps the row from being written.
    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Self::Error>;

    /// Writes a row that must not exist.
    ///
    /// # Errors
    /// If it does exist, and whatever else keeps it from being written.
    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Self::Error>;

    /// Changes the bytes of a row, keeping its length; `false` if there is no such row.
    ///
    /// # Errors
    /// Whatever keeps the row from being read or written.
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

    /// Deletes a row; `false` if there is no such row.
    ///
    /// # Errors
    /// Whatever keeps the row from being deleted.
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Self::Error>;

    /// Visits the rows of a range, each with its key, in the order of the keys, until `visit`
    /// breaks.
    ///
    /// # Errors
    /// Whatever keeps the rows from being read.
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;
}
