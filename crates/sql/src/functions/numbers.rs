//! Functions of numbers. A whole number stays whole where it can, a numeric keeps its digits; only what no
//! digits can say (roots, powers with fractions) goes by floating point.

use super::Func;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::numeric::Decimal;
use crate::types::SqlType;

pub(super) fn number(func: Func, value: &Datum, digits: i64) -> Result<Datum, SqlError> {
    if let Datum::Float(value) = value {
        return Ok(Datum::Float(match func {
            Func::Abs => value.abs(),
            Func::Neg => -value,
            Func::Sign => {
                if *value == 0.0 {
                    0.0
                } else {
                    value.signum()
                }
            }
            Func::Round => value.round_ties_even(),
            Func::Floor => value.floor(),
            Func::Ceil => value.ceil(),
            _ => value.trunc(),
        }));
    }
    if let (Datum::Int(value), Func::Abs | Func::Neg) = (value, func) {
        let result =
            if func == Func::Neg || *value < 0 { value.checked_neg() } else { Some(*value) };
        return result.map(Datum::Int).ok_or_else(|| crate::datum::out_of_range(SqlType::Int8));
    }
    let exact = value.to_decimal();
    let down = |exact: Decimal| {
        let factor = 10i128.pow(u32::from(exact.scale.min(38)));
        Decimal { mantissa: exact.mantissa.div_euclid(factor), scale: 0 }
    };
    Ok(Datum::Numeric(match func {
        Func::Abs => Decimal { mantissa: exact.mantissa.abs(), scale: exact.scale },
        Func::Neg => exact.negated(),
        Func::Sign => Decimal::int(exact.mantissa.signum() as i64),
        Func::Floor => down(exact),
        Func::Ceil => down(exact.negated()).negated(),
        Func::Round if digits < 0 => tens(exact, digits, true)?,
        Func::Round => exact.rescale(u8::try_from(digits.min(38)).unwrap_or(0))?,
        _ if digits < 0 => tens(exact, digits, false)?,
        _ => {
            let scale = u8::try_from(digits.min(38)).unwrap_or(0);
            if scale >= exact.scale {
                exact.rescale(scale)?
            } else {
                let factor = 10i128.pow(u32::from(exact.scale - scale));
                Decimal { mantissa: exact.mantissa / factor, scale }
            }
        }
    }))
}

/// A number in tens, hundreds and so on, by how many digits before the point are zero: the nearest, or what is left
/// of it.
fn tens(exact: Decimal, digits: i64, is_rounded: bool) -> Result<Decimal, SqlError> {
    // What has so few digits is less than half of that.
    let Some(factor) = u32::try_from(-digits).ok().and_then(|n| 10i128.checked_pow(n)) else {
        return Ok(Decimal::int(0));
    };
    let whole = 10i128.pow(u32::from(exact.scale.min(38)));
    let Some(unit) = whole.checked_mul(factor) else { return Ok(Decimal::int(0)) };
    let (count, rest) = (exact.mantissa / unit, exact.mantissa % unit);
    let is_up = is_rounded && rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
    let count = if is_up { count + exact.mantissa.signum() } else { count };
    let mantissa = count.checked_mul(factor);
    let mantissa = mantissa.ok_or_else(|| crate::datum::out_of_range(NUMERIC))?;
    Ok(Decimal { mantissa, scale: 0 })
}

/// A power. One of exact numbers with a whole exponent is exact, with as many digits behind the point as PostgreSQL
/// shows, or as there is room for.
pub(super) fn power(base: &Datum, exponent: &Datum) -> Result<Datum, SqlError> {
    let is_float = |value: &Datum| matches!(value, Datum::Float(_));
    let is_exact = !is_float(base)
        && !is_float(exponent)
        && [base, exponent].iter().any(|value| matches!(value, Datum::Numeric(_)));
    let (a, b) = (base.to_f64(), exponent.to_f64());
    if a == 0.0 && b < 0.0 {
        let message = "zero raised to a negative power is undefined";
        return Err(SqlError::new(INVALID_POWER, message));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(INVALID_POWER, message));
    }
    if is_exact && b.fract() == 0.0 {
        return whole_power(base.to_decimal(), b as i64).map(Datum::Numeric);
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(SqlError::new(code::OUT_OF_RANGE, "value out of range: overflow"));
    }
    if is_exact {
        let digits = Decimal::from_f64(result);
        return digits.map(Datum::Numeric).ok_or_else(|| crate::datum::out_of_range(NUMERIC));
    }
    Ok(Datum::Float(result))
}

const INVALID_POWER: &str = "2201F";
const NUMERIC: SqlType = SqlType::Numeric(None);
/// So many digits a power has behind the point, if its base has no more.
const POWER_SCALE: u8 = 16;

fn whole_power(base: Decimal, exponent: i64) -> Result<Decimal, SqlError> {
    let scale = POWER_SCALE.max(base.scale);
    let one = Decimal::int(1);
    let (mut result, mut square, mut rest) = (one, base.trim(), exponent.unsigned_abs());
    while rest > 0 {
        if rest % 2 == 1 {
            result = result.times(square)?;
        }
        rest /= 2;
        if rest > 0 && square != one {
            square = square.times(square)?;
        }
    }
    if exponent < 0 {
        result = one.over(result)?;
    }
    // Zeros at the end are left out where there is no room for them.
    let least = result.trim().scale.min(scale);
    let shown = (least..=scale).rev().find_map(|scale| result.rescale(scale).ok());
    shown.ok_or_else(|| crate::datum::out_of_range(NUMERIC))
}

pub(super) fn float(func: Func, value: f64) -> Result<Datum, SqlError> {
    match func {
        Func::Sqrt if value < 0.0 => {
            Err(SqlError::new("2201F", "cannot take square root of a negative number"))
        }
        Func::Sqrt => Ok(Datum::Float(value.sqrt())),
        Func::Ln if value <= 0.0 => {
            Err(SqlError::new("2201E", "cannot take logarithm of this number"))
        }
        Func::Ln => Ok(Datum::Float(value.ln())),
        _ => Ok(Datum::Float(value.exp())),
    }
}
