//! What a planner was asked and what it decided, batch for batch.
//!
//! ```text
//!   batch, plan ──▶ asked:    footprints, as they came
//!                   decided:  which of them next, who runs it
//!                   moved:    record, from, to, in the order of the plan
//! ```
//!
//! A recording says enough to route the batches once more and to compare. `isomer route --recorded` does so, by routers
//! of its own over numbers, and without an engine.

use crate::plan::{Leg, Plan, Step, Work};
use crate::request::Batch;
use crate::rows::RecordId;
use isomer_design::{Footprint, SiteId};
use std::sync::Arc;

/// A batch as a planner saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Its place in the order.
    pub batch: u64,
    /// Footprints of the transactions that were routed, as they came.
    pub asked: Vec<Footprint>,
    /// The same transactions as they are to run.
    pub decided: Vec<Decided>,
    /// Records that change their site, in the order in which they do.
    pub moved: Vec<Move>,
    /// True if sites or homes were changed with it.
    pub provisioned: bool,
}

/// What was decided about a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decided {
    /// Its place among those that were asked for.
    pub at: usize,
    /// Who runs it; the first one answers.
    pub executors: Vec<SiteId>,
}

/// A record that changes its site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Move {
    /// Which one.
    pub record: RecordId,
    /// Where it was.
    pub from: SiteId,
    /// Where it is from then on.
    pub to: SiteId,
}

impl Recorded {
    /// Records the plan of a batch.
    pub fn of(batch: &Batch, plan: &Plan) -> Recorded {
        let (mut asked, mut executors) = (Vec::new(), Vec::new());
        for (place, step) in plan.steps.iter().enumerate() {
            if let Work::Call(call) = &step.work {
                let came = batch.requests.iter().position(|request| Arc::ptr_eq(request, call));
                asked.push((came.expect("a plan calls what its batch has"), place));
            }
        }
        let mut as_they_came = asked.clone();
        as_they_came.sort_unstable();
        let at = |place| as_they_came.iter().position(|(_, other)| *other == place);
        for (_, place) in &asked {
            let at = at(*place).expect("it came");
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
