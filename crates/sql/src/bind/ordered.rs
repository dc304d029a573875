//! Ordered-set aggregates: `percentile_cont(0.5) within group (order by x)`.
//!
//! ```text
//!   percentile_disc(p) within group (order by x desc)    order: x desc, p
//!   rank(a, b) within group (order by x, y)              order: x, y, a, b
//! ```
//!
//! The direct arguments follow the sort keys in the list by which the aggregate sorts. They are
//! the same for all rows of a group, so they do not change the order.

use super::Binder;
use super::convert::bare;
use super::expr::{Typed, typed};
use super::operators::check_order;
use super::query::sort_key;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{Aggregate, AggregateKind, Ordered, SortKey};
use crate::types::{Family, SqlType};
use sqlparser::ast;

/// The element type of the fractions of a percentile.
static FRACTION: SqlType = SqlType::Float8;

/// The syntax of an ordered-set aggregate.
pub(super) struct OrderedSaid<'s> {
    pub(super) name: &'s str,
    pub(super) args: &'s [&'s ast::Expr],
    pub(super) order: &'s [ast::OrderByExpr],
    pub(super) filter: Option<&'s ast::Expr>,
}

/// True for the name of an aggregate that needs WITHIN GROUP.
pub(super) fn needs_group(name: &str) -> bool {
    matches!(name, "percentile_cont" | "percentile_disc" | "mode")
}

/// True for the name of an aggregate that may have WITHIN GROUP.
pub(super) fn may_have_group(name: &str) -> bool {
    needs_group(name) || rank(name).is_some()
}

fn rank(name: &str) -> Option<Ordered> {
    Some(match name {
        "rank" => Ordered::Rank,
        "dense_rank" => Ordered::DenseRank,
        "percent_rank" => Ordered::PercentRank,
        "cume_dist" => Ordered::CumeDist,
        _ => return None,
    })
}

/// Binds the parts of an ordered-set aggregate.
pub(super) fn ordered_parts(
    binder: &mut Binder<'_>,
    said: &OrderedSaid<'_>,
) -> Result<Aggregate, SqlError> {
    let filter = said.filter.map(|filter| binder.condition(filter)).transpose()?;
    let mut direct = Vec::with_capacity(said.args.len());
    for arg in said.args {
        direct.push(binder.expr(arg)?);
    }
    let mut keys = Vec::with_capacity(said.order.len());
    for (place, by) in said.order.iter().enumerate() {
        let mut value = binder.expr(&by.expr)?;
        if value.ty == SqlType::Unknown && rank(said.name).is_none() {
            value = typed(binder.coerce(value, SqlType::Text)?, SqlType::Text);
        }
        check_order(value.ty)?;
        keys.push((value, sort_key(by, place)?));
    }
    let types: Vec<SqlType> =
        direct.iter().chain(keys.iter().map(|(key, _)| key)).map(|value| value.ty).collect();
    let none = || {
        let types: Vec<String> = types.iter().map(|ty| bare(*ty).to_string()).collect();
        let message = format!("function {}({}) does not exist", said.name, types.join(", "));
        SqlError::new(code::UNDEFINED_FUNCTION, message)
    };
    let (kind, ty) = match (said.name, direct.len(), keys.as_mut_slice()) {
        ("mode", 0, [(key, _)]) => (Ordered::Mode, bare(key.ty)),
        ("percentile_cont" | "percentile_disc", 1, [(key, _)]) => {
            let is_continuous = said.name == "percentile_cont";
            if is_continuous && key.ty != SqlType::Interval {
                if key.ty.family() != Family::Number {
                    return Err(none());
                }
                let value = typed(key.expr.clone(), key.ty);
                *key = typed(binder.coerce(value, FRACTION)?, FRACTION);
            }
            let ty = bare(key.ty);
            let is_list = direct[0].ty.is_array();
            let wanted = if is_list { SqlType::Array(&FRACTION) } else { FRACTION };
            let is_known = matches!(direct[0].ty.family(), Family::Number | Family::Unknown);
            if !is_list && !is_known {
                return Err(none());
            }
            let fraction = direct.remove(0);
            let fraction = match is_list && fraction.ty != wanted {
                true => binder.cast_to(fraction, wanted)?.expr,
                false => binder.coerce(fraction, wanted)?,
            };
            direct.push(typed(fraction, wanted));
            let of_list = || ty.array().ok_or_else(none);
            let result = if is_list { of_list()? } else { ty };
            let kind = Ordered::Percentile { is_continuous, is_list, value: ty };
            (kind, result)
        }
        (name, count, keys) => {
            let kind = rank(name).filter(|_| count == keys.len() && count > 0).ok_or_else(none)?;
            for ((key, _), direct) in keys.iter_mut().zip(&mut direct) {
                let (value, argument) = binder.unify(key.clone(), direct.clone(), "=")?;
                (key.expr, direct.expr) = (value, argument);
            }
            let is_count = matches!(kind, Ordered::Rank | Ordered::DenseRank);
            (kind, if is_count { SqlType::Int8 } else { SqlType::Float8 })
        }
    };
    let is_direct = |(at, value): (usize, Typed)| {
        let place = keys.len() + at;
        (value.expr, SortKey { place, descending: false, nulls_first: false })
    };
    let direct: Vec<(Expr, SortKey)> = direct.into_iter().enumerate().map(is_direct).collect();
    let order = keys.into_iter().map(|(key, by)| (key.expr, by)).chain(direct).collect();
    let kind = AggregateKind::Ordered(kind);
    Ok(Aggregate { kind, of: None, distinct: false, filter, order, ty })
}
