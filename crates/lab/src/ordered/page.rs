//! Results as a page and as lines: all claims, then each experiment.

use super::claim::Claim;
use super::measured::{Metric, Sample};
use super::spec::{Experiment, Initial, WorkloadSpec};
use crate::page::number;
use crate::results::Row;
use crate::sample::Mean;
use std::fmt::Write as _;

/// The columns of the table of an experiment.
const COLUMNS: [(Metric, &str); 9] = [
    (Metric::Throughput, "throughput/s"),
    (Metric::Latency, "latency ms"),
    (Metric::TailLatency, "99 % ms"),
    (Metric::Distributed, "several sites %"),
    (Metric::Moved, "moved/txn"),
    (Metric::Imbalance, "busiest site"),
    (Metric::CoreTime, "core ms/txn"),
    (Metric::Sent, "kB/txn"),
    (Metric::Busy, "cores in use %"),
];
/// Metrics that only some experiments have.
const CHANGES: [(Metric, &str); 5] = [
    (Metric::FirstSecond, "first second %"),
    (Metric::Dip, "lowest %"),
    (Metric::Last, "in the end %"),
    (Metric::Settles, "settled after s"),
    (Metric::ColdEnd, "cold records there at s"),
];

/// The lines for the samples of an experiment: measurements, then claims.
pub fn rows(experiment: &Experiment, samples: &[Sample]) -> Vec<Row> {
    let row = |system: &str, x, metric: String, ours: Mean, seeds| Row {
        experiment: experiment.name.clone(),
        figure: experiment.figure.clone(),
        system: system.to_owned(),
        x,
        metric,
        paper: None,
        goal: None,
        reached: None,
        ours: ours.mean,
        ci95: ours.ci95,
        seeds,
        command: format!("isomer-lab run {} --seeds {}", experiment.name, experiment.seeds),
    };
    let mut rows = Vec::new();
    for sample in samples {
        for metric in Metric::ALL {
            let Some(mean) = sample.mean(metric) else { continue };
            let name = metric.name().to_owned();
            rows.push(row(&sample.system, sample.x, name, mean, sample.runs.len()));
        }
    }
    for claim in &experiment.claims {
        let Some(ours) = claim.ours(samples) else { continue };
        let mean = Mean { mean: ours, ci95: None };
        let seeds = experiment.seeds as usize;
        rows.push(Row {
            paper: claim.paper,
            goal: claim.goal(),
            reached: claim.is_reached(ours),
            ..row(&claim.of, claim.at, claim.name(), mean, seeds)
        });
    }
    rows
}

/// The head of the page.
pub fn head(command: &str, all: &[(&Experiment, &[Sample])]) -> String {
    let mut text = format!(
        "# Hermes' experiments in the laboratory\n\n\
         Written by `{command}`. The real sequencer, planner, sites and procedures of `isomer-batch` on virtual \
         machines; times are virtual ([0032](../decisions/0032-laboratory-costs-of-ordering.md)). All systems \
         are routers on the same engine, so nothing else differs. Each run counts only if all answers and rows are those \
         of a serial execution of its order. ± is the 95 percent confidence over seeds. Each experiment says which \
         parameters are scaled down. Each number is also a line of `hermes.jsonl`.\n\n\
         The paper gives most of its figures as drawings; the numbers of its text stand beside ours.\n\n"
    );
    let claims = all.iter().flat_map(|(one, samples)| {
        one.claims.iter().filter_map(|claim| Some((*one, claim, claim.ours(samples)?)))
    });
    let claims: Vec<_> = claims.collect();
    let asked = claims.iter().filter_map(|(_, claim, ours)| claim.is_reached(*ours));
    let (reached, asked) = (asked.clone().filter(|reached| *reached).count(), asked.count());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{reached} of {asked} aims are reached.\n");
    text += "| experiment | figure | system | what | paper | to reach | ours | |\n";
    text += "| --- | --- | --- | --- | ---: | ---: | ---: | --- |\n";
    for (experiment, claim, ours) in claims {
        let Experiment { name, figure, .. } = experiment;
        let _ = write!(text, "| [{name}](#{name}) | {figure} |");
        claim_cells(&mut text, claim, ours);
    }
    text + "\n"
}

