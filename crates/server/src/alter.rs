//! ALTER TABLE.
//!
//! ```text
//!   names, defaults, checks     the catalog changes, and nothing else
//!   columns, types, keys        a new table of the store is filled from the old one and takes its place
//! ```
//!
//! The store's rows have a layout that their columns decide, so a new column means new rows. The table is
//! locked against writers meanwhile, and read by everybody until its place is taken.
//!
//! Left out: keeping the partitions of rows that are written anew (they begin as one again), dropping a column of the primary key, USING, and a column's rename where a CHECK looks at it.

use crate::backend::Backend;
use crate::ddl::{free_name, index_name};
use crate::engine::{Engine, damaged};
use isomer_cluster::{Isolation, Patience};
use isomer_design::Key;
use isomer_sql::catalog::{Check, Table, TableColumn, row_schema};
use isomer_sql::datum::{Datum, convert};
use isomer_sql::define::{self, NewIndex, plain_name};
use isomer_sql::parse::parse;
use isomer_sql::statement::compile;
use isomer_sql::system::row_id_sequence;
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, SqlType, code};
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, Ident, ObjectName, RenameTableNameKind,
    TableConstraint,
};
use std::sync::Arc;

/// What ALTER TABLE is carried out with.
pub(crate) struct Altering<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) patience: &'a Arc<Patience>,
    pub(crate) around: &'a Surroundings,
    pub(crate) notices: &'a mut Vec<SqlError>,
}

/// The columns of a new table, and for each the value that it gets of an old row's.
type Filled<'f> = &'f dyn Fn(&[Datum]) -> Result<Vec<Datum>, SqlError>;

