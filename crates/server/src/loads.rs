//! The load of each process in few numbers, for the graphs of the console.
//!
//! Each process sums up its own [figures](crate::figures). Counts are since its start, so a console
//! that asks twice knows what happened between, no matter how many consoles ask. A process that
//! does not answer within a second is left out ([`crate::sums`]).

use crate::figures::{Figure, FigureValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The work of a process since its start, and its present state.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct Load {
    /// Durations of its statements: the upper bound in seconds and the count of each bucket but
    /// the last, which has no bound.
    pub took: Vec<(Option<f64>, u64)>,
    /// The sum of these durations in seconds.
    pub took_sum: f64,
    /// Its statements that ended with an error.
    pub errors: u64,
    /// Its transactions that committed.
    pub committed: u64,
    /// Its commits by coordinating site: at that site alone, and over several.
    pub commits: BTreeMap<String, [u64; 2]>,
    /// Changes of the design that it made, by kind.
    pub changes: BTreeMap<String, u64>,
    /// Its transactions that wait for locks.
    pub waiters: f64,
    /// The share of its machine's processors that it takes, if known.
    pub busy: Option<f64>,
    /// The memory of rows and indexes at its sites.
    pub bytes: usize,
    /// The sites as it knows them.
    pub sites: BTreeMap<String, SiteLevels>,
}

/// The present state of a site.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug, Default)]
pub struct SiteLevels {
    /// The share of a processor that its work takes.
    pub busy: f64,
    /// The memory of its rows and indexes.
    pub bytes: f64,
    /// False if it has failed, or is not reached.
    pub up: bool,
}

impl Load {
    /// The part that has come since an earlier load of the process. Levels stay. After a restart,
    /// counts are less than before, and the part is too small.
    pub fn since(&self, earlier: &Load) -> Load {
        let more = |now: u64, before: Option<&u64>| {
            now.saturating_sub(before.copied().unwrap_or_default())
        };
        let took = self.took.iter().enumerate().map(|(at, (end, count))| {
            (*end, more(*count, earlier.took.get(at).map(|(_, count)| count)))
        });
        let commits = self.commits.iter().map(|(site, now)| {
            let before = earlier.commits.get(site);
            (site.clone(), [0, 1].map(|at| more(now[at], before.map(|before| &before[at]))))
        });
        let changes = self
            .changes
            .iter()
            .map(|(kind, count)| (kind.clone(), more(*count, earlier.changes.get(kind))));
        Load {
            took: took.collect(),
            took_sum: (self.took_sum - earlier.took_sum).max(0.0),
            errors: self.errors.saturating_sub(earlier.errors),
            committed: self.committed.saturating_sub(earlier.committed),
            commits: commits.collect(),
            changes: changes.collect(),
            waiters: self.waiters,
            busy: self.busy,
            bytes: self.bytes,
            sites: self.sites.clone(),
        }
    }

    /// Adds the load of another process. Of a site that both know, it keeps its own levels.
    pub fn add(&mut self, other: &Load) {
        if self.took.is_empty() {
            self.took.clone_from(&other.took);
        } else {
            self.took.iter_mut().zip(&other.took).for_each(|(sum, (_, more))| sum.1 += more);
        }
        self.took_sum += other.took_sum;
        self.errors += other.errors;
        self.committed += other.committed;
        for (site, more) in &other.commits {
            let sum = self.commits.entry(site.clone()).or_default();
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        for (kind, more) in &other.changes {
            *self.changes.entry(kind.clone()).or_default() += more;
        }
        self.waiters += other.waiters;
        self.bytes += other.bytes;
        for (site, levels) in &other.sites {
            self.sites.entry(site.clone()).or_insert(*levels);
        }
    }

    /// The number of statements.
    pub fn statements(&self) -> u64 {
        self.took.iter().map(|(_, count)| count).sum()
    }

    /// The numbers of commits at one site and over several.
    pub fn ways(&self) -> [u64; 2] {
        self.commits.values().fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]])
    }

    /// The load that figures tell.
    pub(crate) fn of(figures: &[Figure]) -> Load {
        let mut load = Load::default();
        for figure in figures {
            let label = |name| {
                let of_name = figure.labels.iter().find(|(label, _)| *label == name);
                of_name.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            match (figure.name, &figure.value) {
                (
                    "isomer_statement_duration_seconds",
                    FigureValue::Histogram { sum, buckets, .. },
                ) => {
                    let bound = |end: f64| end.is_finite().then_some(end);
                    load.took = buckets.iter().map(|(end, count)| (bound(*end), *count)).collect();
                    load.took_sum = *sum;
                }
                ("isomer_statement_errors", FigureValue::Counter(count)) => load.errors += count,
                ("isomer_transactions", FigureValue::Counter(count))
                    if label("outcome") == "committed" =>
                {
                    load.committed += count;
                }
                ("isomer_commits", FigureValue::Counter(count)) => {
                    let over_several = usize::from(label("kind") != "local");
                    load.commits.entry(label("site")).or_default()[over_several] += count;
                }
                ("isomer_design_changes", FigureValue::Counter(count)) => {
                    *load.changes.entry(label("kind")).or_default() += count;
                }
                ("isomer_lock_waiters", FigureValue::Gauge(level)) => load.waiters = *level,
                ("isomer_site_busy_ratio", FigureValue::Gauge(level)) => {
                    load.sites.entry(label("site")).or_default().busy = *level;
                }
                ("isomer_site_memory_bytes", FigureValue::Gauge(level)) => {
                    load.sites.entry(label("site")).or_default().bytes = *level;
                }
                ("isomer_site_up", FigureValue::Gauge(level)) => {
                    load.sites.entry(label("site")).or_default().up = *level > 0.0;
                }
                _ => {}
            }
        }
        load
    }
}
