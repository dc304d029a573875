//! Drift: Clay balances first, then single keys move towards their co-accesses while loads allow
//! it.
//!
//! Clay needs a reachable threshold: if even the emptiest site would exceed it, Clay moves nothing.
//! Clay also acts only on overloaded sites and ignores co-accesses across the others. Drift
//! therefore lowers the threshold in steps of half the distance to the aim, runs Clay at each step,
//! and continues from there:
//!
//! ```text
//!   a ──9── b      b has 9 to s1 and 2 at home: gain k·(9 − 2) over all sites;
//!   s1   │ s2      it moves if s1 stays below θ, and its neighbours are looked at again
//!          2
//!          c
//! ```
//!
//! * **Pull.** Keys are taken in order of falling gain, which is the load that all sites together
//!   save. Each goes to the site it is accessed with most, if the receiver stays below θ or does
//!   not get worse. A key moves at most [`Options::moves_per_key`] times, and only for a gain of at
//!   least [`Options::gain_min`] accesses. Otherwise chance would decide, because rarely seen keys
//!   have few co-accesses.
//! * **Balance.** The pull has lowered the total load and therefore the mean, so Clay runs once
//!   more.
//! * **Home.** Moved keys return home if the total load does not rise by it: the plan gets shorter.
//!
//! No site ends up above the highest initial load. Moves are listed in the order of the decisions.
//! A key may be in several moves, and keys that returned home are in some, so only the placement
//! counts.

use crate::clay;
use crate::problem::{Loads, Move, Placement, PlanError, Problem, Proposal, Site, site_name};
use crate::recording::Vertex;
use std::collections::{BTreeMap, BinaryHeap};

/// The parameters of drift.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The parameters of the Clay runs that come first.
    pub clay: clay::Options,
    /// The most moves of one key.
    pub moves_per_key: u8,
    /// The least gain of a move, in accesses of the graph (a co-access saved on both sites counts
    /// 2k).
    pub gain_min: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { clay: clay::Options::default(), moves_per_key: 2, gain_min: 150.0 }
    }
}

/// Plans with drift.
pub fn plan(problem: &Problem<'_>, options: &Options) -> Result<Proposal, PlanError> {
    if !(options.gain_min.is_finite() && options.gain_min >= 0.0) {
        let (what, value) = ("least gain", options.gain_min);
        return Err(PlanError::Number { what, value, right: "a finite gain of at least 0" });
    }
    let mut clay = descend(problem, &options.clay)?;
    let loads = Loads::of(problem.graph, &clay.placement, problem.cost);
    let mut drift = Drift {
        problem,
        options,
        // At most the highest load now: drift must not make the worst site worse.
        threshold: (loads.mean() * (1.0 + problem.imbalance)).min(loads.max()),
        loads,
        placement: clay.placement.clone(),
        moved: vec![0; problem.graph.len()],
        pulled: BTreeMap::new(),
    };
    drift.pull();
    // The pull lowered the mean: balance once more, then return keys home.
    let pulled = std::mem::take(&mut drift.pulled);
    let now = Problem { placement: &drift.placement, ..*problem };
    let again = descend(&now, &options.clay)?;
    drift.placement = again.placement;
    drift.loads = Loads::of(problem.graph, &drift.placement, problem.cost);
    drift.go_home();
    drift.explain(&mut clay, pulled);
    clay.moves.extend(again.moves);
    clay.lost.extend(again.lost);
    clay.notes = again.notes;
    clay.notes.extend(drift.note_concentration());
    clay.placement = drift.placement;
    Ok(clay)
}

/// The keys moved between each pair of sites, and the load saved by it.
type Pulled = BTreeMap<(Site, Site), (Vec<Vertex>, f64)>;

/// Keys with more neighbours are evaluated once, at the start: each neighbour's move would queue
/// them again.
const HUB_NEIGHBOURS: usize = 1000;

/// The steps in which the threshold falls.
const STEPS: usize = 6;

/// Clay with a threshold that falls from the highest load to the aim.
fn descend(problem: &Problem<'_>, options: &clay::Options) -> Result<Proposal, PlanError> {
    problem.validate()?;
    let mut placement = problem.placement.clone();
    let (mut moves, mut last) = (Vec::new(), None);
    for step in 1..=STEPS {
        let loads = Loads::of(problem.graph, &placement, problem.cost);
        let aim = options.threshold.unwrap_or(loads.mean() * (1.0 + problem.imbalance));
        if loads.max() <= aim && last.is_some() {
            break;
        }
        let halfway = aim + (loads.max() - aim).max(0.0) / 2.0;
        let threshold = Some(if step == STEPS { aim } else { halfway });
        let options = clay::Options { threshold, rounds_max: 1, ..options.clone() };
        let now = Problem { placement: &placement, ..*problem };
        let mut proposal = clay::plan(&now, &options)?;
        let after = Loads::of(problem.graph, &proposal.placement, problem.cost);
        if after.max() >= loads.max() && step > 1 {
            break;
        }
        placement = proposal.placement.clone();
        moves.append(&mut proposal.moves);
        last = Some(proposal);
    }
    let (lost, notes) = last.map_or((Vec::new(), Vec::new()), |last| (last.lost, last.notes));
    Ok(Proposal { strategy: "drift", placement, moves, lost, notes })
}

/// A key with a profitable move. The order is largest gain first, then lowest key.
#[derive(PartialEq)]
struct Wish {
    gain: f64,
    key: Vertex,
    to: Site,
}

impl Eq for Wish {}

