//! METIS on the heat graph, with an imbalance setting (Clay, section 8.1): co-accesses alone
//! decide.

use crate::partition;
use crate::problem::{PlanError, Problem, Proposal};

/// Plans with imbalance `eta` (0.1 to 10 in the paper). Keys without accesses stay.
pub fn plan(problem: &Problem<'_>, eta: f64) -> Result<Proposal, PlanError> {
    problem.validate()?;
    let placement = partition::place(problem, eta)?;
    let reason = format!("METIS puts them together (imbalance {eta})");
    Ok(Proposal::from_scratch("metis", problem.placement, placement, &reason))
}
