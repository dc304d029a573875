//! Results: what runs with several seeds say together, and how that compares with the paper.
//!
//! A metric of a system at a point of an experiment is a mean over seeds with its 95 percent confidence
//! (Student's t). A **claim** sets such means in relation, as the paper does:
//!
//! | claim | ours is |
//! | --- | --- |
//! | `better-than` | how many times better the first system is than another, at every point: the least |
//! | `grows` | the metric at the last point over that at the first |
//! | `at-most` | the metric itself, the largest of all points |

use crate::experiment::Experiment;
use crate::run::Measured;
use serde::{Deserialize, Serialize};

/// What is measured of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Transactions per virtual second.
    Throughput,
    /// Mean latency.
    Latency,
    /// Latency of the slowest percent.
    TailLatency,
    /// Mean latency of the kind of transaction the experiment names.
    KindLatency,
    /// Design changes for 1000 transactions.
    Changes,
}

/// What the paper says, in a form that can be compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is compared.
    pub metric: Metric,
    /// How.
    pub is: Relation,
    /// The other system, for [`Relation::BetterThan`].
    pub than: Option<String>,
    /// The paper's number.
    pub paper: f64,
    /// What is to be reached here, if not the paper's number.
    pub goal: Option<f64>,
}

/// See the table at the head of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// So many times better than another system.
    BetterThan,
    /// So many times as much at the last point as at the first.
    Grows,
    /// Not more than this anywhere.
    AtMost,
}

/// The runs of one system at one point of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The system.
    pub system: String,
    /// What was varied, at this point.
    pub x: Option<f64>,
    /// A run for each seed that came to an end.
    pub runs: Vec<Measured>,
    /// Why others did not.
    pub failures: Vec<String>,
}

/// A mean with its confidence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The true mean is within so much of it, with 95 percent confidence; `None` for a single run.
    pub ci95: Option<f64>,
}

/// A line of the results.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The paper's figure.
    pub figure: String,
    /// The system.
    pub system: String,
    /// What was varied, at this point.
    pub x: Option<f64>,
    /// What was measured, in words.
    pub metric: String,
    /// The paper's number, where it gives one.
    pub paper: Option<f64>,
    /// What is to be reached.
    pub goal: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Its 95 percent confidence.
    pub ci95: Option<f64>,
    /// Over so many seeds.
    pub seeds: usize,
    /// What repeats it.
    pub command: String,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 5] = [
        Metric::Throughput,
        Metric::Latency,
        Metric::TailLatency,
        Metric::KindLatency,
        Metric::Changes,
    ];

    /// Its name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput, transactions/s",
            Metric::Latency => "mean latency, ms",
            Metric::TailLatency => "99th percentile of latency, ms",
            Metric::KindLatency => "mean latency of the kind in question, ms",
            Metric::Changes => "design changes per 1000 transactions",
        }
    }

    /// Its value in a run; `None` if that has none.
    pub fn of(self, run: &Measured) -> Option<f64> {
        match self {
            Metric::Throughput => Some(run.throughput_per_s),
            Metric::Latency => Some(run.latency_ms),
            Metric::TailLatency => Some(run.p99_ms),
            Metric::KindLatency => run.kind_ms,
            Metric::Changes => Some(run.changes_per_1000),
        }
    }

    /// How many times better `ours` is than `theirs`.
    fn factor(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Metric::Throughput => ours / theirs,
            _ => theirs / ours,
        }
    }
}

impl Sample {
    /// The mean of a metric over all runs; `None` if there is none.
    pub fn mean(&self, metric: Metric) -> Option<Mean> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric.of(run)).collect();
        Mean::of(&values)
    }
}

impl Mean {
    /// The mean of some values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Mean> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let ci95 = (values.len() > 1).then(|| student_t(values.len() - 1) * (variance / n).sqrt());
        (!values.is_empty()).then_some(Mean { mean, ci95 })
    }
}

/// The 97.5th percentile of Student's distribution.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    TABLE.get(degrees - 1).copied().unwrap_or(1.96 + 2.5 / degrees as f64)
}

