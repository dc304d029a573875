//! What the paper says, beside what came out.

use super::measured::{Metric, Sample};
use serde::{Deserialize, Serialize};

/// A number of a system, or how it stands to that of others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is compared.
    pub metric: Metric,
    /// Of which system.
    pub of: String,
    /// At which point of what is varied.
    pub at: Option<f64>,
    /// Divided by the largest of these systems' at the same point.
    #[serde(default)]
    pub than: Vec<String>,
    /// Divided by its own at this other point.
    pub than_at: Option<f64>,
    /// What the paper says, where its text gives a number.
    pub paper: Option<f64>,
    /// It is to be at least this.
    pub at_least: Option<f64>,
    /// It is to be at most this.
    pub at_most: Option<f64>,
}

impl Claim {
    /// In words.
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

    /// What came out; `None` if it was not measured.
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

    /// True if it came out; `None` if nothing is to.
    pub fn is_reached(&self, ours: f64) -> Option<bool> {
        let least = self.at_least.map(|least| ours >= least);
        let most = self.at_most.map(|most| ours <= most);
        match (least, most) {
            (None, None) => None,
            (least, most) => Some(least.unwrap_or(true) && most.unwrap_or(true)),
        }
    }

    /// What is to be reached.
    pub fn goal(&self) -> Option<f64> {
        self.at_least.or(self.at_most)
    }
}
