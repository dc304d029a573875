//! Window functions.
//!
//! A call is bound over the rows of its query, like an aggregate. It stands for a slot after the
//! row's own ([`crate::plan::Window`] has the picture). Named windows are copied to their uses
//! before anything is bound.
//!
//! EXCLUDE is a part of a window's name ([`crate::parse::parted_window`]).

use super::call::{Said, is_aggregate};
use super::expr::typed;
use super::json::as_type;
use super::operators::check_order;
use super::query::sort_key;
use super::{Binder, Typed, folded};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::parse::{marked_window, parted_window};
use crate::plan::{Bound, Exclusion, Frame, FrameUnits, SortKey, Window, WindowCall, WindowFunc};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, NamedWindowExpr, WindowFrameBound, WindowFrameUnits, WindowSpec};
use std::rc::Rc;

/// The windows of a query.
#[derive(Clone, Default)]
pub(super) struct Windows {
    /// The named windows, as written.
    named: Rc<Vec<(String, WindowSpec)>>,
    /// The windows in use.
    pub(super) found: Vec<Window>,
    /// The number of their values.
    pub(super) values: usize,
    /// True inside of a call.
    in_call: bool,
}

impl Binder<'_> {
    /// The named windows of a query.
    pub(super) fn named_windows(&self, select: &ast::Select) -> Result<Windows, SqlError> {
        let mut named: Vec<(String, WindowSpec)> = Vec::new();
        for window in &select.named_window {
            let name = folded(&window.0);
            self.budget.tick(named.len())?;
            if named.iter().any(|(known, _)| *known == name) {
                return Err(wrong(format!("window \"{name}\" is already defined")));
            }
            let NamedWindowExpr::WindowSpec(spec) = &window.1 else {
                let message = format!("window \"{name}\" is written without parentheses");
                return Err(SqlError::new(code::SYNTAX, message));
            };
            self.budget.charge(64 * spec.to_string().len())?;
            named.push((name, copied(spec, &named)?));
        }
        Ok(Windows { named: Rc::new(named), ..Windows::default() })
    }

    /// Checks the named windows that are not used.
    pub(super) fn check_windows(&mut self) -> Result<(), SqlError> {
        let named = self.scope().windows.as_ref().map(|windows| windows.named.clone());
        for (_, spec) in named.iter().flat_map(|named| named.iter()) {
            self.windowed(|binder| {
                let (_, order, types) = binder.window(spec)?;
                binder.frame(spec, &order, &types).map(drop)
            })?;
        }
        Ok(())
    }

    /// Binds inside of a call.
    fn windowed<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let in_aggregate = self.scope().in_aggregate;
        let Some(windows) = self.scope().windows.as_mut().filter(|_| !in_aggregate) else {
            let message = match in_aggregate {
                true => "aggregate function calls cannot contain window function calls",
                false => "window functions are not allowed here",
            };
            let code = if in_aggregate { code::GROUPING } else { code::WINDOWING };
            return Err(SqlError::new(code, message));
        };
        if std::mem::replace(&mut windows.in_call, true) {
            return Err(wrong("window function calls cannot be nested"));
        }
        let bound = bind(self);
        if let Some(windows) = &mut self.scope().windows {
            windows.in_call = false;
        }
        bound
    }

    /// Binds a call.
    pub(super) fn over(
        &mut self,
        name: &str,
        said: &Said<'_>,
        over: &ast::WindowType,
    ) -> Result<Typed, SqlError> {
        let (window, call, ty) = self.windowed(|binder| {
            let windows = binder.scope().windows.as_ref().expect("just looked");
            let spec = match over {
                ast::WindowType::NamedWindow(name) => named(&folded(name), &windows.named)?.clone(),
                ast::WindowType::WindowSpec(spec) => copied(spec, &windows.named)?,
            };
            let (func, args, ty) = binder.window_func(name, said)?;
            let (partition, order, types) = binder.window(&spec)?;
            let frame = binder.frame(&spec, &order, &types)?;
            let window = Window { partition, order, calls: Vec::new() };
            Ok((window, WindowCall { func, args, frame }, ty))
        })?;
        self.budget.charge(size_of::<Window>() + size_of::<WindowCall>())?;
        let windows = self.scope().windows.as_mut().expect("just looked");
        let same = |other: &&mut Window| {
            other.partition == window.partition && other.order == window.order
        };
        let window = match windows.found.iter_mut().find(same) {
            Some(known) => known,
            None => {
                windows.found.push(window);
                windows.found.last_mut().expect("just put there")
            }
        };
        // Two equal calls are one, unless they are volatile.
        let mut draws = false;
        call.exprs(&mut |expr| draws |= expr.is_volatile());
        let same = |(_, other): &&(usize, WindowCall)| !draws && *other == call;
        let known = window.calls.iter().find(same).map(|(at, _)| *at);
        let at = known.unwrap_or_else(|| {
            window.calls.push((windows.values, call));
            windows.values += 1;
            windows.values - 1
        });
        let ty = if name.starts_with("jsonb_") { SqlType::Jsonb } else { ty };
        Ok(as_type(Expr::Window(at), ty))
    }

    /// A function, its arguments, and the type of its value.
    fn window_func(
        &mut self,
        name: &str,
        said: &Said<'_>,
    ) -> Result<(WindowFunc, Vec<Expr>, SqlType), SqlError> {
        if said.distinct {
            return Err(SqlError::unsupported("DISTINCT in a window function"));
        }
        if !said.order.is_empty() {
            return Err(SqlError::unsupported("ORDER BY among the arguments of a window function"));
        }
        if is_aggregate(name) {
            let aggregate = self.aggregate_parts(name, said)?;
            let ty = aggregate.ty;
            return Ok((WindowFunc::Aggregate(Box::new(aggregate)), Vec::new(), ty));
        }
        let mut args = Vec::with_capacity(said.args.len());
        for arg in said.args {
            args.push(self.expr(arg)?);
        }
        let types: Vec<String> = args.iter().map(|arg| super::bare(arg.ty).to_string()).collect();
        let found = self.window_call(name, args)?.filter(|_| !said.star);
        let Some((func, args, ty)) = found else {
            if is_window_function(name) {
                let message = format!("function {name}({}) does not exist", types.join(", "));
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            }
            // An unknown function is reported as such.
            self.named_call(name, said.args)?;
            let message = format!(
                "OVER specified, but {name} is not a window function nor an aggregate function"
            );
            return Err(SqlError::new(code::WRONG_OBJECT, message));
        };
        if said.filter.is_some() {
            return Err(SqlError::unsupported("FILTER of a window function that is no aggregate"));
        }
        Ok((func, args, ty))
    }

    fn window_call(
        &mut self,
        name: &str,
        args: Vec<Typed>,
    ) -> Result<Option<(WindowFunc, Vec<Expr>, SqlType)>, SqlError> {
        let plain = |func, ty| Ok(Some((func, Vec::new(), ty)));
        let count = args.len();
        match (name, count) {
            ("row_number", 0) => plain(WindowFunc::RowNumber, SqlType::Int8),
            ("rank", 0) => plain(WindowFunc::Rank, SqlType::Int8),
            ("dense_rank", 0) => plain(WindowFunc::DenseRank, SqlType::Int8),
            ("percent_rank", 0) => plain(WindowFunc::PercentRank, SqlType::Float8),
            ("cume_dist", 0) => plain(WindowFunc::CumeDist, SqlType::Float8),
            ("ntile", 1) if is_whole(&args[0]) => {
                let buckets = self.whole(args)?;
                Ok(Some((WindowFunc::Ntile, buckets, SqlType::Int4)))
            }
            ("first_value" | "last_value", 1) => {
                let (args, ty) = self.value_of(args)?;
                let is_first = name == "first_value";
                let func = if is_first { WindowFunc::FirstValue } else { WindowFunc::LastValue };
                Ok(Some((func, args, ty)))
            }
            ("nth_value", 2) if is_whole(&args[1]) => {
                let mut args = args;
                let n = self.whole(args.split_off(1))?;
                let (mut args, ty) = self.value_of(args)?;
                args.extend(n);
                Ok(Some((WindowFunc::NthValue, args, ty)))
            }
            ("lag" | "lead", 1..=3) if args.get(1).is_none_or(is_whole) => {
                let mut args = args;
                let offset = (count > 1).then(|| args.remove(1));
                let mut given = args.into_iter();
                let (value, default): (Vec<Typed>, _) =
                    (given.next().into_iter().collect(), given.next());
                let (mut args, ty) = match default {
                    None => self.values_of(value)?,
                    Some(default) if !agree(&value, &default) => return Ok(None),
                    Some(default) => {
                        self.values_of(value.into_iter().chain([default]).collect())?
                    }
                };
                if let Some(offset) = offset {
                    args.insert(1, self.coerce(offset, SqlType::Int4)?);
                }
                let func = if name == "lag" { WindowFunc::Lag } else { WindowFunc::Lead };
                Ok(Some((func, args, ty)))
            }
            _ => Ok(None),
        }
    }

    /// A value of any type, which for a quoted literal is unknown.
    fn value_of(&mut self, args: Vec<Typed>) -> Result<(Vec<Expr>, SqlType), SqlError> {
        if args.iter().any(|arg| arg.ty == SqlType::Unknown) {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
        self.values_of(args)
    }

    /// Values of a common type; quoted literals become texts.
    fn values_of(&mut self, args: Vec<Typed>) -> Result<(Vec<Expr>, SqlType), SqlError> {
        let (args, ty) = self.together(args)?;
        Ok((args, super::bare(ty)))
    }

    fn whole(&mut self, args: Vec<Typed>) -> Result<Vec<Expr>, SqlError> {
        args.into_iter().map(|arg| self.coerce(arg, SqlType::Int4)).collect()
    }

    /// The partition keys of a window, and its sort keys with their types.
    #[allow(clippy::type_complexity, reason = "two lists and the types of one")]
    fn window(
        &mut self,
        spec: &WindowSpec,
    ) -> Result<(Vec<Expr>, Vec<(Expr, SortKey)>, Vec<SqlType>), SqlError> {
        let (mut partition, mut order, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for by in &spec.partition_by {
            let value = sorted_by(self, by)?;
            partition.push(value.expr);
        }
        for by in &spec.order_by {
            let value = sorted_by(self, &by.expr)?;
            types.push(value.ty);
            order.push((value.expr, sort_key(by, order.len())?));
        }
        Ok((partition, order, types))
    }

    fn frame(
        &mut self,
        spec: &WindowSpec,
        order: &[(Expr, SortKey)],
        types: &[SqlType],
    ) -> Result<Frame, SqlError> {
        let Some(frame) = &spec.window_frame else {
            let (from, to) = (Bound::Unbounded, Bound::Current);
            let (by, excludes) = (SqlType::Unknown, Exclusion::None);
            return Ok(Frame { units: FrameUnits::Range, from, to, by, excludes });
        };
        let excludes = match parted_window(spec.window_name.as_ref()).0 {
            Some("row") => Exclusion::Row,
            Some("group") => Exclusion::Group,
            Some("ties") => Exclusion::Ties,
            _ => Exclusion::None,
        };
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        let to = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
        match (&frame.start_bound, to) {
            (Following(None), _) => Err(wrong("frame start cannot be UNBOUNDED FOLLOWING")),
            (_, Preceding(None)) => Err(wrong("frame end cannot be UNBOUNDED PRECEDING")),
            (CurrentRow, Preceding(_)) => {
                Err(wrong("frame starting from current row cannot have preceding rows"))
            }
            (Following(_), CurrentRow) if frame.end_bound.is_none() => {
                Err(wrong("frame starting from following row cannot end with current row"))
            }
            (Following(_), Preceding(_) | CurrentRow) => {
                Err(wrong("frame starting from following row cannot have preceding rows"))
            }
            _ => Ok(()),
        }?;
        let units = match frame.units {
            WindowFrameUnits::Rows => FrameUnits::Rows,
            WindowFrameUnits::Range => FrameUnits::Range,
            WindowFrameUnits::Groups => FrameUnits::Groups,
        };
        if units == FrameUnits::Groups && order.is_empty() {
            return Err(wrong("GROUPS mode requires an ORDER BY clause"));
        }
        let mut bound = |bound: &WindowFrameBound| -> Result<Bound, SqlError> {
            Ok(match bound {
                CurrentRow => Bound::Current,
                Preceding(None) | Following(None) => Bound::Unbounded,
                Preceding(Some(offset)) => Bound::Before(self.offset(offset, units, types)?),
                Following(Some(offset)) => Bound::After(self.offset(offset, units, types)?),
            })
        };
        let (from, to) = (bound(&frame.start_bound)?, bound(to)?);
        let by = types.first().map_or(SqlType::Unknown, |by| super::bare(*by));
        Ok(Frame { units, from, to, by, excludes })
    }

    /// The distance of a frame bound.
    fn offset(
        &mut self,
        offset: &ast::Expr,
        units: FrameUnits,
        types: &[SqlType],
    ) -> Result<Expr, SqlError> {
        let is_number = types.first().is_none_or(|by| by.family() == Family::Number);
        let value = match literal_of(offset) {
            Some(literal) if is_number => self.expr(literal)?,
            _ => self.expr(offset)?,
        };
        let of_row =
            |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::Aggregate(_) | Expr::Window(_));
        if value.expr.has(&of_row) {
            let message = "the offset of a window frame must not contain variables";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        if units != FrameUnits::Range {
            if !matches!(value.ty, SqlType::Unknown) && !value.ty.is_integer() {
                let message =
                    format!("the offset of a window frame must be bigint, not {}", value.ty);
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            return self.coerce(value, SqlType::Int8);
        }
        let [by] = types else {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(wrong(message));
        };
        let by = super::bare(*by);
        let fits = match by {
            SqlType::Date
            | SqlType::Timestamp
            | SqlType::TimestampTz
            | SqlType::Time
            | SqlType::TimeTz
            | SqlType::Interval => matches!(value.ty, SqlType::Interval | SqlType::Unknown),
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => {
                matches!(value.ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
            }
            SqlType::Numeric(_) => value.ty.is_integer() || matches!(value.ty, SqlType::Numeric(_)),
            SqlType::Float4 | SqlType::Float8 => value.ty.family() == Family::Number,
            _ => false,
        };
        let is_number = by.family() == Family::Number && by != SqlType::Oid;
        match value.ty {
            SqlType::Unknown if is_number => self.coerce(value, by),
            _ if fits && by.is_float() => self.coerce(value, SqlType::Float8),
            SqlType::Unknown if fits => self.coerce(value, SqlType::Interval),
            _ if fits => Ok(value.expr),
            ty => {
                let is_known = is_number
                    || matches!(by.family(), Family::Time | Family::Clock | Family::Interval);
                let what = "RANGE with offset PRECEDING/FOLLOWING is not supported for column type";
                let message = match is_known {
                    true => format!("{what} {by} and offset type {}", super::bare(ty)),
                    false => format!("{what} {by}"),
                };
                let error = SqlError::new(code::FEATURE_NOT_SUPPORTED, message);
                let hint = "Cast the offset value to an appropriate type.";
                Err(if is_known { error.hint(hint) } else { error })
            }
        }
    }
}

/// The literal of a distance in quotes, which the grammar reads as an interval.
fn literal_of(offset: &ast::Expr) -> Option<&ast::Expr> {
    match offset {
        ast::Expr::Interval(ast::Interval { value, leading_field: None, .. }) => Some(value),
        _ => None,
    }
}

/// A value that rows are sorted by; one of unknown type is a text.
fn sorted_by(binder: &mut Binder<'_>, by: &ast::Expr) -> Result<Typed, SqlError> {
    let value = binder.expr(by)?;
    check_order(value.ty)?;
    Ok(match value.ty {
        SqlType::Unknown => typed(binder.coerce(value, SqlType::Text)?, SqlType::Text),
        _ => value,
    })
}

/// True if a value and its default can have one type.
fn agree(value: &[Typed], default: &Typed) -> bool {
    let unknown = |ty: SqlType| ty == SqlType::Unknown;
    let agrees = |value: &Typed| {
        value.ty.family() == default.ty.family() || unknown(value.ty) || unknown(default.ty)
    };
    value.iter().all(agrees)
}

fn is_whole(arg: &Typed) -> bool {
    matches!(arg.ty, SqlType::Int2 | SqlType::Int4 | SqlType::Unknown)
}

/// True for functions that are only window functions.
pub(super) fn is_window_function(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "ntile"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
            | "nth_value"
    )
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(code::WINDOWING, message)
}

fn named<'n>(name: &str, named: &'n [(String, WindowSpec)]) -> Result<&'n WindowSpec, SqlError> {
    named.iter().find(|(known, _)| known == name).map(|(_, spec)| spec).ok_or_else(|| {
        SqlError::new(code::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
    })
}

/// Completes a window by the one that it names.
fn copied(spec: &WindowSpec, known: &[(String, WindowSpec)]) -> Result<WindowSpec, SqlError> {
    let (exclusion, name) = parted_window(spec.window_name.as_ref());
    if exclusion.is_some() && spec.window_frame.is_none() {
        return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"EXCLUDE\""));
    }
    let Some(name) = name else { return Ok(spec.clone()) };
    let base = named(&name, known)?;
    if !spec.partition_by.is_empty() {
        return Err(wrong(format!("cannot override PARTITION BY clause of window \"{name}\"")));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(wrong(format!("cannot override ORDER BY clause of window \"{name}\"")));
    }
    if base.window_frame.is_some() {
        let error = wrong(format!("cannot copy window \"{name}\" because it has a frame clause"));
        return Err(error.hint("Omit the parentheses in this OVER clause."));
    }
    let order_by = if spec.order_by.is_empty() { &base.order_by } else { &spec.order_by };
    Ok(WindowSpec {
        window_name: exclusion.map(marked_window),
        partition_by: base.partition_by.clone(),
        order_by: order_by.clone(),
        window_frame: spec.window_frame.clone(),
    })
}

/// The order in which windows are computed, as in PostgreSQL: the last one leaves the rows in its
/// order. A window whose sort keys extend those of another is computed before it.
pub(super) fn in_turn(mut windows: Vec<Window>) -> Vec<Window> {
    let mut keys: Vec<Expr> = Vec::new();
    let mut ranks: Vec<Vec<(usize, bool, bool)>> = Vec::with_capacity(windows.len());
    for window in &windows {
        let partition = window.partition.iter().map(|by| (by, false, false));
        let order = window.order.iter().map(|(by, key)| (by, key.descending, key.nulls_first));
        let mut rank = |by: &Expr| {
            keys.iter().position(|known| known == by).unwrap_or_else(|| {
                keys.push(by.clone());
                keys.len() - 1
            })
        };
        let all = partition.chain(order);
        ranks.push(all.map(|(by, descending, first)| (rank(by), descending, first)).collect());
    }
    let mut both: Vec<_> = ranks.into_iter().zip(windows.drain(..)).collect();
    both.sort_by(|(a, _), (b, _)| b.cmp(a));
    both.into_iter().map(|(_, window)| window).collect()
}
