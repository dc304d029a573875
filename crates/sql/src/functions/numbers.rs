//! Functions of numbers. Integers stay integers where possible, and numerics stay exact; floats are
//! computed with machine arithmetic.

use super::{Func, number_patterns};
use crate::budget::Budget;
use crate::datum::{Datum, out_of_range};
use crate::error::{SqlError, code};
use crate::numeric::{Decimal, SCALE_MAX, WHOLE_DIGITS_MAX};
use crate::types::SqlType;
use std::hash::{Hash, Hasher};

/// A function of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum NumberFunc {
    Log,
    Log10,
    Cbrt,
    Div,
    Factorial,
    Scale,
    /// `min_scale`
    LeastScale,
    TrimScale,
    Gcd,
    Lcm,
    /// `width_bucket(value, from, to, count)`
    Bucket,
    /// `width_bucket(value, thresholds)`; another argument is the oid of their type.
    BucketOf,
    /// `to_char(value, pattern)`; `digits` is the number of digits of a float, or
    /// [`super::number_patterns::INTEGER`].
    ToChar {
        digits: u8,
    },
    ToNumber,
    /// The percentage of a sample, checked. NULL is none.
    SamplePercent,
    /// A number from 0 to below 1 that a seed gives to a row.
    SampleNumber,
}

/// True if it has a result though an argument is NULL.
pub(super) fn takes_null(func: NumberFunc) -> bool {
    matches!(func, NumberFunc::SamplePercent | NumberFunc::SampleNumber)
}

/// # Errors
/// 2202H unless it is from 0 to 100.
fn sample_percent(percent: &Datum) -> Result<Datum, SqlError> {
    let wrong = |message: &str| Err(SqlError::new("2202H", message));
    match percent {
        Datum::Null => wrong("TABLESAMPLE parameter cannot be null"),
        percent if !(0.0..=100.0).contains(&percent.to_f64()) => {
            wrong("sample percentage must be between 0 and 100")
        }
        percent => Ok(percent.clone()),
    }
}

fn sample_number(seed: &Datum, row: &Datum) -> Datum {
    let mut state = std::hash::DefaultHasher::new();
    (seed.to_f64().to_bits(), row).hash(&mut state);
    Datum::Float((state.finish() >> 11) as f64 / (1u64 << 53) as f64)
}

/// The range of digits for `round` and `trunc`; arguments beyond it have the same effect, as no
/// number has that many.
const DIGITS: std::ops::RangeInclusive<i64> = -WHOLE_DIGITS_MAX - 1..=SCALE_MAX as i64;

pub(super) fn number(func: Func, value: &Datum, digits: i64) -> Result<Datum, SqlError> {
    if let Datum::Float(value) = value {
        return Ok(Datum::Float(match func {
            Func::Abs => value.abs(),
            Func::Neg => -value,
            Func::Sign if *value == 0.0 => 0.0,
            Func::Sign => value.signum(),
            Func::Round => value.round_ties_even(),
            Func::Floor => value.floor(),
            Func::Ceil => value.ceil(),
            _ => value.trunc(),
        }));
    }
    if let (Datum::Int(value), Func::Abs | Func::Neg) = (value, func) {
        let result =
            if func == Func::Neg || *value < 0 { value.checked_neg() } else { Some(*value) };
        return result.map(Datum::Int).ok_or_else(|| out_of_range(SqlType::Int8));
    }
    let (exact, digits) = (value.to_decimal(), digits.clamp(*DIGITS.start(), *DIGITS.end()));
    Ok(Datum::Numeric(match func {
        Func::Abs => exact.abs(),
        Func::Neg => exact.negated(),
        Func::Sign if exact.is_nan() => exact,
        Func::Sign => Decimal::int(exact.signum()),
        Func::Floor => exact.floor()?,
        Func::Ceil => exact.ceil()?,
        Func::Round => exact.rescale(digits)?,
        _ => exact.truncate(digits)?,
    }))
}

/// A power: numeric if one of the arguments is numeric and none is a float.
pub(super) fn power(base: &Datum, exponent: &Datum, budget: &Budget) -> Result<Datum, SqlError> {
    let is_float = |value: &Datum| matches!(value, Datum::Float(_));
    let is_exact = !is_float(base)
        && !is_float(exponent)
        && [base, exponent].iter().any(|value| matches!(value, Datum::Numeric(_)));
    if is_exact {
        let power = base.to_decimal().power(&exponent.to_decimal(), budget)?;
        return Ok(Datum::Numeric(power));
    }
    let (a, b) = (base.to_f64(), exponent.to_f64());
    if a == 0.0 && b < 0.0 {
        let message = "zero raised to a negative power is undefined";
        return Err(SqlError::new(INVALID_POWER, message));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(INVALID_POWER, message));
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(beyond("overflow"));
    }
    Ok(Datum::Float(result))
}

const INVALID_POWER: &str = "2201F";

fn beyond(what: &str) -> SqlError {
    SqlError::new(code::OUT_OF_RANGE, format!("value out of range: {what}"))
}

