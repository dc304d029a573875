//! CREATE INDEX and DROP INDEX, and the index functions for constraints and [`crate::alter`].
//!
//! An index is a store table. CREATE INDEX outside of a block [builds](build) it while writers
//! continue. Inside a block it is part of the transaction. Its table is locked until the end, and
//! the index is filled with the rows that the block sees. An index that fails, or is cancelled or
//! interrupted by a crash, is dropped.

mod build;

use crate::alter::{check_constraint_name, in_one_order};
use crate::backend::explain;
use crate::ddl::{Definer, concerned};
use crate::engine::{Engine, values_of};
pub(crate) use build::{Build, Builder, Target, sharding};
use isomer_cluster::{CancelToken, Isolation, LockMode, OpenTransaction};
use isomer_design::{Direction, Key, KeyRange, SiteId};
use isomer_sql::budget::Budget;
use isomer_sql::catalog::{
    Catalog, Immutable, Index, Name, Named, Relation, Table, entry_key, entry_schema,
    free_made_name,
};
use isomer_sql::define::{self, NewIndex};
use isomer_sql::statement::Definition;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{CreateIndex, ObjectName, Statement};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The entries per batch.
const BATCH_ENTRIES: usize = 20_000;
/// The poll interval of waits for another transaction's commit.
const LOOK: Duration = Duration::from_millis(1);

/// The target of a CREATE INDEX: the table, the index, its name. `None` if it exists and IF NOT
/// EXISTS was given.
type Wanted = Option<(Arc<Table>, NewIndex, Name)>;

/// The requester of a build: its cancellation token and memory budget.
pub(crate) type Asker<'e> = (&'e Arc<CancelToken>, &'e Rc<Budget>);

/// Visits the key and the bytes of a row.
pub(crate) type EachRow<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<(), SqlError>;

fn wanted(
    create: &CreateIndex,
    catalog: &Catalog,
    notices: &mut Vec<SqlError>,
) -> Result<Wanted, SqlError> {
    let table = catalog.table(&Named::of(&create.table_name)?)?.clone();
    in_one_order(&table)?;
    let new = define::new_index(create, &table, catalog)?;
    let named = new.name.as_ref().map(|name| Name { name: name.clone(), ..table.full_name() });
    let name = match named {
        Some(name) if catalog.has_relation(&name) => {
            let message = format!("relation \"{}\" already exists", name.name);
            if create.if_not_exists {
                let message = format!("{message}, skipping");
                notices.push(SqlError::new(code::DUPLICATE_TABLE, message));
                return Ok(None);
            }
            return Err(SqlError::new(code::DUPLICATE_TABLE, message));
        }
        Some(name) => name,
        None => index_name(catalog, &table, &new, "idx"),
    };
    define::check_indexes(table.indexes.len() + 1)?;
    Ok(Some((table, new, name)))
}

impl Engine {
    /// Executes a CREATE INDEX outside of a block: writers continue meanwhile, and other tables can
    /// be defined.
    pub(crate) fn create_index_online(
        self: &Arc<Engine>,
        create: &CreateIndex,
        (cancel, budget): Asker<'_>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        self.discard_retired();
        let mut alone = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
        let definition = Definition::Sql(Box::new(Statement::CreateIndex(create.clone())));
        for name in concerned(&definition, &self.catalog()) {
            let (table, key) = self.row_of("table", &name.kept())?;
            alone.lock(table, &key, LockMode::Exclusive, true).map_err(explain)?;
        }
        // A rollback to this savepoint releases the DDL lock.
        let without_turn = alone.savepoint();
        self.take_turn(&mut alone, cancel)?;
        let Some((table, new, name)) = wanted(create, &self.catalog(), notices)? else {
            return Ok(());
        };
        let mut index = self.store_index(&table, &new, name.name, false, &self.catalog())?;
        index.is_entered = false;
        let with = |index: &Index| {
            let mut changed = Table::clone(&table);
            changed.indexes.push(Arc::new(index.clone()));
            Arc::new(changed)
        };
        let known = with(&index);
        self.put_in_place(&table, known.clone())?;
        alone.back_to(without_turn);
        let built = self.build_last(&mut alone, &known, (cancel, budget));
        let built = built.and_then(|()| self.take_turn(&mut alone, cancel));
        match built.map(|()| self.present()) {
            Ok(now) => {
                (index.readable, index.is_entered) = (Some(now), true);
                self.put_in_place(&known, with(&index))
            }
            Err(error) => {
                // The original request may be cancelled, but this wait must not be.
                let mut last = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
                self.take_turn(&mut last, &Arc::default())?;
                self.put_in_place(&known, table.clone())?;
                drop(last);
                self.discard_when_free(index.id, &index.schema);
                Err(error)
            }
        }
    }

