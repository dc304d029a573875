//! Tables of the store, for what defines tables and indexes: made, locked, filled, read whole, forgotten.

use super::{Engine, damaged};
use crate::backend::{database, explain};
use crate::draft::Made;
use isomer_cluster::{CancelToken, Error, Isolation, LockMode, OpenError};
use isomer_design::{Key, Schema, SiteId, TableId};
use isomer_sql::SqlError;
use isomer_sql::catalog::{Table, numbered, plain};
use isomer_sql::datum::Datum;
use isomer_sql::system::row_id_sequence;
use std::sync::Arc;
use std::time::Duration;

/// Who waits for the clock looks so often.
const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Makes a table of the store, under a name like the wanted one that is free, as one partition.
    pub(crate) fn store_table(
        &self,
        wanted: &str,
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        self.store_table_at(wanted, &[(Key::min(), self.first_site())], schema)
    }

    /// As [`Engine::store_table`], with these partitions: where each begins, and its master.
    pub(crate) fn store_table_at(
        &self,
        wanted: &str,
        partitions: &[(Key, SiteId)],
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        let mut name = plain(wanted);
        let mut number = 1;
        while self.database().find_table(&name).is_some() {
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

    /// A site may be ahead of the clock: waits until that has come to the time at which a table was made.
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

    /// Lets the store forget a table that nothing uses any more.
    pub(crate) fn discard(&self, table: TableId, schema: &Schema) -> Result<(), SqlError> {
        self.database().drop_table(table).map_err(database)?;
        // Or a column of a client that is called so: then there is no such sequence.
        if schema.key_columns().last().is_some_and(|column| column.name.starts_with("row_id")) {
            self.set_sequence(&row_id_sequence(table), None)?;
        }
        self.forget_unused(schema.name())
    }

    /// Lets the store forget tables that were made for definitions that have come to nothing. One that cannot be
    /// dropped now is dropped at the next start.
    pub(crate) fn forget_made(&self, made: &[Made]) {
        self.set_dropped(made.iter().map(|made| made.id));
        for made in made {
            let _ = self.discard(made.id, &made.schema);
        }
    }

    /// Lets the store forget a table that nothing uses any more, when those who have written to it have ended.
    pub(crate) fn discard_when_free(self: &Arc<Engine>, table: TableId, schema: &Arc<Schema>) {
        self.set_dropped([table]);
        self.retired.lock().push((table, schema.clone()));
        self.discard_retired();
    }

    /// As [`Engine::discard_when_free`], once those who have written to the table have ended; or at once, if nobody
    /// wants to wait for them any more.
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
}

/// The values of a row, with its row id.
pub(crate) fn values_of(table: &Table, key: &[u8], row: &[u8]) -> Result<Vec<Datum>, SqlError> {
    let values = table.schema.decode_row(key, row).map_err(damaged)?.into_iter().enumerate();
    Ok(values.map(|(at, value)| Datum::from_value(value, table.slot_type(at))).collect())
}
