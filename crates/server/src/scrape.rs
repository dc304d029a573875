//! The figures of a running server, collected from the states that own them: as a list, and as the
//! rows of `isomer.metrics`.

use crate::engine::Engine;
use crate::figures::{Figure, FigureValue};
use crate::tally::RolledBack;
use isomer_sql::datum::Datum;
use std::collections::BTreeMap;

/// All current figures. Figures of one name are adjacent.
pub(crate) fn figures(engine: &Engine) -> Vec<Figure> {
    let mut figures = engine.statements.figures();
    figures.extend(engine.shipments.figures());
    figures.extend(crate::engine::ordered::figures(engine));
    figures.extend(transaction_figures(engine));
    figures.extend(site_figures(engine));
    figures.extend(engine.steering.figures(engine.database().now()));
    let design = engine.database().design();
    let partitions = design.partition_count() as f64;
    let jobs = engine.database().jobs().len() as f64;
    let (_, routing_bytes) = engine.database().routing_size();
    figures.extend([
        Figure::gauge("isomer_design_partitions", "Partitions of all tables.", partitions),
        Figure::gauge(
            "isomer_conductor_reached",
            "1 if this process has the conductor, or a seat there, else 0: statements wait.",
            f64::from(u8::from(trouble(engine).is_none())),
        ),
        Figure::gauge("isomer_design_jobs", "Changes of the design under way.", jobs),
        Figure::gauge(
            "isomer_backups_missing",
            "Backups that partitions lack, of those that their tables ask for.",
            engine.database().backups_missing() as f64,
        ),
        Figure::gauge(
            "isomer_routing_table_bytes",
            "Memory of the routing table.",
            routing_bytes as f64,
        ),
        Figure::gauge(
            "isomer_site_failovers",
            "Sites that other sites have taken over from since the start.",
            engine.database().failed_over().len() as f64,
        ),
    ]);
    let mut states = BTreeMap::new();
    for (_, state) in isomer_cluster::reconfiguration_states(engine.database()) {
        *states.entry(state.to_string()).or_insert(0.0) += 1.0;
    }
    figures.extend(states.into_iter().map(|(state, count)| {
        let help = "Plans of operators by state, since the process with the conductor began.";
        Figure::gauge("isomer_reconfigurations", help, count).with("state", state)
    }));
    figures
}

/// Why statements wait or fail here at present, if they do.
pub fn trouble(engine: &Engine) -> Option<String> {
    let seat = engine.database().others().seat()?;
    (!seat.is_seated).then(|| {
        "this process has no seat: the one with the conductor is not reached, and none has taken its place".to_owned()
    })
}

/// Figures of transactions and of their locks.
fn transaction_figures(engine: &Engine) -> Vec<Figure> {
    let (counts, gateway) = (engine.tallies.counts(), engine.gateway());
    let ended = |outcome: &str, count| {
        let help = "Transactions that ended, by outcome.";
        Figure::counter("isomer_transactions", help, count).with("outcome", outcome)
    };
    let waits =
        "Time that transactions of all gateways waited for locks, where the locks are kept.";
    let waiting = "Transactions of this gateway that wait for locks.";
    let misses = "Transactions and reads of this gateway that found their rows at another site than its routing table says.";
    let rolled_back = RolledBack::ALL.map(|(why, name)| {
        ended("rolled_back", engine.tallies.rolled_back(why)).with("reason", name)
    });
    let locks = [
        Figure::durations("isomer_lock_wait_seconds", waits, &gateway.lock_waits().shown()),
        Figure::gauge("isomer_lock_waiters", waiting, gateway.waiting() as f64),
        Figure::counter("isomer_routing_misses", misses, engine.database().others().misses()),
    ];
    [ended("committed", counts.commits)].into_iter().chain(rolled_back).chain(locks).collect()
}