/// A root, a logarithm, or a power of `e`; of a numeric, it is numeric.
pub(super) fn analytic(func: Func, value: &Datum, budget: &Budget) -> Result<Datum, SqlError> {
    if let Datum::Numeric(exact) = value {
        return Ok(Datum::Numeric(match func {
            Func::Sqrt => exact.root(budget)?,
            Func::Ln => exact.ln(budget)?,
            _ => exact.exp(budget)?,
        }));
    }
    let value = value.to_f64();
    match func {
        Func::Sqrt if value < 0.0 => {
            Err(SqlError::new(INVALID_POWER, "cannot take square root of a negative number"))
        }
        Func::Sqrt => Ok(Datum::Float(value.sqrt())),
        Func::Ln => logarithm(value, f64::ln),
        _ => match value.exp() {
            result if result.is_infinite() && value.is_finite() => Err(beyond("overflow")),
            0.0 if value.is_finite() => Err(beyond("underflow")),
            result => Ok(Datum::Float(result)),
        },
    }
}

fn logarithm(value: f64, of: fn(f64) -> f64) -> Result<Datum, SqlError> {
    let wrong = |what| Err(SqlError::new("2201E", format!("cannot take logarithm of {what}")));
    match value {
        0.0 => wrong("zero"),
        value if value < 0.0 => wrong("a negative number"),
        value => Ok(Datum::Float(of(value))),
    }
}

pub(super) fn call(func: NumberFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    use NumberFunc::*;
    let exact = |at: usize| args[at].to_decimal();
    let int = |at: usize| args[at].as_int().unwrap_or(0);
    let scale = |scale: Option<u16>| scale.map_or(Datum::Null, |scale| Datum::Int(scale.into()));
    Ok(match func {
        Log => Datum::Numeric(exact(1).log(&exact(0), budget)?),
        Log10 => match &args[0] {
            Datum::Numeric(of) => Datum::Numeric(of.log(&Decimal::int(10), budget)?),
            of => logarithm(of.to_f64(), f64::log10)?,
        },
        Cbrt => Datum::Float(args[0].to_f64().cbrt()),
        Div => Datum::Numeric(exact(0).whole_quotient(&exact(1))?),
        Factorial => Datum::Numeric(Decimal::factorial(int(0), budget)?),
        Scale => scale(exact(0).scale()),
        LeastScale => scale(exact(0).least_scale()),
        TrimScale => Datum::Numeric(exact(0).trim()),
        Gcd | Lcm => {
            let (a, b) = (exact(0), exact(1));
            let found = if func == Gcd { a.gcd(&b, budget)? } else { a.lcm(&b, budget)? };
            match args[0] {
                Datum::Numeric(_) => Datum::Numeric(found),
                _ => Datum::Int(found.to_i64().ok_or_else(|| out_of_range(SqlType::Int8))?),
            }
        }
        Bucket => Datum::Int(match (&args[0], &args[1], &args[2]) {
            (Datum::Float(value), Datum::Float(from), Datum::Float(to)) => {
                binary_bucket(*value, *from, *to, int(3))?
            }
            _ => exact(0).bucket(&exact(1), &exact(2), int(3))?,
        }),
        BucketOf => Datum::Int(bucket_of(&args[0], &args[1], int(2), budget)?),
        ToChar { digits } => {
            let pattern = args[1].as_text().unwrap_or_default();
            budget.charge(32 * pattern.len() + 2 * crate::text::format_bytes(&args[0]))?;
            Datum::Text(number_patterns::show(&args[0], pattern, digits)?)
        }
        SamplePercent => return sample_percent(&args[0]),
        SampleNumber => return Ok(sample_number(&args[0], &args[1])),
        ToNumber => {
            let (text, pattern) = (args[0].as_text(), args[1].as_text());
            let (text, pattern) = (text.unwrap_or_default(), pattern.unwrap_or_default());
            budget.charge(32 * pattern.len() + 2 * text.len())?;
            number_patterns::read(text, pattern)?.map_or(Datum::Null, Datum::Numeric)
        }
    })
}

/// As [`Decimal::bucket`], of floats.
fn binary_bucket(value: f64, from: f64, to: f64, count: i64) -> Result<i64, SqlError> {
    let wrong = |message| Err(SqlError::new("2201G", message));
    if count <= 0 {
        return wrong("count must be greater than zero");
    }
    if value.is_nan() || from.is_nan() || to.is_nan() {
        return wrong("operand, lower bound, and upper bound cannot be NaN");
    }
    if from.is_infinite() || to.is_infinite() {
        return wrong("lower and upper bounds must be finite");
    }
    if from == to {
        return wrong("lower bound cannot equal upper bound");
    }
    let (is_before, is_behind) = match from < to {
        true => (value < from, value >= to),
        false => (value > from, value <= to),
    };
    if is_before || is_behind {
        return Ok(if is_before { 0 } else { count + 1 });
    }
    let share = match (to - from).is_finite() {
        true => (value - from) / (to - from),
        // The difference of the halves does not overflow.
        false => (value / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0),
    };
    Ok(((share * count as f64) as i64).min(count - 1) + 1)
}

/// How many thresholds of a sorted array are less than or equal to a value.
fn bucket_of(value: &Datum, array: &Datum, ty: i64, budget: &Budget) -> Result<i64, SqlError> {
    let ty = SqlType::numbered(ty).unwrap_or(SqlType::Text);
    let mut below = 0;
    for threshold in crate::array::values(array.as_text().unwrap_or("{}"), ty) {
        let threshold = threshold?;
        budget.tick(1)?;
        if threshold.is_null() {
            let message = "thresholds array must not contain NULLs";
            return Err(SqlError::new("22004", message));
        }
        below += i64::from(value.compare(&threshold).is_ge());
    }
    Ok(below)
}
