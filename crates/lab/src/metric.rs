//! The metrics of a run.

use crate::measured::Measured;
use serde::{Deserialize, Serialize};

/// A number that is measured in a run. See [`Metric::name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Transactions per virtual second.
    Throughput,
    /// Mean latency.
    Latency,
    /// 99th percentile of latency.
    TailLatency,
    /// Mean latency of the experiment's kind of transaction.
    KindLatency,
    /// The share of distributed transactions.
    AcrossShare,
    /// Design changes per 1000 transactions.
    Changes,
    /// The router's share of latency: finding a route, deciding.
    RouterShare,
    /// The share of changes that are undone within 10 s.
    Thrash,
    /// Changes per 10 s over the second half of the measurement: how quiet the system has become.
    Restlessness,
    /// Memory of the fullest site at the end.
    Memory,
    /// R² of the predicted durations of transactions at one site.
    PredictedTransactions,
    /// R² of the predicted durations of splits.
    PredictedSplits,
    /// R² of the predicted durations of remasters.
    PredictedRemasters,
    /// The rise of latency after a move of the hot spot.
    Rise,
    /// The time until latency has recovered.
    Recovery,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 15] = [
        Metric::Throughput,
        Metric::Latency,
        Metric::TailLatency,
        Metric::KindLatency,
        Metric::AcrossShare,
        Metric::Changes,
        Metric::RouterShare,
        Metric::Thrash,
        Metric::Restlessness,
        Metric::Memory,
        Metric::PredictedTransactions,
        Metric::PredictedSplits,
        Metric::PredictedRemasters,
        Metric::Rise,
        Metric::Recovery,
    ];

    /// The name and, after a comma, the unit.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput, transactions/s",
            Metric::Latency => "mean latency, ms",
            Metric::TailLatency => "99th percentile of latency, ms",
            Metric::KindLatency => "mean latency of the kind in question, ms",
            Metric::AcrossShare => "transactions over several sites, percent",
            Metric::Changes => "design changes per 1000 transactions",
            Metric::RouterShare => "router's share of latency, percent",
            Metric::Thrash => "changes taken back within 10 s, percent",
            Metric::Restlessness => "design changes in 10 s towards the end",
            Metric::Memory => "memory of the fullest site, MB",
            Metric::PredictedTransactions => "R² of transactions",
            Metric::PredictedSplits => "R² of splits",
            Metric::PredictedRemasters => "R² of remasters",
            Metric::Rise => "rise of latency when the hot spot moves, percent",
            Metric::Recovery => "until latency is back within 5 percent of its best, s",
        }
    }

    /// The name without the unit.
    pub(crate) fn short_name(self) -> &'static str {
        self.name().split(',').next().unwrap_or_default()
    }

    /// The value in a run, or `None` if the run has none.
    pub fn of(self, run: &Measured) -> Option<f64> {
        match self {
            Metric::Throughput => Some(run.throughput_per_s),
            Metric::Latency => Some(run.latency_ms),
            Metric::TailLatency => Some(run.p99_ms),
            Metric::KindLatency => run.kind_ms,
            Metric::AcrossShare => Some(run.across_percent),
            Metric::Changes => Some(run.changes_per_1000),
            Metric::RouterShare => Some(run.router_percent),
            // Without changes, none was undone.
            Metric::Thrash => Some(run.thrash_percent.unwrap_or_default()),
            Metric::Restlessness => Some(run.changes_in_10_s),
            Metric::Memory => Some(run.memory_mb),
            Metric::PredictedTransactions => run.predicted.transactions,
            Metric::PredictedSplits => run.predicted.splits,
            Metric::PredictedRemasters => run.predicted.remasters,
            Metric::Rise => run.shift.map(|shift| shift.rise_percent),
            Metric::Recovery => run.shift.map(|shift| shift.recovery_s),
        }
    }

    /// The factor by which `ours` is better than `theirs`.
    pub(crate) fn factor(self, ours: f64, theirs: f64) -> f64 {
        if self.is_better_large() { ours / theirs } else { theirs / ours }
    }

    pub(crate) fn is_better_large(self) -> bool {
        use Metric::{PredictedRemasters, PredictedSplits, PredictedTransactions, Throughput};
        matches!(self, Throughput | PredictedTransactions | PredictedSplits | PredictedRemasters)
    }
}
