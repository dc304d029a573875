//! Clay: move clumps of co-accessed keys away from overloaded sites (Clay, section 7).
//!
//! ```text
//!        s3 overloaded                     the clump grows from the hottest key of s3,
//!   ┌───────────────────┐                  always by the neighbour with the heaviest edge
//!   │ #1 ═══ #2         │  #1              s2 would get three new cut edges: too much
//!   │  ║  ╲   ║         │  #1 #2           ...
//!   │  ║   #3 ═ #4      │  #1 #2 #3 #4     the hot edges are inside: feasible, a candidate
//!   └──╫────────────────┘  ... #8          look-ahead found a better one: this is moved
//!      #5 (s2)
//! ```
//!
//! *Load* is Equation 2 ([`crate::problem::Cost`]), and θ is the mean load times 1 + ε. A clump is
//! *feasible* for a destination that stays below θ or whose load does not rise. For each site above
//! θ, by number: take its hottest key (by load, cut edges included), and choose the destination
//! with the smallest receiver delta. Expand the clump, and remember its best feasible form. That
//! form moves once [`Options::look_ahead`] expansions have brought nothing better. A clump that can
//! neither grow nor move adds a server, or, if none may be added, gives way to the next hot key.
//!
//! # What makes it fast
//!
//! * [`clump`](self): sums of edge weights by (member's site, neighbour's site) are kept while the
//!   clump grows. So the delta of any site costs a few additions, independent of the clump's size.
//! * The frontier is a heap. A neighbour is pushed when its heaviest edge to the clump grows, so
//!   the best neighbour is found without a scan of the others.
//! * Hot keys come from a heap built in linear time, so only the keys that are used are sorted.
//!
//! Invariants: the kept loads equal Equation 2 over the whole graph after each move. A delta equals
//! load after minus load before, for every site. Tests check both by brute force.
//!
//! # Where paper and public code leave a choice
//!
//! The hot list (by load), the sender condition and the tie rules follow the public code. Algorithm
//! 2 lets the least loaded site take a clump only if the site most accessed with it would get
//! better; here feasibility alone decides.

mod clump;
mod compact;
mod hot;
mod offload;
mod options;
mod scale_in;
mod step;

pub use clump::Clump;
pub use compact::{ClumpIndex, MovedClump};
pub use options::Options;
pub use scale_in::{evacuate, scale_in};
pub use step::{Step, Verdict};

use crate::problem::{PlanError, Problem, Proposal, check_share, plural};

/// Plans without reporting the steps.
pub fn plan(problem: &Problem<'_>, options: &Options) -> Result<Proposal, PlanError> {
    plan_step_by_step(problem, options, &mut |_| {})
}

/// Plans, and reports each step to `tell`.
pub fn plan_step_by_step(
    problem: &Problem<'_>,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Proposal, PlanError> {
    problem.validate()?;
    options.validate()?;
    let mut search = offload::Search::new(problem, options, tell);
    search.run();
    Ok(search.finish("clay"))
}

/// Sends clumps home that have cooled, plans, and records the moves in `clumps` (section 7.4). The
/// share `hot_share` of the accessed keys counts as hot. A note gives the number of routing
/// entries.
pub fn plan_compacting(
    problem: &Problem<'_>,
    options: &Options,
    clumps: &mut ClumpIndex,
    hot_share: f64,
) -> Result<Proposal, PlanError> {
    problem.validate()?;
    check_share("hot share", hot_share)?;
    let graph = problem.graph;
    let (home, returned) = clumps.compact(graph, problem.placement, problem.cost, hot_share);
    let mut proposal = plan(&Problem { placement: &home, ..*problem }, options)?;
    clumps.record(graph, &home, &proposal);
    let placements = [problem.placement, &home, &proposal.placement];
    let [before, compacted, after] = placements.map(|placement| placement.routing_entries(graph));
    proposal.notes.push(format!(
        "routing table: {before} entries, {compacted} after {} of cooled clumps went home, {after} \
         after the plan; {} are away from home",
        plural(returned.iter().map(|step| step.keys.len()).sum(), "key"),
        plural(clumps.keys().count(), "key"),
    ));
    proposal.moves.splice(0..0, returned);
    Ok(proposal)
}
