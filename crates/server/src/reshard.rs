//! ALTER TABLE .. SHARD BY: gives a table's rows another layout while they are in use (after
//! Morphus, section 2).
//!
//! The new layout is built like an index that holds the rows, and then takes the place of the old
//! one. [`Reorder`] decides the sequence of steps and is tested in the simulator; this module
//! executes them on the catalog.
//!
//! ```text
//!   surveyed     finds most errors before anything is written, and plans the new partitions
//!   delete-only  writers remove outdated rows from the new layout, so none can be left in it
//!   write-only   writers maintain both layouts in one transaction; the new one is not read
//!   filled       the builder of indexes copies the existing rows, while writers continue
//!   switched     at a moment without row locks the catalog changes, and with it all new plans
//!   waited       transactions with older snapshots read the old layout, which is kept for them
//!   dropped      the old layout is dropped, or kept on request: then going back is a switch
//! ```
//!
//! **No write is replayed.** Morphus lets writes continue in the old layout and replays them from
//! the log. At the end it has to reject some writes, and it loses those that a failing primary had
//! not shipped yet. Here each write is in both layouts when it commits, or in none.
//!
//! **The switch** needs a moment without open transactions that have changed the table, because row
//! locks belong to one layout. First it polls for such a moment without blocking any transaction.
//! If there is none, it requests an exclusive lock; writers wait for it no longer than its timeout,
//! which grows with each attempt. Readers do not wait. Old plans are made again
//! ([`Freshness`](crate::engine::Freshness)), so clients notice nothing.
//!
//! **Snapshots.** A transaction with an older snapshot continues to read the old layout
//! ([`seen_at`](isomer_sql::catalog::Catalog::seen_at)). It must not write there: its writes fail
//! with a serialization error, as for a row that has changed.
//!
//! **A failure** before the switch leaves the table unchanged, and so does a crash: until then the
//! new layout consists of unused store tables ([`crate::engine`]). A crash after the switch leaves
//! the new layout; the old one is then either kept or unused.
//!
//! **Operators** can pause, throttle and cancel the change ([`ShardControl`]). While paused it
//! holds no locks, and writers maintain both layouts.
//!
//! Left out: replicas of the old partitions (their placement no longer fits; backups are made),
//! resuming after a crash, and changing an existing primary key. Adding one works [the same
//! way](key).

mod key;
mod survey;

use crate::alter::in_one_order;
use crate::backend::explain;
use crate::draft::Made;
use crate::engine::{Engine, until_past_elsewhere};
use crate::explain::by;
use crate::indexes::{Asker, Build, Builder, Target, key_index, sharding};
use crate::proposals::check_changes_are_on;
use isomer_cluster::reorder::{Came, Reorder, Step};
use isomer_cluster::{CancelReason, CancelToken, Isolation, LockMode, OpenError, OpenTransaction};
use isomer_design::{Key, SiteId, TableId};
use isomer_sql::budget::Budget;
use isomer_sql::catalog::{Beside, Index, Named, Table, needs_index, place_of, quoted, row_schema};
use isomer_sql::define::{NewIndex, shard_columns};
use isomer_sql::parse::{Reshard, ShardControl};
use isomer_sql::system::row_id_sequence;
use isomer_sql::{SqlError, code};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use survey::Survey;

/// The number of polls for a moment without writers, and the pause between them.
const LOOKS: usize = 100;
const LOOK_BRIEFLY: Duration = Duration::from_micros(200);
/// The poll interval of waits for transactions to end.
const LOOK: Duration = Duration::from_millis(1);

/// The new layout of a table's rows.
struct Wanted {
    key: Vec<usize>,
    key_name: String,
    shard: Vec<usize>,
}

/// The options of the change.
#[derive(Clone, Copy)]
struct Wishes {
    /// The old layout is kept.
    keeps_old: bool,
    /// The most rows that are copied per second.
    rows_s: Option<u64>,
}

/// One ALTER TABLE .. SHARD BY, or .. ADD PRIMARY KEY.
struct Resharding<'e> {
    engine: &'e Arc<Engine>,
    cancel: &'e Arc<CancelToken>,
    budget: &'e Rc<Budget>,
    /// The transaction that keeps other definitions from the table.
    alone: OpenTransaction,
}

