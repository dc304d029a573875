//! Subqueries in expressions: their correlated values, and their evaluation strategies.
//!
//! A correlated subquery is bound with the outer queries in scope. Here it is separated from them.
//! Each outer column becomes a *correlated value*, a parameter of the subquery, and the surrounding
//! expression says which value to pass. An uncorrelated subquery has no parameters. From then on a
//! subquery is a function, which need not be called twice for the same values.
//!
//! ```text
//!   select o.id from o where o.total > (select sum(l.amount) from l where l.o = o.id and l.n < 9)
//!
//!   given     o.id                   the slot of o's row
//!   query     select sum(amount) from l where o = ? and n < 9
//!   keys      l.o = ?                an equality of a column of l and the correlated value, so
//!   hashed    select o, sum(amount) from l where n < 9 group by o
//!                                    can have it as a grouping key instead of a condition
//!   nothing   select sum(amount) from (no rows)
//!                                    the answer for an o.id without rows in l: NULL
//! ```
//!
//! | strategy | condition | executions |
//! | --- | --- | --- |
//! | remembered, uncorrelated | it depends on no row | one per statement |
//! | hashed | its correlated values occur only in equalities required of every row | one in all |
//! | remembered | otherwise | one per distinct values, within the memory limit |
//! | each | it is volatile and correlated | one per row |
//!
//! So a sum per row becomes one grouping, and EXISTS a look-up in a table. With statistics, EXISTS
//! and IN among the conditions of a query become [joins](crate::optimize) instead.
//!
//! NULLs follow SQL: a NULL key is in no equality. `x NOT IN (..)` is true for an empty set.
//! Otherwise it is unknown if x or one of the values is NULL and no value equals x.
//!
//! An index already is a table of all answers: if it covers all keys, the subquery runs for each
//! row and uses the index. With statistics, the table is built once the runs have had its cost
//! ([`runs_worth`]). If the index covers some keys, a few runs are made before ([`RUNS_BEFORE`]). A
//! statement over a few rows has finished by then.
//!
//! A volatile but uncorrelated subquery runs once too, as in PostgreSQL.
//!
//! A LATERAL query in FROM is separated in the same way, and runs for each row before it.
//!
//! A subquery may lock its rows (`where id = (select .. for update skip locked limit 1)`) if it
//! runs once, in the condition of a change. Changes read their rows again anyway.
//!
//! Left out: comparisons other than equality as keys.

use super::expr::{EXPR_BYTES, boolean};
use super::operators::no_operator;
use super::query::{empty, not_locked, of_types};
use super::row_assign::row_values;
use super::{Binder, Typed, bare};
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr, conjuncts};
use crate::functions::common;
use crate::optimize::{Planning, arrange, runs_worth};
use crate::plan::{Access, Asks, Hashed, Inner, Inside, OutputColumn, Select, Source, Step, Way};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, Query};
use std::sync::Arc;

/// The runs of a subquery with partial index support before the table of all answers is built.
const RUNS_BEFORE: usize = 4;

