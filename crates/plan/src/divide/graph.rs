//! A graph with weights, in rows: for each vertex, its neighbours one after the other.

use super::Random;
use rand::seq::SliceRandom;

/// Vertices numbered from 0 and edges between them, with whole weights.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    weights: Vec<u64>,
    weight: u64,
    /// Where the neighbours of each vertex begin; and where the last ones end.
    starts: Vec<usize>,
    neighbours: Vec<(u32, u64)>,
}

impl Graph {
    /// A graph of vertices with these weights and of edges between two of them. Edges between the same two add up;
    /// those from a vertex to itself say nothing.
    ///
    /// # Panics
    /// If an edge ends where no vertex is.
    pub fn new(weights: Vec<u64>, edges: &[(u32, u32, u64)]) -> Graph {
        let mut rows: Vec<Vec<(u32, u64)>> = vec![Vec::new(); weights.len()];
        for &(a, b, weight) in edges.iter().filter(|(a, b, _)| a != b) {
            rows[a as usize].push((b, weight));
            rows[b as usize].push((a, weight));
        }
        let mut graph = GraphBuilder::new(weights.len());
        for (weight, row) in weights.into_iter().zip(&mut rows) {
            row.sort_unstable();
            row.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                kept.1 += if same { next.1 } else { 0 };
                same
            });
            graph.push(weight, row.iter().copied());
        }
        graph.finish()
    }

    /// How many vertices.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// True if there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The weight of all vertices.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The weight of a vertex.
    pub fn weight_of(&self, vertex: u32) -> u64 {
        self.weights[vertex as usize]
    }

    /// The neighbours of a vertex, and the weights of the edges to them.
    pub fn neighbours(&self, vertex: u32) -> &[(u32, u64)] {
        &self.neighbours[self.starts[vertex as usize]..self.starts[vertex as usize + 1]]
    }

    /// The weight of the edges that a division cuts.
    pub fn cut<P: PartialEq>(&self, division: &[P]) -> u64 {
        let of = |vertex: u32| {
            let here = &division[vertex as usize];
            let there = self.neighbours(vertex).iter();
            there
                .filter(|(to, _)| division[*to as usize] != *here)
                .map(|(_, weight)| weight)
                .sum::<u64>()
        };
        (0..self.len() as u32).map(of).sum::<u64>() / 2
    }

    /// One side of a bisection as a graph of its own, and which vertices those are.
    pub(super) fn part(&self, sides: &[u8], side: u8) -> (Graph, Vec<u32>) {
        let inside: Vec<u32> =
            (0..self.len() as u32).filter(|vertex| sides[*vertex as usize] == side).collect();
        let mut number = vec![u32::MAX; self.len()];
        (0..).zip(&inside).for_each(|(at, vertex)| number[*vertex as usize] = at);
        let mut part = GraphBuilder::new(inside.len());
        for &vertex in &inside {
            let row = self.neighbours(vertex).iter().map(|&(to, w)| (number[to as usize], w));
            part.push(self.weight_of(vertex), row.filter(|(to, _)| *to != u32::MAX));
        }
        (part.finish(), inside)
    }

    /// All vertices, in an order by chance.
    pub(super) fn shuffled(&self, random: &mut Random) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.shuffle(random);
        order
    }
}

/// Vertices come one after the other, each with its neighbours.
pub(super) struct GraphBuilder(Graph);

impl GraphBuilder {
    pub(super) fn new(vertices: usize) -> GraphBuilder {
        let mut starts = Vec::with_capacity(vertices + 1);
        starts.push(0);
        GraphBuilder(Graph { starts, weights: Vec::with_capacity(vertices), ..Graph::default() })
    }

    pub(super) fn push(&mut self, weight: u64, neighbours: impl Iterator<Item = (u32, u64)>) {
        let GraphBuilder(graph) = self;
        graph.weights.push(weight);
        graph.weight += weight;
        graph.neighbours.extend(neighbours);
        graph.starts.push(graph.neighbours.len());
    }

    pub(super) fn finish(self) -> Graph {
        self.0
    }
}
