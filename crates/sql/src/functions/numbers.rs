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
        Func::Round => exact.rescale(u8::try_from(digits.clamp(0, 38)).unwrap_or(0))?,
        _ => {
            let scale = u8::try_from(digits.clamp(0, 38)).unwrap_or(0);
            if scale >= exact.scale {
                exact.rescale(scale)?
            } else {
                let factor = 10i128.pow(u32::from(exact.scale - scale));
                Decimal { mantissa: exact.mantissa / factor, scale }
            }
        }
    }))
}

pub(super) fn power(base: &Datum, exponent: &Datum) -> Result<Datum, SqlError> {
    let is_float = matches!(base, Datum::Float(_)) || matches!(exponent, Datum::Float(_));
    if !is_float
        && let Some(times) =
            exponent.as_int().and_then(|e| u32::try_from(e).ok()).filter(|e| *e <= 64)
        && matches!(base, Datum::Numeric(_))
    {
        let mut result = Decimal::int(1);
        for _ in 0..times {
            result = result.times(base.to_decimal())?;
        }
        return Ok(Datum::Numeric(result.rescale(16.max(base.to_decimal().scale))?));
    }
    let result = base.to_f64().powf(exponent.to_f64());
    if result.is_infinite() && base.to_f64().is_finite() {
        return Err(SqlError::new(code::OUT_OF_RANGE, "value out of range: overflow"));
    }
    let numeric = matches!(base, Datum::Numeric(_)) || matches!(exponent, Datum::Numeric(_));
    if numeric && !is_float {
        return Ok(Decimal::from_f64(result).map_or(Datum::Null, Datum::Numeric));
    }
    Ok(Datum::Float(result))
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
