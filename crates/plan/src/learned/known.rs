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
use super::outlook::Outlook;
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
    pub(crate) horizon_ns: u64,
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
            horizon_ns: tuning.horizon_ns,
        }
    }

    /// If enough samples have come to tell whether the workload has become another one: whether it has. Then what speaks of
    /// the old one is forgotten.
    pub(crate) fn end_renewal(&mut self, tuning: &Tuning, now_ns: u64, design: &Design) -> bool {
        if !self
            .workload
            .has_enough(now_ns, (tuning.plan_samples_min.saturating_mul(2), tuning.signal_ns()))
        {
            return false;
        }
        let is_another = access_shares_differ(&self.workload, design, tuning.disturbed / 4.0);
        self.workload.end_renewal(is_another);
        if is_another {
            self.regime.begin_anew(now_ns);
        }
        is_another
    }

    pub(crate) fn outlook(&self) -> Outlook<'_> {
        let Known { workload, costs, traffic, rows, horizon_ns, .. } = self;
        Outlook::new(workload, costs, traffic, rows, *horizon_ns)
    }

    /// What a decision about a design is made of, if so many changes may be asked for.
    pub(crate) fn situation<'s>(
        &'s self,
        tuning: &'s Tuning,
        now_ns: u64,
        design: &'s Design,
        budget: usize,
    ) -> Situation<'s> {
        Situation {
            now_ns,
            design,
            outlook: self.outlook(),
            recent: &self.recent,
            served: self.regime.served(),
            tuning,
            may_add: self.workload.len() >= Tuning::MANY && budget >= 1,
            in_probation: false,
            may_move: true,
            budget,
        }
    }
}

/// What a decision is made of: the design, what is predicted of it, and what may be changed now.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub(crate) now_ns: u64,
    pub(crate) design: &'a Design,
    pub(crate) outlook: Outlook<'a>,
    pub(crate) recent: &'a Recent,
    /// What is served a second, if that is known.
    pub(crate) served: Option<f64>,
    pub(crate) tuning: &'a Tuning,
    /// Changes may be asked for, and so many.
    pub(crate) may_add: bool,
    /// A global plan is being carried out, or was a moment ago.
    pub(crate) in_probation: bool,
    /// Masters may be moved for a transaction's sake.
    pub(crate) may_move: bool,
    pub(crate) budget: usize,
}
