//! Definitions, carried out: CREATE and DROP of tables. [`crate::indexes`] has those of indexes, [`crate::alter`]
//! ALTER.
//!
//! Each locks the tables it is about, exclusively, so it waits for the transactions that have written
//! to them, and later ones wait for it. The catalog changes at the end, at once; what was prepared but
//! not entered when the process stops is never looked at again.
//!
//! Left out: definitions that a ROLLBACK undoes.

use crate::alter::Altering;
use crate::engine::Engine;
use crate::indexes::index_name;
use isomer_cluster::Patience;
use isomer_sql::catalog::{Table, row_schema};
use isomer_sql::define::{self, plain_name};
use isomer_sql::system::row_id_sequence;
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{CreateTable, ObjectName, ObjectType, Statement};
use std::sync::Arc;

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
        patience: &Arc<Patience>,
        around: &Surroundings,
    ) -> Result<Defined, SqlError> {
        let _defining = self.defining.lock();
        let mut notices = Vec::new();
        let tag = match statement {
            Statement::CreateTable(create) => {
                self.create_table(create, &mut notices)?;
                "CREATE TABLE"
            }
            Statement::CreateIndex(create) => {
                self.create_index(create, patience, &mut notices)?;
                "CREATE INDEX"
            }
            Statement::Drop { object_type: ObjectType::Table, if_exists, names, .. } => {
                self.drop_tables(names, *if_exists, patience, &mut notices)?;
                "DROP TABLE"
            }
            Statement::Drop { if_exists, names, .. } => {
                self.drop_indexes(names, *if_exists, patience, &mut notices)?;
                "DROP INDEX"
            }
            Statement::AlterTable(alter) => {
                let notices = &mut notices;
                let mut altering = Altering { engine: self, patience, around, notices };
                for operation in &alter.operations {
                    altering.alter(&alter.name, operation)?;
                }
                "ALTER TABLE"
            }
            other => return Err(SqlError::unsupported(other)),
        };
        Ok(Defined { tag, notices })
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
            let index = self.store_index(&table, unique, name, oid, true)?;
            table.indexes.push(Arc::new(index));
        }
        self.enter(&table)?;
        self.replace_catalog(|tables| {
            tables.insert(table.name.clone(), Arc::new(table));
        });
        Ok(())
    }

    fn drop_tables(
        self: &Arc<Engine>,
        names: &[ObjectName],
        if_exists: bool,
        patience: &Arc<Patience>,
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
        let _locked = self.lock_tables(&tables, patience)?;
        for table in &tables {
            let mut entries = vec![("table", table.name.as_str())];
            entries.extend(table.indexes.iter().map(|index| ("index", index.name.as_str())));
            self.strike(&entries)?;
            self.set_dropped(table.indexes.iter().map(|index| index.id).chain([table.id]));
            self.replace_catalog(|tables| {
                tables.remove(&table.name);
            });
            self.end_sequences(table)?;
            table.indexes.iter().try_for_each(|index| self.discard(index.id))?;
            self.discard(table.id)?;
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
