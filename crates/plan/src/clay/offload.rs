//! The search: Algorithms 1 and 2 of Clay.
//!
//! ```text
//!   run        for each site above θ ──▶ offload
//!   offload    hottest key ──▶ search ──▶ apply the clump, or add a server, or give the key up
//!   search     judge the clump, expand it, update its destination; until look-ahead is used up
//! ```
//!
//! Sections of the paper: 7.1 is `offload` and `search`, 7.2 is `expand`. Algorithm 2 is
//! `update_destination`, after the first choice by `initial_destination`.
//!
//! Invariants: `loads` always equals Equation 2 over `placement`. A candidate is a prefix of the
//! clump, because members only join. A server is added only while no site is empty. A clump that
//! does not fit into an empty site would not fit into a new one either.

use super::clump::Clump;
use super::hot::{Hot, hot_list};
use super::options::Options;
use super::step::{Step, Verdict};
use crate::problem::{Loads, Move, Placement, Problem, Proposal, Site, plural, site_name};
use crate::recording::Vertex;

/// The most rejected alternatives that a proposal lists.
const LOST_KEPT: usize = 20;

/// The best feasible clump so far: the first `keys` members.
#[derive(Clone, Copy)]
struct Candidate {
    keys: usize,
    to: Site,
    receiver_delta: f64,
    sender_delta: f64,
}

/// How the search for one clump ended.
enum Outcome {
    Found(Candidate),
    Stuck,
}

/// The state of a search: the placement so far, its loads, and the clump in hand.
pub(super) struct Search<'p, 'g> {
    problem: &'p Problem<'g>,
    options: &'p Options,
    tell: &'p mut dyn FnMut(Step),
    placement: Placement,
    pub(super) loads: Loads,
    threshold: f64,
    clump: Clump<'g>,
    moves: Vec<Move>,
    lost: Vec<String>,
    notes: Vec<String>,
}

