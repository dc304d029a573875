//! The counts of a client.

use hdrhistogram::Histogram;
use isomer_cluster::{Place, Ran};
use isomer_design::{SITES_MAX, SiteId};
use serde::Serialize;

const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Messages of failed transactions that are kept.
const FAILURES_KEPT: usize = 3;

/// Counts over some transactions.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Transactions that committed.
    pub committed: u64,
    /// Committed transactions that ran at one site and waited for no change of the design.
    pub single_site: u64,
    /// Changes that were made for the other transactions.
    pub changes: u64,
    /// Transactions that their procedure rolled back.
    pub rolled_back: u64,
    /// Transactions that the strategy refused.
    pub refused: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Messages of the first failed transactions.
    pub failures: Vec<String>,
    /// Added to the sum of the workload by committed transactions.
    pub added: i128,
    /// Reads that saw an older state than their session had seen before.
    pub went_back: u64,
    /// Committed transactions by the number of their site.
    by_site: Vec<u64>,
    latency: Histogram<u64>,
}

/// A latency distribution, in nanoseconds.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Latency {
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let latency = Histogram::new_with_max(LATENCY_NS_MAX, 2).expect("the bounds are valid");
        Tally {
            committed: 0,
            single_site: 0,
            changes: 0,
            rolled_back: 0,
            refused: 0,
            failed: 0,
            failures: Vec::new(),
            added: 0,
            went_back: 0,
            by_site: vec![0; usize::from(SITES_MAX) + 1],
            latency,
        }
    }
}

impl Tally {
    /// Counts a commit.
    pub fn commit(&mut self, ran: &Ran, added: i64) {
        self.committed += 1;
        let at_once = matches!(ran.place, Place::At(_)) && ran.changes == 0;
        self.single_site += u64::from(at_once);
        self.changes += ran.changes as u64;
        self.added += i128::from(added);
        self.by_site[usize::from(ran.place.site().0)] += 1;
    }

    /// Counts the duration of a transaction, whatever its outcome.
    pub fn took(&mut self, ns: u64) {
        self.latency.saturating_record(ns);
    }

    /// Counts a failure.
    pub fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(what);
        }
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.committed += other.committed;
        self.single_site += other.single_site;
        self.changes += other.changes;
        self.rolled_back += other.rolled_back;
        self.refused += other.refused;
        self.failed += other.failed;
        self.failures.extend(other.failures.iter().cloned());
        self.failures.truncate(FAILURES_KEPT);
        self.added += other.added;
        self.went_back += other.went_back;
        for (mine, theirs) in self.by_site.iter_mut().zip(&other.by_site) {
            *mine += theirs;
        }
        self.latency.add(&other.latency).expect("the histograms are alike");
    }

    /// Committed transactions at a site.
    pub fn at(&self, site: SiteId) -> u64 {
        self.by_site[usize::from(site.0)]
    }

    /// The share of committed transactions that ran at one site and waited for no change.
    pub fn single_site_share(&self) -> f64 {
        self.single_site as f64 / self.committed.max(1) as f64
    }

    /// The distribution of the transactions' durations.
    pub fn latency(&self) -> Latency {
        let at = |quantile| self.latency.value_at_quantile(quantile);
        Latency {
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.latency.max(),
        }
    }
}