impl Ord for Wish {
    fn cmp(&self, other: &Wish) -> std::cmp::Ordering {
        self.gain.total_cmp(&other.gain).then(other.key.cmp(&self.key))
    }
}

impl PartialOrd for Wish {
    fn partial_cmp(&self, other: &Wish) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Drift<'p, 'g> {
    problem: &'p Problem<'g>,
    options: &'p Options,
    threshold: f64,
    loads: Loads,
    placement: Placement,
    moved: Vec<u8>,
    pulled: Pulled,
}

/// The effect of a move on loads.
struct Effect {
    /// The fall of the total load.
    gain: f64,
    /// The rise of the receiver's load.
    receiver: f64,
}

impl Drift<'_, '_> {
    fn effect(&self, key: Vertex, to: Site) -> Effect {
        let Problem { graph, cost, .. } = *self.problem;
        let from = self.placement.site(key);
        let (mut gain, mut receiver) = (0.0, graph.weight(key));
        for (other, weight) in graph.neighbours(key) {
            let at = self.placement.site(other);
            gain += 2.0 * weight * (cost.k(from, at) - cost.k(to, at));
            receiver += weight * if at == to { -cost.k(from, to) } else { cost.k(to, at) };
        }
        Effect { gain, receiver }
    }

    /// The site with the largest gain for a key, if the gain is large enough.
    fn wish(&self, key: Vertex) -> Option<Wish> {
        let graph = self.problem.graph;
        let from = self.placement.site(key);
        let mut heat: Vec<(Site, f64)> = Vec::new();
        for (other, weight) in graph.neighbours(key) {
            let at = self.placement.site(other);
            match heat.iter_mut().find(|(site, _)| *site == at) {
                Some((_, sum)) => *sum += weight,
                None => heat.push((at, weight)),
            }
        }
        let best = heat.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let to = best.map(|&(site, _)| site).filter(|&site| site != from)?;
        let gain = self.effect(key, to).gain;
        (gain >= self.options.gain_min && gain > 0.0).then_some(Wish { gain, key, to })
    }

    fn pull(&mut self) {
        let all = 0..self.problem.graph.len() as Vertex;
        let mut wishes: BinaryHeap<Wish> = all.filter_map(|key| self.wish(key)).collect();
        while let Some(wish) = wishes.pop() {
            // Other moves may have changed the gain since the wish was queued.
            match self.wish(wish.key) {
                Some(now) if now.gain < wish.gain => wishes.push(now),
                Some(now) if self.grant(&now) => {
                    let graph = self.problem.graph;
                    let ask = |&key: &Vertex| {
                        graph.degree(key) <= HUB_NEIGHBOURS
                            && self.moved[key as usize] < self.options.moves_per_key
                    };
                    let neighbours = graph.neighbours(now.key).map(|(to, _)| to);
                    wishes.extend(neighbours.filter(ask).filter_map(|key| self.wish(key)));
                }
                _ => {}
            }
        }
    }

    fn grant(&mut self, wish: &Wish) -> bool {
        let moved = &self.moved[wish.key as usize];
        let receiver = self.effect(wish.key, wish.to).receiver;
        let load = self.loads.0[usize::from(wish.to)];
        if *moved >= self.options.moves_per_key
            || (receiver > 0.0 && load + receiver >= self.threshold)
        {
            return false;
        }
        self.moved[wish.key as usize] += 1;
        let from = self.placement.site(wish.key);
        self.relocate(wish.key, wish.to);
        let group = self.pulled.entry((from, wish.to)).or_default();
        group.0.push(wish.key);
        group.1 += wish.gain;
        true
    }

    /// Moves keys back to their home where the total load does not rise by it.
    fn go_home(&mut self) {
        let away: Vec<Vertex> = self.placement.moved_from(self.problem.placement).collect();
        for key in away {
            let to = self.problem.placement.site(key);
            let effect = self.effect(key, to);
            let load = self.loads.0[usize::from(to)] + effect.receiver;
            if effect.gain >= 0.0 && (load < self.threshold || effect.receiver <= 0.0) {
                self.relocate(key, to);
            }
        }
    }

    fn relocate(&mut self, key: Vertex, to: Site) {
        let Problem { graph, cost, .. } = *self.problem;
        self.loads.relocate(graph, &mut self.placement, cost, key, to);
    }

    /// By Equation 2 one site may do most of the work if that saves co-accesses across sites; a
    /// reader of the plan should see it.
    fn note_concentration(&self) -> Option<String> {
        let accesses = Loads::by_accesses(self.problem.graph, &self.placement);
        let (site, most) =
            accesses.0.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
        let share = most / accesses.0.iter().sum::<f64>();
        let fair = (1.0 + self.problem.imbalance) / accesses.0.len() as f64;
        (share > fair).then(|| {
            format!(
                "{} does {:.1} % of the accesses: by the cost of distance that is cheaper than to \
                 spread them; lower k if it is not",
                site_name(site as Site),
                100.0 * share,
            )
        })
    }

    /// Adds the pulled keys that did not return home to the plan.
    fn explain(&self, plan: &mut Proposal, pulled: Pulled) {
        for ((from, to), (keys, gain)) in pulled {
            let keys: Vec<Vertex> =
                keys.into_iter().filter(|&key| self.placement.site(key) == to).collect();
            if keys.is_empty() {
                continue;
            }
            let gain = self.problem.graph.rate(gain);
            let (count, from) = (keys.len(), site_name(from));
            let reason = format!(
                "{count} keys of {from} follow what they are accessed with: all sites save {gain}"
            );
            plan.moves.push(Move { keys, to, reason });
        }
    }
}
