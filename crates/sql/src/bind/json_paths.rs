//! Calls with paths of SQL/JSON. A path is a text at run time: there are no columns of type
//! `jsonpath`, and a cast to it stands only where a path is expected.
//!
//! ```text
//!   jsonb_path_query(j, '$.a')          a literal, which is checked when the statement is bound
//!   j @? ('$.' || key)::jsonpath        a cast, which is left out
//! ```

use super::Binder;
use super::expr::{Typed, boolean, typed};
use super::json::unknown_function;
use super::operators::no_operator;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::{Func, JsonFunc};
use crate::json::path::read;
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, BinaryOperator};

/// The function with a path that has this name. Times are no items of paths, so the forms for
/// times with time zone are the same functions.
pub(super) fn path_function(name: &str) -> Option<JsonFunc> {
    let name = name.strip_prefix("jsonb_path_")?;
    Some(match name.strip_suffix("_tz").unwrap_or(name) {
        "exists" => JsonFunc::PathExists,
        "match" => JsonFunc::PathMatch,
        "query_array" => JsonFunc::PathQueryArray,
        "query_first" => JsonFunc::PathQueryFirst,
        _ => return None,
    })
}

/// An argument of a function.
pub(super) fn argument_of(
    binder: &mut Binder<'_>,
    name: &str,
    arg: &ast::Expr,
) -> Result<Typed, SqlError> {
    if name.starts_with("jsonb_path_") { path(binder, arg) } else { binder.expr(arg) }
}

/// The names of the arguments of a function, and the defaults of the last ones.
fn argument_names(name: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match name {
        "parse_ident" => (&["str", "strict"], &["true"]),
        "jsonb_set" => (&["jsonb_in", "path", "replacement", "create_if_missing"], &["true"]),
        "jsonb_insert" => (&["jsonb_in", "path", "replacement", "insert_after"], &["false"]),
        "jsonb_set_lax" => (
            &["jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"],
            &["true", "'use_json_null'"],
        ),
        "make_date" => (&["year", "month", "day"], &[]),
        "make_time" => (&["hour", "min", "sec"], &[]),
        "make_timestamp" => (&["year", "month", "mday", "hour", "min", "sec"], &[]),
        "make_interval" => (
            &["years", "months", "weeks", "days", "hours", "mins", "secs"],
            &["0", "0", "0", "0", "0", "0", "0"],
        ),
        path if path.starts_with("jsonb_path_") => {
            (&["target", "path", "vars", "silent"], &["'{}'", "false"])
        }
        _ => return None,
    })
}

/// The arguments of a call with names among them, in order: `silent => true`. `None` for other
/// functions.
pub(super) fn in_order(
    name: &str,
    args: &[&ast::Expr],
    named: &[(String, &ast::Expr)],
) -> Option<Result<Vec<ast::Expr>, SqlError>> {
    let (names, defaults) = argument_names(name).filter(|(names, _)| args.len() <= names.len())?;
    let mut all: Vec<Option<ast::Expr>> = args.iter().map(|arg| Some((*arg).clone())).collect();
    all.resize(names.len(), None);
    for (given, value) in named {
        match names.iter().position(|name| name == given).filter(|at| *at >= args.len()) {
            Some(at) => all[at] = Some((*value).clone()),
            None => return Some(Err(no_argument(name, given))),
        }
    }
    let first = names.len() - defaults.len();
    for (argument, default) in all[first..].iter_mut().zip(defaults) {
        if argument.is_none() {
            match crate::parse::parse_expression(default) {
                Ok(default) => *argument = Some(default),
                Err(error) => return Some(Err(error)),
            }
        }
    }
    let missing = all.iter().position(Option::is_none);
    Some(match missing {
        Some(at) => Err(no_argument(name, names[at])),
        None => Ok(all.into_iter().flatten().collect()),
    })
}

fn no_argument(name: &str, argument: &str) -> SqlError {
    let message = format!("function {name}({argument} => ..) does not exist");
    SqlError::new(code::UNDEFINED_FUNCTION, message)
}

