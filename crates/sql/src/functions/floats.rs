//! Functions of floats: trigonometric and hyperbolic ones.
//!
//! Those of degrees are scaled so that the angles that everyone knows have exact results, as in
//! PostgreSQL: `sind(30)` is 0.5.

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
    /// One of degrees.
    Degree(DegreeFunc),
    /// A `real` as the number that its six significant digits say, for `numeric`.
    SixDigits,
}

/// A trigonometric function of degrees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum DegreeFunc {
    Sin,
    Cos,
    Tan,
    Cot,
    Asin,
    Acos,
    Atan,
    Atan2,
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
            ("sind", 1) => Degree(DegreeFunc::Sin),
            ("cosd", 1) => Degree(DegreeFunc::Cos),
            ("tand", 1) => Degree(DegreeFunc::Tan),
            ("cotd", 1) => Degree(DegreeFunc::Cot),
            ("asind", 1) => Degree(DegreeFunc::Asin),
            ("acosd", 1) => Degree(DegreeFunc::Acos),
            ("atand", 1) => Degree(DegreeFunc::Atan),
            ("atan2d", 2) => Degree(DegreeFunc::Atan2),
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
        Degree(func) => of_degrees(func, x, number(1)),
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

/// The sine of an angle of up to 90 degrees.
fn sine(degrees: f64) -> f64 {
    match degrees <= 30.0 {
        true => degrees.to_radians().sin() / 30_f64.to_radians().sin() / 2.0,
        false => cosine(90.0 - degrees),
    }
}

/// The cosine of an angle of up to 90 degrees.
fn cosine(degrees: f64) -> f64 {
    if degrees > 60.0 {
        return sine(90.0 - degrees);
    }
    let missing = |degrees: f64| 1.0 - degrees.to_radians().cos();
    1.0 - missing(degrees) / missing(60.0) / 2.0
}

/// The angle of up to 90 degrees with this sine, which is positive.
fn angle_of_sine(sine: f64) -> f64 {
    match sine <= 0.5 {
        true => sine.asin() / 0.5_f64.asin() * 30.0,
        false => 90.0 - sine.acos() / 0.5_f64.acos() * 60.0,
    }
}

/// The angle of up to 90 degrees with this cosine, which is positive.
fn angle_of_cosine(cosine: f64) -> f64 {
    match cosine <= 0.5 {
        true => 90.0 - cosine.asin() / 0.5_f64.asin() * 30.0,
        false => cosine.acos() / 0.5_f64.acos() * 60.0,
    }
}

/// A function of degrees; NaN if there is no result.
fn of_degrees(func: DegreeFunc, x: f64, y: f64) -> f64 {
    // The angle of the first quadrant, and the signs there.
    let turned = (x % 360.0).abs();
    let (half, is_beyond) = if turned > 180.0 { (360.0 - turned, true) } else { (turned, false) };
    let (angle, is_left) = if half > 90.0 { (180.0 - half, true) } else { (half, false) };
    let sign = |is_minus: bool| if is_minus { -1.0 } else { 1.0 };
    let is_below = (x < 0.0) != is_beyond;
    let tangent = |angle: f64| sine(angle) / cosine(angle);
    let cotangent = |angle: f64| cosine(angle) / sine(angle);
    match func {
        DegreeFunc::Sin => sign(is_below) * sine(angle),
        DegreeFunc::Cos => sign(is_left) * cosine(angle),
        // 0 has no sign.
        DegreeFunc::Tan => sign(is_below != is_left) * (tangent(angle) / tangent(45.0)) + 0.0,
        DegreeFunc::Cot => sign(is_below != is_left) * (cotangent(angle) / cotangent(45.0)) + 0.0,
        DegreeFunc::Asin if x < 0.0 => -angle_of_sine(-x),
        DegreeFunc::Asin => angle_of_sine(x),
        DegreeFunc::Acos if x < 0.0 => 90.0 + angle_of_sine(-x),
        DegreeFunc::Acos => angle_of_cosine(x),
        DegreeFunc::Atan => x.atan() / 1_f64.atan() * 45.0,
        DegreeFunc::Atan2 => x.atan2(y) / 1_f64.atan() * 45.0,
    }
}
