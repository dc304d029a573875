//! The graph in a layout that is fast to traverse.

use crate::recording::{KeyTable, RecordedKey, Vertex};
use std::sync::Arc;
use thiserror::Error;

/// Why weights make no heat graph.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A weight that is no rate.
    #[error("{what} has weight {weight}: a weight must be finite and not negative")]
    Weight {
        /// The vertex or edge.
        what: String,
        /// Its weight.
        weight: f64,
    },
    /// An edge to nowhere, or to itself.
    #[error("edge {from}-{to}: both ends must be different vertices below {vertices}")]
    Edge {
        /// One end.
        from: Vertex,
        /// The other end.
        to: Vertex,
        /// How many vertices there are.
        vertices: usize,
    },
    /// A graph without time cannot have rates.
    #[error("a heat graph over {0} seconds: a finite time above zero is needed")]
    Seconds(f64),
    /// Nothing to plan for.
    #[error("the heat graph is empty: no key was accessed")]
    Empty,
    /// More edges than can be numbered.
    #[error("too many edges: {0} directed edges can be held; sample the recording")]
    TooManyEdges(u32),
}

/// Vertices and edges with their weights.
///
/// Weights are counts over [`HeatGraph::seconds`]. The neighbours of a vertex are sorted, so a
/// walk over them is the same in every run.
#[derive(Clone, Debug)]
pub struct HeatGraph {
    pub(super) keys: Arc<KeyTable>,
    pub(super) seconds: f64,
    pub(super) weights: Vec<f64>,
    pub(super) accesses: Vec<f64>,
    pub(super) starts: Vec<u32>,
    pub(super) targets: Vec<Vertex>,
    pub(super) edge_weights: Vec<f32>,
}

impl HeatGraph {
    /// A graph from given weights over one second, for tests and tools: vertex `i` is the key `i`
    /// of table `t` unless `labels` says otherwise.
    pub fn from_parts(
        weights: &[f64],
        edges: &[(Vertex, Vertex, f64)],
    ) -> Result<HeatGraph, GraphError> {
        let mut keys = KeyTable::new();
        for vertex in 0..weights.len() as i64 {
            let _ = keys.intern("t", RecordedKey::Int(vertex).as_ref());
        }
        keys.sort();
        HeatGraph::with_keys(Arc::new(keys), weights, edges)
    }

    /// As [`HeatGraph::from_parts`], over given keys: one weight for each of them.
    pub fn with_keys(
        keys: Arc<KeyTable>,
        weights: &[f64],
        edges: &[(Vertex, Vertex, f64)],
    ) -> Result<HeatGraph, GraphError> {
        let sane = |weight: f64| weight.is_finite() && weight >= 0.0;
        if weights.is_empty() || weights.len() != keys.len() {
            return Err(GraphError::Empty);
        }
        if let Some(at) = weights.iter().position(|&weight| !sane(weight)) {
            let what = keys.label(at as Vertex);
            return Err(GraphError::Weight { what, weight: weights[at] });
        }
        let vertices = weights.len();
        let mut sorted = Vec::with_capacity(edges.len());
        for &(from, to, weight) in edges {
            if from == to || from.max(to) as usize >= vertices {
                return Err(GraphError::Edge { from, to, vertices });
            }
            if !sane(weight) {
                let what = format!("edge {}-{}", keys.label(from), keys.label(to));
                return Err(GraphError::Weight { what, weight });
            }
            sorted.push((from.min(to), from.max(to), weight as f32));
        }
        sorted.sort_by_key(|&(from, to, _)| (from, to));
        sorted.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let (weights, accesses) = (weights.to_vec(), weights.to_vec());
        HeatGraph::layout(keys, 1.0, weights, accesses, || sorted.iter().copied(), sorted.len())
    }

