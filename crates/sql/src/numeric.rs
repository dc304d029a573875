//! Exact numbers, with up to 131,072 digits before the point and 16,383 behind it, as in
//! PostgreSQL.
//!
//! ```text
//!   1.50            150, scale 2            fits an i128: no allocation, and machine arithmetic
//!   10^40 + 0.5     a BigInt, scale 1       the mantissa of all others, shared and immutable
//!   -Infinity < all of these < Infinity < NaN = NaN
//! ```
//!
//! A number is its digits and the position of the point: 1.5 and 1.50 are equal, but are shown
//! differently. Each number has one representation: digits that fit into an `i128` are never a
//! `BigInt`, so equal numbers without trailing zeros are represented alike. Each operation tries
//! the short form, and uses the long one where that overflows (`big.rs`); results go back to the
//! short form where they fit.
//!
//! **Scales** follow PostgreSQL: sums have the larger one, products the sum of both, quotients at
//! least sixteen significant digits. Those of roots, powers and logarithms are chosen where they
//! are computed (`functions.rs`).
//!
//! **Costs.** An operation takes milliseconds at most, except those that take a
//! [budget](crate::budget): they check regularly whether the statement was cancelled. Memory is
//! charged by the code that keeps a number ([`Decimal::heap_bytes`]), or before a text is read
//! ([`read_bytes`]).

mod big;
mod functions;
mod groups;

use crate::error::{SqlError, code};
use big::{divide_rounded, ten_to};
use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The largest number of digits before the point.
pub const WHOLE_DIGITS_MAX: i64 = 131_072;
/// The largest number of digits behind the point.
pub const SCALE_MAX: u16 = 16_383;
/// The minimal number of significant digits in rounded results.
const SIGNIFICANT_DIGITS: i64 = 16;
const ROUNDED_SCALE_MAX: i64 = 1000;

/// An exact number, an infinity, or NaN.
#[derive(Clone, Debug)]
pub struct Decimal(Shape);

#[derive(Clone, Debug)]
enum Shape {
    /// Digits whose negative also fits, and how many of them are behind the point.
    Short(i128, u16),
    Long(Arc<Long>),
    Special(Special),
}

#[derive(Debug)]
struct Long {
    mantissa: BigInt,
    scale: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Special {
    MinusInfinity,
    Infinity,
    Nan,
}

/// Why a text cannot be read as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It is not a number.
    Syntax,
    /// It has too many digits.
    Overflow,
}

pub(crate) fn overflow() -> SqlError {
    SqlError::new(code::OUT_OF_RANGE, "value overflows numeric format")
}

fn division_by_zero() -> SqlError {
    SqlError::new(code::DIVISION_BY_ZERO, "division by zero")
}

/// Digits, if their negative also fits.
fn even(mantissa: i128) -> Option<i128> {
    Some(mantissa).filter(|mantissa| *mantissa != i128::MIN)
}

fn power(exponent: i64) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// Estimates the memory of a number that is read from a text.
pub fn read_bytes(text: &str) -> usize {
    let exponent = text.rsplit_once(['e', 'E']).and_then(|(_, digits)| digits.parse::<i64>().ok());
    let zeros = exponent.map_or(0, |exponent| exponent.unsigned_abs().min(WHOLE_DIGITS_MAX as u64));
    if text.len() + zeros as usize <= 38 { 0 } else { 2 * text.len() + zeros as usize }
}

impl Decimal {
    /// Not a number: it is greater than all others, and equal to itself.
    pub const NAN: Decimal = Decimal(Shape::Special(Special::Nan));
    /// More than any number.
    pub const INFINITY: Decimal = Decimal(Shape::Special(Special::Infinity));
    /// Less than any number.
    pub const MINUS_INFINITY: Decimal = Decimal(Shape::Special(Special::MinusInfinity));

    /// An integer.
    pub fn int(value: i64) -> Decimal {
        Decimal(Shape::Short(value.into(), 0))
    }

