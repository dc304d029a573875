//! Roots, powers, logarithms, and functions of divisors.
//!
//! Irrational results are computed with more digits than are shown, and rounded once. Between a
//! number and its logarithm the computation is in *fixed point*: an integer number of units of
//! `2^-bits`.
//!
//! ```text
//!   exp x    x = n ln 2 + r       the series of r / 2^k, squared k times, shifted by n bits
//!   ln x     x = 2^k y            r, the root of y taken j times, is near 1:
//!                                 ln y = 2^j * 2 artanh((r - 1) / (r + 1))
//!   x ^ n    n an integer: squares and products, cut to the required digits and some more
//!   x ^ y    exp (y ln x)
//! ```
//!
//! The scale of a result follows PostgreSQL: sixteen significant digits, or the larger scale of the
//! arguments. For that the size of a result is estimated from its leading digits before it is
//! computed, which also detects results that are too large.

use super::big::{digit_count, divide_rounded, shifted_down, ten_to};
use super::{Decimal, ROUNDED_SCALE_MAX, SIGNIFICANT_DIGITS, WHOLE_DIGITS_MAX};
use super::{division_by_zero, infinity, overflow};
use crate::budget::Budget;
use crate::error::{SqlError, code};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::f64::consts::{LN_10, LOG2_10, LOG10_E};

/// The number of additional bits in computations.
const SPARE_BITS: u64 = 64;
/// Beyond this, `exp` has too many digits, or is shown as zero.
const EXPONENT_MAX: f64 = 6000.0;
/// The factorial of the next number has too many digits.
const FACTORIAL_MAX: i64 = 32_177;

fn failed(code: &'static str, message: &str) -> SqlError {
    SqlError::new(code, message)
}

/// A number of bits for this many digits, and some more.
fn bits_of(digits: i64) -> u64 {
    (digits.max(0) as f64 * LOG2_10) as u64 + SPARE_BITS
}

/// The scale of a result whose first digit is at this position.
fn shown_scale(place: i64, arguments: &[&Decimal]) -> i64 {
    let least = arguments.iter().map(|number| number.shown_scale()).max().unwrap_or(0);
    (SIGNIFICANT_DIGITS - place).max(least).clamp(0, ROUNDED_SCALE_MAX)
}

impl Decimal {
    /// The square root.
    ///
    /// # Errors
    /// 2201F of a negative number.
    pub fn root(&self, budget: &Budget) -> Result<Decimal, SqlError> {
        if self.signum() < 0 {
            return Err(failed("2201F", "cannot take square root of a negative number"));
        }
        // A group of four digits determines two of the root.
        let place = (self.first_group().0 + 1) * 2 - 1;
        self.root_to(shown_scale(place, &[self]), budget)
    }

    /// The square root of a nonnegative number, with `scale` digits behind the point.
    ///
    /// # Errors
    /// 57014 and similar if the statement was cancelled.
    pub(crate) fn root_to(&self, scale: i64, budget: &Budget) -> Result<Decimal, SqlError> {
        let Some((mantissa, own)) = self.long() else { return Ok(self.clone()) };
        let square = match 2 * scale - own {
            more @ 0.. => mantissa.as_ref() * ten_to(more),
            fewer => mantissa.as_ref() / ten_to(-fewer),
        };
        budget.tick(square.bits() as usize)?;
        let root = square.sqrt();
        let is_up = &square - &root * &root > root;
        Decimal::checked(if is_up { root + 1 } else { root }, scale)
    }

