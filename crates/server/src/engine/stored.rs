//! The catalog as the database keeps it: tables of its own, read at the start.
//!
//! ```text
//!   isomer_catalog     kind, name → table, oid, of, constraint, definition
//!                      'table', 'accounts' → 3, 16384, '', false, 'CREATE TABLE ..'
//!                      'index', 'by_owner' → 4, 16385, 'accounts', false, 'CREATE INDEX ..'
//!                      'setting', 'autopilot' → 0, 0, '', false, 'auto'
//!   isomer_sequences   name → the next number that nobody has taken
//! ```
//!
//! A definition is a statement of SQL, so reading the catalog is running the binder of CREATE TABLE.

use super::{Engine, damaged};
use crate::backend::database;
use isomer_cluster::Database;
use isomer_design::{Column, ColumnType, Key, Schema, TableId, Value};
use isomer_plan::learned::Mode;
use isomer_sql::catalog::{Catalog, Index, Table};
use isomer_sql::parse::{Parsed, parse};
use isomer_sql::{SqlError, define};
use sqlparser::ast::Statement;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The one setting of the whole server.
const AUTOPILOT: &str = "autopilot";

impl Engine {
    pub(super) fn read_catalog(&self) -> Result<Catalog, SqlError> {
        let mut catalog = Catalog::default();
        let mut indexes = Vec::new();
        for entry in self.entries()? {
            match entry.kind {
                "table" => {
                    let table = self.table_of(&entry)?;
                    catalog.tables.insert(entry.name, Arc::new(table));
                }
                "index" => indexes.push(entry),
                _ => {}
            }
        }
        for entry in indexes {
            let Some(table) = catalog.tables.get_mut(&entry.of) else { continue };
            let index = self.index_of(&entry, table)?;
            Arc::make_mut(table).indexes.push(Arc::new(index));
        }
        catalog.version = 1;
        Ok(catalog)
    }

    fn entries(&self) -> Result<Vec<Entry>, SqlError> {
        let (table, schema) = &self.catalog_table;
        let mut rows = Vec::new();
        self.each_row(*table, |key, row| {
            rows.push(schema.decode_row(key, row));
            ControlFlow::Continue(())
        })?;
        rows.into_iter().map(|row| Entry::read(row.map_err(damaged)?)).collect()
    }

    /// The mode of the autopilot that was kept last.
    pub(super) fn kept_autopilot(&self) -> Result<Option<Mode>, SqlError> {
        let entries = self.entries()?;
        let kept = entries.iter().find(|entry| entry.kind == "setting" && entry.name == AUTOPILOT);
        kept.map(|entry| entry.definition.parse().map_err(damaged)).transpose()
    }

    /// Keeps the mode of the autopilot for the next start.
    pub(crate) fn keep_autopilot(&self, mode: Mode) -> Result<(), SqlError> {
        let entry = Entry {
            kind: "setting",
            name: AUTOPILOT.to_owned(),
            table: TableId(0),
            oid: 0,
            of: String::new(),
            constraint: false,
            definition: mode.to_string(),
        };
        let (table, schema) = &self.catalog_table;
        let (key, row) = schema.encode_row(&entry.values()).map_err(damaged)?;
        self.write(*table, &[(key, Some(row))])
    }

    fn schema_of(&self, id: TableId) -> Result<Arc<Schema>, SqlError> {
        let design = self.database().design();
        let table = design.table(id).map_err(damaged)?;
        Ok(table.schema().clone())
    }

    fn table_of(&self, entry: &Entry) -> Result<Table, SqlError> {
        let Some(Parsed::Sql(statement)) = parse(&entry.definition)?.pop() else {
            return Err(damaged("the catalog has no definition"));
        };
        let Statement::CreateTable(create) = *statement else {
            return Err(damaged("the catalog has another definition"));
        };
        let new = define::new_table(&create)?;
        Ok(Table {
            id: entry.table,
            oid: entry.oid,
            name: new.name,
            columns: new.columns,
            key: new.key,
            key_name: new.key_name.unwrap_or_default(),
            checks: new.checks,
            indexes: Vec::new(),
            schema: self.schema_of(entry.table)?,
        })
    }

