//! Bugs at the borders of the code under test: in plans, messages, requests and checkpoints. They prove
//! that the checkers can fail.

use isomer_batch::{Leg, Message, Plan, StepId, Work};
use isomer_design::{Access, SiteId};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// A lock is granted to whoever comes: writers share it.
    LockOutOfOrder,
    /// A record leaves the fusion table, and does not go home.
    EvictionForgotten,
    /// A range is read at its homes only.
    RangeMissesFused,
    /// A transaction that aborts does not keep what was moved to it.
    MoveForgottenOnAbort,
    /// A push arrives without one of its rows.
    RowLostOnTheWay,
    /// A request that comes again runs again.
    RunTwice,
    /// A checkpoint leaves out the planner's tables.
    TablesNotSaved,
    /// A range gets another home, and its rows stay.
    RangeLeftBehind,
    /// A range that moves is not locked against others.
    RangeMovesUnlocked,
    /// A site's disk gives back another row than it was given.
    RowRots,
    /// A source forgets pushes that an executor may still need.
    PushesForgottenEarly,
    /// A transaction runs before all that it reads has come.
    PushNotAwaited,
}

impl Plant {
    /// What a site is handed instead of a plan.
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

    /// What arrives instead of a message.
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
