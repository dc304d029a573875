//! Builds heat graphs from recordings, streaming.

use super::graph::{GraphError, HeatGraph};
use super::pairs::{PairCounter, ends, pair, sort};
use super::sample::Sampling;
use crate::recording::{Access, KeyTable, Recording, RecordingError, Source, Vertex};
use std::sync::Arc;

/// The most keys of a transaction that are all connected with each other.
pub const CLIQUE_MAX: usize = 512;

/// Counts vertices and pairs of transactions, in any order.
#[derive(Default)]
pub struct HeatBuilder {
    weights: Vec<u32>,
    accesses: Vec<u32>,
    pairs: PairCounter,
    touched: Vec<Vertex>,
}

impl HeatBuilder {
    /// A builder with room for `vertices` vertices; it grows if there are more.
    pub fn new(vertices: usize) -> HeatBuilder {
        HeatBuilder {
            weights: vec![0; vertices],
            accesses: vec![0; vertices],
            ..HeatBuilder::default()
        }
    }

    /// Adds one transaction by the vertices of its accesses, repetitions included.
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
    pub(crate) fn finish(
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

/// Renames the ends of edges and sorts them again. The count is in the low bits of the position.
fn renumber(edges: Vec<(u64, u32)>, place: impl Fn(usize) -> usize) -> Vec<(u64, u32)> {
    let renamed = |code: u64| {
        let (from, to) = ends(code);
        pair(place(from as usize) as u32, place(to as usize) as u32)
    };
    // Most edges have the count 1: sort those by radix, the others by comparison, and merge.
    let mut ones: Vec<u64> =
        edges.iter().filter(|edge| edge.1 == 1).map(|edge| renamed(edge.0)).collect();
    let mut more: Vec<(u64, u32)> = edges
        .into_iter()
        .filter(|edge| edge.1 != 1)
        .map(|edge| (renamed(edge.0), edge.1))
        .collect();
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
        if let Some(counted) = Counted::of(recording, sampling) {
            return counted.finish(recording, sampling.scale());
        }
        let mut builder = HeatBuilder::new(recording.keys().len());
        for (at, transaction) in recording.transactions().enumerate() {
            if sampling.takes(at as u64) {
                builder.transaction(transaction.accesses().map(|(vertex, _)| vertex));
            }
        }
        let keys = Arc::clone(recording.keys());
        builder.finish(keys, recording.seconds(), None, sampling.scale())
    }

    /// The heat graph of a source, directly from the stream: of a transaction only its counts are
    /// kept.
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
        let seconds = stream.last.saturating_sub(stream.first) as f64 / 1e6;
        let seconds = if seconds > 0.0 { seconds } else { 1.0 };
        let (keys, scale) = (Arc::new(stream.keys), sampling.scale());
        Ok(stream.builder.finish(keys, seconds, Some(&renumbered), scale)?)
    }
}

/// The most directed edges, repetitions included, that are laid out before counting.
const LAID_OUT_MAX: u64 = 1 << 26;

/// A recording in memory can be read twice, which avoids sorting all pairs. The first pass counts
/// the neighbours that each vertex will list, repetitions included. The second writes each list at
/// its place, a run of neighbours at a time. Then each short list is sorted and counted by itself.
struct Counted {
    weights: Vec<u32>,
    accesses: Vec<u32>,
    /// The sampled transactions' vertices, each once, and where each transaction ends.
    touched: Vec<Vertex>,
    ends: Vec<usize>,
}

impl Counted {
    /// The first pass; `None` if lists would be too long, or cliques too large.
    fn of(recording: &Recording, sampling: Sampling) -> Option<Counted> {
        let vertices = recording.keys().len();
        let mut counted = Counted {
            weights: vec![0; vertices],
            accesses: vec![0; vertices],
            touched: Vec::with_capacity(recording.accesses()),
            ends: Vec::with_capacity(recording.len()),
        };
        let (mut of_one, mut laid_out) = (Vec::new(), 0u64);
        for (at, transaction) in recording.transactions().enumerate() {
            if !sampling.takes(at as u64) {
                continue;
            }
            of_one.clear();
            of_one.extend(transaction.accesses().map(|(vertex, _)| vertex));
            of_one.iter().for_each(|&vertex| counted.accesses[vertex as usize] += 1);
            of_one.sort_unstable();
            of_one.dedup();
            of_one.iter().for_each(|&vertex| counted.weights[vertex as usize] += 1);
            counted.touched.extend_from_slice(&of_one);
            counted.ends.push(counted.touched.len());
            laid_out += (of_one.len() * of_one.len().saturating_sub(1)) as u64;
            if of_one.len() > CLIQUE_MAX || laid_out > LAID_OUT_MAX {
                return None;
            }
        }
        Some(counted)
    }

    /// Calls `each` with the vertices of every transaction.
    fn for_each(&self, mut each: impl FnMut(&[Vertex])) {
        let mut start = 0;
        for &end in &self.ends {
            each(&self.touched[start..end]);
            start = end;
        }
    }

    fn finish(self, recording: &Recording, scale: f64) -> Result<HeatGraph, GraphError> {
        let vertices = self.weights.len();
        if vertices == 0 {
            return Err(GraphError::Empty);
        }
        let mut starts = vec![0u32; vertices + 1];
        self.for_each(|of_one| {
            of_one.iter().for_each(|&v| starts[v as usize + 1] += of_one.len() as u32 - 1);
        });
        (0..vertices).for_each(|vertex| starts[vertex + 1] += starts[vertex]);
        let mut next = starts.clone();
        let mut targets = vec![0; starts[vertices] as usize];
        self.for_each(|of_one| {
            for (at, &vertex) in of_one.iter().enumerate() {
                let to = next[vertex as usize] as usize;
                let (before, after) = (&of_one[..at], &of_one[at + 1..]);
                targets[to..to + at].copy_from_slice(before);
                targets[to + at..to + at + after.len()].copy_from_slice(after);
                next[vertex as usize] += of_one.len() as u32 - 1;
            }
        });
        drop(next);
        let edge_weights = count_lists(&mut starts, &mut targets, scale);
        let scaled = |counts: Vec<u32>| counts.iter().map(|&n| f64::from(n) * scale).collect();
        Ok(HeatGraph {
            keys: Arc::clone(recording.keys()),
            seconds: recording.seconds(),
            weights: scaled(self.weights),
            accesses: scaled(self.accesses),
            starts,
            targets,
            edge_weights,
        })
    }
}

/// Sorts each list, keeps every neighbour once, and returns the number of its occurrences.
fn count_lists(starts: &mut [u32], targets: &mut Vec<Vertex>, scale: f64) -> Vec<f32> {
    let mut weights = Vec::with_capacity(targets.len());
    let (mut kept, mut from) = (0, 0);
    for vertex in 0..starts.len() - 1 {
        let to = starts[vertex + 1] as usize;
        targets[from..to].sort_unstable();
        let mut at = from;
        while at < to {
            let neighbour = targets[at];
            let same = targets[at..to].iter().take_while(|&&other| other == neighbour).count();
            targets[kept] = neighbour;
            weights.push((same as f64 * scale) as f32);
            kept += 1;
            at += same;
        }
        from = to;
        starts[vertex + 1] = kept as u32;
    }
    targets.truncate(kept);
    targets.shrink_to_fit();
    weights.shrink_to_fit();
    weights
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

/// The transaction that is being read, and the counters.
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
