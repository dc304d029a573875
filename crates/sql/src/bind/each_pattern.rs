//! Patterns of an array or a query: `a LIKE ANY (patterns)`, `a !~ ALL (patterns)`.
//! [`crate::parse`] writes LIKE as its operator there.

use super::Binder;
use super::expr::{Typed, boolean, typed};
use super::json::TEXTS;
use super::operators::no_operator;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::functions::{ArrayFunc, EachPattern, Func};
use crate::plan::Asks;
use crate::types::Family;
use sqlparser::ast::{self, BinaryOperator};

/// The test of an operator on a text and a pattern.
pub(super) fn pattern_operator(op: &BinaryOperator) -> Option<EachPattern> {
    use BinaryOperator as Op;
    let test = |is_regex, folds, negated| EachPattern { is_regex, folds, negated, all: false };
    Some(match op {
        Op::PGLikeMatch => test(false, false, false),
        Op::PGILikeMatch => test(false, true, false),
        Op::PGNotLikeMatch => test(false, false, true),
        Op::PGNotILikeMatch => test(false, true, true),
        Op::PGRegexMatch => test(true, false, false),
        Op::PGRegexIMatch => test(true, true, false),
        Op::PGRegexNotMatch => test(true, false, true),
        Op::PGRegexNotIMatch => test(true, true, true),
        _ => return None,
    })
}

/// Binds a test of a text with each of several patterns.
pub(super) fn each_pattern(
    binder: &mut Binder<'_>,
    left: &ast::Expr,
    right: &ast::Expr,
    each: EachPattern,
) -> Result<Typed, SqlError> {
    let value = binder.expr(left)?;
    let patterns = match right {
        ast::Expr::Nested(inner) => return each_pattern(binder, left, inner, each),
        ast::Expr::Subquery(query) => {
            let (inner, _) = binder.inner(Asks::Array, query)?;
            // A query without rows has no pattern.
            let none = Expr::Const(Datum::text("{}"));
            let found = vec![Expr::Inner(Box::new(inner)), none];
            typed(Expr::Call(Func::Coalesce, found), TEXTS)
        }
        other => {
            let array = binder.expr(other)?;
            let is_texts = array.ty.element().is_some_and(|of| of.family() == Family::Text);
            match is_texts {
                true => array,
                false => typed(binder.coerce(array, TEXTS)?, TEXTS),
            }
        }
    };
    if !matches!(value.ty.family(), Family::Text | Family::Unknown) {
        return Err(no_operator(each.sign(), value.ty, TEXTS));
    }
    let args = vec![patterns.expr, binder.as_shown(value)?];
    Ok(boolean(Expr::Call(Func::Array(ArrayFunc::Fits(each)), args)))
}
