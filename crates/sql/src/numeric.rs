//! Exact numbers: a whole number and where the point is.
//!
//! Up to 38 digits; what would take more is an error, never a silent loss. The scale of a result
//! follows PostgreSQL: sums have the larger scale, products the sum of the scales, quotients at least
//! sixteen significant digits.

use crate::error::{SqlError, code};
use std::cmp::Ordering;
use std::fmt;

const SCALE_MAX: u8 = 38;
/// Quotients have this many significant digits at least.
const QUOTIENT_DIGITS: i32 = 16;

/// `mantissa` divided by ten to the `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// The digits.
    pub mantissa: i128,
    /// How many of them are after the point.
    pub scale: u8,
}

fn overflow() -> SqlError {
    SqlError::new(code::OUT_OF_RANGE, "value overflows numeric format: 38 digits are possible")
}

/// Digits whose negative is there as well.
fn even(mantissa: i128) -> Option<i128> {
    Some(mantissa).filter(|mantissa| *mantissa != i128::MIN)
}

fn power(exponent: u8) -> Option<i128> {
    10i128.checked_pow(u32::from(exponent))
}

impl Decimal {
    /// A whole number.
    pub fn int(value: i64) -> Decimal {
        Decimal { mantissa: i128::from(value), scale: 0 }
    }

    /// Reads digits, a sign, a point, an exponent.
    pub fn parse(text: &str) -> Option<Decimal> {
        let text = text.trim();
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let sign = if digits.starts_with('-') { "-" } else { "" };
        let mantissa: i128 = format!("{sign}{whole}{fraction}").parse().ok().and_then(even)?;
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if scale < 0 {
            let factor = power(u8::try_from(-scale).ok()?)?;
            let mantissa = mantissa.checked_mul(factor).and_then(even)?;
            return Some(Decimal { mantissa, scale: 0 });
        }
        let scale = u8::try_from(scale).ok().filter(|scale| *scale <= SCALE_MAX)?;
        Some(Decimal { mantissa, scale })
    }

    /// The nearest number with so many digits after the point; halves go away from zero.
    pub fn rescale(self, scale: u8) -> Result<Decimal, SqlError> {
        let mantissa = if scale >= self.scale {
            let factor = power(scale - self.scale).ok_or_else(overflow)?;
            self.mantissa.checked_mul(factor).and_then(even).ok_or_else(overflow)?
        } else {
            match power(self.scale - scale) {
                Some(divisor) => divide_rounded(self.mantissa, divisor),
                None => 0,
            }
        };
        Ok(Decimal { mantissa, scale })
    }

    /// The sum.
    pub fn plus(self, other: Decimal) -> Result<Decimal, SqlError> {
        let (a, b) = self.aligned(other)?;
        let sum = a.mantissa.checked_add(b.mantissa).and_then(even);
        let mantissa = sum.ok_or_else(overflow)?;
        Ok(Decimal { mantissa, scale: a.scale })
    }

    /// The difference.
    pub fn minus(self, other: Decimal) -> Result<Decimal, SqlError> {
        self.plus(other.negated())
    }

    /// The product.
    pub fn times(self, other: Decimal) -> Result<Decimal, SqlError> {
        let product = self.mantissa.checked_mul(other.mantissa).and_then(even);
        let mantissa = product.ok_or_else(overflow)?;
        let scale = self.scale + other.scale;
        let product = Decimal { mantissa, scale };
        if scale <= SCALE_MAX { Ok(product) } else { product.rescale(SCALE_MAX) }
    }

