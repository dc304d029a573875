//! Claims about results, by the paper or by us, and whether they hold.
//!
//! | claim | value |
//! | --- | --- |
//! | `better-than` | the factor over another system, or the smallest over all others |
//! | `grows` | the metric at the last point divided by that at the first |
//! | `at-most` | the largest value of the metric at any point |
//! | `at-least` | the smallest value of the metric at any point |
//!
//! A claim may be restricted to one point.

use crate::measured::Measured;
use crate::metric::Metric;
use crate::sample::{Mean, Sample};
use serde::{Deserialize, Serialize};

/// A claim in a form that can be checked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The metric.
    pub metric: Metric,
    /// The relation.
    pub is: Relation,
    /// The other system, for [`Relation::BetterThan`]; all others, if missing.
    pub than: Option<String>,
    /// The point to which the claim is restricted; all points, if missing.
    pub at: Option<f64>,
    /// The paper's number, if it gives one.
    pub paper: Option<f64>,
    /// The number to reach, if it differs from the paper's.
    pub goal: Option<f64>,
}

/// See the table in the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Better than another system by a factor.
    BetterThan,
    /// Grows by a factor from the first point to the last.
    Grows,
    /// At most this value at every point.
    AtMost,
    /// At least this value at every point.
    AtLeast,
}

impl Claim {
    /// The claim in words.
    pub fn name(&self) -> String {
        let metric = self.metric.short_name();
        let others = self.than.as_deref().unwrap_or("every other system");
        let claim = match self.is {
            Relation::BetterThan => format!("{metric}: times better than {others}"),
            Relation::Grows => format!("{metric}: times as much at the last point"),
            Relation::AtMost => format!("{}: at most", self.metric.name()),
            Relation::AtLeast => format!("{}: at least", self.metric.name()),
        };
        self.at.map_or(claim.clone(), |at| format!("{claim} at {at}"))
    }

    /// The number to reach.
    pub fn goal(&self) -> Option<f64> {
        self.goal.or(self.paper)
    }

    /// The value for the first system; `None` if runs are missing.
    pub fn ours(&self, systems: &[String], samples: &[Sample]) -> Option<Mean> {
        let here = |sample: &&Sample| self.at.is_none() || self.at == sample.x;
        let of_system = |name: &str| -> Vec<&Sample> {
            samples.iter().filter(|sample| sample.system == name).filter(here).collect()
        };
        let first = of_system(&systems[0]);
        let means = || first.iter().filter_map(|sample| sample.mean(self.metric));
        let less = |a: &Mean, b: &Mean| a.mean.total_cmp(&b.mean);
        match self.is {
            Relation::BetterThan => {
                let others = systems[1..].iter();
                let others = others.filter(|name| self.than.as_ref().is_none_or(|t| t == *name));
                let pairs = others.flat_map(|name| first.iter().copied().zip(of_system(name)));
                let factors: Option<Vec<Mean>> =
                    pairs.map(|(ours, theirs)| self.factor(ours, theirs)).collect();
                factors?.into_iter().min_by(less)
            }
            Relation::Grows => {
                let (from, to) = (first.first()?, first.last()?);
                paired(to, from, |to, from| Some(self.metric.of(to)? / self.metric.of(from)?))
            }
            Relation::AtMost => means().max_by(less),
            Relation::AtLeast => means().min_by(less),
        }
    }

    /// True if `ours` satisfies the claim.
    pub fn is_reached(&self, ours: f64) -> bool {
        self.goal().is_none_or(|goal| match self.is {
            Relation::AtMost => ours <= goal,
            _ => ours >= goal,
        })
    }

    fn factor(&self, ours: &Sample, theirs: &Sample) -> Option<Mean> {
        paired(ours, theirs, |a, b| {
            Some(self.metric.factor(self.metric.of(a)?, self.metric.of(b)?))
        })
    }
}

/// The mean over seeds of a function of two runs with the same seed.
fn paired(
    a: &Sample,
    b: &Sample,
    of: impl Fn(&Measured, &Measured) -> Option<f64>,
) -> Option<Mean> {
    let values: Option<Vec<f64>> = a.runs.iter().zip(&b.runs).map(|(a, b)| of(a, b)).collect();
    Mean::of(&values?)
}
