//! Definitions, carried out: CREATE and DROP of tables. [`crate::indexes`] has those of indexes, [`crate::alter`]
//! ALTER.
//!
//! Each locks the tables it is about, exclusively, so it waits for the transactions that have written
//! to them, and later ones wait for it; but for indexes, which are [built](crate::indexes) while writers go on.
//! The catalog changes at the end, at once.
//!
//! One definition is at work at a time, and none is about a table whose index is being built: that table's row of
//! the catalog is locked.
//!
//! Left out: definitions that a ROLLBACK undoes.

use crate::alter::Altering;
use crate::backend::explain;
use crate::engine::Engine;
use crate::indexes::index_name;
use crate::limits;
use isomer_cluster::{CancelToken, Isolation, LockMode, OpenTransaction};
use isomer_design::Time;
use isomer_sql::catalog::{Catalog, Table, row_schema};
use isomer_sql::define::{self, plain_name};
use isomer_sql::system::row_id_sequence;
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, code};
use parking_lot::MutexGuard;
use sqlparser::ast::{CreateTable, ObjectName, ObjectType, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The turn of a definition.
pub(crate) type Defining<'e> = MutexGuard<'e, ()>;

/// What came of a definition.
pub(crate) struct Defined {
    pub(crate) tag: &'static str,
    pub(crate) notices: Vec<SqlError>,
}

impl Engine {
    /// Carries out a definition.
    pub(crate) fn define(
        self: &Arc<Engine>,
        statement: &Statement,
        cancel: &Arc<CancelToken>,
        around: &Surroundings,
    ) -> Result<Defined, SqlError> {
        let (_alone, mut defining) = self.alone_with(statement, cancel)?;
        self.discard_retired();
        let mut notices = Vec::new();
        let tag = match statement {
            Statement::CreateTable(create) => {
                self.create_table(create, &mut notices)?;
                "CREATE TABLE"
            }
            Statement::CreateIndex(create) => {
                self.create_index(create, &mut defining, cancel, &mut notices)?;
                "CREATE INDEX"
            }
            Statement::Drop { object_type: ObjectType::Table, if_exists, names, .. } => {
                self.drop_tables(names, *if_exists, cancel, &mut notices)?;
                "DROP TABLE"
            }
            Statement::Drop { if_exists, names, .. } => {
                self.drop_indexes(names, *if_exists, cancel, &mut notices)?;
                "DROP INDEX"
            }
            Statement::AlterTable(alter) => {
                let (notices, defining) = (&mut notices, &mut defining);
                let mut altering = Altering { engine: self, defining, cancel, around, notices };
                for operation in &alter.operations {
                    cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))?;
                    altering.alter(&alter.name, operation)?;
                }
                "ALTER TABLE"
            }
            other => return Err(SqlError::unsupported(other)),
        };
        Ok(Defined { tag, notices })
    }

    /// Waits until no other definition is about the same tables, and then for the turn.
    fn alone_with(
        self: &Arc<Engine>,
        statement: &Statement,
        cancel: &Arc<CancelToken>,
    ) -> Result<(OpenTransaction, Defining<'_>), SqlError> {
        loop {
            let names = concerned(statement, &self.catalog());
            let mut alone = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
            for name in &names {
                let place = self.row_of_table(name)?;
                alone.lock(place.0, &place.1, LockMode::Exclusive, true).map_err(explain)?;
            }
            let defining = self.defining.lock();
            // An index may have become one of another table while this waited.
            if concerned(statement, &self.catalog()) == names {
                return Ok((alone, defining));
            }
        }
    }

    fn create_table(
        &self,
        create: &CreateTable,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        let mut new = define::new_table(create)?;
        let catalog = self.catalog();
        if catalog.has_relation(&new.name) {
            let message = format!("relation \"{}\" already exists", new.name);
            if new.if_not_exists {
                notices.push(SqlError::new(code::DUPLICATE_TABLE, format!("{message}, skipping")));
                return Ok(());
            }
            return Err(SqlError::new(code::DUPLICATE_TABLE, message));
        }
        for ignored in &new.ignored {
            let message = format!("{ignored} is not enforced");
            notices.push(SqlError::new("01000", message));
        }
        for &at in &new.serial {
            let sequence = format!("{}_{}_seq", new.name, new.columns[at].name);
            self.set_sequence(&sequence, Some(1))?;
            let quoted = sequence.replace('\'', "''");
            new.columns[at].default = Some(format!("nextval('{quoted}')"));
        }
        for &at in &new.key {
            new.columns[at].not_null = true;
        }
        let (id, schema) =
            self.store_table(&new.name, |physical| row_schema(physical, &new.columns, &new.key))?;
        let key_name = new.key_name.clone().unwrap_or_else(|| format!("{}_pkey", new.name));
        let mut table = Table {
            id,
            oid: self.fresh_oid(),
            name: new.name.clone(),
            columns: new.columns.clone(),
            key: new.key.clone(),
            key_name: if new.key.is_empty() { String::new() } else { key_name },
            checks: new.checks.clone(),
            indexes: Vec::new(),
            schema,
        };
        if !table.has_key() {
            self.set_sequence(&row_id_sequence(&table), Some(1))?;
        }
        for unique in &new.unique {
            let oid = table.oid + 1 + table.indexes.len() as u32;
            let name = unique.name.clone().unwrap_or_else(|| index_name(&table, unique, "key"));
            let mut index = self.store_index(&table, unique, name, oid, true)?;
            index.readable = Some(Time(0));
            table.indexes.push(Arc::new(index));
        }
        if let Some(backups) = new.backups {
            self.set_backups(&table, backups)?;
        }
        self.record(None, Some(&table))?;
        self.replace_catalog(|tables| {
            tables.insert(table.name.clone(), Arc::new(table));
        });
        Ok(())
    }

    fn drop_tables(
        self: &Arc<Engine>,
        names: &[ObjectName],
        if_exists: bool,
        cancel: &Arc<CancelToken>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let name = plain_name(name)?;
            match catalog.table(&name) {
                Ok(table) => tables.push(table.clone()),
                Err(_) if if_exists => {
                    let message = format!("table \"{name}\" does not exist, skipping");
                    notices.push(SqlError::new("00000", message));
                }
                Err(_) => {
                    let message = format!("table \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_TABLE, message));
                }
            }
        }
        let _locked = self.lock_tables(&tables, cancel)?;
        for table in &tables {
            self.record(Some(table), None)?;
            self.set_dropped(table.parts().map(|(id, _)| id));
            self.replace_catalog(|tables| {
                tables.remove(&table.name);
            });
            self.end_sequences(table)?;
            table.parts().try_for_each(|(id, schema)| self.discard(id, schema))?;
        }
        Ok(())
    }

    fn end_sequences(&self, table: &Table) -> Result<(), SqlError> {
        if !table.has_key() {
            self.set_sequence(&row_id_sequence(table), None)?;
        }
        for column in &table.columns {
            let name = format!("{}_{}_seq", table.name, column.name);
            if column.default.as_ref().is_some_and(|default| default.contains(&name)) {
                self.set_sequence(&name, None)?;
            }
        }
        Ok(())
    }
}

/// The tables that a definition changes, by name.
fn concerned(statement: &Statement, catalog: &Catalog) -> BTreeSet<String> {
    let names = match statement {
        Statement::CreateIndex(create) => std::slice::from_ref(&create.table_name),
        Statement::AlterTable(alter) => std::slice::from_ref(&alter.name),
        Statement::Drop { names, .. } => names,
        _ => &[],
    };
    let of_index = matches!(statement, Statement::Drop { object_type: ObjectType::Index, .. });
    let table = |name: String| match of_index {
        true => catalog.index(&name).map(|(table, _)| table.name.clone()),
        false => Some(name),
    };
    names.iter().filter_map(|name| plain_name(name).ok()).filter_map(table).collect()
}
