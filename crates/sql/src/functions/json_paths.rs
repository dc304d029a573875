//! Functions and operators with paths of SQL/JSON.

use super::JsonFunc;
use super::json::json_text;
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::json::path::{Item, Walk, read};

/// Calls a function.
///
/// # Errors
/// 42601 if the path is none; 2203A and others, by the path.
pub(super) fn call(func: JsonFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let truth = |truth: Option<bool>| truth.map_or(Datum::Null, Datum::Bool);
    with_walk(args, budget, &mut |walk| {
        Ok(match func {
            JsonFunc::PathExists => truth(walk.is_any()?),
            JsonFunc::PathMatch => truth(walk.truth()?),
            JsonFunc::PathQueryFirst => match walk.all()?.first() {
                Some(item) => Datum::Json(owned(item, budget)?),
                None => Datum::Null,
            },
            _ => {
                let mut out = String::from("[");
                for (at, item) in walk.all()?.iter().enumerate() {
                    budget.charge(2 * item.text().len() + 4)?;
                    out.push_str(if at > 0 { ", " } else { "" });
                    out.push_str(item.text());
                }
                out.push(']');
                Datum::Json(out)
            }
        })
    })
}

/// The items of a path.
///
/// # Errors
/// As for the other functions.
pub(crate) fn items(args: &[Datum], budget: &Budget) -> Result<Vec<String>, SqlError> {
    with_walk(args, budget, &mut |walk| {
        let all = walk.all()?;
        budget.charge(all.len() * size_of::<String>())?;
        all.iter().map(|item| owned(item, budget)).collect()
    })
}

fn owned(item: &Item<'_>, budget: &Budget) -> Result<String, SqlError> {
    budget.charge(item.text().len())?;
    Ok(item.text().to_owned())
}

/// Runs with a walk on the arguments of a function.
fn with_walk<T>(
    args: &[Datum],
    budget: &Budget,
    run: &mut dyn FnMut(&mut Walk<'_, '_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let path = read(args.get(1).map_or("", json_text), budget)?;
    let (value, vars) = (args.first().map_or("", json_text), args.get(2).map(json_text));
    let is_quiet = args.get(3).is_none_or(|quiet| quiet.as_bool() == Some(true));
    run(&mut Walk::new(&path, value, vars, is_quiet, budget)?)
}