    /// A number with these digits, of which `scale` are behind the point.
    pub fn new(mantissa: i128, scale: u16) -> Decimal {
        match even(mantissa) {
            Some(mantissa) => Decimal(Shape::Short(mantissa, scale)),
            None => Decimal(Shape::Long(Arc::new(Long { mantissa: mantissa.into(), scale }))),
        }
    }

    /// A number in the form that fits its digits.
    fn of(mantissa: BigInt, scale: u16) -> Decimal {
        match mantissa.to_i128().and_then(even) {
            Some(mantissa) => Decimal(Shape::Short(mantissa, scale)),
            None => Decimal(Shape::Long(Arc::new(Long { mantissa, scale }))),
        }
    }

    /// As [`Decimal::of`], with a check of the number of digits.
    fn checked(mantissa: BigInt, scale: i64) -> Result<Decimal, SqlError> {
        let scale = u16::try_from(scale).map_err(|_| overflow())?;
        Decimal::of(mantissa, scale).within()
    }

    /// Its digits in the long form, if it is finite.
    fn long(&self) -> Option<(Cow<'_, BigInt>, i64)> {
        match &self.0 {
            Shape::Short(mantissa, scale) => {
                Some((Cow::Owned((*mantissa).into()), (*scale).into()))
            }
            Shape::Long(long) => Some((Cow::Borrowed(&long.mantissa), long.scale.into())),
            Shape::Special(_) => None,
        }
    }

    fn special(&self) -> Option<Special> {
        if let Shape::Special(special) = self.0 { Some(special) } else { None }
    }

    /// True for NaN.
    pub fn is_nan(&self) -> bool {
        self.special() == Some(Special::Nan)
    }

    /// True unless it is an infinity or NaN.
    pub fn is_finite(&self) -> bool {
        self.special().is_none()
    }

    /// True for zero.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Shape::Short(0, _))
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i64 {
        match &self.0 {
            Shape::Short(mantissa, _) => mantissa.signum() as i64,
            Shape::Long(long) if long.mantissa.is_negative() => -1,
            Shape::Special(Special::MinusInfinity) => -1,
            Shape::Long(_) | Shape::Special(_) => 1,
        }
    }

    /// The number of digits behind the point, if it is finite.
    pub fn scale(&self) -> Option<u16> {
        match &self.0 {
            Shape::Short(_, scale) => Some(*scale),
            Shape::Long(long) => Some(long.scale),
            Shape::Special(_) => None,
        }
    }

    fn shown_scale(&self) -> i64 {
        self.scale().unwrap_or(0).into()
    }

