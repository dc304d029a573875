//! Ways to the rows of a source, with how many rows each most likely finds.

use super::Planning;
use super::cost;
use super::estimate::Estimate;
use super::spans::{alternatives, columns, paths};
use crate::catalog::Table;
use crate::error::SqlError;
use crate::expr::{Compare, Expr};
use crate::plan::{Access, Select, Source, SpanOf, Step};
use std::sync::Arc;

/// The assumed number of elements of an array whose length is unknown.
const ELEMENTS: f64 = 10.0;

/// A way to the rows of a source.
pub(super) struct Route {
    pub(super) access: Access,
    /// Ranges that are begun.
    spans: f64,
    /// Rows that are found each time.
    pub(super) rows: f64,
    /// True if it depends on rows of earlier sources: it is repeated for each of these.
    pub(super) depends: bool,
}

impl Route {
    /// The cost of one repetition.
    pub(super) fn cost(&self) -> f64 {
        self.cost_of(1.0)
    }

    /// The cost of one repetition that ends after this fraction of the rows.
    pub(super) fn cost_of(&self, fraction: f64) -> f64 {
        let by_index = self.access.index.is_some() || !self.access.any.is_empty();
        let rows = self.rows * fraction;
        match self.access.is_everything() {
            true => cost::everything(rows, by_index),
            false => cost::spans(self.spans, rows, by_index),
        }
    }

    /// An access, and what it finds.
    pub(super) fn of(
        table: &Arc<Table>,
        offset: usize,
        access: Access,
        estimate: &Estimate<'_>,
    ) -> Route {
        let all = estimate.rows(offset);
        let (mut spans, mut rows, mut depends) = (0.0, 0.0, false);
        let arms = if access.any.is_empty() { std::slice::from_ref(&access) } else { &access.any };
        for arm in arms {
            let columns = columns(table, offset, arm);
            let predicate = arm.index.as_ref().and_then(|index| index.predicate.as_ref());
            let least = predicate.map_or(1.0, |one| estimate.all([&one.value.moved(offset)]));
            if arm.spans.is_empty() {
                (spans, rows) = (spans + 1.0, rows + all * least);
            }
            for span in &arm.spans {
                let (times, fraction) = fraction(span, &columns, estimate);
                spans += times;
                rows += all * (times * fraction).min(least);
                let exprs = span.prefix.iter().chain(span.starts.iter().map(|(_, of)| of));
                let bounds = span.lower.iter().chain(&span.upper).map(|(bound, _)| bound);
                depends |= exprs
                    .chain(bounds)
                    .any(|expr| expr.has(&|part| matches!(part, Expr::Column(_))));
            }
        }
        Route { access, spans, rows: rows.min(all), depends }
    }
}

/// The number of runs of a query over one table with the cost of one run of another; none without
/// statistics.
pub(crate) fn runs_worth(one: &Select, other: &Select, planning: &Planning<'_>) -> Option<usize> {
    let cost = |query: &Select| {
        let [step] = query.steps.as_slice() else { return None };
        let Source::Table(table) = &step.source else { return None };
        let estimate = Estimate::of(std::slice::from_ref(step), planning)?;
        let route = Route::of(table, step.offset, step.access.clone(), &estimate);
        Some(route.cost() + cost::hash(query.estimate.unwrap_or(route.rows), 0.0, 0.0))
    };
    Some((cost(other)? / cost(one)?).ceil() as usize)
}

/// How many ranges a span is, and the fraction of a table's rows that is in each.
fn fraction(span: &SpanOf, columns: &[Expr], estimate: &Estimate<'_>) -> (f64, f64) {
    let compared = |compare, column: &Expr, with: &Expr| {
        Expr::Compare(compare, Box::new([column.clone(), with.clone()]))
    };
    let (mut times, mut fraction) = (1.0, 1.0);
    for (at, (value, column)) in span.prefix.iter().zip(columns).enumerate() {
        if span.each.is_some_and(|(place, _)| place == at) {
            times *= ELEMENTS;
            fraction *= estimate.equal_to_any(column);
        } else {
            fraction *= estimate.all([&compared(Compare::Eq, column, value)]);
        }
    }
    if let Some(column) = columns.get(span.prefix.len()) {
        let lower = span.lower.as_ref().map(|(bound, _)| compared(Compare::Ge, column, bound));
        let upper = span.upper.as_ref().map(|(bound, _)| compared(Compare::Le, column, bound));
        fraction *= estimate.all(lower.iter().chain(&upper));
        if let Some((kind, pattern)) = &span.starts {
            fraction *= estimate.pattern(*kind, column, pattern);
        }
    }
    (times, fraction)
}

/// The ways to the rows of a source where these places of the row are known.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn routes(
    step: &Step,
    conditions: &[&Expr],
    known: &dyn Fn(usize) -> bool,
    estimate: &Estimate<'_>,
    planning: &Planning<'_>,
) -> Result<Vec<Route>, SqlError> {
    let Source::Table(table) = &step.source else {
        let depends = !step.source.is_ready(&|_| false);
        let rows = estimate.rows(step.offset);
        return Ok(vec![Route { access: Access::default(), spans: 1.0, rows, depends }]);
    };
    let budget = planning.budget;
    let found = paths(table, step.offset, conditions, known, budget)?;
    let is_all = |access: &Access| access.is_everything() && access.index.is_none();
    let mut accesses: Vec<Access> = found.into_iter().map(|path| path.access).collect();
    if !accesses.iter().any(is_all) {
        accesses.push(Access::default());
    }
    let any = alternatives(table, step.offset, conditions, known, budget)?;
    accesses.extend(any.map(|any| Access { any, ..Access::default() }));
    let route = |access| Route::of(table, step.offset, access, estimate);
    Ok(accesses.into_iter().map(route).collect())
}
