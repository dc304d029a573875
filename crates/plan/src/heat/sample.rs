//! Sampling: a heat graph from a share of the transactions, and its error.

use super::HeatGraph;
use thiserror::Error;

/// The transactions to use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    share: f64,
    seed: u64,
}

/// A share that is no share.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("cannot sample {0} of the transactions: a share above 0 and up to 1 is needed")]
pub struct SampleError(f64);

impl Sampling {
    /// Uses all transactions.
    pub const ALL: Sampling = Sampling { share: 1.0, seed: 0 };

    /// Uses about `share` of the transactions, chosen by `seed` and their position.
    pub fn new(share: f64, seed: u64) -> Result<Sampling, SampleError> {
        if share > 0.0 && share <= 1.0 {
            Ok(Sampling { share, seed })
        } else {
            Err(SampleError(share))
        }
    }

    /// True if the transaction at this position is used.
    pub fn takes(self, place: u64) -> bool {
        self.share >= 1.0 || (mix(place ^ mix(self.seed)) as f64) < self.share * u64::MAX as f64
    }

    /// The factor by which counts are multiplied to make up for the unused transactions.
    pub fn scale(self) -> f64 {
        1.0 / self.share
    }

    /// The relative error of a weight: half the width of its 95 % confidence interval. A weight
    /// that stands for n transactions comes from a binomial count of mean n·share.
    pub fn relative_error(self, weight: f64) -> f64 {
        if self.share >= 1.0 || weight <= 0.0 {
            return 0.0;
        }
        1.96 * ((1.0 - self.share) / (weight * self.share)).sqrt()
    }

    /// The relative error of the load of a site that carries 1/`sites` of a graph's weight.
    pub fn site_error(self, graph: &HeatGraph, sites: usize) -> f64 {
        self.relative_error(graph.total_weight() / sites.max(1) as f64)
    }
}

/// Spreads the bits of a number (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
