//! Results as a page: all claims, then the setup, measurements and claims of each experiment.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::results::Row;
use crate::sample::{Mean, Sample};
use crate::system::{SYSTEMS, System};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The columns of the table of an experiment.
const COLUMNS: [(Metric, &str); 8] = [
    (Metric::Throughput, "throughput/s"),
    (Metric::Latency, "latency ms"),
    (Metric::TailLatency, "99 % ms"),
    (Metric::AcrossShare, "several sites %"),
    (Metric::Changes, "changes/1000"),
    (Metric::Thrash, "taken back %"),
    (Metric::RouterShare, "router %"),
    (Metric::Memory, "MB at the fullest"),
];
/// Metrics given in a sentence, for the systems that have them.
const MORE: [Metric; 7] = [
    Metric::KindLatency,
    Metric::Restlessness,
    Metric::PredictedTransactions,
    Metric::PredictedSplits,
    Metric::PredictedRemasters,
    Metric::Rise,
    Metric::Recovery,
];

/// The head of the page: all claims in `rows`, and whether they are reached.
pub fn head(command: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "# MorphoSys' experiments in the laboratory\n\n\
         Written by `{command}`. Virtual clusters run the real router, strategies and sites; times are \
         virtual. ± is the 95 percent confidence over seeds. Each experiment says which parameters are \
         scaled down. Each number is also a line of `morphosys.jsonl`.\n\n"
    );
    let claims: Vec<&Row> = rows.iter().filter(|row| row.reached.is_some()).collect();
    let reached = claims.iter().filter(|row| row.reached == Some(true)).count();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{reached} of {} claims are reached.\n", claims.len());
    text += "| experiment | figure |";
    claim_head(&mut text);
    for row in claims {
        let _ = write!(text, "| [{0}](#{0}) | {1} |", row.experiment, row.figure);
        claim(&mut text, row);
    }
    text + "\n"
}

/// The section of an experiment.
pub fn section(
    experiment: &Experiment,
    samples: &[Sample],
    rows: &[Row],
    plot: Option<&str>,
) -> String {
    let mut text = String::new();
    let Experiment { name, title, figure, .. } = experiment;
    let _ = writeln!(text, "<a id=\"{name}\"></a>\n\n## {title} (`{name}`; {figure})\n");
    setting(&mut text, experiment);
    measurements(&mut text, experiment, samples);
    for sample in samples {
        if let Some(why) = sample.failures.first() {
            let _ = writeln!(text, "`{}` did not finish: {why}\n", sample.system);
        }
    }
    let others = SYSTEMS.iter().filter(|system| system.warm_ups != 1.0);
    let others = others.filter(|other| experiment.systems.iter().any(|name| name == other.name));
    let warm_up_s = |system: &System| experiment.warm_up_s * system.warm_ups;
    let others: Vec<String> =
        others.map(|system| format!("`{}` {:.1} s", system.name, warm_up_s(system))).collect();
    if !others.is_empty() {
        let _ = writeln!(text, "Other durations of the warm-up: {}.\n", others.join(", "));
    }
    more(&mut text, samples);
    let claims: Vec<&Row> = rows.iter().filter(|row| row.reached.is_some()).collect();
    if !claims.is_empty() {
        text += "|";
        claim_head(&mut text);
        for row in claims {
            text += "|";
            claim(&mut text, row);
        }
        text += "\n";
    }
    if let Some(remark) = &experiment.remark {
        let _ = writeln!(text, "{}\n", remark.trim());
    }
    if let Some(plot) = plot {
        let _ = writeln!(text, "![{title}]({plot})\n");
    }
    text
}

/// The machines and durations of an experiment.
fn setting(text: &mut String, experiment: &Experiment) {
    let sites: BTreeSet<u16> =
        experiment.points().iter().map(|point| point.1.cluster.sites).collect();
    let sites: Vec<String> = sites.iter().map(u16::to_string).collect();
    let Experiment { cluster, clients_per_site, warm_up_s, seconds, seeds, .. } = experiment;
    let memory = cluster.memory_mb.map(|mb| format!(", {mb} MB of memory")).unwrap_or_default();
    let _ = writeln!(
        text,
        "{} sites of {} cores {} times slower than this machine's{memory}, {clients_per_site} clients a \
         site, {} µs and {} Mbit/s from machine to machine, a log's sync {} µs; {warm_up_s} s of warm-up, \
         {seconds} s measured, {seeds} seeds.\n",
        sites.join(", "),
        cluster.cores,
        cluster.slowdown,
        cluster.latency_us,
        cluster.bandwidth_mbit,
        cluster.sync_us,
    );
}

/// The table of systems and points.
fn measurements(text: &mut String, experiment: &Experiment, samples: &[Sample]) {
    let varied = experiment.vary.as_ref().map(|vary| format!("{:?}", vary.what).to_lowercase());
    let mut heads = vec!["system".to_owned()];
    heads.extend(varied.clone());
    heads.extend(COLUMNS.map(|(_, head)| head.to_owned()));
    heads.push("cores in use".to_owned());
    let _ = writeln!(text, "| {} |", heads.join(" | "));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(heads.len() - 1));
    for sample in samples {
        let mut cells = vec![sample.system.clone()];
        cells.extend(varied.as_ref().and(sample.x).map(|x| x.to_string()));
        cells.extend(COLUMNS.map(|(metric, _)| cell(sample.mean(metric))));
        let busy = sample.runs.iter().map(|run| run.busy).sum::<f64>();
        cells.push(format!("{:.0} %", busy / sample.runs.len().max(1) as f64 * 100.0));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// The metrics that only some systems or experiments have.
fn more(text: &mut String, samples: &[Sample]) {
    for metric in MORE {
        let told = samples.iter().filter_map(|sample| {
            let mean = sample.mean(metric)?;
            let is_nothing = metric == Metric::Restlessness && mean.mean == 0.0;
            let at = sample.x.map(|x| format!(" at {x}")).unwrap_or_default();
            (!is_nothing).then(|| format!("{}{at} {}", sample.system, number(mean)))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            let _ = writeln!(text, "* {}: {}", metric.name(), told.join("; "));
        }
    }
    text.push('\n');
}

fn claim_head(text: &mut String) {
    *text += " claim | paper | to reach | ours | |\n";
    let columns = text.lines().last().unwrap_or_default().matches('|').count() - 1;
    let _ = writeln!(text, "|{}", " --- |".repeat(columns));
}

fn claim(text: &mut String, row: &Row) {
    let Row { metric, paper, goal, reached, ours, ci95, .. } = row;
    let [paper, goal] = [paper, goal].map(|n| n.map_or("–".to_owned(), |n| n.to_string()));
    let ours = number(Mean { mean: *ours, ci95: *ci95 });
    let reached = if *reached == Some(true) { "reached" } else { "**not reached**" };
    let _ = writeln!(text, " {metric} | {paper} | {goal} | {ours} | {reached} |");
}

fn cell(mean: Option<Mean>) -> String {
    mean.map_or("–".to_owned(), number)
}

/// A mean with its confidence interval, rounded to significant digits.
pub(crate) fn number(Mean { mean, ci95 }: Mean) -> String {
    let digits = match mean.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    match ci95 {
        Some(ci95) => format!("{mean:.digits$} ± {ci95:.digits$}"),
        None => format!("{mean:.digits$}"),
    }
}
