//! UPDATE and DELETE.
//!
//! Rows are found on the statement's snapshot, locked, and checked again under their locks. If
//! another transaction has changed a row meanwhile, its current version is changed, provided that
//! the condition still holds. A row whose whole key the statement names is locked first and read
//! under its lock. If the row does not exist or does not match, the statement releases the lock.
//!
//! If a subquery reads the table that is changed, all rows are checked before the first is written,
//! as a statement does not see its own changes.
//!
//! Of a locked row only the columns that the change uses are decoded. Assigned values are patched
//! into the bytes of the row, unless its key changes.

use super::counts::count;
use super::find::decode;
use super::foreign::Noted;
use super::write::{encode, key_of, patch, show, taken_by};
use super::{Exec, Row, key_bytes, row_bytes};
use crate::budget::Held;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{Change, Select, Source};
use crate::system::RowChange;
use crate::transaction::{Base, LockKind, LockedRow, Sink};
use isomer_design::Key;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

pub(super) fn change<'a>(
    exec: &Exec<'a>,
    plan: &'a Change,
    sink: &mut dyn Sink,
) -> Result<u64, SqlError> {
    let table = &plan.table;
    let mut noted = Noted::new(exec, plan.links.as_ref());
    let mut held = exec.budget.held();
    let mut targets: Vec<(Key, Vec<Datum>)> = match &plan.joined {
        None => {
            let keys = exec.keys(plan, &mut held)?;
            keys.into_iter().map(|key| (key, Vec::new())).collect()
        }
        Some(query) => exec.joined(plan, query, &mut held)?,
    };
    let mut locked = Vec::with_capacity(targets.len());
    for (key, _) in &targets {
        exec.tick()?;
        locked.push(exec.lock_target(plan, key)?);
    }
    let mut locked = locked.into_iter();
    // Of two parts of a statement that write a row, only the first does.
    let is_written = |key: &Key| exec.txn.borrow().is_written_in_view(table.id, key);
    if plan.once && targets.iter().any(|(key, _)| is_written(key)) {
        return Err(second_time());
    }
    targets.retain(|(key, _)| locked.next() == Some(true) && !is_written(key));
    if !targets.is_empty() {
        exec.txn.borrow_mut().look_again();
    }
    let size = if plan.reads_itself { targets.len().max(1) } else { 1 };
    let (mut targets, mut count, mut unfit) = (targets.into_iter().peekable(), 0, Vec::new());
    while targets.peek().is_some() {
        let (mut changes, mut held) = (Vec::new(), exec.budget.held());
        for (key, beside) in targets.by_ref().take(size) {
            exec.tick()?;
            let mark = exec.budget.mark();
            match exec.changed(plan, key, beside)? {
                Ok(change) => {
                    let shown = change.shown.as_deref().map_or(0, row_bytes);
                    held.add(row_bytes(&change.row) + change.old.bytes.len() + shown)?;
                    changes.push(change);
                }
                Err(key) => unfit.push(key),
            }
            exec.budget.back_to(mark);
        }
        for change in changes {
            count += 1;
            if let Some(shown) = exec.write_change(plan, change, &mut noted)? {
                sink.row(&shown)?;
            }
        }
    }
    if !unfit.is_empty() {
        exec.txn.borrow_mut().unlock(table.id, &unfit);
    }
    super::writing::written(exec, noted)?;
    Ok(count)
}

/// A row matches several rows of the source of a MERGE.
fn second_time() -> SqlError {
    let message = "MERGE command cannot affect row a second time";
    SqlError::new(code::CARDINALITY_VIOLATION, message)
        .hint("Ensure that not more than one source row matches any one target row.")
}

/// The assigned columns of a row, with their old values.
pub(super) type Before = Vec<(usize, Datum)>;

/// A row to change: its old and new version, and its RETURNING values.
struct Changed {
    key: Key,
    old: OldRow,
    row: Vec<Datum>,
    /// The assigned columns, with their old values.
    before: Before,
    shown: Option<Vec<Datum>>,
}

/// The old version of a locked row.
pub(super) struct OldRow {
    pub(super) there: LockedRow,
    bytes: Vec<u8>,
}

