//! Random choices with a skewed distribution.

use crate::error::{check_count, check_share};
use crate::{OptionsError, Random};
use rand::RngExt;
use rand_distr::{Distribution, Zipf};

/// A distribution over numbers from 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Skew {
    /// All numbers are equally likely.
    Uniform,
    /// The number with rank `r`, counted from 1, has a probability proportional to `1 /
    /// r^exponent`. With 0.75, the value of the MorphoSys experiments, the first of a million
    /// numbers gets 0.8 % of the choices; with 0.99 it gets 6.5 %.
    Zipf(f64),
    /// The head of a Zipf distribution over `population` numbers. Each number keeps the probability
    /// that it has in the whole population. The probability of the missing numbers is spread evenly
    /// over the existing ones. A small table can thus stand for a large one without a hotter hot
    /// spot.
    ZipfOf {
        /// The exponent, as in [`Skew::Zipf`].
        exponent: f64,
        /// The size of the whole population.
        population: u64,
    },
}

impl Skew {
    /// Returns the Zipf distribution over `limit` numbers in which the first `first` get the given
    /// share of all choices: for example, two thirds of all requests go to a third of the
    /// warehouses. If even the uniform distribution gives them more, returns an exponent of nearly
    /// 0.
    ///
    /// # Errors
    /// If `limit` does not exceed `first`, or the share is not between 0 and 1.
    pub fn giving(share: f64, first: u64, limit: u64) -> Result<Skew, OptionsError> {
        check_share("the share of the first", share)?;
        check_count("things to choose from", limit, first.max(1) + 1..=1 << 24)?;
        let sum = |upto: u64, exponent: f64| -> f64 {
            (1..=upto).map(|rank| (rank as f64).powf(-exponent)).sum()
        };
        let (mut low, mut high) = (0.0, 100.0);
        // The share of the first numbers grows with the exponent.
        for _ in 0..60 {
            let exponent = (low + high) / 2.0;
            let is_too_even = sum(first, exponent) / sum(limit, exponent) < share;
            *if is_too_even { &mut low } else { &mut high } = exponent;
        }
        Ok(Skew::Zipf(high))
    }
}

/// Chooses numbers from 0 up to a limit by a [`Skew`], which prefers small numbers.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    limit: u64,
    /// `None` for the uniform distribution.
    zipf: Option<Zipf<f64>>,
}

impl Chooser {
    /// Chooses among the numbers below `limit`.
    ///
    /// # Errors
    /// If `limit` is 0 or too large for exact arithmetic, or the exponent is not between 0 and 100.
    pub fn new(limit: u64, skew: Skew) -> Result<Chooser, OptionsError> {
        check_count("things to choose from", limit, 1..=1 << 53)?;
        let zipf = match skew {
            Skew::Uniform => None,
            Skew::Zipf(exponent) => Some(zipf(limit, exponent)?),
            Skew::ZipfOf { exponent, population } => {
                check_count("things of which these are the first", population, limit..=1 << 53)?;
                Some(zipf(population, exponent)?)
            }
        };
        Ok(Chooser { limit, zipf })
    }

    /// Draws a number.
    pub fn choose(&self, rng: &mut Random) -> u64 {
        match &self.zipf {
            None => rng.random_range(0..self.limit),
            // Ranks count from 1; a sample below 1 would underflow.
            Some(zipf) => match (zipf.sample(rng) as u64).max(1) - 1 {
                rank if rank < self.limit => rank,
                _ => rng.random_range(0..self.limit),
            },
        }
    }
}

fn zipf(count: u64, given: f64) -> Result<Zipf<f64>, OptionsError> {
    let refused = || OptionsError::Exponent { given };
    if !(0.0..=100.0).contains(&given) {
        return Err(refused());
    }
    Zipf::new(count as f64, given).map_err(|_| refused())
}

/// Draws an index by the given weights, whose sum must not be 0.
pub(crate) fn draw(weights: &[u32], rng: &mut Random) -> usize {
    let mut ticket = rng.random_range(0..weights.iter().sum::<u32>());
    let drawn = weights.iter().position(|&weight| {
        let drawn = ticket < weight;
        ticket = ticket.saturating_sub(weight);
        drawn
    });
    drawn.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// The share of choices that each number gets.
    fn shares(limit: u64, skew: Skew) -> Vec<f64> {
        let chooser = Chooser::new(limit, skew).unwrap();
        let mut rng = random(1);
        let mut counts = vec![0u32; limit as usize];
        for _ in 0..200_000 {
            counts[chooser.choose(&mut rng) as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / 200_000.0).collect()
    }

    #[test]
    fn choices_follow_the_skew() {
        let uniform = shares(100, Skew::Uniform);
        assert!(uniform.iter().all(|share| (share - 0.01).abs() < 0.002));
        for exponent in [0.5, 0.75, 0.99, 1.5] {
            let zipf = shares(1000, Skew::Zipf(exponent));
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 10] {
                let expected = f64::from(rank).powf(-exponent) / total;
                let found = zipf[rank as usize - 1];
                assert!((found - expected).abs() < 0.1 * expected + 0.001, "{exponent} {rank}");
            }
        }
    }

    #[test]
    fn the_head_of_a_population_is_as_hot_as_in_the_whole() {
        let of_many = Skew::ZipfOf { exponent: 0.75, population: 1_000_000 };
        let shares = shares(1000, of_many);
        let total: f64 = (1..=1_000_000).map(|rank| f64::from(rank).powf(-0.75)).sum();
        let head: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.75)).sum();
        let rest = (1.0 - head / total) / 1000.0;
        for rank in [1, 2, 10] {
            let expected = f64::from(rank).powf(-0.75) / total + rest;
            let found = shares[rank as usize - 1];
            assert!(
                (found - expected).abs() < 0.1 * expected + 0.0005,
                "{rank}: {found} {expected}"
            );
        }
        let last = shares[500..].iter().sum::<f64>() / 500.0;
        assert!((last - rest).abs() < 0.1 * rest, "{last} {rest}");
    }

    #[test]
    fn an_exponent_is_found_from_the_share_of_the_first() {
        for (share, first, limit) in [(2.0 / 3.0, 8, 24), (2.0 / 3.0, 64, 192), (0.9, 10, 100)] {
            let skew = Skew::giving(share, first, limit).unwrap();
            let found: f64 = shares(limit, skew)[..first as usize].iter().sum();
            assert!((found - share).abs() < 0.01, "{skew:?}: {found} of {share}");
        }
        let few = Skew::giving(0.5, 10, 10).unwrap_err().to_string();
        assert_eq!(few, "10 things to choose from: at least 11 are needed");
    }

    #[test]
    fn invalid_skews_are_refused() {
        let refused = |limit, skew| Chooser::new(limit, skew).unwrap_err().to_string();
        assert_eq!(refused(0, Skew::Uniform), "0 things to choose from: at least 1 are needed");
        for exponent in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(refused(10, Skew::Zipf(exponent)).starts_with("a Zipf distribution with"));
        }
        let too_few = Skew::ZipfOf { exponent: 0.5, population: 9 };
        assert!(refused(10, too_few).starts_with("9 things of which these are the first"));
    }
}
