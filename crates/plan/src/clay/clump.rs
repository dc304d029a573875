//! A growing set of keys, and the effect of moving it on the load of any site (Clay, section 7.2).
//!
//! For every site p that has members, three sums are kept while the clump M grows:
//!
//! ```text
//!   weight[p]      Σ w(v)    members v at p
//!   out[p][q]      Σ w(v,u)  members v at p, neighbours u at q outside M
//!   inside[p][q]   Σ w(v,u)  members v at p, members u at q ≠ p
//! ```
//!
//! Adding a key costs its degree. After that, the delta of a site costs a few additions per site
//! with members. With two values of k the load of third sites changes too, because an edge to a
//! member may become cheaper or dearer. [`Clump::delta`] includes that, so it is exact for every
//! site.

use crate::heat::HeatGraph;
use crate::problem::{Cost, Placement, Site};
use crate::recording::Vertex;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// One site with members, and its sums of edge weights.
#[derive(Default)]
struct Source {
    site: Site,
    weight: f64,
    /// By the neighbour's site.
    out: Vec<f64>,
    out_sum: f64,
    /// By the other member's site.
    inside: Vec<f64>,
    inside_sum: f64,
}

/// A neighbour of the clump and its heaviest edge to a member.
#[derive(Clone, Copy, PartialEq)]
struct Neighbour {
    weight: f32,
    /// Neighbours at the overloaded site come first among equals.
    at_home: bool,
    vertex: Vertex,
}

impl Eq for Neighbour {}

impl Ord for Neighbour {
    fn cmp(&self, other: &Neighbour) -> Ordering {
        let key = |n: &Neighbour| (n.at_home, std::cmp::Reverse(n.vertex));
        self.weight.total_cmp(&other.weight).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Neighbour) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of a vertex relative to the current clump.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The clump that the state belongs to.
    epoch: u32,
    /// The heaviest edge to a member; infinite for members.
    best: f32,
}

/// The clump. One value is reused for all clumps of a search: clearing costs nothing per vertex.
pub struct Clump<'g> {
    graph: &'g HeatGraph,
    cost: Cost,
    sites: usize,
    members: Vec<Vertex>,
    sources: Vec<Source>,
    spare: Vec<Source>,
    frontier: BinaryHeap<Neighbour>,
    marks: Vec<Mark>,
    epoch: u32,
    home: Site,
}

impl<'g> Clump<'g> {
    /// An empty clump.
    pub fn new(graph: &'g HeatGraph, cost: Cost, sites: usize) -> Clump<'g> {
        Clump {
            graph,
            cost,
            sites,
            members: Vec::new(),
            sources: Vec::new(),
            spare: Vec::new(),
            frontier: BinaryHeap::new(),
            marks: vec![Mark::default(); graph.len()],
            epoch: 0,
            home: 0,
        }
    }

    /// Empties the clump; `home` is the site to relieve next.
    pub fn clear(&mut self, home: Site, sites: usize) {
        self.members.clear();
        self.frontier.clear();
        self.spare.append(&mut self.sources);
        if self.epoch == u32::MAX {
            self.marks.fill(Mark::default());
            self.epoch = 0;
        }
        self.epoch += 1;
        self.home = home;
        self.sites = sites;
    }

    /// The members, in the order in which they joined.
    pub fn members(&self) -> &[Vertex] {
        &self.members
    }

    /// The sites that have members.
    pub fn sources(&self) -> impl Iterator<Item = Site> + '_ {
        self.sources.iter().map(|source| source.site)
    }

    /// Adds a key and enters its neighbours into the frontier.
    pub fn add(&mut self, vertex: Vertex, placement: &Placement) {
        self.insert(vertex, placement, true);
    }

    /// Adds a key without a frontier, for clumps that do not grow.
    pub fn add_given(&mut self, vertex: Vertex, placement: &Placement) {
        self.insert(vertex, placement, false);
    }

    fn insert(&mut self, vertex: Vertex, placement: &Placement, grow: bool) {
        let site = placement.site(vertex);
        let own = self.source(site);
        self.members.push(vertex);
        self.marks[vertex as usize] = Mark { epoch: self.epoch, best: f32::INFINITY };
        self.sources[own].weight += self.graph.weight(vertex);
        for (to, weight) in self.graph.neighbours(vertex) {
            let at = placement.site(to);
            let mark = self.marks[to as usize];
            if mark.epoch == self.epoch && mark.best == f32::INFINITY {
                self.enclose(own, at, site, weight);
                continue;
            }
            let source = &mut self.sources[own];
            source.out[usize::from(at)] += weight;
            source.out_sum += weight;
            let known = if mark.epoch == self.epoch { mark.best } else { -1.0 };
            let edge = weight as f32;
            if grow && edge > known {
                self.marks[to as usize] = Mark { epoch: self.epoch, best: edge };
                let at_home = at == self.home;
                self.frontier.push(Neighbour { weight: edge, at_home, vertex: to });
            }
        }
    }