    /// `e` to the power of the number.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn exp(&self, budget: &Budget) -> Result<Decimal, SqlError> {
        let Some((mantissa, own)) = self.long() else {
            return Ok(if self.signum() < 0 { Decimal::int(0) } else { self.clone() });
        };
        let exponent = self.to_f64();
        let limit = 2.0 * ROUNDED_SCALE_MAX as f64;
        let place = (exponent * LOG10_E).clamp(-limit, limit) as i64;
        let scale = shown_scale(place, &[self]);
        let bits = bits_of(scale + place.max(0));
        let fixed = || Ok((mantissa.as_ref() << bits) / ten_to(own));
        exp_of(exponent, bits, fixed, scale, budget)
    }

    /// The natural logarithm.
    ///
    /// # Errors
    /// 2201E of a number that is not positive.
    pub fn ln(&self, budget: &Budget) -> Result<Decimal, SqlError> {
        self.check_logarithm()?;
        let Some((mantissa, own)) = self.long() else { return Ok(self.clone()) };
        let scale = shown_scale(self.logarithm_place(), &[self]);
        let bits = bits_of(scale);
        let found = ln_of(&mantissa, own, bits, budget)?;
        Decimal::checked(shifted_down(&(found * ten_to(scale)), bits), scale)
    }

    /// The logarithm to a base.
    ///
    /// # Errors
    /// 2201E of a number or a base that is not positive; 22012 to the base 1.
    pub fn log(&self, base: &Decimal, budget: &Budget) -> Result<Decimal, SqlError> {
        if self.is_nan() || base.is_nan() {
            return Ok(Decimal::NAN);
        }
        // The error for a negative operand takes precedence over the one for zero.
        for sign in [-1, 0] {
            if let Some(wrong) = [base, self].into_iter().find(|one| one.signum() == sign) {
                wrong.check_logarithm()?;
            }
        }
        let (Some((of, of_scale)), Some((by, by_scale))) = (self.long(), base.long()) else {
            return Ok(match (self.is_finite(), base.is_finite()) {
                (false, false) => Decimal::NAN,
                (true, _) => Decimal::int(0),
                (false, true) => Decimal::INFINITY,
            });
        };
        if *base == Decimal::int(1) {
            return Err(division_by_zero());
        }
        let place = self.logarithm_place() - base.logarithm_place();
        let scale = shown_scale(place, &[self, base]);
        // If the base is near 1, the first digit of its logarithm is far behind the point.
        let digits = scale + place.max(0) + 2 * base.logarithm_place().abs();
        let bits = bits_of(digits + SIGNIFICANT_DIGITS);
        let (of, by) = (ln_of(&of, of_scale, bits, budget)?, ln_of(&by, by_scale, bits, budget)?);
        let (of, by) = if by.is_negative() { (-of, -by) } else { (of, by) };
        Decimal::checked(divide_rounded(&(of * ten_to(scale)), &by), scale)
    }

    fn check_logarithm(&self) -> Result<(), SqlError> {
        match self.signum() {
            1 => Ok(()),
            0 => Err(failed("2201E", "cannot take logarithm of zero")),
            _ => Err(failed("2201E", "cannot take logarithm of a negative number")),
        }
    }

    /// The approximate position of the first digit of a logarithm.
    fn logarithm_place(&self) -> i64 {
        let one = Decimal::int(1);
        let is_near = *self >= Decimal::new(9, 1) && *self <= Decimal::new(11, 1);
        if is_near {
            let distance = self.minus(&one).unwrap_or(one);
            if distance.is_zero() {
                return 0;
            }
            return distance.digit_count() - distance.shown_scale() - 1;
        }
        self.estimated_ln().abs().log10() as i64
    }

    /// The logarithm of a positive number, with the precision of a float.
    fn estimated_ln(&self) -> f64 {
        const LEADING: i64 = 17;
        let count = self.digit_count();
        let leading = self.leading(LEADING, count) as f64;
        leading.ln() + (count - LEADING - self.shown_scale()) as f64 * LN_10
    }

    /// The number to a power.
    ///
    /// # Errors
    /// 2201F where it is undefined; 22003 if it has too many digits.
    pub fn power(&self, exponent: &Decimal, budget: &Budget) -> Result<Decimal, SqlError> {
        let one = Decimal::int(1);
        // Any value to the power of zero is 1, and so is 1 to any power.
        if self.is_nan() || exponent.is_nan() {
            return Ok(if exponent.is_zero() || *self == one { one } else { Decimal::NAN });
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(failed("2201F", "zero raised to a negative power is undefined"));
        }
        if self.signum() < 0 && !exponent.is_whole() {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(failed("2201F", message));
        }
        if !self.is_finite() || !exponent.is_finite() {
            return Ok(self.infinite_power(exponent));
        }
        let whole = exponent.to_i64().and_then(|whole| i32::try_from(whole).ok());
        match whole.filter(|_| exponent.is_whole()) {
            Some(whole) => self.whole_power(whole, budget),
            None => self.broken_power(exponent, budget),
        }
    }

    /// A power in which an operand is an infinity, and none is NaN.
    fn infinite_power(&self, exponent: &Decimal) -> Decimal {
        let one = Decimal::int(1);
        if *self == one || exponent.is_zero() {
            return one;
        }
        if self.is_zero() {
            return Decimal::int(0);
        }
        if !exponent.is_finite() {
            let size = self.abs();
            return match size == one {
                true => one,
                false if (size > one) == (exponent.signum() > 0) => Decimal::INFINITY,
                false => Decimal::int(0),
            };
        }
        match exponent.signum() > 0 {
            false => Decimal::int(0),
            true => infinity(if exponent.is_odd() { self.signum() } else { 1 }),
        }
    }

    fn is_odd(&self) -> bool {
        self.long().is_some_and(|(mantissa, scale)| {
            let (whole, rest) = mantissa.div_rem(&ten_to(scale));
            rest.is_zero() && whole.is_odd()
        })
    }

    /// A power with an integer exponent.
    fn whole_power(&self, exponent: i32, budget: &Budget) -> Result<Decimal, SqlError> {
        let scale = self.shown_scale().clamp(SIGNIFICANT_DIGITS, ROUNDED_SCALE_MAX);
        match exponent {
            0 => return Decimal::int(1).rescale(scale),
            1 => return self.rescale(scale),
            _ if self.is_zero() => return Decimal::int(0).rescale(scale),
            -1 => return Decimal::int(1).divided(self, scale, true),
            _ => {}
        }
        let place = self.abs().estimated_ln() * LOG10_E * f64::from(exponent);
        if place > WHOLE_DIGITS_MAX as f64 {
            return Err(overflow());
        }
        if place + 1.0 < -scale as f64 {
            return Decimal::int(0).rescale(scale);
        }
        // Each product may be wrong in its last digit, and these errors add up.
        let wanted = (scale + place as i64).max(0) + 2 + 20;
        let (digits, tens) = self.product(exponent.unsigned_abs(), wanted, budget)?;
        let power = match (exponent > 0, tens + scale) {
            (true, more @ 0..) => digits * ten_to(more),
            (true, fewer) => divide_rounded(&digits, &ten_to(-fewer)),
            (false, _) => {
                // 10^scale / (digits * 10^tens)
                let (up, down) = (scale - tens.min(0), tens.max(0));
                let unit = divide_rounded(&ten_to(up), &(digits.abs() * ten_to(down)));
                if digits.is_negative() { -unit } else { unit }
            }
        };
        Decimal::checked(power, scale)
    }

    /// The number to the power of `times`, with `wanted` correct digits: the digits, and their
    /// exponent of ten.
    fn product(
        &self,
        mut times: u32,
        wanted: i64,
        budget: &Budget,
    ) -> Result<(BigInt, i64), SqlError> {
        let (mantissa, scale) = self.long().ok_or_else(overflow)?;
        let cut = |(digits, tens): (BigInt, i64)| match digit_count(&digits) - wanted {
            more @ 1.. => (digits / ten_to(more), tens + more),
            _ => (digits, tens),
        };
        let mut square = cut((mantissa.into_owned(), -scale));
        let mut result = (BigInt::one(), 0);
        while times > 0 {
            if times % 2 == 1 {
                result = cut((result.0 * &square.0, result.1 + square.1));
            }
            times /= 2;
            if times > 0 {
                square = cut((&square.0 * &square.0, 2 * square.1));
            }
            budget.tick(square.0.bits() as usize * 4)?;
        }
        Ok(result)
    }

    /// A power with an exponent that is not an integer, or is very large.
    fn broken_power(&self, exponent: &Decimal, budget: &Budget) -> Result<Decimal, SqlError> {
        if self.is_zero() {
            return Decimal::int(0).rescale(SIGNIFICANT_DIGITS);
        }
        let size = self.abs();
        let estimate = size.estimated_exponent(exponent, budget)?;
        if estimate.abs() >= EXPONENT_MAX {
            return match estimate > 0.0 {
                true => Err(overflow()),
                false => Decimal::int(0).rescale(ROUNDED_SCALE_MAX),
            };
        }
        let place = (estimate * LOG10_E) as i64;
        let scale = shown_scale(place, &[self, exponent]);
        let bits = bits_of(scale + place.max(0));
        let (by, by_scale) = exponent.long().ok_or_else(overflow)?;
        let (mantissa, own) = size.long().ok_or_else(overflow)?;
        // The error of the logarithm is multiplied as well.
        let more = bits + by.bits();
        let ln = ln_of(&mantissa, own, more, budget)?;
        let fixed = || Ok(((ln * by.as_ref()) / ten_to(by_scale)) >> (more - bits));
        let power = exp_of(estimate, bits, fixed, scale, budget)?;
        Ok(if self.signum() < 0 && exponent.is_odd() { power.negated() } else { power })
    }

    /// The exponent of `e` for a power, as a float: the logarithm, even of numbers near 1, times
    /// the exponent.
    fn estimated_exponent(&self, exponent: &Decimal, budget: &Budget) -> Result<f64, SqlError> {
        if *self == Decimal::int(1) {
            return Ok(0.0);
        }
        let place = self.logarithm_place();
        if place >= 0 {
            return Ok(self.estimated_ln() * exponent.to_f64());
        }
        // One operand may be below, and the other above, the range of floats.
        let (mantissa, scale) = self.long().ok_or_else(overflow)?;
        let (by, by_scale) = exponent.long().ok_or_else(overflow)?;
        let bits = bits_of(SIGNIFICANT_DIGITS - place);
        let product = ln_of(&mantissa, scale, bits, budget)? * by.as_ref();
        let spare = product.bits().saturating_sub(60);
        let leading = (&product >> spare).to_f64().unwrap_or(0.0);
        let twos = (spare as f64 - bits as f64) * std::f64::consts::LOG10_2;
        let size = leading.abs().log10() + twos - by_scale as f64;
        Ok(10f64.powf(size).copysign(leading))
    }

    /// The greatest common divisor.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn gcd(&self, other: &Decimal, budget: &Budget) -> Result<Decimal, SqlError> {
        let Some((a, b, scale)) = self.aligned(other) else { return Ok(Decimal::NAN) };
        Decimal::checked(divisor(a.abs(), b.abs(), budget)?, scale)
    }

    /// The least common multiple.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn lcm(&self, other: &Decimal, budget: &Budget) -> Result<Decimal, SqlError> {
        let Some((a, b, scale)) = self.aligned(other) else { return Ok(Decimal::NAN) };
        if a.is_zero() || b.is_zero() {
            return Decimal::checked(BigInt::ZERO, scale);
        }
        let common = divisor(a.abs(), b.abs(), budget)?;
        Decimal::checked((a.as_ref() / common * b.as_ref()).abs(), scale)
    }

    /// `1 * 2 * .. * number`
    ///
    /// # Errors
    /// 22003 of a negative number, and if it has too many digits.
    pub fn factorial(number: i64, budget: &Budget) -> Result<Decimal, SqlError> {
        if number < 0 {
            let message = "factorial of a negative number is undefined";
            return Err(failed(code::OUT_OF_RANGE, message));
        }
        if number > FACTORIAL_MAX {
            return Err(overflow());
        }
        let mut product = BigInt::one();
        for factor in 2..=number {
            product *= factor;
            budget.tick(1 + product.bits() as usize / 64)?;
        }
        Decimal::checked(product, 0)
    }

    /// Its scale without trailing zeros, if it is finite.
    pub fn least_scale(&self) -> Option<u16> {
        self.trim().scale()
    }

    /// The number, from 1, of the part that it is in, of `count` parts of equal size between two
    /// bounds. It is 0 before the bounds and `count + 1` behind them.
    ///
    /// # Errors
    /// 2201G for invalid bounds or counts.
    pub fn bucket(&self, from: &Decimal, to: &Decimal, count: i64) -> Result<i64, SqlError> {
        let wrong = |message| Err(failed("2201G", message));
        if count <= 0 {
            return wrong("count must be greater than zero");
        }
        if self.is_nan() || from.is_nan() || to.is_nan() {
            return wrong("operand, lower bound, and upper bound cannot be NaN");
        }
        if !from.is_finite() || !to.is_finite() {
            return wrong("lower and upper bounds must be finite");
        }
        if from == to {
            return wrong("lower bound cannot equal upper bound");
        }
        let (is_before, is_behind) = match from < to {
            true => (self < from, self >= to),
            false => (self > from, self <= to),
        };
        if is_before || is_behind {
            return Ok(if is_before { 0 } else { count + 1 });
        }
        let share = self.minus(from)?.times(&Decimal::int(count))?;
        let part = share.whole_quotient(&to.minus(from)?)?;
        Ok(part.to_i64().unwrap_or(0).min(count - 1) + 1)
    }
}

