//! How much requests that are near in time have to do with each other.

use super::{Request, Trace};
use crate::Random;
use rand::seq::SliceRandom;

/// Keys whose numbers differ by no more than this are close.
const CLOSE: u32 = 10;

/// What is local about a sequence of requests, as shares of all requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Locality {
    /// Requests that go to the hottest hundredth of the keys.
    pub hottest_percent: f64,
    /// Requests for the same key as the one before.
    pub repeats: f64,
    /// Requests for another key than the one before, at most 10 numbers from it.
    pub neighbours: f64,
}

impl Trace {
    /// Measures the locality of the requests as they are.
    pub fn locality(&self) -> Locality {
        let mut counts = vec![0u64; self.keys()];
        for request in &self.requests {
            counts[request.key as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest = counts.iter().take(self.keys().div_ceil(100)).sum();
        let distance = |pair: &[Request]| pair[0].key.abs_diff(pair[1].key);
        let pairs = || self.requests.windows(2).map(distance);
        let repeats = pairs().filter(|distance| *distance == 0).count() as u64;
        let neighbours = pairs().filter(|distance| (1..=CLOSE).contains(distance)).count() as u64;
        let share = |count: u64| count as f64 / self.requests.len().max(1) as f64;
        Locality {
            hottest_percent: share(hottest),
            repeats: share(repeats),
            neighbours: share(neighbours),
        }
    }

    /// The same requests in random order: what is local about them is due to skew alone.
    #[must_use]
    pub fn shuffled(&self, rng: &mut Random) -> Trace {
        let mut shuffled = self.clone();
        shuffled.requests.shuffle(rng);
        shuffled
    }
}
