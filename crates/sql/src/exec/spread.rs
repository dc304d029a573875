//! Statistical aggregates: the variance of values, and the correlation and regression of pairs.
//!
//! ```text
//!   var_samp of 1, 2, 6
//!     numerics    from sums, at the end: (3 * (1 + 4 + 36) - 9 * 9) / (3 * 2) = 7
//!     floats      with each value: 2 and 6 add 0.5 and 13.5 to the squares; 14 / 2 = 7
//! ```
//!
//! Sums of squares of numerics are exact, so the difference can be computed last. With floats it
//! would be a small difference of two large numbers. So the state is the sum of squared distances
//! from the current mean, to which each value adds the effect of its change of the mean (Youngs and
//! Cramer).

use crate::budget::Budget;
use crate::datum::{Datum, out_of_range};
use crate::error::SqlError;
use crate::numeric::Decimal;
use crate::plan::{Fit, Spread};
use crate::types::SqlType;

/// The state of such an aggregate.
#[derive(Clone, Debug)]
pub(super) enum Moments {
    /// The sum, and the sum of squares.
    Exact(Decimal, Decimal),
    /// Sums of the second of two values (or the only one), sums of the first, and the sum of
    /// products.
    Float { x: Sums, y: Sums, both: f64 },
}

/// A sum, and the sum of squared distances from the mean.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sums {
    sum: f64,
    squares: f64,
}

impl Sums {
    /// Adds a value, with which there are `count`; returns its distance from the mean, times
    /// `count`. `share` converts a product of two of these into the change of a sum of squares.
    fn add(&mut self, value: f64, count: f64, share: impl Fn(f64) -> f64) -> Result<f64, SqlError> {
        let before = self.sum;
        self.sum += value;
        if count <= 1.0 {
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Ok(0.0);
        }
        let distance = value * count - self.sum;
        self.squares += share(distance * distance);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if before.is_finite() && value.is_finite() {
                return Err(too_large());
            }
            self.squares = f64::NAN;
        }
        Ok(distance)
    }
}

fn too_large() -> SqlError {
    let mut error = out_of_range(SqlType::Float8);
    "value out of range: overflow".clone_into(&mut error.message);
    error
}

/// Two floats as one value: the input of aggregates of pairs.
pub(crate) fn pair(first: f64, second: f64) -> Datum {
    Datum::Bytes([first.to_be_bytes(), second.to_be_bytes()].concat())
}

fn of_pair(value: &Datum) -> Option<(f64, f64)> {
    let Datum::Bytes(bytes) = value else { return None };
    let (first, second) = bytes.split_first_chunk::<8>()?;
    let second = <[u8; 8]>::try_from(second).ok()?;
    Some((f64::from_be_bytes(*first), f64::from_be_bytes(second)))
}

impl Moments {
    /// The memory it takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Moments::Exact(sum, squares) => sum.heap_bytes() + squares.heap_bytes(),
            Moments::Float { .. } => 0,
        }
    }

    /// Adds a value; with it there are `count`.
    pub(super) fn with(
        before: Option<Moments>,
        value: &Datum,
        count: i64,
    ) -> Result<Moments, SqlError> {
        let exact = matches!(value, Datum::Int(_) | Datum::Numeric(_));
        let none = || match exact {
            true => Moments::Exact(Decimal::int(0), Decimal::int(0)),
            false => Moments::Float { x: Sums::default(), y: Sums::default(), both: 0.0 },
        };
        match before.unwrap_or_else(none) {
            Moments::Exact(sum, squares) => {
                let value = value.to_decimal();
                let square = value.times_wide(&value);
                Ok(Moments::Exact(sum.plus_wide(&value), squares.plus_wide(&square)))
            }
            Moments::Float { mut x, mut y, mut both } => {
                let count = count as f64;
                let pairs = count * (count - 1.0);
                let Some((first, second)) = of_pair(value) else {
                    x.add(value.to_f64(), count, |product| product / pairs)?;
                    return Ok(Moments::Float { x, y, both });
                };
                // PostgreSQL multiplies here and divides there; the results differ in the last
                // digit.
                let share = |product: f64| product * (1.0 / pairs);
                let were_finite = x.sum.is_finite() && y.sum.is_finite();
                let distances = (x.add(second, count, share)?, y.add(first, count, share)?);
                let are_finite = first.is_finite() && second.is_finite();
                if count > 1.0 {
                    both += share(distances.0 * distances.1);
                } else if !are_finite {
                    both = f64::NAN;
                }
                if both.is_infinite() {
                    both =
                        if were_finite && are_finite { return Err(too_large()) } else { f64::NAN };
                }
                Ok(Moments::Float { x, y, both })
            }
        }
    }

    /// The variance or standard deviation of `count` values; NULL if there are too few.
    pub(super) fn spread(
        &self,
        spread: Spread,
        count: i64,
        budget: &Budget,
    ) -> Result<Datum, SqlError> {
        let others = count - i64::from(spread.is_of_sample);
        if others < 1 {
            return Ok(Datum::Null);
        }
        match self {
            Moments::Exact(sum, squares) => {
                let number = Decimal::int(count);
                let square = sum.times_wide(sum).negated();
                let numerator = number.times_wide(squares).plus_wide(&square);
                if numerator <= Decimal::int(0) {
                    return Ok(Datum::Numeric(Decimal::int(0)));
                }
                let variance = numerator.over(&number.times(&Decimal::int(others))?)?;
                let scale = i64::from(variance.scale().unwrap_or(0));
                let is_root = spread.is_root;
                let found = if is_root { variance.root_to(scale, budget)? } else { variance };
                Ok(Datum::Numeric(found))
            }
            Moments::Float { x, .. } => {
                let variance = x.squares / others as f64;
                Ok(Datum::Float(if spread.is_root { variance.sqrt() } else { variance }))
            }
        }
    }

    /// An aggregate of pairs, such as a correlation.
    pub(super) fn fit(&self, fit: Fit, count: i64) -> Datum {
        let Moments::Float { x, y, both } = self else { return Datum::Null };
        let number = count as f64;
        let is_known = match fit {
            Fit::CovarianceOfSample => count > 1,
            Fit::Correlation => x.squares != 0.0 && y.squares != 0.0,
            Fit::Slope | Fit::Intercept | Fit::Determination => x.squares != 0.0,
            _ => true,
        };
        if !is_known {
            return Datum::Null;
        }
        Datum::Float(match fit {
            Fit::Count => return Datum::Int(count),
            Fit::Correlation => both / (x.squares * y.squares).sqrt(),
            Fit::Covariance => both / number,
            Fit::CovarianceOfSample => both / (number - 1.0),
            Fit::MeanX => x.sum / number,
            Fit::MeanY => y.sum / number,
            Fit::SquaresX => x.squares,
            Fit::SquaresY => y.squares,
            Fit::Products => *both,
            Fit::Slope => both / x.squares,
            Fit::Intercept => (y.sum - x.sum * both / x.squares) / number,
            Fit::Determination if y.squares == 0.0 => 1.0,
            Fit::Determination => (both * both) / (x.squares * y.squares),
        })
    }
}