    fn index_of(&self, entry: &Entry, table: &Table) -> Result<Index, SqlError> {
        let Some(Parsed::Sql(statement)) = parse(&entry.definition)?.pop() else {
            return Err(damaged("the catalog has no definition"));
        };
        let Statement::CreateIndex(create) = *statement else {
            return Err(damaged("the catalog has another definition"));
        };
        let new = define::new_index(&create, table)?;
        Ok(Index {
            id: entry.table,
            oid: entry.oid,
            name: entry.name.clone(),
            columns: new.columns,
            unique: new.unique,
            constraint: entry.constraint,
            schema: self.schema_of(entry.table)?,
        })
    }

    /// Writes the rows of the catalog for a table and its indexes.
    pub(crate) fn enter(&self, table: &Table) -> Result<(), SqlError> {
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

    pub(crate) fn strike(&self, entries: &[(&str, &str)]) -> Result<(), SqlError> {
        let (catalog, schema) = &self.catalog_table;
        let mut rows = Vec::new();
        for (kind, name) in entries {
            let key =
                schema.encode_key(&[Value::from(*kind), Value::from(*name)]).map_err(damaged)?;
            rows.push((key, None));
        }
        self.write(*catalog, &rows)
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
        let id = new.id;
        let version = self.replace_catalog(|tables| {
            tables.remove(&old.name);
            tables.insert(new.name.clone(), Arc::new(new));
        });
        // Who waits for the table has planned without it.
        self.set_redefined(id, version);
        Ok(())
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

/// A row of the catalog.
pub(crate) struct Entry {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) table: TableId,
    pub(crate) oid: u32,
    pub(crate) of: String,
    pub(crate) constraint: bool,
    pub(crate) definition: String,
}

impl Entry {
    pub(crate) fn values(&self) -> Vec<Value> {
        vec![
            Value::from(self.kind),
            Value::from(self.name.as_str()),
            Value::Int64(self.table.0.into()),
            Value::Int64(self.oid.into()),
            Value::from(self.of.as_str()),
            Value::Bool(self.constraint),
            Value::from(self.definition.as_str()),
        ]
    }

    fn read(values: Vec<Value>) -> Result<Entry, SqlError> {
        let values: Result<[Value; 7], _> = values.try_into();
        let Ok(
            [
                Value::Text(kind),
                Value::Text(name),
                Value::Int64(table),
                Value::Int64(oid),
                Value::Text(of),
                Value::Bool(constraint),
                Value::Text(definition),
            ],
        ) = values
        else {
            return Err(damaged("a row of the catalog has other columns"));
        };
        let kinds = ["table", "index", "setting"];
        let kind = kinds.into_iter().find(|known| *known == kind).ok_or_else(|| {
            damaged(format!("the catalog has a row of the unknown kind {kind:?}"))
        })?;
        let table = TableId(u32::try_from(table).map_err(damaged)?);
        let oid = u32::try_from(oid).map_err(damaged)?;
        Ok(Entry { kind, name, table, oid, of, constraint, definition })
    }
}

pub(super) fn catalog_schema() -> Result<Schema, isomer_design::SchemaError> {
    let columns = vec![
        Column::new("kind", ColumnType::Text),
        Column::new("name", ColumnType::Text),
        Column::new("table_id", ColumnType::Int64),
        Column::new("oid", ColumnType::Int64),
        Column::new("of_table", ColumnType::Text),
        Column::new("is_constraint", ColumnType::Bool),
        Column::new("definition", ColumnType::Text),
    ];
    Schema::new("isomer_catalog", columns, &["kind", "name"])
}

pub(super) fn sequences_schema() -> Result<Schema, isomer_design::SchemaError> {
    let columns =
        vec![Column::new("name", ColumnType::Text), Column::new("next", ColumnType::Int64)];
    Schema::new("isomer_sequences", columns, &["name"])
}

pub(super) fn system_table(
    db: &Database,
    schema: Result<Schema, isomer_design::SchemaError>,
) -> Result<(TableId, Arc<Schema>), SqlError> {
    let schema = schema.map_err(damaged)?;
    if let Ok(found) = db.table(schema.name()) {
        return Ok(found);
    }
    let site = db.design().sites().first().ok_or_else(|| damaged("there are no sites"))?;
    let name = schema.name().to_owned();
    db.create_table(schema, &[(Key::min(), site)]).map_err(database)?;
    db.table(&name).map_err(database)
}
