//! Scaling in: empty underloaded sites into others (Clay, section 7.3).

use super::clump::Clump;
use crate::problem::{Loads, Move, PlanError, Problem, Proposal, Site, site_name};
use crate::recording::Vertex;

/// Empties sites below the mean load times 1 − ε, highest number first, each into the first site
/// that stays below the mean times 1 + ε, or whose load falls by it. `thresholds` gives both
/// loads (low, high) instead.
pub fn scale_in(
    problem: &Problem<'_>,
    thresholds: Option<(f64, f64)>,
) -> Result<Proposal, PlanError> {
    problem.validate()?;
    let Problem { graph, cost, imbalance, .. } = *problem;
    let mut placement = problem.placement.clone();
    let mut loads = problem.loads();
    let mean = loads.mean();
    let by_mean = (mean * (1.0 - imbalance), mean * (1.0 + imbalance));
    let (low, high) = thresholds.unwrap_or(by_mean);
    let mut clump = Clump::new(graph, cost, placement.sites());
    let (mut moves, mut lost) = (Vec::new(), Vec::new());
    let mut emptied = vec![false; placement.sites()];
    for site in (0..placement.sites() as Site).rev() {
        let load = loads.0[usize::from(site)];
        let keys: Vec<Vertex> =
            (0..graph.len() as Vertex).filter(|&key| placement.site(key) == site).collect();
        if load >= low || keys.is_empty() {
            continue;
        }
        clump.clear(site, placement.sites());
        keys.iter().for_each(|&key| clump.add_given(key, &placement));
        let takes = |to: Site| {
            let delta = clump.receiver_delta(to);
            delta <= 0.0 || loads.0[usize::from(to)] + delta < high
        };
        let mut others = (0..placement.sites() as Site).filter(|&to| to != site);
        match others.find(|&to| !emptied[usize::from(to)] && takes(to)) {
            Some(to) => {
                let delta = clump.receiver_delta(to);
                let reason = format!(
                    "{} is underloaded ({} < {}); {} takes all of it for {}",
                    site_name(site),
                    graph.rate(load),
                    graph.rate(low),
                    site_name(to),
                    graph.rate_change(delta),
                );
                emptied[usize::from(site)] = true;
                keys.iter().for_each(|&key| placement.set(key, to));
                loads = Loads::of(graph, &placement, cost);
                moves.push(Move { keys, to, reason });
            }
            None => lost.push(format!(
                "{} is underloaded ({} < {}), but no site could take it below {}",
                site_name(site),
                graph.rate(load),
                graph.rate(low),
                graph.rate(high),
            )),
        }
    }
    let left = emptied.iter().filter(|&&empty| !empty).count();
    let notes = vec![format!("{left} of {} sites remain", placement.sites())];
    Ok(Proposal { strategy: "scale-in", placement, moves, lost, notes })
}
