//! Pulls subqueries of conditions up into the joins of the query around them.
//!
//! ```text
//!   select .. from w where exists (select 1 from s where s.id = w.g and s.kind = 3)
//!
//!   asked for each row     w: 100,000 rows, each of which asks            100,000 answers
//!   pulled up              from w semi join s on s.id = w.g and s.kind = 3, with a choice:
//!                            w, then s by a hash                          101,000 rows read
//!                            s first, whose id is unique, then w by       100 rows of s, and
//!                            its index on g                               10,000 of w
//! ```
//!
//! | condition | becomes |
//! | --- | --- |
//! | `EXISTS (query)`, `x IN (query)` | a semi join: rows with a match, each once |
//! | `NOT EXISTS (query)` | an anti join: rows without a match |
//! | `x NOT IN (query)` | an anti join, if neither `x` nor a value of the query can be NULL |
//!
//! [`super::joins`] orders these sources together with the others, so this needs
//! [statistics](crate::statistics) of all tables of both queries. The subquery becomes a source in
//! one of two forms:
//!
//! - A plain query over one source is that source. Its conditions join it to the rows before, which
//!   can look it up by an index.
//! - Any other query is a query in FROM. Its conditions with correlated values stay outside, over
//!   the columns that they need. A query with grouping or LIMIT must be uncorrelated.
//!
//! The conditions of a semi join are conditions of the query around: each row of the result meets
//! them together with some row of the source. Those of an anti join stay with its step.
//!
//! All other subqueries keep the strategies of [`crate::bind`]'s `inner`: below an OR, in SELECT,
//! without statistics, in a query with FOR UPDATE, in an UPDATE or DELETE of one table, and grouped
//! queries with correlated values. An uncorrelated EXISTS runs once and needs no join.
//!
//! **NULL.** A condition that is unknown is no match, in both kinds of join. `x NOT IN (..)` is
//! unknown for a NULL on either side, and then its row is not shown. An anti join would show it.
//!
//! Left out: scalar subqueries, and a join of several sources as the inner side without a query of
//! its own, which an index look-up could enter with the rows before.

use super::Planning;
use super::estimate::Estimate;
use super::joins::arrange;
use super::matching::{Looks, looks};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};
use crate::plan::{Access, Asks, Inner, Only, OutputColumn, Select, Source, Step, Way};
use crate::types::SqlType;
use std::sync::Arc;

/// The most sources of a query after this: more have no order by cost.
const SOURCES_MAX: usize = 64;

/// Sources and the conditions on their rows.
pub(super) type Sources = (Vec<Step>, Vec<Expr>);

/// The sources and conditions of a query, with subqueries among the conditions as sources. Sources
/// that are known to be semi joins give their conditions back.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn pulled_up(
    mut steps: Vec<Step>,
    mut conditions: Vec<Expr>,
    plan: &Select,
    planning: &Planning<'_>,
) -> Result<Sources, SqlError> {
    for step in steps.iter_mut().filter(|step| step.only == Some(Only::Matched)) {
        conditions.append(&mut step.on);
    }
    // Functions in SELECT under DISTINCT ON move to a query around, by the places of their slots.
    let has_sets = steps.iter().any(|step| matches!(step.source, Source::Set(_)));
    let is_fixed = plan.lock.is_some() || (has_sets && !plan.distinct_on.is_empty());
    let has_any = conditions.iter().any(|one| asked(one).is_some());
    let is_known = steps.iter().all(|step| planning.knows(&step.source));
    if !has_any || is_fixed || steps.is_empty() || !is_known {
        return Ok((steps, conditions));
    }
    let mut end = steps.iter().map(|step| step.offset + step.width).fold(plan.width, usize::max);
    let outer = Row { steps: &steps, conditions: &conditions };
    let (mut pulled, mut rest, mut joining) = (Vec::new(), Vec::new(), Vec::new());
    for condition in &conditions {
        let has_room = steps.len() + pulled.len() < SOURCES_MAX;
        let found = match asked(condition).filter(|_| has_room) {
            Some((inner, only)) => source(inner, only, end, &outer, planning)?,
            None => None,
        };
        let joins = |(step, on): &(Step, Vec<Expr>)| {
            let own = step.offset..step.offset + step.width;
            on.iter().any(|one| looks(one, &own) == Looks::Both)
        };
        let Some((mut step, mut on)) = found.filter(joins) else {
            rest.push(condition.clone());
            continue;
        };
        let size: usize = on.iter().map(Expr::size).sum();
        planning.budget.charge(size_of::<Step>() + size * size_of::<Expr>())?;
        end += step.width;
        match step.only {
            Some(Only::Matched) => joining.append(&mut on),
            _ => step.on = on,
        }
        pulled.push(step);
    }
    let mut all = steps.clone();
    all.append(&mut pulled);
    if all.len() == steps.len() || Estimate::of(&all, planning).is_none() {
        return Ok((steps, conditions));
    }
    rest.append(&mut joining);
    Ok((all, rest))
}

