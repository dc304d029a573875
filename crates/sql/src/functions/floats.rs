//! Functions of floats: trigonometric and hyperbolic ones.

use crate::datum::Datum;
use crate::error::{SqlError, code};

/// A function of zero, one or two floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum FloatFunc {
    Pi,
    Degrees,
    Radians,
    Sin,
    Cos,
    Tan,
    Cot,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    /// A `real` as the number that its six significant digits say, for `numeric`.
    SixDigits,
}

/// A number rounded to the six digits that a `real` has for certain: 1.1, not 1.10000002384186.
pub(crate) fn six_digits(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

impl FloatFunc {
    /// The function with this name and number of arguments.
    pub(crate) fn named(name: &str, args: usize) -> Option<FloatFunc> {
        use FloatFunc::*;
        Some(match (name, args) {
            ("pi", 0) => Pi,
            ("degrees", 1) => Degrees,
            ("radians", 1) => Radians,
            ("sin", 1) => Sin,
            ("cos", 1) => Cos,
            ("tan", 1) => Tan,
            ("cot", 1) => Cot,
            ("asin", 1) => Asin,
            ("acos", 1) => Acos,
            ("atan", 1) => Atan,
            ("atan2", 2) => Atan2,
            ("sinh", 1) => Sinh,
            ("cosh", 1) => Cosh,
            ("tanh", 1) => Tanh,
            ("asinh", 1) => Asinh,
            ("acosh", 1) => Acosh,
            ("atanh", 1) => Atanh,
            _ => return None,
        })
    }
}

/// # Errors
/// 22003 if there is no result.
pub(super) fn call(func: FloatFunc, args: &[Datum]) -> Result<Datum, SqlError> {
    use FloatFunc::*;
    let number = |at: usize| args.get(at).map_or(0.0, Datum::to_f64);
    let x = number(0);
    let result = match func {
        Pi => std::f64::consts::PI,
        Degrees => x.to_degrees(),
        Radians => x.to_radians(),
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Cot => x.tan().recip(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Atan2 => x.atan2(number(1)),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Tanh => x.tanh(),
        Asinh => x.asinh(),
        Acosh => x.acosh(),
        Atanh => x.atanh(),
        SixDigits => six_digits(x),
    };
    if result.is_nan() && !x.is_nan() && !number(1).is_nan() {
        return Err(SqlError::new(code::OUT_OF_RANGE, "input is out of range"));
    }
    if result.is_infinite() && matches!(func, Degrees | Radians) && x.is_finite() {
        return Err(SqlError::new(code::OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(Datum::Float(result))
}
