//! Set-returning functions.
//!
//! A single function passes its rows on as it computes them. The rows of several functions in one
//! call are put side by side, so those of all but the first are kept:
//!
//! ```text
//!   unnest('{1,2,3}'), unnest('{a}')       1  a
//!                                          2  NULL
//!                                          3  NULL
//! ```

use super::{Exec, Row};
use crate::array;
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::functions::{json_text, later, moment_later, path_items, regex_groups, regex_split};
use crate::interval::Interval;
use crate::json::{self, Node};
use crate::plan::{SetCall, SetFunc};
use crate::regex::{Flags, Regex};
use crate::types::SqlType;
use std::ops::ControlFlow;

type Take<'t> = &'t mut dyn FnMut(&[Datum]) -> Result<ControlFlow<()>, SqlError>;

impl Exec<'_> {
    /// The rows of a call, for the rows of the steps before.
    pub(super) fn set_rows(
        &self,
        call: &SetCall,
        row: Row<'_>,
        take: super::find::TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut number = 0;
        let mut numbered = |values: &mut Vec<Datum>| {
            if call.numbered {
                number += 1;
                values.push(Datum::Int(number));
            }
            take(values)
        };
        let args = call.args.iter().map(|arg| self.eval(arg, row));
        let args: Vec<Datum> = args.collect::<Result<_, _>>()?;
        let types = |from: usize, count: usize| -> Vec<SqlType> {
            call.columns[from..from + count].iter().map(|(_, ty)| *ty).collect()
        };
        if let [only] = call.parts.as_slice() {
            return self.each_row(only.func, &args, &types(0, only.columns), &mut |values| {
                numbered(&mut values.to_vec())
            });
        }
        let (mut held, mut found) = (self.budget.held(), Vec::new());
        let (mut arg, mut column) = (0, 0);
        for part in &call.parts {
            let mut rows = Vec::new();
            let (args, types) = (&args[arg..arg + part.args], types(column, part.columns));
            let _ = self.each_row(part.func, args, &types, &mut |values| {
                self.tick()?;
                held.add_row(values)?;
                rows.push(values.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
            (arg, column) = (arg + part.args, column + part.columns);
            found.push((rows, part.columns));
        }
        let most = found.iter().map(|(rows, _)| rows.len()).max().unwrap_or(0);
        for at in 0..most {
            let mut together = Vec::with_capacity(column);
            for (rows, columns) in &mut found {
                match rows.get_mut(at) {
                    Some(values) => together.append(values),
                    None => together.resize(together.len() + *columns, Datum::Null),
                }
            }
            if numbered(&mut together)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The times from the first argument to the second, with the third as step.
    fn times(
        &self,
        args: &[Datum],
        ty: SqlType,
        take: Take<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let [Datum::Timestamp(from), Datum::Timestamp(to), Datum::Interval(by)] = args else {
            return Ok(ControlFlow::Continue(()));
        };
        let way = by.order(Interval::default());
        if way.is_eq() {
            return Err(wrong("step size cannot equal zero"));
        }
        let zone = self.around.settings.zone();
        let mut next = *from;
        while if way.is_gt() { next <= *to } else { next >= *to } {
            if take(&[Datum::Timestamp(next)])?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            next = match ty {
                SqlType::TimestampTz => moment_later(next, *by, zone)?,
                _ => later(next, *by)?,
            };
        }
        Ok(ControlFlow::Continue(()))
    }

    fn each_row(
        &self,
        func: SetFunc,
        args: &[Datum],
        types: &[SqlType],
        take: Take<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        if args.iter().any(Datum::is_null) {
            return Ok(ControlFlow::Continue(()));
        }
        let text = || json_text(&args[0]);
        // A part of a JSON value, with the type of its column.
        let part = |value: &str, at: usize| -> Result<Datum, SqlError> {
            self.budget.charge(2 * value.len())?;
            Ok(match types[at] {
                SqlType::Text => json::as_text(value)?.map_or(Datum::Null, Datum::text),
                SqlType::Jsonb => Datum::Json(value.to_owned()),
                _ => Datum::text(value),
            })
        };
        match func {
            SetFunc::Series => series(args, take),
            SetFunc::Numbers => numbers(args, self.budget, take),
            SetFunc::Times => self.times(args, types[0], take),
            SetFunc::Unnest => {
                for value in array::values(text(), types[0]) {
                    if take(&[value?])?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SetFunc::Subscripts => {
                let shape = array::shape(text())?;
                let number = args.get(1).and_then(Datum::as_int).unwrap_or(0);
                let side = usize::try_from(number - 1).ok();
                let Some((first, count)) = side.and_then(|at| shape.dimensions.get(at)) else {
                    return Ok(ControlFlow::Continue(()));
                };
                let (first, count) = (*first, *count as i64);
                let is_back = args.get(2).and_then(Datum::as_bool) == Some(true);
                let (from, to, by) = match is_back {
                    true => (first + count - 1, first, -1),
                    false => (first, first + count - 1, 1),
                };
                series(&[from, to, by].map(Datum::Int), take)
            }
            SetFunc::Matches | SetFunc::Split => {
                let (flags, all) = Flags::read(args.get(2).map_or("", json_text))?;
                let regex = Regex::new(json_text(&args[1]), flags)?;
                let mut flow = ControlFlow::Continue(());
                if func == SetFunc::Matches {
                    regex.each(text(), self.budget, &mut |found| {
                        flow = take(&[regex_groups(text(), &found, self.budget)?])?;
                        Ok(all && flow.is_continue())
                    })?;
                    return Ok(flow);
                }
                if all {
                    let what = "regexp_split_to_table() does not support the \"global\" option";
                    return Err(wrong(what));
                }
                regex_split(&regex, text(), self.budget, &mut |part| {
                    self.budget.charge(part.len())?;
                    flow = take(&[Datum::text(part)])?;
                    Ok(flow.is_continue())
                })?;
                Ok(flow)
            }
            SetFunc::JsonPath => {
                for item in path_items(args, self.budget)? {
                    if take(&[Datum::Json(item)])?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SetFunc::JsonElements(_) => {
                let Node::Array(array) = Node::of(text()) else {
                    let what = if Node::of(text()).is_scalar() { "a scalar" } else { "an object" };
                    return Err(wrong(&format!("cannot extract elements from {what}")));
                };
                for item in json::items(array) {
                    if take(&[part(item, 0)?])?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SetFunc::JsonEach(_) | SetFunc::JsonKeys => {
                let Node::Object(object) = Node::of(text()) else {
                    let what = if Node::of(text()).is_scalar() { "a scalar" } else { "an array" };
                    return Err(wrong(&match func {
                        SetFunc::JsonKeys => format!("cannot call json_object_keys on {what}"),
                        _ => format!("cannot deconstruct {what} as an object"),
                    }));
                };
                for (key, value) in json::members(object) {
                    let key = Datum::text(json::unquoted(key)?);
                    let flow = match func {
                        SetFunc::JsonKeys => take(&[key])?,
                        _ => take(&[key, part(value, 1)?])?,
                    };
                    if flow.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// As [`series`], of numerics.
fn numbers(bounds: &[Datum], budget: &Budget, take: Take<'_>) -> Result<ControlFlow<()>, SqlError> {
    let [from, to, by] = [0, 1, 2].map(|at: usize| bounds[at].to_decimal());
    for (number, what) in [(&from, "start value"), (&to, "stop value"), (&by, "step size")] {
        if !number.is_finite() {
            let kind = if number.is_nan() { "NaN" } else { "infinity" };
            return Err(wrong(&format!("{what} cannot be {kind}")));
        }
    }
    if by.is_zero() {
        return Err(wrong("step size cannot equal zero"));
    }
    let mut next = from;
    while if by.signum() > 0 { next <= to } else { next >= to } {
        budget.charge(next.heap_bytes())?;
        if take(&[Datum::Numeric(next.clone())])?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // If the next number is out of range, the series ends.
        let Ok(after) = next.plus(&by) else { break };
        next = after;
    }
    Ok(ControlFlow::Continue(()))
}

/// The numbers from the first argument to the second, with the third as step.
fn series(bounds: &[Datum], take: Take<'_>) -> Result<ControlFlow<()>, SqlError> {
    let (Some(from), Some(to), Some(by)) =
        (bounds[0].as_int(), bounds[1].as_int(), bounds[2].as_int())
    else {
        return Ok(ControlFlow::Continue(()));
    };
    if by == 0 {
        return Err(wrong("step size cannot equal zero"));
    }
    let mut next = Some(from);
    while let Some(value) = next.filter(|v| if by > 0 { *v <= to } else { *v >= to }) {
        if take(&[Datum::Int(value)])?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        next = value.checked_add(by);
    }
    Ok(ControlFlow::Continue(()))
}