    /// The memory it takes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Shape::Long(long) => size_of::<Long>() + 16 + long.mantissa.bits() as usize / 8 + 8,
            _ => 0,
        }
    }

    /// The largest length of its text.
    pub fn text_bytes(&self) -> usize {
        let scale = usize::from(self.scale().unwrap_or(0));
        match &self.0 {
            Shape::Long(long) => long.mantissa.bits() as usize / 3 + scale + 4,
            _ => 42 + scale,
        }
    }

    /// Its digits with this scale, if no digits are lost and they fit into 128 bits.
    pub fn mantissa(&self, scale: u16) -> Option<i128> {
        match self.0 {
            Shape::Short(mantissa, own) if own == scale => Some(mantissa),
            _ => match self.rescale(scale.into()).ok()? {
                same @ Decimal(Shape::Short(mantissa, _)) if same == *self => Some(mantissa),
                _ => None,
            },
        }
    }

    /// Reads digits, a sign, a point, an exponent; and the words for the infinities and NaN.
    pub fn parse(text: &str) -> Option<Decimal> {
        Decimal::read(text).ok()
    }

    /// As [`Decimal::parse`], with the reason of a failure.
    ///
    /// # Errors
    /// The text is not a number, or has too many digits.
    pub fn read(text: &str) -> Result<Decimal, Unreadable> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return special_named(text).ok_or(Unreadable::Syntax);
        }
        let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, read_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return Err(Unreadable::Syntax);
        }
        let scale = fraction.len() as i64 - exponent;
        let number = of_digits(whole, fraction, scale).ok_or(Unreadable::Overflow)?;
        Ok(if text.starts_with('-') { number.negated() } else { number })
    }

    /// The nearest number with `scale` digits behind the point; a negative scale rounds digits
    /// before the point. Halves are rounded away from zero.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn rescale(&self, scale: i64) -> Result<Decimal, SqlError> {
        self.cut(scale, true)
    }

    /// As [`Decimal::rescale`], towards zero.
    ///
    /// # Errors
    /// As for [`Decimal::rescale`].
    pub fn truncate(&self, scale: i64) -> Result<Decimal, SqlError> {
        self.cut(scale, false)
    }

    fn cut(&self, scale: i64, is_rounded: bool) -> Result<Decimal, SqlError> {
        if let Shape::Short(mantissa, own) = self.0
            && let Ok(shown) = u16::try_from(scale)
            && let Some(found) = cut_short(mantissa, i64::from(own) - scale, is_rounded)
            && shown <= SCALE_MAX
        {
            return Ok(Decimal(Shape::Short(found, shown)));
        }
        let Some((mantissa, own)) = self.long() else { return Ok(self.clone()) };
        let drop = own - scale;
        let shown = scale.max(0);
        if shown > SCALE_MAX.into() {
            return Err(overflow());
        }
        if drop <= 0 {
            return Decimal::checked(mantissa.as_ref() * ten_to(-drop), shown);
        }
        // A number with fewer digits than are dropped is less than half a unit.
        if big::digit_count(&mantissa) < drop {
            return Decimal::checked(BigInt::ZERO, shown);
        }
        let unit = ten_to(drop);
        let kept = match is_rounded {
            true => divide_rounded(&mantissa, &unit),
            false => mantissa.as_ref() / unit,
        };
        Decimal::checked(if scale < 0 { kept * ten_to(-scale) } else { kept }, shown)
    }

    /// The greatest integer that is not above it.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn floor(&self) -> Result<Decimal, SqlError> {
        let whole = self.truncate(0)?;
        if whole > *self { whole.minus(&Decimal::int(1)) } else { Ok(whole) }
    }

    /// The least integer that is not below it.
    ///
    /// # Errors
    /// As for [`Decimal::floor`].
    pub fn ceil(&self) -> Result<Decimal, SqlError> {
        Ok(self.negated().floor()?.negated())
    }

    /// The sum.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn plus(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.plus_wide(other).within()
    }

    /// The sum without a limit of digits: for intermediate results.
    pub(crate) fn plus_wide(&self, other: &Decimal) -> Decimal {
        if let (Shape::Short(a, s), Shape::Short(b, t)) = (&self.0, &other.0)
            && let Some((a, b)) = aligned_short((*a, *s), (*b, *t))
            && let Some(sum) = a.checked_add(b).and_then(even)
        {
            return Decimal(Shape::Short(sum, *s.max(t)));
        }
        match self.aligned(other) {
            Some((a, b, scale)) => Decimal::of(a.as_ref() + b.as_ref(), scale as u16),
            None => match (self.special(), other.special()) {
                (Some(Special::Nan), _) | (_, Some(Special::Nan)) => Decimal::NAN,
                (Some(a), Some(b)) if a != b => Decimal::NAN,
                (Some(_), _) => self.clone(),
                _ => other.clone(),
            },
        }
    }

    /// The number, if it is within the limit of digits.
    fn within(self) -> Result<Decimal, SqlError> {
        match &self.0 {
            Shape::Short(_, scale) if *scale > SCALE_MAX => Err(overflow()),
            Shape::Long(long) if has_too_many_digits(&long.mantissa, long.scale) => Err(overflow()),
            _ => Ok(self),
        }
    }

    /// The difference.
    ///
    /// # Errors
    /// As for [`Decimal::plus`].
    pub fn minus(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.plus(&other.negated())
    }

    /// The product.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn times(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        let product = self.times_wide(other);
        match product.scale() {
            Some(scale) if scale > SCALE_MAX => product.rescale(SCALE_MAX.into()),
            _ => product.within(),
        }
    }

    /// The product, as [`Decimal::plus_wide`].
    pub(crate) fn times_wide(&self, other: &Decimal) -> Decimal {
        if let (Shape::Short(a, s), Shape::Short(b, t)) = (&self.0, &other.0)
            && let Some(product) = a.checked_mul(*b).and_then(even)
        {
            return Decimal(Shape::Short(product, s + t));
        }
        let (Some((a, s)), Some((b, t))) = (self.long(), other.long()) else {
            let is_nan = self.is_nan() || other.is_nan() || self.is_zero() || other.is_zero();
            return if is_nan { Decimal::NAN } else { infinity(self.signum() * other.signum()) };
        };
        Decimal::of(a.as_ref() * b.as_ref(), (s + t) as u16)
    }

    /// The quotient.
    ///
    /// # Errors
    /// 22012; 22003 if it has too many digits.
    pub fn over(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        match self.special_quotient(other)? {
            Some(found) => Ok(found),
            None => self.divided(other, self.quotient_scale(other), true),
        }
    }

    /// The integer part of the quotient.
    ///
    /// # Errors
    /// As for [`Decimal::over`].
    pub fn whole_quotient(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        match self.special_quotient(other)? {
            Some(found) => Ok(found),
            None => self.divided(other, 0, false),
        }
    }

    /// The quotient if one of the operands is an infinity or NaN.
    fn special_quotient(&self, other: &Decimal) -> Result<Option<Decimal>, SqlError> {
        Ok(match (self.special(), other.special()) {
            (Some(Special::Nan), _) | (_, Some(Special::Nan)) => Some(Decimal::NAN),
            (_, None) if other.is_zero() => return Err(division_by_zero()),
            (None, None) => None,
            (Some(_), Some(_)) => Some(Decimal::NAN),
            (Some(_), None) => Some(infinity(self.signum() * other.signum())),
            (None, Some(_)) => Some(Decimal::int(0)),
        })
    }

    /// The scale of a quotient.
    fn quotient_scale(&self, other: &Decimal) -> i64 {
        let ((weight, first), (by, first_by)) = (self.first_group(), other.first_group());
        // PostgreSQL counts in groups of four digits.
        let weight = weight - by - i64::from(first <= first_by);
        let least = self.shown_scale().max(other.shown_scale());
        (SIGNIFICANT_DIGITS - weight * 4).max(least).clamp(0, ROUNDED_SCALE_MAX)
    }

    /// The quotient of two numbers, the second of which is not zero.
    fn divided(&self, by: &Decimal, scale: i64, is_rounded: bool) -> Result<Decimal, SqlError> {
        // (a / 10^s) / (b / 10^t) with r digits is a * 10^(r + t - s) / b.
        let shift = scale + by.shown_scale() - self.shown_scale();
        if let (Shape::Short(a, _), Shape::Short(b, _)) = (&self.0, &by.0)
            && let Some(a) = power(shift).and_then(|unit| a.checked_mul(unit))
            && let Some(quotient) = even(a / b)
        {
            let rest = (a % b).unsigned_abs();
            let is_up = is_rounded && rest > 0 && rest >= b.unsigned_abs() - rest;
            let away = if (a < 0) == (*b < 0) { 1 } else { -1 };
            let quotient = if is_up { quotient + away } else { quotient };
            return Ok(Decimal::new(quotient, scale as u16));
        }
        let (Some((a, _)), Some((b, _))) = (self.long(), by.long()) else {
            return Ok(Decimal::NAN);
        };
        let (a, b) = match shift {
            0.. => (Cow::Owned(a.as_ref() * ten_to(shift)), b),
            _ => (a, Cow::Owned(b.as_ref() * ten_to(-shift))),
        };
        let is_negative = a.is_negative() != b.is_negative();
        let (a, b) = (a.abs(), b.abs());
        let quotient = if is_rounded { divide_rounded(&a, &b) } else { a / b };
        Decimal::checked(if is_negative { -quotient } else { quotient }, scale)
    }

    /// The remainder, with the sign of the dividend.
    ///
    /// # Errors
    /// 22012; 22003 if it has too many digits.
    pub fn modulo(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        if let (Shape::Short(a, s), Shape::Short(b, t)) = (&self.0, &other.0)
            && let Some((a, b)) = aligned_short((*a, *s), (*b, *t))
            && let Some(rest) = a.checked_rem(b)
        {
            return Ok(Decimal(Shape::Short(rest, *s.max(t))));
        }
        match self.special_quotient(other)? {
            Some(_) if self.is_finite() && !other.is_nan() => Ok(self.clone()),
            Some(_) => Ok(Decimal::NAN),
            None => {
                let (a, b, scale) = self.aligned(other).ok_or_else(overflow)?;
                Decimal::checked(a.as_ref() % b.as_ref(), scale)
            }
        }
    }

    /// The negative.
    #[must_use]
    pub fn negated(&self) -> Decimal {
        match &self.0 {
            Shape::Short(mantissa, scale) => Decimal(Shape::Short(-mantissa, *scale)),
            Shape::Long(long) => Decimal::of(-&long.mantissa, long.scale),
            Shape::Special(Special::Nan) => Decimal::NAN,
            Shape::Special(_) => infinity(-self.signum()),
        }
    }

    /// The absolute value.
    #[must_use]
    pub fn abs(&self) -> Decimal {
        if self.signum() < 0 { self.negated() } else { self.clone() }
    }

    /// True for integers and infinities.
    pub fn is_whole(&self) -> bool {
        !self.is_nan() && self.trim().shown_scale() == 0
    }

    /// The nearest integer, if it fits into 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.rescale(0).ok()?.0 {
            Shape::Short(mantissa, _) => i64::try_from(mantissa).ok(),
            _ => None,
        }
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The decimal of a float.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        if !value.is_finite() {
            return Some(if value.is_nan() {
                Decimal::NAN
            } else {
                infinity(value.signum() as i64)
            });
        }
        // As in PostgreSQL, fifteen digits.
        let text = format!("{value:.14e}");
        Decimal::parse(&text).map(|number| number.trim())
    }

    /// True if it has at most `most` digits before the point; if `most` is negative, it must be
    /// below that power of ten.
    pub fn has_whole_digits(&self, most: i64) -> bool {
        self.is_zero() || self.digit_count() - self.shown_scale() <= most
    }

    /// Without trailing zeros.
    #[must_use]
    pub fn trim(&self) -> Decimal {
        match &self.0 {
            Shape::Short(0, _) => Decimal::int(0),
            Shape::Short(mantissa, scale) => {
                let (mut mantissa, mut scale) = (*mantissa, *scale);
                while scale > 0 && mantissa % 10 == 0 {
                    (mantissa, scale) = (mantissa / 10, scale - 1);
                }
                Decimal(Shape::Short(mantissa, scale))
            }
            Shape::Long(long) => {
                let (mantissa, scale) = big::trim(&long.mantissa, long.scale);
                Decimal::of(mantissa, scale)
            }
            Shape::Special(_) => self.clone(),
        }
    }

    /// The digits of both with a common scale, and this scale; `None` if one is not finite.
    #[allow(clippy::type_complexity, reason = "two of a kind")]
    fn aligned<'d>(
        &'d self,
        other: &'d Decimal,
    ) -> Option<(Cow<'d, BigInt>, Cow<'d, BigInt>, i64)> {
        let ((a, s), (b, t)) = (self.long()?, other.long()?);
        let grown = |digits: Cow<'d, BigInt>, by: i64| match by {
            1.. => Cow::Owned(digits.as_ref() * ten_to(by)),
            _ => digits,
        };
        Some((grown(a, t - s), grown(b, s - t), s.max(t)))
    }

    /// Its digits in scientific notation, with one of them before the point and `digits` behind it,
    /// and the exponent.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub(crate) fn scientific(&self, digits: i64) -> Result<(Decimal, i64), SqlError> {
        let Some((mantissa, scale)) = self.long().filter(|_| !self.is_zero()) else {
            return Ok((self.rescale(digits)?, 0));
        };
        if digits > SCALE_MAX.into() {
            return Err(overflow());
        }
        let place = self.digit_count() - scale - 1;
        let shown = match digits - place - scale {
            more @ 0.. => mantissa.as_ref() * ten_to(more),
            fewer => divide_rounded(&mantissa, &ten_to(-fewer)),
        };
        Ok((Decimal::checked(shown, digits)?, place))
    }

    /// The number of digits of its mantissa.
    fn digit_count(&self) -> i64 {
        match &self.0 {
            Shape::Short(mantissa, _) => short_digits(*mantissa),
            Shape::Long(long) => big::digit_count(&long.mantissa),
            Shape::Special(_) => 1,
        }
    }

    /// The first nonzero group of four digits, as PostgreSQL counts them: its position from the
    /// point, and its value.
    fn first_group(&self) -> (i64, u32) {
        if self.is_zero() || !self.is_finite() {
            return (0, 0);
        }
        let count = self.digit_count();
        let before = count - self.shown_scale();
        let group_digits = (before - 1).rem_euclid(4) + 1;
        ((before - 1).div_euclid(4), self.leading(group_digits, count) as u32)
    }

    /// Its first `wanted` digits, of `count` in all; filled up with zeros if it has fewer.
    fn leading(&self, wanted: i64, count: i64) -> u64 {
        let Some((mantissa, _)) = self.long() else { return 0 };
        let drop = count - wanted;
        let found = match (&self.0, drop) {
            (Shape::Short(mantissa, _), 0..=38) => {
                return (mantissa.unsigned_abs() / 10u128.pow(drop as u32)) as u64;
            }
            (_, 0..) => mantissa.abs() / ten_to(drop),
            _ => mantissa.abs() * ten_to(-drop),
        };
        found.to_u64().unwrap_or(u64::MAX)
    }
}

