//! Claims of the paper, compared with the results.

use super::measured::{Metric, Sample};
use serde::{Deserialize, Serialize};

/// A metric of a system, possibly relative to other systems or to another point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The metric.
    pub metric: Metric,
    /// The system.
    pub of: String,
    /// The point, by the value of the varied parameter.
    pub at: Option<f64>,
    /// If set, divided by the largest value of these systems at the same point.
    #[serde(default)]
    pub than: Vec<String>,
    /// If set, divided by the system's own value at this point.
    pub than_at: Option<f64>,
    /// The paper's number, if its text gives one.
    pub paper: Option<f64>,
    /// The smallest acceptable value.
    pub at_least: Option<f64>,
    /// The largest acceptable value.
    pub at_most: Option<f64>,
}

impl Claim {
    /// The claim in words.
    pub fn name(&self) -> String {
        let name = self.metric.name();
        let short = name.split(", ").next().unwrap_or(name);
        let mut text = match (&self.than[..], self.than_at) {
            ([], None) => name.to_owned(),
            ([], Some(at)) => format!("{short}: times that at {at}"),
            ([one], _) => format!("{short}: times {one}"),
            (several, _) => format!("{short}: times the most of {}", several.join(", ")),
        };
        if let Some(at) = self.at {
            text += &format!(" at {at}");
        }
        text
    }

    /// The measured value; `None` if it was not measured.
    pub fn ours(&self, samples: &[Sample]) -> Option<f64> {
        let of = |system: &str, at: Option<f64>| {
            let is_it = |sample: &&Sample| sample.system == system && sample.x == at;
            samples.iter().find(is_it)?.mean(self.metric).map(|mean| mean.mean)
        };
        let ours = of(&self.of, self.at)?;
        if let Some(at) = self.than_at {
            return Some(ours / of(&self.of, Some(at))?);
        }
        let others: Option<Vec<f64>> = self.than.iter().map(|other| of(other, self.at)).collect();
        let most = others?
            .into_iter()
            .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))));
        Some(most.map_or(ours, |most| ours / most))
    }

    /// Whether the goal is reached; `None` without a goal.
    pub fn is_reached(&self, ours: f64) -> Option<bool> {
        let least = self.at_least.map(|least| ours >= least);
        let most = self.at_most.map(|most| ours <= most);
        match (least, most) {
            (None, None) => None,
            (least, most) => Some(least.unwrap_or(true) && most.unwrap_or(true)),
        }
    }

    /// The goal.
    pub fn goal(&self) -> Option<f64> {
        self.at_least.or(self.at_most)
    }
}
