//! Queries: steps, grouping, projection, distinct, order, limit.
//!
//! ```text
//!   step 1 ─▶ step 2 ─▶ filter ─▶ groups ─▶ windows ─▶ projection ─▶ distinct ─▶ order ─▶ limit
//!   each row of step 1 is pushed through step 2; "enough" comes back the same way
//! ```
//!
//! [`super::join`] has the steps, [`super::window`] the windows. With a small limit, sorting keeps
//! a small multiple of the returned rows.
//!
//! **FOR UPDATE** finds the rows, locks them, and reads each again under its lock. A row that still
//! matches is returned; otherwise the statement releases its lock. Rows whose whole keys the query
//! names are locked before they are read. With SKIP LOCKED rows are locked as they are found, until
//! the limit is reached. [`super::locked`] has FOR UPDATE in joins. Left out: joins in another
//! order than that of the plan, and spilling to disk.

use super::aggregate::Groups;
use super::counts::count;
use super::{Exec, Row, key_bytes};
use crate::budget::Held;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{Busy, Lock, Select, SetOperator, SortKey, Source, Step};
use crate::transaction::LockKind;
use isomer_design::Key;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;

/// Receives a row; breaks when no more are needed.
pub(crate) type Emit<'e> = &'e mut dyn FnMut(&[Datum]) -> Result<ControlFlow<()>, SqlError>;

/// A sort of more rows than this is divided, to be interruptible.
const SORTED_AT_ONCE: usize = 8 << 10;

pub(crate) type Hasher = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

