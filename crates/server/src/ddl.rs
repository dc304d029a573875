//! Definitions, carried out: CREATE and DROP of tables and indexes. [`crate::alter`] has ALTER.
//!
//! Each locks the tables it is about, exclusively, so it waits for the transactions that have written
//! to them, and later ones wait for it. The catalog changes at the end, at once; what was prepared but
//! not entered when the process stops is never looked at again.
//!
//! Left out: definitions inside of a transaction block (an error that says so); building an index while
//! writers go on.

use crate::alter::Altering;
use crate::backend::{database, explain};
use crate::engine::{Engine, Entry, damaged};
use isomer_cluster::{Isolation, LockMode, OpenTransaction, Patience};
use isomer_design::{Key, Schema, TableId, Value};
use isomer_sql::catalog::{Index, Table, entry_schema, plain, row_schema};
use isomer_sql::datum::Datum;
use isomer_sql::define::{self, NewIndex, plain_name};
use isomer_sql::system::row_id_sequence;
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{CreateIndex, CreateTable, ObjectName, ObjectType, Statement};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows are written so many at a time.
const BATCH_ROWS: usize = 20_000;

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
        self.database()
            .create_table(schema, &[(Key::min(), self.first_site())])
            .map_err(database)?;
        self.database().table(&name).map_err(database)
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

    /// Writes the rows of the catalog for a table and its indexes.
    fn enter(&self, table: &Table) -> Result<(), SqlError> {
        let mut entries = vec![Entry {
            kind: "table",
            name: table.name.clone(),
            table: table.id,
            oid: table.oid,
            of: String::new(),
            constraint: false,
            definition: table.definition(),
        }];
        entries.extend(table.indexes.iter().map(|index| index_entry(table, index)));
        let (catalog, schema) = &self.catalog_table;
        let mut rows = Vec::new();
        for entry in entries {
            let (key, row) = schema.encode_row(&entry.values()).map_err(damaged)?;
            rows.push((key, Some(row)));
        }
        self.write(*catalog, &rows)
    }

    fn strike(&self, entries: &[(&str, &str)]) -> Result<(), SqlError> {
        let (catalog, schema) = &self.catalog_table;
        let mut rows = Vec::new();
        for (kind, name) in entries {
            let key =
                schema.encode_key(&[Value::from(*kind), Value::from(*name)]).map_err(damaged)?;
            rows.push((key, None));
        }
        self.write(*catalog, &rows)
    }

    /// Locks tables until what is returned is dropped.
    pub(crate) fn lock_tables(
        self: &Arc<Engine>,
        tables: &[Arc<Table>],
        patience: &Arc<Patience>,
    ) -> Result<OpenTransaction, SqlError> {
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, patience.clone());
        for table in tables {
            for id in std::iter::once(table.id).chain(table.indexes.iter().map(|index| index.id)) {
                txn.lock(id, &Key::min(), LockMode::Exclusive, true).map_err(explain)?;
            }
        }
        Ok(txn)
    }

    fn create_index(
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
        self.enter(&changed)?;
        self.replace_catalog(|tables| {
            tables.insert(changed.name.clone(), Arc::new(changed));
        });
        Ok(())
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

    /// Shows the values of all rows of a table.
    pub(crate) fn each_values(
        &self,
        table: &Table,
        mut visit: impl FnMut(&[Datum]) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut result = Ok(());
        self.each_row(table.id, |key, row| {
            let values = table.schema.decode_row(key, row).map_err(damaged);
            result = values.and_then(|values| {
                let typed = values.into_iter().enumerate();
                let values: Vec<Datum> = typed
                    .map(|(at, value)| Datum::from_value(value, table.slot_type(at)))
                    .collect();
                visit(&values)
            });
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result
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

    /// Lets the store forget a table that nothing of the catalog uses.
    pub(crate) fn discard(&self, table: TableId) -> Result<(), SqlError> {
        self.database().drop_table(table).map_err(database)
    }

    fn drop_indexes(
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

    /// Puts a changed table in the place of another, in the catalog.
    pub(crate) fn put_in_place(&self, old: &Table, new: Table) -> Result<(), SqlError> {
        if old.name != new.name {
            self.strike(&[("table", &old.name)])?;
        }
        let kept = |name: &str| new.indexes.iter().any(|index| index.name == name);
        let gone: Vec<(&str, &str)> = old
            .indexes
            .iter()
            .map(|index| ("index", index.name.as_str()))
            .filter(|(_, name)| !kept(name))
            .collect();
        if !gone.is_empty() {
            self.strike(&gone)?;
        }
        self.enter(&new)?;
        self.replace_catalog(|tables| {
            tables.remove(&old.name);
            tables.insert(new.name.clone(), Arc::new(new));
        });
        Ok(())
    }

    /// Writes the rows of a new table of the store, which are in the order of their keys.
    pub(crate) fn write_all(
        &self,
        table: TableId,
        rows: &[(Key, Option<Vec<u8>>)],
    ) -> Result<(), SqlError> {
        rows.chunks(BATCH_ROWS).try_for_each(|batch| self.write(table, batch))
    }
}

fn index_entry(table: &Table, index: &Index) -> Entry {
    Entry {
        kind: "index",
        name: index.name.clone(),
        table: index.id,
        oid: index.oid,
        of: table.name.clone(),
        constraint: index.constraint,
        definition: index.definition(table),
    }
}

pub(crate) fn index_name(table: &Table, new: &NewIndex, ending: &str) -> String {
    let columns: Vec<&str> =
        new.columns.iter().map(|&at| table.columns[at].name.as_str()).collect();
    format!("{}_{}_{ending}", table.name, columns.join("_"))
}

pub(crate) fn free_name(catalog: &isomer_sql::catalog::Catalog, wanted: String) -> String {
    let mut name = wanted.clone();
    let mut number = 0;
    while catalog.has_relation(&name) {
        number += 1;
        name = format!("{wanted}{number}");
    }
    name
}
