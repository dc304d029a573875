//! A first cut: one side grows from a vertex, by what hangs together with it most, until it has its share.
//!
//! ```text
//!   ○─○─●─●─●─●─○─○   from the middle: two borders       ●─●─●─●─○─○─○─○   from an end: one
//! ```
//!
//! So it begins at a vertex that is as far as possible from one taken by chance.

use super::Random;
use super::graph::Graph;
use std::collections::BinaryHeap;

/// Side 0 grows out of what is side 1.
pub(super) fn grow(graph: &Graph, room: [u64; 2], random: &mut Random) -> Vec<u8> {
    let mut sides = vec![1; graph.len()];
    let mut starts = graph.shuffled(random);
    if let Some(first) = starts.first_mut() {
        *first = farthest(graph, *first);
    }
    let all = (room[0] + room[1]).max(1);
    let wanted = (u128::from(graph.weight()) * u128::from(room[0]) / u128::from(all)) as u64;
    let mut weight = 0;
    // By what a move would save; a vertex stands there once for each time that changed.
    let mut border: BinaryHeap<(i64, u32)> = BinaryHeap::new();
    for start in starts {
        // From another vertex, if there is no way to go on.
        border.push((0, start));
        while let Some((_, vertex)) = border.pop() {
            let more = graph.weight_of(vertex);
            if weight >= wanted {
                return sides;
            }
            if sides[vertex as usize] == 0 || weight + more > room[0] {
                continue;
            }
            sides[vertex as usize] = 0;
            weight += more;
            for &(to, _) in graph.neighbours(vertex) {
                if sides[to as usize] == 1 {
                    border.push((saved(graph, &sides, to), to));
                }
            }
        }
    }
    sides
}

/// The vertex that is most edges away from another.
fn farthest(graph: &Graph, from: u32) -> u32 {
    let mut seen = vec![false; graph.len()];
    seen[from as usize] = true;
    let mut rows = vec![from];
    let mut at = 0;
    while let Some(&vertex) = rows.get(at) {
        at += 1;
        for &(to, _) in graph.neighbours(vertex) {
            if !std::mem::replace(&mut seen[to as usize], true) {
                rows.push(to);
            }
        }
    }
    rows[rows.len() - 1]
}

/// By how much a vertex is tied more to the other side than to its own.
pub(super) fn saved(graph: &Graph, sides: &[u8], vertex: u32) -> i64 {
    let own = sides[vertex as usize];
    let signed = |&(to, weight): &(u32, u64)| {
        if sides[to as usize] == own { -(weight as i64) } else { weight as i64 }
    };
    graph.neighbours(vertex).iter().map(signed).sum()
}
