//! Ablation: measures the effect of each rule of the autopilot.
//!
//! ```text
//!   rules          the autopilot without one rule: a tuning in which that rule has no weight
//!     ×            short forms of the experiments with which it was tuned
//!     ×            seeds
//!                       │
//!                       ▼
//!   a table        throughput without the rule, as a share of the throughput with it
//! ```
//!
//! Virtual time makes the results independent of the load of the real machine. Short forms have
//! four sites of four cores, and a quarter to half of the rows. A run takes seconds, and all runs
//! together less than half an hour on two cores. Results vary by a tenth between seeds. A rule is
//! kept if a metric is clearly worse without it, if the paper has it, or if it keeps the autopilot
//! quiet.

use crate::experiment::{Experiment, Varied, WorkloadSpec};
use crate::metric::Metric;
use crate::page::number;
use crate::sample::{Sample, ratio};
use crate::system::{System, tuned};
use isomer_plan::learned::Tuning;
use std::fmt::Write as _;

/// A rule that can be disabled.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The autopilot without the rule, under the name of the rule.
    pub system: System,
    /// A description of the rule.
    pub what: &'static str,
}

/// The rules, each with the tuning that disables it. The first entry is the complete autopilot.
pub fn rules() -> Vec<Rule> {
    let rule = |name, what, strategy| Rule {
        system: System { name, strategy, ..System::autopilot() },
        what,
    };
    vec![
        rule("(all)", "the autopilot as it is", || tuned(|_| {})),
        rule("global plan", "all partitions are placed at once, by a graph partitioner", || {
            tuned(|t| t.plan_samples_min = usize::MAX)
        }),
        rule("neighbours", "adjacent keys have a weak edge", || tuned(|t| t.neighbours = 0.0)),
        rule("plans split", "a plan splits partitions whose locks would be held for long", || {
            tuned(|t| t.held_max = f64::INFINITY)
        }),
        rule("refinement", "full sites hand clumps over, as Clay does", || {
            tuned(|t| t.full_from = f64::INFINITY)
        }),
        rule("trial", "a plan that lowers throughput is rolled back", || {
            tuned(|t| t.rollback_ratio = 0.0)
        }),
        rule("gain", "a plan must promise a tenth more throughput", || tuned(|t| t.gain_min = 1.0)),
        rule("renewal", "after a calm, a disturbance starts a new set of samples", || {
            tuned(|t| t.disturbed = f64::INFINITY)
        }),
        rule("calm", "the budget of changes decays while the workload is stable", || {
            tuned(|t| t.halves_s = f64::INFINITY)
        }),
        rule("gate", "two standard errors are subtracted from what a change saves", || {
            tuned(|t| t.standard_errors = 0.0)
        }),
        rule("undoing", "reverting a recent change has an additional price", || {
            tuned(|t| t.undo_charge = 1.0)
        }),
        rule(
            "hot is split",
            "partitions are split if their locks are held for long or have many waiters",
            || tuned(|t| (t.hot, t.queue_max) = (f64::INFINITY, f64::INFINITY)),
        ),
        rule(
            "samples alone",
            "changes are judged without emulated transactions; here with an equal number of both, as in the paper",
            || tuned(|t| t.emulated = Tuning::MANY),
        ),
        rule("cold is merged", "rarely accessed neighbours are merged", || {
            tuned(|t| t.cold = -1.0)
        }),
    ]
}

/// The short forms of the experiments with which the rules are measured.
pub fn ablation_experiments() -> Vec<Experiment> {
    // Experiments that settle only late take longer.
    let names = ["steady", "ycsb-read-zipf", "ycsb-shift", "tpcc", "twitter"];
    let short = |name: &&str| Experiment::named(name).expect("it is one of ours").short();
    names.iter().map(short).collect()
}

impl Experiment {
    /// The short form of the experiment: a small cluster on which a run takes seconds.
    #[must_use]
    pub(crate) fn short(&self) -> Experiment {
        let mut short = self.clone();
        (short.cluster.sites, short.cluster.cores, short.clients_per_site) = (4, 4, 20);
        let is_long = self.warm_up_s >= 30.0;
        (short.warm_up_s, short.seconds) = if is_long { (20.0, 5.0) } else { (11.0, 2.0) };
        if let Some(vary) = short.vary.as_mut().filter(|vary| vary.what == Varied::Sites) {
            vary.values = vec![2.0, 4.0];
        }
        match &mut short.workload {
            WorkloadSpec::Ycsb(ycsb) => {
                ycsb.rows /= 2;
                ycsb.of = ycsb.of.map(|of| of / 2);
                if let Some(every_s) = &mut ycsb.shift_every_s {
                    (short.warm_up_s, short.seconds, *every_s) = (4.0, 20.0, 12.0);
                }
            }
            WorkloadSpec::SmallBank(bank) => bank.customers /= 2,
            WorkloadSpec::Tpcc(tpcc) => tpcc.warehouses_per_site = 3,
            WorkloadSpec::Twitter(twitter) => twitter.users /= 2,
        }
        short
    }
}

/// The page: one line for each rule, one column for each experiment.
pub fn ablation_page(experiments: &[Experiment], samples: &[Vec<Sample>]) -> String {
    let seeds = experiments.first().map_or(0, |experiment| experiment.seeds);
    let mut page = format!(
        "# What each rule of the autopilot is worth\n\n\
         Written by `isomer-lab ablation --seeds {seeds}`: {seeds} seeds, short forms of the experiments (4 sites of 4 \
         cores), virtual time. Each line is the autopilot without one of its rules: throughput without it over \
         throughput with it, ± the 95 percent confidence of the mean over seeds, paired by seed. The first line is its \
         throughput per second. The last columns are the changes of the design in 10 s at the end, as a mean over the \
         experiments without a moving hot spot, and the rise of latency when the hot spot moves: by how many percent, and \
         for how many seconds.\n\n"
    );
    let names: Vec<&str> = experiments.iter().map(|e| e.name.as_str()).collect();
    let _ = writeln!(
        page,
        "| without | what it does | {} | changes/10 s | rise % | for s |",
        names.join(" | ")
    );
    let _ = writeln!(page, "| --- | --- |{} ---: | ---: | ---: |", " ---: |".repeat(names.len()));
    for (at, rule) in rules().iter().enumerate() {
        let of_rule: Vec<(&Sample, &Sample)> =
            samples.iter().map(|samples| (&samples[at], &samples[0])).collect();
        let cell = |(without, with): &(&Sample, &Sample)| match at {
            0 => with.mean(Metric::Throughput).map(number),
            _ => ratio(without, with, Metric::Throughput).map(number),
        };
        let cells: Vec<String> = of_rule.iter().map(|s| cell(s).unwrap_or("–".into())).collect();
        let still = of_rule.iter().map(|(sample, _)| *sample);
        let still = still.filter(|sample| sample.mean(Metric::Rise).is_none());
        let changes: Vec<f64> =
            still.filter_map(|sample| Some(sample.mean(Metric::Restlessness)?.mean)).collect();
        let changes = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
        let shift = |metric| of_rule.iter().find_map(|(sample, _)| sample.mean(metric));
        let shift = [Metric::Rise, Metric::Recovery]
            .map(|metric| shift(metric).map_or("–".to_owned(), number));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {changes:.1} | {} |",
            rule.system.name,
            rule.what,
            cells.join(" | "),
            shift.join(" | ")
        );
    }
    page
}
