//! Planted bugs at the interfaces of the code under test: in plans, messages, requests and
//! checkpoints. They prove that the checkers can fail.

use isomer_batch::{Leg, Message, Plan, StepId, Work};
use isomer_design::{Access, SiteId};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// A lock is granted out of order: writers share it.
    LockOutOfOrder,
    /// An evicted record does not move home.
    EvictionForgotten,
    /// A range read asks only the homes of the range, not the sites of fused records.
    RangeMissesFused,
    /// An aborted transaction does not keep the records that were moved to it.
    MoveForgottenOnAbort,
    /// A push arrives without one of its rows.
    RowLostOnTheWay,
    /// A repeated request runs again.
    RunTwice,
    /// A checkpoint lacks the planner's tables.
    TablesNotSaved,
    /// A range gets a new home, but its rows stay at the old one.
    RangeLeftBehind,
    /// A moving range is locked for read only.
    RangeMovesUnlocked,
    /// A disk returns a row with other contents.
    RowRots,
    /// A source drops pushes that an executor may still need.
    PushesForgottenEarly,
    /// A transaction runs before all rows that it reads have arrived.
    PushNotAwaited,
}

impl Plant {
    /// Alters the plan that a site receives.
    pub(crate) fn plan(
        self,
        plan: &Arc<Plan>,
        site: SiteId,
        aborted: &BTreeSet<StepId>,
    ) -> Arc<Plan> {
        let mut planted = Plan::clone(plan);
        for (at, step) in planted.steps.iter_mut().enumerate() {
            let aborts = aborted.contains(&plan.id(at));
            match self {
                Plant::EvictionForgotten if step.work == Work::Carry => step.legs.clear(),
                Plant::PushNotAwaited if step.legs.len() > 1 && step.is_run_at(site) => {
                    let is_far = |leg: &Leg| leg.access() == Access::Read && !leg.is_from(site);
                    let far = step.legs.iter().position(is_far);
                    far.into_iter().for_each(|far| drop(step.legs.remove(far)));
                }
                _ => step.legs.iter_mut().for_each(|leg| self.leg(leg, site, aborts)),
            }
        }
        Arc::new(planted)
    }

    fn leg(self, leg: &mut Leg, site: SiteId, aborts: bool) {
        match (self, leg) {
            (Plant::LockOutOfOrder, Leg::Record { access, .. }) => *access = Access::Read,
            (Plant::RangeLeftBehind, Leg::Range { to, .. }) => *to = None,
            (Plant::RangeMovesUnlocked, Leg::Range { access, to: Some(_), .. }) => {
                *access = Access::Read;
            }
            (Plant::RangeMissesFused, Leg::Range { fused, .. }) => fused.clear(),
            (Plant::MoveForgottenOnAbort, Leg::Record { from, to, .. })
                if aborts && *to == site =>
            {
                *to = *from;
            }
            _ => {}
        }
    }

    /// Alters a message before its delivery.
    pub(crate) fn message(self, message: Message) -> Message {
        match (self, message) {
            (Plant::RowLostOnTheWay, Message::Push { step, rows }) => {
                let rows = rows[..rows.len().saturating_sub(1)].to_vec();
                Message::Push { step, rows: Arc::new(rows) }
            }
            (Plant::PushesForgottenEarly, Message::Done { below }) => {
                Message::Done { below: below + 3 }
            }
            (_, message) => message,
        }
    }
}
