//! Builds heat graphs from recordings, streaming.

use super::graph::{GraphError, HeatGraph};
use super::pairs::{PairCounter, ends, pair, sort};
use super::sample::Sampling;
use crate::recording::{Access, KeyTable, Recording, RecordingError, Source, Vertex};
use std::sync::Arc;

/// The most keys of a transaction that are all connected with each other.
pub const CLIQUE_MAX: usize = 512;

/// Counts vertices and pairs; takes transactions in any number and order.
#[derive(Default)]
pub struct HeatBuilder {
    weights: Vec<u32>,
    accesses: Vec<u32>,
    pairs: PairCounter,
    touched: Vec<Vertex>,
}

impl HeatBuilder {
    /// A builder for about `vertices` vertices; more are welcome.
    pub fn new(vertices: usize) -> HeatBuilder {
        HeatBuilder {
            weights: vec![0; vertices],
            accesses: vec![0; vertices],
            ..HeatBuilder::default()
        }
    }

    /// Adds one transaction: the vertices it accessed, repeated as often as it did.
    pub fn transaction(&mut self, accesses: impl IntoIterator<Item = Vertex>) {
        self.touched.clear();
        self.touched.extend(accesses);
        let Some(&highest) = self.touched.iter().max() else { return };
        if highest as usize >= self.weights.len() {
            self.weights.resize(highest as usize + 1, 0);
            self.accesses.resize(highest as usize + 1, 0);
        }
        self.touched.iter().for_each(|&vertex| self.accesses[vertex as usize] += 1);
        self.touched.sort_unstable();
        self.touched.dedup();
        self.touched.iter().for_each(|&vertex| self.weights[vertex as usize] += 1);
        match self.touched.len() {
            0..=CLIQUE_MAX => self.clique(),
            _ => self.wheel(),
        }
    }

    fn clique(&mut self) {
        for (at, &a) in self.touched.iter().enumerate() {
            for &b in &self.touched[at + 1..] {
                self.pairs.add(pair(a, b));
            }
        }
    }

    fn wheel(&mut self) {
        for two in self.touched.windows(2) {
            self.pairs.add(pair(two[0], two[1]));
        }
        for &other in &self.touched[2..] {
            self.pairs.add(pair(self.touched[0], other));
        }
    }

    /// The graph over `keys`, which number the vertices added; `renumbered` maps those numbers to
    /// others. Weights are multiplied by `scale`, which makes up for sampling.
    fn finish(
        mut self,
        keys: Arc<KeyTable>,
        seconds: f64,
        renumbered: Option<&[Vertex]>,
        scale: f64,
    ) -> Result<HeatGraph, GraphError> {
        if keys.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut edges = std::mem::take(&mut self.pairs).finish();
        let place = |vertex: usize| renumbered.map_or(vertex, |to| to[vertex] as usize);
        let mut weights = vec![0.0; keys.len()];
        let mut accesses = vec![0.0; keys.len()];
        for vertex in 0..self.weights.len() {
            weights[place(vertex)] = f64::from(self.weights[vertex]) * scale;
            accesses[place(vertex)] = f64::from(self.accesses[vertex]) * scale;
        }
        if renumbered.is_some() {
            edges = renumber(edges, place);
        }
        let scaled = |&(code, count): &(u64, u32)| {
            let (from, to) = ends(code);
            (from, to, (f64::from(count) * scale) as f32)
        };
        let list = || edges.iter().map(scaled);
        HeatGraph::layout(keys, seconds, weights, accesses, list, edges.len())
    }
}

/// Renames the ends of edges and sorts again. The count travels in the low bits of the position.
fn renumber(edges: Vec<(u64, u32)>, place: impl Fn(usize) -> usize) -> Vec<(u64, u32)> {
    let renamed = |code: u64| {
        let (from, to) = ends(code);
        pair(place(from as usize) as u32, place(to as usize) as u32)
    };
    // Most edges have the count 1: sort those by radix, the others by comparison, and merge.
    let mut ones: Vec<u64> =
        edges.iter().filter(|edge| edge.1 == 1).map(|edge| renamed(edge.0)).collect();
    let mut more: Vec<(u64, u32)> =
        edges.into_iter().filter(|edge| edge.1 != 1).map(|edge| (renamed(edge.0), edge.1)).collect();
    sort(&mut ones, &mut Vec::new());
    more.sort_unstable();
    let mut all = Vec::with_capacity(ones.len() + more.len());
    let mut more = more.into_iter().peekable();
    for code in ones {
        while let Some(edge) = more.next_if(|edge| edge.0 < code) {
            all.push(edge);
        }
        all.push((code, 1));
    }
    all.extend(more);
    all
}

impl HeatGraph {
    /// The heat graph of a recording, or of a sample of its transactions. All keys of the
    /// recording are vertices, also those that only another part of it accesses.
    pub fn of(recording: &Recording, sampling: Sampling) -> Result<HeatGraph, GraphError> {
        let mut builder = HeatBuilder::new(recording.keys().len());
        for (at, transaction) in recording.transactions().enumerate() {
            if sampling.takes(at as u64) {
                builder.transaction(transaction.accesses().map(|(vertex, _)| vertex));
            }
        }
        let keys = Arc::clone(recording.keys());
        builder.finish(keys, recording.seconds(), None, sampling.scale())
    }

    /// The heat graph of a source, straight from the stream: nothing is kept of a transaction but
    /// its counts.
    pub fn stream(
        mut source: impl Source,
        sampling: Sampling,
    ) -> Result<HeatGraph, HeatStreamError> {
        let mut stream = Stream::default();
        while let Some(access) = source.next_access()? {
            stream.push(&access, sampling)?;
        }
        stream.flush();
        let renumbered = stream.keys.sort();
        let seconds = (stream.last - stream.first) as f64 / 1e6;
        let seconds = if seconds > 0.0 { seconds } else { 1.0 };
        let (keys, scale) = (Arc::new(stream.keys), sampling.scale());
        Ok(stream.builder.finish(keys, seconds, Some(&renumbered), scale)?)
    }
}

/// Why a stream gives no heat graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeatStreamError {
    /// The recording is faulty.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The graph cannot be had.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The transaction that is just being read, and the counters.
#[derive(Default)]
struct Stream {
    keys: KeyTable,
    builder: HeatBuilder,
    current: Option<u64>,
    taken: bool,
    read: u64,
    accesses: Vec<Vertex>,
    first: i64,
    last: i64,
}

impl Stream {
    fn push(&mut self, access: &Access<'_>, sampling: Sampling) -> Result<(), RecordingError> {
        if self.current != Some(access.transaction) {
            self.flush();
            if self.current.is_none() {
                (self.first, self.last) = (access.time_us, access.time_us);
            }
            self.current = Some(access.transaction);
            self.taken = sampling.takes(self.read);
            self.read += 1;
        }
        self.first = self.first.min(access.time_us);
        self.last = self.last.max(access.time_us);
        if self.taken {
            let vertex = self.keys.intern(access.table, access.key)?;
            self.accesses.push(vertex);
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.builder.transaction(self.accesses.drain(..));
    }
}