/// Figures of each site, by name first.
fn site_figures(engine: &Engine) -> Vec<Figure> {
    let mut figures = Vec::new();
    let here = engine.database().sites();
    let sites = here.iter().map(|report| report.site);
    let away = engine.database().sites_elsewhere();
    let sites: Vec<_> = sites.chain(away.iter().map(|(load, _)| load.site)).collect();
    for (kind, at) in [("local", 0), ("distributed", 1)] {
        for site in &sites {
            let help =
                "Commits of open transactions by coordinating site: at one site, or over several.";
            let count = engine.gateway().commits(*site)[at];
            let figure = Figure::counter("isomer_commits", help, count);
            figures.push(figure.with("site", site).with("kind", kind));
        }
    }
    let memory = here.iter().map(|report| (report.site, report.memory_bytes));
    let memory = memory.chain(away.iter().map(|(load, _)| (load.site, load.memory_bytes)));
    figures.extend(memory.map(|(site, bytes)| {
        let help = "Memory of the rows and indexes of a site.";
        Figure::gauge("isomer_site_memory_bytes", help, bytes as f64).with("site", site)
    }));
    let busy = here.iter().map(|report| (report.site, report.busy));
    let busy = busy.chain(away.iter().map(|(load, _)| (load.site, load.busy)));
    figures.extend(busy.filter_map(|(site, busy)| {
        let help = "Share of a processor that work at a site takes; SQL and routing are not in it.";
        Some(Figure::gauge("isomer_site_busy_ratio", help, busy?).with("site", site))
    }));
    let of_process = here.iter().map(|report| (report.site, report.process_busy));
    let of_process = of_process.chain(away.iter().map(|(load, _)| {
        let process = load.process.as_ref();
        (load.site, process.map(|process| process.busy))
    }));
    figures.extend(of_process.filter_map(|(site, busy)| {
        let help =
            "Share of the processors of the site's process in use; SQL and routing are in it.";
        Some(Figure::gauge("isomer_process_busy_ratio", help, busy?).with("site", site))
    }));
    let is_up = here.iter().map(|report| (report.site, report.failure.is_none()));
    let is_up = is_up.chain(away.iter().map(|(load, reach)| {
        let is_reached = reach.as_ref().is_none_or(|reach| reach.trouble.is_none());
        (load.site, is_reached && engine.database().failure(load.site).is_none())
    }));
    figures.extend(is_up.map(|(site, is_up)| {
        let help = "1 if a site works and is reached, else 0.";
        Figure::gauge("isomer_site_up", help, f64::from(u8::from(is_up))).with("site", site)
    }));
    for report in &here {
        let name = "isomer_replication_delay_seconds";
        let help =
            "Time from commits at their masters until the replicas of a site have applied them.";
        let figure = Figure::durations(name, help, &report.apply_delays);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let Some(lag_ns) = report.lag_ns else { continue };
        let help = "Time since which some replica of a site may lack commits.";
        let figure = Figure::gauge("isomer_replication_lag_seconds", help, lag_ns as f64 / 1e9);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let help = "Frames appended to the redo log of a site.";
        let figure = Figure::counter("isomer_log_appended_frames", help, report.log.frames);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let help = "Bytes appended to the redo log of a site.";
        let figure = Figure::counter("isomer_log_appended_bytes", help, report.log.bytes);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let help = "1 while a checkpoint of a site is made, else 0.";
        let running = f64::from(u8::from(report.checkpoint.running.is_some()));
        let figure = Figure::gauge("isomer_checkpoint_running", help, running);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let Some(last) = &report.checkpoint.last else { continue };
        let help = "Bytes of the last checkpoint of a site.";
        let figure = Figure::gauge("isomer_checkpoint_bytes", help, last.bytes as f64);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let Some(last) = &report.checkpoint.last else { continue };
        let help = "Duration of the last checkpoint of a site.";
        let took = last.ended.0.saturating_sub(last.begun.0) as f64 / 1e9;
        let figure = Figure::gauge("isomer_checkpoint_duration_seconds", help, took);
        figures.push(figure.with("site", report.site));
    }
    let now = engine.database().now();
    for report in &here {
        let Some(last) = &report.checkpoint.last else { continue };
        let help = "Seconds since the last checkpoint of a site ended.";
        let age = now.0.saturating_sub(last.ended.0) as f64 / 1e9;
        let figure = Figure::gauge("isomer_checkpoint_age_seconds", help, age);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let help = "1 if the last attempt to make a checkpoint of a site failed, else 0.";
        let failed = f64::from(u8::from(report.checkpoint_error.is_some()));
        let figure = Figure::gauge("isomer_checkpoint_failed", help, failed);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let Some(max) = report.memory_max else { continue };
        let help = "Memory that the rows and indexes of a site may take.";
        let figure = Figure::gauge("isomer_site_memory_max_bytes", help, max as f64);
        figures.push(figure.with("site", report.site));
    }
    for report in &here {
        let help = "Bytes of the redo log that a restart of a site would read.";
        let kept = report.checkpoint.log_bytes_kept as f64;
        figures.push(Figure::gauge("isomer_log_kept_bytes", help, kept).with("site", report.site));
    }
    figures
}

/// Figures as rows; a histogram as the rows of Prometheus' format.
pub(crate) fn metric_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let row = |name: &str, kind: &str, labels: String, value: f64, help: &str| {
        let [name, labels, kind] = [name, &labels, kind].map(Datum::text);
        vec![name, labels, kind, Datum::Float(value), Datum::text(help)]
    };
    let mut rows = Vec::new();
    for figure in figures(engine) {
        let (name, help, labels) = (figure.name, figure.help, figure.label_text());
        match figure.value {
            FigureValue::Counter(count) => {
                let name = format!("{name}_total");
                rows.push(row(&name, "counter", labels, count as f64, help));
            }
            FigureValue::Gauge(level) => rows.push(row(name, "gauge", labels, level, help)),
            FigureValue::Histogram { sum, count, buckets } => {
                let mut below = 0;
                for (end, count) in buckets {
                    below += count;
                    let end =
                        if end == f64::INFINITY { "+Inf".to_owned() } else { end.to_string() };
                    let comma = if labels.is_empty() { "" } else { "," };
                    let labels = format!("{labels}{comma}le=\"{end}\"");
                    let name = format!("{name}_bucket");
                    rows.push(row(&name, "histogram", labels, below as f64, help));
                }
                let name_of = |what: &str| format!("{name}_{what}");
                rows.push(row(&name_of("sum"), "histogram", labels.clone(), sum, help));
                rows.push(row(&name_of("count"), "histogram", labels, count as f64, help));
            }
        }
    }
    rows
}