impl Exec<'_> {
    /// Emits the rows of a query; the sort keys follow the columns of the result.
    pub(crate) fn rows(
        &self,
        plan: &Select,
        given: &[Datum],
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        let (mut skip, mut left) = self.limits(plan, given)?;
        count(&self.counts, plan.address(), |node| node.loops += 1);
        if left == 0 {
            return Ok(());
        }
        let first = usize::try_from(left.saturating_add(skip)).ok();
        let first = first.filter(|first| *first <= 10_000 && !plan.ties);
        if let Some(first) = first.filter(|_| ends_search(plan)) {
            self.first_page.set(first);
        }
        let mut tied: Option<Vec<Datum>> = None;
        let mut whole: Vec<Datum> = Vec::new();
        let limited = &mut |values: &[Datum]| {
            let values = match plan.late.as_slice() {
                [] => values,
                late => {
                    whole.clear();
                    whole.extend_from_slice(values);
                    for (at, expr) in late {
                        whole[*at] = self.eval(expr, Row { values, given })?;
                    }
                    &*whole
                }
            };
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            if let Some(last) = &tied {
                if compare(&plan.order, last, values).is_ne() {
                    return Ok(ControlFlow::Break(()));
                }
                count(&self.counts, plan.address(), |node| node.rows += 1);
                return emit(values);
            }
            left -= 1;
            count(&self.counts, plan.address(), |node| node.rows += 1);
            let flow = emit(values)?;
            match left {
                0 if plan.ties => tied = Some(values.to_vec()),
                0 => return Ok(ControlFlow::Break(())),
                _ => {}
            }
            Ok(flow)
        };
        if plan.distinct_on.is_empty() {
            return self.ordered_rows(plan, given, first, limited);
        }
        let mut last: Option<Vec<Datum>> = None;
        self.ordered_rows(plan, given, None, &mut |values| {
            let same = |last: &Vec<Datum>| {
                plan.distinct_on.iter().zip(last).all(|(&at, v)| values[at] == *v)
            };
            if last.as_ref().is_some_and(same) {
                return Ok(ControlFlow::Continue(()));
            }
            last = Some(plan.distinct_on.iter().map(|&at| values[at].clone()).collect());
            limited(values)
        })
    }

    /// The numbers of rows to skip and to return.
    pub(super) fn limits(&self, plan: &Select, given: &[Datum]) -> Result<(u64, u64), SqlError> {
        let nothing = Row { values: &[], given };
        let count = |expr: &Option<Expr>, what: &str| -> Result<Option<u64>, SqlError> {
            let Some(expr) = expr else { return Ok(None) };
            match self.eval(expr, nothing)? {
                Datum::Null => Ok(None),
                value => match value.to_decimal().to_i64().map(u64::try_from) {
                    Some(Ok(count)) => Ok(Some(count)),
                    _ => {
                        let message = format!("{what} must not be negative");
                        Err(SqlError::new(if what == "LIMIT" { "2201W" } else { "2201X" }, message))
                    }
                },
            }
        };
        let skip = count(&plan.offset, "OFFSET")?.unwrap_or(0);
        let left = count(&plan.limit, "LIMIT")?.unwrap_or(u64::MAX);
        Ok((skip, left))
    }

    /// The rows in their order; with `keep`, at least that many of the first.
    pub(super) fn ordered_rows(
        &self,
        plan: &Select,
        given: &[Datum],
        keep: Option<usize>,
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        if plan.order.is_empty() || plan.sorted {
            return self.distinct_rows(plan, given, emit);
        }
        let (rows, _held) = self.sorted(plan, given, keep)?;
        for row in &rows {
            if emit(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// All rows in order; with `keep`, only that many of the first.
    fn sorted(
        &self,
        plan: &Select,
        given: &[Datum],
        keep: Option<usize>,
    ) -> Result<(Vec<Vec<Datum>>, Held<'_>), SqlError> {
        let (mut rows, mut held) = (Vec::new(), self.budget.held());
        let by = |a: &Vec<Datum>, b: &Vec<Datum>| compare(&plan.order, a, b);
        self.distinct_rows(plan, given, &mut |values| {
            held.add_row(values)?;
            rows.push(values.to_vec());
            // Twice as many rows as needed are sorted at a time, and the second half is dropped.
            if let Some(keep) = keep
                && rows.len() >= 2 * keep.max(512)
            {
                rows.sort_by(by);
                rows.drain(keep..).for_each(|row| held.less_row(&row));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((self.in_order(rows, &by)?, held))
    }

    /// Sorts rows; the sort is stable. Many rows are sorted in parts that are merged, so that it
    /// can be interrupted.
    pub(super) fn in_order(
        &self,
        mut rows: Vec<Vec<Datum>>,
        by: &dyn Fn(&Vec<Datum>, &Vec<Datum>) -> Ordering,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        if rows.len() <= SORTED_AT_ONCE {
            rows.sort_by(by);
            return Ok(rows);
        }
        let mut both = self.budget.held();
        both.add(rows.len() * size_of::<Vec<Datum>>())?;
        let upper = rows.split_off(rows.len() / 2);
        let mut lower = self.in_order(rows, by)?.into_iter().peekable();
        let mut upper = self.in_order(upper, by)?.into_iter().peekable();
        let mut merged = Vec::with_capacity(lower.len() + upper.len());
        loop {
            self.tick()?;
            let first = match (lower.peek(), upper.peek()) {
                (Some(a), Some(b)) if by(a, b).is_gt() => upper.next(),
                (Some(_), _) => lower.next(),
                (None, _) => upper.next(),
            };
            let Some(first) = first else { return Ok(merged) };
            merged.push(first);
        }
    }

    fn distinct_rows(
        &self,
        plan: &Select,
        given: &[Datum],
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        let Some(other) = &plan.other else {
            return match plan.distinct {
                true => {
                    let (mut seen, mut held) = (Counts::default(), self.budget.held());
                    let width = plan.output.len();
                    self.grouped_rows(plan, given, &mut |values| match is_new(
                        &mut seen,
                        &values[..width],
                        &mut held,
                    )? {
                        true => emit(values),
                        false => Ok(ControlFlow::Continue(())),
                    })
                }
                false => self.grouped_rows(plan, given, emit),
            };
        };
        let width = plan.output.len();
        if other.with == SetOperator::Union {
            let (mut seen, mut held) = (Counts::default(), self.budget.held());
            let done = Cell::new(false);
            let mut once = |values: &[Datum]| {
                if !other.all && !is_new(&mut seen, &values[..width], &mut held)? {
                    return Ok(ControlFlow::Continue(()));
                }
                let flow = emit(values)?;
                done.set(flow.is_break());
                Ok(flow)
            };
            self.grouped_rows(plan, given, &mut once)?;
            return if done.get() { Ok(()) } else { self.rows(&other.query, given, &mut once) };
        }
        let (mut theirs, mut held) = (Counts::default(), self.budget.held());
        self.rows(&other.query, given, &mut |values| {
            add(&mut theirs, &values[..width], 1, &mut held)?;
            Ok(ControlFlow::Continue(()))
        })?;
        self.grouped_rows(plan, given, &mut |values| {
            let own = &values[..width];
            let is_shown = match (other.with, theirs.get_mut(own)) {
                (SetOperator::Except, None) => {
                    // Equal rows are returned once.
                    if !other.all {
                        add(&mut theirs, own, 0, &mut held)?;
                    }
                    true
                }
                (SetOperator::Except, Some(count)) => {
                    let is_left = other.all && *count == 0;
                    *count = count.saturating_sub(usize::from(other.all));
                    is_left
                }
                (_, None) => false,
                (_, Some(count)) => {
                    let is_there = *count > 0;
                    *count = if other.all { count.saturating_sub(1) } else { 0 };
                    is_there
                }
            };
            if is_shown { emit(values) } else { Ok(ControlFlow::Continue(())) }
        })
    }

    fn grouped_rows(&self, plan: &Select, given: &[Datum], emit: Emit<'_>) -> Result<(), SqlError> {
        let mut projected: Vec<Datum> = Vec::with_capacity(plan.project.len());
        let mut project = |row: Row<'_>, emit: &mut Emit<'_>| {
            projected.clear();
            for expr in &plan.project {
                projected.push(self.eval(expr, row)?);
            }
            emit(&projected)
        };
        let mut emit = emit;
        if !plan.windows.is_empty() {
            let (mut rows, mut held) = (Vec::new(), self.budget.held());
            self.sources(plan, given, &mut |values| {
                held.add_row(values)?;
                rows.push(values.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
            for values in self.windowed(&plan.windows, rows, given, &mut held)? {
                self.tick()?;
                let mark = self.budget.mark();
                if project(Row { values: &values, given }, &mut emit)?.is_break() {
                    break;
                }
                self.budget.back_to(mark);
            }
            return Ok(());
        }
        self.sources(plan, given, &mut |values| project(Row { values, given }, &mut emit))
    }

    /// The rows of all sources, or their groups.
    fn sources(&self, plan: &Select, given: &[Datum], emit: Emit<'_>) -> Result<(), SqlError> {
        let Some(group) = &plan.group else { return self.joined_rows(plan, given, emit) };
        let mut groups = Groups::new(self, group);
        if group.first {
            self.first_page.set(1);
        }
        self.joined_rows(plan, given, &mut |values| {
            groups.add(self, Row { values, given })?;
            Ok(if group.first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let (groups, _held) = groups.finish(self)?;
        for values in groups {
            self.tick()?;
            let (row, mark) = (Row { values: &values, given }, self.budget.mark());
            if self.all_hold(&group.having, row)? && emit(&values)?.is_break() {
                break;
            }
            self.budget.back_to(mark);
        }
        Ok(())
    }

    /// The keys of a query's rows, in the order of its result.
    fn keys_to_lock(
        &self,
        plan: &Select,
        table: &Table,
        held: &mut Held<'_>,
    ) -> Result<Vec<Key>, SqlError> {
        let in_order = plan.order.is_empty() || plan.sorted;
        if in_order
            && plan.limit.is_none()
            && plan.offset.is_none()
            && let Some(keys) = self.named_keys(table, &plan.steps[0].access, held)?
        {
            return Ok(keys);
        }
        // The slots of the key were appended to the projection when the query was compiled.
        let key_at = plan.project.len() - table.key_slots().len();
        let mut keys = Vec::new();
        self.rows(plan, &[], &mut |values| {
            let key = super::write::key_of(table, &values[key_at..])?;
            held.add(2 * key_bytes(&key))?;
            keys.push(key);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    /// Emits the rows of a query over one table; each is locked and checked again under its lock.
    pub(crate) fn locked_rows(
        &self,
        plan: &Select,
        lock: Lock,
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        if !plan.locked.is_empty() {
            return self.locked_join(plan, emit);
        }
        let Some(Step { source: Source::Table(table), .. }) = plan.steps.first() else {
            return Err(SqlError::unsupported("FOR UPDATE of anything but one table"));
        };
        let kind = lock.kind;
        if lock.busy == Busy::Skip {
            return self.free_rows(plan, table, kind, emit);
        }
        let mut held = self.budget.held();
        let mut locked = self.keys_to_lock(plan, table, &mut held)?;
        let mut free = Vec::with_capacity(locked.len());
        for key in &locked {
            self.tick()?;
            if self.txn.borrow_mut().lock(table.id, key, kind, false)? {
                free.push(true);
                continue;
            }
            // The statement does not wait for a row that does not exist or does not match.
            let is_meant = self.is_seen(table, key, &plan.steps[0], &plan.filter)?;
            free.push(is_meant);
            if !is_meant {
                continue;
            }
            let waits = lock.busy == Busy::Wait;
            if !waits || !self.txn.borrow_mut().lock(table.id, key, kind, waits)? {
                let message =
                    format!("could not obtain lock on row in relation \"{}\"", table.name);
                return Err(SqlError::new(code::LOCK_NOT_AVAILABLE, message));
            }
        }
        let mut free = free.into_iter();
        locked.retain(|_| free.next() == Some(true));
        self.txn.borrow_mut().look_again();
        for key in locked {
            self.tick()?;
            let mark = self.budget.mark();
            match self.shown_under_lock(plan, table, &key)? {
                None => self.txn.borrow_mut().unlock(table.id, &[key]),
                Some(shown) => {
                    if emit(&shown)?.is_break() {
                        break;
                    }
                }
            }
            self.budget.back_to(mark);
        }
        Ok(())
    }

    /// True if the statement's snapshot has a row with this key that fulfils the conditions.
    pub(super) fn is_seen(
        &self,
        table: &Table,
        key: &Key,
        step: &Step,
        filter: &[Expr],
    ) -> Result<bool, SqlError> {
        let (mut seen, mut values) = (false, vec![Datum::Null; table.width()]);
        let _ = self.lookup(table, key, &step.used, &mut values, &mut |values| {
            let row = Row { values: values.as_slice(), given: &[] };
            seen = self.all_hold(&step.on, row)? && self.all_hold(filter, row)?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(seen)
    }

    /// The result row of a locked row in its current version; `None` if it no longer matches.
    fn shown_under_lock(
        &self,
        plan: &Select,
        table: &Table,
        key: &Key,
    ) -> Result<Option<Vec<Datum>>, SqlError> {
        let step = &plan.steps[0];
        let (mut values, mut decoded) = (Vec::new(), Ok(()));
        let row = self.txn.borrow_mut().get_locked(table.id, key, &mut |bytes| {
            decoded = super::find::decode(table, key, bytes, &step.used, &mut values);
        })?;
        decoded?;
        if !row.exists {
            return self.check_moved(table, key).map(|()| None);
        }
        let now = Row { values: &values, given: &[] };
        if !self.all_hold(&step.on, now)? || !self.all_hold(&plan.filter, now)? {
            return Ok(None);
        }
        plan.project.iter().map(|expr| self.eval(expr, now)).collect::<Result<_, _>>().map(Some)
    }

    /// SKIP LOCKED: rows are locked one by one, until the limit of free and matching ones is
    /// reached.
    fn free_rows(
        &self,
        plan: &Select,
        table: &Table,
        kind: LockKind,
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        let (mut skip, mut left) = self.limits(plan, &[])?;
        if left == 0 {
            return Ok(());
        }
        let key_at = plan.project.len() - table.key_slots().len();
        self.ordered_rows(plan, &[], None, &mut |values| {
            let key = super::write::key_of(table, &values[key_at..])?;
            if !self.txn.borrow_mut().lock(table.id, &key, kind, false)? {
                return Ok(ControlFlow::Continue(()));
            }
            self.txn.borrow_mut().look_again();
            let Some(shown) = self.shown_under_lock(plan, table, &key)? else {
                self.txn.borrow_mut().unlock(table.id, &[key]);
                return Ok(ControlFlow::Continue(()));
            };
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            left -= 1;
            let flow = emit(&shown)?;
            Ok(if left == 0 { ControlFlow::Break(()) } else { flow })
        })
    }
}

/// True if a query stops reading its single source once the limit is reached.
fn ends_search(plan: &Select) -> bool {
    plan.steps.len() == 1
        && (plan.order.is_empty() || plan.sorted)
        && plan.group.is_none()
        && plan.windows.is_empty()
        && plan.other.is_none()
        && plan.distinct_on.is_empty()
        && !plan.distinct
}

/// The numbers of equal rows.
pub(super) type Counts = HashMap<Vec<Datum>, usize, Hasher>;

fn add(
    counts: &mut Counts,
    row: &[Datum],
    count: usize,
    held: &mut Held<'_>,
) -> Result<(), SqlError> {
    if let Some(known) = counts.get_mut(row) {
        *known += count;
        return Ok(());
    }
    held.place(counts.len(), counts.capacity(), size_of::<(Vec<Datum>, usize)>())?;
    held.add_row(row)?;
    counts.insert(row.to_vec(), count);
    Ok(())
}

/// True if no earlier row was equal to this one.
pub(super) fn is_new(
    seen: &mut Counts,
    row: &[Datum],
    held: &mut Held<'_>,
) -> Result<bool, SqlError> {
    let is_new = !seen.contains_key(row);
    if is_new {
        add(seen, row, 1, held)?;
    }
    Ok(is_new)
}

pub(super) fn compare(order: &[SortKey], a: &[Datum], b: &[Datum]) -> Ordering {
    for key in order {
        let (a, b) = (&a[key.place], &b[key.place]);
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ if key.descending => b.compare(a),
            _ => a.compare(b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
