//! Choosing among many things, some of which are liked better.

use crate::error::{check_count, check_share};
use crate::{OptionsError, Random};
use rand::RngExt;
use rand_distr::{Distribution, Zipf};

/// How unevenly things are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Skew {
    /// All alike.
    Uniform,
    /// The thing of rank `r`, counted from 1, in proportion to `1 / r^exponent`. With 0.75, the
    /// value of the MorphoSys experiments, the first of a million things gets 0.8 % of the
    /// choices; with 0.99 the first gets 6.5 %.
    Zipf(f64),
    /// As the first of so many things (`population`) with that exponent: each of the first has the share it has among
    /// all of them, and what goes to those that are not here is spread evenly over those that are. So a few rows
    /// stand for many without the hottest becoming hotter.
    ZipfOf {
        /// As in [`Skew::Zipf`].
        exponent: f64,
        /// How many things there would be.
        population: u64,
    },
}

impl Skew {
    /// The Zipf distribution in which the `first` of so many things get this share of the choices: two thirds of all
    /// requests go to a third of the warehouses, say.
    ///
    /// # Errors
    /// If there are not more things than those. (Where they would get more if all were alike, all are alike.)
    pub fn giving(share: f64, first: u64, limit: u64) -> Result<Skew, OptionsError> {
        check_share("the share of the first", share)?;
        check_count("things to choose from", limit, first.max(1) + 1..=1 << 24)?;
        let sum = |upto: u64, exponent: f64| -> f64 {
            (1..=upto).map(|rank| (rank as f64).powf(-exponent)).sum()
        };
        let (mut low, mut high) = (0.0, 100.0);
        // The share of the first grows with the exponent.
        for _ in 0..60 {
            let exponent = (low + high) / 2.0;
            let is_too_even = sum(first, exponent) / sum(limit, exponent) < share;
            *if is_too_even { &mut low } else { &mut high } = exponent;
        }
        Ok(Skew::Zipf(high))
    }
}

/// Chooses numbers from 0 up to a limit, the smaller ones more often if there is a skew.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    limit: u64,
    /// `None` if uniform.
    zipf: Option<Zipf<f64>>,
}

impl Chooser {
    /// Chooses among the numbers below `limit`.
    ///
    /// # Errors
    /// If there is none to choose from, or too many to be counted exactly, or if the skew is not a
    /// number from 0 to 100.
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

    /// The next choice.
    pub fn choose(&self, rng: &mut Random) -> u64 {
        match &self.zipf {
            None => rng.random_range(0..self.limit),
            // Ranks count from 1; the least float could round out of the range.
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

/// Draws one of several things by their weights, whose sum is not 0.
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

    /// How often each of the first numbers is chosen, as a share.
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
    fn the_first_of_many_are_as_hot_as_among_all() {
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
    fn a_skew_is_found_by_what_the_first_of_all_get() {
        for (share, first, limit) in [(2.0 / 3.0, 8, 24), (2.0 / 3.0, 64, 192), (0.9, 10, 100)] {
            let skew = Skew::giving(share, first, limit).unwrap();
            let found: f64 = shares(limit, skew)[..first as usize].iter().sum();
            assert!((found - share).abs() < 0.01, "{skew:?}: {found} of {share}");
        }
        let few = Skew::giving(0.5, 10, 10).unwrap_err().to_string();
        assert_eq!(few, "10 things to choose from: at least 11 are needed");
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let refused = |limit, skew| Chooser::new(limit, skew).unwrap_err().to_string();
        assert_eq!(refused(0, Skew::Uniform), "0 things to choose from: at least 1 are needed");
        for exponent in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(refused(10, Skew::Zipf(exponent)).starts_with("a Zipf distribution with"));
        }
        let too_few = Skew::ZipfOf { exponent: 0.5, population: 9 };
        assert!(refused(10, too_few).starts_with("9 things of which these are the first"));
    }
}
