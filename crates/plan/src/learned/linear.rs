//! A linear function of a few inputs, learned from one observation at a time.
//!
//! ```text
//!   y = w0 + w1·x1/s1 + w2·x2/s2 …     s: the scale of an input, so that all inputs are about one
//! ```
//!
//! **Recursive least squares** with exponential forgetting: after each observation the weights are
//! those that minimise the squared errors so far, with recent ones weighted most. An update costs a
//! few multiplications per squared number of inputs, and there is no learning rate to tune. On the
//! checks of the public code it needs a tenth of the observations of gradient descent (see the
//! tests of this module).
//!
//! **Robustness.**
//!
//! - An error far beyond the usual is clipped, so a pause of the machine does not distort the
//!   function. If such errors persist, the bound follows. The usual error is the root of the mean
//!   square: lock waits are mostly zero and sometimes long, and the long ones matter.
//! - More work never costs less: an input with a negative weight counts as zero. Predictions are
//!   therefore made around the average, not from zero, except for functions that are known to pass
//!   through zero.
//! - Observations with NaN or infinities are ignored.
//! - If all observations are alike, least squares would forget everything else, so its memory is
//!   bounded from below.

use super::score::{Score, pace};
use super::tuning::Tuning;
use serde::{Deserialize, Serialize};

/// An input: its name, and the scale that it is divided by.
pub type Feature = (&'static str, f64);

/// See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Linear {
    #[serde(skip)]
    features: &'static [Feature],
    /// No work takes no time: the constant is zero.
    #[serde(default)]
    through_zero: bool,
    /// The weights, that of the constant first.
    weights: Vec<f64>,
    /// The inverse of the inputs' correlations, row by row.
    spread: Vec<f64>,
    score: Score,
    /// The running average of the inputs.
    center: Vec<f64>,
    /// The squared usual error, without extreme outliers.
    usual_square: f64,
}

impl Linear {
    /// A function with a first guess: the constant, then one weight per feature. Without a constant
    /// it is zero where all inputs are zero.
    ///
    /// # Panics
    /// If the number of weights does not match the features, or a scale is not positive.
    pub fn new(features: &'static [Feature], guess: &[f64]) -> Linear {
        let through_zero = guess.len() == features.len();
        let constant = if through_zero { 0.0 } else { guess[0] };
        let slopes = &guess[usize::from(!through_zero)..];
        assert_eq!(slopes.len(), features.len(), "a weight for each feature");
        assert!(features.iter().all(|(_, scale)| *scale > 0.0), "scales are positive");
        let weights: Vec<f64> = std::iter::once(constant).chain(slopes.iter().copied()).collect();
        let size = weights.len();
        let mut spread = vec![0.0; size * size];
        // A missing constant has no variance.
        (usize::from(through_zero)..size).for_each(|i| spread[i * size + i] = Tuning::UNSURE);
        let (score, center, usual_square) = (Score::default(), vec![0.0; features.len()], 0.0);
        Linear { features, through_zero, weights, spread, score, center, usual_square }
    }

    /// Continues with the state of another function, which was saved and loaded, if it has the same
    /// number of inputs and a constant exactly if this one does.
    #[must_use]
    pub fn resumed(self, learned: Linear) -> Linear {
        let shape = |linear: &Linear| {
            let lengths = [&linear.weights, &linear.spread, &linear.center].map(Vec::len);
            (lengths, linear.through_zero)
        };
        let is_alike = shape(&learned) == shape(&self);
        if is_alike { Linear { features: self.features, ..learned } } else { self }
    }

    /// The prediction for these inputs, never below zero.
    ///
    /// # Panics
    /// If the number of inputs does not match the features.
    pub fn predict(&self, inputs: &[f64]) -> f64 {
        assert_eq!(inputs.len(), self.features.len(), "one input for each feature");
        let scaled = inputs.iter().zip(self.features).map(|(input, (_, scale))| input / scale);
        let weights = self.weights[1..].iter().map(|weight| weight.max(0.0));
        if self.through_zero || self.observed() <= Tuning::MANY as u64 {
            let sum =
                scaled.zip(weights).fold(self.weights[0], |sum, (x, weight)| sum + weight * x);
            return sum.max(0.0);
        }
        let around = scaled.zip(&self.center).zip(weights);
        let sum =
            around.fold(self.score.mean, |sum, ((x, center), weight)| sum + weight * (x - center));
        sum.max(0.0)
    }