    /// Builds the last index of a table, which writers know as delete-only.
    pub(crate) fn build_last(
        self: &Arc<Engine>,
        alone: &mut OpenTransaction,
        known: &Arc<Table>,
        (cancel, budget): Asker<'_>,
    ) -> Result<(), SqlError> {
        let index = known.indexes.last().expect("it has just come");
        let builder = Builder::new(self, known, Target::Index(index), (cancel, budget));
        builder.outlive_writers()?;
        let mut entered = Table::clone(known);
        entered.indexes.iter_mut().for_each(|index| Arc::make_mut(index).is_entered = true);
        let without_turn = alone.savepoint();
        let turn = self.take_turn(alone, cancel);
        let placed = turn.and_then(|()| self.put_in_place(known, Arc::new(entered)));
        alone.back_to(without_turn);
        placed.and_then(|()| builder.build())
    }

    /// Waits for the DDL lock.
    pub(crate) fn take_turn(
        &self,
        txn: &mut OpenTransaction,
        cancel: &Arc<CancelToken>,
    ) -> Result<(), SqlError> {
        let (table, key) = self.turn()?;
        txn.lock(table, &key, LockMode::Exclusive, true).map_err(explain)?;
        while self.is_publishing() {
            self.gateway().pause(cancel, LOOK).map_err(explain)?;
        }
        Ok(())
    }

    /// Creates the store table of an index.
    pub(crate) fn store_index(
        &self,
        table: &Table,
        new: &NewIndex,
        name: String,
        constraint: bool,
        catalog: &Catalog,
    ) -> Result<Index, SqlError> {
        let begins = [(Key::min(), self.first_site())];
        self.store_index_at(table, new, (name, constraint), &begins, catalog)
    }

    /// As [`Engine::store_index`], with these partitions.
    pub(crate) fn store_index_at(
        &self,
        table: &Table,
        new: &NewIndex,
        (name, constraint): (String, bool),
        partitions: &[(Key, SiteId)],
        catalog: &Catalog,
    ) -> Result<Index, SqlError> {
        let (parts, predicate) = new.bound(table, catalog)?;
        let place = table.key_slots();
        let (id, schema) = self.store_table_at(&name, partitions, |physical| {
            entry_schema(physical, &table.columns, &place, &parts)
        })?;
        self.inherit_backups(table.id, id)?;
        crate::engine::inherit_isolation(self, table.id, id)?;
        let (columns, oid) = (Index::columns_of(&parts), self.fresh_oid());
        let NewIndex { unique, nulls_equal, .. } = *new;
        let (readable, is_entered) = (None, true);
        Ok(Index {
            id,
            oid,
            name,
            parts,
            columns,
            unique,
            nulls_equal,
            predicate,
            constraint,
            readable,
            is_entered,
            schema,
        })
    }
}

