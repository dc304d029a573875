//! Tables of the store, for what defines tables and indexes: made, locked, filled, read whole, forgotten.

use super::{Engine, damaged};
use crate::backend::{database, explain};
use isomer_cluster::{CancelToken, Isolation, LockMode, OpenTransaction};
use isomer_design::{Key, Schema, TableId};
use isomer_sql::SqlError;
use isomer_sql::catalog::{Table, plain};
use isomer_sql::datum::Datum;
use std::ops::ControlFlow;
use std::sync::Arc;

impl Engine {
    /// Makes a table of the store, under a name like the wanted one that is free.
    pub(crate) fn store_table(
        &self,
        wanted: &str,
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        let mut name = plain(wanted);
        let mut number = 1;
        while self.database().table(&name).is_ok() {
            number += 1;
            name = format!("{}_{number}", plain(wanted));
        }
        let schema = schema(&name)?;
        self.mark_unused(&name)?;
        self.database()
            .create_table(schema, &[(Key::min(), self.first_site())])
            .map_err(database)?;
        self.database().table(&name).map_err(database)
    }

    /// Lets the store forget a table that nothing uses any more.
    pub(crate) fn discard(&self, table: TableId, schema: &Schema) -> Result<(), SqlError> {
        self.database().drop_table(table).map_err(database)?;
        self.forget_unused(schema.name())
    }

    /// Lets the store forget a table that nothing uses any more, when those who have written to it have ended.
    pub(crate) fn discard_when_free(self: &Arc<Engine>, table: TableId, schema: &Arc<Schema>) {
        self.set_dropped([table]);
        self.retired.lock().push((table, schema.clone()));
        self.discard_retired();
    }

    /// Lets the store forget what nobody writes to any more.
    pub(crate) fn discard_retired(self: &Arc<Engine>) {
        let is_free = |table: TableId| {
            let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
            txn.lock(table, &Key::min(), LockMode::Exclusive, false).is_ok()
        };
        // One that cannot be dropped now is tried again, or dropped at the next start.
        self.retired
            .lock()
            .retain(|(table, schema)| !is_free(*table) || self.discard(*table, schema).is_err());
    }

    /// Locks tables until what is returned is dropped.
    pub(crate) fn lock_tables(
        self: &Arc<Engine>,
        tables: &[Arc<Table>],
        cancel: &Arc<CancelToken>,
    ) -> Result<OpenTransaction, SqlError> {
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
        for (id, _) in tables.iter().flat_map(|table| table.parts()) {
            txn.lock(id, &Key::min(), LockMode::Exclusive, true).map_err(explain)?;
        }
        Ok(txn)
    }

    /// Shows the values of all rows of a table.
    pub(crate) fn each_values(
        &self,
        table: &Table,
        mut visit: impl FnMut(&[Datum]) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut result = Ok(());
        self.each_row(table.id, |key, row| {
            result = values_of(table, key, row).and_then(|values| visit(&values));
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result
    }
}

/// The values of a row, with its row id.
pub(crate) fn values_of(table: &Table, key: &[u8], row: &[u8]) -> Result<Vec<Datum>, SqlError> {
    let values = table.schema.decode_row(key, row).map_err(damaged)?.into_iter().enumerate();
    Ok(values.map(|(at, value)| Datum::from_value(value, table.slot_type(at))).collect())
}