/// The greatest common divisor, by Euclid.
fn divisor(mut a: BigInt, mut b: BigInt, budget: &Budget) -> Result<BigInt, SqlError> {
    while !b.is_zero() {
        budget.tick(1 + b.bits() as usize / 16)?;
        let rest = &a % &b;
        (a, b) = (b, rest);
    }
    Ok(a)
}

/// `e` to the power of `fixed`, in units of `2^-bits`, which is about `estimate`; with `scale`
/// digits behind the point.
fn exp_of(
    estimate: f64,
    bits: u64,
    fixed: impl FnOnce() -> Result<BigInt, SqlError>,
    scale: i64,
    budget: &Budget,
) -> Result<Decimal, SqlError> {
    if estimate >= EXPONENT_MAX {
        return Err(overflow());
    }
    if estimate <= -EXPONENT_MAX {
        return Decimal::int(0).rescale(scale);
    }
    let halvings = bits.isqrt() / 2;
    let work = bits + 2 * halvings + SPARE_BITS;
    let number = fixed()? << (work - bits);
    let two = ln_two(work, budget)?;
    let (shift, rest) = number.div_mod_floor(&two);
    let part = rest >> halvings;
    let one = BigInt::one() << work;
    let (mut sum, mut term, mut at) = (one.clone(), one, 1u32);
    while !term.is_zero() {
        budget.tick(work as usize / 8)?;
        term = ((term * &part) >> work) / at;
        sum += &term;
        at += 1;
    }
    for _ in 0..halvings {
        budget.tick(work as usize / 8)?;
        sum = (&sum * &sum) >> work;
    }
    let shift = shift.to_i64().unwrap_or(0);
    let digits = sum * ten_to(scale);
    match work as i64 - shift {
        down @ 0.. => Decimal::checked(shifted_down(&digits, down as u64), scale),
        up => Decimal::checked(digits << (-up) as u64, scale),
    }
}

