//! Semi and anti joins by their cost: how many rows pass, and how far the search for a match goes.
//!
//! ```text
//!   from small s where exists (select 1 from wide w where w.g = s.id and w.c = 7 and w.a <> s.a)
//!
//!   own        956 rows of wide with c = 7
//!   values     of 1,000 values of g, about 617 are in 956 of 100,000 rows
//!   keys       617 / 1,000 rows of small find their value
//!   passes     617 / 1,000 · the fraction for which one of 956 / 617 rows meets `w.a <> s.a`
//! ```
//!
//! A semi join whose conditions are equalities can also begin with the subquery, as an inner join
//! of its different values. [`made_unique`] makes it one: the source itself if its values are
//! unique, otherwise a query with DISTINCT.

use super::Planning;
use super::cost;
use super::estimate::{EQUAL, Estimate};
use super::joins::arrange;
use super::pull::unnamed;
use crate::error::SqlError;
use crate::expr::{Compare, Expr};
use crate::plan::{Only, Select, Source, Step};
use std::ops::Range;
use std::sync::Arc;

/// The estimates of a source in which rows before look for a match.
pub(super) struct Matching {
    /// Its rows that fit by themselves.
    pub(super) own: f64,
    /// How many different values the equalities find in them.
    pub(super) distinct: f64,
    /// The fraction of rows before that have a match.
    pub(super) matched: f64,
    /// The fraction of its rows that are read until the first match.
    pub(super) seen: f64,
    /// The rows that a hash finds for a row before, until the first match.
    pub(super) tried: f64,
    /// True if equalities join it.
    pub(super) is_equal: bool,
}

impl Matching {
    /// Of a source with `own` fitting rows, by the conditions that join it.
    pub(super) fn of(
        step: &Step,
        own: f64,
        conditions: &[Expr],
        estimate: &Estimate<'_>,
    ) -> Matching {
        let range = step.offset..step.offset + step.width;
        let joining: Vec<&Expr> =
            conditions.iter().filter(|one| looks(one, &range) == Looks::Both).collect();
        let mut keys: Vec<&Expr> = Vec::new();
        for condition in &joining {
            if let Some(key) = key_of(condition, &range)
                && !keys.contains(&key)
            {
                keys.push(key);
            }
        }
        let is_key = |one: &&&Expr| key_of(one, &range).is_some();
        let equal = estimate.all(joining.iter().filter(is_key).copied());
        let others = estimate.all(joining.iter().filter(|one| !is_key(one)).copied());
        let all = estimate.rows(step.offset).max(1.0);
        let each = |key: &&Expr| estimate.distinct(key).unwrap_or(1.0 / EQUAL);
        let values = keys.iter().map(each).product::<f64>().clamp(1.0, all);
        // Each value is in its share of all rows, and absent if none of these fits.
        let absent = (1.0 - (own / all).min(1.0)).powf(all / values);
        let distinct = (values * (1.0 - absent)).max(1.0).min(own.max(1.0));
        let each_value = (own / distinct).max(1.0);
        let finds_value = (distinct * equal).min(1.0);
        let meets = 1.0 - (1.0 - others.min(1.0)).powf(each_value);
        let expected = own * equal * others;
        let seen = 1.0 / (1.0 + expected);
        Matching {
            own,
            distinct,
            matched: finds_value * meets,
            seen,
            tried: finds_value * (each_value * seen).max(1.0),
            is_equal: !keys.is_empty(),
        }
    }

    /// The fraction of rows before that pass.
    pub(super) fn passes(&self, only: Only) -> f64 {
        match only {
            Only::Matched => self.matched.max(1e-9),
            // As the estimate is uncertain, some rows always pass.
            Only::Unmatched => (1.0 - self.matched).max(0.005),
        }
    }
}

/// The sources that a condition looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    Own,
    Both,
    Others,
}

/// Whether a condition looks at slots of a source, at others, or at both.
pub(super) fn looks(condition: &Expr, own: &Range<usize>) -> Looks {
    let (mut mine, mut others) = (false, false);
    condition.columns(&mut |slot| match own.contains(&slot) {
        true => mine = true,
        false => others = true,
    });
    match (mine, others) {
        (true, true) => Looks::Both,
        (true, false) => Looks::Own,
        (false, _) => Looks::Others,
    }
}

