//! Changes that a strategy may not make: of pinned partitions ([`isomer_design::Pins`]), and all
//! deferred ones while an operator has turned them off.
//!
//! A strategy need not know of either. Its changes of pinned partitions are left out of its plans,
//! and it learns that they failed. A transaction that would wait for such a change runs at several
//! sites instead.
//!
//! **The switch** ([`turn_plans`]) drops the plans that wait. A plan under way stops before its
//! next change; a change that has begun is completed, because sites may have made steps of it.
//! Missing backups, takeovers and readmissions go on.

use super::{Conductor, copy};
use crate::catalog::Definition;
use crate::conductor::copy::home;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{Pins, Plan, Step, TableId};
use isomer_strategy::{Cause, Decision, Request};
use std::sync::atomic::Ordering;

const WHY: &str = "the partition is pinned";
/// Why deferred changes are not made while the switch is off.
pub(super) const OFF: &str = "changes of the design are turned off";

/// Permits or stops the deferred changes of the strategy.
pub(crate) fn turn_plans<T: Transport>(conductor: &Conductor<T>, on: bool) {
    conductor.are_plans_off.store(!on, Ordering::SeqCst);
    if !on {
        // A plan that is added from now on is dropped when its turn comes.
        for plan in conductor.deferred.take_all() {
            conductor.leave(plan.changes(), Cause::Off, OFF);
        }
    }
}

pub(super) fn are_plans_off<T: Transport>(conductor: &Conductor<T>) -> bool {
    conductor.are_plans_off.load(Ordering::SeqCst)
}

/// Says which ranges of a table strategies leave where they are.
///
/// # Errors
/// [`Error::Invalid`] if there is no such table; nothing has changed then.
pub(crate) async fn set_pins<T: Transport>(
    conductor: &Conductor<T>,
    table: TableId,
    pins: Pins,
) -> Result<(), Error> {
    let _reserved = conductor.reserve_definitions().await;
    let mut after = conductor.design();
    after.set_pins(table, pins.clone()).map_err(Box::new)?;
    home(conductor).keep(&after, Definition::Table(table))?;
    let mut design = conductor.design.lock();
    design.set_pins(table, pins).map_err(Box::new)?;
    copy::tell_table(conductor, &design, table);
    Ok(())
}

/// A plan of the strategy without its changes of pinned partitions. Empty while plans are off.
pub(super) fn permitted<T: Transport>(conductor: &Conductor<T>, mut plan: Plan) -> Plan {
    if are_plans_off(conductor) {
        conductor.leave(plan.changes(), Cause::Off, OFF);
        return Plan::default();
    }
    if !plan.is_empty() {
        let design = conductor.design();
        let (pinned, free): (Vec<Step>, _) =
            plan.steps.into_iter().partition(|step| design.is_pinned(&step.change));
        plan.steps = free;
        conductor.leave(pinned.iter().map(|step| &step.change), Cause::Pinned, WHY);
    }
    plan
}

/// A decision that changes no pinned partition before its transaction runs.
pub(crate) fn around_pins<T: Transport>(
    conductor: &Conductor<T>,
    request: &Request<'_>,
    decision: Decision,
) -> Decision {
    if decision.first.is_empty() {
        return decision;
    }
    let design = conductor.design();
    if !decision.first.changes().any(|change| design.is_pinned(change)) {
        return decision;
    }
    conductor.leave(decision.first.changes(), Cause::Pinned, WHY);
    let Decision { deferred, is_occasion, .. } = decision;
    let coordinator = isomer_strategy::coordinator(request);
    Decision { deferred, is_occasion, ..Decision::across(coordinator) }
}
