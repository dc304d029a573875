//! E-Store's greedy-extended: spread hot keys, then cold chunks, by accesses alone.
//!
//! The hottest keys of sites above the threshold go one by one to the site with the least load. If
//! a site is still above it, chunks of neighbouring cold keys follow. E-Store ignores co-accesses,
//! which Clay shows to be its weakness.

use crate::problem::{
    Loads, Move, Placement, PlanError, Problem, Proposal, Site, check_share, site_name,
};
use crate::recording::Vertex;

/// The parameters of E-Store.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// The share of accessed keys that are tracked one by one.
    pub hot_share: f64,
    /// The number of neighbouring keys that move together when hot keys are not enough.
    pub chunk_keys: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { hot_share: 0.01, chunk_keys: 100 }
    }
}

/// Plans.
pub fn plan(problem: &Problem<'_>, options: Options) -> Result<Proposal, PlanError> {
    problem.validate()?;
    check_share("hot share", options.hot_share)?;
    let mut spread = Spread::new(problem);
    spread.hot(options.hot_share);
    spread.cold(options.chunk_keys.max(1));
    let notes = spread.overload_notes();
    let Spread { placement, moves, lost, .. } = spread;
    Ok(Proposal { strategy: "estore", placement, moves, lost, notes })
}

/// Moving single keys and chunks to the least loaded site, by accesses.
pub(super) struct Spread<'p, 'g> {
    pub(super) problem: &'p Problem<'g>,
    pub(super) placement: Placement,
    pub(super) loads: Loads,
    pub(super) threshold: f64,
    pub(super) moves: Vec<Move>,
    pub(super) lost: Vec<String>,
}

impl<'p, 'g> Spread<'p, 'g> {
    pub(super) fn new(problem: &'p Problem<'g>) -> Spread<'p, 'g> {
        let loads = Loads::by_accesses(problem.graph, problem.placement);
        Spread {
            problem,
            placement: problem.placement.clone(),
            threshold: loads.mean() * (1.0 + problem.imbalance),
            loads,
            moves: Vec::new(),
            lost: Vec::new(),
        }
    }

    pub(super) fn overloaded(&self, site: Site) -> bool {
        self.loads.0[usize::from(site)] > self.threshold
    }

    /// The hottest keys of overloaded sites, hottest first.
    pub(super) fn hot_keys(&self, hot_share: f64) -> Vec<Vertex> {
        let graph = self.problem.graph;
        let mut keys: Vec<Vertex> =
            (0..graph.len() as Vertex).filter(|&key| graph.accesses(key) > 0.0).collect();
        let hot = (keys.len() as f64 * hot_share).ceil() as usize;
        keys.sort_by(|&a, &b| graph.accesses(b).total_cmp(&graph.accesses(a)).then(a.cmp(&b)));
        keys.truncate(hot);
        keys.retain(|&key| self.overloaded(self.placement.site(key)));
        keys
    }

    fn hot(&mut self, hot_share: f64) {
        for key in self.hot_keys(hot_share) {
            let from = self.placement.site(key);
            if self.overloaded(from) {
                self.offer(vec![key], from, self.loads.least(), "hot key");
            }
        }
    }

    fn cold(&mut self, chunk_keys: usize) {
        for site in 0..self.placement.sites() as Site {
            if !self.overloaded(site) {
                continue;
            }
            let graph = self.problem.graph;
            let here = |&key: &Vertex| self.placement.site(key) == site && graph.weight(key) > 0.0;
            let keys: Vec<Vertex> = (0..graph.len() as Vertex).filter(here).collect();
            for chunk in keys.chunks(chunk_keys) {
                if !self.overloaded(site) {
                    break;
                }
                self.offer(chunk.to_vec(), site, self.loads.least(), "cold chunk");
            }
        }
    }

    /// Moves keys, except where the receiver would end up with more load than the sender had.
    pub(super) fn offer(&mut self, keys: Vec<Vertex>, from: Site, to: Site, what: &str) {
        let graph = self.problem.graph;
        let heat: f64 = keys.iter().map(|&key| graph.accesses(key)).sum();
        let (have, get) = (self.loads.0[usize::from(from)], self.loads.0[usize::from(to)]);
        let name = format!("{what} {} ({} keys)", graph.label(keys[0]), keys.len());
        if from == to || get + heat >= have {
            if self.lost.len() < 20 {
                let to = site_name(to);
                self.lost.push(format!("{name}: {heat} accesses would make {to} as full"));
            }
            return;
        }
        let reason = format!(
            "{name}: {heat} accesses, {} has {have} > {:.1}, {} only {get}",
            site_name(from),
            self.threshold,
            site_name(to)
        );
        keys.iter().for_each(|&key| self.placement.set(key, to));
        self.loads.0[usize::from(from)] -= heat;
        self.loads.0[usize::from(to)] += heat;
        self.moves.push(Move { keys, to, reason });
    }

    pub(super) fn overload_notes(&self) -> Vec<String> {
        let over = (0..self.placement.sites() as Site).filter(|&site| self.overloaded(site));
        let note = |site: Site| {
            let load = self.loads.0[usize::from(site)];
            format!("{} keeps {load} accesses > {:.1}", site_name(site), self.threshold)
        };
        over.map(note).collect()
    }
}