/// The subquery that a condition asks whether it has rows.
fn asked(condition: &Expr) -> Option<(&Inner, Only)> {
    let (asked, only) = match condition {
        Expr::Not(not) => (&**not, Only::Unmatched),
        condition => (condition, Only::Matched),
    };
    let Expr::Inner(inner) = asked else { return None };
    matches!(inner.asks, Asks::Exists | Asks::Any(Compare::Eq)).then_some((inner, only))
}

/// The sources of a query and the conditions that all of its rows meet.
struct Row<'r> {
    steps: &'r [Step],
    conditions: &'r [Expr],
}

impl Row<'_> {
    fn of(query: &Select) -> Row<'_> {
        Row { steps: &query.steps, conditions: &query.filter }
    }

    /// True if a value is NULL in no row.
    fn is_never_null(&self, value: &Expr) -> bool {
        let value = match value {
            Expr::Cast(of, _) => of,
            value => value,
        };
        let Expr::Column(slot) = value else {
            return matches!(value, Expr::Const(value) if !value.is_null());
        };
        if self.steps.iter().any(|step| step.left || step.right) {
            return false;
        }
        let is_tested = |condition: &Expr| {
            let Expr::Not(not) = condition else { return false };
            matches!(&**not, Expr::IsNull(tested) if **tested == *value)
        };
        let joined = self.steps.iter().filter(|step| step.only != Some(Only::Unmatched));
        let mut all = self.conditions.iter().chain(joined.flat_map(|step| &step.on));
        if all.any(is_tested) {
            return true;
        }
        let is_of = |step: &&Step| (step.offset..step.offset + step.width).contains(slot);
        let Some(step) = self.steps.iter().find(is_of) else { return false };
        let at = slot - step.offset;
        match &step.source {
            Source::Table(table) => {
                table.is_in_key(at) || table.columns.get(at).is_some_and(|column| column.not_null)
            }
            Source::Query(query) => {
                let is_plain =
                    query.group.is_none() && query.windows.is_empty() && query.other.is_none();
                let shown = query.project.get(at).filter(|_| is_plain);
                shown.is_some_and(|shown| Row::of(query).is_never_null(shown))
            }
            _ => false,
        }
    }
}

/// The source that a subquery becomes, with slots from `at` on, and the conditions that join it;
/// none if it stays a subquery.
fn source(
    inner: &Inner,
    only: Only,
    at: usize,
    outer: &Row<'_>,
    planning: &Planning<'_>,
) -> Result<Option<(Step, Vec<Expr>)>, SqlError> {
    let query = &inner.inside.query;
    let is_any = inner.asks != Asks::Exists;
    let asking: &[Expr] = if is_any { &inner.value } else { &inner.args };
    let looks_at_row = asking.iter().any(|expr| expr.has(&|one| matches!(one, Expr::Column(_))));
    let is_free = |expr: &Expr| !expr.is_volatile() && !expr.has_query();
    let can_be = looks_at_row
        && inner.args.iter().chain(&inner.value).all(is_free)
        && query.lock.is_none()
        && !matches!(inner.inside.way, Way::Each)
        && !query.is_volatile()
        && query.steps.iter().all(|step| planning.knows(&step.source));
    if !can_be {
        return Ok(None);
    }
    let can_be_null = || {
        let shown = query.project.iter().take(inner.value.len());
        let is_plain = query.group.is_none() && query.windows.is_empty() && query.other.is_none();
        !is_plain
            || !inner.value.iter().all(|value| outer.is_never_null(value))
            || !shown.into_iter().all(|value| Row::of(query).is_never_null(value))
    };
    if is_any && only == Only::Unmatched && can_be_null() {
        return Ok(None);
    }
    if is_plain(query, is_any)
        && let [own] = query.steps.as_slice()
        && own.only.is_none()
        && !looks_around(&own.source)
    {
        return Ok(Some(alone(inner, own, only, at)));
    }
    let (query, shown, on) = match inner.args.is_empty() {
        true => (query.clone(), 0, Vec::new()),
        false if is_plain(query, is_any) => match apart(query, is_any, planning)? {
            Some(parts) => parts,
            None => return Ok(None),
        },
        false => return Ok(None),
    };
    let width = query.output.len();
    let mut step = Step::of(Source::Query(Arc::new(query)), String::new(), at, width);
    step.used = vec![true; width];
    step.only = Some(only);
    let mut on: Vec<Expr> = on.into_iter().map(|one| placed(one, &inner.args, at, 0)).collect();
    let values = inner.value.iter().enumerate();
    on.extend(values.map(|(place, value)| equal(value, Expr::Column(at + shown + place))));
    Ok(Some((step, on)))
}

/// True if each row of the query is one of its sources, for this purpose: order, and for EXISTS a
/// limit, make no difference.
fn is_plain(query: &Select, is_any: bool) -> bool {
    let is_some = matches!(&query.limit, Some(Expr::Const(Datum::Int(1..))));
    query.group.is_none()
        && query.windows.is_empty()
        && query.distinct_on.is_empty()
        && (query.limit.is_none() || (!is_any && is_some))
        && query.offset.is_none()
        && query.other.is_none()
        && query.late.is_empty()
        && !query.steps.is_empty()
        && query.steps.iter().all(|step| !step.left && !step.right)
}

