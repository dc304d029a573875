//! Access paths: the key or index that finds the rows for some conditions.
//!
//! For the columns of the key, and of each index, the conditions are searched for values: as long
//! as a column is equal to something known, its values lengthen the spans; the first column that is
//! only bounded closes them. The fixed beginning of a [pattern](crate::prefix) is a bound as well.
//! The key or index with the most columns wins; the primary key wins ties, because it saves a
//! look-up. A partial index takes part if the conditions [imply](super::implied) its predicate,
//! which counts like values of columns before its own: so all of its rows may be the way to those
//! that are asked for.
//!
//! ```text
//!   key (w_id, d_id, o_id)     w_id = 1 and d_id in (2, 3) and o_id > 7
//!                              [1, 2, (7, ..)]  [1, 3, (7, ..)]
//!   index (a), index (b)       a = 1 or b = 2
//!                              a: [1]   b: [2]       both, each row once
//! ```
//!
//! `= ANY` of an array, which is one parameter of any number of values, and `IN` of an uncorrelated
//! query are lists that are known when the statement runs.
//!
//! A date that is compared with a timestamp, as in `d < date '2024-01-01' + interval '1 month'`, is
//! bounded by the day of it.
//!
//! Conditions stay in place and are checked again for each row found: spans may be larger than what
//! the conditions mean, never smaller.

use super::implied::is_implied;
use crate::budget::Budget;
use crate::catalog::{Computed, Table};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};
use crate::functions::Func;
use crate::plan::{Access, Asks, SpanOf};
use crate::prefix::Prefix;
use crate::types::SqlType;
use std::sync::Arc;

/// More spans than this are not worth it: the lists of several columns multiply.
const SPANS_MAX: usize = 10_000;
/// An "or" is looked into up to this depth, as each arm is tried with all other conditions.
const ARMS_DEPTH: usize = 3;

/// A way to rows, and how good it is: the more it narrows them down, the higher.
pub(super) struct Path {
    pub(super) rank: usize,
    pub(super) access: Access,
}

/// The best access path to the rows of `table`, whose slots begin at `offset`. `known` says which
/// slots have values already.
///
/// # Errors
/// The statement exceeds its budget.
pub(crate) fn choose(
    table: &Arc<Table>,
    offset: usize,
    conditions: &[Expr],
    known: &dyn Fn(usize) -> bool,
    budget: &Budget,
) -> Result<Access, SqlError> {
    let conditions: Vec<&Expr> = conditions.iter().collect();
    let mut best = best(paths(table, offset, &conditions, known, budget)?).access;
    if narrowness(&best) == 0
        && best.index.is_none()
        && let Some(any) = alternatives(table, offset, &conditions, known, budget)?
    {
        best = Access { any, ..Access::default() };
    }
    let bytes = |span: &SpanOf| size_of::<SpanOf>() + span.prefix.len() * size_of::<Expr>();
    let arms = best.any.iter().flat_map(|arm| &arm.spans);
    budget.charge(best.spans.iter().chain(arms).map(bytes).sum())?;
    Ok(best)
}

/// How much an access narrows the rows down: two for each value, one for a bound.
pub(super) fn narrowness(access: &Access) -> usize {
    match access.any.as_slice() {
        [] => score(&access.spans),
        arms => arms.iter().map(|arm| score(&arm.spans)).min().unwrap_or(0),
    }
}

fn best(paths: Vec<Path>) -> Path {
    let better = |best: Path, path: Path| if path.rank > best.rank { path } else { best };
    paths.into_iter().reduce(better).expect("a table has a key")
}

