//! Conditions that follow from others, and find rows that these do not find.
//!
//! ```text
//!   a.x = b.x and b.x = 5                          a.x = 5
//!   a.x = b.x and b.x in (5, 6)                    a.x in (5, 6)
//!   (a.x = b.x and b.y = 1) or (a.x = b.x and c)   a.x = b.x
//!   (a.x = 1 and b.y = 2) or (a.x = 3 and b.y > 4) a.x = 1 or a.x = 3, b.y = 2 or b.y > 4
//! ```
//!
//! The last form, an OR whose branches all have conditions on one source, lets this source be read
//! first. Its fraction of the rows is then counted for this source, and no longer for the pairs
//! ([`counted_apart`]). It is not derived from more than [`BRANCHES_MAX`] branches.
//!
//! Values are passed along between columns, which are compared as they are: both sides have one
//! type then, so equal values mean the same. They are added to what is asked, and checked like it.

use super::estimate::Estimate;
use crate::budget::Budget;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};
use crate::plan::Step;
use std::ops::Range;

/// The most branches of an OR that conditions on one source are derived from.
const BRANCHES_MAX: usize = 100;

/// Conditions with those that follow from them behind.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn with_consequences(
    mut conditions: Vec<Expr>,
    steps: &[Step],
    budget: &Budget,
) -> Result<Vec<Expr>, SqlError> {
    if conditions.len() < 2 && !conditions.iter().any(|one| one.alternatives().is_some()) {
        return Ok(conditions);
    }
    let mut more: Vec<Expr> = Vec::new();
    for condition in &conditions {
        if let Some(arms) = condition.alternatives() {
            budget.tick(condition.size())?;
            more.extend(in_all(arms));
            if steps.len() > 1 && arms.len() <= BRANCHES_MAX {
                budget.charge(condition.size() * size_of::<Expr>())?;
                let ranges = steps.iter().map(|step| step.offset..step.offset + step.width);
                more.extend(ranges.filter_map(|own| about_one(arms, &own)));
            }
        }
    }
    more.retain(|one| !conditions.contains(one));
    conditions.append(&mut more);
    let pairs: Vec<(usize, usize)> = conditions.iter().filter_map(columns).collect();
    if pairs.is_empty() {
        return Ok(conditions);
    }
    // As often as there are pairs, a value may come a pair further.
    for _ in 0..pairs.len().min(8) {
        let mut more: Vec<Expr> = Vec::new();
        for condition in &conditions {
            let Some(slot) = fixed(condition) else { continue };
            for (a, b) in &pairs {
                let other = match slot {
                    slot if slot == *a => *b,
                    slot if slot == *b => *a,
                    _ => continue,
                };
                let passed = over(condition, other);
                if !conditions.contains(&passed) && !more.contains(&passed) {
                    budget.charge(passed.size() * size_of::<Expr>())?;
                    more.push(passed);
                }
            }
            budget.tick(pairs.len() + more.len() + conditions.len())?;
        }
        if more.is_empty() {
            break;
        }
        conditions.append(&mut more);
    }
    Ok(conditions)
}

/// The conditions that all alternatives share.
fn in_all(arms: &[Expr]) -> Vec<Expr> {
    let parts = |arm: &Expr| {
        let mut parts = Vec::new();
        conjuncts(arm.clone(), &mut parts);
        parts
    };
    let Some((first, others)) = arms.split_first() else { return Vec::new() };
    let others: Vec<Vec<Expr>> = others.iter().map(parts).collect();
    let mut common = parts(first);
    common.retain(|one| !one.is_volatile() && others.iter().all(|parts| parts.contains(one)));
    common
}

/// The condition on one source that follows from an OR on several: of each branch, the conditions
/// on this source that not all branches share.
fn about_one(arms: &[Expr], own: &Range<usize>) -> Option<Expr> {
    let is_about = |one: &Expr| {
        let (mut any, mut all) = (false, !one.is_volatile() && !one.has_query());
        one.columns(&mut |slot| {
            any = true;
            all &= own.contains(&slot);
        });
        any && all
    };
    let (common, mut has_others) = (in_all(arms), false);
    let mut branches = Vec::with_capacity(arms.len());
    for arm in arms {
        let mut parts = Vec::new();
        conjuncts(arm.clone(), &mut parts);
        parts.retain(|one| !common.contains(one));
        let before = parts.len();
        parts.retain(is_about);
        has_others |= parts.len() < before;
        branches.push(match parts.len() {
            0 => return None,
            1 => parts.pop()?,
            _ => Expr::And(parts),
        });
    }
    has_others.then_some(Expr::Or(branches))
}

/// The fraction of rows that fulfil the conditions which follow from this one for single sources.
/// These conditions are counted there.
pub(super) fn counted_apart(condition: &Expr, estimate: &Estimate<'_>) -> f64 {
    let Some(arms) = condition.alternatives().filter(|arms| arms.len() <= BRANCHES_MAX) else {
        return 1.0;
    };
    let apart = estimate.ranges().filter_map(|own| about_one(arms, &own));
    apart.map(|one| estimate.all([&one])).product()
}

/// Two columns that are equal.
fn columns(condition: &Expr) -> Option<(usize, usize)> {
    let Expr::Compare(Compare::Eq, both) = condition else { return None };
    match &**both {
        [Expr::Column(a), Expr::Column(b)] if a != b => Some((*a, *b)),
        _ => None,
    }
}

/// The column that a condition sets equal to values that are the same for all rows.
fn fixed(condition: &Expr) -> Option<usize> {
    let is_value = |expr: &Expr| matches!(expr, Expr::Const(_) | Expr::Param(_) | Expr::Given(_));
    match condition {
        Expr::Compare(Compare::Eq, both) => match &**both {
            [Expr::Column(slot), value] | [value, Expr::Column(slot)] if is_value(value) => {
                Some(*slot)
            }
            _ => None,
        },
        Expr::In(value, list, _) if list.len() <= 100 && list.iter().all(is_value) => {
            match &**value {
                Expr::Column(slot) => Some(*slot),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The same condition on another column.
fn over(condition: &Expr, slot: usize) -> Expr {
    let mut other = condition.clone();
    match &mut other {
        Expr::Compare(_, both) => {
            both.iter_mut()
                .filter(|one| matches!(one, Expr::Column(_)))
                .for_each(|one| *one = Expr::Column(slot));
        }
        Expr::In(value, ..) => **value = Expr::Column(slot),
        _ => {}
    }
    other
}
