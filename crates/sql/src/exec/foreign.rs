//! Enforcement of foreign keys: the statement's changes of parents and children are recorded, and
//! acted upon and checked at its end.
//!
//! ```text
//!   delete from customers where id = 7
//!     rows        customers 7 is deleted             recorded: parent 7 is removed
//!     actions     orders of customer 7 are deleted   recorded: orders 1, 3 are removed; and so on
//!     checks      children of removed parents, parents of written children; now, or at the commit
//! ```
//!
//! **Among transactions.** A child's transaction locks the parent so that it stays and keeps its
//! key ([`KeyShare`](LockKind::KeyShare)), and then checks that it exists. A parent's transaction
//! has locked the row exclusively, and then looks for children. So one of the two waits for the end
//! of the other, and sees the outcome. Both read the latest committed state, even if their
//! snapshots are older. A row need not exist for its key to be locked, so a child also waits for a
//! parent that is just being inserted.
//!
//! **At REPEATABLE READ** a child that was committed after the snapshot prevents the removal of its
//! parent (23503), and cannot be changed by an action (40001).
//!
//! Actions and checks run within the statement's memory, and end when it is cancelled. If no index
//! finds children by the key, their table is scanned for each parent, as in PostgreSQL: index the
//! referring columns.

use super::find::{Found, range_of, row_key};
use super::write::{key_of, show};
use super::{Exec, Row, key_bytes};
use crate::budget::Held;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::foreign::{Action, Check, Checks, Link, Links, Lookup, Side};
use crate::plan::{Access, RowRules, SpanOf};
use crate::transaction::LockKind;
use isomer_design::{Key, KeyRange, TableId};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The changes of a statement that concern foreign keys.
pub(crate) struct Noted<'e> {
    links: Option<&'e Links>,
    gone: VecDeque<Gone<'e>>,
    pub(super) checks: Checks,
    held: Held<'e>,
}

/// A parent that was deleted or has another key: its children must be changed, or must not exist.
struct Gone<'e> {
    link: &'e Arc<Link>,
    old: Vec<Datum>,
    new: Option<Vec<Datum>>,
}

impl<'e> Noted<'e> {
    /// Without changes.
    pub(super) fn new(exec: &Exec<'e>, links: Option<&'e Arc<Links>>) -> Noted<'e> {
        let (gone, checks, held) = (VecDeque::new(), Checks::default(), exec.budget.held());
        Noted { links: links.map(|links| &**links), gone, checks, held }
    }

    /// A row was inserted.
    pub(super) fn inserted(&mut self, table: &Table, row: &[Datum]) -> Result<(), SqlError> {
        let Some(linked) = self.links.and_then(|links| links.tables.get(&table.oid)) else {
            return Ok(());
        };
        linked.up.iter().try_for_each(|link| self.written(link, row))
    }

    /// A row was deleted.
    pub(super) fn deleted(&mut self, table: &Table, row: &[Datum]) -> Result<(), SqlError> {
        let Some(linked) = self.links.and_then(|links| links.tables.get(&table.oid)) else {
            return Ok(());
        };
        let value = |link: &Link| link.key.referenced.iter().map(|&at| row[at].clone()).collect();
        linked.down.iter().try_for_each(|link| self.gone(link, value(link), None))
    }

    /// A row was updated: the assigned columns with their old values, and the new row.
    pub(super) fn updated(
        &mut self,
        table: &Table,
        before: &[(usize, Datum)],
        row: &[Datum],
    ) -> Result<(), SqlError> {
        let Some(linked) = self.links.and_then(|links| links.tables.get(&table.oid)) else {
            return Ok(());
        };
        let differs = |columns: &[usize]| {
            before.iter().any(|(at, old)| columns.contains(at) && *old != row[*at])
        };
        for link in linked.up.iter().filter(|link| differs(&link.key.columns)) {
            self.written(link, row)?;
        }
        for link in linked.down.iter().filter(|link| differs(&link.key.referenced)) {
            let was = |at: &usize| before.iter().find(|(set, _)| set == at).map(|(_, old)| old);
            let columns = &link.key.referenced;
            let old = columns.iter().map(|at| was(at).unwrap_or(&row[*at]).clone()).collect();
            let new = columns.iter().map(|&at| row[at].clone()).collect();
            self.gone(link, old, Some(new))?;
        }
        Ok(())
    }

    /// A child refers to a parent now.
    fn written(&mut self, link: &Arc<Link>, row: &[Datum]) -> Result<(), SqlError> {
        let values: Vec<Datum> = link.key.columns.iter().map(|&at| row[at].clone()).collect();
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if nulls == values.len() || (nulls > 0 && !link.key.full) {
            return Ok(());
        }
        self.check(Check { link: link.clone(), side: Side::Child, values })
    }

    /// A value that children may refer to no longer exists.
    fn gone(
        &mut self,
        link: &'e Arc<Link>,
        old: Vec<Datum>,
        new: Option<Vec<Datum>>,
    ) -> Result<(), SqlError> {
        if old.iter().any(Datum::is_null) {
            return Ok(());
        }
        let gone = Gone { link, old, new };
        if gone.action() == Action::NoAction {
            let (link, side) = (link.clone(), Side::Parent);
            return self.check(Check { link, side, values: gone.old });
        }
        self.held.add(gone.bytes())?;
        self.gone.push_back(gone);
        Ok(())
    }

    fn check(&mut self, check: Check) -> Result<(), SqlError> {
        let before = self.checks.bytes();
        self.checks.add(check);
        self.held.add(self.checks.bytes() - before)
    }

    /// Carries out all actions, and what they cause.
    pub(super) fn act(&mut self, exec: &Exec<'_>) -> Result<(), SqlError> {
        while let Some(gone) = self.gone.pop_front() {
            self.held.less(gone.bytes());
            exec.act(gone, self)?;
        }
        Ok(())
    }
}