/// Every line that an experiment's samples give: measurements, then claims.
pub fn rows(experiment: &Experiment, samples: &[Sample]) -> Vec<Row> {
    let row = |system: &str, x, metric: String, ours: Mean, seeds| Row {
        experiment: experiment.name.clone(),
        figure: experiment.figure.clone(),
        system: system.to_owned(),
        x,
        metric,
        paper: None,
        goal: None,
        ours: ours.mean,
        ci95: ours.ci95,
        seeds,
        command: format!("isomer lab run {}", experiment.name),
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
        let Some(mean) = claim.ours(experiment, samples) else { continue };
        let seeds = experiment.seeds as usize;
        rows.push(Row {
            paper: Some(claim.paper),
            goal: Some(claim.goal.unwrap_or(claim.paper)),
            ..row(&experiment.systems[0], None, claim.name(), mean, seeds)
        });
    }
    rows
}

impl Claim {
    /// What is claimed, in words.
    pub fn name(&self) -> String {
        let metric = self.metric.name().split(',').next().unwrap_or_default();
        match (self.is, &self.than) {
            (Relation::BetterThan, Some(than)) => format!("{metric}: times better than {than}"),
            (Relation::BetterThan, None) => format!("{metric}: times better than nothing"),
            (Relation::Grows, _) => format!("{metric}: times as much at the last point"),
            (Relation::AtMost, _) => format!("{metric}: at most"),
        }
    }

    /// What came out here; `None` if runs are missing.
    pub fn ours(&self, experiment: &Experiment, samples: &[Sample]) -> Option<Mean> {
        let first: Vec<&Sample> = of_system(samples, &experiment.systems[0]);
        match self.is {
            Relation::BetterThan => {
                let others = of_system(samples, self.than.as_deref()?);
                let pairs = first.iter().zip(others);
                let factors: Option<Vec<Mean>> =
                    pairs.map(|(ours, theirs)| self.factor(ours, theirs)).collect();
                factors?.into_iter().min_by(|a, b| a.mean.total_cmp(&b.mean))
            }
            Relation::Grows => {
                let (from, to) = (first.first()?, first.last()?);
                paired(to, from, |to, from| Some(self.metric.of(to)? / self.metric.of(from)?))
            }
            Relation::AtMost => {
                let means = first.iter().filter_map(|sample| sample.mean(self.metric));
                means.max_by(|a, b| a.mean.total_cmp(&b.mean))
            }
        }
    }

    /// True if what came out is what is to be reached.
    pub fn is_reached(&self, ours: f64) -> bool {
        let goal = self.goal.unwrap_or(self.paper);
        if self.is == Relation::AtMost { ours <= goal } else { ours >= goal }
    }

    fn factor(&self, ours: &Sample, theirs: &Sample) -> Option<Mean> {
        paired(ours, theirs, |a, b| {
            Some(self.metric.factor(self.metric.of(a)?, self.metric.of(b)?))
        })
    }
}

fn of_system<'s>(samples: &'s [Sample], system: &str) -> Vec<&'s Sample> {
    samples.iter().filter(|sample| sample.system == system).collect()
}

/// The mean over seeds of what two runs with the same seed give together.
fn paired(
    a: &Sample,
    b: &Sample,
    of: impl Fn(&Measured, &Measured) -> Option<f64>,
) -> Option<Mean> {
    let values: Option<Vec<f64>> = a.runs.iter().zip(&b.runs).map(|(a, b)| of(a, b)).collect();
    Mean::of(&values?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_as_in_the_textbook() {
        let mean = Mean::of(&[10.0, 12.0, 14.0, 16.0, 18.0]).unwrap();
        assert!((mean.mean - 14.0).abs() < 1e-9);
        // s = 3.1623, s/√5 = 1.4142, t(4) = 2.776
        assert!((mean.ci95.unwrap() - 3.926).abs() < 1e-3, "{mean:?}");
        assert_eq!(Mean::of(&[3.0]).unwrap().ci95, None);
        assert_eq!(Mean::of(&[]), None);
    }
}
