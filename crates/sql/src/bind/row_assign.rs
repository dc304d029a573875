//! Several columns that are assigned at once: `SET (a, b) = ..`.
//!
//! ```text
//!   set (a, b) = (x, y), row(x, y)       a = x, b = y
//!   set (a, b) = (select x, y from s)    a = (select x from s), b = (select y from s)
//!   set (a, b) = (select x, y            with "SET 0"(c0, c1) as (select x, y from s limit 1)
//!                 from s limit 1)        a = (select c0 from "SET 0"), b = ..
//! ```
//!
//! The second form of a subquery is the general one: the rows are found before the columns are
//! taken apart. The first form leaves the conditions to the optimizer, so that a correlated query
//! becomes a hash join.

use super::inner::looks_out;
use super::{Binder, NamedQuery, Scope};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{Select, Source};
use sqlparser::ast::{self, Query, SelectItem, SetExpr};
use std::rc::Rc;

/// The expressions for the columns of a row that is assigned.
///
/// # Errors
/// 42601 for another number of values; errors of the query.
pub(super) fn row_assigned(
    binder: &mut Binder<'_>,
    count: usize,
    value: &ast::Expr,
    scope: Scope,
) -> Result<(Vec<ast::Expr>, Scope), SqlError> {
    let wrong = || {
        let message = "number of columns does not match number of values";
        SqlError::new(code::SYNTAX, message)
    };
    if let Some(values) = row_values(value) {
        return if values.len() == count { Ok((values, scope)) } else { Err(wrong()) };
    }
    let read;
    let query = match value {
        ast::Expr::Subquery(query) => query,
        // The parser takes it for a function.
        ast::Expr::Nested(one) if is_values(one) => {
            read = crate::parse::parse_expression(&format!("(select * from ({one}) v)"))?;
            match &read {
                ast::Expr::Subquery(query) => query,
                _ => return Err(wrong()),
            }
        }
        // One column may have its value in parentheses.
        ast::Expr::Nested(one) if count == 1 => return Ok((vec![(**one).clone()], scope)),
        _ => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or \
                           ROW() expression";
            return Err(SqlError::unsupported(message));
        }
    };
    let (bound, scope) = binder.within(scope, |binder| binder.query(query))?;
    if bound.output.len() != count {
        return Err(wrong());
    }
    if let Some(columns) = apart(query, &bound) {
        return Ok((columns, scope));
    }
    if bound.is_volatile() && looks_out(&bound) {
        let what = "SET (..) = of a query that is volatile and looks at the row";
        return Err(SqlError::unsupported(what));
    }
    Ok((named_columns(binder, query, count)?, scope))
}

/// Gives a query a name, and returns a query of each of its columns.
fn named_columns(
    binder: &mut Binder<'_>,
    query: &Query,
    count: usize,
) -> Result<Vec<ast::Expr>, SqlError> {
    let name = format!("SET {}", binder.named.len());
    let columns: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
    let with = format!("(with \"{name}\"({}) as (select 1) select 1)", columns.join(", "));
    let with = match crate::parse::parse_expression(&with)? {
        ast::Expr::Subquery(written) => written.with,
        _ => None,
    };
    let Some(mut with) = with.and_then(|with| with.cte_tables.into_iter().next()) else {
        return Err(SqlError::new(code::INTERNAL, "a query has no WITH"));
    };
    with.query = Box::new(query.clone());
    binder.named.push(NamedQuery {
        name: name.clone(),
        query: Rc::new(with),
        // The row that is changed is around it.
        depth: binder.scopes.len() + 1,
        may_recurse: false,
        is_read: true,
        found: None,
        written: None,
        bound: None,
    });
    let column = |column: &String| format!("(select {column} from \"{name}\")");
    columns.iter().map(|one| crate::parse::parse_expression(&column(one))).collect()
}

/// The values of a row: `(x, y)`, `row(x, y)`.
pub(super) fn row_values(value: &ast::Expr) -> Option<Vec<ast::Expr>> {
    match value {
        ast::Expr::Tuple(values) => Some(values.clone()),
        ast::Expr::Function(call) if super::operators::is_named(call, "row") => {
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let one = |arg: &ast::FunctionArg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            list.args.iter().map(one).collect()
        }
        _ => None,
    }
}

/// True for `values(x, y)`.
fn is_values(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Function(call) if super::operators::is_named(call, "values"))
}

/// A query of each column, where the rows do not depend on which columns there are.
fn apart(query: &Query, bound: &Select) -> Option<Vec<ast::Expr>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let is_expr = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    // Without GROUP BY, an aggregate makes one row of all.
    let reads = |expr: &Expr| expr.has(&|part| matches!(part, Expr::Column(_)));
    let is_grouped = match &bound.group {
        Some(group) if group.is_whole() => bound.project.iter().all(reads),
        _ => true,
    };
    let is_set = bound.steps.iter().any(|step| matches!(step.source, Source::Set(_)));
    let is_apart = select.projection.iter().all(is_expr)
        && query.with.is_none()
        && bound.is_plain()
        && bound.windows.is_empty()
        && bound.lock.is_none()
        && is_grouped
        && !is_set
        && !bound.is_volatile();
    let column = |item: &SelectItem| {
        let mut one = query.clone();
        if let SetExpr::Select(select) = &mut *one.body {
            select.projection = vec![item.clone()];
        }
        ast::Expr::Subquery(Box::new(one))
    };
    is_apart.then(|| select.projection.iter().map(column).collect())
}