impl Exec<'_> {
    /// A locked row, with the values of the used columns; `None` if it does not exist.
    pub(super) fn locked_row(
        &self,
        table: &Table,
        key: &Key,
        looked_at: &[bool],
    ) -> Result<Option<(Vec<Datum>, OldRow)>, SqlError> {
        let mut bytes = Vec::new();
        let take = &mut |row: &[u8]| bytes.extend_from_slice(row);
        let there = self.txn.borrow_mut().get_locked(table.id, key, take)?;
        if !there.exists {
            return Ok(None);
        }
        let mut values = Vec::new();
        decode(table, key, &bytes, looked_at, &mut values)?;
        Ok(Some((values, OldRow { there, bytes })))
    }

    /// Locks a row to change. False if another transaction holds the lock and the statement's
    /// snapshot has no such row: then there is nothing to wait for.
    fn lock_target(&self, plan: &Change, key: &Key) -> Result<bool, SqlError> {
        let ask = |waits| self.txn.borrow_mut().lock(plan.table.id, key, plan.lock, waits);
        if ask(false)? {
            return Ok(true);
        }
        if plan.joined.is_none() && !self.is_seen(&plan.table, key, &plan.step, &[])? {
            return Ok(false);
        }
        ask(true)
    }

    /// Reads a locked row and the joined rows. The error is the key of a row that no longer
    /// matches.
    fn changed(
        &self,
        plan: &Change,
        key: Key,
        mut beside: Vec<Datum>,
    ) -> Result<Result<Changed, Key>, SqlError> {
        let Some((mut row, old)) = self.locked_row(&plan.table, &key, &plan.looked_at)? else {
            return self.check_moved(&plan.table, &key).map(|()| Err(key));
        };
        let width = row.len();
        row.append(&mut beside);
        if !self.all_hold(&plan.step.on, Row { values: &row, given: &[] })? {
            return Ok(Err(key));
        }
        let mut before = Vec::new();
        if let Some(set) = &plan.set {
            before = self.assign(set, &mut row)?;
            before.extend(plan.rules.computed_columns().map(|at| (at, row[at].clone())));
            self.fit_changed(plan, &key, &old, &before, &mut row[..width])?;
        }
        let mut shown = None;
        if let Some(returning) = &plan.returning {
            let row = Row { values: &row, given: &[] };
            let values = returning.project.iter().map(|expr| self.eval(expr, row));
            shown = Some(values.collect::<Result<Vec<_>, _>>()?);
        }
        row.truncate(width);
        Ok(Ok(Changed { key, old, row, before, shown }))
    }

    /// Writes a changed row; returns its RETURNING values.
    fn write_change(
        &self,
        plan: &Change,
        change: Changed,
        noted: &mut Noted<'_>,
    ) -> Result<Option<Vec<Datum>>, SqlError> {
        let Changed { key, old, row, before, shown } = change;
        match &plan.set {
            None => {
                self.remove(&plan.table, &key, old.there, &row)?;
                noted.deleted(&plan.table, &row)?;
            }
            Some(_) => {
                self.replace(&plan.table, &key, old, &before, &row)?;
                noted.updated(&plan.table, &before, &row)?;
            }
        }
        Ok(shown)
    }

    /// Converts and checks the assigned values.
    fn fit_changed(
        &self,
        plan: &Change,
        key: &Key,
        old: &OldRow,
        before: &[(usize, Datum)],
        values: &mut [Datum],
    ) -> Result<(), SqlError> {
        let columns = before.iter().map(|(at, _)| *at);
        // An error shows the whole row.
        let shown = |values: &[Datum]| {
            let mut whole = Vec::new();
            let all = vec![true; plan.table.width()];
            match decode(&plan.table, key, &old.bytes, &all, &mut whole) {
                Ok(()) => columns.clone().for_each(|at| whole[at] = values[at].clone()),
                Err(damaged) => return damaged.to_string(),
            }
            show(&plan.table, &whole)
        };
        self.fit_columns(&plan.table, columns.clone(), &plan.rules, values, &shown)
    }

    /// The keys of the rows to change.
    fn keys(&self, plan: &Change, held: &mut Held<'_>) -> Result<Vec<Key>, SqlError> {
        let Source::Table(table) = &plan.step.source else {
            return Err(SqlError::unsupported("a change of anything but a table"));
        };
        if let Some(keys) = self.named_keys(table, &plan.step.access, held)? {
            return Ok(keys);
        }
        let nothing = Row { values: &[], given: &[] };
        let mut keys = Vec::new();
        let mut used = plan.step.used.clone();
        table.key_slots().into_iter().for_each(|slot| used[slot] = true);
        let slots = table.key_slots();
        let address = plan.step.address();
        count(&self.counts, address, |node| node.loops += 1);
        let _ = self.find(table, &plan.step.access, &used, nothing, &mut |values| {
            self.tick()?;
            count(&self.counts, address, |node| node.found += 1);
            let row = Row { values: values.as_slice(), given: &[] };
            if self.all_hold(&plan.step.on, row)? {
                count(&self.counts, address, |node| node.matched += 1);
                let key: Vec<Datum> = slots.iter().map(|&slot| values[slot].clone()).collect();
                let key = key_of(table, &key)?;
                held.add(key_bytes(&key))?;
                keys.push(key);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    /// The keys of the rows to change, each with the first matching joined row.
    fn joined(
        &self,
        plan: &Change,
        query: &Select,
        held: &mut Held<'_>,
    ) -> Result<Vec<(Key, Vec<Datum>)>, SqlError> {
        let table = &plan.table;
        let (slots, width) = (table.key_slots(), table.width());
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        self.rows(query, &[], &mut |values| {
            let key: Vec<Datum> = slots.iter().map(|&slot| values[slot].clone()).collect();
            let key = key_of(table, &key)?;
            if seen.insert(key.clone()) {
                held.add(2 * key_bytes(&key))?;
                held.add_row(&values[width..])?;
                found.push((key, values[width..].to_vec()));
            } else if plan.once {
                return Err(second_time());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Deletes a locked row.
    pub(super) fn remove(
        &self,
        table: &Table,
        key: &Key,
        there: LockedRow,
        old: &[Datum],
    ) -> Result<(), SqlError> {
        self.txn.borrow_mut().put(table.id, key.clone(), there.base, None)?;
        self.txn.borrow_mut().count(table.id, RowChange::Deleted);
        for index in table.maintained() {
            self.put_entry(table, index, old, false)?;
        }
        self.mirror(table, Some(old), None)
    }

    /// Evaluates the assignments over the old row, and returns the old values.
    pub(super) fn assign(
        &self,
        set: &[(usize, Expr)],
        values: &mut [Datum],
    ) -> Result<Before, SqlError> {
        let row = Row { values, given: &[] };
        let new = set.iter().map(|(at, expr)| Ok((*at, self.eval(expr, row)?)));
        let mut changed = new.collect::<Result<Vec<_>, SqlError>>()?;
        for (at, value) in &mut changed {
            std::mem::swap(&mut values[*at], value);
        }
        Ok(changed)
    }

    /// Replaces a row, with a new key if necessary. `before` are the assigned columns with their
    /// old values.
    pub(super) fn replace(
        &self,
        table: &Table,
        key: &Key,
        old: OldRow,
        before: &[(usize, Datum)],
        new: &[Datum],
    ) -> Result<(), SqlError> {
        let there = old.there;
        let (new_key, bytes) = match before.iter().any(|(at, _)| table.is_in_key(*at)) {
            true => encode(table, new)?,
            false => (key.clone(), patch(table, old.bytes, before, new)?),
        };
        let mut base = there.base;
        if new_key != *key {
            base = self.free_key(table, &new_key, new)?;
        }
        let old_row = || {
            let mut old = new.to_vec();
            for (at, value) in before.iter().rev() {
                old[*at] = value.clone();
            }
            old
        };
        for index in table.maintained() {
            let is_of = |at: &usize| index.looked_at().any(|of| of == at);
            let differs = |(at, old): &(usize, Datum)| is_of(at) && *old != new[*at];
            let same = !before.iter().any(differs);
            if same && new_key == *key {
                continue;
            }
            if !same && let Some(other) = self.taken(table, index, new, Some(key))? {
                return Err(taken_by(self, table, &other, (&index.name, &index.parts), new));
            }
            self.put_entry(table, index, &old_row(), false)?;
            self.put_entry(table, index, new, true)?;
        }
        if table.beside.is_some() {
            self.mirror(table, Some(&old_row()), Some(new))?;
        }
        if new_key != *key {
            self.txn.borrow_mut().put(table.id, key.clone(), there.base, None)?;
        }
        self.txn.borrow_mut().count(table.id, RowChange::Updated);
        self.txn.borrow_mut().put(table.id, new_key, base, Some(bytes))
    }

    fn free_key(&self, table: &Table, key: &Key, new: &[Datum]) -> Result<Base, SqlError> {
        self.txn.borrow_mut().lock(table.id, key, LockKind::Exclusive, true)?;
        self.txn.borrow_mut().look_again();
        let there = self.txn.borrow_mut().get_locked(table.id, key, &mut |_| {})?;
        if there.exists {
            let wanted = (table.key_name.as_str(), &*table.key_parts());
            return Err(taken_by(self, table, key, wanted, new));
        }
        Ok(there.base)
    }
}
