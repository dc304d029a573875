//! What has been learned so far, as one value that can be copied: so that a long computation holds
//! nobody up.
//!
//! ```text
//!   locked      transactions and changes teach Known ────────────────▶ …             adopted, or not
//!                                             └ a copy                                  ▲
//!   unlocked                                  ▼                                         │
//!                                      a situation ─▶ global plan: 0.1 s or more
//! ```
//!
//! A copy is out of date by the time the plan is drawn. So the plan is checked against the design
//! when it is carried out, and moves that are impossible by then are skipped
//! ([`super::global_plan`]).
//!
//! Left out is the state of the strategy itself: its journal, its transactions in flight, when it
//! plans again.

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
    /// Nothing yet.
    ///
    /// # Panics
    /// As [`crate::learned::Reservoir::new`], for constants that make no sense.
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

    /// If enough samples have come to tell whether the workload has become another one: whether it has. Then what speaks of
    /// the old one is forgotten.
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

    /// What a decision about a design is made of, if so many changes may be asked for.
    pub(crate) fn situation<'s>(
        &'s self,
        now_ns: u64,
        design: &'s Design,
        budget: usize,
    ) -> Situation<'s> {
        Situation { now_ns, design, known: self, in_probation: false, may_move: true, budget }
    }
}

/// What a decision is made of: the design, what is known of it, and what may be changed now.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub(crate) now_ns: u64,
    pub(crate) design: &'a Design,
    pub(crate) known: &'a Known,
    /// A global plan is being carried out, or was a moment ago.
    pub(crate) in_probation: bool,
    /// Masters may be moved for a transaction's sake.
    pub(crate) may_move: bool,
    /// So many changes may be asked for.
    pub(crate) budget: usize,
}

impl Situation<'_> {
    /// Changes may be asked for.
    pub(crate) fn may_add(&self) -> bool {
        self.known.workload.len() >= Tuning::MANY && self.budget >= 1
    }

    /// True if a change of a partition is on its way.
    pub(crate) fn is_asked(&self, range: &Range) -> bool {
        self.known.recent.is_asked(self.now_ns, range.table, &range.keys)
    }
}
