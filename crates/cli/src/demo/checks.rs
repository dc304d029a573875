//! The checks at the end of the demo, when nothing runs any more.

use super::compare::Compared;
use super::run::Ran;
use crate::checks::{Check, copies, invariants, no_failures, sums};
use crate::failure::Failure;
use crate::text;
use crate::work::inspect;
use isomer_cluster::Database;
use isomer_workload::TraceWorkload;

/// Runs all checks but [`local`].
pub(super) fn check(
    db: &Database,
    workload: &TraceWorkload,
    ran: &Ran,
) -> Result<Vec<Check>, Failure> {
    let found = inspect(db, &ran.session)?;
    let total = &ran.series.total;
    Ok(vec![
        no_failures(total),
        sums(workload, &found, total.added),
        invariants(&db.design()),
        accounted(db, ran),
        copies(&found),
        sessions(ran),
    ])
}

/// Checks that the logged changes lead from the first design to the last.
fn accounted(db: &Database, ran: &Ran) -> Check {
    let changes = ran.log.changes();
    let count = text::count(changes.all.len() as u64);
    let result = match changes.applied_to(ran.before.clone()) {
        Ok(design) if design == db.design() => Ok(format!("{count} of them")),
        Ok(_) => Err(format!("{count} changes, but they lead to another design")),
        Err(what) => Err(what),
    };
    Check::of("the changes lead from the first design to this", result)
}

fn sessions(ran: &Ran) -> Check {
    let name = "no session went back in time";
    match ran.series.total.went_back {
        0 => Check::new(name, true, "no client read less than it had read before"),
        reads => Check::new(name, false, format!("{} reads did", text::count(reads))),
    }
}

/// A shorter run on a busy machine may be too short for the autopilot to learn anything.
const LEARNS_S: u64 = 10;

/// Checks that more transactions run at one site than without changes of the design; `None` for a
/// run shorter than [`LEARNS_S`].
pub(super) fn local(seconds: u64, ran: &Ran, unchanged: &Compared) -> Option<Check> {
    let (_, last) = ran.series.first_and_last_tenth();
    let without = unchanged.tally.single_site_share();
    let detail = format!(
        "{} in the last tenth of the time, {} on a design that does not change",
        text::percent(last),
        text::percent(without)
    );
    (seconds >= LEARNS_S)
        .then(|| Check::new("the single-site share is higher", last > without, detail))
}
