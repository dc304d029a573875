//! The rows that a statement is about, as far as they are known before it runs.
//!
//! ```text
//!   update t set v = v + $2 where id = $1      t [7 .. 7]
//!   insert into t values ($1, now())           t [7 .. 7]
//!   select .. from t, u where t.id = u.id      not known: u's rows name those of t
//! ```
//!
//! So a gateway can choose the process that runs the statement. All parts of the statement must
//! mean the same in each process: a function of the session's own state
//! ([`means_the_same`]) is refused.
//!
//! Left out: rows that are found by an index, and those that a foreign key concerns.

use super::write::key_of;
use super::{Exec, Row};
use crate::catalog::Table;
use crate::expr::Expr;
use crate::functions::Func;
use crate::plan::{Access, Change, Filled, Insert, RowRules, Select, Source, SpanOf, Step};
use isomer_design::{Access as Use, Footprint, KeyRange, Span, TableId};
use std::ops::ControlFlow;

/// The most new rows of a statement that may be shipped.
const ROWS_MAX: usize = 16;

/// Rows of a statement.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Places {
    /// Ranges of keys, with their tables.
    pub spans: Vec<(TableId, KeyRange)>,
    /// The number of the first ones, which are written.
    pub written: usize,
    /// It may read or write others as well: entries of indexes.
    pub has_others: bool,
    /// It only reads.
    pub is_read_only: bool,
}

impl Places {
    /// Adds the rows of another statement.
    pub fn add(&mut self, mut other: Places) {
        let read = other.spans.split_off(other.written);
        self.spans.splice(self.written..self.written, other.spans);
        self.written += other.written;
        self.spans.extend(read);
        self.has_others |= other.has_others;
        self.is_read_only &= other.is_read_only;
    }

    /// The rows as what is read and what is written.
    pub fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::new();
        for (at, (table, range)) in self.spans.iter().enumerate() {
            let access = if at < self.written { Use::Write } else { Use::Read };
            let is_one = range.end.as_ref().is_some_and(|end| *end == range.start.successor());
            let span = match is_one {
                true => Span::Key(range.start.clone()),
                false => Span::Range(range.clone()),
            };
            footprint.add(*table, span, access);
        }
        footprint
    }
}

/// Why the rows are not known, or do not decide where a statement runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unplaced {
    /// It is no SELECT, INSERT, UPDATE or DELETE.
    Kind,
    /// Its rows are found while it runs.
    Rows,
    /// A function depends on the session, or on the process.
    Function,
}

/// The rows of a query.
pub(crate) fn of_query(exec: &Exec<'_>, plan: &Select) -> Result<Places, Unplaced> {
    let is_read_only = plan.lock.is_none();
    let mut places = Places { is_read_only, ..Places::default() };
    of_select(exec, plan, &mut places)?;
    Ok(places)
}

fn of_select(exec: &Exec<'_>, plan: &Select, places: &mut Places) -> Result<(), Unplaced> {
    let mut checked = Ok(());
    plan.exprs(&mut |expr| checked = checked.and_then(|()| check_place(expr)));
    checked?;
    sources_of(exec, plan, places)
}

fn sources_of(exec: &Exec<'_>, plan: &Select, places: &mut Places) -> Result<(), Unplaced> {
    for step in &plan.steps {
        match &step.source {
            Source::Table(table) => of_access(exec, table, &step.access, places)?,
            Source::Query(query) => sources_of(exec, query, places)?,
            Source::Values(_) | Source::Set(_) => {}
            Source::System(_) | Source::Lateral(..) | Source::Named(_) | Source::Found(..) => {
                return Err(Unplaced::Rows);
            }
        }
    }
    plan.other.iter().try_for_each(|other| sources_of(exec, &other.query, places))
}

fn of_access(
    exec: &Exec<'_>,
    table: &Table,
    access: &Access,
    places: &mut Places,
) -> Result<(), Unplaced> {
    if access.index.is_some() || access.is_everything() || !access.any.is_empty() {
        return Err(Unplaced::Rows);
    }
    let is_known = |span: &SpanOf| {
        let bounds = span.lower.iter().chain(&span.upper).map(|(bound, _)| bound);
        let starts = span.starts.iter().map(|(_, pattern)| pattern);
        span.prefix.iter().chain(bounds).chain(starts).all(is_of_no_row)
    };
    if !access.spans.iter().all(is_known) {
        return Err(Unplaced::Rows);
    }
    let nothing = Row { values: &[], given: &[] };
    let mut held = exec.budget.held();
    // If an expression has an error, the statement fails where it runs.
    let found = exec.ranges(table, access, nothing, &mut held).map_err(|_| Unplaced::Rows)?;
    places.spans.extend(found.into_iter().map(|found| (table.id, found.into_range())));
    Ok(())
}

