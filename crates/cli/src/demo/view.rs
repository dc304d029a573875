//! The state of the demo that is shown while it runs, as lines.

use super::changes::ChangeLog;
use super::series::Series;
use crate::text;
use isomer_cluster::Database;

const SPARKS: usize = 48;

/// References to the state, for one update of the screen.
pub(super) struct View<'a> {
    pub(super) db: &'a Database,
    pub(super) series: &'a Series,
    pub(super) log: &'a ChangeLog,
    pub(super) seconds: u64,
}

/// The state of the run, in up to `height` lines.
pub(super) fn lines(view: &View<'_>, height: usize) -> Vec<String> {
    let Some(now) = view.series.intervals.last() else { return Vec::new() };
    let throughput = view.series.of(|interval| interval.throughput());
    let most = throughput.iter().copied().fold(1.0, f64::max);
    let shares = view.series.of(|interval| interval.single_site_share());
    let changes = view.series.of(|interval| interval.change_rate());
    let most_changes = changes.iter().copied().fold(1.0, f64::max);
    let spark =
        |numbers: &[f64], most| format!("{:<SPARKS$}", text::sparkline(numbers, most, SPARKS));
    let latency = now.latency;
    let mut lines = vec![
        format!("Isomer demo   {:.1} of {} s   (q ends it)", now.end_s, view.seconds),
        String::new(),
        format!(
            " throughput    {}  {} tx/s",
            spark(&throughput, most),
            text::count(now.throughput() as u64)
        ),
        format!(
            " single-site   {}  {}",
            spark(&shares, 1.0),
            text::percent(now.single_site_share())
        ),
        format!(
            " changes       {}  {}/s",
            spark(&changes, most_changes),
            text::count(now.change_rate() as u64)
        ),
        format!(
            " latency       p50 {}   p95 {}   p99 {}",
            text::duration(latency.p50_ns as f64),
            text::duration(latency.p95_ns as f64),
            text::duration(latency.p99_ns as f64)
        ),
        String::new(),
    ];
    lines.extend(sites(view));
    lines.push(String::new());
    lines.extend(design(view));
    lines.push(String::new());
    let log = view.log.changes();
    let room = height.saturating_sub(lines.len()).max(1);
    lines.extend(log.last.iter().rev().take(room).map(|change| change.line()));
    lines
}

fn sites(view: &View<'_>) -> Vec<String> {
    let last = &view.series.last;
    let line = |site: isomer_cluster::SiteReport| {
        let share = last.at(site.site) as f64 / last.committed.max(1) as f64;
        let bar = text::bar(share, 30);
        let (percent, memory) = (text::percent(share), text::bytes(site.memory_bytes));
        let name = site.site.to_string();
        format!(" site {name:<4} {bar} {percent:>7} of the transactions   {memory:>10} of rows")
    };
    view.db.sites().into_iter().map(line).collect()
}

fn design(view: &View<'_>) -> Vec<String> {
    let (entries, bytes) = view.db.routing_size();
    let counts: Vec<String> = view
        .log
        .changes()
        .counts()
        .map(|(operator, count)| format!("{operator} {}", text::count(count)))
        .collect();
    let partitions = text::count(view.db.design().partition_count() as u64);
    vec![
        format!(" changes: {}", counts.join("  ")),
        format!(
            " {partitions} partitions, routing table of {} entries ({})",
            text::count(entries as u64),
            text::bytes(bytes)
        ),
    ]
}
