//! CREATE INDEX and DROP INDEX, and what constraints and [`crate::alter`] need of indexes.
//!
//! An index is a table of the store, filled from its table's rows while writers wait. It is in the catalog when it
//! is whole; one that fails is forgotten.
//!
//! Left out: building an index while writers go on.

use crate::engine::Engine;
use isomer_cluster::Patience;
use isomer_sql::catalog::{Catalog, Index, Table, entry_schema};
use isomer_sql::define::{self, NewIndex, plain_name};
use isomer_sql::{SqlError, code};
use sqlparser::ast::{CreateIndex, ObjectName};
use std::sync::Arc;

impl Engine {
    pub(crate) fn create_index(
        self: &Arc<Engine>,
        create: &CreateIndex,
        patience: &Arc<Patience>,
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
        self.add_index(&table, &new, name, false, patience)
    }

    pub(crate) fn add_index(
        self: &Arc<Engine>,
        table: &Arc<Table>,
        new: &NewIndex,
        name: String,
        constraint: bool,
        patience: &Arc<Patience>,
    ) -> Result<(), SqlError> {
        let _locked = self.lock_tables(std::slice::from_ref(table), patience)?;
        let index = self.store_index(table, new, name, self.fresh_oid(), constraint)?;
        if let Err(error) = self.fill_index(table, &index) {
            self.set_dropped([index.id]);
            self.discard(index.id)?;
            return Err(error);
        }
        let mut changed = Table::clone(table);
        changed.indexes.push(Arc::new(index));
        self.put_in_place(table, changed)
    }

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
        let (columns, unique) = (new.columns.clone(), new.unique);
        Ok(Index { id, oid, name, columns, unique, constraint, schema })
    }

    pub(crate) fn fill_index(&self, table: &Table, index: &Index) -> Result<(), SqlError> {
        let mut entries = Vec::new();
        self.each_values(table, |values| {
            let (key, prefix) = isomer_sql::catalog::entry_of(table, index, values)?;
            entries.push((key, prefix, values.to_vec()));
            Ok(())
        })?;
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        if index.unique {
            for pair in entries.windows(2) {
                if pair[0].1.is_some() && pair[0].1 == pair[1].1 {
                    let message = format!("could not create unique index \"{}\"", index.name);
                    let detail = isomer_sql::catalog::duplicated(table, index, &pair[0].2);
                    return Err(SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail));
                }
            }
        }
        let rows: Vec<_> = entries.into_iter().map(|(key, ..)| (key, Some(Vec::new()))).collect();
        self.write_all(index.id, &rows)
    }

    pub(crate) fn drop_indexes(
        self: &Arc<Engine>,
        names: &[ObjectName],
        if_exists: bool,
        patience: &Arc<Patience>,
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
            self.drop_index(&table, &name, patience)?;
        }
        Ok(())
    }

    pub(crate) fn drop_index(
        self: &Arc<Engine>,
        table: &Arc<Table>,
        name: &str,
        patience: &Arc<Patience>,
    ) -> Result<(), SqlError> {
        let _locked = self.lock_tables(std::slice::from_ref(table), patience)?;
        let mut changed = Table::clone(table);
        changed.indexes.retain(|index| index.name != name);
        let gone = table.indexes.iter().find(|index| index.name == name).map(|index| index.id);
        self.set_dropped(gone);
        self.put_in_place(table, changed)?;
        gone.into_iter().try_for_each(|id| self.discard(id))
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
