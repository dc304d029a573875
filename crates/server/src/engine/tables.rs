//! Store tables for the definitions of tables and indexes: created, locked, filled, scanned,
//! dropped.

use super::{Engine, damaged};
use crate::backend::{database, explain};
use crate::draft::Made;
use isomer_cluster::{CancelToken, Error, Isolation, LockMode, OpenError, is_reserved};
use isomer_design::{Key, Schema, SiteId, TableId};
use isomer_sql::SqlError;
use isomer_sql::catalog::{Table, numbered, plain};
use isomer_sql::datum::Datum;
use isomer_sql::system::row_id_sequence;
use std::sync::Arc;
use std::time::Duration;

/// The poll interval of waits for the clock.
const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Creates a store table as one partition, under a free name similar to `wanted`.
    pub(crate) fn store_table(
        &self,
        wanted: &str,
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        self.store_table_at(wanted, &[(Key::min(), self.first_site())], schema)
    }

    /// As [`Engine::store_table`], with these partitions, each with its first key and master.
    pub(crate) fn store_table_at(
        &self,
        wanted: &str,
        partitions: &[(Key, SiteId)],
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        let mut name = plain(wanted);
        let mut number = 1;
        while self.database().find_table(&name).is_some() || is_reserved(&name) {
            number += 1;
            name = numbered(wanted, number);
        }
        let schema = schema(&name)?;
        self.mark_unused(&name)?;
        self.database().create_table(schema, partitions).map_err(database)?;
        let (id, schema) = self.database().table(&name).map_err(database)?;
        self.until_readable(id)?;
        Ok((id, schema))
    }

    /// Waits until the clock has reached the creation time of a table, because a site may be ahead
    /// of it.
    fn until_readable(&self, table: TableId) -> Result<(), SqlError> {
        loop {
            let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
            match txn.get(table, &Key::min(), |_| ()) {
                Err(OpenError::Database(Error::Gone)) => {
                    self.gateway().pause(&Arc::default(), LOOK).map_err(explain)?;
                }
                read => return read.map(|_| ()).map_err(explain),
            }
        }
    }

    /// Drops a store table that is not in use any more.
    pub(crate) fn discard(&self, table: TableId, schema: &Schema) -> Result<(), SqlError> {
        let design = self.database().design();
        match design.table(table) {
            Ok(found) if found.name() == schema.name() => {
                self.database().drop_table(table).map_err(database)?;
            }
            // The next conductor has dropped it, and may have given its number to a new table.
            Ok(_) => return Ok(()),
            Err(_) => {}
        }
        // A client's column may have that name too; then there is no such sequence.
        if schema.key_columns().last().is_some_and(|column| column.name.starts_with("row_id")) {
            self.set_sequence(&row_id_sequence(table), None)?;
        }
        self.forget_unused(schema.name())
    }

    /// Drops store tables of definitions that were rolled back. One that cannot be dropped now is
    /// dropped at the next start.
    pub(crate) fn forget_made(&self, made: &[Made]) {
        self.set_dropped(made.iter().map(|made| made.id));
        for made in made {
            let _ = self.discard(made.id, &made.schema);
        }
    }

    /// Drops a store table that is not in use any more, once the transactions that have written to
    /// it have ended.
    pub(crate) fn discard_when_free(self: &Arc<Engine>, table: TableId, schema: &Arc<Schema>) {
        self.set_dropped([table]);
        self.retired.lock().push((table, schema.clone()));
        self.discard_retired();
    }

    /// As [`Engine::discard_when_free`], but waits for the transactions that have written to the
    /// table, unless cancelled.
    pub(crate) fn discard_outlived(
        self: &Arc<Engine>,
        table: TableId,
        schema: &Arc<Schema>,
        cancel: &Arc<CancelToken>,
    ) {
        self.set_dropped([table]);
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
        let _ = txn.wait_for_holders(table, &Key::min());
        self.discard_when_free(table, schema);
    }

    /// Drops the retired store tables that have no writers any more.
    pub(crate) fn discard_retired(self: &Arc<Engine>) {
        let is_free = |table: TableId| {
            let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
            txn.lock(table, &Key::min(), LockMode::Exclusive, false).is_ok()
        };
        // A table that cannot be dropped now is tried again, or dropped at the next start.
        self.retired
            .lock()
            .retain(|(table, schema)| !is_free(*table) || self.discard(*table, schema).is_err());
    }
}

/// The values of a row, including its row id.
pub(crate) fn values_of(table: &Table, key: &[u8], row: &[u8]) -> Result<Vec<Datum>, SqlError> {
    let values = table.schema.decode_row(key, row).map_err(damaged)?.into_iter().enumerate();
    Ok(values.map(|(at, value)| Datum::from_value(value, table.slot_type(at))).collect())
}
