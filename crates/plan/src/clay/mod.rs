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
//! *Load* is Equation 2 ([`crate::problem::Cost`]), θ is the mean load times 1 + ε, a clump is
//! *feasible* for a destination that stays below θ or whose load does not rise. For each site above
//! θ, in order of their numbers: take its hottest key (by load, cut edges included), choose the
//! destination with the smallest receiver delta, expand, remember the best feasible clump, and
//! move it when [`Options::look_ahead`] expansions brought nothing better. A clump that can neither
//! grow nor move asks for a server, or gives way to the next hot key if none may be added.
//!
//! # What makes it fast
//!
//! * [`clump`](self): sums of edge weights by (member's site, neighbour's site) are kept while the
//!   clump grows, so the delta of any site costs a few additions, whatever the clump's size.
//! * The frontier is a heap in which a neighbour is entered when its heaviest edge to the clump
//!   grows; the best neighbour is found without looking at the others.
//! * Hot keys come from a heap built in linear time, so only those that are used are sorted.
//!
//! Invariants: the kept loads equal Equation 2 over the whole graph after each move; a delta equals
//! load after minus load before, for every site (both checked by brute force in the tests).
//!
//! # Where paper and public code leave a choice
//!
//! The public code's hot list (by load), its sender condition and its tie rules are followed. Algorithm
//! 2 lets the least loaded site take a clump only if the site most accessed with it would be
//! better; we ask for feasibility alone.

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

/// Plans without telling each step.
pub fn plan(problem: &Problem<'_>, options: &Options) -> Result<Proposal, PlanError> {
    plan_step_by_step(problem, options, &mut |_| {})
}

/// Plans, telling each step.
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

/// Sends clumps home that have cooled, plans, and remembers what it moves (section 7.4): the share
/// `hot_share` of the accessed keys counts as hot. The routing table's entries are told in a note.
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