    /// Lays out both directions of sorted, distinct edges with the lower vertex first.
    pub(super) fn layout<I: Iterator<Item = (Vertex, Vertex, f32)>>(
        keys: Arc<KeyTable>,
        seconds: f64,
        weights: Vec<f64>,
        accesses: Vec<f64>,
        edges: impl Fn() -> I,
        count: usize,
    ) -> Result<HeatGraph, GraphError> {
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(GraphError::Seconds(seconds));
        }
        if 2 * count > u32::MAX as usize {
            return Err(GraphError::TooManyEdges(u32::MAX));
        }
        let mut starts = vec![0u32; weights.len() + 1];
        for (from, to, _) in edges() {
            starts[from as usize + 1] += 1;
            starts[to as usize + 1] += 1;
        }
        for vertex in 0..weights.len() {
            starts[vertex + 1] += starts[vertex];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; 2 * count];
        let mut edge_weights = vec![0.0; 2 * count];
        let mut put = |from: Vertex, to: Vertex, weight: f32| {
            let at = &mut next[from as usize];
            targets[*at as usize] = to;
            edge_weights[*at as usize] = weight;
            *at += 1;
        };
        // Lower neighbours first: edges come sorted by their lower end, so each list stays sorted.
        edges().for_each(|(from, to, weight)| put(to, from, weight));
        edges().for_each(|(from, to, weight)| put(from, to, weight));
        Ok(HeatGraph { keys, seconds, weights, accesses, starts, targets, edge_weights })
    }

    /// The number of vertices, including those without accesses.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// True if there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The number of edges, each counted once.
    pub fn edges(&self) -> usize {
        self.targets.len() / 2
    }

    /// The number of vertices with accesses.
    pub fn accessed(&self) -> usize {
        self.weights.iter().filter(|&&weight| weight > 0.0).count()
    }

    /// A load of this graph as people read it: per second, with the digits that matter.
    pub fn rate(&self, load: f64) -> String {
        let rate = load / self.seconds;
        match rate.abs() {
            size if size >= 10.0 || size == 0.0 => format!("{rate:.1}"),
            size if size >= 1.0 => format!("{rate:.2}"),
            _ => format!("{rate:.3}"),
        }
    }

    /// The same for a difference of loads, with its sign.
    pub fn rate_change(&self, load: f64) -> String {
        let sign = if load >= 0.0 { "+" } else { "" };
        format!("{sign}{}", self.rate(load))
    }

    /// The observed time in seconds: weight over time is the rate.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The transactions that touched a vertex.
    pub fn weight(&self, vertex: Vertex) -> f64 {
        self.weights[vertex as usize]
    }

    /// The accesses to a vertex: more than its weight if a transaction touched it repeatedly.
    pub fn accesses(&self, vertex: Vertex) -> f64 {
        self.accesses[vertex as usize]
    }

    /// The sum of all vertex weights.
    pub fn total_weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The neighbours of a vertex and the weights of the edges to them, by vertex.
    pub fn neighbours(&self, vertex: Vertex) -> impl ExactSizeIterator<Item = (Vertex, f64)> {
        let range = self.range(vertex);
        let weights = self.edge_weights[range.clone()].iter();
        self.targets[range].iter().zip(weights).map(|(&to, &weight)| (to, f64::from(weight)))
    }

    /// The number of neighbours of a vertex.
    pub fn degree(&self, vertex: Vertex) -> usize {
        self.range(vertex).len()
    }

    fn range(&self, vertex: Vertex) -> std::ops::Range<usize> {
        let at = vertex as usize;
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    /// The keys behind the vertices.
    pub fn keys(&self) -> &Arc<KeyTable> {
        &self.keys
    }

    /// The vertex as people write it: `parts/17`.
    pub fn label(&self, vertex: Vertex) -> String {
        self.keys.label(vertex)
    }

    /// The memory of the arrays, in bytes; the keys are not counted.
    pub fn bytes(&self) -> usize {
        self.weights.len() * 20 + self.targets.len() * 8
    }
}
