//! The changes of the design: the last ones with their texts, and statistics by operator.

use crate::text;
use isomer_cluster::ChangeEvent;
use isomer_design::{Change, Design};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Changes that are kept with their texts.
const LAST: usize = 12;
/// Different reasons that are counted, for each operator.
const REASONS: usize = 64;

/// Listens to the changes of a database.
pub(crate) struct ChangeLog {
    begun: Instant,
    changes: Mutex<Changes>,
}

/// The changes so far.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) all: Vec<Change>,
    pub(crate) last: VecDeque<LastChange>,
    by_operator: BTreeMap<&'static str, Statistics>,
}

/// A change as the views show it.
#[derive(Clone, Debug)]
pub(crate) struct LastChange {
    pub(crate) at_s: f64,
    pub(crate) text: String,
    pub(crate) took_ns: u64,
    pub(crate) reason: String,
}

#[derive(Default)]
struct Statistics {
    count: u64,
    took_ns: u64,
    /// Counts by the reason without its numbers, each with one example.
    reasons: BTreeMap<String, (u64, String)>,
}

/// The changes of one operator, for the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChangeSummary {
    pub(crate) operator: &'static str,
    pub(crate) count: u64,
    pub(crate) mean_ns: u64,
    /// The most frequent reason, as an example.
    pub(crate) reason: String,
    /// The number of changes with this reason, whatever its numbers are.
    pub(crate) reason_count: u64,
}

impl ChangeLog {
    pub(crate) fn new(begun: Instant) -> ChangeLog {
        ChangeLog { begun, changes: Mutex::default() }
    }

    /// Logs a change. The database calls it for every one.
    pub(crate) fn enter(&self, event: &ChangeEvent) {
        let at_s = self.begun.elapsed().as_secs_f64();
        let mut changes = self.changes();
        changes.all.push(event.change.clone());
        changes.last.push_back(LastChange {
            at_s,
            text: event.text.clone(),
            took_ns: event.took_ns,
            reason: event.reason.clone(),
        });
        if changes.last.len() > LAST {
            changes.last.pop_front();
        }
        changes.by_operator.entry(event.change.operator()).or_default().enter(event);
    }

    pub(crate) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Changes {
    /// The number of changes by each operator.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.by_operator.iter().map(|(operator, statistics)| (*operator, statistics.count))
    }

    /// Count, mean time and most frequent reason of each operator.
    pub(crate) fn summary(&self) -> Vec<ChangeSummary> {
        self.by_operator.iter().map(|(operator, found)| found.summary(operator)).collect()
    }

    /// Applies the changes to a design. The result should be the design of the database now.
    pub(crate) fn applied_to(&self, mut design: Design) -> Result<Design, String> {
        for change in &self.all {
            design.apply(change).map_err(|invalid| format!("{change}: {invalid}"))?;
        }
        Ok(design)
    }
}

impl LastChange {
    /// The change as one line.
    pub(crate) fn line(&self) -> String {
        let took = text::duration(self.took_ns as f64);
        format!("{:6.1} s  {:<34} {took:>9}  {}", self.at_s, self.text, self.reason)
    }
}

impl Statistics {
    fn enter(&mut self, event: &ChangeEvent) {
        self.count += 1;
        self.took_ns += event.took_ns;
        let alike: String =
            event.reason.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        if self.reasons.len() < REASONS || self.reasons.contains_key(&alike) {
            self.reasons.entry(alike).or_insert_with(|| (0, event.reason.clone())).0 += 1;
        }
    }

    fn summary(&self, operator: &'static str) -> ChangeSummary {
        let most = self.reasons.values().max_by_key(|(count, _)| *count).cloned();
        let (reason_count, reason) = most.unwrap_or_default();
        ChangeSummary {
            operator,
            count: self.count,
            mean_ns: self.took_ns / self.count.max(1),
            reason,
            reason_count,
        }
    }
}
