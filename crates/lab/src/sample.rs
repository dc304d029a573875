//! The mean over several seeds with its 95 percent confidence interval (Student's t).

use crate::measured::Measured;
use crate::metric::Metric;

/// The runs of one system at one point of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The system.
    pub system: String,
    /// The value of the varied parameter.
    pub x: Option<f64>,
    /// The finished runs, one for each seed.
    pub runs: Vec<Measured>,
    /// The reasons why other runs failed.
    pub failures: Vec<String>,
}

/// A mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The half-width of the 95 percent confidence interval; `None` for a single run.
    pub ci95: Option<f64>,
}

impl Sample {
    /// The mean of a metric over all runs; `None` without values.
    pub fn mean(&self, metric: Metric) -> Option<Mean> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric.of(run)).collect();
        Mean::of(&values)
    }
}

impl Mean {
    /// The mean of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Mean> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let ci95 = (values.len() > 1).then(|| student_t(values.len() - 1) * (variance / n).sqrt());
        (!values.is_empty()).then_some(Mean { mean, ci95 })
    }
}

/// The mean over seeds of the ratio of a metric in two samples, paired by seed; `None` without
/// runs.
pub(crate) fn ratio(ours: &Sample, theirs: &Sample, metric: Metric) -> Option<Mean> {
    let pairs = ours.runs.iter().zip(&theirs.runs);
    let ratios: Option<Vec<f64>> =
        pairs.map(|(a, b)| Some(metric.of(a)? / metric.of(b)?)).collect();
    Mean::of(&ratios?)
}

/// The 97.5th percentile of Student's t distribution.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    TABLE.get(degrees - 1).copied().unwrap_or(1.96 + 2.5 / degrees as f64)
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