    /// Learns that these inputs led to the value `came`. Ignores NaN and infinities.
    ///
    /// # Panics
    /// If the number of inputs does not match the features.
    pub fn learn(&mut self, inputs: &[f64], came: f64) {
        if !came.is_finite() || inputs.iter().any(|input| !input.is_finite()) {
            return;
        }
        let scaled = self.scaled(inputs);
        let expected = dot(&self.weights, &scaled);
        let usual = if self.observed() < Tuning::MANY as u64 {
            f64::INFINITY
        } else {
            self.usual_square.sqrt()
        };
        let error = (came - expected).clamp(-Tuning::FAR * usual, Tuning::FAR * usual);
        let seen = (came - expected)
            .clamp(-Tuning::FAR * Tuning::FAR * usual, Tuning::FAR * Tuning::FAR * usual);
        self.keep_score(&scaled[1..], expected + error, error, seen);

        let size = scaled.len();
        let gain: Vec<f64> = self.spread.chunks(size).map(|row| dot(row, &scaled)).collect();
        let denominator = Tuning::MEMORY + dot(&gain, &scaled);
        for (weight, gain) in self.weights.iter_mut().zip(&gain) {
            *weight += gain / denominator * error;
        }
        for (row, mine) in self.spread.chunks_mut(size).zip(&gain) {
            row.iter_mut().zip(&gain).for_each(|(cell, other)| *cell -= mine * other / denominator);
        }
        self.forget();
    }

    /// The number of observations so far, which also serves as a version.
    pub fn observed(&self) -> u64 {
        self.score.observed()
    }

    /// The share of the variation that was predicted recently: [`Score::r_squared`].
    pub fn r_squared(&self) -> Option<f64> {
        self.score.r_squared()
    }

    /// The constant and the weights, per unit of each input, with their names.
    pub fn weights(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let names = std::iter::once(("constant", 1.0)).chain(self.features.iter().copied());
        names.zip(&self.weights).map(|((name, scale), weight)| (name, weight / scale))
    }

    fn scaled(&self, inputs: &[f64]) -> Vec<f64> {
        assert_eq!(inputs.len(), self.features.len(), "one input for each feature");
        let scaled = inputs.iter().zip(self.features).map(|(input, (_, scale))| input / scale);
        let constant = if self.through_zero { 0.0 } else { 1.0 };
        std::iter::once(constant).chain(scaled).collect()
    }

    fn keep_score(&mut self, inputs: &[f64], came: f64, error: f64, seen: f64) {
        let pace = pace(self.observed());
        let step = |average: &mut f64, value: f64| *average += pace * (value - *average);
        self.center.iter_mut().zip(inputs).for_each(|(center, input)| step(center, *input));
        step(&mut self.usual_square, seen * seen);
        self.score.keep(came, error);
    }