/// True if these are more digits than a number may have.
fn has_too_many_digits(mantissa: &BigInt, scale: u16) -> bool {
    // A number with the largest number of digits has at least this many bits; only beyond that they
    // have to be counted.
    let near = (WHOLE_DIGITS_MAX + i64::from(scale)) * 332 / 100;
    let is_near = mantissa.bits() as i64 >= near;
    scale > SCALE_MAX
        || (is_near && big::digit_count(mantissa) - i64::from(scale) > WHOLE_DIGITS_MAX)
}

fn infinity(sign: i64) -> Decimal {
    if sign < 0 { Decimal::MINUS_INFINITY } else { Decimal::INFINITY }
}

fn short_digits(mantissa: i128) -> i64 {
    mantissa.unsigned_abs().checked_ilog10().map_or(1, |digits| i64::from(digits) + 1)
}

fn special_named(text: &str) -> Option<Decimal> {
    Some(match text.to_ascii_lowercase().as_str() {
        "nan" => Decimal::NAN,
        "infinity" | "+infinity" | "inf" | "+inf" => Decimal::INFINITY,
        "-infinity" | "-inf" => Decimal::MINUS_INFINITY,
        _ => return None,
    })
}

fn read_exponent(text: &str) -> Result<i64, Unreadable> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Unreadable::Syntax);
    }
    let far = i64::from(i32::MAX / 2);
    text.parse().ok().filter(|exponent: &i64| exponent.abs() < far).ok_or(Unreadable::Overflow)
}

