//! The exact optimum of Clay's problem (section 4.1) by enumeration: the oracle for tiny inputs.
//!
//! Tries every key at every site, depth first. An edge is added to the loads when its second end is
//! placed, and subtracted on the way back. Of two placements the better one is below the threshold
//! at every site; then it moves fewer keys; then its highest load is lower. If no placement is
//! below, only the highest load counts.
//!
//! N sites and n keys have N^n placements; at most 2^24 are accepted. There is no pruning, because
//! an oracle should be too simple to be wrong.

use crate::problem::{Loads, Placement, PlanError, Problem, Proposal, Site};
use crate::recording::Vertex;

/// The most placements that are tried.
pub const PLACEMENTS_MAX: u64 = 1 << 24;

/// The placement that moves the fewest keys among those with every load below the mean load of the
/// current placement times 1 + imbalance. If there is none, the one with the lowest maximum load.
/// Ties go to the lower maximum load, then to fewer moves.
pub fn plan(problem: &Problem<'_>) -> Result<Proposal, PlanError> {
    problem.validate()?;
    let graph = problem.graph;
    let counts = |&key: &Vertex| graph.weight(key) > 0.0 || graph.degree(key) > 0;
    let keys: Vec<Vertex> = (0..graph.len() as Vertex).filter(counts).collect();
    let sites = problem.placement.sites() as u64;
    // One site has one placement, but the search goes as deep as there are keys.
    let found = sites.max(2).checked_pow(keys.len() as u32).unwrap_or(u64::MAX);
    if found > PLACEMENTS_MAX {
        let (planner, what, limit) = ("the exact optimum", "placements", PLACEMENTS_MAX);
        return Err(PlanError::TooLarge { planner, what, limit, found });
    }
    let threshold = problem.loads().mean() * (1.0 + problem.imbalance);
    let mut search = Search {
        problem,
        keys,
        threshold,
        current: problem.placement.clone(),
        loads: vec![0.0; sites as usize],
        placed: vec![false; graph.len()],
        best: None,
    };
    search.place(0, 0);
    let (_, placement) = search.best.unwrap_or(((true, 0, 0.0), problem.placement.clone()));
    let loads = Loads::of(graph, &placement, problem.cost);
    let reason = "the fewest moves that keep every site below the threshold";
    let mut proposal = Proposal::from_scratch("optimum", problem.placement, placement, reason);
    proposal.notes.push(format!(
        "highest load {}, threshold {}",
        problem.graph.rate(loads.max()),
        problem.graph.rate(threshold)
    ));
    Ok(proposal)
}

/// Above the threshold or not, keys moved, highest load. Above it, moves do not count.
type Rank = (bool, usize, f64);

struct Search<'p, 'g> {
    problem: &'p Problem<'g>,
    keys: Vec<Vertex>,
    threshold: f64,
    current: Placement,
    loads: Vec<f64>,
    placed: Vec<bool>,
    best: Option<(Rank, Placement)>,
}

impl Search<'_, '_> {
    /// Tries all placements of the keys from `at` on.
    fn place(&mut self, at: usize, moved: usize) {
        let Some(&key) = self.keys.get(at) else {
            return self.compare(moved);
        };
        let home = self.problem.placement.site(key);
        for site in 0..self.loads.len() as Site {
            self.count(key, site, 1.0);
            self.current.set(key, site);
            self.placed[key as usize] = true;
            self.place(at + 1, moved + usize::from(site != home));
            self.placed[key as usize] = false;
            self.count(key, site, -1.0);
        }
    }

    /// Adds a key's weight and its edges to placed keys to the loads, or subtracts them (`sign` is
    /// 1 or −1).
    fn count(&mut self, key: Vertex, site: Site, sign: f64) {
        let Problem { graph, cost, .. } = *self.problem;
        self.loads[usize::from(site)] += sign * graph.weight(key);
        for (other, weight) in graph.neighbours(key) {
            if self.placed[other as usize] {
                let there = self.current.site(other);
                let price = sign * weight * cost.k(site, there);
                self.loads[usize::from(site)] += price;
                self.loads[usize::from(there)] += price;
            }
        }
    }

    fn compare(&mut self, moved: usize) {
        let max = self.loads.iter().copied().fold(0.0, f64::max);
        // Sums were added and subtracted in different orders, so the last bits may differ.
        let above = max >= self.threshold * (1.0 - 1e-12);
        let rank = (above, if above { 0 } else { moved }, max);
        let better = match &self.best {
            None => true,
            Some((best, _)) => {
                (rank.0, rank.1).cmp(&(best.0, best.1)).then(rank.2.total_cmp(&best.2)).is_lt()
            }
        };
        if better {
            self.best = Some((rank, self.current.clone()));
        }
    }
}
