//! ALTER TABLE .. SHARD BY: a table's rows are put in another order while they are used (after Morphus, section 2).
//!
//! The other order is built beside the table's own like an index that holds the rows, and then the two change places.
//! What comes after what is said by [`Reorder`], which is tested in the simulator; here is the catalog's part of it.
//!
//! ```text
//!   surveyed    what is there, and where it would go: nothing has been written, so here most of what is wrong is found
//!   known       who writes removes from the new order what is not so any more, so nothing false can be left in it
//!   entered     who writes keeps both orders, in the same transaction; nobody reads the new one
//!   filled      the rows that are there, by the builder of indexes, beside those who write
//!   switched    nobody has a row locked just then; the catalog changes, and with it all plans that are made
//!   outlived    who began before reads on in the old order, which is kept as long
//!   let go      the old order is dropped; or it is kept, if that was wished, and going back is a switch
//! ```
//!
//! **No write is replayed.** Morphus lets writes go on at the old place and replays them from the log; at its end it
//! has to reject some, and it loses those that a failing primary had not shipped yet. Here each write is in both
//! orders when it commits, or in none.
//!
//! **The switch** needs a moment in which no transaction has changed the table and is still open, as row locks are
//! those of one order. It looks for one without getting in anybody's way; where there is none, it asks for one, and who
//! wants to write waits for it no longer than its patience, which grows each time. Who reads does not wait. Plans of
//! before are made again ([`Freshness`](crate::engine::Freshness)), so no client sees anything of it.
//!
//! **Snapshots.** A transaction that keeps its snapshot reads on in the order of that time
//! ([`seen_at`](isomer_sql::catalog::Catalog::seen_at)). It must not write there; it is told to begin again, as it
//! would be for a row that has changed.
//!
//! **What fails** before the switch leaves the table as it was, and a crash likewise: until then the new order is an
//! unused table of the store ([`crate::engine`]). A crash after it leaves the new order; the old one is kept or
//! unused, too.
//!
//! **Operators** can hold it up, slow it down, and end it, while it is under way ([`ShardControl`]). Held up, it has
//! nothing locked, and writers keep both orders.
//!
//! Left out: replicas of the old partitions (whoever wanted them wants others now; backups are made), resuming after
//! a crash, and changing a primary key that is there. One that comes late [goes the same way](key).

mod key;
mod survey;

use crate::alter::in_one_order;
use crate::backend::explain;
use crate::draft::Made;
use crate::engine::Engine;
use crate::explain::by;
use crate::indexes::{Asker, Build, Builder, Target, key_index, sharding};
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

/// It looks so often for a moment without writers until it asks for one, and so long after each look.
const LOOKS: usize = 100;
const LOOK_BRIEFLY: Duration = Duration::from_micros(200);
/// Who waits for others to end looks so often.
const LOOK: Duration = Duration::from_millis(1);

/// The order that a table's rows are to be kept in.
struct Wanted {
    key: Vec<usize>,
    key_name: String,
    shard: Vec<usize>,
}

/// How that is to be done.
#[derive(Clone, Copy)]
struct Wishes {
    /// The order of before is kept.
    keeps_old: bool,
    /// At most so many rows are copied a second.
    rows_s: Option<u64>,
}

/// One ALTER TABLE .. SHARD BY, or .. ADD PRIMARY KEY.
struct Resharding<'e> {
    engine: &'e Arc<Engine>,
    cancel: &'e Arc<CancelToken>,
    budget: &'e Rc<Budget>,
    /// Keeps other definitions from the table.
    alone: OpenTransaction,
}