impl<'p, 'g> Search<'p, 'g> {
    pub(super) fn new(
        problem: &'p Problem<'g>,
        options: &'p Options,
        tell: &'p mut dyn FnMut(Step),
    ) -> Search<'p, 'g> {
        let loads = problem.loads();
        Search {
            problem,
            options,
            tell,
            placement: problem.placement.clone(),
            threshold: 0.0,
            clump: Clump::new(problem.graph, problem.cost, problem.placement.sites()),
            loads,
            moves: Vec::new(),
            lost: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Relieves overloaded sites until none is left or no move helps.
    pub(super) fn run(&mut self) {
        for _ in 0..self.options.rounds_max.max(1) {
            self.threshold = self
                .options
                .threshold
                .unwrap_or_else(|| self.loads.mean() * (1.0 + self.problem.imbalance));
            let before = self.moves.len();
            for site in 0..self.placement.sites() as Site {
                self.offload(site);
            }
            let overloaded = self.loads.0.iter().any(|&load| load > self.threshold);
            if self.moves.len() == before || !overloaded {
                break;
            }
        }
        self.note_overload();
    }

    fn note_overload(&mut self) {
        for (site, &load) in self.loads.0.iter().enumerate() {
            if load > self.threshold {
                let (site, graph) = (site_name(site as Site), self.problem.graph);
                let (load, threshold) = (graph.rate(load), graph.rate(self.threshold));
                self.notes.push(format!(
                    "{site} stays overloaded: load {load} > {threshold}; more sites, or a \
                     larger imbalance, would be needed"
                ));
            }
        }
    }

    pub(super) fn finish(self, strategy: &'static str) -> Proposal {
        let Search { placement, moves, lost, notes, .. } = self;
        Proposal { strategy, placement, moves, lost, notes }
    }

    fn load(&self, site: Site) -> f64 {
        self.loads.0[usize::from(site)]
    }

    /// Moves clumps away from `site` until it is below the threshold.
    fn offload(&mut self, site: Site) {
        if self.load(site) <= self.threshold {
            return;
        }
        let (load, threshold) = (self.load(site), self.threshold);
        (self.tell)(Step::Overloaded { site, load, threshold });
        let mut hot = hot_list(self.problem, &self.placement, site);
        let mut failures = 0;
        while self.load(site) > self.threshold && failures < self.options.failures_max {
            let Some(Hot(heat, key)) = hot.pop() else { break };
            if self.placement.site(key) != site {
                continue;
            }
            match self.search(site, key) {
                Outcome::Found(candidate) => {
                    failures = 0;
                    self.apply(site, candidate);
                }
                Outcome::Stuck => {
                    (self.tell)(Step::Stuck { key, keys: self.clump.members().len() });
                    failures += 1;
                    if self.add_server() {
                        failures = 0;
                        hot.push(Hot(heat, key));
                    } else {
                        self.lose_stuck(site, key);
                    }
                }
            }
        }
    }

    fn add_server(&mut self) -> bool {
        let added = self.placement.sites() - self.problem.placement.sites();
        let more = self.options.sites_per_server;
        // A clump that does not fit into an empty site fits into no new site either.
        let is_empty_one = self.loads.0.contains(&0.0);
        let are_too_many = self.placement.sites() + more > usize::from(Site::MAX);
        if is_empty_one || are_too_many || added + more > self.options.sites_added_max {
            return false;
        }
        self.placement.add_sites(more);
        self.loads.0.resize(self.placement.sites(), 0.0);
        (self.tell)(Step::SitesAdded { sites: self.placement.sites() });
        self.notes.push(format!("a server was added: {} sites now", self.placement.sites()));
        true
    }

    /// Grows a clump from `key` until `look_ahead` expansions have not improved the best feasible
    /// form.
    fn search(&mut self, home: Site, key: Vertex) -> Outcome {
        self.clump.clear(home, self.placement.sites());
        self.clump.add(key, &self.placement);
        let mut to = self.initial_destination(home);
        let mut best: Option<Candidate> = None;
        let mut patience = self.options.look_ahead;
        let mut last = key;
        loop {
            let (candidate, verdict) = self.judge(home, to, best);
            self.tell_considered(last, &candidate, verdict);
            if verdict == Verdict::Candidate {
                best = Some(candidate);
                patience = self.options.look_ahead;
            } else if best.is_some() {
                patience -= 1;
                if patience == 0 {
                    break;
                }
            }
            if self.clump.members().len() >= self.options.clump_keys_max {
                break;
            }
            let Some(next) = self.expand(home, to) else { break };
            last = next;
            to = self.update_destination(home, to);
        }
        best.map_or(Outcome::Stuck, Outcome::Found)
    }

    fn tell_considered(&mut self, key: Vertex, candidate: &Candidate, verdict: Verdict) {
        let Candidate { keys, to, receiver_delta, sender_delta } = *candidate;
        let at = self.placement.site(key);
        let step = Step::Considered { key, at, keys, to, receiver_delta, sender_delta, verdict };
        (self.tell)(step);
    }

    fn judge(&self, home: Site, to: Site, best: Option<Candidate>) -> (Candidate, Verdict) {
        let candidate = Candidate {
            keys: self.clump.members().len(),
            to,
            receiver_delta: self.clump.receiver_delta(to),
            sender_delta: self.clump.sender_delta(home, to),
        };
        let verdict = if !self.fits(to, candidate.receiver_delta) {
            Verdict::Overloads
        } else if candidate.sender_delta >= 0.0 {
            Verdict::NoRelief
        } else if best.is_some_and(|best| candidate.receiver_delta > best.receiver_delta) {
            Verdict::Worse
        } else {
            Verdict::Candidate
        };
        (candidate, verdict)
    }

    /// The paper's feasibility: the destination stays below the threshold or its load falls.
    fn fits(&self, to: Site, receiver_delta: f64) -> bool {
        self.load(to) + receiver_delta < self.threshold || receiver_delta <= 0.0
    }

    /// The destination with the smallest receiver delta. Feasible sites come first, then those of
    /// the same server, then the least loaded.
    fn initial_destination(&self, home: Site) -> Site {
        let server = |site| self.problem.cost.server(site);
        let rank = |site: Site| {
            let delta = self.clump.receiver_delta(site);
            let away = server(site) != server(home);
            (!self.fits(site, delta), away, delta, self.load(site))
        };
        let others = (0..self.placement.sites() as Site).filter(|&site| site != home);
        let better = |a: &(bool, bool, f64, f64), b: &(bool, bool, f64, f64)| {
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.total_cmp(&b.3))
        };
        others
            .map(|site| (rank(site), site))
            .min_by(|a, b| better(&a.0, &b.0).then(a.1.cmp(&b.1)))
            .map_or(home, |(_, site)| site)
    }

    /// Algorithm 2: keep a feasible destination, else the site most accessed with the clump, else
    /// the least loaded.
    fn update_destination(&self, home: Site, to: Site) -> Site {
        let fits = |site: Site| site != home && self.fits(site, self.clump.receiver_delta(site));
        if fits(to) {
            return to;
        }
        let most = self.clump.most_accessed_with().filter(|&site| site != to && fits(site));
        let least = Some(self.loads.least()).filter(|&site| site != to && fits(site));
        most.or(least).unwrap_or(to)
    }

    /// Adds the most co-accessed neighbour. A neighbour at a third site joins only if that site's
    /// load does not rise by it.
    fn expand(&mut self, home: Site, to: Site) -> Option<Vertex> {
        loop {
            let next = self.clump.next_neighbour()?;
            let at = self.placement.site(next);
            if at == home || at == to || self.joins_gladly(next, at, to) {
                self.clump.add(next, &self.placement);
                return Some(next);
            }
        }
    }

    fn joins_gladly(&self, key: Vertex, at: Site, to: Site) -> bool {
        self.clump.sender_delta_with(key, at, &self.placement, to) <= 0.0
    }

    fn apply(&mut self, home: Site, candidate: Candidate) {
        let keys = self.clump.members()[..candidate.keys].to_vec();
        let before = self.load(home);
        for &key in &keys {
            self.relocate(key, candidate.to);
        }
        self.moves.push(self.explain(home, before, candidate, &keys));
        let load = self.load(home);
        (self.tell)(Step::Moved { keys, to: candidate.to, load });
    }

    fn explain(&self, home: Site, before: f64, chosen: Candidate, keys: &[Vertex]) -> Move {
        let graph = self.problem.graph;
        let label = graph.label(keys[0]);
        let with = match keys.len() {
            1 => String::new(),
            n => format!(" with {} it is accessed with", plural(n - 1, "key")),
        };
        let reason = format!(
            "{label}{with}: relieves {} ({} > {}) by {}, costs {} {}",
            site_name(home),
            graph.rate(before),
            graph.rate(self.threshold),
            graph.rate(-chosen.sender_delta),
            site_name(chosen.to),
            graph.rate(chosen.receiver_delta),
        );
        Move { keys: keys.to_vec(), to: chosen.to, reason }
    }

    fn relocate(&mut self, key: Vertex, to: Site) {
        let Problem { graph, cost, .. } = *self.problem;
        self.loads.relocate(graph, &mut self.placement, cost, key, to);
    }

    fn lose_stuck(&mut self, site: Site, key: Vertex) {
        if self.lost.len() < LOST_KEPT {
            let graph = self.problem.graph;
            self.lost.push(format!(
                "{} of {}: grown to {}, no site could take it below {}",
                graph.label(key),
                site_name(site),
                plural(self.clump.members().len(), "key"),
                graph.rate(self.threshold),
            ));
        }
    }
}
