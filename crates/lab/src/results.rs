//! Results: what runs with several seeds say together, and how that compares with the paper.
//!
//! A [metric](Metric) of a system at a point of an experiment is a mean over seeds with its 95 percent
//! confidence (Student's t). A [claim](crate::Claim) sets such means in relation, as the paper does.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::run::Measured;
use serde::Serialize;

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
    /// What was measured or is claimed, in words.
    pub metric: String,
    /// The paper's number, where it gives one.
    pub paper: Option<f64>,
    /// What is to be reached.
    pub goal: Option<f64>,
    /// Whether it is; `None` if nothing is to be reached.
    pub reached: Option<bool>,
    /// Ours.
    pub ours: f64,
    /// Its 95 percent confidence.
    pub ci95: Option<f64>,
    /// Over so many seeds.
    pub seeds: usize,
    /// What repeats it.
    pub command: String,
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
        reached: None,
        ours: ours.mean,
        ci95: ours.ci95,
        seeds,
        command: format!("isomer lab run {} --seeds {}", experiment.name, experiment.seeds),
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
            paper: claim.paper,
            goal: claim.goal(),
            reached: Some(claim.is_reached(mean.mean)),
            ..row(&experiment.systems[0], claim.at, claim.name(), mean, seeds)
        });
    }
    rows
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
