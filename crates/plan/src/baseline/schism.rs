//! Schism: partition the co-access graph with METIS, then explain the result by ranges.
//!
//! METIS places keys one by one. A routing table with an entry per key would be huge, and would say
//! nothing about keys that were not recorded. So each table is cut into ranges: neighbouring keys
//! on one site form a run. A run too short to be worth an entry joins the neighbouring run with
//! more accesses. Keys that were never recorded follow their range.
//!
//! The last step is Schism's validation: it compares ranges, single keys and hashing by the weight
//! of the edges they cut, and proposes the best. Ranges win if they are nearly as good, because
//! they also place unseen keys.

use crate::heat::HeatGraph;
use crate::partition;
use crate::problem::{Placement, PlanError, Problem, Proposal, Site, check_share};
use crate::recording::Vertex;

/// The parameters of Schism.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// METIS' imbalance.
    pub eta: f64,
    /// Runs with a smaller share of their table's accessed keys are merged into a neighbour.
    pub run_share_min: f64,
    /// The excess cut that ranges may have over single keys, as a share of all edges.
    pub ranges_bonus: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { eta: 0.1, run_share_min: 0.001, ranges_bonus: 0.02 }
    }
}

/// Plans.
pub fn plan(problem: &Problem<'_>, options: Options) -> Result<Proposal, PlanError> {
    problem.validate()?;
    for (what, value) in
        [("shortest run", options.run_share_min), ("bonus of ranges", options.ranges_bonus)]
    {
        check_share(what, value)?;
    }
    let single = partition::place(problem, options.eta)?;
    let ranges = to_ranges(problem.graph, &single, options.run_share_min);
    let hash = Placement::by_hash(problem.graph.keys(), problem.placement.sites());
    choose(problem, options, single, ranges, hash)
}

fn choose(
    problem: &Problem<'_>,
    options: Options,
    single: Placement,
    ranges: Placement,
    hash: Placement,
) -> Result<Proposal, PlanError> {
    let graph = problem.graph;
    let cuts = [&ranges, &single, &hash].map(|placement| cut_share(graph, placement));
    let names = ["ranges", "single keys", "hashing"];
    let ranks = [cuts[0] - options.ranges_bonus, cuts[1], cuts[2]];
    let best = (0..3).min_by(|&a, &b| ranks[a].total_cmp(&ranks[b])).unwrap_or(0);
    let entries = [&ranges, &single, &hash].map(|placement| placement.routing_entries(graph));
    let chosen = vec![ranges, single, hash].swap_remove(best);
    let reason = format!("{} of METIS' parts", names[best]);
    let mut proposal = Proposal::from_scratch("schism", problem.placement, chosen, &reason);
    for other in 0..3 {
        let (name, cut, entries) = (names[other], 100.0 * cuts[other], entries[other]);
        let line = format!("{name}: {cut:.2} % of the co-accesses cut, {entries} routing entries");
        if other == best {
            proposal.notes.push(format!("chosen: {line}"));
        } else {
            proposal.lost.push(line);
        }
    }
    Ok(proposal)
}

/// The share of the edges' weight between different sites.
pub fn cut_share(graph: &HeatGraph, placement: &Placement) -> f64 {
    let (mut cut, mut all) = (0.0, 0.0);
    for vertex in 0..graph.len() as Vertex {
        for (to, weight) in graph.neighbours(vertex).filter(|&(to, _)| to > vertex) {
            all += weight;
            cut += if placement.site(vertex) == placement.site(to) { 0.0 } else { weight };
        }
    }
    if all > 0.0 { cut / all } else { 0.0 }
}

/// A run of accessed keys of one table on one site.
#[derive(Clone, Copy)]
struct Run {
    first: Vertex,
    keys: usize,
    weight: f64,
    site: Site,
}

/// Turns a placement of single keys into ranges.
pub fn to_ranges(graph: &HeatGraph, placement: &Placement, run_share_min: f64) -> Placement {
    let mut ranges = placement.clone();
    let mut start = 0;
    while start < graph.len() {
        let table = graph.keys().table_of(start as Vertex);
        let rest = start..graph.len();
        let same = |&v: &usize| graph.keys().table_of(v as Vertex) == table;
        let end = start + rest.take_while(same).count();
        let runs = merge_short(runs(graph, placement, start, end), run_share_min);
        for (at, run) in runs.iter().enumerate() {
            let from = if at == 0 { start as Vertex } else { run.first };
            let to = runs.get(at + 1).map_or(end as Vertex, |next| next.first);
            (from..to).for_each(|vertex| ranges.set(vertex, run.site));
        }
        start = end;
    }
    ranges
}

fn runs(graph: &HeatGraph, placement: &Placement, start: usize, end: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for vertex in start as Vertex..end as Vertex {
        let (weight, site) = (graph.weight(vertex), placement.site(vertex));
        match runs.last_mut() {
            _ if weight == 0.0 => {}
            Some(run) if run.site == site => {
                run.keys += 1;
                run.weight += weight;
            }
            _ => runs.push(Run { first: vertex, keys: 1, weight, site }),
        }
    }
    runs
}

/// Merges short runs into their heavier neighbour. The bound of *short* doubles up to the limit, so
/// that the shortest go first.
fn merge_short(mut runs: Vec<Run>, run_share_min: f64) -> Vec<Run> {
    let keys: usize = runs.iter().map(|run| run.keys).sum();
    let limit = (keys as f64 * run_share_min).ceil() as usize;
    let mut short = 1;
    while short < 2 * limit {
        let bound = short.min(limit);
        let mut kept: Vec<Run> = Vec::with_capacity(runs.len());
        for at in 0..runs.len() {
            let mut run = runs[at];
            if run.keys < bound {
                let after = runs.get(at + 1).map_or(0.0, |next| next.weight);
                match kept.last() {
                    Some(before) if before.weight >= after => run.site = before.site,
                    _ => run.site = runs.get(at + 1).map_or(run.site, |next| next.site),
                }
            }
            match kept.last_mut() {
                Some(last) if last.site == run.site => {
                    last.keys += run.keys;
                    last.weight += run.weight;
                }
                _ => kept.push(run),
            }
        }
        runs = kept;
        short *= 2;
    }
    runs
}
