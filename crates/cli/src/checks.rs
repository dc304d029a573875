//! Checks at the end of a run: a guarantee of the database, and whether it holds.

use crate::text;
use crate::work::{Inspection, Tally};
use isomer_design::Design;
use isomer_workload::Workload;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// The findings, as text.
    pub detail: String,
}

impl Check {
    pub fn new(name: &'static str, ok: bool, detail: impl Into<String>) -> Check {
        Check { name, ok, detail: detail.into() }
    }

    /// A check from a result whose `Ok` and `Err` are both its detail.
    pub fn of(name: &'static str, result: Result<String, String>) -> Check {
        let ok = result.is_ok();
        Check { name, ok, detail: result.unwrap_or_else(|what| what) }
    }

    /// One line: `ok      every increment is there   1,234 rows`.
    pub fn line(&self) -> String {
        let verdict = if self.ok { "ok" } else { "FAILED" };
        format!("{verdict:<6}  {:<44}  {}", self.name, self.detail)
    }
}

/// Checks that no transaction failed. Rollbacks and refusals are no failures.
pub fn no_failures(tally: &Tally) -> Check {
    let name = "no transaction failed";
    match tally.failures.first() {
        None => Check::new(name, true, format!("{} committed", text::count(tally.committed))),
        Some(first) => {
            let failed = text::count(tally.failed);
            Check::new(name, false, format!("{failed} did; the first: {first}"))
        }
    }
}

/// Checks that each committed write is in the database exactly once.
pub fn sums(workload: &impl Workload, found: &Inspection, added: i128) -> Check {
    let name = "every committed write is there exactly once";
    match workload.judge(found.totals, added) {
        Ok(()) => {
            let rows = text::count(found.totals.rows);
            Check::new(name, true, format!("{rows} rows sum up to {}", found.totals.sum))
        }
        Err(mismatch) => Check::new(name, false, mismatch.to_string()),
    }
}

/// Checks that replicas have the same rows as their masters.
pub fn copies(found: &Inspection) -> Check {
    let name = "copies agree";
    let replicas = text::count(found.replicas as u64);
    let partitions = text::count(found.partitions as u64);
    match found.differ {
        0 => Check::new(name, true, format!("{replicas} replicas of {partitions} partitions")),
        differ => {
            let detail = format!("{differ} of {replicas} differ: {}", found.differences.join("; "));
            Check::new(name, false, detail)
        }
    }
}

/// Checks the invariants of the design.
pub fn invariants(design: &Design) -> Check {
    let result = design.check();
    let partitions = text::count(design.partition_count() as u64);
    Check::of(
        "the design keeps its invariants",
        result
            .map(|()| format!("each key in one of {partitions} partitions, with one master"))
            .map_err(|invalid| invalid.to_string()),
    )
}
