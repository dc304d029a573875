//! Conditions that follow from others, and find rows that these do not find.
//!
//! ```text
//!   a.x = b.x and b.x = 5                          a.x = 5
//!   a.x = b.x and b.x in (5, 6)                    a.x in (5, 6)
//!   (a.x = b.x and b.y = 1) or (a.x = b.x and c)   a.x = b.x
//! ```
//!
//! Values are passed along between columns, which are compared as they are: both sides have one
//! type then, so equal values mean the same. They are added to what is asked, and checked like it.

use crate::budget::Budget;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};

/// Conditions with those that follow from them behind.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn with_consequences(
    mut conditions: Vec<Expr>,
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
