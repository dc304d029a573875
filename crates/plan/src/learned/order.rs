//! In which order a global plan is carried out, so that transactions notice as little of it as
//! possible.
//!
//! While half of a group of co-accessed partitions has moved, its transactions are distributed. And
//! a site that receives everything before it has given anything away has twice the load. So
//!
//! ```text
//!   to s1   a0 a1 a2 │ b0 b1      to each site: start at the hottest partition, then always the one most
//!   to s2   c0 c1    │ d0         strongly tied to those that have gone there: group a, then b
//!
//!   a0 a1 a2   c0 c1   b0 b1   d0     sites take turns, a batch each
//! ```
//!
//! Partitions that are connected only through one that stays start a group of their own, at the
//! hottest.

use crate::heat::HeatGraph;
use crate::problem::Site;
use crate::recording::Vertex;
use std::collections::{BTreeMap, BinaryHeap};

/// How much a vertex is tied to those that have gone before: ties of a heap have to be whole.
const UNIT: f64 = 1000.0;

/// Brings moves into order, in batches of so many to one site.
pub(crate) fn in_order(
    graph: &HeatGraph,
    moves: impl IntoIterator<Item = (Vertex, Site)>,
    batch: usize,
) -> Vec<(Vertex, Site)> {
    let mut to: BTreeMap<Site, Vec<Vertex>> = BTreeMap::new();
    moves.into_iter().for_each(|(vertex, site)| to.entry(site).or_default().push(vertex));
    let grown = to.into_iter().map(|(site, vertices)| (site, grown(graph, vertices)));
    let grown: Vec<(Site, Vec<Vertex>)> = grown.collect();
    let turns = grown.iter().map(|(_, vertices)| vertices.len().div_ceil(batch)).max();
    let mut ordered = Vec::new();
    for turn in 0..turns.unwrap_or(0) {
        for (site, vertices) in &grown {
            let these = vertices.iter().skip(turn * batch).take(batch);
            ordered.extend(these.map(|&vertex| (vertex, *site)));
        }
    }
    ordered
}

/// The vertices from the heaviest on, each tied more to those before it than all that follow.
fn grown(graph: &HeatGraph, mut vertices: Vec<Vertex>) -> Vec<Vertex> {
    vertices.sort_by(|a, b| graph.weight(*b).total_cmp(&graph.weight(*a)).then(a.cmp(b)));
    let mut left: BTreeMap<Vertex, f64> = vertices.iter().map(|&vertex| (vertex, 0.0)).collect();
    let (mut order, mut heap) = (Vec::with_capacity(vertices.len()), BinaryHeap::new());
    for first in vertices {
        heap.push((0, first));
        while let Some((_, next)) = heap.pop() {
            if left.remove(&next).is_none() {
                continue;
            }
            order.push(next);
            for (other, weight) in graph.neighbours(next) {
                if let Some(tied) = left.get_mut(&other) {
                    *tied += weight;
                    heap.push(((*tied * UNIT) as u64, other));
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups, 0 to 3 and 4 to 7, hardly tied to each other; numbers as in the tables of a
    /// database, where what belongs together is not side by side.
    fn two_groups() -> HeatGraph {
        let group = |of: u32| [(0, 2), (2, 4), (4, 6)].map(|(a, b)| (a + of, b + of, 5.0));
        let edges: Vec<_> = group(0).into_iter().chain(group(1)).chain([(0, 1, 0.5)]).collect();
        HeatGraph::from_parts(&[3.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], &edges).unwrap()
    }

    #[test]
    fn a_group_goes_before_the_next_one_begins() {
        let ordered = in_order(&two_groups(), (0..8).map(|vertex| (vertex, 0)), 100);
        let vertices: Vec<Vertex> = ordered.into_iter().map(|(vertex, _)| vertex).collect();
        assert_eq!(vertices, [1, 3, 5, 7, 0, 2, 4, 6]);
    }

    #[test]
    fn sites_take_turns() {
        let moves = (0..8).map(|vertex| (vertex, (vertex % 2) as Site));
        let ordered = in_order(&two_groups(), moves, 3);
        assert_eq!(ordered, [(0, 0), (2, 0), (4, 0), (1, 1), (3, 1), (5, 1), (6, 0), (7, 1)]);
    }

    #[test]
    fn what_is_tied_to_nothing_goes_by_its_weight() {
        let graph = HeatGraph::from_parts(&[1.0, 3.0, 2.0], &[]).unwrap();
        let ordered = in_order(&graph, [(0, 0), (1, 0), (2, 0)], 2);
        assert_eq!(ordered, [(1, 0), (2, 0), (0, 0)]);
        assert!(in_order(&graph, [], 2).is_empty());
    }
}
