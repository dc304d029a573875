//! The recent accuracy of predictions: the coefficient of determination (R²).
//!
//! ```text
//!   R² = 1 − mean of (observed − predicted)² / variance of the observed values
//!
//!   1   exact predictions      0   no better than the mean      below 0   worse than the mean
//! ```
//!
//! The means are running averages: old values count little, and memory does not grow.

use super::tuning::Tuning;
use serde::{Deserialize, Serialize};

/// See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Score {
    observed: u64,
    /// The mean of the observed values.
    pub(crate) mean: f64,
    square: f64,
    error_square: f64,
}

impl Score {
    /// Records an observed value and the error of its prediction. NaN and infinities are ignored.
    pub fn keep(&mut self, came: f64, error: f64) {
        if !came.is_finite() || !error.is_finite() {
            return;
        }
        let pace = pace(self.observed);
        self.observed += 1;
        let step = |average: &mut f64, value: f64| *average += pace * (value - *average);
        step(&mut self.mean, came);
        step(&mut self.square, came * came);
        step(&mut self.error_square, error * error);
    }

    /// The number of observed values.
    pub fn observed(&self) -> u64 {
        self.observed
    }

    /// R²; `None` with too few observations, or if all were equal.
    pub fn r_squared(&self) -> Option<f64> {
        let variance = self.square - self.mean * self.mean;
        (self.observed > Tuning::MANY as u64 && variance > 0.0)
            .then(|| 1.0 - self.error_square / variance)
    }
}

/// The step of a running average after `observed` observations: at first it is the plain average.
pub(crate) fn pace(observed: u64) -> f64 {
    (1.0 - Tuning::MEMORY).max(1.0 / (observed + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_squared_is_the_predicted_share_of_the_variation() {
        let r_squared = |predicted: fn(f64) -> f64| {
            let mut score = Score::default();
            [10.0, 20.0, 30.0].repeat(30).into_iter().for_each(|came| {
                score.keep(came, came - predicted(came));
            });
            score.r_squared().unwrap()
        };
        assert!(r_squared(|came| came) > 0.999);
        assert!(r_squared(|_| 20.0).abs() < 0.01, "no better than the average");
        assert!((r_squared(|came| 20.0 + (came - 20.0) / 2.0) - 0.75).abs() < 0.01);
        assert!(r_squared(|_| 100.0) < 0.0);
        assert_eq!(Score::default().r_squared(), None);
        let mut score = Score::default();
        score.keep(f64::NAN, 1.0);
        assert_eq!(score, Score::default());
    }
}
