//! The hot list: the keys of an overloaded site, ordered by their part of its load, cut edges
//! included.
//!
//! It is a heap, built in linear time: Clay takes only a few keys, so sorting all of them would
//! cost more than the search.

use crate::problem::{Placement, Problem, Site, vertex_load};
use crate::recording::Vertex;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A hot key. The order is highest load first, then lowest number.
#[derive(PartialEq)]
pub(super) struct Hot(pub(super) f64, pub(super) Vertex);

impl Eq for Hot {}

impl Ord for Hot {
    fn cmp(&self, other: &Hot) -> Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Hot {
    fn partial_cmp(&self, other: &Hot) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The accessed keys of a site, hottest first.
pub(super) fn hot_list(
    problem: &Problem<'_>,
    placement: &Placement,
    site: Site,
) -> BinaryHeap<Hot> {
    let Problem { graph, cost, .. } = *problem;
    (0..graph.len() as Vertex)
        .filter(|&key| placement.site(key) == site && graph.weight(key) > 0.0)
        .map(|key| Hot(vertex_load(graph, placement, cost, key), key))
        .collect()
}
