//! Which key or index finds the rows that conditions mean.
//!
//! For the columns of the key, and of each index, the conditions are looked through for values: as long
//! as a column is set equal to something known, its values lengthen the spans; the first column that is
//! only bounded closes them. The key or index that uses most wins; the primary key wins ties, as it
//! saves a look-up. A partial index is one of them if the conditions [imply](super::computed) its predicate, which
//! counts like values of columns before its own: so all of its rows may be the way to those that are asked for.
//!
//! ```text
//!   key (w_id, d_id, o_id)     w_id = 1 and d_id in (2, 3) and o_id > 7
//!                              [1, 2, (7, ..)]  [1, 3, (7, ..)]
//! ```
//!
//! `= ANY` of an array, which is one parameter of any number of values, and `IN` of a query that knows nothing of
//! the rows around, are lists that are known when the statement runs.
//!
//! Conditions stay in place and are looked at again for each row found: spans may be larger than what
//! the conditions mean, never smaller.

use super::computed::is_implied;
use crate::budget::Budget;
use crate::catalog::{Computed, Table};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};
use crate::plan::{Access, SpanOf};
use crate::types::SqlType;
use std::sync::Arc;

/// More spans than this are not worth it: the lists of several columns multiply.
const SPANS_MAX: usize = 10_000;
/// Of an "or" inside of an "or" so many are looked into, as each is tried with all others.
const ARMS_DEPTH: usize = 2;

/// The best way to the rows of `table`, whose places begin at `offset`. `known` says which places have
/// values already.
pub(crate) fn choose(
    table: &Arc<Table>,
    offset: usize,
    conditions: &[Expr],
    known: &dyn Fn(usize) -> bool,
    budget: &Budget,
) -> Result<Access, SqlError> {
    let finder = Finder { known, budget };
    let conditions: Vec<&Expr> = conditions.iter().collect();
    let slots = table.key_slots().into_iter().map(|at| Expr::Column(offset + at));
    let slots = slots.collect::<Vec<Expr>>();
    let key = finder.spans(&slots, &conditions, ARMS_DEPTH)?;
    let is_whole = |span: &SpanOf| span.prefix.len() == slots.len();
    // Nothing is better than the whole key.
    let needs_none = !key.is_empty() && key.iter().all(is_whole);
    let indexes = table.primary.iter().chain(table.readable_indexes());
    let mut best = (score(&key) * 3 + 2, Access { spans: key, ..Access::default() });
    for index in indexes.filter(|_| !needs_none) {
        let mut narrow = 0;
        if let Some(predicate) = &index.predicate {
            if !is_implied(predicate, offset, &conditions, budget)? {
                continue;
            }
            narrow = narrowing(predicate);
        }
        if index.parts.iter().any(|part| !part.ty(table).has_order()) {
            continue;
        }
        // A bound or a value of a part; the key's columns follow those of the index.
        let own = index.parts.iter().map(|part| part.expr(offset));
        let parts: Vec<Expr> = own.chain(slots.iter().cloned()).collect();
        let spans = finder.spans(&parts, &conditions, ARMS_DEPTH)?;
        let rank = (score(&spans) + narrow) * 3 + usize::from(index.predicate.is_some());
        if rank > best.0 {
            best = (rank, Access { index: Some(index.clone()), spans, ..Access::default() });
        }
    }
    let bytes = |span: &SpanOf| size_of::<SpanOf>() + span.prefix.len() * size_of::<Expr>();
    budget.charge(best.1.spans.iter().map(bytes).sum())?;
    Ok(best.1)
}

/// How much a predicate narrows down, as if its index began with what it compares.
fn narrowing(predicate: &Computed) -> usize {
    let mut parts = Vec::new();
    conjuncts(predicate.value.clone(), &mut parts);
    let narrow = |part: &Expr| match part {
        // One of two truths may be that of nearly all rows.
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

/// How much spans narrow down: two for a value, one for a bound.
fn score(spans: &[SpanOf]) -> usize {
    let narrow = |span: &SpanOf| {
        2 * span.prefix.len() + usize::from(span.lower.is_some() || span.upper.is_some())
    };
    spans.iter().map(narrow).min().unwrap_or(0)
}

/// What a column may be equal to.
enum Values {
    These(Vec<Expr>),
    /// The elements of an array, of this type.
    Elements(Expr, SqlType),
}

struct Finder<'k> {
    known: &'k dyn Fn(usize) -> bool,
    budget: &'k Budget,
}

impl Finder<'_> {
    /// The spans of the columns at these places; none if the conditions say nothing about the first.
    /// Conditions inside of so many others are looked into.
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
                // How many spans there are is known when the statement runs: one array is enough.
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
        let (mut lower, mut upper) = (None, None);
        if let Some(part) = parts.get(at) {
            lower = conditions.iter().find_map(|c| self.bound(part, c, true));
            upper = conditions.iter().find_map(|c| self.bound(part, c, false));
        }
        if at == 0 && lower.is_none() && upper.is_none() {
            return self.alternatives(parts, conditions, depth);
        }
        let span = |prefix| SpanOf { prefix, each, lower: lower.clone(), upper: upper.clone() };
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
            let Expr::Or(arms) = condition else { continue };
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

    /// The values of which a condition says that the column has one.
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
            Expr::Inner(inner) if inner.value.as_ref() == Some(part) => {
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
        let (compare, value) = match (a, b) {
            (one, value) if one == part => (*compare, value),
            (value, one) if one == part => (compare.flipped(), value),
            _ => return None,
        };
        let inclusive = match (compare, lower) {
            (Compare::Ge, true) | (Compare::Le, false) => true,
            (Compare::Gt, true) | (Compare::Lt, false) => false,
            _ => return None,
        };
        self.is_known(value).then(|| (value.clone(), inclusive))
    }

    fn is_known(&self, value: &Expr) -> bool {
        let mut known = !value.is_volatile();
        value.columns(&mut |slot| known &= (self.known)(slot));
        known
    }
}
