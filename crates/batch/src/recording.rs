//! A recording of the input and the decisions of a planner, batch by batch.
//!
//! ```text
//!   batch, plan ──▶ asked:    footprints, in the order of arrival
//!                   decided:  transactions in the order of execution, each with its executors
//!                   moved:    record, from, to, in the order of the plan
//! ```
//!
//! A recording suffices to route the batches again with another router and to compare the results.
//! `isomer route --recorded` does this without an engine.

use crate::plan::{Leg, Plan, Step, Work};
use crate::request::Batch;
use crate::rows::RecordId;
use isomer_design::{Footprint, SiteId};
use std::sync::Arc;

/// The input of a planner for one batch, and its decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The place of the batch in the order.
    pub batch: u64,
    /// The footprints of the routed transactions, in the order of arrival.
    pub asked: Vec<Footprint>,
    /// The same transactions in the order of execution.
    pub decided: Vec<Decided>,
    /// The records that change their site, in the order of the plan.
    pub moved: Vec<Move>,
    /// True if the batch contained provisions.
    pub provisioned: bool,
}

/// The decision about one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decided {
    /// Its index in [`Recorded::asked`].
    pub at: usize,
    /// The sites that run it; the first one answers.
    pub executors: Vec<SiteId>,
}

/// A record that changes its site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Move {
    /// The table and key.
    pub record: RecordId,
    /// The site before.
    pub from: SiteId,
    /// The site after.
    pub to: SiteId,
}

impl Recorded {
    /// Records the plan of a batch.
    pub fn of(batch: &Batch, plan: &Plan) -> Recorded {
        let (mut asked, mut executors) = (Vec::new(), Vec::new());
        for (place, step) in plan.steps.iter().enumerate() {
            if let Work::Call(call) = &step.work {
                let came = batch.requests.iter().position(|request| Arc::ptr_eq(request, call));
                asked.push((came.expect("a planned call is in its batch"), place));
            }
        }
        let mut as_they_came = asked.clone();
        as_they_came.sort_unstable();
        let at = |place| as_they_came.iter().position(|(_, other)| *other == place);
        for (_, place) in &asked {
            let at = at(*place).expect("each place is listed");
            executors.push(Decided { at, executors: plan.steps[*place].executors.clone() });
        }
        let footprint = |(came, _): &(usize, usize)| batch.requests[*came].footprint.clone();
        Recorded {
            batch: plan.batch,
            asked: as_they_came.iter().map(footprint).collect(),
            decided: executors,
            moved: plan.steps.iter().flat_map(moves).collect(),
            provisioned: !batch.provisions.is_empty(),
        }
    }
}

/// The records that a step moves.
fn moves(step: &Step) -> impl Iterator<Item = Move> {
    step.legs.iter().filter_map(|leg| match leg {
        Leg::Record { record, from, to, .. } if from != to => {
            Some(Move { record: record.clone(), from: *from, to: *to })
        }
        _ => None,
    })
}
