//! Functions of times that depend on the session's zone: arguments are converted to local time, and
//! results back.
//!
//! ```text
//!   extract(hour from instant)           of the local time in the session's zone
//!   instant AT TIME ZONE 'Asia/Tokyo'    the local time in Tokyo
//!   local AT TIME ZONE 'Asia/Tokyo'      the instant of that local time in Tokyo
//! ```

use super::convert::rounded;
use super::expr::{Typed, typed};
use super::forms::ambiguous;
use super::operators::not_unique;
use super::{Binder, bare};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::expr::{Arith, Expr};
use crate::fields::Fields;
use crate::functions::{Func, TextFunc, TimeFunc};
use crate::types::{Family, SqlType, spanned};
use sqlparser::ast;

/// Binds OVERLAPS. The second value of a side is a time, or the length of the period.
pub(super) fn overlaps(
    binder: &mut Binder<'_>,
    left: &[ast::Expr],
    right: &[ast::Expr],
) -> Result<Typed, SqlError> {
    for (side, which) in [(left, "left"), (right, "right")] {
        if side.len() != 2 {
            let message =
                format!("wrong number of parameters on {which} side of OVERLAPS expression");
            return Err(SqlError::new(code::SYNTAX, message));
        }
    }
    let mut ends = Vec::with_capacity(4);
    for [start, end] in [left, right].map(|side| [&side[0], &side[1]]) {
        let (start, mut end) = (binder.expr(start)?, binder.expr(end)?);
        if end.ty == SqlType::Interval {
            let start = super::convert::again(binder, start.clone());
            end = binder.arith(Arith::Add, start, end)?;
        }
        ends.extend([start, end]);
    }
    let has = |ty: SqlType| ends.iter().any(|end| end.ty == ty);
    let ty = if has(SqlType::TimestampTz) {
        SqlType::TimestampTz
    } else if has(SqlType::Timestamp) || has(SqlType::Date) {
        SqlType::Timestamp
    } else if has(SqlType::TimeTz) {
        SqlType::TimeTz
    } else if has(SqlType::Time) {
        SqlType::Time
    } else {
        let types: Vec<SqlType> = ends.iter().map(|end| bare(end.ty)).collect();
        return Err(match types.iter().all(|ty| *ty == SqlType::Unknown) {
            true => ambiguous("pg_catalog.overlaps", &types),
            false => super::json::unknown_function("pg_catalog.overlaps", &ends),
        });
    };
    let family = ty.family();
    if let Some(other) =
        ends.iter().find(|end| ![family, Family::Unknown].contains(&end.ty.family()))
    {
        return Err(super::operators::no_operator("OVERLAPS", ty, other.ty));
    }
    let ends = ends.into_iter().map(|end| binder.coerce(end, ty));
    let ends = ends.collect::<Result<_, _>>()?;
    Ok(typed(Expr::Call(Func::Time(TimeFunc::Overlaps), ends), SqlType::Bool))
}