/// Ways to the rows of a table: by its key, and by each index that has all of them.
pub(super) fn paths(
    table: &Arc<Table>,
    offset: usize,
    conditions: &[&Expr],
    known: &dyn Fn(usize) -> bool,
    budget: &Budget,
) -> Result<Vec<Path>, SqlError> {
    let finder = Finder { table, offset, known, budget };
    let slots = table.key_slots().into_iter().map(|at| Expr::Column(offset + at));
    let slots = slots.collect::<Vec<Expr>>();
    let key = finder.spans(&slots, conditions, ARMS_DEPTH)?;
    let is_whole = |span: &SpanOf| span.prefix.len() == slots.len();
    // Nothing is better than the whole key.
    let needs_none = !key.is_empty() && key.iter().all(is_whole);
    let indexes = table.primary.iter().chain(table.readable_indexes());
    let access = Access { spans: key, ..Access::default() };
    let mut paths = vec![Path { rank: narrowness(&access) * 3 + 2, access }];
    for index in indexes.filter(|_| !needs_none) {
        let mut narrow = 0;
        if let Some(predicate) = &index.predicate {
            if !is_implied(predicate, offset, conditions, budget)? {
                continue;
            }
            narrow = narrowing(predicate);
        }
        if index.parts.iter().any(|part| !part.ty(table).has_order()) {
            continue;
        }
        // A bound or a value for a part; the columns of the key follow those of the index.
        let own = index.parts.iter().map(|part| part.expr(offset));
        let parts: Vec<Expr> = own.chain(slots.iter().cloned()).collect();
        let spans = finder.spans(&parts, conditions, ARMS_DEPTH)?;
        let rank = (score(&spans) + narrow) * 3 + usize::from(index.predicate.is_some());
        let access = Access { index: Some(index.clone()), spans, ..Access::default() };
        paths.push(Path { rank, access });
    }
    Ok(paths)
}

/// The ways to the alternatives of a condition that is an "or", if different indexes find all of
/// them.
pub(super) fn alternatives(
    table: &Arc<Table>,
    offset: usize,
    conditions: &[&Expr],
    known: &dyn Fn(usize) -> bool,
    budget: &Budget,
) -> Result<Option<Vec<Access>>, SqlError> {
    for (at, condition) in conditions.iter().enumerate() {
        let Some(arms) = condition.alternatives() else { continue };
        let mut ways = Vec::with_capacity(arms.len());
        for arm in arms {
            let mut parts = Vec::new();
            conjuncts(arm.clone(), &mut parts);
            let others = conditions.iter().enumerate().filter(|(i, _)| *i != at);
            let together: Vec<&Expr> = parts.iter().chain(others.map(|(_, c)| *c)).collect();
            let way = best(paths(table, offset, &together, known, budget)?).access;
            if way.spans.is_empty() || !way.spans.iter().all(is_selective) {
                break;
            }
            ways.push(way);
        }
        if ways.len() == arms.len() && ways.len() > 1 {
            return Ok(Some(ways));
        }
    }
    Ok(None)
}

/// The values that the entries of an access are sorted by.
pub(super) fn columns(table: &Table, offset: usize, access: &Access) -> Vec<Expr> {
    let parts = access.index.iter().flat_map(|index| &index.parts);
    let key = table.key_slots().into_iter().map(|at| Expr::Column(offset + at));
    parts.map(|part| part.expr(offset)).chain(key).collect()
}

/// True if a span most likely has few of a table's rows.
fn is_selective(span: &SpanOf) -> bool {
    let is_closed = span.lower.is_some() && span.upper.is_some();
    !span.prefix.is_empty() || span.starts.is_some() || is_closed
}

/// The selectivity of a predicate, counted as if its columns preceded those of the index.
fn narrowing(predicate: &Computed) -> usize {
    let mut parts = Vec::new();
    conjuncts(predicate.value.clone(), &mut parts);
    let narrow = |part: &Expr| match part {
        // One of the two booleans may be the value of nearly all rows.
        Expr::Compare(_, both)
            if both.iter().any(|one| matches!(one, Expr::Const(Datum::Bool(_)))) =>
        {
            0
        }
        Expr::Compare(Compare::Eq, _) | Expr::In(..) => 2,
        Expr::Compare(Compare::Ne, _) => 0,
        Expr::Compare(..) => 1,
        _ => 0,
    };
    parts.iter().map(narrow).sum()
}

