//! Compares the autopilot with the strongest other system, in short forms of every experiment.
//!
//! ```text
//!   experiments, short     ×     every system     ×     seeds
//!                                     │
//!            ┌────────────────────────┼──────────────────────────┐
//!            ▼                        ▼                          ▼
//!   the best of those        the best placement          user-visible quality: quiet, memory,
//!   that finished            known with hindsight        scaling, overhead, tail latency,
//!                                                        a moving hot spot
//! ```
//!
//! The factors of the paper compare with baselines that are weaker there than here; [`crate::page`]
//! lists them as information. The question is whether another system would have been better, so
//! each claim compares with the strongest other system. **Hindsight** is the best system with a
//! fixed placement, made before the run with knowledge of the workload. Ratios are paired by seed.
//! Short forms are those of the [ablation](crate::ablation_page).

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::page::number;
use crate::sample::{Mean, Sample, ratio};
use crate::system::SYSTEMS;
use std::fmt::Write as _;

/// Systems that are not compared. `static` refuses transactions that need several sites, so it runs
/// a different workload. `dynamast` does the same as `on-demand`, but better.
const NOT_COMPARED: [&str; 2] = ["static", "on-demand"];
/// Systems with a fixed placement made before the run.
const HINDSIGHT: [&str; 3] = ["static-2pc", "single-master", "multi-master"];

/// The short form of every experiment, with every compared system.
pub fn claims_experiments() -> Vec<Experiment> {
    let systems = SYSTEMS.iter().map(|system| system.name);
    let systems: Vec<String> =
        systems.filter(|name| !NOT_COMPARED.contains(name)).map(str::to_owned).collect();
    let short =
        |experiment: Experiment| Experiment { systems: systems.clone(), ..experiment.short() };
    Experiment::all().into_iter().map(short).collect()
}

/// A claim about one point of an experiment.
struct Claimed<'s> {
    what: String,
    /// The measured value. It must be at least `goal` if `at_least`, and otherwise at most `goal`.
    ours: Mean,
    at_least: bool,
    goal: f64,
    /// The system for comparison, if any.
    beside: Option<&'s Sample>,
}

impl Claimed<'_> {
    fn is_reached(&self) -> bool {
        if self.at_least { self.ours.mean >= self.goal } else { self.ours.mean <= self.goal }
    }
}

/// Returns the strongest of some systems at the point of a sample, and the ratio of the sample to
/// it.
fn beside<'s>(
    ours: &Sample,
    samples: &'s [Sample],
    metric: Metric,
    is_meant: impl Fn(&str) -> bool,
) -> Option<(&'s Sample, Mean)> {
    let others = samples.iter().filter(|other| other.x == ours.x && other.system != ours.system);
    let others = others.filter(|other| is_meant(&other.system) && other.failures.is_empty());
    let means = others.filter_map(|other| Some((other.mean(metric)?.mean, other)));
    let better =
        |a: f64, b: f64| if metric.is_better_large() { a.total_cmp(&b) } else { b.total_cmp(&a) };
    let (_, other) = means.max_by(|a, b| better(a.0, b.0))?;
    Some((other, ratio(ours, other, metric)?))
}

/// The claims about one point of an experiment.
fn claimed<'s>(experiment: &Experiment, ours: &Sample, samples: &'s [Sample]) -> Vec<Claimed<'s>> {
    let mut claims = Vec::new();
    let mut at_least = |what: &str, goal, (other, ours): (&'s Sample, Mean)| {
        let what = what.to_owned();
        claims.push(Claimed { what, ours, at_least: true, goal, beside: Some(other) });
    };
    let any = |_: &str| true;
    let best = beside(ours, samples, Metric::Throughput, any);
    best.into_iter()
        .for_each(|best| at_least("throughput, times the best compared system", 1.0, best));
    let known = beside(ours, samples, Metric::Throughput, |name| HINDSIGHT.contains(&name));
    let what = "throughput, times the best placement known with hindsight";
    known.into_iter().for_each(|known| at_least(what, 0.9, known));
    let mut at_most = |metric: Metric, goal, of: Option<&str>| {
        let (what, beside, ours) = match of {
            Some(of) => {
                let found = beside(ours, samples, metric, |name| name == of);
                let Some((other, ours)) = found else { return };
                (format!("{}, times that of {of}", metric.short_name()), Some(other), ours)
            }
            None => {
                let Some(ours) = ours.mean(metric) else { return };
                (metric.name().to_owned(), None, ours)
            }
        };
        claims.push(Claimed { what, ours, at_least: false, goal, beside });
    };
    at_most(Metric::RouterShare, 5.0, None);
    match experiment.name.as_str() {
        "steady" => {
            at_most(Metric::Restlessness, 10.0, None);
            at_most(Metric::Thrash, 2.0, None);
        }
        "ycsb-shift" => {
            at_most(Metric::Rise, 50.0, None);
            at_most(Metric::Recovery, 4.0, None);
        }
        "tpcc-remote" => {
            at_most(Metric::Changes, 10.0, None);
            at_most(Metric::TailLatency, 1.0, Some("single-master"));
        }
        "memory" => at_most(Metric::Memory, 1.0, Some("multi-master")),
        "scale" => claims.extend(scaled(ours, samples)),
        _ => {}
    }
    claims
}

