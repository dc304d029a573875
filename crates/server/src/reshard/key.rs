//! ALTER TABLE .. ADD PRIMARY KEY on a table with rows, while it is in use.
//!
//! The rows are sorted by row id and have to be sorted by the key. So this is a change of layout
//! like that for a [shard key](super). In addition, the key must be unique over rows that are not
//! in its order yet.
//!
//! ```text
//!   surveyed    23502 if a column of the key contains NULL
//!   guarded     builds a unique index over its columns, like CREATE UNIQUE INDEX: 23505 on failure
//!   built       the new layout; writers check the index, so no two rows get the same row key
//!   switched    the row key enforces uniqueness from now on; the index is dropped
//! ```
//!
//! **Duplicates.** An existing duplicate ends the statement, and the table stays as it was. If a
//! duplicate is written meanwhile, its writer is refused if the builder has already copied the
//! other row; otherwise the statement ends. It is similar for NULL: before the layout is built, the
//! statement ends; from then on, the writer is refused.
//!
//! In a block, and together with other operations, the table is [rebuilt under a
//! lock](crate::alter), because all operations must succeed or fail together.

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
    /// Executes ALTER TABLE .. ADD PRIMARY KEY as a transaction of its own.
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

    /// Gives a table the unique index that enforces the key.
    fn guard(&mut self, table: &Arc<Table>, wanted: &Wanted) -> Result<Arc<Table>, SqlError> {
        let (engine, without_turn) = (self.engine, self.alone.savepoint());
        engine.take_turn(&mut self.alone, self.cancel)?;
        // Another relation may have got the name meanwhile.
        let name = check_key(&engine.catalog(), table, Some(wanted.key_name.clone()))?;
        let new = NewIndex::unique(None, wanted.key.clone(), false);
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