    /// The quotient.
    pub fn over(self, other: Decimal) -> Result<Decimal, SqlError> {
        if other.mantissa == 0 {
            return Err(SqlError::new(code::DIVISION_BY_ZERO, "division by zero"));
        }
        let weight = self.weight() - other.weight();
        // PostgreSQL counts in groups of four digits.
        let below = i32::from(self.first_group() <= other.first_group());
        let wanted = QUOTIENT_DIGITS - (weight.div_euclid(4) - below) * 4;
        let least = i32::from(self.scale.max(other.scale));
        let scale = wanted.max(least).clamp(0, i32::from(SCALE_MAX));
        // (a / 10^s) / (b / 10^t) with r digits is a * 10^(r + t - s) / b, a digit at a time, as the
        // product may have more digits than there is room for.
        let (a, b) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let shift = scale + i32::from(other.scale) - i32::from(self.scale);
        let (mut quotient, mut rest, mut digits) = (a / b, a % b, 0);
        while digits < shift {
            let next = rest.checked_mul(10).and_then(|rest| {
                let longer = quotient.checked_mul(10)?.checked_add(rest / b)?;
                i128::try_from(longer).ok().map(|_| (longer, rest % b))
            });
            let Some((longer, left)) = next else { break };
            (quotient, rest, digits) = (longer, left, digits + 1);
        }
        quotient += u128::from(rest >= b - rest && rest > 0);
        let scale = u8::try_from(scale - (shift - digits).max(0)).map_err(|_| overflow())?;
        let magnitude = i128::try_from(quotient).map_err(|_| overflow())?;
        let negative = (self.mantissa < 0) != (other.mantissa < 0);
        let quotient = Decimal { mantissa: if negative { -magnitude } else { magnitude }, scale };
        // A dividend with more digits than the result was divided as it is.
        if shift < 0 {
            let exact = Decimal { scale: (scale as i32 - shift) as u8, ..quotient };
            return exact.rescale(scale);
        }
        Ok(quotient)
    }

    /// The square root of a number that is not negative, with as many digits after the point as it has.
    pub fn root(self) -> Result<Decimal, SqlError> {
        // A digit for each two digits of the number, as on paper; it goes on for as many as are after the point.
        let digits = format!("{}{}", self.mantissa, "0".repeat(self.scale.into()));
        let digits = format!("{}{digits}", if digits.len() % 2 == 0 { "" } else { "0" });
        let (mut root, mut rest) = (0u128, 0u128);
        for pair in digits.as_bytes().chunks(2) {
            let pair = u128::from(pair[0] - b'0') * 10 + u128::from(pair[1] - b'0');
            rest = rest.checked_mul(100).ok_or_else(overflow)? + pair;
            let digit = (0..10).rev().find(|digit| (20 * root + digit) * digit <= rest);
            let digit = digit.unwrap_or(0);
            rest -= (20 * root + digit) * digit;
            root = root * 10 + digit;
        }
        root += u128::from(rest > root);
        let mantissa = i128::try_from(root).map_err(|_| overflow())?;
        Ok(Decimal { mantissa, scale: self.scale })
    }

    /// The remainder, with the sign of the dividend.
    pub fn modulo(self, other: Decimal) -> Result<Decimal, SqlError> {
        if other.mantissa == 0 {
            return Err(SqlError::new(code::DIVISION_BY_ZERO, "division by zero"));
        }
        let (a, b) = self.aligned(other)?;
        Ok(Decimal { mantissa: a.mantissa % b.mantissa, scale: a.scale })
    }

    /// The negative.
    pub fn negated(self) -> Decimal {
        Decimal { mantissa: -self.mantissa, scale: self.scale }
    }

    /// The nearest whole number, if it is one of 64 bits.
    pub fn to_i64(self) -> Option<i64> {
        i64::try_from(self.rescale(0).ok()?.mantissa).ok()
    }

