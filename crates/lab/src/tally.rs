//! Counts what the clients of a run observe.

use crate::shift::{SLICE_NS, Slice};
use hdrhistogram::Histogram;
use std::ops::Range;

const LATENCY_US_MAX: u64 = 1_000_000_000;
/// The number of failed transactions that are described.
const FAILURES_KEPT: usize = 3;

/// The counts of a run. A transaction that commits before or after the measurement counts only in
/// the sums.
pub(crate) struct Tally {
    /// The virtual time of the measurement.
    window: Range<u64>,
    kinds: Vec<(&'static str, Histogram<u64>)>,
    pub(crate) all: Histogram<u64>,
    /// The sum of the additions of all transactions, measured or not.
    pub(crate) added: i128,
    pub(crate) measured: u64,
    /// The number of measured transactions that were distributed.
    pub(crate) across: u64,
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<String>,
    /// Slices from the first client's begin to the end of the measurement.
    pub(crate) slices: Vec<Slice>,
    begun_ns: u64,
}

/// A committed transaction.
pub(crate) struct Done {
    /// Its kind.
    pub(crate) kind: &'static str,
    /// The time at which its client got the answer.
    pub(crate) now_ns: u64,
    /// The time from its begin to the answer.
    pub(crate) took_ns: u64,
    /// Its addition to the workload's sum.
    pub(crate) added: i64,
    /// True if it was distributed.
    pub(crate) across: bool,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid")
}

impl Tally {
    pub(crate) fn new(begun_ns: u64, window: Range<u64>) -> Tally {
        Tally {
            window,
            kinds: Vec::new(),
            all: histogram(),
            added: 0,
            measured: 0,
            across: 0,
            committed: 0,
            rolled_back: 0,
            refused: 0,
            failed: 0,
            failures: Vec::new(),
            slices: Vec::new(),
            begun_ns,
        }
    }

    pub(crate) fn commit(&mut self, done: &Done) {
        self.committed += 1;
        self.added += i128::from(done.added);
        if done.now_ns >= self.window.end {
            return;
        }
        let took_us = (done.took_ns / 1000).max(1);
        let slice = ((done.now_ns - self.begun_ns) / SLICE_NS) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, (0, 0));
        }
        self.slices[slice].0 += 1;
        self.slices[slice].1 += took_us;
        if done.now_ns < self.window.start {
            return;
        }
        self.measured += 1;
        self.across += u64::from(done.across);
        self.all.saturating_record(took_us);
        let at = self.kinds.iter().position(|(name, _)| *name == done.kind);
        let at = at.unwrap_or_else(|| {
            self.kinds.push((done.kind, histogram()));
            self.kinds.len() - 1
        });
        self.kinds[at].1.saturating_record(took_us);
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(what);
        }
    }

    /// The latencies of one kind of transaction.
    pub(crate) fn kind(&self, kind: &str) -> Option<&Histogram<u64>> {
        self.kinds.iter().find(|(name, _)| *name == kind).map(|(_, histogram)| histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transactions_that_end_during_the_measurement_are_measured() {
        let mut tally = Tally::new(1_000, 2_000..3_000);
        for now_ns in [1_500, 2_000, 2_999, 3_000, 9_000] {
            let across = now_ns == 2_999;
            tally.commit(&Done { kind: "payment", now_ns, took_ns: 500_000, added: 1, across });
        }
        assert_eq!((tally.committed, tally.added), (5, 5));
        assert_eq!((tally.measured, tally.across, tally.all.len()), (2, 1, 2));
        assert_eq!(tally.slices, [(3, 1_500)], "no slice after the measurement");
    }
}