/// The rows of an UPDATE or DELETE.
pub(crate) fn of_change(exec: &Exec<'_>, plan: &Change) -> Result<Places, Unplaced> {
    let Step { source: Source::Table(table), access, on, .. } = &plan.step else {
        return Err(Unplaced::Rows);
    };
    if plan.joined.is_some() || plan.reads_itself || plan.links.is_some() {
        return Err(Unplaced::Rows);
    }
    let set = plan.set.iter().flatten().map(|(_, value)| value);
    let shown = plan.returning.iter().flat_map(|returning| &returning.project);
    on.iter().chain(set).chain(shown).try_for_each(check_place)?;
    check_rules(&plan.rules)?;
    let moves = plan.set.iter().flatten().any(|(slot, _)| table.key_slots().contains(slot));
    let has_others = moves || has_entries(table);
    let mut places = Places { has_others, ..Places::default() };
    of_access(exec, table, access, &mut places)?;
    places.written = places.spans.len();
    Ok(places)
}

/// The rows of an INSERT.
pub(crate) fn of_insert(exec: &Exec<'_>, plan: &Insert) -> Result<Places, Unplaced> {
    let table = &plan.table;
    if plan.reads || !table.has_key() || plan.links.is_some() {
        return Err(Unplaced::Rows);
    }
    let mut checked = Ok(());
    plan.source.exprs(&mut |expr| checked = checked.and_then(|()| check_place(expr)));
    checked?;
    let defaults = plan.columns.iter().filter_map(|filled| match filled {
        Filled::Default(expr) => Some(expr),
        Filled::Given(_) => None,
    });
    let conflict = plan.conflict.iter().filter_map(|conflict| conflict.set.as_ref());
    let conflict =
        conflict.flat_map(|(set, filter)| set.iter().map(|(_, value)| value).chain(filter));
    let shown = plan.returning.iter().flat_map(|returning| &returning.project);
    defaults.chain(conflict).chain(shown).try_for_each(check_place)?;
    check_rules(&plan.rules)?;
    let mut places = Places { has_others: has_entries(table), ..Places::default() };
    let mut left = ROWS_MAX;
    let rows = exec.rows(&plan.source, &[], &mut |given| {
        let row = exec.new_row(plan, None, |at| exec.cloned(&given[at]))?;
        let key = key_of(table, &row)?;
        places.spans.push((table.id, KeyRange::single(key)));
        left -= 1;
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    match rows {
        Ok(_) if left > 0 => {
            places.written = places.spans.len();
            Ok(places)
        }
        _ => Err(Unplaced::Rows),
    }
}

/// True if a change of a row may change entries of its table that are elsewhere.
fn has_entries(table: &Table) -> bool {
    table.beside.is_some() || table.maintained().next().is_some()
}

fn check_rules(rules: &RowRules) -> Result<(), Unplaced> {
    rules.computed.iter().map(|(_, value)| value).try_for_each(check_place)?;
    rules.checks.iter().map(|rule| &rule.condition).try_for_each(check_place)?;
    let domains = rules.domains.iter().flat_map(|(_, rule)| &rule.checks);
    domains.map(|rule| &rule.condition).try_for_each(check_place)
}

/// True if an expression has one value for the whole statement, and reads nothing.
fn is_of_no_row(expr: &Expr) -> bool {
    !expr.has(&|expr| {
        matches!(
            expr,
            Expr::Column(_)
                | Expr::Given(_)
                | Expr::Outer(..)
                | Expr::Aggregate(_)
                | Expr::Window(_)
                | Expr::OuterAggregate(..)
                | Expr::Inner(_)
        )
    })
}

/// An error if an expression reads rows, or may have another value in another process.
pub(crate) fn check_place(expr: &Expr) -> Result<(), Unplaced> {
    if expr.has(&|expr| matches!(expr, Expr::Inner(_))) {
        return Err(Unplaced::Rows);
    }
    let differs = |expr: &Expr| match expr {
        Expr::Call(func, args) => !means_the_same(*func, args.len()),
        Expr::Domain(_, rule) => {
            rule.checks.iter().any(|rule| check_place(&rule.condition).is_err())
        }
        _ => false,
    };
    if expr.has(&differs) { Err(Unplaced::Function) } else { Ok(()) }
}

/// True if a function has the same meaning in another process, with the client's settings, role and
/// time.
fn means_the_same(func: Func, args: usize) -> bool {
    use Func::{
        Advisory, AdvisoryUnlock, AdvisoryUnlockAll, ClockTime, CurrVal, CurrentDatabase,
        CurrentDate, CurrentUser, ExportSnapshot, Instant, Json, LastVal, LocalNow, LocalTime,
        MayOne, NextOwn, NextVal, Now, Random, RandomUuid, SequenceIsCalled, SequenceLast,
        SessionUser, SetConfig, SetVal, Show, Sleep, Time, ToChar, Version,
    };
    match func {
        Random | RandomUuid | Sleep => true,
        NextVal
        | NextOwn
        | CurrVal
        | LastVal
        | SetVal
        | SequenceLast
        | SequenceIsCalled
        | ExportSnapshot
        | Advisory { .. }
        | AdvisoryUnlock { .. }
        | AdvisoryUnlockAll
        | SetConfig => false,
        Instant | LocalTime | Time(_) | Json(_) | MayOne(_) | Now | ClockTime | CurrentDate
        | LocalNow | CurrentDatabase | CurrentUser | SessionUser | ToChar | Show | Version => true,
        func => !func.asks_around(args),
    }
}