    /// The nearest binary number.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The shortest decimal that is this binary number.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        // As PostgreSQL, fifteen digits.
        let text = format!("{value:.14e}");
        Decimal::parse(&text).map(Decimal::trim)
    }

    /// True if it has at most so many digits before the point.
    pub fn fits(self, precision: u8) -> bool {
        power(precision).is_none_or(|limit| self.mantissa.unsigned_abs() < limit.unsigned_abs())
    }

    /// Without zeros at the end.
    #[must_use]
    pub fn trim(mut self) -> Decimal {
        while self.scale > 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        self
    }

    fn aligned(self, other: Decimal) -> Result<(Decimal, Decimal), SqlError> {
        let scale = self.scale.max(other.scale);
        Ok((self.rescale(scale)?, other.rescale(scale)?))
    }

    /// How many groups of four digits are before the first one that is not zero, as PostgreSQL counts.
    fn weight(self) -> i32 {
        if self.mantissa == 0 {
            return 0;
        }
        let digits = self.digit_count() - i32::from(self.scale);
        (digits - 1).div_euclid(4) * 4
    }

    /// The first group of four digits.
    fn first_group(self) -> i128 {
        if self.mantissa == 0 {
            return 0;
        }
        let before = (self.digit_count() - i32::from(self.scale) - 1).rem_euclid(4) + 1;
        let drop = self.digit_count() - before;
        let magnitude = self.mantissa.abs();
        match u8::try_from(drop) {
            Ok(drop) => power(drop).map_or(0, |divisor| magnitude / divisor),
            Err(_) => u8::try_from(-drop).ok().and_then(power).map_or(0, |f| magnitude * f),
        }
    }

    fn digit_count(self) -> i32 {
        self.mantissa.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as i32 + 1)
    }
}

fn divide_rounded(numerator: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (numerator / divisor, numerator % divisor);
    let is_half = remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs();
    let away = if (numerator < 0) == (divisor < 0) { 1 } else { -1 };
    if is_half && remainder != 0 { quotient + away } else { quotient }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match self.aligned(*other) {
            Ok((a, b)) => a.mantissa.cmp(&b.mantissa),
            // One of them is too large to have the other's digits: whole parts tell.
            Err(_) => {
                let whole = |d: &Decimal| power(d.scale).map_or(0, |divisor| d.mantissa / divisor);
                whole(self).cmp(&whole(other))
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let digits = format!("{:0width$}", self.mantissa.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).expect("a number")
    }

    #[test]
    fn arithmetic_is_exact() {
        let cases = [
            ("0.10", "+", "0.2", "0.30"),
            ("1.50", "*", "1.50", "2.2500"),
            ("10", "/", "4", "2.5000000000000000"),
            ("1", "/", "3", "0.33333333333333333333"),
            ("2", "/", "3", "0.66666666666666666667"),
            ("100", "/", "3", "33.3333333333333333"),
            ("-7.5", "%", "2", "-1.5"),
            ("5", "-", "7.25", "-2.25"),
        ];
        for (a, op, b, result) in cases {
            let (a, b) = (decimal(a), decimal(b));
            let found = match op {
                "+" => a.plus(b),
                "-" => a.minus(b),
                "*" => a.times(b),
                "/" => a.over(b),
                _ => a.modulo(b),
            };
            assert_eq!(found.expect("it fits").to_string(), result, "{a} {op} {b}");
        }
    }

    #[test]
    fn roots_have_the_digits_of_their_squares() {
        for (square, root) in [
            ("2.0000000000000000", "1.4142135623730950"),
            ("81", "9"),
            ("0.25", "0.50"),
            ("8", "3"),
            ("6", "2"),
            ("0", "0"),
            ("12345678901234567890.12", "3513641828.82"),
        ] {
            assert_eq!(decimal(square).root().expect("it fits").to_string(), root, "{square}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let large = decimal("99999999999999999999999999999999999999");
        assert_eq!(large.times(large).unwrap_err().code, code::OUT_OF_RANGE);
        let least = i128::MIN.to_string();
        assert!(Decimal::parse(&least).is_none(), "its negative is none");
        assert_eq!(large.over(decimal("0")).unwrap_err().code, code::DIVISION_BY_ZERO);
        for text in ["", "-", ".", "1.2.3", "x", "1e", "1e999999999999", "1.5e-2147483648"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn numbers_of_different_scale_compare_by_value() {
        assert_eq!(decimal("1.50"), decimal("1.5"));
        assert!(decimal("-2") < decimal("-1.999"));
        assert_eq!(decimal("2.345").rescale(2).expect("it fits").to_string(), "2.35");
        assert_eq!(decimal("-2.345").rescale(2).expect("it fits").to_string(), "-2.35");
        assert_eq!(decimal("1.5e3").to_string(), "1500");
    }
}