fn is_given(expr: &Expr) -> bool {
    expr.has(&|one| matches!(one, Expr::Given(_)))
}

/// True if a source depends on correlated values, or on rows before.
fn looks_around(source: &Source) -> bool {
    let mut found = matches!(source, Source::Lateral(..) | Source::Found(..));
    let step = Step::of(source.clone(), String::new(), 0, 0);
    Select { steps: vec![step], ..Select::default() }.exprs(&mut |expr| found |= is_given(expr));
    found
}

/// The only source of a plain subquery as a source of the query around.
fn alone(inner: &Inner, own: &Step, only: Only, at: usize) -> (Step, Vec<Expr>) {
    let query = &inner.inside.query;
    let mut conditions = Vec::new();
    let all = own.on.iter().chain(&query.filter);
    all.for_each(|one| conjuncts(one.clone(), &mut conditions));
    let here = |one: Expr| placed(one, &inner.args, at, own.offset);
    let mut on: Vec<Expr> = conditions.into_iter().map(here).collect();
    let shown = query.project.iter().cloned().map(here);
    on.extend(inner.value.iter().zip(shown).map(|(value, shown)| equal(value, shown)));
    let (access, hash) = (Access::default(), Vec::new());
    let only = Some(only);
    let step = Step { offset: at, on: Vec::new(), access, hash, kept: false, only, ..own.clone() };
    (step, on)
}

fn equal(a: &Expr, b: Expr) -> Expr {
    Expr::Compare(Compare::Eq, Box::new([a.clone(), b]))
}

/// An expression of a subquery whose slots from `first` on are those from `at` on here.
fn placed(mut expr: Expr, args: &[Expr], at: usize, first: usize) -> Expr {
    fn place(expr: &mut Expr, args: &[Expr], at: usize, first: usize) {
        match expr {
            Expr::Column(slot) => *slot = *slot - first + at,
            Expr::Given(value) => *expr = args[*value].clone(),
            other => other.children_mut(&mut |child| place(child, args, at, first)),
        }
    }
    place(&mut expr, args, at, first);
    expr
}

/// A plain query without its conditions on correlated values, the number of columns that these
/// need, and these conditions over these columns. The values of IN follow the columns.
fn apart(
    query: &Select,
    is_any: bool,
    planning: &Planning<'_>,
) -> Result<Option<(Select, usize, Vec<Expr>)>, SqlError> {
    let is_join = |step: &&Step| step.only.is_none();
    let on = query.steps.iter().filter(is_join).flat_map(|step| &step.on);
    let mut conditions = Vec::new();
    on.chain(&query.filter).for_each(|one| conjuncts(one.clone(), &mut conditions));
    let (mut outside, rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_given);
    let mut slots: Vec<usize> = Vec::new();
    outside.iter().for_each(|one| one.columns(&mut |slot| slots.push(slot)));
    slots.sort_unstable();
    slots.dedup();
    let is_shown = |slot: &usize| {
        let is_of = |step: &Step| (step.offset..step.offset + step.width).contains(slot);
        query.steps.iter().any(|step| step.only.is_none() && is_of(step))
    };
    if !slots.iter().all(is_shown) || outside.iter().any(Expr::has_query) {
        return Ok(None);
    }
    let size = rest.iter().map(Expr::size).sum::<usize>() + query.steps.len() + slots.len();
    planning.budget.charge(size * size_of::<Expr>())?;
    let ends = query.steps.iter().map(|step| step.offset + step.width);
    let width = ends.fold(query.width, usize::max);
    let mut bare = Select { width, ..Select::default() };
    bare.project = slots.iter().map(|slot| Expr::Column(*slot)).collect();
    bare.output = vec![unnamed(); slots.len()];
    if is_any {
        bare.project.extend(query.project.iter().take(query.output.len()).cloned());
        bare.output.extend(query.output.iter().cloned());
    }
    let bare_step = |step: &Step| {
        let on = if step.only.is_some() { step.on.clone() } else { Vec::new() };
        Step { on, access: Access::default(), hash: Vec::new(), kept: false, ..step.clone() }
    };
    arrange(query.steps.iter().map(bare_step).collect(), rest, &mut bare, planning)?;
    let mut is_correlated = false;
    bare.exprs(&mut |expr| is_correlated |= is_given(expr));
    if is_correlated {
        return Ok(None);
    }
    outside.iter_mut().for_each(|one| over_places(one, &slots));
    Ok(Some((bare, slots.len(), outside)))
}

fn over_places(expr: &mut Expr, slots: &[usize]) {
    match expr {
        Expr::Column(slot) => *slot = slots.partition_point(|known| known < slot),
        other => other.children_mut(&mut |child| over_places(child, slots)),
    }
}

/// A column of a query that only conditions read.
pub(super) fn unnamed() -> OutputColumn {
    OutputColumn { name: String::new(), ty: SqlType::Unknown, origin: (0, 0) }
}
