//! All learned knowledge as one value that can be copied, so that a long computation blocks no
//! other thread.
//!
//! ```text
//!   locked      transactions and changes train Known ─────────────▶ …        adopted, or not
//!                                             └ a copy                          ▲
//!   unlocked                                  ▼                                 │
//!                                      a situation ─▶ global plan: 0.1 s or more
//! ```
//!
//! The copy is out of date by the time the plan is drawn. The plan is therefore checked against the
//! design when it is executed, and moves that have become impossible are skipped
//! ([`super::global_plan`]).
//!
//! Left out is the state of the strategy itself: its journal, its transactions in flight, its
//! schedule.

use super::cost::Costs;
use super::range::Range;
use super::recent::Recent;
use super::regime::{Regime, access_shares_differ};
use super::traffic::Traffic;
use super::tuning::Tuning;
use super::workload::Workload;
use isomer_design::{Design, TableId};
use std::collections::BTreeMap;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) workload: Workload,
    pub(crate) costs: Costs,
    pub(crate) traffic: Traffic,
    pub(crate) recent: Recent,
    /// Rows per copied partition of a table.
    pub(crate) rows: BTreeMap<TableId, f64>,
    pub(crate) regime: Regime,
    pub(crate) tuning: Tuning,
}

impl Known {
    /// No knowledge yet.
    ///
    /// # Panics
    /// As [`crate::learned::Reservoir::new`], for invalid constants.
    pub(crate) fn new(tuning: &Tuning) -> Known {
        Known {
            workload: Workload::new(tuning.damping, 0),
            costs: Costs::default(),
            traffic: Traffic::new(0),
            recent: Recent::new(*tuning, 0),
            regime: Regime::new(*tuning),
            rows: BTreeMap::new(),
            tuning: *tuning,
        }
    }

    /// Ends a renewal of the samples once there are enough to compare. Returns true if the workload
    /// has changed; then the knowledge of the old one is forgotten.
    pub(crate) fn end_renewal(&mut self, now_ns: u64, design: &Design) -> bool {
        let enough = (self.tuning.plan_samples_min.saturating_mul(2), self.tuning.signal_ns());
        if !self.workload.reservoir.has_enough(now_ns, enough) {
            return false;
        }
        let is_another = access_shares_differ(&self.workload, design, self.tuning.disturbed / 4.0);
        self.workload.end_renewal(is_another);
        if is_another {
            self.regime.begin_anew(now_ns);
        }
        is_another
    }

    /// The inputs of a decision about a design, with `budget` changes allowed.
    pub(crate) fn situation<'s>(
        &'s self,
        now_ns: u64,
        design: &'s Design,
        budget: usize,
    ) -> Situation<'s> {
        let (in_probation, may_move, may_relieve) = (false, true, true);
        Situation { now_ns, design, known: self, in_probation, may_move, may_relieve, budget }
    }
}

/// The inputs of a decision: the design, the knowledge of it, and the changes that are allowed now.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub(crate) now_ns: u64,
    pub(crate) design: &'a Design,
    pub(crate) known: &'a Known,
    /// A global plan is being executed, or was a moment ago.
    pub(crate) in_probation: bool,
    /// Masters may move for the sake of a single transaction.
    pub(crate) may_move: bool,
    /// A global plan may relieve a pressed process.
    pub(crate) may_relieve: bool,
    /// The number of changes that are allowed.
    pub(crate) budget: usize,
}

impl Situation<'_> {
    /// True if changes are allowed.
    pub(crate) fn may_add(&self) -> bool {
        self.known.workload.len() >= Tuning::MANY && self.budget >= 1
    }

    /// True if a change of a partition is in flight.
    pub(crate) fn is_asked(&self, range: &Range) -> bool {
        self.known.recent.is_asked(self.now_ns, range.table, &range.keys)
    }
}
