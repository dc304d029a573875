//! Finds cycles among moments: the strongly connected components (Tarjan), and for each component
//! with a cycle the one that is easiest to explain.

use crate::moments::{Edge, Moments, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The number of moments of a component from which a cycle is searched. In larger components, the
/// remaining moments yield similar cycles.
const BEGINNINGS_MAX: usize = 64;

/// An edge of a cycle: the moment where it starts, and the rule.
pub(crate) type Step = (usize, Edge);

/// Returns a cycle for each component that has one.
pub(crate) fn cycles(moments: &Moments) -> Vec<Vec<Step>> {
    let components = components(&moments.edges);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (moment, component) in components.iter().enumerate() {
        members.entry(*component).or_default().push(moment);
    }
    let cycles = members.values().filter_map(|members| {
        let from = members.iter().take(BEGINNINGS_MAX);
        let found = from.filter_map(|from| cheapest(moments, &components, *from));
        Some(found.min_by_key(|(cost, _)| *cost)?.1)
    });
    cycles.collect()
}

/// The weight of a rule in a cycle. A cycle with fewer rules of a heavier kind violates more
/// isolation levels, so the cheapest cycle is the most severe anomaly.
fn cost(why: &Why) -> u64 {
    match why {
        Why::Within | Why::Ww { .. } => 1,
        Why::Wr { .. } => 1 << 12,
        Why::Session => 1 << 24,
        Why::RealTime => (1 << 24) + 1,
        Why::Rw { .. } => 1 << 36,
    }
}

/// Finds the cheapest cycle through a moment (Dijkstra).
fn cheapest(moments: &Moments, components: &[usize], from: usize) -> Option<(u64, Vec<Step>)> {
    let mut best: BTreeMap<usize, (u64, Step)> = BTreeMap::new();
    let mut queue = BinaryHeap::from([Reverse((0, from))]);
    while let Some(Reverse((spent, moment))) = queue.pop() {
        if spent > 0 && moment == from {
            break;
        }
        if best.get(&moment).is_some_and(|(least, _)| *least < spent) {
            continue;
        }
        for edge in &moments.edges[moment] {
            let total = spent + cost(&edge.why);
            let is_better = best.get(&edge.to).is_none_or(|(least, _)| total < *least);
            if components[edge.to] == components[from] && is_better {
                best.insert(edge.to, (total, (moment, edge.clone())));
                queue.push(Reverse((total, edge.to)));
            }
        }
    }
    let (total, _) = best.get(&from)?;
    let (mut cycle, mut at) = (Vec::new(), from);
    loop {
        let (_, step) = &best[&at];
        at = step.0;
        cycle.push(step.clone());
        if at == from {
            cycle.reverse();
            return Some((*total, cycle));
        }
    }
}

/// Returns the number of the strongly connected component of each moment. This version of Tarjan's
/// algorithm keeps its own stack, because a long history would overflow the stack of a thread.
fn components(edges: &[Vec<Edge>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let count = edges.len();
    let (mut index, mut low) = (vec![NONE; count], vec![NONE; count]);
    let mut component = vec![NONE; count];
    let (mut open, mut next, mut found) = (Vec::new(), 0, 0);
    for root in 0..count {
        if index[root] != NONE {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((at, edge)) = calls.pop() {
            if edge == 0 {
                (index[at], low[at]) = (next, next);
                next += 1;
                open.push(at);
            } else {
                low[at] = low[at].min(low[edges[at][edge - 1].to]);
            }
            let rest = edges[at].iter().enumerate().skip(edge);
            let mut deeper = None;
            for (number, Edge { to, .. }) in rest {
                if index[*to] == NONE {
                    deeper = Some((number, *to));
                    break;
                }
                if component[*to] == NONE {
                    low[at] = low[at].min(index[*to]);
                }
            }
            if let Some((number, to)) = deeper {
                calls.push((at, number + 1));
                calls.push((to, 0));
            } else if low[at] == index[at] {
                while let Some(member) = open.pop() {
                    component[member] = found;
                    if member == at {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}
