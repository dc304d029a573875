//! Rows in the order of a key or an index, so that they need no sort, and a limit ends the search.
//!
//! ```text
//!   index by_day on (day)
//!
//!   order by day desc limit 20                      backward over by_day, 20 entries
//!   where kind = 'x' order by day limit 20          by_day, until 20 rows fit
//!   where (day, id) > ($1, $2) order by day, id     spans (day > $1), (day = $1, id > $2), one after the other
//!   select max(day)                                 backward over by_day, the first entry that is not NULL
//!   select min(day), max(day)                       two queries of one row, side by side
//! ```
//!
//! The ranges of keys that an access means are disjoint and are read in the order of their keys. So
//! the rows of all of them together have the order of the index, behind the columns that are the
//! same in all of them. Joins keep the order of the first source, except right joins, whose
//! unmatched rows come at the end.
//!
//! NULL comes last in an index, as ORDER BY has it by default, and first on the way back.
//!
//! A way in the wanted order replaces the chosen one if it narrows the rows down as much; or if
//! there is a limit, and the other way reads everything.

use super::Planning;
use super::cost;
use super::estimate::Estimate;
use super::joins::for_few;
use super::push::is_plain;
use super::spans::{Path, columns, narrowness, paths};
use super::ways::Route;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::plan::{
    Access, AggregateKind, Group, OutputColumn, Select, SortKey, Source, SpanOf, Step,
};
use isomer_design::Direction;
use std::sync::Arc;

/// How many rows a query shows at most, if that is a constant.
#[derive(Clone, Copy)]
struct Limit(Option<f64>);

fn limit_of(plan: &Select) -> Option<f64> {
    let count = |expr: &Option<Expr>| match expr {
        Some(Expr::Const(Datum::Int(count))) => Some(*count as f64),
        None => Some(0.0),
        _ => None,
    };
    plan.limit.as_ref().and_then(|_| Some(count(&plan.limit)? + count(&plan.offset)?))
}

/// A value that rows are wanted in the order of.
struct By<'e> {
    value: &'e Expr,
    descending: bool,
    nulls_first: bool,
}

/// Gives a query the order asked for by a key or an index, if one has it that is as good as the way
/// chosen before.
///
/// # Errors
/// The statement exceeds its budget.
pub(crate) fn sort(plan: &mut Select, planning: &Planning<'_>) -> Result<(), SqlError> {
    sort_as(plan, None, planning)
}

/// As [`sort`], of a query whose limit is known by now. Sources that a limit ends the search in are
/// found by look-ups rather than as a whole. And `min` and `max` become the first rows
/// of an index.
///
/// # Errors
/// The statement exceeds its budget.
pub(crate) fn finish(plan: &mut Select, planning: &Planning<'_>) -> Result<(), SqlError> {
    if plan.limit.is_some() && !plan.sorted {
        let limit = Limit(limit_of(plan));
        sort_as(plan, Some(limit), planning)?;
    }
    let is_as_found = plan.group.is_none()
        && plan.windows.is_empty()
        && plan.other.is_none()
        && !plan.distinct
        && plan.distinct_on.is_empty()
        && (plan.order.is_empty() || plan.sorted);
    if let Some(few) = limit_of(plan).filter(|_| is_as_found) {
        for_few(plan, few, planning)?;
    }
    extremes(plan, planning)
}

fn sort_as(
    plan: &mut Select,
    limit: Option<Limit>,
    planning: &Planning<'_>,
) -> Result<(), SqlError> {
    let keeps_order = plan.group.is_none()
        && plan.windows.is_empty()
        && plan.other.is_none()
        && plan.steps.iter().all(|step| !step.right);
    let Some(first) = plan.steps.first().filter(|_| keeps_order && !plan.order.is_empty()) else {
        return Ok(());
    };
    if let Source::Query(query) = &first.source {
        if let Some(query) = sorted_source(plan, first, query, limit, planning)? {
            plan.steps[0].source = Source::Query(Arc::new(query));
            plan.sorted = true;
        }
        return Ok(());
    }
    let Source::Table(table) = &first.source else { return Ok(()) };
    let by = |key: &SortKey| By {
        value: &plan.project[key.place],
        descending: key.descending,
        nulls_first: key.nulls_first,
    };
    let wanted: Vec<By<'_>> = plan.order.iter().map(by).collect();
    if let Some(access) = in_order(table, first, &wanted, limit, planning)? {
        plan.steps[0].access = access;
        plan.sorted = true;
    }
    Ok(())
}

