//! Whether conditions ask for no rows but those of a partial index.
//!
//! ```text
//!   index where deleted is null and amount > 10
//!   query where deleted is null and amount = 15 and ..     both parts are implied
//! ```
//!
//! Each part of the predicate must be implied by one condition: by the same condition, by a
//! narrower one, or by each alternative of an OR. `x is not null` follows from every comparison
//! with `x`. Values of parameters are unknown here, because one plan serves all of them.

use crate::budget::Budget;
use crate::catalog::Computed;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, conjuncts};

/// True if rows that fulfil these conditions also fulfil a predicate. The table's slots begin at
/// `offset`.
pub(crate) fn is_implied(
    predicate: &Computed,
    offset: usize,
    conditions: &[&Expr],
    budget: &Budget,
) -> Result<bool, SqlError> {
    let asked: usize = conditions.iter().map(|condition| condition.size()).sum();
    budget.tick(asked.saturating_mul(predicate.value.size()))?;
    let mut parts = Vec::new();
    conjuncts(predicate.value.clone(), &mut parts);
    Ok(parts.iter().all(|part| {
        let part = part.moved(offset);
        conditions.iter().any(|condition| implies(condition, &part))
    }))
}

/// True if the condition implies this part of a predicate.
fn implies(condition: &Expr, part: &Expr) -> bool {
    if condition == part {
        return true;
    }
    match (condition, part) {
        (Expr::And(all), part) => all.iter().any(|one| implies(one, part)),
        (Expr::InRows(any, _), part) => implies(any, part),
        (Expr::Or(arms), part) => arms.iter().all(|arm| implies(arm, part)),
        (condition, Expr::Or(arms)) => arms.iter().any(|arm| implies(condition, arm)),
        (Expr::In(value, some, _), Expr::In(of, list, _)) => {
            value == of && some.iter().all(|one| list.contains(one))
        }
        (Expr::Compare(Compare::Eq, both), Expr::In(of, list, _)) => {
            let [a, b] = &**both;
            (a == &**of && list.contains(b)) || (b == &**of && list.contains(a))
        }
        (Expr::In(value, some, _), Expr::Compare(..)) => some.iter().all(|one| {
            let both = Box::new([Expr::clone(value), one.clone()]);
            is_narrower(&Expr::Compare(Compare::Eq, both), part)
        }),
        (Expr::Compare(..), Expr::Compare(..)) => is_narrower(condition, part),
        (condition, Expr::Not(not)) => match &**not {
            Expr::IsNull(value) => needs(condition, value),
            _ => false,
        },
        _ => false,
    }
}

/// A comparison with a constant, on its right.
fn compared(expr: &Expr) -> Option<(Compare, &Expr, &Datum)> {
    let Expr::Compare(compare, both) = expr else { return None };
    match &**both {
        [value, Expr::Const(with)] if !with.is_null() => Some((*compare, value, with)),
        [Expr::Const(with), value] if !with.is_null() => Some((compare.flipped(), value, with)),
        _ => None,
    }
}

/// True if both compare the same value with constants, and the first implies the second.
fn is_narrower(condition: &Expr, part: &Expr) -> bool {
    use Compare::{Eq, Ge, Gt, Le, Lt, Ne};
    let (Some((narrow, a, with)), Some((wide, b, than))) = (compared(condition), compared(part))
    else {
        return false;
    };
    let order = with.compare(than);
    a == b
        && match (narrow, wide) {
            (Eq, wide) => wide.holds(order),
            (Gt, Gt | Ge | Ne) | (Ge, Ge) => order.is_ge(),
            (Ge, Gt | Ne) => order.is_gt(),
            (Lt, Lt | Le | Ne) | (Le, Le) => order.is_le(),
            (Le, Lt | Ne) => order.is_lt(),
            _ => false,
        }
}

/// True if a condition can be true only if a value is not NULL.
fn needs(condition: &Expr, value: &Expr) -> bool {
    match condition {
        Expr::Compare(_, both) | Expr::Like { both, .. } | Expr::Matches { both, .. } => {
            both.contains(value)
        }
        Expr::Elements { both, all: false, .. } => both[0] == *value,
        Expr::In(of, ..) => **of == *value,
        Expr::IsTruth(of, _) => **of == *value,
        // A comparison that is known to be false had non-NULL arguments, too.
        Expr::Not(not) => match &**not {
            known @ (Expr::Compare(..)
            | Expr::Like { .. }
            | Expr::Matches { .. }
            | Expr::In(..)) => needs(known, value),
            not => not == value,
        },
        condition => condition == value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::Source;
    use crate::statement::{Action, compile};

    /// The condition, bound in a query of one column.
    fn bound(condition: &str) -> Expr {
        let text = format!("select 1 from (values (1, true, 't')) v (a, b, c) where {condition}");
        let parsed = crate::parse::parse(&text).expect("a query").pop().expect("one");
        let (catalog, budget) = (Catalog::default(), Budget::unlimited());
        let compiled = compile(&parsed, &text, &catalog, &[], &budget).expect(&text);
        let Action::Select(select) = compiled.action else { panic!("a query") };
        assert!(matches!(select.steps[0].source, Source::Query(_) | Source::Values(_)));
        let mut all: Vec<Expr> = select.steps[0].on.iter().chain(&select.filter).cloned().collect();
        if all.len() == 1 { all.remove(0) } else { Expr::And(all) }
    }

    #[test]
    fn a_stronger_condition_implies_a_weaker_one() {
        for (condition, part, wanted) in [
            ("a = 5", "a = 5", true),
            ("a = 5", "a = 6", false),
            ("a = 5 and b", "a = 5", true),
            ("a = 5", "a = 5 or c = 'x'", true),
            ("a = 5 or c = 'x'", "a = 5", false),
            ("a = 5 or a = 6", "a = 6 or a = 5", true),
            ("a = 5", "a in (4, 5)", true),
            ("a in (5, 4)", "a in (4, 5, 6)", true),
            ("a in (5, 7)", "a in (4, 5, 6)", false),
            ("a in (5, 7)", "a > 4", true),
            ("a in (5, 7)", "a > 5", false),
            ("a > 5", "a > 4", true),
            ("a > 5", "a >= 5", true),
            ("a >= 5", "a > 5", false),
            ("a >= 5", "a <> 4", true),
            ("a > 5", "a <> 5", true),
            ("a >= 5", "a <> 5", false),
            ("5 > a", "a < 6", true),
            ("a <= 5", "6 > a", true),
            ("a < 5", "a < 4", false),
            ("a < 5", "a > 4", false),
            ("a > $1", "a > 4", false),
            ("a > $1", "a > $1", true),
            ("a > $1", "a is not null", true),
            ("a <> 5", "a is not null", true),
            ("not (a = 5)", "a is not null", true),
            ("a not in (5, 6)", "a is not null", true),
            ("c like 'x%'", "c is not null", true),
            ("a is null", "a is not null", false),
            ("b", "b is not null", true),
            ("not b", "b is not null", true),
            ("b is true", "b is not null", true),
            ("b is not true", "b is not null", false),
            ("coalesce(a, 5) = 5", "a is not null", false),
            ("a = 5 or b", "a is not null", false),
            ("b", "not b", false),
        ] {
            assert_eq!(implies(&bound(condition), &bound(part)), wanted, "{condition} => {part}");
        }
    }
}