impl Engine {
    /// Carries out ALTER TABLE .. SHARD BY, which is a transaction of its own.
    pub(crate) fn reshard(
        self: &Arc<Engine>,
        reshard: &Reshard,
        (cancel, budget): Asker<'_>,
        notices: &mut Vec<SqlError>,
    ) -> Result<(), SqlError> {
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
    /// Refuses a second change of a table that is being changed; other definitions are waited for.
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

    /// The change of order that a table is in, if it copies rows or is about to.
    fn sharding_of(&self, table: &Table) -> Option<Arc<Build>> {
        self.builds.lock().iter().find(|build| build.reorders(table.id)).cloned()
    }

    /// How many changes of the shard key are held up.
    pub fn held_up(&self) -> usize {
        self.builds.lock().iter().filter(|build| build.pace.is_held()).count()
    }

    /// Holds up, goes on with, or ends the change that a table is in.
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

    /// The order is the one that is wanted. The other one goes, unless it is to be kept.
    fn stay(&mut self, table: &Arc<Table>, shard: Vec<usize>, keeps: bool) -> Result<(), SqlError> {
        let mut new = Table::clone(table);
        new.shard = shard;
        // One without the primary key is nothing to go back to.
        let keeps = keeps && table.beside.as_ref().is_none_or(|b| b.layout.key == table.key);
        new.beside.iter_mut().for_each(|beside| beside.is_kept = keeps);
        let new = self.define(table, new)?;
        if keeps {
            return Ok(());
        }
        let version = self.engine.catalog().version;
        self.engine.readers.wait_until_past(version, || self.pause(LOOK))?;
        self.let_go(&new)
    }

    /// Builds an order of a table as it is, and puts it in its place. Whatever fails before leaves the table as it was
    /// at first.
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

    /// Puts a table as it was in the place of itself as it is, and drops what it has got meanwhile.
    fn put_back(&self, before: &Arc<Table>) -> Result<(), SqlError> {
        // Nobody has asked for the end of this wait.
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

    /// Puts a table in the place of another, in the turn of definitions.
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

    /// Makes the tables of the store for another order: unused ones, so far.
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
        let catalog = engine.catalog();
        if needs_index(&layout.key, &layout.shard) {
            // Where the rows are found by the primary key, its index can be cut like them.
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

    /// The partitions of a table of the store: where each begins, and its master.
    fn partitions(&self, id: TableId) -> Vec<(Key, SiteId)> {
        let design = self.engine.database().design();
        let partitions = design.table(id).map(|table| {
            let all = table.partitions().iter();
            all.map(|(start, placement)| (start.clone(), placement.master)).collect()
        });
        partitions.unwrap_or_else(|_| vec![(Key::min(), self.engine.first_site())])
    }

    /// One partition, where a table of the store has its first.
    fn begins(&self, id: TableId) -> Vec<(Key, SiteId)> {
        self.partitions(id).into_iter().take(1).collect()
    }

    /// Drops what was made for an order that has come to nothing.
    fn forget(&self, layout: &Table) {
        let made = layout.own_parts().map(|(id, schema)| Made { id, schema: schema.clone() });
        self.engine.forget_made(&made.collect::<Vec<_>>());
    }

    /// Does what a change of order says, one step after the other.
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
                // Whatever came of it: who clears up after a failure takes a turn, too.
                closed = None;
                self.alone.back_to(without_turn);
            }
            done = came.map(|came| change.came(&came));
        }
        done
    }

    /// Has writers add rows to the order that they know of.
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
        let built = || builder.expect("an order that comes to be has somebody who fills it");
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
                self.engine.readers.wait_until_past(version, || self.pause(LOOK))
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

    /// Keeps writers out of a table, and other definitions; nothing if those who are in it have not ended for so long.
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
                Err(error) => return Err(explain(error)),
            }
            self.pause(LOOK_BRIEFLY)?;
        }
        match lock(true) {
            Ok(()) => Ok(Some(closed)),
            // Somebody who waits for this waits for somebody whom this waits for.
            Err(OpenError::Canceled(CancelReason::LockTime) | OpenError::Deadlock(_)) => Ok(None),
            Err(error) => Err(explain(error)),
        }
    }

    /// Switches a table that nobody writes to meanwhile.
    fn switch(&self, table: &Arc<Table>, keeps_old: bool) -> Result<Arc<Table>, SqlError> {
        let engine = self.engine;
        let mut new = table.switched(keeps_old);
        if new.readable.is_none() {
            engine.set_filled(new.id)?;
            new.readable = Some(engine.present());
        }
        if !new.has_key() {
            // Its numbers go on behind those that were given.
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

    /// Drops the order that a table has beside its own, in which nobody reads any more.
    fn let_go(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let Some(beside) = &table.beside else { return Ok(()) };
        self.define(table, Table { beside: None, ..Table::clone(table) })?;
        // The table last, and its row ids with it: who needs one holds an index.
        let parts: Vec<_> = beside.layout.own_parts().collect();
        for (id, schema) in parts.into_iter().rev() {
            self.engine.discard_outlived(id, schema, self.cancel);
        }
        Ok(())
    }
}

/// 23502 for rows that have NULL where their place is to be.
fn nulls(table: &Table, column: usize, rows: u64) -> SqlError {
    let name = &table.columns[column].name;
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    SqlError::new(code::NOT_NULL_VIOLATION, message)
        .detail(format!("It is NULL in {rows} rows, and no place begins with NULL."))
}
