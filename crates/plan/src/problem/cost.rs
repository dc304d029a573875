//! Load by Equation 2 of Clay: accesses, plus k for every co-access that leaves the site.
//!
//! ```text
//!   s1: a (10) ──4── b (5)      an edge inside a site costs nothing
//!         │3                    an edge between sites costs k at each end
//!   s2:   c (2)                 with k = 50:  s1  10 + 5 + 3·50 = 165     s2  2 + 3·50 = 152
//! ```
//!
//! Loads are counts of the graph; over [`HeatGraph::seconds`] they are rates.

use super::{Placement, PlanError, Site};
use crate::heat::HeatGraph;
use crate::recording::Vertex;

/// The cost of a co-access across sites, in accesses: k of Equation 2.
///
/// Two sites of one server communicate more cheaply than two servers. The paper's k = 50 applies to
/// both unless set otherwise ([`Cost::two_level`] has the pair of the public code).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Between sites of different servers.
    pub far: f64,
    /// Between sites of one server.
    pub near: f64,
    /// The number of sites per server: sites 0 to n−1 are the first server, n to 2n−1 the next.
    pub sites_per_server: usize,
}

impl Cost {
    /// The paper's: one k for all.
    pub fn flat(k: f64) -> Cost {
        Cost { far: k, near: k, sites_per_server: 1 }
    }

    /// 50 between servers, 1.1 inside one.
    pub fn two_level(sites_per_server: usize) -> Cost {
        Cost { far: 50.0, near: 1.1, sites_per_server }
    }

    /// The server of a site.
    pub fn server(&self, site: Site) -> usize {
        usize::from(site) / self.sites_per_server.max(1)
    }

    /// k between two sites; 0 from a site to itself.
    pub fn k(&self, a: Site, b: Site) -> f64 {
        match a == b {
            true => 0.0,
            false if self.server(a) == self.server(b) => self.near,
            false => self.far,
        }
    }

    /// Refuses negative costs and NaN.
    pub fn validate(&self) -> Result<(), PlanError> {
        for (what, value) in [("k", self.far), ("k inside a server", self.near)] {
            if !(value.is_finite() && value >= 0.0) {
                let right = "a finite cost of at least 0";
                return Err(PlanError::Number { what, value, right });
            }
        }
        if self.sites_per_server == 0 {
            let (what, right) = ("the number of sites on one server", "at least 1");
            return Err(PlanError::Number { what, value: 0.0, right });
        }
        Ok(())
    }
}

/// The load of every site.
#[derive(Clone, PartialEq, Debug)]
pub struct Loads(pub Vec<f64>);

impl Loads {
    /// The loads by Equation 2, counting every edge at both ends.
    pub fn of(graph: &HeatGraph, placement: &Placement, cost: Cost) -> Loads {
        let mut loads = vec![0.0; placement.sites()];
        for vertex in 0..graph.len() as Vertex {
            loads[usize::from(placement.site(vertex))] +=
                vertex_load(graph, placement, cost, vertex);
        }
        Loads(loads)
    }

    /// By accesses alone.
    pub fn by_accesses(graph: &HeatGraph, placement: &Placement) -> Loads {
        let mut loads = vec![0.0; placement.sites()];
        for vertex in 0..graph.len() as Vertex {
            loads[usize::from(placement.site(vertex))] += graph.accesses(vertex);
        }
        Loads(loads)
    }

    /// Moves one key and updates the loads of all affected sites.
    pub(crate) fn relocate(
        &mut self,
        graph: &HeatGraph,
        placement: &mut Placement,
        cost: Cost,
        key: Vertex,
        to: Site,
    ) {
        let from = placement.site(key);
        if from == to {
            return;
        }
        let loads = &mut self.0;
        loads[usize::from(from)] -= graph.weight(key);
        loads[usize::from(to)] += graph.weight(key);
        for (other, weight) in graph.neighbours(key) {
            let at = placement.site(other);
            let (before, after) = (weight * cost.k(from, at), weight * cost.k(to, at));
            loads[usize::from(from)] -= before;
            loads[usize::from(to)] += after;
            loads[usize::from(at)] += after - before;
        }
        placement.set(key, to);
    }

    /// The highest load.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// The mean load of all sites, empty ones included.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The highest load over the mean; 1 is perfect.
    pub fn imbalance(&self) -> f64 {
        match self.mean() {
            mean if mean > 0.0 => self.max() / mean,
            _ => 1.0,
        }
    }

    /// The site with the least load; of equals the lowest.
    pub fn least(&self) -> Site {
        let mut least = 0;
        for (site, &load) in self.0.iter().enumerate() {
            if load < self.0[least] {
                least = site;
            }
        }
        least as Site
    }
}

/// The contribution of one vertex to the load of its site.
pub(crate) fn vertex_load(graph: &HeatGraph, at: &Placement, cost: Cost, vertex: Vertex) -> f64 {
    let home = at.site(vertex);
    let away = graph.neighbours(vertex).map(|(to, weight)| weight * cost.k(home, at.site(to)));
    graph.weight(vertex) + away.sum::<f64>()
}