impl Engine {
    /// Executes ALTER TABLE .. SHARD BY as a transaction of its own.
    pub(crate) fn reshard(
        self: &Arc<Engine>,
        reshard: &Reshard,
        (cancel, budget): Asker<'_>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        check_changes_are_on(self)?;
        self.discard_retired();
        let mut alone = self.gateway().begin(Isolation::ReadCommitted, cancel.clone());
        let named = Named::of(&reshard.table)?;
        let full = self.catalog().table(&named)?.full_name();
        let (catalog, key) = self.row_of("table", &full.kept())?;
        match alone.lock(catalog, &key, LockMode::Exclusive, false) {
            Err(OpenError::Locked) => {
                self.check_not_sharding(&named)?;
                alone.lock(catalog, &key, LockMode::Exclusive, true).map_err(explain)?;
            }
            locked => locked.map_err(explain)?,
        }
        let table = self.catalog().table(&named)?.clone();
        let shard = shard_columns(&table.columns, &table.name, &reshard.columns)?;
        Resharding { engine: self, cancel, budget, alone }.run(&table, shard, reshard, notices)
    }
}

impl Engine {
    /// Refuses a second change of a table that is being changed; other definitions wait.
    fn check_not_sharding(&self, named: &Named) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let table = catalog.table(named)?;
        let name = &table.name;
        let Some(build) = self.sharding_of(table) else { return Ok(()) };
        let message = format!("table \"{name}\" is being sharded: {}", build.statement);
        Err(SqlError::new(code::OBJECT_IN_USE, message).hint(format!(
            "isomer.jobs says how far it has come; ALTER TABLE {} CANCEL SHARD BY ends it.",
            quoted(name)
        )))
    }

    /// The change of layout in progress for a table.
    fn sharding_of(&self, table: &Table) -> Option<Arc<Build>> {
        self.builds.lock().iter().find(|build| build.reorders(table.id)).cloned()
    }

    /// The number of changes of the shard key that are paused.
    pub fn held_up(&self) -> usize {
        self.builds.lock().iter().filter(|build| build.pace.is_held()).count()
    }

    /// Pauses, resumes or cancels the change of a table.
    pub(crate) fn control_sharding(
        &self,
        table: &Table,
        control: ShardControl,
    ) -> Result<(), SqlError> {
        let Some(build) = self.sharding_of(table) else {
            let message = format!("table \"{}\" is not being sharded", table.name);
            return Err(SqlError::new(code::NOT_READY, message)
                .hint("isomer.jobs shows what is under way."));
        };
        match control {
            ShardControl::Pause => build.pace.set_paused(true),
            ShardControl::Resume(budget) => {
                budget.iter().for_each(|rows_s| build.pace.set_rows_s(*rows_s));
                build.pace.set_paused(false);
            }
            ShardControl::Cancel => build.end(),
        }
        Ok(())
    }
}