/// The section of an experiment. `plots` are pairs of a title and a file.
pub fn section(experiment: &Experiment, samples: &[Sample], plots: &[(String, String)]) -> String {
    let mut text = String::new();
    let Experiment { name, title, figure, .. } = experiment;
    let _ = writeln!(text, "<a id=\"{name}\"></a>\n\n## {title} (`{name}`; {figure})\n");
    setting(&mut text, experiment);
    table(&mut text, experiment, samples, &COLUMNS);
    text += "The mean latency in parts, in milliseconds:\n\n";
    let parts = ["order", "scheduling", "locks", "remote data", "execution", "answer"];
    let parts: Vec<_> = Metric::PARTS.into_iter().zip(parts).collect();
    table(&mut text, experiment, samples, &parts);
    if samples.iter().any(|sample| sample.mean(Metric::Dip).is_some()) {
        text += "Throughput after a change, in percent of what it was before:\n\n";
        table(&mut text, experiment, samples, &CHANGES);
    }
    for sample in samples {
        if let Some(why) = sample.failures.first() {
            let _ = writeln!(text, "`{}` did not finish: {why}\n", sample.system);
        }
    }
    let claims: Vec<_> = experiment.claims.iter().collect();
    if claims.iter().any(|claim| claim.ours(samples).is_some()) {
        text += "| system | what | paper | to reach | ours | |\n";
        text += "| --- | --- | ---: | ---: | ---: | --- |\n";
        for claim in claims {
            let Some(ours) = claim.ours(samples) else { continue };
            text += "|";
            claim_cells(&mut text, claim, ours);
        }
        text.push('\n');
    }
    if let Some(remark) = &experiment.remark {
        let _ = writeln!(text, "{}\n", remark.trim());
    }
    for (title, file) in plots {
        let _ = writeln!(text, "![{title}]({file})\n");
    }
    text
}

/// The machines and durations of an experiment.
fn setting(text: &mut String, experiment: &Experiment) {
    let Experiment { cluster, clients_per_site, warm_up_s, seconds, seeds, .. } = experiment;
    let Experiment { batch, batch_wait_ms, fusion, placement, .. } = experiment;
    let room = match fusion {
        Some(share) => format!("a fusion table for {} percent of the records", share * 100.0),
        None => "an unbounded fusion table".to_owned(),
    };
    let placement = match placement {
        Initial::Range => "by range",
        Initial::Hash => "by a hash of each key",
        Initial::Skewed => "by range, seven of sixteen parts at the first site",
    };
    let _ = writeln!(
        text,
        "{} sites of {} cores {} times slower than this machine's, {clients_per_site} clients a site; a transaction's own \
         code takes a core {} µs; {} µs and {} Mbit/s from machine to machine, a sync of the order's log {} µs; batches of up \
         to {batch}, closed after {batch_wait_ms} ms; {room}; {}; placed {placement}; {warm_up_s} s of warm-up, \
         {seconds} s measured, {seeds} seeds.\n",
        cluster.sites,
        cluster.cores,
        cluster.slowdown,
        cluster.logic_us,
        cluster.latency_us,
        cluster.bandwidth_mbit,
        cluster.sync_us,
        workload(&experiment.workload),
    );
}

fn workload(spec: &WorkloadSpec) -> String {
    match spec {
        WorkloadSpec::Google(google) => format!(
            "{} records a site, Zipf {}, loads of {:?}'s machines",
            google.keys_per_site, google.theta, google.load
        ),
        WorkloadSpec::Tpcc(tpcc) => format!("{} warehouses a site", tpcc.warehouses_per_site),
        WorkloadSpec::Tenants(tenants) => {
            let hot = match (tenants.change_s, tenants.tenant) {
                (_, Some(share)) => format!("the first has {} percent", share * 100.0),
                (Some(every_s), None) => {
                    format!("one site has 90 percent, a different site every {every_s} s")
                }
                (None, None) => "the first site has 90 percent".to_owned(),
            };
            format!("{} records a site in four tenants, of which {hot}", tenants.keys_per_site)
        }
    }
}

fn table(
    text: &mut String,
    experiment: &Experiment,
    samples: &[Sample],
    columns: &[(Metric, &str)],
) {
    let varied = experiment.varied();
    let mut heads = vec!["system".to_owned()];
    heads.extend(varied.clone());
    heads.extend(columns.iter().map(|(_, head)| (*head).to_owned()));
    let _ = writeln!(text, "| {} |", heads.join(" | "));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(heads.len() - 1));
    for sample in samples {
        let mut cells = vec![sample.system.clone()];
        cells.extend(varied.as_ref().and(sample.x).map(|x| x.to_string()));
        let mean = |metric| sample.mean(metric).map_or("–".to_owned(), number);
        cells.extend(columns.iter().map(|(metric, _)| mean(*metric)));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn claim_cells(text: &mut String, claim: &Claim, ours: f64) {
    let paper = claim.paper.map_or("–".to_owned(), |paper| paper.to_string());
    let goal = match (claim.at_least, claim.at_most) {
        (Some(least), _) => format!("≥ {least}"),
        (None, Some(most)) => format!("≤ {most}"),
        (None, None) => "–".to_owned(),
    };
    let verdict = match claim.is_reached(ours) {
        Some(true) => "reached",
        Some(false) => "**not reached**",
        None => "",
    };
    let ours = number(Mean { mean: ours, ci95: None });
    let _ = writeln!(
        text,
        " {} | {} | {paper} | {goal} | {ours} | {verdict} |",
        claim.of,
        claim.name()
    );
}
