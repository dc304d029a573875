//! Pushes conditions on the rows of a query in FROM, or of a view, into that query, so that it can
//! use them as access paths.
//!
//! ```text
//!   create view names as select id, upper(name) as name from staff
//!   select * from names where id = 7           names: .. from staff where id = 7, by the key
//! ```
//!
//! The condition is also checked where it was before. Into UNION, INTERSECT and EXCEPT it is pushed
//! on both sides. It is not pushed into a query whose rows depend on each other (groups, windows,
//! DISTINCT, LIMIT and similar). Nor is it pushed if a volatile value would be evaluated more than
//! once, nor out of or into an outer join.

use super::Planning;
use super::joins::arrange;
use super::order::sort;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::plan::{Access, Only, Select, Source, Step};
use std::sync::Arc;

/// Adds conditions on the slots of a source to its query, if the source is a query that allows it.
pub(super) fn push(
    step: &mut Step,
    conditions: &[Expr],
    planning: &Planning<'_>,
) -> Result<(), SqlError> {
    let Source::Query(query) = &mut step.source else { return Ok(()) };
    if !has_own_rows(query) {
        return Ok(());
    }
    let own = step.offset..step.offset + step.width;
    let mut moved = Vec::new();
    for condition in conditions {
        let (mut concerns, mut any) = (can_move(condition), false);
        condition.columns(&mut |slot| {
            any = true;
            concerns &= own.contains(&slot) && slot - own.start < query.project.len();
        });
        if concerns && any {
            moved.push(condition);
        }
    }
    let sides = [Some(&**query), query.other.as_ref().map(|other| &other.query)];
    if moved.is_empty() || sides.into_iter().flatten().any(Select::is_volatile) {
        return Ok(());
    }
    let query = Arc::make_mut(query);
    narrow(query, &moved, own.start, planning)?;
    match &mut query.other {
        Some(other) if has_own_rows(&other.query) => {
            narrow(&mut other.query, &moved, own.start, planning)
        }
        _ => Ok(()),
    }
}

/// Adds conditions on the columns of a query, which begin at `first`.
fn narrow(
    query: &mut Select,
    conditions: &[&Expr],
    first: usize,
    planning: &Planning<'_>,
) -> Result<(), SqlError> {
    let mut pushed = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let mut inside = (*condition).clone();
        put_in(&mut inside, first, &query.project);
        planning.budget.charge(inside.size() * size_of::<Expr>())?;
        pushed.push(inside);
    }
    let mut steps = std::mem::take(&mut query.steps);
    let mut all = Vec::new();
    for step in &mut steps {
        if step.only != Some(Only::Unmatched) {
            all.append(&mut step.on);
        }
        step.hash.clear();
        (step.access, step.kept) = (Access::default(), false);
    }
    all.append(&mut query.filter);
    all.append(&mut pushed);
    arrange(steps, all, query, planning)?;
    query.sorted = false;
    sort(query, planning)
}

/// True if each row of the query results from one row of its sources, independently of the other
/// rows.
pub(super) fn is_plain(query: &Select) -> bool {
    has_own_rows(query) && query.other.is_none()
}

/// As [`is_plain`], of the first side of UNION and similar.
fn has_own_rows(query: &Select) -> bool {
    query.group.is_none()
        && query.windows.is_empty()
        && !query.distinct
        && query.distinct_on.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.lock.is_none()
        && !query.steps.is_empty()
        && query.steps.iter().all(|step| !step.left && !step.right)
}

/// True if a condition has the same meaning inside of the query, and the same value each time it is
/// evaluated.
fn can_move(condition: &Expr) -> bool {
    let is_bound_here = |expr: &Expr| {
        matches!(
            expr,
            Expr::Inner(_)
                | Expr::Outer(..)
                | Expr::Given(_)
                | Expr::Aggregate(_)
                | Expr::OuterAggregate(..)
        )
    };
    !condition.is_volatile() && !condition.has(&is_bound_here)
}

/// Replaces the columns of a query, which begin at `first`, by their expressions in it.
fn put_in(condition: &mut Expr, first: usize, project: &[Expr]) {
    match condition {
        Expr::Column(slot) => *condition = project[*slot - first].clone(),
        other => other.children_mut(&mut |child| put_in(child, first, project)),
    }
}
