//! Comparisons of a row with the row of a query.
//!
//! ```text
//!   (a, b) < (query)     (select (a, b) < ("?0", "?1") from (query) "?"("?0", "?1"))
//! ```
//!
//! The names of the columns are such that no expression of a client mentions them.

use super::Binder;
use super::expr::Typed;
use super::row_assign::row_values;
use crate::error::{SqlError, code};
use sqlparser::ast::{self, BinaryOperator, Query, SelectItem, SetExpr, TableFactor};

/// Binds `(a, b) < (query)`, for a query of at most one row.
pub(super) fn row_with_query(
    binder: &mut Binder<'_>,
    left: &ast::Expr,
    op: &BinaryOperator,
    query: &Query,
) -> Result<Typed, SqlError> {
    let count = row_values(left).map_or(1, |values| values.len());
    let columns = binder.query(query)?.output.len();
    if columns != count {
        let amount = if columns > count { "many" } else { "few" };
        let message = format!("subquery has too {amount} columns");
        return Err(SqlError::new(code::SYNTAX, message));
    }
    let names: Vec<String> = (0..count).map(|at| format!("\"?{at}\"")).collect();
    let names = names.join(", ");
    let right = crate::parse::parse_expression(&format!("({names})"))?;
    let select = format!("(select 1 from (select 1) \"?\"({names}))");
    let ast::Expr::Subquery(mut source) = crate::parse::parse_expression(&select)? else {
        return Err(SqlError::new(code::INTERNAL, "no query was written"));
    };
    let (left, right) = (Box::new(left.clone()), Box::new(right));
    let compared = ast::Expr::BinaryOp { left, op: op.clone(), right };
    if let SetExpr::Select(select) = &mut *source.body
        && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
    {
        **subquery = query.clone();
        select.projection = vec![SelectItem::UnnamedExpr(compared)];
    }
    binder.expr(&ast::Expr::Subquery(source))
}
