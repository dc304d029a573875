//! Reads that find the footprint of a transaction.

use super::Database;
use crate::error::Error;
use crate::router::Session;
use isomer_design::{Footprint, Key, KeyRange, TableId};
use std::ops::ControlFlow;

/// Reads without a transaction, to find the footprint of one.
pub struct Explorer<'d> {
    pub(super) database: &'d Database,
    pub(super) session: &'d mut Session,
}

impl Explorer<'_> {
    /// The value of a row.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn get(&mut self, table: TableId, key: &Key) -> Result<Option<Vec<u8>>, Error> {
        let mut found = None;
        let footprint = Footprint::new().read(table, key.clone());
        self.database.run(self.session, &footprint, |txn| {
            found = txn.get(table, key)?.map(<[u8]>::to_vec);
            Ok(())
        })?;
        Ok(found)
    }

    /// The rows of a range, at most `limit`.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        let mut rows = Vec::new();
        let footprint = Footprint::new().read_range(table, range.clone());
        self.database.run(self.session, &footprint, |txn| {
            rows.clear();
            txn.scan(table, range, |key, value| {
                rows.push((Key::from_bytes(key), value.to_vec()));
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        })?;
        Ok(rows)
    }
}
