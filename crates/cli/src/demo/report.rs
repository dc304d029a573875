//! The report of the demo, as text and as JSON.

use super::DemoArgs;
use super::changes::ChangeSummary;
use super::compare::Compared;
use super::run::Ran;
use crate::checks::Check;
use crate::text::{self, columns};
use crate::work::Latency;
use isomer_cluster::Database;
use isomer_plan::strategy::Learned;
use serde::Serialize;
use std::fmt::Write as _;

/// Decisions that the report shows.
const DECISIONS_SHOWN: usize = 3;

/// The result of the demo.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    command: &'static str,
    version: &'static str,
    trace: String,
    strategy: &'static str,
    sites: u16,
    threads: u16,
    seed: u64,
    seconds: f64,
    transactions: u64,
    throughput_per_s: f64,
    latency: Latency,
    single_site_share: f64,
    single_site_share_first_tenth: f64,
    single_site_share_last_tenth: f64,
    changes: Vec<ChangeSummary>,
    decisions: u64,
    /// The last decisions, as text.
    last_decisions: Vec<String>,
    unchanged_throughput_per_s: f64,
    unchanged_latency: Latency,
    unchanged_single_site_share: f64,
    load: Vec<SiteLoad>,
    partitions: usize,
    routing_entries: usize,
    routing_bytes: usize,
    plot: String,
    checks: Vec<Check>,
}

/// The load and the size of a site.
#[derive(Debug, Serialize)]
struct SiteLoad {
    site: String,
    transactions: u64,
    share: f64,
    memory_bytes: usize,
    log_bytes: u64,
}

impl Report {
    pub(super) fn of(
        args: &DemoArgs,
        trace: &str,
        db: &Database,
        ran: &Ran,
        learned: &Learned,
        unchanged: Compared,
        checks: Vec<Check>,
    ) -> Report {
        let design = db.design();
        let (decisions, last_decisions) = learned.with_journal(|journal| {
            let last = journal.entries().filter(|entry| entry.effect.after_us.is_some());
            (journal.len(), last.take(DECISIONS_SHOWN).map(|e| e.to_text(&design)).collect())
        });
        let total = &ran.series.total;
        let seconds = ran.series.intervals.last().map_or(0.0, |last| last.end_s);
        let (first, last) = ran.series.first_and_last_tenth();
        let (routing_entries, routing_bytes) = db.routing_size();
        let load = db.sites().into_iter().map(|site| SiteLoad {
            site: site.site.to_string(),
            transactions: total.at(site.site),
            share: total.at(site.site) as f64 / total.committed.max(1) as f64,
            memory_bytes: site.memory_bytes,
            log_bytes: site.log.bytes,
        });
        Report {
            command: "demo",
            version: env!("CARGO_PKG_VERSION"),
            trace: trace.to_owned(),
            strategy: db.strategy(),
            sites: args.sites,
            threads: args.threads,
            seed: args.seed,
            seconds,
            transactions: total.committed,
            throughput_per_s: total.committed as f64 / seconds,
            latency: total.latency(),
            single_site_share: total.single_site_share(),
            single_site_share_first_tenth: first,
            single_site_share_last_tenth: last,
            changes: ran.log.changes().summary(),
            decisions,
            last_decisions,
            unchanged_throughput_per_s: unchanged.tally.committed as f64 / unchanged.seconds,
            unchanged_latency: unchanged.tally.latency(),
            unchanged_single_site_share: unchanged.tally.single_site_share(),
            load: load.collect(),
            partitions: db.design().partition_count(),
            routing_entries,
            routing_bytes,
            plot: args.plot.display().to_string(),
            checks,
        }
    }

    /// True if every check holds.
    pub(super) fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    pub(super) fn to_text(&self) -> String {
        let latency = &self.latency;
        let mut text = format!(
            "\n{} transactions in {:.1} s: {} per second; p50 {}, p95 {}, p99 {}, longest {}\n",
            text::count(self.transactions),
            self.seconds,
            text::count(self.throughput_per_s as u64),
            text::duration(latency.p50_ns as f64),
            text::duration(latency.p95_ns as f64),
            text::duration(latency.p99_ns as f64),
            text::duration(latency.max_ns as f64),
        );
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "single-site share: {} in the first tenth of the time, {} in the last",
            text::percent(self.single_site_share_first_tenth),
            text::percent(self.single_site_share_last_tenth),
        );
        let unchanged = &self.unchanged_latency;
        let _ = writeln!(
            text,
            "on a design that does not change: {} per second; p50 {}, p99 {}; single-site share {}",
            text::count(self.unchanged_throughput_per_s as u64),
            text::duration(unchanged.p50_ns as f64),
            text::duration(unchanged.p99_ns as f64),
            text::percent(self.unchanged_single_site_share),
        );
        let _ = writeln!(
            text,
            "\n{} decisions; the last that were seen to have an effect:",
            self.decisions
        );
        self.last_decisions.iter().for_each(|decision| text.push_str(decision));
        text.push_str("\nchanges of the design\n");
        text.push_str(&columns(&self.change_rows(), 2));
        text.push_str("\nsites\n");
        text.push_str(&columns(&self.site_rows(), 2));
        let _ = writeln!(
            text,
            "\n{} partitions; the routing table has {} entries ({})\nplot: {}\n\nchecks",
            text::count(self.partitions as u64),
            text::count(self.routing_entries as u64),
            text::bytes(self.routing_bytes),
            self.plot,
        );
        for check in &self.checks {
            let _ = writeln!(text, "  {}", check.line());
        }
        text
    }

    fn change_rows(&self) -> Vec<Vec<String>> {
        let head = ["operator", "count", "mean time", "most frequent reason"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.changes.iter().map(|change| {
            vec![
                change.operator.to_owned(),
                text::count(change.count),
                text::duration(change.mean_ns as f64),
                format!("{} ({}×)", change.reason, text::count(change.reason_count)),
            ]
        }));
        rows
    }

    fn site_rows(&self) -> Vec<Vec<String>> {
        let head = ["site", "transactions", "share", "rows and index", "log written"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.load.iter().map(|site| {
            vec![
                site.site.clone(),
                text::count(site.transactions),
                text::percent(site.share),
                text::bytes(site.memory_bytes),
                text::bytes(site.log_bytes as usize),
            ]
        }));
        rows
    }
}
