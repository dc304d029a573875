//! The simplest executor: runs transactions one at a time on a sorted map.
//!
//! It is an example of a [`DataAccess`] and a reference: given the same transactions in the same
//! order, every executor must end with the same rows. It also checks that transactions stay within
//! their footprints.

use crate::{DataAccess, LoadRow, Outcome, Totals, Transaction, Workload};
use isomer_design::{Access, Footprint, Key, KeyRange, TableId};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use thiserror::Error;

type Place = (TableId, Key);

/// Rows in a sorted map, without concurrency or crashes.
#[derive(Clone, Default, Debug)]
pub struct Model {
    rows: BTreeMap<Place, Vec<u8>>,
    /// The footprint of the running transaction. `None` between transactions, when everything is
    /// allowed.
    footprint: Option<Footprint>,
    /// Rows overwritten by the running transaction, oldest first.
    undo: Vec<(Place, Option<Vec<u8>>)>,
}

/// A forbidden action of a transaction.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// It accessed something outside of its footprint.
    #[error("{what} is outside the footprint: {footprint}")]
    OutsideFootprint {
        /// The access.
        what: String,
        /// The footprint.
        footprint: String,
    },
    /// It inserted a row with an existing key.
    #[error("insert of {table}[{key}], which exists")]
    DuplicateKey {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
}

impl Model {
    /// A model with the initial rows of a workload.
    pub fn loaded(workload: &impl Workload) -> Model {
        let rows = workload.load().map(|LoadRow { table, key, row }| ((table, key), row));
        Model { rows: rows.collect(), ..Model::default() }
    }

    /// All rows by table and key.
    pub fn rows(&self) -> impl Iterator<Item = (&(TableId, Key), &Vec<u8>)> {
        self.rows.iter()
    }

    /// Runs a transaction. Undoes its writes unless it commits.
    ///
    /// # Errors
    /// [`ModelError`]. The writes of the transaction are then undone.
    pub fn execute(&mut self, transaction: &impl Transaction) -> Result<Outcome, ModelError> {
        self.footprint = Some(transaction.footprint());
        let result = transaction.run(self);
        self.footprint = None;
        if !matches!(result, Ok(Outcome::Commit { .. })) {
            while let Some((place, before)) = self.undo.pop() {
                self.set(place, before);
            }
        }
        self.undo.clear();
        result
    }

    /// The totals of all rows.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.rows.values().for_each(|row| totals.count(row));
        totals
    }

    fn set(&mut self, place: Place, row: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match row {
            Some(row) => self.rows.insert(place, row),
            None => self.rows.remove(&place),
        }
    }

    fn write(&mut self, table: TableId, key: &[u8], row: Option<Vec<u8>>) -> bool {
        let place = (table, Key::from_bytes(key));
        let before = self.set(place.clone(), row);
        let existed = before.is_some();
        if self.footprint.is_some() {
            self.undo.push((place, before));
        }
        existed
    }

    fn check(&self, table: TableId, key: &[u8], access: Access) -> Result<(), ModelError> {
        match &self.footprint {
            Some(footprint) if !footprint.allows(table, key, access) => {
                let key = Key::from_bytes(key);
                Err(outside(format!("{access:?} of {table}[{key}]"), footprint))
            }
            _ => Ok(()),
        }
    }
}

fn outside(what: String, footprint: &Footprint) -> ModelError {
    ModelError::OutsideFootprint { what, footprint: footprint.to_string() }
}

impl DataAccess for Model {
    type Error = ModelError;

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, ModelError> {
        self.check(table, key, Access::Read)?;
        Ok(self.rows.get(&(table, Key::from_bytes(key))).map(Vec::as_slice))
    }

    fn put(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), ModelError> {
        self.check(table, key, Access::Write)?;
        self.write(table, key, Some(row.to_vec()));
        Ok(())
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), ModelError> {
        self.check(table, key, Access::Write)?;
        match self.write(table, key, Some(row.to_vec())) {
            true => Err(ModelError::DuplicateKey { table, key: Key::from_bytes(key) }),
            false => Ok(()),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, ModelError> {
        self.check(table, key, Access::Write)?;
        Ok(self.write(table, key, None))
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ModelError> {
        if let Some(footprint) = self.footprint.as_ref().filter(|f| !f.allows_scan(table, range)) {
            return Err(outside(format!("scan of {table}{range}"), footprint));
        }
        if range.is_empty() {
            return Ok(());
        }
        let start = Bound::Included((table, range.start.clone()));
        for ((row_table, key), row) in self.rows.range((start, Bound::Unbounded)) {
            let inside = *row_table == table && range.is_below_end(key);
            if !inside || visit(key, row).is_break() {
                break;
            }
        }
        Ok(())
    }
}
