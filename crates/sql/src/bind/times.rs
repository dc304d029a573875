//! Functions of times that mind the zone: their arguments become what the wall shows, and their results moments again.
//!
//! ```text
//!   date_trunc('day', moment)       instant(date_trunc('day', local(moment)))
//!   moment AT TIME ZONE 'Asia/Tokyo'     what the wall shows in Tokyo
//!   wall AT TIME ZONE 'Asia/Tokyo'       the moment when it shows that in Tokyo
//! ```

use super::expr::{Typed, typed};
use super::{Binder, bare};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::expr::Expr;
use crate::functions::Func;
use crate::types::{Family, SqlType};

impl Binder<'_> {
    /// `extract(field from value)`, and `date_part`.
    pub(super) fn extract(&mut self, field: &str, value: Typed) -> Result<Typed, SqlError> {
        let field = clipped(field).to_lowercase();
        if value.ty == SqlType::Date {
            if is_of_day(&field) {
                let message = format!("unit \"{field}\" not supported for type date");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if field == "epoch" {
                // Whole days are whole seconds.
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
        // The one thing about a moment that no wall shows.
        let is_moment = field == "epoch" && value.ty == SqlType::TimestampTz;
        let value = if is_moment { value.expr } else { self.as_wall("extract", value)? };
        let args = vec![Expr::Const(Datum::Text(field)), value];
        Ok(typed(Expr::Call(Func::Extract, args), SqlType::Numeric(None)))
    }

    /// AT TIME ZONE.
    pub(super) fn at_zone(&mut self, value: Typed, zone: Typed) -> Result<Typed, SqlError> {
        let zone = self.as_text(zone)?;
        if value.ty == SqlType::Timestamp {
            let moment = Expr::Call(Func::Instant, vec![value.expr, zone]);
            return Ok(typed(moment, SqlType::TimestampTz));
        }
        check_time("timezone", value.ty)?;
        let moment = self.coerce(value, SqlType::TimestampTz)?;
        Ok(typed(Expr::Call(Func::LocalTime, vec![moment, zone]), SqlType::Timestamp))
    }

    /// A function of times by its name, if it is one.
    pub(super) fn time_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        Some(match (name, args) {
            ("timezone", [zone, value]) => self.at_zone(value.clone(), zone.clone()),
            ("date_part", [field, value]) => match &field.expr {
                Expr::Const(Datum::Text(field)) => self.extract(field, value.clone()).map(|part| {
                    let float = Expr::Cast(Box::new(part.expr), SqlType::Float8);
                    typed(float, SqlType::Float8)
                }),
                _ => Err(SqlError::unsupported("a field that is no literal")),
            },
            ("date_trunc", [field, value]) => self.truncated(field.clone(), value.clone(), None),
            ("date_trunc", [field, value, zone]) => {
                self.truncated(field.clone(), value.clone(), Some(zone.clone()))
            }
            ("to_char", [value, pattern])
                if matches!(value.ty.family(), Family::Time | Family::Unknown) =>
            {
                self.shown_as(value.clone(), pattern.clone())
            }
            _ => return None,
        })
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
        let trunc = |wall| Expr::Call(Func::DateTrunc, vec![field, wall]);
        if value.ty == SqlType::Timestamp && zone.is_none() {
            return Ok(typed(trunc(value.expr), SqlType::Timestamp));
        }
        let moment = self.coerce(value, SqlType::TimestampTz)?;
        let in_zone = |value: Expr| [value].into_iter().chain(zone.clone()).collect();
        let wall = Expr::Call(Func::LocalTime, in_zone(moment));
        Ok(typed(Expr::Call(Func::Instant, in_zone(trunc(wall))), SqlType::TimestampTz))
    }

    fn shown_as(&mut self, value: Typed, pattern: Typed) -> Result<Typed, SqlError> {
        let wall = self.as_wall("to_char", value)?;
        let pattern = self.as_text(pattern)?;
        Ok(typed(Expr::Call(Func::ToChar, vec![wall, pattern]), SqlType::Text))
    }

    /// A time as what the wall shows.
    fn as_wall(&mut self, function: &str, value: Typed) -> Result<Expr, SqlError> {
        check_time(function, value.ty)?;
        self.coerce(value, SqlType::Timestamp)
    }
}

/// True for what a day is divided into: a date has none of it.
fn is_of_day(field: &str) -> bool {
    let units =
        ["hour", "h", "minute", "min", "second", "sec", "millisecond", "ms", "microsecond", "us"];
    units.contains(&field.strip_suffix('s').unwrap_or(field)) || matches!(field, "ms" | "us")
}

fn check_time(function: &str, ty: SqlType) -> Result<(), SqlError> {
    if matches!(ty.family(), Family::Time | Family::Unknown) {
        return Ok(());
    }
    let message = format!("function {function} does not exist for type {}", bare(ty));
    Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
}
