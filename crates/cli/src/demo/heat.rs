//! How often each key was accessed lately.
//!
//! Clients count into one cell per key, without locks. The operator takes the counts from time to
//! time, lets older ones fade, and asks for sums over ranges of keys.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is left of a count after one look.
const FADE: f64 = 0.9;

/// Accesses since the operator looked last, by key.
pub(crate) struct Counts {
    reads: Vec<AtomicU32>,
    writes: Vec<AtomicU32>,
}

impl Counts {
    pub(crate) fn new(keys: usize) -> Counts {
        let zeros = || (0..keys).map(|_| AtomicU32::new(0)).collect();
        Counts { reads: zeros(), writes: zeros() }
    }

    pub(crate) fn read(&self, key: u32) {
        self.reads[key as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write(&self, key: u32) {
        self.writes[key as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Accesses lately: sums over all keys below each key.
#[derive(Default)]
pub(crate) struct Heat {
    reads: Fading,
    writes: Fading,
}

#[derive(Default)]
struct Fading {
    /// By key.
    heat: Vec<f64>,
    /// Before each key, and at the end.
    below: Vec<f64>,
}

impl Heat {
    /// Takes the counts in, and sets them to zero.
    pub(crate) fn take(&mut self, counts: &Counts) {
        self.reads.take(&counts.reads);
        self.writes.take(&counts.writes);
    }

    /// Reads of the keys `from..to`.
    pub(crate) fn reads(&self, from: usize, to: usize) -> f64 {
        self.reads.sum(from, to)
    }

    /// Writes to the keys `from..to`.
    pub(crate) fn writes(&self, from: usize, to: usize) -> f64 {
        self.writes.sum(from, to)
    }

    /// Accesses to the keys `from..to`.
    pub(crate) fn all(&self, from: usize, to: usize) -> f64 {
        self.reads(from, to) + self.writes(from, to)
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.reads.heat.len()
    }

    /// The key in `from + 1..to` that comes nearest to having half of the accesses before it.
    pub(crate) fn middle(&self, from: usize, to: usize) -> usize {
        let half = self.all(from, to) / 2.0;
        let distance = |key: &usize| (self.all(from, *key) - half).abs();
        (from + 1..to).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(from + 1)
    }
}

impl Fading {
    fn take(&mut self, counts: &[AtomicU32]) {
        self.heat.resize(counts.len(), 0.0);
        self.below.clear();
        let mut sum = 0.0;
        for (heat, count) in self.heat.iter_mut().zip(counts) {
            *heat = *heat * FADE + f64::from(count.swap(0, Ordering::Relaxed));
            self.below.push(sum);
            sum += *heat;
        }
        self.below.push(sum);
    }

    fn sum(&self, from: usize, to: usize) -> f64 {
        self.below[to] - self.below[from]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_fades_and_has_a_middle() {
        let counts = Counts::new(10);
        (0..8).for_each(|_| counts.read(3));
        (0..2).for_each(|_| counts.write(3));
        (0..9).for_each(|_| counts.read(7));
        let mut heat = Heat::default();
        heat.take(&counts);
        assert_eq!((heat.all(0, 10), heat.writes(0, 10), heat.reads(4, 10)), (19.0, 2.0, 9.0));
        assert_eq!(heat.middle(0, 10), 4);
        assert_eq!(heat.middle(3, 5), 4, "a single hot key is cut off from what follows it");
        heat.take(&counts);
        assert!((heat.all(0, 10) - 17.1).abs() < 1e-9);
    }
}
