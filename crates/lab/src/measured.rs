//! What one run gives.

use crate::shift::Shift;
use isomer_plan::strategy::Learned;
use serde::Serialize;

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Transactions per virtual second.
    pub throughput_per_s: f64,
    /// Mean latency, in milliseconds.
    pub latency_ms: f64,
    /// Latency of the slowest percent, in milliseconds.
    pub p99_ms: f64,
    /// How many percent of the transactions ran over several sites.
    pub across_percent: f64,
    /// Mean latency of the kind of transaction the experiment asks for, in milliseconds.
    pub kind_ms: Option<f64>,
    /// Changes of the design for 1000 transactions, while it was measured.
    pub changes_per_1000: f64,
    /// Of those changes, how many percent were taken back soon; `None` if there were none.
    pub thrash_percent: Option<f64>,
    /// Changes of the second half of what was measured, for 10 seconds of it.
    pub changes_in_10_s: f64,
    /// How many percent of latency were spent in the router.
    pub router_percent: f64,
    /// Megabytes of rows and index at the fullest site, at the end.
    pub memory_mb: f64,
    /// How well the autopilot predicted what things take.
    pub predicted: Predicted,
    /// What a moving hot spot did, if one moved.
    pub shift: Option<Shift>,
    /// The share of the sites' cores that was in use.
    pub busy: f64,
    /// Transactions measured.
    pub transactions: u64,
    /// Ended by their own procedure.
    pub rolled_back: u64,
    /// Refused by the strategy.
    pub refused: u64,
    /// All transactions that were carried out in virtual time, measured or not.
    pub simulated: u64,
    /// The time from the first client on in slices: when each ends in seconds, its transactions, and
    /// their mean latency in milliseconds.
    pub slices: Vec<(f64, u64, f64)>,
}

/// R² of predictions, lately; `None` for who predicts nothing, and for what was seen too seldom.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Predicted {
    /// Of how long transactions at one site take.
    pub transactions: Option<f64>,
    /// Of how long splits take.
    pub splits: Option<f64>,
    /// Of how long remasters take.
    pub remasters: Option<f64>,
}

impl Predicted {
    pub(crate) fn by(learned: Option<&Learned>) -> Predicted {
        let Some(costs) = learned.map(Learned::costs) else { return Predicted::default() };
        let of = |name| {
            let functions = costs.functions();
            functions.iter().find(|function| function.0 == name).and_then(|(_, f)| f.r_squared())
        };
        let (splits, remasters) = (of("split"), of("remaster"));
        Predicted { transactions: costs.whole().r_squared(), splits, remasters }
    }
}