    /// Makes past observations count a little less, unless they hardly count any more.
    fn forget(&mut self) {
        let size = self.weights.len();
        let surest = (0..size).map(|i| self.spread[i * size + i]).fold(0.0, f64::max);
        if surest < Tuning::UNSURE {
            self.spread.iter_mut().for_each(|cell| *cell /= Tuning::MEMORY);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const X: &[Feature] = &[("x", 1.0)];

    /// y = 5 x + 7, give or take one; x from 0 to 10.
    fn observations(seed: u64, count: usize) -> Vec<(f64, f64)> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = || {
            let x: f64 = rng.random_range(0.0..10.0);
            (x, 5.0 * x + 7.0 + rng.random_range(-1.0..1.0))
        };
        (0..count).map(|_| draw()).collect()
    }

    fn deviation(predict: impl Fn(f64) -> f64) -> f64 {
        let fresh = observations(99, 1000);
        let squares: f64 = fresh.iter().map(|(x, y)| (predict(*x) - y).powi(2)).sum();
        (squares / fresh.len() as f64).sqrt()
    }

    /// The checks of the public code of MorphoSys' descendant, with a tenth of its observations.
    #[test]
    fn a_line_is_learned_from_a_tenth_of_the_observations_of_gradient_descent() {
        for start in [[0.0, 0.0], [7.0, 5.0], [0.0, 1.0]] {
            let mut ours = Linear::new(X, &start);
            observations(1, 500).iter().for_each(|(x, y)| ours.learn(&[*x], *y));
            let error = deviation(|x| ours.predict(&[x]));
            assert!(error < 0.65, "noise alone gives 0.58, this is {error}");
        }
    }

    #[test]
    fn it_follows_changes_and_reports_its_accuracy() {
        let mut linear = Linear::new(X, &[0.0, 0.0]);
        observations(1, 2000).iter().for_each(|(x, y)| linear.learn(&[*x], *y));
        assert!(linear.r_squared().unwrap() > 0.99);
        observations(2, 2000).iter().for_each(|(x, y)| linear.learn(&[*x], 2.0 * y));
        assert!((linear.predict(&[4.0]) - 54.0).abs() < 1.0, "{}", linear.predict(&[4.0]));
    }

    #[test]
    fn outliers_and_nan_teach_nothing() {
        let mut linear = Linear::new(X, &[0.0, 0.0]);
        observations(1, 500).iter().for_each(|(x, y)| linear.learn(&[*x], *y));
        let before = linear.predict(&[4.0]);
        for (x, y) in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (f64::NEG_INFINITY, 2.0)] {
            linear.learn(&[x], y);
        }
        assert_eq!(linear.predict(&[4.0]), before);
        linear.learn(&[4.0], 1e9);
        assert!((linear.predict(&[4.0]) - before).abs() < 0.5, "{}", linear.predict(&[4.0]));
        assert!(linear.predict(&[-1e9]) >= 0.0, "nothing takes less than no time");
    }

    #[test]
    fn mostly_zero_and_sometimes_large_values_are_learned_on_average() {
        let mut linear = Linear::new(X, &[0.0, 0.0]);
        (0..20_000).for_each(|at| linear.learn(&[1.0], if at % 50 == 0 { 100.0 } else { 0.0 }));
        let average = linear.predict(&[1.0]);
        assert!((1.0..3.0).contains(&average), "2 is right, this is {average}");
    }

    #[test]
    fn more_work_never_costs_less() {
        let mut linear = Linear::new(X, &[5.0, 1.0]);
        for x in [1.0, 2.0, 3.0].repeat(100) {
            linear.learn(&[x], 100.0 - 20.0 * x);
        }
        assert!((linear.predict(&[9.0]) - 60.0).abs() < 10.0, "{}", linear.predict(&[9.0]));
    }

    #[test]
    fn a_function_through_zero_predicts_little_work_as_well() {
        let mut linear = Linear::new(X, &[0.0]);
        // Noise in the inputs looks as if the constant were larger.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for work in [8.0, 9.0, 10.0].repeat(300) {
            linear.learn(&[work * rng.random_range(0.8..1.2)], 5.0 * work);
        }
        assert_eq!(linear.predict(&[0.0]), 0.0);
        let little = linear.predict(&[0.01]);
        assert!((0.045..0.055).contains(&little), "{little}");
        let with_constant = Linear::new(X, &[0.0, 0.0]);
        assert_eq!(with_constant.clone().resumed(linear), with_constant);
    }

    #[test]
    fn inputs_that_never_change_do_not_make_it_forget_the_rest() {
        let mut linear = Linear::new(X, &[0.0, 0.0]);
        observations(1, 500).iter().for_each(|(x, y)| linear.learn(&[*x], *y));
        (0..20_000).for_each(|_| linear.learn(&[2.0], 17.0));
        observations(3, 40).iter().for_each(|(x, y)| linear.learn(&[*x], *y));
        assert!((linear.predict(&[9.0]) - 52.0).abs() < 1.0, "{}", linear.predict(&[9.0]));
    }
}