impl Binder<'_> {
    /// Binds a subquery of an expression.
    pub(super) fn inner(
        &mut self,
        asks: Asks,
        query: &Query,
    ) -> Result<(Inner, SqlType), SqlError> {
        let query = self.query(query)?;
        self.inside(asks, query)
    }

    /// Binds `x < ANY (query)` and its kin: of a value, or of a row and its values. IN is `= ANY`,
    /// ALL is that the opposite of no row is true.
    pub(super) fn any_of(
        &mut self,
        left: &ast::Expr,
        compare: Compare,
        query: &Query,
    ) -> Result<Typed, SqlError> {
        let values = row_values(left).unwrap_or_else(|| vec![left.clone()]);
        let values = values.iter().map(|value| self.expr(value));
        let values = values.collect::<Result<Vec<Typed>, _>>()?;
        let mut query = self.query(query)?;
        if query.output.len() != values.len() {
            let is_more = query.output.len() > values.len();
            let amount = if is_more { "many" } else { "few" };
            let message = format!("subquery has too {amount} columns");
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let columns = values.iter().zip(&query.output);
        let types = columns.map(|(value, column)| searched_as(value.ty, compare, column.ty));
        let types = types.collect::<Result<Vec<SqlType>, _>>()?;
        let mut both = types.iter().zip(&query.output);
        if both.any(|(ty, column)| bare(*ty) != bare(column.ty)) {
            query = of_types(query, &types);
        }
        let (mut inner, _) = self.inside(Asks::Any(compare), query)?;
        let values = values.into_iter().zip(types).map(|(value, ty)| self.coerce(value, ty));
        inner.value = values.collect::<Result<_, _>>()?;
        Ok(boolean(Expr::Inner(Box::new(inner))))
    }

    fn inside(&mut self, asks: Asks, mut query: Select) -> Result<(Inner, SqlType), SqlError> {
        let ty = match query.output.as_slice() {
            _ if matches!(asks, Asks::Exists | Asks::Any(_)) => SqlType::Bool,
            [column] => column.ty,
            _ => {
                let message = "subquery must return only one column";
                return Err(SqlError::new(code::SYNTAX, message));
            }
        };
        if asks == Asks::Exists && query.lock.is_none() {
            shows_nothing(&mut query);
        }
        let mut args = Vec::new();
        query.exprs_mut(&mut |expr| cut_off(expr, &mut args));
        self.budget.charge(size_of::<Inner>() + args.len() * size_of::<Expr>())?;
        if query.lock.is_some() && !(self.is_change && args.is_empty()) {
            return Err(SqlError::unsupported("FOR UPDATE in a query inside of another")
                .hint("It is possible in the condition of an UPDATE or DELETE, if it knows nothing of the rows changed."));
        }
        let way = self.way(asks, &query, &args)?;
        let number = self.number();
        let inside = Arc::new(Inside { query, way });
        Ok((Inner { number, asks, args, value: Vec::new(), inside }, ty))
    }

    /// Binds a LATERAL query in FROM; returns its correlated values over the earlier sources, and
    /// the query.
    pub(super) fn lateral(&mut self, query: &Query) -> Result<(Vec<Expr>, Select), SqlError> {
        let mut query = not_locked(self.query(query)?)?;
        let mut args = Vec::new();
        query.exprs_mut(&mut |expr| cut_off(expr, &mut args));
        self.budget.charge(args.len() * size_of::<Expr>())?;
        Ok((args, query))
    }

    fn way(&mut self, asks: Asks, query: &Select, args: &[Expr]) -> Result<Way, SqlError> {
        if args.is_empty() {
            return Ok(Way::Remembered);
        }
        if query.is_volatile() {
            return Ok(Way::Each);
        }
        Ok(match self.hashed(asks, query)? {
            Some(hashed) => Way::Hashed(Box::new(hashed)),
            None => Way::Remembered,
        })
    }

    /// The query of all answers, if it is possible and useful.
    fn hashed(&mut self, asks: Asks, query: &Select) -> Result<Option<Hashed>, SqlError> {
        let is_simple = asks != Asks::Array
            && query.other.is_none()
            && query.distinct_on.is_empty()
            && query.windows.is_empty()
            && query.limit.is_none()
            && query.offset.is_none()
            && query.group.as_ref().is_none_or(|group| group.sets.is_empty())
            && query.steps.iter().all(|step| !step.right);
        if !is_simple {
            return Ok(None);
        }
        let (keys, rest) = Equalities::of(query);
        let found = keys.found_by_index(query);
        let is_all_found = found >= keys.by.len();
        if keys.by.is_empty() || (is_all_found && query.steps.len() > 1) {
            return Ok(None);
        }
        // The query then exists twice, except for its nested subqueries.
        let exprs = keys.by.len() + rest.len() + query.project.len();
        self.budget.charge(exprs * EXPR_BYTES + query.steps.len() * size_of::<Step>())?;
        let mut bare = empty(Vec::new());
        let ends = query.steps.iter().map(|step| step.offset + step.width);
        (bare.width, bare.distinct) = (ends.fold(query.width, usize::max), query.distinct);
        bare.project.clone_from(&query.project);
        bare.group.clone_from(&query.group);
        let steps = query.steps.iter().map(without_way).collect();
        let before = self.budget.mark();
        let planning = Planning::of(self.catalog, self.budget);
        arrange(steps, rest, &mut bare, &planning)?;
        let mut has_given = false;
        bare.exprs(&mut |expr| has_given |= is_given(expr));
        let after = match is_all_found {
            true => runs_worth(query, &bare, &planning),
            false => Some(0),
        };
        let Some(after) = after.filter(|_| !has_given) else {
            self.budget.back_to(before);
            return Ok(None);
        };
        let nothing = bare.group.as_ref().filter(|group| group.keys.is_empty()).map(|group| {
            let no_rows = without_rows(&query.steps);
            let mut nothing = Select { group: Some(group.clone()), ..empty(query.output.clone()) };
            (nothing.steps, nothing.width) = (vec![no_rows], query.width);
            nothing.project.clone_from(&query.project);
            nothing
        });
        show_keys(&mut bare, keys.own, asks, &query.output);
        let after = if found > 0 { after.max(RUNS_BEFORE) } else { 0 };
        Ok(Some(Hashed { query: bare, by: keys.by, nothing, after }))
    }

    /// A number that is unique in the statement.
    pub(super) fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }
}

