//! What has been learned so far, in one piece: so that whoever thinks about it for long takes a copy, and holds
//! nobody up.
//!
//! ```text
//!   locked      transactions and changes teach Known ────────────────▶ …             adopted, or not
//!                                             └ a copy                                  ▲
//!   unlocked                                  ▼                                         │
//!                                      a situation ─▶ blueprint: a tenth of a second or more
//! ```
//!
//! A copy grows old while it is thought about. So what comes of it is checked against the design when it is carried
//! out, and what is gone by then is passed over ([`super::blueprint`]).
//!
//! Left out is what is not about transactions and machines but about the strategy itself: its journal, what it waits to
//! hear of, when it thinks again.

use super::cost::Costs;
use super::options::Options;
use super::outlook::Outlook;
use super::recent::Recent;
use super::shift::is_elsewhere;
use super::situation::Situation;
use super::traffic::Traffic;
use super::workload::Workload;
use isomer_design::{Design, TableId};
use std::collections::BTreeMap;

/// With fewer samples than this, nobody knows what pays.
const SAMPLES_MIN: usize = 32;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) workload: Workload,
    pub(crate) costs: Costs,
    pub(crate) traffic: Traffic,
    pub(crate) recent: Recent,
    /// Rows per copied partition of a table.
    pub(crate) rows: BTreeMap<TableId, f64>,
    horizon_ns: u64,
}

impl Known {
    /// Nothing yet.
    ///
    /// # Panics
    /// As [`crate::learned::Reservoir::new`], for constants that make no sense.
    pub(crate) fn new(options: &Options) -> Known {
        Known {
            workload: Workload::new(options.damping, 0),
            costs: Costs::default(),
            traffic: Traffic::new(0),
            recent: Recent::new(options.limits, 0),
            rows: BTreeMap::new(),
            horizon_ns: options.horizon_ns,
        }
    }

    /// If it is told by now whether the workload has become another one: whether it has. Then what speaks of the old
    /// one is forgotten.
    pub(crate) fn end_turn(&mut self, now_ns: u64, design: &Design) -> bool {
        if !self.workload.is_told(now_ns) {
            return false;
        }
        let is_another = is_elsewhere(&self.workload, design);
        self.workload.end_turn(is_another);
        if is_another {
            self.traffic.turn();
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
        options: &'s Options,
        now_ns: u64,
        design: &'s Design,
        budget: usize,
    ) -> Situation<'s> {
        let may_add = self.workload.len() >= SAMPLES_MIN && budget >= 1;
        let (recent, outlook, is_young, may_move) = (&self.recent, self.outlook(), false, true);
        Situation { now_ns, design, outlook, recent, options, may_add, is_young, may_move, budget }
    }
}