    /// Counts an edge from a member at `other` to the new member at `site` as internal.
    fn enclose(&mut self, own: usize, other: Site, site: Site, weight: f64) {
        let theirs = self.source(other);
        let source = &mut self.sources[theirs];
        source.out[usize::from(site)] -= weight;
        source.out_sum -= weight;
        if site != other {
            source.inside[usize::from(site)] += weight;
            source.inside_sum += weight;
            let source = &mut self.sources[own];
            source.inside[usize::from(other)] += weight;
            source.inside_sum += weight;
        }
    }

    fn source(&mut self, site: Site) -> usize {
        if let Some(at) = self.sources.iter().position(|source| source.site == site) {
            return at;
        }
        let mut source = self.spare.pop().unwrap_or_default();
        source.site = site;
        (source.weight, source.out_sum, source.inside_sum) = (0.0, 0.0, 0.0);
        for row in [&mut source.out, &mut source.inside] {
            row.clear();
            row.resize(self.sites, 0.0);
        }
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Takes the neighbour with the heaviest edge to a member out of the frontier.
    pub fn next_neighbour(&mut self) -> Option<Vertex> {
        while let Some(neighbour) = self.frontier.pop() {
            let mark = self.marks[neighbour.vertex as usize];
            if mark.best == neighbour.weight {
                return Some(neighbour.vertex);
            }
        }
        None
    }

    /// The site outside the clump with the most accesses in common with its members; `None` without
    /// edges.
    pub fn most_accessed_with(&self) -> Option<Site> {
        let heat = |site: usize| self.sources.iter().map(|source| source.out[site]).sum::<f64>();
        let mut best: Option<(f64, usize)> = None;
        for site in 0..self.sites {
            let heat = heat(site);
            if heat > best.map_or(0.0, |(most, _)| most) {
                best = Some((heat, site));
            }
        }
        best.map(|(_, site)| site as Site)
    }

    /// The load of `site` after the clump moved to `to`, less its load before.
    pub fn delta(&self, site: Site, to: Site) -> f64 {
        if site == to { self.receiver_delta(to) } else { self.sender_delta(site, to) }
    }

    /// The rise of a destination's load (Δr of section 7.2).
    pub fn receiver_delta(&self, to: Site) -> f64 {
        let mut delta = 0.0;
        for source in self.sources.iter().filter(|source| source.site != to) {
            let saved = source.out[usize::from(to)] + source.inside[usize::from(to)];
            delta += source.weight + self.priced(to, &source.out, source.out_sum)
                - self.cost.k(source.site, to) * saved;
        }
        delta
    }

    /// The rise of another site's load, negative for most senders (Δs of section 7.2).
    pub fn sender_delta(&self, site: Site, to: Site) -> f64 {
        let mut delta = 0.0;
        for source in &self.sources {
            if source.site == site {
                let stays = source.out[usize::from(site)];
                delta += self.cost.k(site, to) * stays
                    - source.weight
                    - self.priced(site, &source.out, source.out_sum)
                    - self.priced(site, &source.inside, source.inside_sum);
            } else if source.site != to {
                // Edges from `site` to members that come from elsewhere change their price.
                let change = self.cost.k(site, to) - self.cost.k(site, source.site);
                delta += source.out[usize::from(site)] * change;
            }
        }
        delta
    }

    /// The sender delta of `at` if `key`, which is at `at`, joined the clump.
    pub fn sender_delta_with(&self, key: Vertex, at: Site, placement: &Placement, to: Site) -> f64 {
        let mut delta = self.sender_delta(at, to) - self.graph.weight(key);
        for (other, weight) in self.graph.neighbours(key) {
            let there = placement.site(other);
            let mark = self.marks[other as usize];
            let member = mark.epoch == self.epoch && mark.best == f32::INFINITY;
            delta += weight
                * match (member, there == at) {
                    // An edge to a member leaves the site with the member; an edge inside the site
                    // becomes cut.
                    (true, _) => -self.cost.k(at, to),
                    (false, true) => self.cost.k(at, to),
                    (false, false) => -self.cost.k(at, there),
                };
        }
        delta
    }

    /// Σ k(q, site) · row[q] over the other sites q: all at the far price, then corrected for those
    /// of the same server.
    fn priced(&self, site: Site, row: &[f64], sum: f64) -> f64 {
        let own = row[usize::from(site)];
        let mut near = 0.0;
        if self.cost.near != self.cost.far {
            let first = self.cost.server(site) * self.cost.sites_per_server;
            let last = (first + self.cost.sites_per_server).min(row.len());
            near = row[first..last].iter().sum::<f64>() - own;
        }
        self.cost.far * (sum - own) + (self.cost.near - self.cost.far) * near
    }
}