/// The number with these digits and this scale, which may be negative.
fn of_digits(whole: &str, fraction: &str, scale: i64) -> Option<Decimal> {
    let whole = whole.trim_start_matches('0');
    let shown = u16::try_from(scale.max(0)).ok().filter(|shown| *shown <= SCALE_MAX)?;
    if whole.is_empty() && fraction.bytes().all(|b| b == b'0') {
        return Some(Decimal::new(0, shown));
    }
    if whole.len() + fraction.len() <= 38 {
        let add = |number: i128, digit: u8| number * 10 + i128::from(digit - b'0');
        let mantissa = whole.bytes().chain(fraction.bytes()).fold(0, add);
        let zeros = (-scale).max(0);
        if let Some(mantissa) = power(zeros).and_then(|unit| mantissa.checked_mul(unit)) {
            return Some(Decimal::new(mantissa, shown));
        }
    }
    let first = fraction.find(|c| c != '0').filter(|_| whole.is_empty()).unwrap_or(0) as i64;
    // The number of significant digits before the point, checked before the number is made.
    let before = whole.len() as i64 + fraction.len() as i64 - scale - first;
    if before > WHOLE_DIGITS_MAX {
        return None;
    }
    let mantissa = BigInt::parse_bytes([whole, fraction].concat().as_bytes(), 10)?;
    let mantissa = if scale < 0 { mantissa * ten_to(-scale) } else { mantissa };
    Decimal::checked(mantissa, scale.max(0)).ok()
}

