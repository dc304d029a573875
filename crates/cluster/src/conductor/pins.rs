//! Pinned partitions: a strategy's changes of them are not made ([`isomer_design::Pins`]).
//!
//! A strategy need not know of pins. Its changes of pinned partitions are left out of its plans,
//! and it learns that they failed. A transaction that would wait for such a change runs at several
//! sites instead.

use super::Conductor;
use crate::catalog::Definition;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{Pins, Plan, Step, TableId};
use isomer_strategy::{Decision, Request};

const WHY: &str = "the partition is pinned";

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
    conductor.home.keep(&after, Definition::Table(table))?;
    conductor.design.lock().set_pins(table, pins).map_err(Box::new)?;
    Ok(())
}

/// A plan of the strategy without its changes of pinned partitions.
pub(super) fn without_pinned<T: Transport>(conductor: &Conductor<T>, mut plan: Plan) -> Plan {
    if !plan.is_empty() {
        let design = conductor.design();
        let (pinned, free): (Vec<Step>, _) =
            plan.steps.into_iter().partition(|step| design.is_pinned(&step.change));
        plan.steps = free;
        conductor.leave(pinned.iter().map(|step| &step.change), WHY);
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
    conductor.leave(decision.first.changes(), WHY);
    let Decision { deferred, is_occasion, .. } = decision;
    let coordinator = isomer_strategy::coordinator(request);
    Decision { deferred, is_occasion, ..Decision::across(coordinator) }
}
