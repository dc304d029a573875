//! The heat graph: keys as vertices, co-accesses as edges, rates as weights (Clay, section 6).
//!
//! ```text
//!   transactions                       heat graph (weights as counts)
//!   1: suppliers/1 parts/7 parts/9        suppliers/1 (2) ──2── parts/7 (2)
//!   2: suppliers/1 parts/7                      └────1──── parts/9 (1) ──1── parts/7
//! ```
//!
//! The weight of a vertex is the number of transactions that touch it, that of an edge the number
//! that touch both ends. Both are stored as counts; [`HeatGraph::seconds`] turns them into rates.
//! E-Store counts accesses instead of transactions, so those are stored too.
//!
//! # How it is built
//!
//! A recording in memory is read twice: lists of neighbours are measured, written, and then counted
//! one by one. A stream can be read only once, so its pairs are counted. A transaction of n keys
//! yields n(n−1)/2 of them, each one `u64`, low vertex first. Batches of pairs are sorted by radix,
//! equal pairs counted, and sorted batches of similar size merged. So memory follows the number of
//! distinct edges and not the recording. Either way both directions end up in one array per field
//! (compressed sparse rows), 8 bytes per edge and direction.
//!
//! # Omissions
//!
//! Transactions of more than [`CLIQUE_MAX`] keys would swamp the graph with pairs. They yield edges
//! along a ring and from the first key to all others, which keeps them connected.

mod build;
mod graph;
mod pairs;
mod sample;

pub use build::{CLIQUE_MAX, HeatBuilder, HeatStreamError};
pub use graph::{GraphError, HeatGraph};
pub use sample::{SampleError, Sampling};
