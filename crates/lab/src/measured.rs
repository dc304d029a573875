//! The results of one run.

use crate::shift::Shift;
use isomer_plan::strategy::Learned;
use serde::Serialize;

/// The results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Transactions per virtual second.
    pub throughput_per_s: f64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: f64,
    /// The percentage of distributed transactions.
    pub across_percent: f64,
    /// Mean latency of the experiment's kind of transaction, in milliseconds.
    pub kind_ms: Option<f64>,
    /// Design changes per 1000 transactions during the measurement.
    pub changes_per_1000: f64,
    /// The percentage of those changes that were soon undone; `None` if there were none.
    pub thrash_percent: Option<f64>,
    /// Changes during the second half of the measurement, per 10 seconds.
    pub changes_in_10_s: f64,
    /// The percentage of latency spent in the router.
    pub router_percent: f64,
    /// Megabytes of rows and indexes at the fullest site at the end.
    pub memory_mb: f64,
    /// The quality of the autopilot's predictions.
    pub predicted: Predicted,
    /// The effect of the moving hot spot, if there is one.
    pub shift: Option<Shift>,
    /// The share of the sites' cores in use.
    pub busy: f64,
    /// The number of measured transactions.
    pub transactions: u64,
    /// Transactions rolled back by their procedure.
    pub rolled_back: u64,
    /// Transactions refused by the strategy.
    pub refused: u64,
    /// The number of committed transactions in the whole run, measured or not.
    pub simulated: u64,
    /// Time slices since the first client began: the end of each in seconds, its number of
    /// transactions, and their mean latency in milliseconds.
    pub slices: Vec<(f64, u64, f64)>,
}

/// R² of recent predictions; `None` without a model or with too few observations.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Predicted {
    /// Of the duration of transactions at one site.
    pub transactions: Option<f64>,
    /// Of the duration of splits.
    pub splits: Option<f64>,
    /// Of the duration of remasters.
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