/// At the last point of a scaling experiment: the throughput relative to the first point.
fn scaled<'s>(ours: &Sample, samples: &'s [Sample]) -> Option<Claimed<'s>> {
    let mut all = samples.iter().filter(|sample| sample.system == ours.system);
    let (first, last) = (all.next()?, all.next_back()?);
    let sites = last.x? / first.x?;
    (ours.x == last.x).then_some(Claimed {
        what: format!("throughput, times as much on {sites} times as many sites"),
        ours: ratio(last, first, Metric::Throughput)?,
        at_least: true,
        goal: 0.9 * sites,
        beside: Some(first),
    })
}

/// The page: the claims, then the throughput of every system.
pub fn claims_page(experiments: &[Experiment], samples: &[Vec<Sample>]) -> String {
    let seeds = experiments.first().map_or(0, |experiment| experiment.seeds);
    let (mut table, mut all, mut reached) = (String::new(), 0, 0);
    for (experiment, samples) in experiments.iter().zip(samples) {
        for ours in samples.iter().filter(|sample| sample.system == experiment.systems[0]) {
            for claim in claimed(experiment, ours, samples) {
                let at = ours.x.map(|x| format!(" at {x}")).unwrap_or_default();
                let other = claim.beside.map_or("–", |other| &*other.system);
                let relation = if claim.at_least { "≥" } else { "≤" };
                let verdict = if claim.is_reached() { "reached" } else { "**not reached**" };
                (all, reached) = (all + 1, reached + u32::from(claim.is_reached()));
                // Writing to a String cannot fail.
                let _ = writeln!(
                    table,
                    "| {}{at} | {} | {other} | {relation} {} | {} | {verdict} |",
                    experiment.name,
                    claim.what,
                    claim.goal,
                    number(claim.ours)
                );
            }
        }
    }
    format!(
        "# What the autopilot is worth\n\n\
         Written by `isomer-lab ablation --seeds {seeds}`: {seeds} seeds, short forms of every experiment (4 sites of 4 \
         cores), virtual time. All systems take part except those that refuse transactions. ± is the 95 percent \
         confidence of the mean over seeds, paired by seed. Hindsight is the best of the fixed placements that were made \
         with knowledge of the workload. The paper's own factors are in [morphosys.md](morphosys.md).\n\n\
         {reached} of {all} claims are reached.\n\n\
         | experiment | claim | beside | to reach | ours | |\n| --- | --- | --- | --- | --- | --- |\n{table}\n\
         ## Throughput of every system\n\n{}",
        served(experiments, samples)
    )
}

/// Transactions per second of every system at every point.
fn served(experiments: &[Experiment], samples: &[Vec<Sample>]) -> String {
    let Some(first) = experiments.first() else { return String::new() };
    let mut table = format!("| experiment | {} |\n", first.systems.join(" | "));
    let _ = writeln!(table, "| --- |{}", " ---: |".repeat(first.systems.len()));
    for (experiment, samples) in experiments.iter().zip(samples) {
        for (x, _) in experiment.points() {
            let at = x.map(|x| format!(" at {x}")).unwrap_or_default();
            let cell = |system: &String| {
                let mut here = samples.iter().filter(|sample| sample.x == x);
                let sample = here.find(|sample| sample.system == *system)?;
                sample.mean(Metric::Throughput).map(number)
            };
            let cells = experiment.systems.iter().map(|name| cell(name).unwrap_or("–".into()));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(table, "| {}{at} | {} |", experiment.name, cells.join(" | "));
        }
    }
    table
}