/// The own side of an equality with a value of other sources.
fn key_of<'e>(condition: &'e Expr, own: &Range<usize>) -> Option<&'e Expr> {
    let Expr::Compare(Compare::Eq, both) = condition else { return None };
    let is = |expr: &Expr, what: Looks| looks(expr, own) == what && !expr.is_volatile();
    match &**both {
        [mine, other] | [other, mine]
            if is(mine, Looks::Own) && is(other, Looks::Others) && !mine.has_query() =>
        {
            Some(mine)
        }
        _ => None,
    }
}

/// How a semi join can become an inner join.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unique {
    /// Its rows have different values.
    AsItIs,
    /// By a query with DISTINCT of the values of its equalities.
    Made,
    No,
}

impl Unique {
    pub(super) fn of(step: &Step, conditions: &[Expr]) -> Unique {
        let own = step.offset..step.offset + step.width;
        let joining = conditions.iter().filter(|one| looks(one, &own) == Looks::Both);
        let keys: Vec<Option<&Expr>> = joining.map(|one| key_of(one, &own)).collect();
        let is_key = |slot: usize| keys.contains(&Some(&Expr::Column(step.offset + slot)));
        match is_unique(&step.source, &is_key) {
            true => Unique::AsItIs,
            false if !keys.is_empty() && keys.iter().all(Option::is_some) => Unique::Made,
            false => Unique::No,
        }
    }
}

/// True if no two rows of a source are equal in the columns for which `is_key` is true.
fn is_unique(source: &Source, is_key: &dyn Fn(usize) -> bool) -> bool {
    match source {
        Source::Table(table) => {
            let by_index = |columns: &[usize]| {
                !columns.is_empty() && columns.iter().all(|column| is_key(*column))
            };
            by_index(&table.key)
                || table.readable_indexes().any(|index| {
                    index.unique && index.predicate.is_none() && by_index(&index.columns)
                })
        }
        Source::Query(query) => {
            let is_shown = |at: usize| {
                query
                    .project
                    .iter()
                    .enumerate()
                    .any(|(place, shown)| is_key(place) && *shown == Expr::Column(at))
            };
            let is_simple = query.other.is_none() && query.windows.is_empty();
            let groups = query.group.as_ref().filter(|group| is_simple && group.sets.is_empty());
            let by_group = groups.is_some_and(|group| (0..group.keys.len()).all(is_shown));
            by_group || (query.distinct && (0..query.output.len()).all(is_key))
        }
        _ => false,
    }
}

/// The cost of finding the different values of a source.
pub(super) fn cost_of_unique(matching: &Matching) -> f64 {
    cost::hash(matching.own, 0.0, 0.0)
}

/// A semi join as an inner join of different values. In the conditions that join it, its columns
/// stand for the values.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn made_unique(
    step: Step,
    conditions: &mut Vec<Expr>,
    known: &mut Vec<bool>,
    estimate: &mut Estimate<'_>,
    planning: &Planning<'_>,
) -> Result<Step, SqlError> {
    if Unique::of(&step, conditions) != Unique::Made {
        return Ok(Step { only: None, ..step });
    }
    let own = step.offset..step.offset + step.width;
    let is_mine = |one: &Expr| looks(one, &own) == Looks::Own;
    let all = std::mem::take(conditions);
    let (mut mine, mut others): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(is_mine);
    let rows = estimate.rows(step.offset) * estimate.all(&mine);
    let matching = Matching::of(&step, rows, &others, estimate);
    let offset = known.len();
    let mut keys: Vec<Expr> = Vec::new();
    for condition in &mut others {
        let Some(key) = key_of(condition, &own).cloned() else { continue };
        let place = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key.clone());
            keys.len() - 1
        });
        condition.children_mut(&mut |side| {
            if *side == key {
                *side = Expr::Column(offset + place);
            }
        });
    }
    *conditions = others;
    known.resize(offset + keys.len(), false);
    estimate.add(offset, keys.len(), matching.distinct);
    planning.budget.charge(size_of::<Select>() + keys.len() * size_of::<Expr>())?;
    mine.iter_mut().chain(&mut keys).for_each(|expr| move_back(expr, own.start));
    let (width, alias) = (keys.len(), step.alias.clone());
    let mut inside = Select {
        width: step.width,
        project: keys,
        output: vec![unnamed(); width],
        distinct: true,
        ..Select::default()
    };
    arrange(vec![Step { offset: 0, only: None, ..step }], mine, &mut inside, planning)?;
    let mut step = Step::of(Source::Query(Arc::new(inside)), alias, offset, width);
    step.used = vec![true; width];
    Ok(step)
}

fn move_back(expr: &mut Expr, by: usize) {
    match expr {
        Expr::Column(slot) => *slot -= by,
        other => other.children_mut(&mut |child| move_back(child, by)),
    }
}
