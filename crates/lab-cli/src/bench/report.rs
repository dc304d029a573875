//! The report of a benchmark: a line of JSON, or a few lines of text.

use super::measure::Measured;
use super::options::{Common, durability_text};
use isomer::checks::Check;
use isomer::text;
use isomer::work::Latency;
use isomer_cluster::Database;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// The result of a benchmark, with all of its inputs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    command: String,
    version: &'static str,
    sites: u16,
    threads: u16,
    seconds: f64,
    seed: u64,
    strategy: &'static str,
    durability: String,
    partition_keys: u64,
    #[serde(flatten)]
    inputs: Value,
    throughput_per_s: f64,
    latency: Latency,
    committed: u64,
    rolled_back: u64,
    refused: u64,
    failed: u64,
    changes: u64,
    single_site_share: f64,
    memory_bytes: usize,
    log_bytes: u64,
    commits_per_sync: Option<f64>,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn of(
        common: &Common,
        name: &str,
        inputs: Value,
        db: &Database,
        measured: &Measured,
        checks: Vec<Check>,
    ) -> Report {
        let (tally, sites) = (&measured.counted, db.sites());
        let syncs: u64 = sites.iter().map(|site| site.log.syncs).sum();
        let frames: u64 = sites.iter().map(|site| site.log.frames).sum();
        Report {
            command: format!("bench {name}"),
            version: env!("CARGO_PKG_VERSION"),
            sites: common.sites,
            threads: common.threads,
            seconds: measured.seconds,
            seed: common.seed,
            strategy: db.strategy(),
            durability: durability_text(common.durability()),
            partition_keys: common.partition_keys,
            inputs,
            throughput_per_s: tally.committed as f64 / measured.seconds,
            latency: tally.latency(),
            committed: tally.committed,
            rolled_back: tally.rolled_back,
            refused: tally.refused,
            failed: tally.failed,
            changes: tally.changes,
            single_site_share: tally.single_site_share(),
            memory_bytes: sites.iter().map(|site| site.memory_bytes).sum(),
            log_bytes: sites.iter().map(|site| site.log.bytes).sum(),
            commits_per_sync: common.folder.as_ref().map(|_| frames as f64 / syncs.max(1) as f64),
            checks,
        }
    }

    /// True if every check holds.
    pub(super) fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    pub(super) fn to_text(&self) -> String {
        let Latency { p50_ns, p95_ns, p99_ns, p999_ns, max_ns } = self.latency;
        let latency = [p50_ns, p95_ns, p99_ns, p999_ns, max_ns].map(|ns| text::duration(ns as f64));
        let [p50, p95, p99, p999, longest] = latency;
        let mut rows = vec![
            ("transactions", format!("{} per second", text::count(self.throughput_per_s as u64))),
            (
                "latency",
                format!("p50 {p50}, p95 {p95}, p99 {p99}, p99.9 {p999}, longest {longest}"),
            ),
            ("committed", text::count(self.committed)),
            ("rolled back", text::count(self.rolled_back)),
            ("refused", text::count(self.refused)),
            ("single-site", text::percent(self.single_site_share)),
            ("changes", text::count(self.changes)),
            ("rows and index", text::bytes(self.memory_bytes)),
        ];
        if let Some(commits) = self.commits_per_sync {
            rows.push(("frames per sync", format!("{commits:.1}")));
        }
        let mut lines = String::new();
        for (name, value) in rows {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{name:<16} {value}");
        }
        for check in &self.checks {
            let _ = writeln!(lines, "{}", check.line());
        }
        lines
    }
}
