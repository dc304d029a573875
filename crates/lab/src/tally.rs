//! What the clients of a run saw.

use crate::shift::{SLICE_NS, Slice};
use hdrhistogram::Histogram;

const LATENCY_US_MAX: u64 = 1_000_000_000;
/// Three transactions that failed tell enough.
const FAILURES_KEPT: usize = 3;

/// Counts of a run. What committed before the measurement counts for the sums only.
pub(crate) struct Tally {
    /// Virtual time from which on latencies count.
    from_ns: u64,
    kinds: Vec<(&'static str, Histogram<u64>)>,
    pub(crate) all: Histogram<u64>,
    /// What all transactions added, measured or not.
    pub(crate) added: i128,
    pub(crate) measured: u64,
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<String>,
    /// From the first client on.
    pub(crate) slices: Vec<Slice>,
    begun_ns: u64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid")
}

impl Tally {
    pub(crate) fn new(begun_ns: u64, warm_up_ns: u64) -> Tally {
        Tally {
            from_ns: begun_ns + warm_up_ns,
            kinds: Vec::new(),
            all: histogram(),
            added: 0,
            measured: 0,
            committed: 0,
            rolled_back: 0,
            refused: 0,
            failed: 0,
            failures: Vec::new(),
            slices: Vec::new(),
            begun_ns,
        }
    }

    pub(crate) fn commit(&mut self, kind: &'static str, now_ns: u64, took_ns: u64, added: i64) {
        self.committed += 1;
        self.added += i128::from(added);
        let took_us = (took_ns / 1000).max(1);
        let slice = ((now_ns - self.begun_ns) / SLICE_NS) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, (0, 0));
        }
        self.slices[slice].0 += 1;
        self.slices[slice].1 += took_us;
        if now_ns < self.from_ns {
            return;
        }
        self.measured += 1;
        self.all.saturating_record(took_us);
        let at = self.kinds.iter().position(|(name, _)| *name == kind).unwrap_or_else(|| {
            self.kinds.push((kind, histogram()));
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

    /// Latencies of one kind of transaction.
    pub(crate) fn kind(&self, kind: &str) -> Option<&Histogram<u64>> {
        self.kinds.iter().find(|(name, _)| *name == kind).map(|(_, histogram)| histogram)
    }
}
