//! Scaling in: empty underloaded sites into others (Clay, section 7.3), or one site into all
//! others.

use super::clump::Clump;
use crate::problem::{Loads, Move, Placement, PlanError, Problem, Proposal, Site, site_name};
use crate::recording::Vertex;

/// Empties one site. If another site can take all of it and stay below the mean of the remaining
/// sites times 1 + ε, that site gets everything. Otherwise blocks move one by one, the hottest
/// first. The destination is the site whose load rises least among those that stay below, or else
/// the least loaded site.
pub fn evacuate(problem: &Problem<'_>, site: Site) -> Result<Proposal, PlanError> {
    problem.validate()?;
    let Problem { graph, cost, imbalance, .. } = *problem;
    let mut placement = problem.placement.clone();
    let mut loads = problem.loads();
    let left = placement.sites().saturating_sub(1).max(1) as f64;
    let max = loads.0.iter().sum::<f64>() / left * (1.0 + imbalance);
    let others: Vec<Site> = (0..placement.sites() as Site).filter(|&to| to != site).collect();
    let mut keys: Vec<Vertex> =
        (0..graph.len() as Vertex).filter(|&key| placement.site(key) == site).collect();
    keys.sort_by(|a, b| graph.accesses(*b).total_cmp(&graph.accesses(*a)));
    let mut clump = Clump::new(graph, cost, placement.sites());
    let mut moves: Vec<Move> = Vec::new();
    let mut put = |keys: &[Vertex], placement: &mut Placement, loads: &mut Loads, is_last: bool| {
        clump.clear(site, placement.sites());
        keys.iter().for_each(|&key| clump.add_given(key, placement));
        let delta = |to: &Site| clump.receiver_delta(*to);
        let load = |to: &Site| loads.0[usize::from(*to)] + delta(to);
        let fits = others.iter().filter(|to| delta(to) <= 0.0 || load(to) < max);
        let best = fits.min_by(|a, b| delta(a).total_cmp(&delta(b)));
        let least = || others.iter().min_by(|a, b| load(a).total_cmp(&load(b)));
        let Some(&to) = best.or_else(|| least().filter(|_| is_last)) else { return false };
        let reason = format!("{} is not needed", site_name(site));
        keys.iter().for_each(|&key| placement.set(key, to));
        // Keys without accesses add no load.
        if keys.iter().any(|&key| graph.accesses(key) > 0.0) {
            *loads = Loads::of(graph, placement, cost);
        }
        match moves.iter_mut().find(|other| other.to == to) {
            Some(other) => other.keys.extend_from_slice(keys),
            None => moves.push(Move { keys: keys.to_vec(), to, reason }),
        }
        true
    };
    if !others.is_empty() && !put(&keys, &mut placement, &mut loads, false) {
        for key in keys {
            put(&[key], &mut placement, &mut loads, true);
        }
    }
    let (lost, notes) = (Vec::new(), Vec::new());
    Ok(Proposal { strategy: "evacuate", placement, moves, lost, notes })
}

/// Empties sites with a load below the mean times 1 − ε, highest number first. Each goes into the
/// first site that stays below the mean times 1 + ε or whose load falls by it. `thresholds` gives
/// both loads (low, high) instead.
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