/// A query in FROM with its rows in the order that the query around asks for, if an index has it.
fn sorted_source(
    plan: &Select,
    step: &Step,
    query: &Select,
    limit: Option<Limit>,
    planning: &Planning<'_>,
) -> Result<Option<Select>, SqlError> {
    if !is_plain(query) || !query.order.is_empty() || query.is_volatile() {
        return Ok(None);
    }
    let mut order = Vec::with_capacity(plan.order.len());
    for key in &plan.order {
        let Expr::Column(slot) = plan.project[key.place] else { return Ok(None) };
        let place = slot.wrapping_sub(step.offset);
        if place >= query.project.len().min(step.width) {
            return Ok(None);
        }
        order.push(SortKey { place, ..*key });
    }
    let mut sorted = Select { order, ..query.clone() };
    planning.budget.charge(size_of::<Select>() + query.steps.len() * size_of::<Step>())?;
    sort_as(&mut sorted, limit, planning)?;
    Ok(sorted.sorted.then_some(sorted))
}

/// The way to the rows of the first source that has them in an order: the one chosen before, one
/// that narrows them down as much, or, with `any`, the best of all.
fn in_order(
    table: &Arc<Table>,
    step: &Step,
    wanted: &[By<'_>],
    limit: Option<Limit>,
    planning: &Planning<'_>,
) -> Result<Option<Access>, SqlError> {
    if let Some(way) = direction(table, step, &step.access, wanted) {
        return Ok(Some(Access { way, ..step.access.clone() }));
    }
    let conditions: Vec<&Expr> = step.on.iter().collect();
    let found = paths(table, step.offset, &conditions, &|_| false, planning.budget)?;
    let in_order = found.into_iter().filter_map(|mut path| {
        path.access.way = direction(table, step, &path.access, wanted)?;
        Some(path)
    });
    let Some(estimate) = Estimate::of(std::slice::from_ref(step), planning) else {
        let any = limit.is_some() && step.access.is_everything();
        let enough = if any { 0 } else { narrowness(&step.access).max(1) };
        let good = in_order.filter(|path| narrowness(&path.access) >= enough);
        let better = |best: Path, path: Path| if path.rank > best.rank { path } else { best };
        return Ok(good.reduce(better).map(|path| path.access));
    };
    let rows = estimate.rows(step.offset) * estimate.all(&step.on);
    let wanted_rows = limit.and_then(|limit| limit.0).map_or(rows, |limit| limit.min(rows));
    let part = if limit.is_some() { wanted_rows / rows.max(1.0) } else { 1.0 };
    let route = |access| Route::of(table, step.offset, access, &estimate);
    let mut least = route(step.access.clone()).cost() + cost::sort(rows);
    let mut best = None;
    for path in in_order {
        let route = route(path.access);
        let cost = route.cost() * part.min(1.0);
        if cost < least {
            (least, best) = (cost, Some(route.access));
        }
    }
    Ok(best)
}

/// In which direction an access has rows in an order; none if it does not have it.
fn direction(table: &Table, step: &Step, access: &Access, wanted: &[By<'_>]) -> Option<Direction> {
    if !access.any.is_empty() {
        return None;
    }
    let columns = columns(table, step.offset, access);
    let (same, rest) = columns.split_at(fixed(access).min(columns.len()));
    // The columns of the key follow those of an index, even if they are in both.
    let mut rest = rest.iter().filter(|slot| !same.contains(slot));
    let mut found = None;
    for by in wanted {
        if same.contains(by.value) {
            continue;
        }
        let way = if by.descending { Direction::Backward } else { Direction::Forward };
        let fits = by.nulls_first == by.descending && found.is_none_or(|found| found == way);
        if !fits || rest.next() != Some(by.value) {
            return None;
        }
        found = Some(way);
    }
    Some(found.unwrap_or_default())
}

/// How many of the first columns are the same in all rows that an access finds. One that has each
/// element of an array is none of them.
fn fixed(access: &Access) -> usize {
    let Some((first, others)) = access.spans.split_first() else { return 0 };
    let known = |span: &SpanOf| span.each.map_or(span.prefix.len(), |(at, _)| at);
    let alike = |other: &SpanOf| {
        let both = first.prefix.iter().zip(&other.prefix).take(known(other));
        both.take_while(|(a, b)| a == b).count()
    };
    others.iter().map(alike).fold(known(first), usize::min)
}

/// Lets `min` and `max` of all rows of a table look at the first row of an index only.
fn extremes(plan: &mut Select, planning: &Planning<'_>) -> Result<(), SqlError> {
    let Some(group) = plan.group.as_ref().filter(|group| group.is_whole()) else {
        return Ok(());
    };
    let [step] = plan.steps.as_slice() else { return Ok(()) };
    let Source::Table(table) = &step.source else { return Ok(()) };
    if !plan.windows.is_empty() || plan.other.is_some() || !plan.filter.is_empty() {
        return Ok(());
    }
    let mut steps = Vec::with_capacity(group.aggregates.len());
    for aggregate in &group.aggregates {
        let descending = match aggregate.kind {
            AggregateKind::Min => false,
            AggregateKind::Max => true,
            _ => return Ok(()),
        };
        let (Some(value), None) = (&aggregate.of, &aggregate.filter) else { return Ok(()) };
        let wanted = [By { value, descending, nulls_first: descending }];
        let Some(mut access) = in_order(table, step, &wanted, Some(Limit(Some(1.0))), planning)?
        else {
            return Ok(());
        };
        let columns = columns(table, step.offset, &access);
        leave_out_null(&mut access, &columns, value);
        steps.push(Step { access, ..step.clone() });
    }
    let group = plan.group.as_mut().expect("it was just looked at");
    if steps.len() <= 1 {
        group.first = !steps.is_empty();
        if let Some(step) = steps.pop() {
            plan.steps = vec![step];
        }
        return Ok(());
    }
    // Each is a query of one row; without keys, the row of a group has nothing but the aggregates.
    planning.budget.charge(steps.len() * (size_of::<Step>() + size_of::<Select>()))?;
    let width = plan.width;
    let queries = steps.into_iter().zip(&group.aggregates).enumerate().map(|(at, (step, of))| {
        let aggregates = vec![of.clone()];
        let group = Group {
            keys: Vec::new(),
            sets: Vec::new(),
            aggregates,
            having: Vec::new(),
            first: true,
        };
        let alone = Select {
            steps: vec![step],
            width,
            group: Some(group),
            project: vec![Expr::Column(0)],
            output: vec![OutputColumn { name: String::new(), ty: of.ty, origin: (0, 0) }],
            ..Select::default()
        };
        let mut step = Step::of(Source::Query(Arc::new(alone)), String::new(), at, 1);
        step.used = vec![true];
        step
    });
    plan.steps = queries.collect();
    plan.width = plan.steps.len();
    plan.filter.append(&mut group.having);
    plan.group = None;
    Ok(())
}

/// Leaves out the entries whose value is NULL, where nothing else does.
fn leave_out_null(access: &mut Access, columns: &[Expr], value: &Expr) {
    if access.spans.is_empty() {
        access.spans.push(SpanOf::default());
    }
    let place = columns.iter().position(|column| column == value);
    for span in &mut access.spans {
        span.known = place == Some(span.prefix.len()) && !span.is_bounded();
    }
}
