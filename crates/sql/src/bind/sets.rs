//! Set-returning functions, in FROM and in the target list of a SELECT.
//!
//! ```text
//!   select k, unnest(a) from t      t, and for each of its rows those of unnest(t.a)
//! ```
//!
//! One in the target list becomes the last source, and its value a slot of the row. PostgreSQL
//! calls it after grouping and windows, so a query that has these as well is refused.

use super::convert::bare;
use super::expr::{Typed, typed};
use super::forms::ambiguous;
use super::json::unknown_function;
use super::json_paths::path_arguments;
use super::{Binder, ScopeColumn};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::common;
use crate::numeric::Decimal;
use crate::plan::{SetCall, SetFunc, SetPart, Source, Step};
use crate::types::{Family, SqlType};

/// True for the name of a set-returning function.
pub(super) fn is_set_function(name: &str) -> bool {
    let stem = name.strip_prefix("jsonb_").or_else(|| name.strip_prefix("json_"));
    matches!(
        name,
        "generate_series"
            | "unnest"
            | "generate_subscripts"
            | "regexp_matches"
            | "regexp_split_to_table"
            | "string_to_table"
            | "jsonb_path_query"
            | "jsonb_path_query_tz"
    ) || stem.is_some_and(|stem| {
        matches!(
            stem,
            "array_elements" | "array_elements_text" | "each" | "each_text" | "object_keys"
        )
    })
}

impl Binder<'_> {
    /// Adds a function to a call.
    pub(super) fn set_function(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        call: &mut SetCall,
    ) -> Result<(), SqlError> {
        let column = |name: &str, ty: SqlType| (name.to_owned(), ty);
        let mut put = |func: SetFunc, args: Vec<Expr>, columns: Vec<(String, SqlType)>| {
            call.parts.push(SetPart { func, args: args.len(), columns: columns.len() });
            call.args.extend(args);
            call.columns.extend(columns);
        };
        match (name, args.as_slice()) {
            ("unnest", [array]) if array.ty == SqlType::Unknown => {
                return Err(ambiguous(name, &[array.ty]));
            }
            ("unnest", [_, ..]) => {
                for array in args {
                    let Some(ty) = array.ty.element() else {
                        return Err(unknown_function(name, &[array]));
                    };
                    put(SetFunc::Unnest, vec![array.expr], vec![column(name, ty)]);
                }
            }
            ("generate_series", [from, to, by])
                if matches!(by.ty, SqlType::Interval | SqlType::Unknown)
                    && (from.ty.family() == Family::Time || to.ty.family() == Family::Time) =>
            {
                let plain = |ty| matches!(ty, SqlType::Timestamp | SqlType::Unknown);
                let is_plain = plain(from.ty) && plain(to.ty);
                let ty = if is_plain { SqlType::Timestamp } else { SqlType::TimestampTz };
                let types = [ty, ty, SqlType::Interval];
                let bounds = args.into_iter().zip(types).map(|(arg, ty)| self.coerce(arg, ty));
                put(SetFunc::Times, bounds.collect::<Result<_, _>>()?, vec![column(name, ty)]);
            }
            ("generate_series", [_, _] | [_, _, _]) => {
                let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
                let numeric = SqlType::Numeric(None);
                if common(&types) == numeric || types.iter().all(|ty| bare(*ty) == numeric) {
                    let bounds = args.into_iter().map(|arg| self.coerce(arg, numeric));
                    let mut bounds: Vec<Expr> = bounds.collect::<Result<_, _>>()?;
                    bounds.resize(3, Expr::Const(Datum::Numeric(Decimal::int(1))));
                    put(SetFunc::Numbers, bounds, vec![column(name, numeric)]);
                    return Ok(());
                }
                let whole = [SqlType::Int2, SqlType::Int4, SqlType::Int8, SqlType::Unknown];
                if !types.iter().all(|ty| whole.contains(ty)) {
                    return Err(unknown_function(name, &args));
                }
                // No function takes small integers, which convert to those of several.
                let mut wide = [SqlType::Int8, SqlType::Int4].into_iter();
                let ty = wide.find(|ty| types.contains(ty));
                let ty = ty.ok_or_else(|| ambiguous(name, &types))?;
                let bounds = args.into_iter().map(|arg| self.coerce(arg, ty));
                let mut bounds: Vec<Expr> = bounds.collect::<Result<_, _>>()?;
                bounds.resize(3, Expr::Const(Datum::Int(1)));
                put(SetFunc::Series, bounds, vec![column(name, ty)]);
            }
            ("generate_subscripts", [array, _] | [array, _, _])
                if array.ty.family() == Family::Array =>
            {
                let mut bound = Vec::with_capacity(3);
                for (at, arg) in args.into_iter().enumerate() {
                    let ty = [arg.ty, SqlType::Int4, SqlType::Bool][at];
                    bound.push(self.coerce(arg, ty)?);
                }
                put(SetFunc::Subscripts, bound, vec![column(name, SqlType::Int4)]);
            }
            ("regexp_matches" | "regexp_split_to_table", [_, _] | [_, _, _])
                if args
                    .iter()
                    .all(|arg| matches!(arg.ty.family(), Family::Text | Family::Unknown)) =>
            {
                let texts = args.into_iter().map(|arg| self.as_text(arg));
                let (func, ty) = match name {
                    "regexp_matches" => (SetFunc::Matches, SqlType::Array(&SqlType::Text)),
                    _ => (SetFunc::Split, SqlType::Text),
                };
                put(func, texts.collect::<Result<_, _>>()?, vec![column(name, ty)]);
            }
            // The elements of the array that `string_to_array` makes.
            ("string_to_table", [_, _] | [_, _, _])
                if args
                    .iter()
                    .all(|arg| matches!(arg.ty.family(), Family::Text | Family::Unknown)) =>
            {
                let array = self.split(&args)?;
                put(SetFunc::Unnest, vec![array.expr], vec![column(name, SqlType::Text)]);
            }
            ("jsonb_path_query" | "jsonb_path_query_tz", _) => {
                let args = path_arguments(self, name, args)?;
                put(SetFunc::JsonPath, args, vec![column(name, SqlType::Jsonb)]);
            }
            (_, [value]) if name.starts_with("json") => {
                let (ty, stem) = match name.strip_prefix("jsonb_") {
                    Some(stem) => (SqlType::Jsonb, stem),
                    None => (SqlType::Json, name.strip_prefix("json_").unwrap_or(name)),
                };
                if value.ty != ty && value.ty != SqlType::Unknown {
                    return Err(unknown_function(name, &args));
                }
                let value = args.into_iter().next().expect("there is one");
                let value = vec![self.coerce(value, ty)?];
                let is_text = stem.ends_with("_text");
                let shown = if is_text { SqlType::Text } else { ty };
                match stem {
                    "array_elements" | "array_elements_text" => {
                        let columns = vec![column("value", shown)];
                        put(SetFunc::JsonElements(is_text), value, columns);
                    }
                    "each" | "each_text" => {
                        let columns = vec![column("key", SqlType::Text), column("value", shown)];
                        put(SetFunc::JsonEach(is_text), value, columns);
                    }
                    _ => put(SetFunc::JsonKeys, value, vec![column(name, SqlType::Text)]),
                }
            }
            _ => return Err(unknown_function(name, &args)),
        }
        Ok(())
    }

    /// A set-returning function in the target list: the slot of its value.
    pub(super) fn listed_set(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let Some(mut call) = self.scope().sets.take() else {
            let message = "set-returning functions are not allowed here";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
                .hint("Call it in FROM, or in the list of a SELECT."));
        };
        let before = call.columns.len();
        let bound = self.set_function(name, args, &mut call);
        let (slot, found) = (self.scope().used.len(), call.columns.split_off(before));
        call.columns.extend(found.iter().cloned());
        self.scope().sets = Some(call);
        bound?;
        let [(column, ty)] = found.as_slice() else {
            return Err(SqlError::unsupported(format!("{name} in the list of a SELECT"))
                .hint("Call it in FROM."));
        };
        let (alias, name, ty) = (String::new(), column.clone(), *ty);
        let column = ScopeColumn { alias, name, ty, slot, origin: (0, 0), shown: false };
        self.scope().columns.push(column);
        self.scope().used.push(true);
        Ok(typed(Expr::Column(slot), ty))
    }
}