impl Gone<'_> {
    fn action(&self) -> Action {
        match self.new {
            None => self.link.key.on_delete,
            Some(_) => self.link.key.on_update,
        }
    }

    fn bytes(&self) -> usize {
        let values = self.old.iter().chain(self.new.iter().flatten());
        values.map(Datum::bytes).sum::<usize>() + size_of::<Gone<'_>>()
    }
}

impl<'a> Exec<'a> {
    /// Executes checks, except deferred ones.
    pub(crate) fn settle(&self, checks: &mut Checks) -> Result<(), SqlError> {
        for check in checks.take() {
            if !(check.link.key.deferrable && self.txn.borrow_mut().put_off(&check)?) {
                self.verify(&check)?;
            }
        }
        Ok(())
    }

    /// Executes a check.
    pub(crate) fn verify(&self, check: &Check) -> Result<(), SqlError> {
        self.tick()?;
        let Check { link, side, values } = check;
        // MATCH FULL allows no NULL among other values.
        let is_mixed = values.iter().any(Datum::is_null);
        if (!is_mixed && self.holds_parent(link, values)?)
            || self.children(link, values, 1)?.is_empty()
        {
            return Ok(());
        }
        Err(match side {
            Side::Child if is_mixed => link.mixed(),
            Side::Child => link.missing(values),
            Side::Parent => link.referenced(values),
        })
    }