/// The logarithm of a positive number, in units of `2^-bits`.
fn ln_of(mantissa: &BigInt, scale: i64, bits: u64, budget: &Budget) -> Result<BigInt, SqlError> {
    let roots = bits.isqrt() / 3 + 4;
    let work = bits + 2 * roots + SPARE_BITS;
    let unit = ten_to(scale);
    // 2^k is near the number.
    let k = mantissa.bits() as i64 - unit.bits() as i64;
    let shift = work as i64 - k;
    let one = BigInt::one() << work;
    let mut near = match shift {
        0.. => (mantissa << shift as u64) / &unit,
        _ => mantissa / (&unit << (-shift) as u64),
    };
    for _ in 0..roots {
        budget.tick(work as usize)?;
        near = (near << work).sqrt();
    }
    let part = ((&near - &one) << work) / (&near + &one);
    let squared = (&part * &part) >> work;
    let (mut sum, mut power, mut at) = (part.clone(), part, 3u32);
    while power.bits() > 1 {
        budget.tick(work as usize / 8)?;
        power = (power * &squared) >> work;
        sum += &power / at;
        at += 2;
    }
    let logarithm = (sum << (roots + 1)) + ln_two(work, budget)? * k;
    Ok(logarithm >> (work - bits))
}

/// The logarithm of 2 in units of `2^-bits`: `18 artanh 1/26 - 2 artanh 1/4801 + 8 artanh 1/8749`.
fn ln_two(bits: u64, budget: &Budget) -> Result<BigInt, SqlError> {
    let mut sum = BigInt::ZERO;
    for (factor, by) in [(18, 26u32), (-2, 4801), (8, 8749)] {
        let mut power = (BigInt::one() << (bits + 16)) / by;
        let (mut artanh, mut at) = (power.clone(), 3u32);
        while !power.is_zero() {
            budget.tick(1 + bits as usize / 64)?;
            power /= by * by;
            artanh += &power / at;
            at += 2;
        }
        sum += artanh * factor;
    }
    Ok(sum >> 16u8)
}
