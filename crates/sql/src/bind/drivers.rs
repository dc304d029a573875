//! Patterns that only drivers use in queries on the catalog, rewritten to plain SQL.
//!
//! ```text
//!   SELECT (_pg_expandarray(a)).n, _pg_expandarray(a) AS k      a row for each element of an array
//!   SELECT n, array_element(a, n) AS k FROM .., generate_series(1, array_length(a, 1)) n
//! ```
//!
//! Set-returning functions of records are otherwise not supported, and are refused.

use super::folded;
use sqlparser::ast::{self, AccessExpr, Expr, Function, FunctionArguments, SelectItem};

/// The name of the source that numbers the elements of an array.
const COUNTER: &str = "_pg_element_number";

/// Rewrites a SELECT that expands an array into rows to one that does so in FROM.
pub(super) fn expanded(select: &ast::Select) -> Option<ast::Select> {
    let array = select.projection.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expansion(expr),
        _ => None,
    });
    let (array, _) = array?;
    let mut select = select.clone();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some((array, field)) = expansion(expr)
        {
            let element = format!("array_element({array}, {COUNTER})");
            *expr = read(if field == "n" { COUNTER } else { &element });
        }
    }
    let counter = format!("SELECT 1 FROM generate_series(1, array_length({array}, 1)) {COUNTER}");
    select.from.extend(match *read_query(&counter).body {
        ast::SetExpr::Select(counter) => counter.from,
        _ => Vec::new(),
    });
    Some(select)
}

/// The array that an expression expands, and the requested field of its elements.
fn expansion(expr: &Expr) -> Option<(String, String)> {
    match expr {
        Expr::Function(function) if is_named(function, "_pg_expandarray") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            Some((list.args.first()?.to_string(), "x".to_owned()))
        }
        Expr::Nested(inner) => expansion(inner),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.as_slice() {
            [AccessExpr::Dot(Expr::Identifier(field))] => Some((expansion(root)?.0, folded(field))),
            _ => None,
        },
        _ => None,
    }
}

fn is_named(function: &Function, wanted: &str) -> bool {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|name| folded(name) == wanted)
}

fn read(text: &str) -> Expr {
    crate::parse::parse_expression(text).expect("it was put together here")
}

fn read_query(text: &str) -> ast::Query {
    match crate::parse::parse(text).ok().and_then(|mut all| all.pop()) {
        Some(crate::parse::Parsed::Sql(statement)) => match *statement {
            ast::Statement::Query(query) => *query,
            _ => unreachable!("it is a query"),
        },
        _ => unreachable!("it was put together here"),
    }
}