impl Binder<'_> {
    /// `extract(field from value)`, and `date_part`.
    pub(super) fn extract(&mut self, field: &str, value: Typed) -> Result<Typed, SqlError> {
        if value.ty == SqlType::Unknown {
            return Err(ambiguous("pg_catalog.extract", &[SqlType::Unknown; 2]));
        }
        let field = clipped(field).to_lowercase();
        let by_field = |func: TimeFunc, field: String, value: Expr| {
            let args = vec![Expr::Const(Datum::Text(field)), value];
            typed(Expr::Call(Func::Time(func), args), SqlType::Numeric(None))
        };
        if let Family::Clock | Family::Interval = value.ty.family() {
            return Ok(by_field(TimeFunc::Field, field, value.expr));
        }
        if value.ty == SqlType::TimestampTz
            && let "timezone" | "timezone_hour" | "timezone_minute" = &*field
        {
            return Ok(by_field(TimeFunc::ZoneField, field, value.expr));
        }
        if value.ty == SqlType::Date {
            if is_of_day(&field) {
                let message = format!("unit \"{field}\" not supported for type date");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if field == "epoch" {
                // Whole days have whole seconds.
                let day = self.coerce(value, SqlType::Timestamp)?;
                let args = vec![Expr::Const(Datum::Text(field)), day];
                let seconds = Expr::Call(Func::Extract, args);
                let whole = Expr::Cast(Box::new(seconds), SqlType::Int8);
                return Ok(typed(
                    Expr::Cast(Box::new(whole), SqlType::Numeric(None)),
                    SqlType::Numeric(None),
                ));
            }
        }
        // `epoch` is independent of the zone.
        let is_moment = field == "epoch" && value.ty == SqlType::TimestampTz;
        let value = if is_moment { value.expr } else { self.as_wall("extract", value)? };
        let args = vec![Expr::Const(Datum::Text(field)), value];
        Ok(typed(Expr::Call(Func::Extract, args), SqlType::Numeric(None)))
    }

    /// AT TIME ZONE.
    pub(super) fn at_zone(&mut self, value: Typed, zone: Typed) -> Result<Typed, SqlError> {
        let zone = match zone.ty {
            SqlType::Interval => zone.expr,
            _ => self.as_text(zone)?,
        };
        if value.ty == SqlType::Timestamp {
            let moment = Expr::Call(Func::Instant, vec![value.expr, zone]);
            return Ok(typed(moment, SqlType::TimestampTz));
        }
        if value.ty.family() == Family::Clock {
            let clock = self.coerce(value, SqlType::TimeTz)?;
            let there = Expr::Call(Func::Time(TimeFunc::ClockThere), vec![clock, zone]);
            return Ok(typed(there, SqlType::TimeTz));
        }
        check_time("timezone", value.ty)?;
        let moment = self.coerce(value, SqlType::TimestampTz)?;
        Ok(typed(Expr::Call(Func::LocalTime, vec![moment, zone]), SqlType::Timestamp))
    }

    /// Resolves a function of times by its name, or returns `None`.
    pub(super) fn time_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        Some(match (name, args) {
            ("date_part" | "date_trunc", [field, value]) if value.ty == SqlType::Unknown => {
                Err(ambiguous(name, &[field.ty, value.ty]))
            }
            ("age", [value]) if value.ty == SqlType::Unknown => Err(ambiguous(name, &[value.ty])),
            ("timezone", [zone, value]) => self.at_zone(value.clone(), zone.clone()),
            ("date_part", [field, value]) => match &field.expr {
                Expr::Const(Datum::Text(field)) => self.extract(field, value.clone()).map(|part| {
                    let float = Expr::Cast(Box::new(part.expr), SqlType::Float8);
                    typed(float, SqlType::Float8)
                }),
                _ => Err(SqlError::unsupported("a field that is no literal")),
            },
            ("date_trunc", [field, value]) if value.ty == SqlType::Interval => {
                let field = self.as_text(field.clone());
                field.map(|field| span_call(TimeFunc::Trunc, vec![field, value.expr.clone()]))
            }
            ("date_trunc", [field, value]) => self.truncated(field.clone(), value.clone(), None),
            ("date_trunc", [field, value, zone]) => {
                self.truncated(field.clone(), value.clone(), Some(zone.clone()))
            }
            ("to_char", [value, pattern])
                if matches!(
                    value.ty.family(),
                    Family::Time | Family::Interval | Family::Unknown
                ) || value.ty == SqlType::Time =>
            {
                self.shown_as(value.clone(), pattern.clone())
            }
            ("make_timestamptz", [parts @ .., zone]) if parts.len() == 6 => {
                let wall = self.span_function("make_timestamp", parts)?;
                wall.and_then(|wall| {
                    let zone = self.as_text(zone.clone())?;
                    let zone = Expr::Call(Func::Text(TextFunc::ZoneBySign), vec![zone]);
                    self.at_zone(wall, typed(zone, SqlType::Text))
                })
            }
            ("pg_sleep_for" | "pg_sleep_until", [time]) => sleep(self, name, time.clone()),
            ("timeofday", []) => {
                let now = typed(Expr::Call(Func::ClockTime, Vec::new()), SqlType::TimestampTz);
                let pattern = Datum::text("Dy Mon DD HH24:MI:SS.US YYYY TZ");
                self.shown_as(now, typed(Expr::Const(pattern), SqlType::Text))
            }
            ("date_bin", [stride, value, origin]) => {
                self.binned(stride.clone(), value.clone(), origin.clone())
            }
            ("to_date" | "to_timestamp", [text, pattern]) => {
                self.read_as(name == "to_date", text.clone(), pattern.clone())
            }
            _ => return self.span_function(name, args),
        })
    }

    /// A function of intervals and times of day.
    fn span_function(&mut self, name: &str, args: &[Typed]) -> Option<Result<Typed, SqlError>> {
        use SqlType::{Date, Float8, Int4, Interval, Time, Timestamp, TimestampTz};
        use TimeFunc::*;
        let is_moment = args.iter().any(|arg| arg.ty == TimestampTz);
        let (func, wanted, ty): (_, &[SqlType], _) = match (name, args.len()) {
            ("age", 1) if is_moment => (Age, &[Timestamp], Interval),
            ("age", 1 | 2) => (Age, &[Timestamp, Timestamp], Interval),
            ("justify_days", 1) => (JustifyDays, &[Interval], Interval),
            ("justify_hours", 1) => (JustifyHours, &[Interval], Interval),
            ("justify_interval", 1) => (JustifyInterval, &[Interval], Interval),
            ("make_interval", 0..=7) => {
                (MakeInterval, &[Int4, Int4, Int4, Int4, Int4, Int4, Float8], Interval)
            }
            ("make_time", 3) => (MakeTime, &[Int4, Int4, Float8], Time),
            ("make_date", 3) => (MakeDate, &[Int4, Int4, Int4], Date),
            ("make_timestamp" | "make_timestamptz", 6) => {
                (MakeTimestamp, &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamp)
            }
            ("to_timestamp", 1) => (ToTimestamp, &[Float8], TimestampTz),
            ("isfinite", 1) if matches!(args[0].ty.family(), Family::Time | Family::Interval) => {
                let finite = Expr::Call(Func::Time(IsFinite), vec![args[0].expr.clone()]);
                return Some(Ok(typed(finite, SqlType::Bool)));
            }
            _ => return None,
        };
        let fits = |(arg, wanted): (&Typed, &SqlType)| {
            let same = arg.ty.family() == wanted.family() || arg.ty == SqlType::Unknown;
            let is_narrow =
                *wanted != Int4 || matches!(arg.ty, SqlType::Int2 | Int4 | SqlType::Unknown);
            (same && is_narrow) || (*wanted == Interval && arg.ty == Time)
        };
        if !args.iter().zip(wanted).all(fits) {
            return Some(Err(super::json::unknown_function(name, args)));
        }
        let given = args.iter().cloned().zip(wanted);
        let given = given.map(|(arg, wanted)| self.coerce(arg, *wanted));
        let call = match given.collect::<Result<Vec<_>, _>>() {
            Ok(given) => typed(Expr::Call(Func::Time(func), given), ty),
            Err(error) => return Some(Err(error)),
        };
        Some(match name {
            "make_timestamptz" => {
                self.coerce(call, TimestampTz).map(|moment| typed(moment, TimestampTz))
            }
            _ => Ok(call),
        })
    }

    /// `+`, `-`, `*` and `/` of times and intervals; `None` for other operands.
    pub(super) fn time_arith(
        &mut self,
        op: Arith,
        a: &Typed,
        b: &Typed,
    ) -> Result<Option<Typed>, SqlError> {
        use SqlType::{Date, Interval, Time, TimeTz, Timestamp, TimestampTz, Unknown};
        let is_number = |ty: SqlType| ty.family() == Family::Number || ty == Unknown;
        let (a, b) = (a.clone(), b.clone());
        Ok(Some(match (op, a.ty, b.ty) {
            (Arith::Add, Interval | Unknown, Timestamp | TimestampTz)
            | (Arith::Add, Interval, Date | Time | TimeTz)
            | (Arith::Add, Time | TimeTz, Date) => return self.time_arith(op, &b, &a),
            (Arith::Add, Timestamp | TimestampTz, Unknown)
            | (Arith::Add | Arith::Sub, Timestamp | TimestampTz | Date | Time | TimeTz, Interval) => {
                self.shifted(a, b, op == Arith::Sub)?
            }
            (Arith::Add, SqlType::Int2 | SqlType::Int4, Date) => {
                return self.arith(op, b, a).map(Some);
            }
            (Arith::Add, Date, Unknown) | (Arith::Add, Unknown, Date) => {
                let sides = if a.ty == Date { "date + unknown" } else { "unknown + date" };
                return Err(not_unique(sides));
            }
            (Arith::Add | Arith::Sub, Timestamp | TimestampTz, Time) => {
                self.shifted(a, b, op == Arith::Sub)?
            }
            (Arith::Add, Time, Timestamp | TimestampTz) => self.shifted(b, a, false)?,
            (Arith::Add, Date, Time | TimeTz) => {
                let ty = if b.ty == Time { Timestamp } else { TimestampTz };
                let day = self.coerce(a, Timestamp)?;
                typed(Expr::Call(Func::Time(TimeFunc::Together), vec![day, b.expr]), ty)
            }
            (Arith::Sub, Date, Date | Unknown) | (Arith::Sub, Unknown, Date) => return Ok(None),
            (
                Arith::Sub,
                Timestamp | TimestampTz | Date | Unknown,
                Timestamp | TimestampTz | Date,
            )
            | (Arith::Sub, Timestamp | TimestampTz, Unknown) => {
                let is_moment = a.ty == TimestampTz || b.ty == TimestampTz;
                let ty = if is_moment { TimestampTz } else { Timestamp };
                let both = vec![self.coerce(a, ty)?, self.coerce(b, ty)?];
                span_call(TimeFunc::Between, both)
            }
            (Arith::Sub, Time, Time | Unknown) | (Arith::Sub, Unknown, Time) => {
                let both = vec![self.coerce(a, Time)?, self.coerce(b, Time)?];
                span_call(TimeFunc::ClockBetween, both)
            }
            (Arith::Add | Arith::Sub, Interval | Unknown, Interval)
            | (Arith::Add | Arith::Sub, Interval, Unknown | Time) => {
                let func = if op == Arith::Add { TimeFunc::Sum } else { TimeFunc::Difference };
                let both = vec![self.coerce(a, Interval)?, self.coerce(b, Interval)?];
                span_call(func, both)
            }
            (Arith::Mul, other, Interval) if is_number(other) => {
                return self.time_arith(op, &b, &a);
            }
            (Arith::Mul | Arith::Div, Interval, other) if is_number(other) => {
                let func = if op == Arith::Mul { TimeFunc::Times } else { TimeFunc::Over };
                let factor = self.coerce(b, SqlType::Float8)?;
                span_call(func, vec![a.expr, factor])
            }
            _ => return Ok(None),
        }))
    }

    /// A time plus or minus an interval.
    fn shifted(&mut self, time: Typed, span: Typed, is_minus: bool) -> Result<Typed, SqlError> {
        let (func, ty) = match time.ty {
            SqlType::TimestampTz => (TimeFunc::PlusMoment, time.ty),
            SqlType::Time | SqlType::TimeTz => (TimeFunc::PlusClock, time.ty),
            _ => (TimeFunc::Plus, SqlType::Timestamp),
        };
        let (time, span) = (self.coerce(time, ty)?, self.coerce(span, SqlType::Interval)?);
        let args = vec![time, span, Expr::Const(Datum::Bool(is_minus))];
        Ok(typed(Expr::Call(Func::Time(func), args), ty))
    }

    /// `INTERVAL '1 day'`, `INTERVAL '1' YEAR`.
    pub(super) fn interval(&mut self, interval: &ast::Interval) -> Result<Typed, SqlError> {
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
        let ty = match (self.digits_of(&interval.value), &interval.leading_field) {
            (Some(_), Some(_)) => {
                return Err(SqlError::unsupported("an interval with digits and a field"));
            }
            (Some(digits), None) => SqlType::Interval.rounded(digits).unwrap_or(SqlType::Interval),
            (None, None) => SqlType::Interval,
            (None, Some(first)) => {
                let last = interval.last_field.iter().map(|last| format!(" to {last}"));
                let name = last.fold(first.to_string(), |name, last| name + &last).to_lowercase();
                let fields = Fields::of_name(&name).ok_or_else(|| {
                    let message = format!("an interval has no fields {}", name.to_uppercase());
                    SqlError::new(code::SYNTAX, message)
                })?;
                // DAY (2) TO SECOND has its digits at the wrong field.
                let is_misplaced = interval.leading_precision.is_some() && name != "second";
                match digits.filter(|_| is_misplaced) {
                    Some(_) => {
                        return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"(\""));
                    }
                    None => spanned(fields, digits)?,
                }
            }
        };
        match self.expr(&interval.value)? {
            Typed { expr: Expr::Const(Datum::Text(text)), ty: SqlType::Unknown } => {
                let span = crate::text::parse(&text, ty)?;
                Ok(rounded(typed(Expr::Const(span), SqlType::Interval), ty))
            }
            _ => Err(SqlError::unsupported(format!("the expression {interval}"))),
        }
    }

    /// The precision in `INTERVAL (2) '1 day'`, which the parser drops.
    fn digits_of(&self, value: &ast::Expr) -> Option<u8> {
        let ast::Expr::Value(value) = value else { return None };
        let position = self.position(value.span)?;
        let before = self.text.chars().take(position.saturating_sub(1));
        let before: String = before.filter(|sign| !sign.is_whitespace()).collect();
        let (word, digits) = before.strip_suffix(')')?.rsplit_once('(')?;
        let digits =
            digits.parse::<u64>().ok().filter(|_| word.to_lowercase().ends_with("interval"));
        digits.map(|digits| u8::try_from(digits).unwrap_or(u8::MAX))
    }

    fn truncated(
        &mut self,
        field: Typed,
        value: Typed,
        zone: Option<Typed>,
    ) -> Result<Typed, SqlError> {
        check_time("date_trunc", value.ty)?;
        let field = self.as_text(field)?;
        let zone = zone.map(|zone| self.as_text(zone)).transpose()?;
        if value.ty == SqlType::Timestamp && zone.is_none() {
            let begin = Expr::Call(Func::DateTrunc, vec![field, value.expr]);
            return Ok(typed(begin, SqlType::Timestamp));
        }
        let moment = self.coerce(value, SqlType::TimestampTz)?;
        let args = [field, moment].into_iter().chain(zone).collect();
        let begin = Expr::Call(Func::Time(TimeFunc::TruncMoment), args);
        Ok(typed(begin, SqlType::TimestampTz))
    }

    /// `to_char` of a time or an interval.
    fn shown_as(&mut self, value: Typed, pattern: Typed) -> Result<Typed, SqlError> {
        let (func, ty) = match value.ty {
            SqlType::Unknown => {
                return Err(ambiguous("to_char", &[value.ty, bare(pattern.ty)]));
            }
            SqlType::Timestamp => (Func::ToChar, SqlType::Timestamp),
            SqlType::Interval | SqlType::Time => {
                (Func::Time(TimeFunc::ShowSpan), SqlType::Interval)
            }
            _ => (Func::Time(TimeFunc::ShowMoment), SqlType::TimestampTz),
        };
        let args = vec![self.coerce(value, ty)?, self.as_text(pattern)?];
        Ok(typed(Expr::Call(func, args), SqlType::Text))
    }

    /// `date_bin`, of timestamps with time zone unless one has none.
    fn binned(&mut self, stride: Typed, value: Typed, origin: Typed) -> Result<Typed, SqlError> {
        let is_of_zone = [&value, &origin].iter().any(|time| time.ty == SqlType::TimestampTz);
        let is_open = [&value, &origin].iter().all(|time| time.ty != SqlType::Timestamp);
        let ty = if is_of_zone || is_open { SqlType::TimestampTz } else { SqlType::Timestamp };
        for time in [&value, &origin] {
            check_time("date_bin", time.ty)?;
        }
        let stride = self.coerce(stride, SqlType::Interval)?;
        let times = [self.coerce(value, ty)?, self.coerce(origin, ty)?];
        let args = std::iter::once(stride).chain(times).collect();
        Ok(typed(Expr::Call(Func::Time(TimeFunc::Bin), args), ty))
    }

    /// Parses a text by a pattern: as a date, or as a timestamp in the session's zone.
    fn read_as(&mut self, is_date: bool, text: Typed, pattern: Typed) -> Result<Typed, SqlError> {
        let args = vec![self.as_text(text)?, self.as_text(pattern)?];
        if !is_date {
            let moment = Expr::Call(Func::Time(TimeFunc::ReadMoment), args);
            return Ok(typed(moment, SqlType::TimestampTz));
        }
        let day = Expr::Cast(Box::new(Expr::Call(Func::ReadTime, args)), SqlType::Date);
        Ok(typed(day, SqlType::Date))
    }

    /// A time as local time.
    fn as_wall(&mut self, function: &str, value: Typed) -> Result<Expr, SqlError> {
        check_time(function, value.ty)?;
        self.coerce(value, SqlType::Timestamp)
    }
}