/// The type of a column that is searched for a value: floats are compared as floats, and times as
/// times. A literal in the query is a text.
fn searched_as(value: SqlType, compare: Compare, column: SqlType) -> Result<SqlType, SqlError> {
    let column = if column == SqlType::Unknown { SqlType::Text } else { column };
    if value == SqlType::Unknown {
        return Ok(column);
    }
    if column.family() != value.family() {
        return Err(no_operator(compare.sign(), value, column));
    }
    let both = match (value, column) {
        (SqlType::Char(_), SqlType::Varchar(_)) => SqlType::Char(None),
        // Trailing blanks of a text count.
        (SqlType::Char(_), SqlType::Text) => SqlType::Text,
        _ => common(&[value, column]),
    };
    let is_padded = matches!(both, SqlType::Char(_)) && !matches!(column, SqlType::Char(_));
    let differs = both.is_float() || both.family() == Family::Time || is_padded;
    Ok(if differs { both } else { column })
}

/// Replaces outer columns in an expression by correlated values.
fn cut_off(expr: &mut Expr, args: &mut Vec<Expr>) {
    let around = match expr {
        Expr::Outer(1, slot) => Expr::Column(*slot),
        Expr::Outer(levels, slot) => Expr::Outer(*levels - 1, *slot),
        Expr::OuterAggregate(1, at) => Expr::Aggregate(*at),
        Expr::OuterAggregate(levels, at) => Expr::OuterAggregate(*levels - 1, *at),
        _ => return expr.children_mut(&mut |child| cut_off(child, args)),
    };
    let known = args.iter().position(|arg| *arg == around);
    let at = known.unwrap_or_else(|| {
        args.push(around);
        args.len() - 1
    });
    *expr = Expr::Given(at);
}

/// EXISTS does not depend on the output columns, so they are removed.
fn shows_nothing(query: &mut Select) {
    let is_plain = query.group.is_none()
        && query.windows.is_empty()
        && query.other.is_none()
        && query.limit.is_none()
        && query.offset.is_none();
    if is_plain {
        query.project.clear();
        query.late.clear();
        query.output.clear();
        query.order.clear();
        query.distinct_on.clear();
        (query.distinct, query.sorted) = (false, false);
    }
}

fn is_given(expr: &Expr) -> bool {
    expr.has(&|expr| matches!(expr, Expr::Given(_)))
}

/// The equalities between correlated values and values of the subquery's rows.
#[derive(Default)]
struct Equalities {
    by: Vec<Expr>,
    own: Vec<Expr>,
}

