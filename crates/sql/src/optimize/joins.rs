//! The order in which sources run, and the steps at which conditions are checked.
//!
//! If all joins are inner ones, the next source is always the one with the best access path for the
//! values that are already known. A condition is checked as soon as all its columns are known. But
//! it is not checked inside of an outer join that it does not belong to, where it would affect
//! which rows match instead of which are returned. Nor is it checked before a right join, which
//! adds rows of its own later:
//!
//! ```text
//!   a right join b on a.x = b.x where a.y is null     the rows of b that match nothing have a.y = NULL:
//!                                                     `a.y is null` is looked at after the join
//! ```

use super::push::push;
use super::spans::{choose, narrowness};
use crate::budget::Budget;
use crate::error::SqlError;
use crate::expr::{Compare, Expr};
use crate::plan::{Access, Select, Source, Step};

/// Puts sources in their execution order, and conditions at the first step where they can be
/// checked.
pub(crate) fn arrange(
    steps: Vec<Step>,
    mut conditions: Vec<Expr>,
    plan: &mut Select,
    budget: &Budget,
) -> Result<(), SqlError> {
    let has_outer = steps.iter().any(|step| step.left || step.right);
    // Rows that a step adds at the end have not passed the conditions before it.
    let mut added_later = steps.iter().filter(|step| step.right).count();
    let mut known = vec![false; plan.width];
    let mut rest: Vec<Step> = steps;
    if !has_outer {
        rest.iter_mut().try_for_each(|step| push(step, &conditions, budget))?;
    }
    while !rest.is_empty() {
        let rank = |step: &Step| -> Result<usize, SqlError> {
            let mark = budget.mark();
            let access = access_of(step, &conditions, &known, budget)?;
            budget.back_to(mark);
            Ok(narrowness(&access))
        };
        let at = if has_outer {
            0
        } else {
            // The first of the sources with the best access path, among those that depend on no
            // later one.
            let mut best: Option<(usize, usize)> = None;
            for (at, step) in rest.iter().enumerate() {
                if step.source.is_ready(&|slot| known[slot]) {
                    let rank = rank(step)?;
                    if best.is_none_or(|(most, _)| rank > most) {
                        best = Some((rank, at));
                    }
                }
            }
            best.map_or(0, |(_, at)| at)
        };
        let mut step = rest.remove(at);
        added_later -= usize::from(step.right);
        let decides = !step.left && !step.right && added_later == 0;
        let mut narrowing = step.on.clone();
        narrowing.extend(conditions.iter().filter(|_| decides).cloned());
        budget.tick(known.len() / 8 + 16 * narrowing.len())?;
        step.hash = equal_pairs(&step, &narrowing, &known);
        if !step.right {
            step.access = access_of(&step, &narrowing, &known, budget)?;
        }
        known[step.offset..step.offset + step.width].fill(true);
        if decides {
            let ready = |condition: &Expr| {
                let mut ready = true;
                condition.columns(&mut |slot| ready &= known[slot]);
                ready
            };
            let all = std::mem::take(&mut conditions);
            let (now, later): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(ready);
            step.on.extend(now);
            conditions = later;
        }
        plan.steps.push(step);
    }
    plan.filter = conditions;
    Ok(())
}

fn access_of(
    step: &Step,
    conditions: &[Expr],
    known: &[bool],
    budget: &Budget,
) -> Result<Access, SqlError> {
    match &step.source {
        Source::Table(table) => choose(table, step.offset, conditions, &|slot| known[slot], budget),
        _ => Ok(Access::default()),
    }
}

/// Pairs of expressions that must be equal: one over known slots, one over this source.
fn equal_pairs(step: &Step, conditions: &[Expr], known: &[bool]) -> Vec<(Expr, Expr)> {
    let own = step.offset..step.offset + step.width;
    let only = |expr: &Expr, inside: &dyn Fn(usize) -> bool| {
        let (mut holds, mut any) = (!expr.is_volatile(), false);
        expr.columns(&mut |slot| {
            holds &= inside(slot);
            any = true;
        });
        holds && any
    };
    let mut pairs = Vec::new();
    for condition in conditions {
        let Expr::Compare(Compare::Eq, both) = condition else { continue };
        let [a, b] = &**both;
        for (before, mine) in [(a, b), (b, a)] {
            if only(before, &|slot| known[slot]) && only(mine, &|slot| own.contains(&slot)) {
                pairs.push((before.clone(), mine.clone()));
                break;
            }
        }
    }
    pairs
}
