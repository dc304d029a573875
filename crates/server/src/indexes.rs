//! CREATE INDEX and DROP INDEX, and what constraints and [`crate::alter`] need of indexes.
//!
//! An index is a table of the store. It is [built](build) while writers go on; one that fails, or is cancelled, or
//! that a crash interrupts, is forgotten.

mod build;

use crate::ddl::Defining;
use crate::engine::Engine;
pub(crate) use build::{Build, Builder};
use isomer_cluster::CancelToken;
use isomer_sql::catalog::{Catalog, Index, Table, entry_schema};
use isomer_sql::define::{self, NewIndex, plain_name};
use isomer_sql::{SqlError, code};
use parking_lot::MutexGuard;
use sqlparser::ast::{CreateIndex, ObjectName};
use std::sync::Arc;

impl Engine {
    pub(crate) fn create_index(
        self: &Arc<Engine>,
        create: &CreateIndex,
        defining: &mut Defining<'_>,
        cancel: &Arc<CancelToken>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let table = catalog.table(&plain_name(&create.table_name)?)?.clone();
        let new = define::new_index(create, &table)?;
        let name = match &new.name {
            Some(name) if catalog.has_relation(name) => {
                let message = format!("relation \"{name}\" already exists");
                if create.if_not_exists {
                    let message = format!("{message}, skipping");
                    notices.push(SqlError::new(code::DUPLICATE_TABLE, message));
                    return Ok(());
                }
                return Err(SqlError::new(code::DUPLICATE_TABLE, message));
            }
            Some(name) => name.clone(),
            None => free_name(&catalog, index_name(&table, &new, "idx")),
        };
        self.add_index(&table, &new, (name, false), defining, cancel)
    }

    /// Makes an index of this name, that comes with a constraint or not. Other tables are defined meanwhile.
    pub(crate) fn add_index(
        self: &Arc<Engine>,
        table: &Arc<Table>,
        new: &NewIndex,
        (name, constraint): (String, bool),
        defining: &mut Defining<'_>,
        cancel: &Arc<CancelToken>,
    ) -> Result<(), SqlError> {
        define::check_indexes(table.indexes.len() + 1)?;
        let mut index = self.store_index(table, new, name, self.fresh_oid(), constraint)?;
        let with = |index: &Index| {
            let mut changed = Table::clone(table);
            changed.indexes.push(Arc::new(index.clone()));
            changed
        };
        let being_built = with(&index);
        self.put_in_place(table, being_built.clone())?;
        let build = || Builder::new(self, &being_built, &index, cancel).build();
        match MutexGuard::unlocked(defining, build).map(|()| self.present()) {
            Ok(now) => {
                index.readable = Some(now);
                self.put_in_place(&being_built, with(&index))
            }
            Err(error) => {
                self.put_in_place(&being_built, Table::clone(table))?;
                self.discard_when_free(index.id, &index.schema);
                Err(error)
            }
        }
    }

    /// Makes the table of the store for an index.
    pub(crate) fn store_index(
        &self,
        table: &Table,
        new: &NewIndex,
        name: String,
        oid: u32,
        constraint: bool,
    ) -> Result<Index, SqlError> {
        let (id, schema) = self.store_table(&name, |physical| {
            entry_schema(physical, &table.columns, &table.key, &new.columns)
        })?;
        self.inherit_backups(table.id, id)?;
        let (columns, unique) = (new.columns.clone(), new.unique);
        Ok(Index { id, oid, name, columns, unique, constraint, readable: None, schema })
    }

    pub(crate) fn drop_indexes(
        self: &Arc<Engine>,
        names: &[ObjectName],
        if_exists: bool,
        cancel: &Arc<CancelToken>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        for name in names {
            let name = plain_name(name)?;
            let catalog = self.catalog();
            let Some((table, index)) = catalog.index(&name) else {
                if !if_exists {
                    let message = format!("index \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
                }
                let message = format!("index \"{name}\" does not exist, skipping");
                notices.push(SqlError::new("00000", message));
                continue;
            };
            let (table, name) = (table.clone(), index.name.clone());
            self.drop_index(&table, &name, cancel)?;
        }
        Ok(())
    }

    pub(crate) fn drop_index(
        self: &Arc<Engine>,
        table: &Arc<Table>,
        name: &str,
        cancel: &Arc<CancelToken>,
    ) -> Result<(), SqlError> {
        let _locked = self.lock_tables(std::slice::from_ref(table), cancel)?;
        let mut changed = Table::clone(table);
        changed.indexes.retain(|index| index.name != name);
        let gone = table.indexes.iter().filter(|index| index.name == name);
        self.set_dropped(gone.clone().map(|index| index.id));
        self.put_in_place(table, changed)?;
        gone.into_iter().try_for_each(|index| self.discard(index.id, &index.schema))
    }
}

pub(crate) fn index_name(table: &Table, new: &NewIndex, ending: &str) -> String {
    let columns: Vec<&str> =
        new.columns.iter().map(|&at| table.columns[at].name.as_str()).collect();
    format!("{}_{}_{ending}", table.name, columns.join("_"))
}

pub(crate) fn free_name(catalog: &Catalog, wanted: String) -> String {
    let mut name = wanted.clone();
    let mut number = 0;
    while catalog.has_relation(&name) {
        number += 1;
        name = format!("{wanted}{number}");
    }
    name
}
