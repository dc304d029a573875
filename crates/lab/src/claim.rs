//! Claims: what the paper says of its measurements, or we of ours, and whether that came out.
//!
//! | claim | ours is |
//! | --- | --- |
//! | `better-than` | how many times better the first system is than another, or than every other: the least |
//! | `grows` | the metric at the last point over that at the first |
//! | `at-most` | the metric itself, the largest of all points |
//! | `at-least` | the metric itself, the smallest of all points |
//!
//! A claim may be about one point only.

use crate::measured::Measured;
use crate::metric::Metric;
use crate::sample::{Mean, Sample};
use serde::{Deserialize, Serialize};

/// What is claimed, in a form that can be compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is compared.
    pub metric: Metric,
    /// How.
    pub is: Relation,
    /// The other system, for [`Relation::BetterThan`]; every other, if missing.
    pub than: Option<String>,
    /// At this point of what is varied; at all, if missing.
    pub at: Option<f64>,
    /// The paper's number, where it gives one.
    pub paper: Option<f64>,
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
    /// Not less than this anywhere.
    AtLeast,
}

impl Claim {
    /// What is claimed, in words.
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

    /// What is to be reached.
    pub fn goal(&self) -> Option<f64> {
        self.goal.or(self.paper)
    }

    /// What came out for the first of the systems; `None` if runs are missing.
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

    /// True if what came out is what is to be reached.
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

/// The mean over seeds of what two runs with the same seed give together.
fn paired(
    a: &Sample,
    b: &Sample,
    of: impl Fn(&Measured, &Measured) -> Option<f64>,
) -> Option<Mean> {
    let values: Option<Vec<f64>> = a.runs.iter().zip(&b.runs).map(|(a, b)| of(a, b)).collect();
    Mean::of(&values?)
}