impl Altering<'_> {
    /// Carries out one operation.
    pub(crate) fn alter(
        &mut self,
        name: &ObjectName,
        operation: &AlterTableOperation,
    ) -> Result<(), SqlError> {
        use AlterTableOperation as Operation;
        let table = self.engine.catalog().table(&plain_name(name)?)?.clone();
        match operation {
            Operation::AddConstraint { constraint, .. } => self.add_constraint(&table, constraint),
            Operation::DropConstraint { name, if_exists, .. } => {
                self.drop_constraint(&table, name, *if_exists)
            }
            Operation::AddColumn { column_def, if_not_exists, .. } => {
                self.add_column(&table, column_def, *if_not_exists)
            }
            Operation::DropColumn { column_names, if_exists, .. } => {
                column_names.iter().try_for_each(|name| self.drop_column(name, &table, *if_exists))
            }
            Operation::AlterColumn { column_name, op } => {
                self.alter_column(&table, table.column(&folded(column_name))?, op)
            }
            Operation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(&table, &folded(old_column_name), folded(new_column_name))
            }
            Operation::RenameTable {
                table_name: RenameTableNameKind::As(to) | RenameTableNameKind::To(to),
            } => self.rename_table(&table, plain_name(to)?),
            Operation::OwnerTo { .. } => Ok(()),
            other => Err(SqlError::unsupported(format!("ALTER TABLE .. {other}"))),
        }
    }

    fn add_constraint(
        &mut self,
        table: &Arc<Table>,
        constraint: &TableConstraint,
    ) -> Result<(), SqlError> {
        let columns = |columns| define::columns_of(&table.columns, &table.name, columns);
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let name = key.name.as_ref().map(folded);
                self.set_key(table, columns(&key.columns)?, name)
            }
            TableConstraint::Unique(unique) => {
                let name = unique.name.as_ref().map(folded);
                let new = NewIndex {
                    name: name.clone(),
                    columns: columns(&unique.columns)?,
                    unique: true,
                };
                let wanted = || free_name(&self.engine.catalog(), index_name(table, &new, "key"));
                let name = name.unwrap_or_else(wanted);
                self.engine.add_index(table, &new, name, true, self.patience)
            }
            TableConstraint::ForeignKey(_) => {
                self.notices.push(SqlError::new("01000", "a foreign key is not enforced"));
                Ok(())
            }
            TableConstraint::Check(check) => {
                let _locked =
                    self.engine.lock_tables(std::slice::from_ref(table), self.patience)?;
                let name = check.name.as_ref().map(folded);
                let name = name.unwrap_or_else(|| format!("{}_check", table.name));
                let broken = format!(
                    "SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1",
                    quoted(&table.name),
                    check.expr
                );
                if self.first(&broken)?.is_some() {
                    let message = format!(
                        "check constraint \"{name}\" of relation \"{}\" is violated by some row",
                        table.name
                    );
                    return Err(SqlError::new(code::CHECK_VIOLATION, message));
                }
                let mut changed = Table::clone(table);
                changed.checks.push(Check { name, condition: check.expr.to_string() });
                self.engine.put_in_place(table, changed)
            }
            other => Err(SqlError::unsupported(format!("ADD {other}"))),
        }
    }

    fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &Ident,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let name = folded(name);
        if table.indexes.iter().any(|index| index.name == name && index.constraint) {
            return self.engine.drop_index(table, &name, self.patience);
        }
        if table.has_key() && table.key_name == name {
            return Err(SqlError::unsupported("dropping a primary key"));
        }
        let mut changed = Table::clone(table);
        changed.checks.retain(|check| check.name != name);
        if changed.checks.len() < table.checks.len() {
            return self.engine.put_in_place(table, changed);
        }
        let message =
            format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        if !if_exists {
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        self.notices.push(SqlError::new("00000", format!("{message}, skipping")));
        Ok(())
    }

    fn add_column(
        &mut self,
        table: &Arc<Table>,
        column: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let name = folded(&column.name);
        if table.columns.iter().any(|other| other.name == name) {
            let message =
                format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if !if_not_exists {
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            self.notices
                .push(SqlError::new(code::DUPLICATE_COLUMN, format!("{message}, skipping")));
            return Ok(());
        }
        let new = define::new_column(&table.name, column)?;
        let value = match &new.column.default {
            Some(default) => self.first(&format!("SELECT ({default})::{}", new.column.ty))?,
            None => None,
        };
        let value = value.unwrap_or(Datum::Null);
        let mut columns = table.columns.clone();
        columns.push(new.column);
        let mut checks = table.checks.clone();
        checks.extend(new.checks);
        let fill = |old: &[Datum]| {
            let mut values = old.to_vec();
            values.push(value.clone());
            Ok(values)
        };
        self.rebuild(table, Table { columns, checks, ..Table::clone(table) }, &fill)
    }

    fn drop_column(
        &mut self,
        name: &Ident,
        table: &Arc<Table>,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        // An operation before this one may have changed the table.
        let table = self.engine.catalog().table(&table.name)?.clone();
        let name = folded(name);
        let at = match table.column(&name) {
            Err(error) if if_exists => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new("00000", message));
                return Ok(());
            }
            found => found?,
        };
        if table.key.contains(&at) {
            return Err(SqlError::unsupported("dropping a column of the primary key"));
        }
        if table.columns.len() == 1 {
            return Err(SqlError::unsupported("a table without columns"));
        }
        let mut changed = Table::clone(&table);
        changed.columns.remove(at);
        changed.checks.retain(|check| !mentions(&check.condition, &name));
        changed.indexes.retain(|index| !index.columns.contains(&at));
        changed.key.iter_mut().filter(|key| **key > at).for_each(|key| *key -= 1);
        let fill = |old: &[Datum]| {
            let mut values = old.to_vec();
            values.remove(at);
            Ok(values)
        };
        self.rebuild(&table, changed, &fill)
    }

    fn alter_column(
        &mut self,
        table: &Arc<Table>,
        at: usize,
        operation: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        let mut changed = Table::clone(table);
        let column = &mut changed.columns[at];
        match operation {
            AlterColumnOperation::SetDefault { value } => {
                column.default = Some(value.to_string());
                return self.engine.put_in_place(table, changed);
            }
            AlterColumnOperation::DropDefault => {
                column.default = None;
                return self.engine.put_in_place(table, changed);
            }
            AlterColumnOperation::SetNotNull => column.not_null = true,
            AlterColumnOperation::DropNotNull if table.key.contains(&at) => {
                let message = format!("column \"{}\" is in a primary key", column.name);
                return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
            }
            AlterColumnOperation::DropNotNull => column.not_null = false,
            AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                column.ty = SqlType::parse(data_type)?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER COLUMN .. {other}"))),
        }
        let ty = column.ty;
        let fill = |old: &[Datum]| {
            let mut values = old.to_vec();
            values[at] = convert(std::mem::replace(&mut values[at], Datum::Null), ty, true)?;
            Ok(values)
        };
        self.rebuild(table, changed, &fill)
    }

    fn rename_column(
        &mut self,
        table: &Arc<Table>,
        from: &str,
        to: String,
    ) -> Result<(), SqlError> {
        let at = table.column(from)?;
        if table.columns.iter().any(|column| column.name == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        if table.checks.iter().any(|check| mentions(&check.condition, from)) {
            return Err(SqlError::unsupported("renaming a column that a CHECK looks at"));
        }
        let mut changed = Table::clone(table);
        changed.columns[at].name = to;
        self.engine.put_in_place(table, changed)
    }

    fn rename_table(&mut self, table: &Arc<Table>, to: String) -> Result<(), SqlError> {
        if self.engine.catalog().has_relation(&to) {
            let message = format!("relation \"{to}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_TABLE, message));
        }
        self.engine.put_in_place(table, Table { name: to, ..Table::clone(table) })
    }

    /// Gives a table that was made without a key one.
    fn set_key(
        &mut self,
        table: &Arc<Table>,
        key: Vec<usize>,
        name: Option<String>,
    ) -> Result<(), SqlError> {
        if table.has_key() {
            let message =
                format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        let mut columns: Vec<TableColumn> = table.columns.clone();
        key.iter().for_each(|&at| columns[at].not_null = true);
        let key_name = name.unwrap_or_else(|| format!("{}_pkey", table.name));
        let changed = Table { columns, key, key_name, ..Table::clone(table) };
        self.rebuild(table, changed, &|old| Ok(old.to_vec()))
    }

    /// Puts a table in the place of another, with its rows as `fill` makes them, and its indexes anew.
    fn rebuild(
        &mut self,
        old: &Arc<Table>,
        mut new: Table,
        fill: Filled<'_>,
    ) -> Result<(), SqlError> {
        let engine = self.engine;
        let _locked = engine.lock_tables(std::slice::from_ref(old), self.patience)?;
        let (id, schema) = engine
            .store_table(&new.name, |physical| row_schema(physical, &new.columns, &new.key))?;
        (new.id, new.schema) = (id, schema);
        let kept = std::mem::take(&mut new.indexes);
        let mut made = vec![id];
        let filled = self.refill(old, &new, fill).and_then(|()| {
            for index in kept {
                let place = |at: &usize| new.column(&old.columns[*at].name);
                let columns = index.columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
                let (name, unique) = (index.name.clone(), index.unique);
                let wanted = NewIndex { name: Some(name.clone()), columns, unique };
                let index = engine.store_index(&new, &wanted, name, index.oid, index.constraint)?;
                made.push(index.id);
                engine.fill_index(&new, &index)?;
                new.indexes.push(Arc::new(index));
            }
            Ok(())
        });
        if let Err(error) = filled {
            engine.set_dropped(made.iter().copied());
            made.into_iter().try_for_each(|id| engine.discard(id))?;
            return Err(error);
        }
        let gone: Vec<_> = old.indexes.iter().map(|index| index.id).chain([old.id]).collect();
        engine.set_dropped(gone.iter().copied());
        engine.put_in_place(old, new)?;
        if !old.has_key() {
            engine.set_sequence(&row_id_sequence(old), None)?;
        }
        gone.into_iter().try_for_each(|id| engine.discard(id))
    }

    fn refill(&self, old: &Table, new: &Table, fill: Filled<'_>) -> Result<(), SqlError> {
        let mut rows: Vec<(Key, Option<Vec<u8>>)> = Vec::new();
        let mut last_id = 0;
        self.engine.each_values(old, |values| {
            let mut filled = fill(&values[..old.columns.len()])?;
            if !new.has_key() {
                filled.extend(values.last().cloned());
                last_id = values.last().and_then(Datum::as_int).unwrap_or(0).max(last_id);
            }
            let (key, row) = isomer_sql::catalog::row_of(new, &filled)?;
            rows.push((key, Some(row)));
            Ok(())
        })?;
        if !new.has_key() {
            self.engine.set_sequence(&row_id_sequence(new), Some(last_id + 1))?;
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("could not create unique index \"{}\"", new.key_name);
            let key = new.schema.format_key(&pair[0].0);
            let detail = format!("Key {key} is duplicated.");
            return Err(SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail));
        }
        self.engine.write_all(new.id, &rows)
    }

    /// The first value of a query; none if it has no row.
    fn first(&self, query: &str) -> Result<Option<Datum>, SqlError> {
        let Some(parsed) = parse(query)?.pop() else { return Err(damaged("an empty query")) };
        let catalog = self.engine.catalog();
        let compiled = compile(&parsed, query, &catalog, &[])?;
        let txn = self.engine.gateway().begin(Isolation::ReadCommitted, self.patience.clone());
        let (engine, patience) = (self.engine.clone(), self.patience.clone());
        let mut backend = Backend::new(txn, engine, patience, true, self.around.begun_us);
        let mut found = None;
        compiled.run(&mut backend, &[], self.around, &catalog, &mut |values: &[Datum]| {
            found = values.first().cloned();
            Ok(())
        })?;
        Ok(found)
    }
}

/// True if a condition has this word.
fn mentions(condition: &str, name: &str) -> bool {
    let inside = |sign: char| !(sign.is_alphanumeric() || sign == '_');
    condition.split(inside).any(|word| word.eq_ignore_ascii_case(name))
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