/// Binds an expression, some of whose parts may not be evaluated: no set-returning function may be
/// in it.
pub(super) fn without_sets<'a, T>(
    binder: &mut Binder<'a>,
    bind: impl FnOnce(&mut Binder<'a>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let sets = binder.scopes.last_mut().and_then(|scope| scope.sets.take());
    let bound = bind(binder);
    if let Some(scope) = binder.scopes.last_mut() {
        scope.sets = sets;
    }
    bound
}

/// The sources for set-returning functions in a target list. Their slots begin at `offset`.
/// Functions without nested calls run first, in lockstep; functions over their rows are the next
/// source, and so on. Slots in `project` are rewritten to this order.
///
/// ```text
///   generate_series(1, 2), generate_series(1, generate_series(1, 3))
///   source 1    generate_series(1, 2)  generate_series(1, 3)
///   source 2    generate_series(1, the second)
/// ```
pub(super) fn listed(call: SetCall, offset: usize, project: &mut [Expr]) -> Vec<Step> {
    let SetCall { parts, args, columns, .. } = call;
    let (mut args, mut columns) = (args.into_iter(), columns.into_iter());
    // Each has one column, and uses only earlier ones.
    let mut levels: Vec<usize> = Vec::with_capacity(parts.len());
    let mut calls: Vec<SetCall> = Vec::new();
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(parts.len());
    for part in parts {
        let own: Vec<Expr> = args.by_ref().take(part.args).collect();
        let mut level = 0;
        let mut look = |slot: usize| {
            if let Some(below) = slot.checked_sub(offset).and_then(|at| levels.get(at)) {
                level = level.max(below + 1);
            }
        };
        own.iter().for_each(|arg| arg.columns(&mut look));
        levels.push(level);
        calls.resize_with(calls.len().max(level + 1), SetCall::default);
        places.push((level, calls[level].parts.len()));
        calls[level].columns.extend(columns.by_ref().take(part.columns));
        calls[level].args.extend(own);
        calls[level].parts.push(part);
    }
    let mut begins = vec![offset];
    begins.extend(calls.iter().scan(offset, |end, call| {
        *end += call.columns.len();
        Some(*end)
    }));
    let place = |slot: usize| {
        let at = slot.checked_sub(offset).and_then(|at| places.get(at));
        at.map_or(slot, |(level, at)| begins[*level] + at)
    };
    project.iter_mut().for_each(|expr| put_places(expr, &place));
    let calls = calls.into_iter().zip(&begins).map(|(mut call, begin)| {
        call.args.iter_mut().for_each(|arg| put_places(arg, &place));
        let width = call.columns.len();
        Step::of(Source::Set(Box::new(call)), String::new(), *begin, width)
    });
    calls.collect()
}

/// Replaces the slots in an expression.
fn put_places(expr: &mut Expr, place: &dyn Fn(usize) -> usize) {
    match expr {
        Expr::Column(slot) => *slot = place(*slot),
        _ => expr.children_mut(&mut |child| put_places(child, place)),
    }
}
