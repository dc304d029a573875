//! Arithmetic over constants, computed while a statement is compiled.
//!
//! ```text
//!   select case when a > 100 then 1/0 else a end from t      22012, whatever rows t has
//!   select case when false then 1/0 else a end from t        the branch is never taken: no error
//!   select case 1 when 2 then 1/0 else a end from t          the same
//! ```
//!
//! PostgreSQL's planner computes constant expressions, so their errors come before a row is read.
//! Here only the errors matter: the values are computed again when the statement runs. Functions
//! and the queries in FROM are left out.

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::exec::{Evaluate, Immutable};
use crate::expr::Expr;
use crate::functions::Func;
use crate::plan::{Change, Select};
use crate::types::Family;

/// Refuses a query with an error in its constants.
///
/// # Errors
/// That of the computation: 22012, 22003.
pub(crate) fn check_query(query: &Select, budget: &Budget) -> Result<(), SqlError> {
    let by = &Constants { by: Immutable::new(Budget::unlimited()), budget };
    query.steps.iter().try_for_each(|step| check_until(&step.on, &Datum::Bool(false), by))?;
    check_until(&query.filter, &Datum::Bool(false), by)?;
    let group = query.group.iter().flat_map(|group| group.keys.iter().chain(&group.having));
    let mut own = query.project.iter().chain(group).chain(&query.limit).chain(&query.offset);
    own.try_for_each(|expr| check(expr, by).map(drop))?;
    query.other.as_ref().map_or(Ok(()), |other| check_query(&other.query, budget))
}

/// The same of an UPDATE or a DELETE.
///
/// # Errors
/// As [`check_query`].
pub(crate) fn check_change(change: &Change, budget: &Budget) -> Result<(), SqlError> {
    let by = &Constants { by: Immutable::new(Budget::unlimited()), budget };
    let set = change.set.iter().flatten().map(|(_, value)| value);
    let returning = change.returning.iter().flat_map(|returning| &returning.project);
    check_until(&change.step.on, &Datum::Bool(false), by)?;
    set.chain(returning).try_for_each(|expr| check(expr, by).map(drop))
}

/// The evaluation of constants; the budget is that of the statement, whose text may nest deep.
struct Constants<'b> {
    by: Immutable,
    budget: &'b Budget,
}

/// Computes the constant parts of an expression; true if all of it is one.
fn check(expr: &Expr, by: &Constants<'_>) -> Result<bool, SqlError> {
    by.budget.deeper()?;
    let is_constant = match expr {
        Expr::Const(_) => return Ok(true),
        Expr::Arith(_, _, both) => {
            let [a, b] = [check(&both[0], by)?, check(&both[1], by)?];
            a && b
        }
        Expr::Compare(_, both) => {
            let [a, b] = [check(&both[0], by)?, check(&both[1], by)?];
            a && b
        }
        Expr::Not(of) => check(of, by)?,
        Expr::Cast(of, ty) => check(of, by)? && ty.family() == Family::Number,
        Expr::Case(branches, otherwise) => {
            let mut is_decided = true;
            for (condition, value) in branches {
                match known(condition, by)? {
                    Some(Datum::Bool(true)) => return Ok(check(value, by)? && is_decided),
                    Some(_) => {}
                    None => {
                        check(value, by)?;
                        is_decided = false;
                    }
                }
            }
            check(otherwise, by)? && is_decided
        }
        Expr::And(all) => {
            check_until(all, &Datum::Bool(false), by)?;
            false
        }
        Expr::Or(any) => {
            check_until(any, &Datum::Bool(true), by)?;
            false
        }
        Expr::Call(Func::Coalesce, args) => {
            for arg in args {
                if known(arg, by)?.is_some_and(|value| !value.is_null()) {
                    break;
                }
            }
            false
        }
        _ => {
            let mut checked = Ok(());
            expr.children(&mut |child| {
                if checked.is_ok() {
                    checked = check(child, by).map(drop);
                }
            });
            checked?;
            false
        }
    };
    if is_constant {
        by.by.value(expr, &[])?;
    }
    Ok(is_constant)
}

/// The value of an expression, if it is constant.
fn known(expr: &Expr, by: &Constants<'_>) -> Result<Option<Datum>, SqlError> {
    match expr {
        Expr::Const(value) => Ok(Some(value.clone())),
        _ if check(expr, by)? => by.by.value(expr, &[]).map(Some),
        _ => Ok(None),
    }
}

/// Computes the constant parts of conditions, up to a constant that decides all of them.
fn check_until(all: &[Expr], decides: &Datum, by: &Constants<'_>) -> Result<(), SqlError> {
    for expr in all {
        if known(expr, by)?.as_ref() == Some(decides) {
            break;
        }
    }
    Ok(())
}