    /// Executes the action of a key for the children of a parent.
    fn act<'e>(&self, gone: Gone<'e>, noted: &mut Noted<'e>) -> Result<(), SqlError> {
        let (link, action) = (gone.link, gone.action());
        if action == Action::Restrict {
            return match self.children(link, &gone.old, 1)?.is_empty() {
                true => Ok(()),
                false => Err(link.referenced(&gone.old)),
            };
        }
        let child = &link.child;
        let keys = self.children(link, &gone.old, usize::MAX)?;
        let mut held = self.budget.held();
        held.add(keys.iter().map(key_bytes).sum())?;
        for key in &keys {
            self.tick()?;
            self.txn.borrow_mut().lock(child.id, key, LockKind::Deletion, true)?;
        }
        self.txn.borrow_mut().look_again();
        for key in keys {
            self.tick()?;
            let mark = self.budget.mark();
            self.act_on(&gone, &key, noted)?;
            self.budget.back_to(mark);
        }
        if action == Action::SetDefault {
            // The default may be the removed value itself.
            let (link, side) = (link.clone(), Side::Parent);
            noted.check(Check { link, side, values: gone.old })?;
        }
        Ok(())
    }

    /// Executes the action of a key for a locked child, if it still refers to the parent.
    fn act_on<'e>(
        &self,
        gone: &Gone<'e>,
        key: &Key,
        noted: &mut Noted<'e>,
    ) -> Result<(), SqlError> {
        let (link, child) = (gone.link, &gone.link.child);
        let columns = &link.key.columns;
        let all = vec![true; child.width()];
        let Some((mut row, old)) = self.locked_row(child, key, &all)? else {
            return self.check_moved(child, key);
        };
        if columns.iter().zip(&gone.old).any(|(&at, value)| row[at] != *value) {
            return Ok(());
        }
        let nothing = Row { values: &[], given: &[] };
        let values = match (gone.action(), &gone.new) {
            (Action::Cascade, None) => {
                self.remove(child, key, old.there, &row)?;
                return noted.deleted(child, &row);
            }
            (Action::Cascade, Some(new)) => new.clone(),
            (Action::SetDefault, _) => {
                let defaults = link.defaults.iter().map(|default| self.eval(default, nothing));
                defaults.collect::<Result<_, _>>()?
            }
            _ => vec![Datum::Null; columns.len()],
        };
        let set = columns.iter().zip(values);
        let mut before: Vec<(usize, Datum)> =
            set.map(|(&at, value)| (at, std::mem::replace(&mut row[at], value))).collect();
        let linked = noted.links.and_then(|links| links.tables.get(&child.oid));
        let none = RowRules::default();
        let rules = linked.map_or(&none, |linked| &linked.rules);
        before.extend(rules.computed_columns().map(|at| (at, row[at].clone())));
        let shown = |values: &[Datum]| show(child, values);
        let changed = before.iter().map(|(at, _)| *at);
        self.fit_columns(child, changed, rules, &mut row, &shown)?;
        self.replace(child, key, old, &before, &row)?;
        noted.updated(child, &before, &row)
    }

    /// True if a parent has this value now; it is then locked, so that it stays.
    fn holds_parent(&self, link: &Link, values: &[Datum]) -> Result<bool, SqlError> {
        let parent = &link.parent;
        self.txn.borrow_mut().hold(parent.id)?;
        let lock = |key: &Key| self.txn.borrow_mut().lock(parent.id, key, LockKind::KeyShare, true);
        match self.place(parent, &link.to_parent, values)? {
            None => Ok(false),
            Some(Found::Row(key)) => {
                lock(&key)?;
                Ok(self.first(parent.id, &KeyRange::single(key))?.is_some())
            }
            Some(Found::Rows(range)) => {
                let index = link.to_parent.index.as_ref().expect("a whole key is a row");
                let now = || match self.first(index.id, &range)? {
                    Some(entry) => row_key(parent, index, &entry).map(Some),
                    None => Ok(None),
                };
                // The row may have been replaced by the time it is locked.
                while let Some(key) = now()? {
                    self.tick()?;
                    lock(&key)?;
                    if now()? == Some(key) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// The first key of a range, in the latest state.
    fn first(&self, table: TableId, range: &KeyRange) -> Result<Option<Key>, SqlError> {
        let mut first = None;
        self.txn.borrow_mut().scan_newest(table, range, &mut |key, _| {
            first = Some(Key::from_bytes(key));
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// The keys of the children that refer to this value now, at most `most`.
    fn children(&self, link: &Link, values: &[Datum], most: usize) -> Result<Vec<Key>, SqlError> {
        let child = &link.child;
        self.txn.borrow_mut().hold(child.id)?;
        let access = Access {
            index: link.to_children.index.clone(),
            spans: span(&link.to_children, values).into_iter().collect(),
            ..Access::default()
        };
        let slots = child.key_slots();
        let mut used = vec![false; child.width()];
        slots.iter().chain(&link.key.columns).for_each(|&slot| used[slot] = true);
        let (mut keys, mut held) = (Vec::new(), self.budget.held());
        let nothing = Row { values: &[], given: &[] };
        self.sees_newest.set(true);
        let found = self.find(child, &access, &used, nothing, &mut |row| {
            self.tick()?;
            let mut pairs = link.key.columns.iter().zip(values);
            if pairs.any(|(&at, value)| row[at] != *value) {
                return Ok(ControlFlow::Continue(()));
            }
            let key: Vec<Datum> = slots.iter().map(|&slot| row[slot].clone()).collect();
            let key = key_of(child, &key)?;
            held.add(key_bytes(&key))?;
            keys.push(key);
            match keys.len() < most {
                true => Ok(ControlFlow::Continue(())),
                false => Ok(ControlFlow::Break(())),
            }
        });
        self.sees_newest.set(false);
        let _ = found?;
        Ok(keys)
    }

    /// The location of rows with this value; `None` if no row can have it.
    fn place(
        &self,
        table: &Table,
        lookup: &Lookup,
        values: &[Datum],
    ) -> Result<Option<Found>, SqlError> {
        let span = span(lookup, values).expect("a unique key has columns");
        let nothing = Row { values: &[], given: &[] };
        let slots = table.key_slots();
        let own = |at: usize| slots.get(at).map(|&slot| (table.slot_type(slot), false));
        match &lookup.index {
            None => range_of(self, &table.schema, &span, &own, nothing),
            Some(index) => {
                let ty = |at: usize| index.slot_type(table, at);
                range_of(self, &index.schema, &span, &ty, nothing)
            }
        }
    }
}

/// The keys that begin with the value of a foreign key; `None` if no key or index is known for it.
fn span(lookup: &Lookup, values: &[Datum]) -> Option<SpanOf> {
    let prefix = lookup.places.iter().map(|&place| &values[place]);
    let prefix = prefix.take_while(|value| !value.is_null());
    let prefix: Vec<Expr> = prefix.map(|value| Expr::Const(value.clone())).collect();
    (!prefix.is_empty()).then_some(SpanOf { prefix, ..SpanOf::default() })
}
