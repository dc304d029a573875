//! Arithmetic on digits that do not fit into a machine word: powers of ten, and the number of
//! digits.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, Zero};

/// Ten to the power of a nonnegative exponent.
pub(super) fn ten_to(exponent: i64) -> BigInt {
    BigInt::from(10u8).pow(u32::try_from(exponent).expect("powers of ten are asked for by digits"))
}

/// The nearest integer quotient by a positive number; halves are rounded away from zero.
pub(super) fn divide_rounded(number: &BigInt, by: &BigInt) -> BigInt {
    let (quotient, rest) = number.div_rem(by);
    if (rest.abs() << 1u8) >= *by { quotient + number.signum() } else { quotient }
}

/// A number divided by a power of two; halves are rounded away from zero.
pub(super) fn shifted_down(number: &BigInt, bits: u64) -> BigInt {
    divide_rounded(number, &(BigInt::from(1u8) << bits))
}

/// How many digits a number has; zero has one.
pub(super) fn digit_count(number: &BigInt) -> i64 {
    if number.is_zero() {
        return 1;
    }
    // The number of bits determines it except for one.
    let least = (number.bits() - 1) as f64 * std::f64::consts::LOG10_2;
    let (mut count, number) = (least as i64 + 1, number.abs());
    while number >= ten_to(count) {
        count += 1;
    }
    count
}

/// A nonzero number without its trailing zeros, of which at most `digits` are removed; and the
/// number of remaining ones.
pub(super) fn trim(number: &BigInt, digits: u16) -> (BigInt, u16) {
    let (mut number, mut left) = (number.clone(), digits);
    // A number with n trailing zeros is divisible by 2 at least n times.
    let mut zeros = number.trailing_zeros().unwrap_or(0).min(left.into()) as u16;
    let mut step = 1 << 13;
    while step > 0 && zeros > 0 {
        if step <= zeros {
            let (shorter, rest) = number.div_rem(&ten_to(step.into()));
            if rest.is_zero() {
                (number, left, zeros) = (shorter, left - step, zeros - step);
            }
        }
        step /= 2;
    }
    (number, left)
}