impl Equalities {
    /// Separates the equalities that every row fulfils from all other conditions; those of a left,
    /// semi or anti join stay with it.
    fn of(query: &Select) -> (Equalities, Vec<Expr>) {
        let is_inner = |step: &&Step| !step.left && step.only.is_none();
        let inner = query.steps.iter().filter(is_inner).flat_map(|step| &step.on);
        let mut conditions = Vec::new();
        inner.chain(&query.filter).for_each(|one| conjuncts(one.clone(), &mut conditions));
        let (mut keys, mut rest) = (Equalities::default(), Vec::new());
        for condition in conditions {
            match sides(&condition) {
                Some((by, own)) => {
                    keys.by.push(by.clone());
                    keys.own.push(own.clone());
                }
                None => rest.push(condition),
            }
        }
        (keys, rest)
    }

    /// The number of equalities that a key or an index supports, if the correlated values are
    /// known.
    fn found_by_index(&self, query: &Select) -> usize {
        let prefix = |step: &Step| -> usize {
            let first = step.access.spans.first();
            first.map_or(0, |span| span.prefix.iter().filter(|by| self.by.contains(by)).count())
        };
        query.steps.iter().map(prefix).sum()
    }
}

/// The correlated value and the row's value of an equality.
fn sides(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Compare(Compare::Eq, both) = condition else { return None };
    let has_column = |expr: &Expr| expr.has(&|part| matches!(part, Expr::Column(_)));
    let is_by = |expr: &Expr| is_given(expr) && !has_column(expr) && !expr.has_query();
    let is_own = |expr: &Expr| !is_given(expr) && has_column(expr) && !expr.has_query();
    match &**both {
        [by, own] | [own, by] if is_by(by) && is_own(own) => Some((by, own)),
        _ => None,
    }
}

/// A source without its access path.
fn without_way(step: &Step) -> Step {
    let stays = step.left || step.only.is_some();
    let on = if stays { step.on.clone() } else { Vec::new() };
    Step { on, access: Access::default(), hash: Vec::new(), kept: false, ..step.clone() }
}

/// A source with the slots of these steps and without rows.
fn without_rows(steps: &[Step]) -> Step {
    let width = steps.iter().map(|step| step.offset + step.width).max().unwrap_or(0);
    let mut step = Step::of(Source::Values(Vec::new()), String::new(), 0, width);
    step.used = vec![true; width];
    step
}

/// Adds the keys before the output columns, and to the group keys of a grouped query.
fn show_keys(query: &mut Select, own: Vec<Expr>, asks: Asks, output: &[OutputColumn]) {
    let count = own.len();
    let mut keys = own;
    if let Some(group) = &mut query.group {
        group.first = false;
        let before = group.keys.len();
        // The aggregates follow the keys of a group.
        let mut shift = |expr: &mut Expr| moved(expr, before, count);
        group.having.iter_mut().chain(&mut query.project).for_each(&mut shift);
        group.keys.append(&mut keys);
        keys = (before..before + count).map(Expr::Column).collect();
    }
    let shown = if asks == Asks::Exists { 0 } else { output.len() };
    query.project.truncate(shown);
    keys.append(&mut query.project);
    query.project = keys;
    let key = OutputColumn { name: String::new(), ty: SqlType::Unknown, origin: (0, 0) };
    query.output = vec![key; count];
    query.output.extend(output.iter().take(shown).cloned());
}

/// Shifts slots from `from` on by `by`.
fn moved(expr: &mut Expr, from: usize, by: usize) {
    match expr {
        Expr::Column(slot) if *slot >= from => *slot += by,
        _ => expr.children_mut(&mut |child| moved(child, from, by)),
    }
}

/// Raises the levels of outer references in a query, for further queries in between.
pub(super) fn shift_levels(query: &mut Select, by: usize) {
    fn shift(expr: &mut Expr, by: usize) {
        match expr {
            Expr::Outer(levels, _) | Expr::OuterAggregate(levels, _) => *levels += by,
            _ => expr.children_mut(&mut |child| shift(child, by)),
        }
    }
    query.exprs_mut(&mut |expr| shift(expr, by));
}

/// True for a correlated query.
pub(super) fn looks_out(query: &Select) -> bool {
    let mut found = false;
    let is_out = |expr: &Expr| matches!(expr, Expr::Outer(..) | Expr::OuterAggregate(..));
    query.exprs(&mut |expr| found |= expr.has(&is_out));
    found
}