/// The selectivity of spans: two for a value, one for a bound.
fn score(spans: &[SpanOf]) -> usize {
    let narrow = |span: &SpanOf| 2 * span.prefix.len() + usize::from(span.is_bounded());
    spans.iter().map(narrow).min().unwrap_or(0)
}

/// The values that a column is equal to one of.
enum Values {
    These(Vec<Expr>),
    /// The elements of an array, of this type.
    Elements(Expr, SqlType),
}

struct Finder<'k> {
    table: &'k Table,
    offset: usize,
    known: &'k dyn Fn(usize) -> bool,
    budget: &'k Budget,
}

impl Finder<'_> {
    /// The spans of the columns at these places; none if the conditions say nothing about the
    /// first. ORs are searched up to this depth.
    fn spans(
        &self,
        parts: &[Expr],
        conditions: &[&Expr],
        depth: usize,
    ) -> Result<Vec<SpanOf>, SqlError> {
        let mut prefixes: Vec<Vec<Expr>> = vec![Vec::new()];
        let (mut at, mut each) = (0, None);
        while let Some(part) = parts.get(at) {
            self.budget.tick(1 + 4 * conditions.len())?;
            let Some(values) = conditions.iter().find_map(|c| self.values(part, c)) else {
                break;
            };
            let values = match values {
                Values::These(values) => values,
                // The number of spans is known only when the statement runs, so one array is the
                // limit.
                Values::Elements(..) if each.is_some() => break,
                Values::Elements(array, ty) => {
                    each = Some((at, ty));
                    vec![array]
                }
            };
            if prefixes.len() * values.len() > SPANS_MAX {
                break;
            }
            let longer = |prefix: &Vec<Expr>| {
                let prefix = prefix.clone();
                values
                    .clone()
                    .into_iter()
                    .map(move |value| prefix.iter().cloned().chain([value]).collect::<Vec<Expr>>())
            };
            self.budget.tick(prefixes.len() * values.len() * (at + 1) * 4)?;
            prefixes = prefixes.iter().flat_map(longer).collect();
            at += 1;
        }
        let mut end = SpanOf::default();
        if let Some(part) = parts.get(at) {
            end.lower = conditions.iter().find_map(|c| self.bound(part, c, true));
            end.upper = conditions.iter().find_map(|c| self.bound(part, c, false));
            if !end.is_bounded() {
                end.starts = conditions.iter().find_map(|c| self.beginning(part, c));
            }
            end.known = !end.is_bounded() && conditions.iter().any(|c| is_not_null(part, c));
        }
        if at == 0 && !end.is_bounded() {
            let arms = self.alternatives(parts, conditions, depth)?;
            if !arms.is_empty() || !end.known {
                return Ok(arms);
            }
        }
        let span = |prefix| SpanOf { prefix, each, ..end.clone() };
        Ok(prefixes.into_iter().map(span).collect())
    }

    /// The spans of a condition that is an "or" of conditions which all have spans.
    fn alternatives(
        &self,
        own: &[Expr],
        conditions: &[&Expr],
        depth: usize,
    ) -> Result<Vec<SpanOf>, SqlError> {
        if depth == 0 {
            return Ok(Vec::new());
        }
        for (at, condition) in conditions.iter().enumerate() {
            let Some(arms) = condition.alternatives() else { continue };
            let mut all = Vec::new();
            for arm in arms {
                let mut parts = Vec::new();
                conjuncts(arm.clone(), &mut parts);
                let others = conditions.iter().enumerate().filter(|(i, _)| *i != at);
                let together: Vec<&Expr> = parts.iter().chain(others.map(|(_, c)| *c)).collect();
                let spans = self.spans(own, &together, depth - 1)?;
                if spans.is_empty() || all.len() + spans.len() > SPANS_MAX {
                    all.clear();
                    break;
                }
                all.extend(spans);
            }
            if !all.is_empty() {
                return Ok(all);
            }
        }
        Ok(Vec::new())
    }

    /// The values in a condition that requires the column to have one of them.
    fn values(&self, part: &Expr, condition: &Expr) -> Option<Values> {
        match condition {
            Expr::Compare(Compare::Eq, both) => {
                let [a, b] = &**both;
                let other = |one, other| (one == part && self.is_known(other)).then_some(other);
                let value = other(a, b).or_else(|| other(b, a));
                value.map(|value| Values::These(vec![value.clone()]))
            }
            Expr::In(value, list, _) if **value == *part => {
                list.iter().all(|one| self.is_known(one)).then(|| Values::These(list.clone()))
            }
            Expr::Inner(inner)
                if inner.asks == Asks::Any(Compare::Eq) && inner.value == [part.clone()] =>
            {
                let known = inner.args.is_empty();
                known.then(|| Values::Elements(condition.clone(), inner.inside.query.output[0].ty))
            }
            Expr::Elements { compare: Compare::Eq, all: false, both, element, .. } => {
                let [value, array] = &**both;
                let known = value == part && self.is_known(array);
                known.then(|| Values::Elements(array.clone(), *element))
            }
            _ => None,
        }
    }

    /// The bound that a condition sets for the column.
    fn bound(&self, part: &Expr, condition: &Expr, lower: bool) -> Option<(Expr, bool)> {
        let Expr::Compare(compare, both) = condition else { return None };
        let [a, b] = &**both;
        let is_day = |one: &Expr| match one {
            Expr::Cast(day, SqlType::Timestamp) => **day == *part && self.is_date(part),
            _ => false,
        };
        let (compare, value, is_day) = match (a, b) {
            (one, value) if one == part || is_day(one) => (*compare, value, one != part),
            (value, one) if one == part || is_day(one) => (compare.flipped(), value, one != part),
            _ => return None,
        };
        let inclusive = match (compare, lower) {
            (Compare::Ge, true) | (Compare::Le, false) => true,
            (Compare::Gt, true) | (Compare::Lt, false) => false,
            _ => return None,
        };
        self.is_known(value).then(|| match is_day {
            // The day of a moment is in the span whether or not the moment is its beginning.
            true => (Expr::Cast(Box::new(value.clone()), SqlType::Date), true),
            false => (value.clone(), inclusive),
        })
    }

    fn is_date(&self, part: &Expr) -> bool {
        let Expr::Column(slot) = part else { return false };
        let column = slot.checked_sub(self.offset).and_then(|at| self.table.columns.get(at));
        column.is_some_and(|column| column.ty == SqlType::Date)
    }

    /// The pattern whose texts a condition says that the column begins as.
    fn beginning(&self, part: &Expr, condition: &Expr) -> Option<(Prefix, Expr)> {
        let (kind, text, pattern) = match condition {
            Expr::Like { both, folds: false } => (Prefix::Like, &both[0], &both[1]),
            Expr::Matches { both, folds: false } => (Prefix::Regex, &both[0], &both[1]),
            Expr::Call(Func::StartsWith, args) => (Prefix::Text, args.first()?, args.get(1)?),
            _ => return None,
        };
        let is_some = match pattern {
            Expr::Const(Datum::Text(pattern)) => !kind.of(pattern).is_empty(),
            // The pattern of a prepared statement most likely begins with a text, but that of a
            // regular expression.
            pattern => kind != Prefix::Regex && self.is_known(pattern),
        };
        (text == part && is_some).then(|| (kind, pattern.clone()))
    }

    fn is_known(&self, value: &Expr) -> bool {
        let mut known = !value.is_volatile();
        value.columns(&mut |slot| known &= (self.known)(slot));
        known
    }
}

/// True if a condition says that the column is not NULL, and nothing else.
fn is_not_null(part: &Expr, condition: &Expr) -> bool {
    let Expr::Not(not) = condition else { return false };
    matches!(&**not, Expr::IsNull(value) if **value == *part)
}
