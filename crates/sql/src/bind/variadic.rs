//! `f(a, VARIADIC array)`: the elements of an array as arguments.
//!
//! The elements of `ARRAY[..]` are bound one by one. Of other arrays, the number of elements is not
//! known when a statement is bound; functions that have a form for arrays take them.

use super::operators::is_named;
use super::{Binder, Typed};
use crate::error::SqlError;
use crate::parse::VARIADIC;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

/// The array behind VARIADIC, if the last of these arguments has it.
pub(super) fn spread_argument<'e>(args: &[&'e ast::Expr]) -> Option<&'e ast::Expr> {
    let ast::Expr::Function(call) = args.last()? else { return None };
    let [name] = call.name.0.as_slice() else { return None };
    let is_marked =
        name.as_ident().is_some_and(|name| name.value == VARIADIC && name.quote_style.is_some());
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] if is_marked => Some(array),
        _ => None,
    }
}

/// Binds a call whose last argument is the array behind VARIADIC.
pub(super) fn spread(
    binder: &mut Binder<'_>,
    name: &str,
    args: &[&ast::Expr],
    array: &ast::Expr,
) -> Result<Typed, SqlError> {
    let before = &args[..args.len() - 1];
    if let ast::Expr::Array(elements) = array {
        let all: Vec<&ast::Expr> = before.iter().copied().chain(&elements.elem).collect();
        return binder.named_call(name, &all);
    }
    let empty = ast::Expr::value(ast::Value::SingleQuotedString(String::new()));
    match (name, before) {
        ("concat", []) => binder.named_call("array_to_string", &[array, &empty]),
        ("concat_ws", [between]) => binder.named_call("array_to_string", &[array, between]),
        ("jsonb_extract_path" | "json_extract_path", [json]) => {
            path(binder, (name, json), ast::BinaryOperator::HashArrow, array)
        }
        ("jsonb_extract_path_text" | "json_extract_path_text", [json]) => {
            path(binder, (name, json), ast::BinaryOperator::HashLongArrow, array)
        }
        ("json_build_array", []) => binder.named_call("to_json", &[array]),
        ("jsonb_build_array", []) => binder.named_call("to_jsonb", &[array]),
        _ => Err(SqlError::unsupported(format!("VARIADIC of an array in {name}"))
            .hint("VARIADIC ARRAY[..] is supported, and the arguments can be written one by one.")),
    }
}

/// The value at a path, of the JSON type that a function has in its name.
fn path(
    binder: &mut Binder<'_>,
    (name, json): (&str, &ast::Expr),
    op: ast::BinaryOperator,
    array: &ast::Expr,
) -> Result<Typed, SqlError> {
    let data_type = match name.starts_with("jsonb") {
        true => ast::DataType::JSONB,
        false => ast::DataType::JSON,
    };
    let json = ast::Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(ast::Expr::Nested(Box::new(json.clone()))),
        data_type,
        format: None,
    };
    let (left, right) = (Box::new(json), Box::new(array.clone()));
    binder.expr(&ast::Expr::BinaryOp { left, op, right })
}

/// The query of `(values (1))`, which the parser reads as a function.
pub(super) fn values_query(call: &ast::Function) -> Option<Result<ast::Expr, SqlError>> {
    if !is_named(call, "values") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let one = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(one)) => Some(one.clone()),
        _ => None,
    };
    let row = list.args.iter().map(one).collect::<Option<Vec<_>>>()?;
    Some(crate::parse::parse_expression("(select * from (values (1)) v)").map(|mut query| {
        if let ast::Expr::Subquery(query) = &mut query
            && let ast::SetExpr::Select(select) = &mut *query.body
            && let ast::TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
            && let ast::SetExpr::Values(values) = &mut *subquery.body
        {
            values.rows[0].content = row;
        }
        query
    }))
}