/// The right side of an operator.
pub(super) fn path_side(
    binder: &mut Binder<'_>,
    op: &BinaryOperator,
    side: &ast::Expr,
) -> Result<Typed, SqlError> {
    match op {
        BinaryOperator::AtQuestion | BinaryOperator::AtAt => path(binder, side),
        _ => binder.expr(side),
    }
}

/// A value that may be a path: a text that is cast to `jsonpath` has an unknown type, as a literal
/// has.
fn path(binder: &mut Binder<'_>, value: &ast::Expr) -> Result<Typed, SqlError> {
    let mut inner = value;
    while let ast::Expr::Nested(nested) = inner {
        inner = nested;
    }
    let (text, ty) = match inner {
        ast::Expr::Cast { expr, data_type, .. } => (binder.expr(expr), data_type),
        ast::Expr::TypedString(string) => {
            let text = ast::Expr::Value(string.value.clone());
            (binder.expr(&text), &string.data_type)
        }
        _ => return binder.expr(value),
    };
    let ty = ty.to_string().to_lowercase();
    if !matches!(ty.as_str(), "jsonpath" | "pg_catalog.jsonpath") {
        return binder.expr(value);
    }
    let text = text?;
    match text.ty.family() {
        Family::Unknown => Ok(text),
        Family::Text => Ok(typed(binder.as_text(text)?, SqlType::Unknown)),
        _ => binder.expr(value),
    }
}

/// A path as a text. That of a literal is read once to find its errors.
fn as_path(binder: &mut Binder<'_>, path: Typed) -> Result<Expr, SqlError> {
    if let Expr::Const(Datum::Text(text)) = &path.expr {
        read(text, binder.budget)?;
    }
    binder.coerce(path, SqlType::Text)
}

/// The four arguments of a function with a path.
pub(super) fn path_arguments(
    binder: &mut Binder<'_>,
    name: &str,
    args: Vec<Typed>,
) -> Result<Vec<Expr>, SqlError> {
    const TYPES: [SqlType; 4] = [SqlType::Jsonb, SqlType::Unknown, SqlType::Jsonb, SqlType::Bool];
    let fits = |(arg, ty): (&Typed, SqlType)| arg.ty == ty || arg.ty == SqlType::Unknown;
    if !(2..=4).contains(&args.len()) || !args.iter().zip(TYPES).all(fits) {
        return Err(unknown_function(name, &args));
    }
    let mut bound = Vec::with_capacity(4);
    for (at, arg) in args.into_iter().enumerate() {
        bound.push(match at {
            1 => as_path(binder, arg)?,
            _ => binder.coerce(arg, TYPES[at])?,
        });
    }
    let defaults = [Datum::Json("{}".to_owned()), Datum::Bool(false)];
    bound.extend(defaults.into_iter().skip(bound.len() - 2).map(Expr::Const));
    Ok(bound)
}

/// A function with a path that returns one value.
pub(super) fn path_call(
    binder: &mut Binder<'_>,
    name: &str,
    func: JsonFunc,
    args: Vec<Typed>,
) -> Result<Typed, SqlError> {
    let args = path_arguments(binder, name, args)?;
    let call = Expr::Call(Func::Json(func), args);
    Ok(match func {
        JsonFunc::PathExists | JsonFunc::PathMatch => boolean(call),
        _ => typed(call, SqlType::Jsonb),
    })
}

/// `@?` and `@@`.
pub(super) fn path_operator(
    binder: &mut Binder<'_>,
    op: &BinaryOperator,
    value: Typed,
    path: Typed,
) -> Result<Typed, SqlError> {
    let is_match = *op == BinaryOperator::AtAt;
    let is_text = matches!(value.ty.family(), Family::Text | Family::Unknown);
    if is_match && is_text {
        return Err(SqlError::unsupported("the operator @@: full text search"));
    }
    let is_value = value.ty == SqlType::Jsonb || value.ty == SqlType::Unknown;
    if !is_value || path.ty != SqlType::Unknown {
        return Err(no_operator(&op.to_string(), value.ty, path.ty));
    }
    let func = if is_match { JsonFunc::PathMatch } else { JsonFunc::PathExists };
    let args = vec![binder.coerce(value, SqlType::Jsonb)?, as_path(binder, path)?];
    Ok(boolean(Expr::Call(Func::Json(func), args)))
}
