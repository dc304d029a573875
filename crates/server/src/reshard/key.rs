//! ALTER TABLE .. ADD PRIMARY KEY of a table that has rows, while it is used.
//!
//! The rows are in the order of their row ids, and are to be in that of the key. So it is a change of order like that
//! of a [shard key](super), with one thing more to see to: the key must be one, over rows that are not in its order yet.
//!
//! ```text
//!   surveyed    23502 if there is NULL in a column of the key
//!   guarded     a unique index over its columns is built, as CREATE UNIQUE INDEX builds one: 23505 if it cannot be
//!   built       the other order; who writes keeps to the index, so no two rows meet at one place there
//!   switched    the place of a row says now that it is the only one; the index goes with the old order
//! ```
//!
//! **Who is refused.** A duplicate that is there ends the statement, and the table is as it was. Of a duplicate that
//! comes meanwhile, its writer is refused, if the builder has been at the other row; else the statement ends. So it is
//! with NULL: before the order is built, the statement ends; from then on, its writer is refused.
//!
//! In a block, and beside other operations, the table is [rebuilt under a lock](crate::alter), as these are to be done
//! or undone together.

use super::{Resharding, Survey, Wanted, Wishes};
use crate::alter::{check_key, folded, in_one_order};
use crate::backend::explain;
use crate::draft::Made;
use crate::engine::Engine;
use crate::indexes::Asker;
use isomer_cluster::{Isolation, LockMode};
use isomer_sql::SqlError;
use isomer_sql::catalog::{Named, Table};
use isomer_sql::define::{self, NewIndex};
use sqlparser::ast::{ObjectName, PrimaryKeyConstraint, TableConstraint};
use std::sync::Arc;

impl Engine {
    /// Carries out ALTER TABLE .. ADD PRIMARY KEY, as a transaction of its own.
    pub(crate) fn add_key(
        self: &Arc<Engine>,
        table: &ObjectName,
        key: &PrimaryKeyConstraint,
        (cancel, budget): Asker<'_>,
    ) -> Result<(), SqlError> {
        define::check_constraint(&TableConstraint::PrimaryKey(key.clone()))?;
        self.discard_retired();
        let mut alone = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
        let named = Named::of(table)?;
        let full = self.catalog().table(&named)?.full_name();
        let (catalog, row) = self.row_of("table", &full.kept())?;
        alone.lock(catalog, &row, LockMode::Exclusive, true).map_err(explain)?;
        let catalog = self.catalog();
        let table = catalog.table(&named)?;
        in_one_order(table)?;
        let columns = define::columns_of(&table.columns, &table.name, &key.columns)?;
        let key_name = check_key(&catalog, table, key.name.as_ref().map(folded))?;
        define::check_indexes(table.indexes.len() + 1)?;
        let wanted = Wanted { key: columns, key_name, shard: table.shard.clone() };
        Resharding { engine: self, cancel, budget, alone }.add_key(table, wanted)
    }
}

impl Resharding<'_> {
    fn add_key(mut self, table: &Arc<Table>, wanted: Wanted) -> Result<(), SqlError> {
        let order = (&wanted.key[..], &wanted.shard[..]);
        let survey = Survey::of(self.engine, self.cancel, table, order)?;
        survey.check(table)?;
        survey.check_room(self.engine, table)?;
        let known = self.guard(table, &wanted)?;
        let layout = self
            .engine
            .build_last(&mut self.alone, &known, (self.cancel, self.budget))
            .and_then(|()| self.make(table, wanted, &survey));
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => return self.put_back(table).and(Err(error)),
        };
        let guarded = self.engine.catalog().table_numbered(table.oid)?.clone();
        let wishes = Wishes { keeps_old: false, rows_s: None };
        self.build((&guarded, table), layout, survey.rows, wishes)
    }

    /// Gives a table the unique index that sees to it that the key is one.
    fn guard(&mut self, table: &Arc<Table>, wanted: &Wanted) -> Result<Arc<Table>, SqlError> {
        let (engine, without_turn) = (self.engine, self.alone.savepoint());
        engine.take_turn(&mut self.alone, self.cancel)?;
        // Another relation may have got the name meanwhile.
        let name = check_key(&engine.catalog(), table, Some(wanted.key_name.clone()))?;
        let new = NewIndex::unique(None, wanted.key.clone());
        let mut guard = engine.store_index(table, &new, name, true, &engine.catalog())?;
        guard.is_entered = false;
        let made = Made { id: guard.id, schema: guard.schema.clone() };
        let mut guarded = Table::clone(table);
        guarded.indexes.push(Arc::new(guard));
        let guarded = Arc::new(guarded);
        let placed = engine.put_in_place(table, guarded.clone());
        placed.inspect_err(|_| engine.forget_made(&[made]))?;
        self.alone.back_to(without_turn);
        Ok(guarded)
    }
}