/// Both with a common scale.
fn aligned_short((a, s): (i128, u16), (b, t): (i128, u16)) -> Option<(i128, i128)> {
    match s.cmp(&t) {
        Ordering::Equal => Some((a, b)),
        Ordering::Less => Some((a.checked_mul(power((t - s).into())?)?, b)),
        Ordering::Greater => Some((a, b.checked_mul(power((s - t).into())?)?)),
    }
}

/// Drops the last digits, or appends zeros if `drop` is negative.
fn cut_short(mantissa: i128, drop: i64, is_rounded: bool) -> Option<i128> {
    if drop <= 0 {
        return mantissa.checked_mul(power(-drop)?).and_then(even);
    }
    // A number with fewer digits than are dropped is less than half a unit.
    let Some(unit) = power(drop) else { return Some(0) };
    let (kept, rest) = (mantissa / unit, (mantissa % unit).abs());
    Some(if is_rounded && rest >= unit - rest { kept + mantissa.signum() } else { kept })
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        if let (Shape::Short(a, s), Shape::Short(b, t)) = (&self.0, &other.0)
            && let Some((a, b)) = aligned_short((*a, *s), (*b, *t))
        {
            return a.cmp(&b);
        }
        let rank = |number: &Decimal| match number.special() {
            Some(Special::MinusInfinity) => 0,
            None => 1,
            Some(Special::Infinity) => 2,
            Some(Special::Nan) => 3,
        };
        let by_sign = rank(self).cmp(&rank(other)).then(self.signum().cmp(&other.signum()));
        by_sign.then_with(|| self.order_of_same_sign(other))
    }
}