impl Resharding<'_> {
    fn run(
        mut self,
        table: &Arc<Table>,
        shard: Vec<usize>,
        reshard: &Reshard,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
        let mut notice = |message: String| notices.push(SqlError::new("00000", message));
        let place = place_of(&table.key, &shard, table.columns.len());
        if place == table.key_slots() {
            notice(format!("table \"{}\" is kept by ({}) already", table.name, by(table)));
            return match reshard.is_dry_run {
                true => Ok(()),
                false => self.stay(table, shard, reshard.keeps_old),
            };
        }
        if let Some(beside) = &table.beside {
            if beside.layout.key_slots() != place || beside.layout.readable.is_none() {
                return in_one_order(table);
            }
            notice(format!(
                "table \"{}\" has been kept by ({}) too",
                table.name,
                by(&beside.layout)
            ));
            return match reshard.is_dry_run {
                true => Ok(()),
                false => {
                    let mut change = Reorder::back(reshard.keeps_old);
                    self.drive(&mut change, table, reshard.keeps_old, None)
                }
            };
        }
        let survey = Survey::of(self.engine, self.cancel, table, (&table.key, &shard))?;
        survey.check(table)?;
        survey.notices(table).into_iter().for_each(notice);
        if !reshard.is_forced {
            survey.check_values(table)?;
        }
        survey.check_room(self.engine, table)?;
        if reshard.is_dry_run {
            return Ok(());
        }
        let (key, key_name) = (table.key.clone(), table.key_name.clone());
        let layout = self.make(table, Wanted { key, key_name, shard }, &survey)?;
        let wishes = Wishes { keeps_old: reshard.keeps_old, rows_s: reshard.rows_s };
        self.build((table, table), layout, survey.rows, wishes)
    }

    /// Keeps the current layout, which is the requested one. Drops the other layout unless it is to
    /// be kept.
    fn stay(&mut self, table: &Arc<Table>, shard: Vec<usize>, keeps: bool) -> Result<(), SqlError> {
        let mut new = Table::clone(table);
        new.shard = shard;
        // A switch back to a layout without the primary key is impossible.
        let keeps = keeps && table.beside.as_ref().is_none_or(|b| b.layout.key == table.key);
        new.beside.iter_mut().for_each(|beside| beside.is_kept = keeps);
        let new = self.define(table, new)?;
        if keeps {
            return Ok(());
        }
        let version = self.engine.catalog().version;
        self.engine.readers.wait_until_past(version, || self.pause(LOOK))?;
        until_past_elsewhere(self.engine, self.cancel)?;
        self.let_go(&new)
    }

    /// Builds a layout of the table and switches to it. A failure before the switch restores
    /// `first`.
    fn build(
        &mut self,
        (table, first): (&Arc<Table>, &Arc<Table>),
        layout: Table,
        rows: u64,
        Wishes { keeps_old, rows_s }: Wishes,
    ) -> Result<(), SqlError> {
        let layout = Arc::new(layout);
        let beside = Some(Beside { layout: layout.clone(), is_kept: false, is_entered: false });
        let being_built = self.define(table, Table { beside, ..Table::clone(table) });
        let being_built = being_built.inspect_err(|_| self.forget(&layout))?;
        let target = Target::Layout(&layout, rows);
        let builder = Builder::new(self.engine, &being_built, target, (self.cancel, self.budget));
        builder.pace().set_rows_s(rows_s);
        let mut change = Reorder::begin(keeps_old);
        let driven = self.drive(&mut change, &being_built, keeps_old, Some(&builder));
        let Err(error) = driven else { return Ok(()) };
        if change.is_switched() {
            let again = sharding(&layout);
            return Err(error
                .hint(format!("The table is in the new order. {again} lets go of the old one.")));
        }
        self.put_back(first)?;
        Err(error)
    }

    /// Restores a table to an earlier definition, and drops the store tables it has got since.
    fn put_back(&self, before: &Arc<Table>) -> Result<(), SqlError> {
        // The original request may be cancelled, but this wait must not be.
        let never = Arc::default();
        let mut last = self.engine.gateway().begin(Isolation::ReadCommitted, Arc::clone(&never));
        self.engine.take_turn(&mut last, &never)?;
        let now = self.engine.catalog().table_numbered(before.oid)?.clone();
        self.engine.put_in_place(&now, before.clone())?;
        drop(last);
        let stays = |id| before.parts().any(|(other, _)| other == id);
        for (id, schema) in now.parts().filter(|(id, _)| !stays(*id)) {
            self.engine.discard_when_free(id, schema);
        }
        Ok(())
    }

    /// Replaces a table's definition under the DDL lock.
    fn define(&mut self, old: &Arc<Table>, new: Table) -> Result<Arc<Table>, SqlError> {
        let without_turn = self.alone.savepoint();
        let new = Arc::new(new);
        let placed = self
            .engine
            .take_turn(&mut self.alone, self.cancel)
            .and_then(|()| self.engine.put_in_place(old, new.clone()));
        self.alone.back_to(without_turn);
        placed.map(|()| new)
    }

    /// Creates the store tables of another layout, marked as unused.
    fn make(&self, table: &Table, wanted: Wanted, survey: &Survey) -> Result<Table, SqlError> {
        let mut layout = Table { beside: None, primary: None, readable: None, ..table.clone() };
        layout.indexes.clear();
        let Wanted { key, key_name, shard } = wanted;
        for (at, column) in layout.columns.iter_mut().enumerate() {
            column.missing = None;
            column.not_null |= shard.contains(&at) || key.contains(&at);
        }
        (layout.key, layout.key_name, layout.shard) = (key, key_name, shard);
        let place = layout.key_slots();
        let (id, schema) = self.engine.store_table_at(&table.name, &survey.partitions, |name| {
            row_schema(name, &layout.columns, &place)
        })?;
        (layout.id, layout.schema) = (id, schema);
        let made = self.make_indexes(table, &mut layout);
        made.inspect_err(|_| self.forget(&layout))?;
        Ok(layout)
    }

    fn make_indexes(&self, table: &Table, layout: &mut Table) -> Result<(), SqlError> {
        let engine = self.engine;
        engine.inherit_backups(table.id, layout.id)?;
        crate::engine::inherit_isolation(engine, table.id, layout.id)?;
        let catalog = engine.catalog();
        if needs_index(&layout.key, &layout.shard) {
            // If the rows are sorted by the primary key, its index can be partitioned like them.
            let at = if table.shard.is_empty() {
                self.partitions(table.id)
            } else {
                self.begins(table.id)
            };
            let name = layout.key_name.clone();
            let (new, name) = (key_index(layout), (name, true));
            let mut made = engine.store_index_at(layout, &new, name, &at, &catalog)?;
            made.readable = Some(engine.present());
            layout.primary = Some(Arc::new(made));
        }
        for index in &table.indexes {
            let wanted = NewIndex::like(index, |at| at);
            let (name, at) = (index.name.clone(), self.begins(index.id));
            let name = (name, index.constraint);
            let made = engine.store_index_at(layout, &wanted, name, &at, &catalog)?;
            let readable = Some(engine.present());
            layout.indexes.push(Arc::new(Index { oid: index.oid, readable, ..made }));
        }
        Ok(())
    }

    /// The partitions of a store table: the first key and the master of each.
    fn partitions(&self, id: TableId) -> Vec<(Key, SiteId)> {
        let design = self.engine.database().design();
        let partitions = design.table(id).map(|table| {
            let all = table.partitions().iter();
            all.map(|(start, placement)| (start.clone(), placement.master)).collect()
        });
        partitions.unwrap_or_else(|_| vec![(Key::min(), self.engine.first_site())])
    }

    /// One partition, at the master of the store table's first partition.
    fn begins(&self, id: TableId) -> Vec<(Key, SiteId)> {
        self.partitions(id).into_iter().take(1).collect()
    }

    /// Drops the store tables of a layout that was given up.
    fn forget(&self, layout: &Table) {
        let made = layout.own_parts().map(|(id, schema)| Made { id, schema: schema.clone() });
        self.engine.forget_made(&made.collect::<Vec<_>>());
    }

    /// Executes the steps of a change of layout.
    fn drive(
        &mut self,
        change: &mut Reorder,
        table: &Arc<Table>,
        keeps_old: bool,
        builder: Option<&Builder<'_>>,
    ) -> Result<(), SqlError> {
        let without_turn = self.alone.savepoint();
        let (mut now, mut closed) = (table.clone(), None);
        let mut done = Ok(());
        while !matches!(change.step(), Step::Done) && done.is_ok() {
            if let (Some(builder), true) = (builder, change.may_pause()) {
                builder.await_leave()?;
                change.limit(builder.pace().rows_s());
            }
            let came = match change.step() {
                Step::Close(patience_ms) => self.close(table.id, patience_ms).map(|found| {
                    let came = if found.is_some() { Came::Done } else { Came::Open };
                    closed = found;
                    came
                }),
                Step::Enter => self.enter(&now).map(|entered| {
                    now = entered;
                    Came::Done
                }),
                Step::Switch => self.switch(&now, keeps_old).map(|switched| {
                    now = switched;
                    Came::Done
                }),
                step => self.carry_out(&step, &now, builder),
            };
            if !matches!(change.step(), Step::Close(_)) || !matches!(came, Ok(Came::Done)) {
                // Released after success or failure, because cleaning up needs the DDL lock, too.
                closed = None;
                self.alone.back_to(without_turn);
            }
            done = came.map(|came| change.came(&came));
        }
        done
    }

    /// Makes writers add rows to the new layout, which they know already.
    fn enter(&mut self, table: &Arc<Table>) -> Result<Arc<Table>, SqlError> {
        let mut entered = Table::clone(table);
        entered.beside.iter_mut().for_each(|beside| beside.is_entered = true);
        self.define(table, entered)
    }

    fn carry_out(
        &mut self,
        step: &Step,
        table: &Arc<Table>,
        builder: Option<&Builder<'_>>,
    ) -> Result<Came, SqlError> {
        let now = |doing| builder.iter().for_each(|builder| builder.now(doing));
        let built = || builder.expect("a layout that is being built has a builder");
        let done = match step {
            Step::AwaitWriters => {
                now("copies rows");
                built().outlive_writers()
            }
            Step::Copy(batch) => {
                let (copied, ns) = built().copy(batch)?;
                if copied.is_end {
                    now("waits for a moment without writers");
                }
                return Ok(Came::Copied(copied, ns));
            }
            Step::Pause(ns) => self.pause(Duration::from_nanos(*ns)),
            Step::AwaitReaders => {
                now("waits for readers of the old order");
                let version = self.engine.catalog().version;
                let waited = self.engine.readers.wait_until_past(version, || self.pause(LOOK));
                waited.and_then(|()| until_past_elsewhere(self.engine, self.cancel))
            }
            Step::LetGo => self.let_go(table),
            Step::Enter | Step::Close(_) | Step::Switch | Step::Done => {
                unreachable!("it has been done")
            }
        };
        done.map(|()| Came::Done)
    }

    fn pause(&self, time: Duration) -> Result<(), SqlError> {
        self.engine.gateway().pause(self.cancel, time).map_err(explain)
    }

    /// Locks a table against writers and other definitions; `None` if its writers have not ended
    /// within `patience_ms`.
    fn close(
        &mut self,
        table: TableId,
        patience_ms: u64,
    ) -> Result<Option<OpenTransaction>, SqlError> {
        self.engine.take_turn(&mut self.alone, self.cancel)?;
        let patience = Arc::new(CancelToken::default());
        patience.set_lock_limit(patience_ms);
        let mut closed = self.engine.gateway().begin(Isolation::ReadCommitted, patience);
        let mut lock = |waits| closed.lock(table, &Key::min(), LockMode::Exclusive, waits);
        for _ in 0..LOOKS {
            match lock(false) {
                Ok(()) => return Ok(Some(closed)),
                Err(OpenError::Locked) => {}
                // The conductor, which has the locks, answers too late.
                Err(OpenError::Canceled(CancelReason::LockTime)) => return Ok(None),
                Err(error) => return Err(explain(error)),
            }
            self.pause(LOOK_BRIEFLY)?;
        }
        match lock(true) {
            Ok(()) => Ok(Some(closed)),
            // The time-out, or a deadlock with a transaction that waits for this lock.
            Err(OpenError::Canceled(CancelReason::LockTime) | OpenError::Deadlock(_)) => Ok(None),
            Err(error) => Err(explain(error)),
        }
    }

    /// Switches a table that has no writers.
    fn switch(&self, table: &Arc<Table>, keeps_old: bool) -> Result<Arc<Table>, SqlError> {
        let engine = self.engine;
        let mut new = table.switched(keeps_old);
        if new.readable.is_none() {
            engine.set_filled(new.id)?;
            new.readable = Some(engine.present());
        }
        if !new.has_key() {
            // The new row ids follow the old ones.
            let next = engine.next_value(&row_id_sequence(table.id))?;
            engine.set_sequence(&row_id_sequence(new.id), Some(next))?;
        }
        let now = engine.present();
        let new = Arc::new(new);
        engine.put_in_place(table, new.clone())?;
        engine.set_redefined(table.id, engine.catalog().version);
        engine.set_replaced(table.id, new.id, now);
        Ok(new)
    }

    /// Drops the second layout of a table, which has no readers any more.
    fn let_go(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let Some(beside) = &table.beside else { return Ok(()) };
        self.define(table, Table { beside: None, ..Table::clone(table) })?;
        // The rows last, with their row ids: a writer that needs one holds an index.
        let parts: Vec<_> = beside.layout.own_parts().collect();
        for (id, schema) in parts.into_iter().rev() {
            self.engine.discard_outlived(id, schema, self.cancel);
        }
        Ok(())
    }
}

/// 23502 for rows with NULL in a column of the new row key.
fn nulls(table: &Table, column: usize, rows: u64) -> SqlError {
    let name = &table.columns[column].name;
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    SqlError::new(code::NOT_NULL_VIOLATION, message)
        .detail(format!("It is NULL in {rows} rows, and no place begins with NULL."))
}
