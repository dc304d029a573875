//! Functions of dates and times.

use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::numeric::Decimal;

pub(super) fn extract(field: &str, value: &Datum) -> Result<Datum, SqlError> {
    let micros = match value {
        Datum::Timestamp(micros) => *micros,
        Datum::Int(days) => days.saturating_mul(86_400_000_000),
        _ => return Ok(Datum::Null),
    };
    let (days, within) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = crate::text::civil(days);
    let exact = |micros: i64| Datum::Numeric(Decimal { mantissa: micros.into(), scale: 6 });
    let whole = |value: i64| Datum::Numeric(Decimal::int(value));
    Ok(match clipped(field).to_lowercase().as_str() {
        "year" => whole(year),
        "month" => whole(month.into()),
        "day" => whole(day.into()),
        "hour" => whole(within / 3_600_000_000),
        "minute" => whole(within / 60_000_000 % 60),
        "second" => exact(within % 60_000_000),
        "epoch" => exact(micros),
        "dow" => whole((days + 4).rem_euclid(7)),
        other => {
            let message = format!("unit \"{other}\" not recognized for type timestamp");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
    })
}