impl Definer<'_> {
    pub(crate) fn create_index(&mut self, create: &CreateIndex) -> Result<(), SqlError> {
        if create.concurrently {
            let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        match wanted(create, &self.catalog(), self.notices)? {
            Some((table, new, name)) => self.add_index(&table, &new, name.name, false),
            None => Ok(()),
        }
    }

    /// Creates an index of this name, with or without a constraint, on a table that stays locked.
    pub(crate) fn add_index(
        &mut self,
        table: &Arc<Table>,
        new: &NewIndex,
        name: String,
        constraint: bool,
    ) -> Result<(), SqlError> {
        define::check_indexes(table.indexes.len() + 1)?;
        self.needs_present()?;
        self.backend.lock_definition(table)?;
        let mut index = self.make_index(table, new, name, constraint)?;
        self.fill_index(table, &index)?;
        index.readable = Some(self.engine.present());
        let mut changed = Table::clone(table);
        changed.indexes.push(Arc::new(index));
        self.replace(table, changed);
        Ok(())
    }

    /// Creates the store table of an index, which is dropped again unless the committed catalog
    /// uses it.
    pub(crate) fn make_index(
        &mut self,
        table: &Table,
        new: &NewIndex,
        name: String,
        constraint: bool,
    ) -> Result<Index, SqlError> {
        let index = self.engine.store_index(table, new, name, constraint, &self.catalog())?;
        self.backend.draft.as_mut().expect("a definition has begun").keep(index.id, &index.schema);
        Ok(index)
    }

    /// As [`Definer::make_index`], for a primary key that is not the row key.
    pub(crate) fn make_key_index(&mut self, table: &Table) -> Result<Index, SqlError> {
        self.make_index(table, &key_index(table), table.key_name.clone(), true)
    }

    /// Adds entries for all rows of a locked table, including those of the transaction. They are
    /// invisible to other sessions until it commits.
    pub(crate) fn fill_index(&mut self, table: &Table, index: &Index) -> Result<(), SqlError> {
        let (engine, mut entries) = (self.engine.clone(), Vec::new());
        let (cancel, budget) = (self.backend.cancel.clone(), self.around.budget.clone());
        let by = Immutable::new(budget.clone());
        self.each_row(table, &mut |key, row| {
            let values = values_of(table, key, row)?;
            entries
                .extend(entry_key(table, index, &values, &by)?.map(|key| (key, Some(Vec::new()))));
            if entries.len() == BATCH_ENTRIES {
                engine.write(index.id, &std::mem::take(&mut entries))?;
            }
            Ok(())
        })?;
        engine.write(index.id, &entries)?;
        self.backend.txn.look_again();
        let builder = Builder::new(&engine, table, Target::Index(index), (&cancel, &budget));
        builder.check(&mut self.backend.txn)
    }

    /// Visits all rows of a table that the transaction sees.
    pub(crate) fn each_row(&mut self, table: &Table, visit: EachRow<'_>) -> Result<(), SqlError> {
        let (mut result, cancel) = (Ok(()), self.backend.cancel.clone());
        let scanned =
            self.backend.txn.scan(table.id, &KeyRange::all(), Direction::Forward, |key, row| {
                result = match cancel.over() {
                    Some(why) => Err(crate::limits::ended(why)),
                    None => visit(key, row),
                };
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        scanned.map_err(explain)?;
        result
    }

    pub(crate) fn drop_indexes(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        for name in names {
            let name = Named::of(name)?;
            let catalog = self.catalog();
            let constraint = match catalog.lookup(&name) {
                Some(Relation::Key(table)) => Some((&table.key_name, &table.name)),
                Some(Relation::Index(table, index)) if index.constraint => {
                    Some((&index.name, &table.name))
                }
                _ => None,
            };
            if let Some((key, table)) = constraint {
                let message = format!(
                    "cannot drop index {key} because constraint {key} on table {table} requires it"
                );
                let hint = format!("You can drop constraint {key} on table {table} instead.");
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message).hint(hint));
            }
            let Some((table, index)) = catalog.index(&name) else {
                if catalog.lookup(&name).is_some() {
                    return Err(catalog.no_relation(&name, "index"));
                }
                if !if_exists {
                    let message = format!("index \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
                }
                let message = format!("index \"{name}\" does not exist, skipping");
                self.notices.push(SqlError::new("00000", message));
                continue;
            };
            self.drop_index(table, &index.name, cascade)?;
        }
        Ok(())
    }

    /// Renames an index, and the key or unique constraint behind it.
    pub(crate) fn rename_index(&mut self, name: &Named, to: String) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let (table, index) = match catalog.lookup(name) {
            Some(Relation::Index(table, index)) => (table, Some(index)),
            Some(Relation::Key(table)) => (table, None),
            _ => return Err(catalog.no_relation(name, "index")),
        };
        in_one_order(table)?;
        self.check_free(&Name { name: to.clone(), ..table.full_name() })?;
        if index.is_none_or(|index| index.constraint) {
            check_constraint_name(table, &to)?;
        }
        let mut changed = Table::clone(table);
        let is_it = |other: &&mut Arc<Index>| index.is_some_and(|index| index.oid == other.oid);
        match changed.indexes.iter_mut().find(is_it) {
            Some(index) => Arc::make_mut(index).name = to,
            None => {
                changed.primary.iter_mut().for_each(|index| Arc::make_mut(index).name = to.clone());
                changed.key_name = to;
            }
        }
        self.replace(table, changed);
        Ok(())
    }

    pub(crate) fn drop_index(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        cascade: bool,
    ) -> Result<(), SqlError> {
        in_one_order(table)?;
        self.release_index(table, name, cascade)?;
        self.backend.lock_definition(table)?;
        // The table may have referred to itself.
        let table = self.catalog().table_numbered(table.oid)?.clone();
        let mut changed = Table::clone(&table);
        changed.indexes.retain(|index| index.name != name);
        self.replace(&table, changed);
        Ok(())
    }
}

/// The index of a primary key that is not the row key.
pub(crate) fn key_index(table: &Table) -> NewIndex {
    NewIndex::unique(None, table.key.clone(), false)
}

/// The name of an index whose statement gives none.
pub(crate) fn index_name(catalog: &Catalog, table: &Table, new: &NewIndex, ending: &str) -> Name {
    let columns = new.part_names(table).join("_");
    let is_its = |name: &str| {
        table.indexes.iter().any(|index| index.name == name) || table.has_constraint(name)
    };
    free_name(catalog, &table.full_name(), (&columns, ending), is_its)
}

/// A name for a part of a table that is free in its schema and that `is_taken` does not refuse.
pub(crate) fn free_name(
    catalog: &Catalog,
    table: &Name,
    (columns, ending): (&str, &str),
    is_taken: impl Fn(&str) -> bool,
) -> Name {
    let named = |name: &str| Name { name: name.to_owned(), ..table.clone() };
    let is_there = |name: &str| is_taken(name) || catalog.has_relation(&named(name));
    named(&free_made_name(&table.name, columns, ending, is_there))
}