impl Decimal {
    fn order_of_same_sign(&self, other: &Decimal) -> Ordering {
        let (Some((a, s)), Some((b, t))) = (self.long(), other.long()) else {
            return Ordering::Equal;
        };
        // If one is ten times the other, their lengths decide.
        let size = |digits: &BigInt, scale: i64| {
            digits.bits() as f64 * std::f64::consts::LOG10_2 - scale as f64
        };
        let distance = size(&a, s) - size(&b, t);
        if distance.abs() > 1.0 && !self.is_zero() && !other.is_zero() {
            return match (distance > 0.0) == (self.signum() > 0) {
                true => Ordering::Greater,
                false => Ordering::Less,
            };
        }
        self.aligned(other).map_or(Ordering::Equal, |(a, b, _)| a.cmp(&b))
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

/// Equal numbers have the same hash. It covers all digits: otherwise many large numbers would have
/// the same.
impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.trim().0 {
            Shape::Short(mantissa, scale) => {
                state.write_i128(mantissa);
                state.write_u16(scale);
            }
            Shape::Long(long) => {
                long.mantissa.hash(state);
                state.write_u16(long.scale);
            }
            Shape::Special(special) => state.write_u8(special as u8),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, digits, scale) = match &self.0 {
            Shape::Special(Special::Nan) => return f.write_str("NaN"),
            Shape::Special(Special::Infinity) => return f.write_str("Infinity"),
            Shape::Special(Special::MinusInfinity) => return f.write_str("-Infinity"),
            Shape::Short(mantissa, scale) => {
                (*mantissa < 0, mantissa.unsigned_abs().to_string(), usize::from(*scale))
            }
            Shape::Long(long) => (
                long.mantissa.sign() == Sign::Minus,
                long.mantissa.magnitude().to_string(),
                usize::from(long.scale),
            ),
        };
        let sign = if sign { "-" } else { "" };
        if digits.len() <= scale {
            return write!(f, "{sign}0.{digits:0>scale$}");
        }
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests;
