//! A smaller graph of the same shape: vertices joined in pairs, those that hang together most.
//!
//! ```text
//!   a ─9─ b ─1─ c ─8─ d            ab ─1─ cd
//! ```
//!
//! Each vertex, in an order by chance, takes the free neighbour with the heaviest edge. What is left over without
//! a free neighbour is joined with another such vertex around the same neighbour: the leaves of a star with each
//! other. No pair gets heavier than a limit, or there would be nothing left to balance with.

use super::Random;
use super::graph::{Graph, GraphBuilder};

/// A smaller graph, and what became of the vertices of the larger.
pub(super) struct Coarse {
    pub(super) graph: Graph,
    /// By vertex of the larger graph.
    pub(super) of: Vec<u32>,
}

const FREE: u32 = u32::MAX;

pub(super) fn coarsen(graph: &Graph, weight_max: u64, random: &mut Random) -> Coarse {
    let partners = pair(graph, weight_max, random);
    // The lower one of a pair names it.
    let mut of = vec![FREE; graph.len()];
    let mut firsts = Vec::with_capacity(graph.len());
    for vertex in 0..graph.len() as u32 {
        let partner = partners[vertex as usize];
        if partner >= vertex {
            of[vertex as usize] = firsts.len() as u32;
            of[partner as usize] = firsts.len() as u32;
            firsts.push(vertex);
        }
    }
    let mut coarse = GraphBuilder::new(firsts.len());
    let mut row: Vec<(u32, u64)> = Vec::new();
    // Where each neighbour is in the row, if it is.
    let mut place = vec![usize::MAX; firsts.len()];
    for (at, &first) in (0..).zip(&firsts) {
        let second = partners[first as usize];
        let members = if second == first { &[first][..] } else { &[first, second][..] };
        row.clear();
        for &(to, weight) in members.iter().flat_map(|member| graph.neighbours(*member)) {
            let to = of[to as usize];
            if to == at {
                continue;
            }
            match row.get_mut(place[to as usize]) {
                Some((_, sum)) => *sum += weight,
                None => {
                    place[to as usize] = row.len();
                    row.push((to, weight));
                }
            }
        }
        row.iter().for_each(|(to, _)| place[*to as usize] = usize::MAX);
        let weight = members.iter().map(|member| graph.weight_of(*member)).sum();
        coarse.push(weight, row.iter().copied());
    }
    Coarse { graph: coarse.finish(), of }
}

/// The partner of each vertex; itself, if it has none.
fn pair(graph: &Graph, weight_max: u64, random: &mut Random) -> Vec<u32> {
    let mut partners = vec![FREE; graph.len()];
    // Who was left over around a vertex.
    let mut left_over = vec![FREE; graph.len()];
    for vertex in graph.shuffled(random) {
        if partners[vertex as usize] != FREE {
            continue;
        }
        let fits = |to: u32| graph.weight_of(vertex) + graph.weight_of(to) <= weight_max;
        let neighbours = graph.neighbours(vertex).iter();
        let free = neighbours.filter(|(to, _)| partners[*to as usize] == FREE && fits(*to));
        // Of equally heavy edges, that to the lightest.
        let heaviest =
            free.max_by_key(|(to, weight)| (*weight, std::cmp::Reverse(graph.weight_of(*to)), *to));
        let partner = heaviest.map(|(to, _)| *to).or_else(|| {
            let (hub, _) = graph.neighbours(vertex).iter().max_by_key(|(_, weight)| *weight)?;
            let other = std::mem::replace(&mut left_over[*hub as usize], vertex);
            let joins = other != FREE && partners[other as usize] == other && fits(other);
            joins.then_some(other)
        });
        let partner = partner.unwrap_or(vertex);
        partners[vertex as usize] = partner;
        partners[partner as usize] = vertex;
    }
    partners
}