/// `pg_sleep_for(interval)`, `pg_sleep_until(instant)`.
fn sleep(binder: &mut Binder<'_>, name: &str, time: Typed) -> Result<Typed, SqlError> {
    let is_for = name == "pg_sleep_for";
    let ty = if is_for { SqlType::Interval } else { SqlType::TimestampTz };
    if ![ty.family(), Family::Unknown].contains(&time.ty.family()) {
        return Err(super::json::unknown_function(name, &[time]));
    }
    let time = binder.coerce(time, ty)?;
    let span = match is_for {
        true => typed(time, ty),
        false => {
            let now = Expr::Call(Func::ClockTime, Vec::new());
            span_call(TimeFunc::Between, vec![time, now])
        }
    };
    let seconds = binder.extract("epoch", span)?;
    let seconds = Expr::Cast(Box::new(seconds.expr), SqlType::Float8);
    Ok(typed(Expr::Call(Func::Sleep, vec![seconds]), SqlType::Text))
}

/// True for fields within a day, which a date does not have.
fn is_of_day(field: &str) -> bool {
    let units =
        ["hour", "h", "minute", "min", "second", "sec", "millisecond", "ms", "microsecond", "us"];
    units.contains(&field.strip_suffix('s').unwrap_or(field)) || matches!(field, "ms" | "us")
}

fn span_call(func: TimeFunc, args: Vec<Expr>) -> Typed {
    typed(Expr::Call(Func::Time(func), args), SqlType::Interval)
}

fn check_time(function: &str, ty: SqlType) -> Result<(), SqlError> {
    if matches!(ty.family(), Family::Time | Family::Unknown) {
        return Ok(());
    }
    let message = format!("function {function} does not exist for type {}", bare(ty));
    Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
}
