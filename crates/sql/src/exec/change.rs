//! UPDATE and DELETE.
//!
//! Rows are found on the statement's snapshot, locked, and looked at again under their locks: a row
//! that another transaction has changed meanwhile is changed from what it is now, if the condition
//! still holds. A row whose whole key the statement names is locked without being looked for.
//!
//! Of a locked row only those columns are decoded that the change looks at; what is set is put into
//! the bytes of the row, unless its key changes.

use super::find::decode;
use super::write::{duplicate, encode, key_of, patch, show};
use super::{Exec, Row, key_bytes};
use crate::budget::Held;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::plan::{Change, Select, Source};
use crate::transaction::{Base, LockKind, LockedRow, Sink};
use isomer_design::Key;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

pub(super) fn change(exec: &Exec<'_>, plan: &Change, sink: &mut dyn Sink) -> Result<u64, SqlError> {
    let table = &plan.table;
    let mut held = exec.budget.held();
    let targets = match &plan.joined {
        None => {
            let keys = exec.keys(plan, &mut held)?;
            keys.into_iter().map(|key| (key, Vec::new())).collect()
        }
        Some(query) => exec.joined(table, query, &mut held)?,
    };
    for (key, _) in &targets {
        exec.tick()?;
        exec.txn.borrow_mut().lock(table.id, key, LockKind::Exclusive, true)?;
    }
    if !targets.is_empty() {
        exec.txn.borrow_mut().look_again();
    }
    let mut count = 0;
    for (key, mut beside) in targets {
        exec.tick()?;
        let mark = exec.budget.mark();
        let Some((mut both, old)) = exec.locked_row(table, &key, &plan.looked_at)? else {
            continue;
        };
        let width = both.len();
        both.append(&mut beside);
        let row = Row { values: &both, given: &[] };
        if !exec.all_hold(&plan.step.on, row)? {
            continue;
        }
        match &plan.set {
            None => exec.remove(table, &key, old.there, &both[..width])?,
            Some(set) => {
                let before = exec.assign(set, &mut both)?;
                exec.fit_changed(plan, &key, &old, &before, &mut both[..width])?;
                exec.replace(table, &key, old, &before, &both[..width])?;
            }
        }
        count += 1;
        if let Some(returning) = &plan.returning {
            let row = Row { values: &both, given: &[] };
            let shown = returning.project.iter().map(|expr| exec.eval(expr, row));
            sink.row(&shown.collect::<Result<Vec<_>, _>>()?)?;
        }
        exec.budget.back_to(mark);
    }
    Ok(count)
}

/// A locked row, as it was read.
pub(super) struct OldRow {
    pub(super) there: LockedRow,
    bytes: Vec<u8>,
}

impl Exec<'_> {
    /// A locked row, with the values that are looked at; none if it does not exist.
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

    /// Makes what was set fit the table.
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
        self.fit_columns(&plan.table, columns.clone(), &plan.checks, values, &shown)
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
        let _ = self.find(table, &plan.step.access, &used, nothing, &mut |values| {
            self.tick()?;
            let row = Row { values: values.as_slice(), given: &[] };
            if self.all_hold(&plan.step.on, row)? {
                let key: Vec<Datum> = slots.iter().map(|&slot| values[slot].clone()).collect();
                let key = key_of(table, &key)?;
                held.add(key_bytes(&key))?;
                keys.push(key);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    /// The keys of the rows to change, each with the first row beside it that fits.
    fn joined(
        &self,
        table: &Table,
        query: &Select,
        held: &mut Held<'_>,
    ) -> Result<Vec<(Key, Vec<Datum>)>, SqlError> {
        let (slots, width) = (table.key_slots(), table.width());
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        self.rows(query, &[], &mut |values| {
            let key: Vec<Datum> = slots.iter().map(|&slot| values[slot].clone()).collect();
            let key = key_of(table, &key)?;
            if seen.insert(key.clone()) {
                held.add(2 * key_bytes(&key))?;
                held.add_row(&values[width..])?;
                found.push((key, values[width..].to_vec()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    fn remove(
        &self,
        table: &Table,
        key: &Key,
        there: LockedRow,
        old: &[Datum],
    ) -> Result<(), SqlError> {
        self.txn.borrow_mut().put(table.id, key.clone(), there.base, None)?;
        for index in &table.indexes {
            self.put_entry(table, index, old, false)?;
        }
        Ok(())
    }

    /// Sets columns of a row to what the row gives as it is, and gives what they were.
    pub(super) fn assign(
        &self,
        set: &[(usize, Expr)],
        values: &mut [Datum],
    ) -> Result<Vec<(usize, Datum)>, SqlError> {
        let row = Row { values, given: &[] };
        let new = set.iter().map(|(at, expr)| Ok((*at, self.eval(expr, row)?)));
        let mut changed = new.collect::<Result<Vec<_>, SqlError>>()?;
        for (at, value) in &mut changed {
            std::mem::swap(&mut values[*at], value);
        }
        Ok(changed)
    }

    /// Writes a row in the place of another, with another key if need be. `before` are the columns that
    /// were set, as they were.
    pub(super) fn replace(
        &self,
        table: &Table,
        key: &Key,
        old: OldRow,
        before: &[(usize, Datum)],
        new: &[Datum],
    ) -> Result<(), SqlError> {
        let there = old.there;
        let (new_key, bytes) = match before.iter().any(|(at, _)| table.key.contains(at)) {
            true => encode(table, new)?,
            false => (key.clone(), patch(table, old.bytes, before, new)?),
        };
        let mut base = there.base;
        if new_key != *key {
            base = self.free_key(table, &new_key, new)?;
        }
        for index in &table.indexes {
            let differs =
                |(at, old): &(usize, Datum)| index.columns.contains(at) && *old != new[*at];
            let same = !before.iter().any(differs);
            if same && new_key == *key {
                continue;
            }
            if !same && self.taken(table, index, new, Some(key))?.is_some() {
                return Err(duplicate(table, &index.name, &index.columns, new));
            }
            let mut old = new.to_vec();
            for (at, value) in before.iter().rev() {
                old[*at] = value.clone();
            }
            self.put_entry(table, index, &old, false)?;
            self.put_entry(table, index, new, true)?;
        }
        if new_key != *key {
            self.txn.borrow_mut().put(table.id, key.clone(), there.base, None)?;
        }
        self.txn.borrow_mut().put(table.id, new_key, base, Some(bytes))
    }

    fn free_key(&self, table: &Table, key: &Key, new: &[Datum]) -> Result<Base, SqlError> {
        self.txn.borrow_mut().lock(table.id, key, LockKind::Exclusive, true)?;
        self.txn.borrow_mut().look_again();
        let there = self.txn.borrow_mut().get_locked(table.id, key, &mut |_| {})?;
        if there.exists {
            return Err(duplicate(table, &table.key_name, &table.key, new));
        }
        Ok(there.base)
    }
}
