//! Durations counted in buckets: a histogram that each state owns for its own durations.
//!
//! Adding a duration takes two additions to atomics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets in microseconds. Each is about 2.5 times the previous one. Longer
/// durations have a bucket of their own.
pub const DURATIONS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// See the [module documentation](self).
#[derive(Default, Debug)]
pub struct Durations {
    buckets: [AtomicU64; DURATIONS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    /// Counts one duration.
    pub fn add(&self, us: u64) {
        let bucket = DURATIONS_US.partition_point(|end| *end < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The durations until now.
    pub fn shown(&self) -> DurationsShown {
        let counts = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        DurationsShown { counts, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// Durations at one time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DurationsShown {
    /// The number of durations in each bucket, not cumulated.
    pub counts: [u64; DURATIONS_US.len() + 1],
    /// Their sum in microseconds.
    pub sum_us: u64,
}
