//! INSERT.
//!
//! Rows that are read from tables are all collected before the first is written; others come in
//! batches.
//!
//! The keys of all new rows are locked first, in the order of the statement. Then the transaction
//! takes a new snapshot, so that it sees the changes of the transactions it waited for. Then each
//! row is written, or is found to exist already.
//!
//! The statement does not wait for locks on a row that exists, but for its deletion: unless it
//! would change the row, it locks the key of such a row as [`Present`](LockKind::Present). With ON
//! CONFLICT DO NOTHING, the locks for a row that is not inserted end with the statement.

use super::change::Before;
use super::foreign::Noted;
use super::write::{encode, taken_by, unique_prefix};
use super::{Exec, Row, key_bytes, row_bytes};
use crate::budget::Held;
use crate::catalog::{Index, Part, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::foreign::Checks;
use crate::plan::{Conflict, Filled, Insert};
use crate::system::RowChange;
use crate::transaction::{Base, LockKind, Sink};
use isomer_design::{Key, KeyRange, TableId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The largest number of rows that are locked and written together.
const BATCH_ROWS: usize = 512;
/// The largest size of such rows.
const BATCH_BYTES: usize = 4 << 20;

pub(super) fn insert<'a>(
    exec: &Exec<'a>,
    plan: &'a Insert,
    sink: &mut dyn Sink,
) -> Result<u64, SqlError> {
    let (mut batch, mut count, mut held) = (Vec::new(), 0, exec.budget.held());
    let (row_ids, mut written) = (row_ids(plan), Written::new(exec, plan));
    let mut bytes = 0;
    exec.rows(&plan.source, &[], &mut |given| {
        let row = exec.new_row(plan, row_ids.as_deref(), |at| exec.cloned(&given[at]))?;
        // The row, and its stored bytes.
        let row_bytes = 2 * row_bytes(&row);
        held.add(row_bytes)?;
        bytes += row_bytes;
        batch.push(row);
        if !plan.reads && (batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES) {
            count += write(exec, plan, std::mem::take(&mut batch), &mut written, sink)?;
            held.less(std::mem::take(&mut bytes));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    while !batch.is_empty() {
        let rest = batch.split_off(batch.len().min(BATCH_ROWS));
        count += write(exec, plan, batch, &mut written, sink)?;
        batch = rest;
    }
    super::writing::written(exec, written.noted)?;
    Ok(count)
}

pub(super) fn copy<'a>(
    exec: &Exec<'a>,
    plan: &'a Insert,
    rows: Vec<Vec<Datum>>,
    checks: &mut Checks,
) -> Result<u64, SqlError> {
    let mut batch = Vec::with_capacity(rows.len());
    let row_ids = row_ids(plan);
    for mut given in rows {
        let take = |at: usize| Ok(std::mem::replace(&mut given[at], Datum::Null));
        batch.push(exec.new_row(plan, row_ids.as_deref(), take)?);
    }
    let mut written = Written::new(exec, plan);
    written.noted.checks = std::mem::take(checks);
    let count = write(exec, plan, batch, &mut written, &mut |_: &[Datum]| Ok(()))?;
    *checks = written.noted.checks;
    Ok(count)
}

/// The sequence of the row ids of a table without a primary key.
fn row_ids(plan: &Insert) -> Option<String> {
    (!plan.table.has_key()).then(|| crate::system::row_id_sequence(plan.table.id))
}

fn write(
    exec: &Exec<'_>,
    plan: &Insert,
    batch: Vec<Vec<Datum>>,
    written: &mut Written<'_>,
    sink: &mut dyn Sink,
) -> Result<u64, SqlError> {
    let table = &plan.table;
    let mut rows = Vec::with_capacity(batch.len());
    for values in batch {
        let (key, bytes) = encode(table, &values)?;
        let mut is_there = skips_keys(plan) && seems_there(exec, table, &key)?;
        // New row ids are unique. The first row is locked nevertheless, so that a table is held
        // before its indexes.
        if table.has_key() || rows.is_empty() {
            let lock = |kind, waits| exec.txn.borrow_mut().lock(table.id, &key, kind, waits);
            let is_locked = plan.conflict.is_none() && lock(LockKind::Exclusive, false)?;
            if !is_locked {
                is_there |= plan.conflict.is_none() && seems_there(exec, table, &key)?;
                let kind = if is_there { LockKind::Present } else { LockKind::Exclusive };
                lock(kind, true)?;
            }
        }
        rows.push((key, bytes, values, is_there));
    }
    exec.txn.borrow_mut().look_again();
    let mut count = 0;
    for (key, bytes, values, is_there) in rows {
        exec.tick()?;
        let mark = exec.budget.mark();
        if is_there {
            let exists = exec.txn.borrow_mut().get_locked(table.id, &key, &mut |_| {})?.exists;
            if exists && skips_keys(plan) {
                written.unused.push((table.id, key));
                continue;
            }
            if !exists {
                // It was deleted meanwhile.
                let mut txn = exec.txn.borrow_mut();
                txn.unlock(table.id, std::slice::from_ref(&key));
                txn.lock(table.id, &key, LockKind::Exclusive, true)?;
                txn.look_again();
            }
        }
        if let Some(values) = exec.insert_row(plan, written, (key, bytes, values))? {
            count += 1;
            if let Some(returning) = &plan.returning {
                let row = Row { values: &values, given: &[] };
                let shown = returning.project.iter().map(|expr| exec.eval(expr, row));
                sink.row(&shown.collect::<Result<Vec<_>, _>>()?)?;
            }
        }
        exec.budget.back_to(mark);
    }
    let mut unused = std::mem::take(&mut written.unused);
    unused.sort();
    for places in unused.chunk_by(|(table, _), (other, _)| table == other) {
        let keys: Vec<Key> = places.iter().map(|(_, key)| key.clone()).collect();
        exec.txn.borrow_mut().unlock(places[0].0, &keys);
    }
    Ok(count)
}

/// True if nothing happens to a row whose key exists.
fn skips_keys(plan: &Insert) -> bool {
    let skips = |conflict: &Conflict| {
        conflict.set.is_none() && (conflict.any || conflict.indexes.is_empty())
    };
    plan.table.has_key() && plan.conflict.as_ref().is_some_and(skips)
}

/// True if the newest version of a row exists, which another transaction may be deleting.
fn seems_there(exec: &Exec<'_>, table: &Table, key: &Key) -> Result<bool, SqlError> {
    let (range, mut exists) = (KeyRange::single(key.clone()), false);
    exec.txn.borrow_mut().scan_newest(table.id, &range, &mut |_, _| {
        exists = true;
        ControlFlow::Break(())
    })?;
    Ok(exists)
}

/// The state of the statement for the rows it has written.
struct Written<'b> {
    /// The keys of rows that ON CONFLICT may not change a second time.
    keys: BTreeSet<Key>,
    held: Held<'b>,
    noted: Noted<'b>,
    /// True once the statement has inserted a row.
    has_inserted: bool,
    /// The locks for rows that were not inserted.
    unused: Vec<(TableId, Key)>,
}

impl Written<'_> {
    fn new<'e>(exec: &Exec<'e>, plan: &'e Insert) -> Written<'e> {
        let noted = Noted::new(exec, plan.links.as_ref());
        let (keys, held) = (BTreeSet::new(), exec.budget.held());
        Written { keys, held, noted, has_inserted: false, unused: Vec::new() }
    }

    fn insert(&mut self, key: Key) -> Result<(), SqlError> {
        self.held.add(key_bytes(&key))?;
        self.keys.insert(key);
        Ok(())
    }
}

/// A row that conflicts with a new row.
struct Obstacle {
    key: Key,
    constraint: String,
    parts: Vec<Part>,
    index: Option<Arc<Index>>,
}

impl Exec<'_> {
    pub(super) fn new_row(
        &self,
        plan: &Insert,
        row_ids: Option<&str>,
        mut given: impl FnMut(usize) -> Result<Datum, SqlError>,
    ) -> Result<Vec<Datum>, SqlError> {
        let mut values = Vec::with_capacity(plan.table.width());
        for filled in &plan.columns {
            values.push(match filled {
                Filled::Given(at) => given(*at)?,
                Filled::Default(expr) => self.eval(expr, Row { values: &[], given: &[] })?,
            });
        }
        self.fit(&plan.table, &plan.rules, &mut values)?;
        if let Some(sequence) = row_ids {
            values.push(Datum::Int(self.txn.borrow_mut().next_value(sequence)?));
        }
        Ok(values)
    }

    /// Inserts a row, or executes the conflict action if it exists; returns the row if it was
    /// inserted or changed.
    fn insert_row(
        &self,
        plan: &Insert,
        written: &mut Written<'_>,
        (key, bytes, values): (Key, Vec<u8>, Vec<Datum>),
    ) -> Result<Option<Vec<Datum>>, SqlError> {
        let table = &plan.table;
        let updates = plan.conflict.as_ref().is_some_and(|conflict| conflict.set.is_some());
        let mut base = Base::Version(None);
        // The indexes in ON CONFLICT are checked before all others: a conflict there has
        // precedence.
        let named = plan.conflict.iter().flat_map(|conflict| &conflict.indexes);
        let mut obstacle = self.obstacle(table, named, &values, None)?;
        if table.has_key() {
            let there = self.txn.borrow_mut().get_locked(table.id, &key, &mut |_| {})?;
            base = there.base;
            if there.exists && obstacle.is_none() {
                let (constraint, parts) = (table.key_name.clone(), table.key_parts());
                obstacle = Some(Obstacle { key: key.clone(), constraint, parts, index: None });
            }
        }
        if obstacle.is_none() {
            obstacle = self.obstacle(table, table.maintained(), &values, Some(&key))?;
        }
        let Some(obstacle) = obstacle else {
            if updates {
                written.insert(key.clone())?;
            }
            written.has_inserted = true;
            self.txn.borrow_mut().put(table.id, key, base, Some(bytes))?;
            self.txn.borrow_mut().count(table.id, RowChange::Inserted);
            for index in table.maintained() {
                self.put_entry(table, index, &values, true)?;
            }
            self.mirror(table, None, Some(&values))?;
            written.noted.inserted(table, &values)?;
            return Ok(Some(values));
        };
        match plan.conflict.as_ref().filter(|conflict| is_meant(conflict, &obstacle)) {
            None => {
                let wanted = (obstacle.constraint.as_str(), &*obstacle.parts);
                Err(taken_by(self, table, &obstacle.key, wanted, &values))
            }
            Some(Conflict { set: None, .. }) => {
                // A unique value that the statement has inserted itself stays locked.
                if !written.has_inserted {
                    for index in table.maintained() {
                        let prefix = unique_prefix(self, table, index, &values)?;
                        written.unused.extend(prefix.map(|prefix| (index.id, prefix)));
                    }
                }
                written.unused.push((table.id, key));
                Ok(None)
            }
            Some(Conflict { set: Some(_), .. })
                if written.keys.contains(&obstacle.key)
                    || self.txn.borrow().is_written_in_view(table.id, &obstacle.key) =>
            {
                let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                let hint = "Ensure that no rows proposed for insertion within the same command have \
                            duplicate constrained values.";
                Err(SqlError::new(code::CARDINALITY_VIOLATION, message).hint(hint))
            }
            Some(Conflict { set: Some((set, condition)), .. }) => {
                let changed =
                    self.update_instead(plan, &obstacle.key, values, set, condition.as_ref())?;
                let Some((before, row)) = changed else { return Ok(None) };
                written.insert(obstacle.key)?;
                written.noted.updated(table, &before, &row)?;
                Ok(Some(row))
            }
        }
    }

    /// The first existing row with the key or a unique value of a new one.
    fn obstacle<'i>(
        &self,
        table: &Table,
        indexes: impl IntoIterator<Item = &'i Arc<Index>>,
        values: &[Datum],
        own: Option<&Key>,
    ) -> Result<Option<Obstacle>, SqlError> {
        for index in indexes {
            if let Some(other) = self.taken(table, index, values, own)? {
                let (constraint, parts) = (index.name.clone(), index.parts.clone());
                let index = Some(index.clone());
                return Ok(Some(Obstacle { key: other, constraint, parts, index }));
            }
        }
        Ok(None)
    }

    /// Changes the conflicting row; returns the assigned columns with their old values, and the new
    /// row.
    fn update_instead(
        &self,
        plan: &Insert,
        key: &Key,
        new: Vec<Datum>,
        set: &[(usize, crate::expr::Expr)],
        condition: Option<&crate::expr::Expr>,
    ) -> Result<Option<(Before, Vec<Datum>)>, SqlError> {
        let table = &plan.table;
        self.txn.borrow_mut().lock(table.id, key, LockKind::Exclusive, true)?;
        self.txn.borrow_mut().look_again();
        let all = vec![true; table.width()];
        let Some((mut row, old)) = self.locked_row(table, key, &all)? else {
            let message = "the row that was in the way has gone; run the statement again";
            return Err(SqlError::new(code::SERIALIZATION, message));
        };
        let width = row.len();
        row.extend(new);
        let both = Row { values: &row, given: &[] };
        if let Some(condition) = condition
            && self.holds(condition, both)? != Some(true)
        {
            return Ok(None);
        }
        let mut before = self.assign(set, &mut row)?;
        row.truncate(width);
        before.extend(plan.rules.computed_columns().map(|at| (at, row[at].clone())));
        self.fit(table, &plan.rules, &mut row)?;
        self.replace(table, key, old, &before, &row)?;
        Ok(Some((before, row)))
    }
}

fn is_meant(conflict: &Conflict, obstacle: &Obstacle) -> bool {
    conflict.any
        || match &obstacle.index {
            None => conflict.indexes.is_empty(),
            Some(index) => conflict.indexes.iter().any(|meant| meant.id == index.id),
        }
}
