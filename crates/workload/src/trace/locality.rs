//! The locality of a trace: how often consecutive requests are for the same or for close keys.

use super::{Request, Trace};
use crate::Random;
use rand::seq::SliceRandom;

/// Keys whose numbers differ by at most this are close.
const CLOSE: u32 = 10;

/// The locality of a sequence of requests, as shares of all requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Locality {
    /// Requests for the hottest 1 % of the keys.
    pub hottest_percent: f64,
    /// Requests for the same key as the request before.
    pub repeats: f64,
    /// Requests for a different key than the request before, at a distance of at most 10.
    pub neighbours: f64,
}

impl Trace {
    /// Measures the locality of the trace.
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

    /// The same requests in random order. The locality that remains is due to skew alone.
    #[must_use]
    pub fn shuffled(&self, rng: &mut Random) -> Trace {
        let mut shuffled = self.clone();
        shuffled.requests.shuffle(rng);
        shuffled
    }
}
