//! Results: the means over several seeds, and their comparison with the paper.
//!
//! The value of a [metric](Metric) for a system at a point of an experiment is a mean over seeds
//! with its 95 percent confidence interval (Student's t). A [claim](crate::Claim) compares such
//! means, as the paper does.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::sample::{Mean, Sample};
use serde::Serialize;

/// A line of the results.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The paper's figure.
    pub figure: String,
    /// The system.
    pub system: String,
    /// The value of the varied parameter.
    pub x: Option<f64>,
    /// The metric or claim in words.
    pub metric: String,
    /// The paper's number, if it gives one.
    pub paper: Option<f64>,
    /// The number to reach.
    pub goal: Option<f64>,
    /// Whether it is reached; `None` if there is no goal.
    pub reached: Option<bool>,
    /// The measured value.
    pub ours: f64,
    /// The half-width of its 95 percent confidence interval.
    pub ci95: Option<f64>,
    /// The number of seeds.
    pub seeds: usize,
    /// The command that repeats the experiment.
    pub command: String,
}

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
        let Some(mean) = claim.ours(&experiment.systems, samples) else { continue };
        let seeds = experiment.seeds as usize;
        rows.push(Row {
            paper: claim.paper,
            goal: claim.goal(),
            reached: Some(claim.is_reached(mean.mean)),
            ..row(&experiment.systems[0], claim.at, claim.name(), mean, seeds)
        });
    }
    rows
}
