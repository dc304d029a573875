//! The heat graph: keys as vertices, co-accesses as edges, rates as weights (Clay, section 6).
//!
//! ```text
//!   transactions                       heat graph (weights as counts)
//!   1: suppliers/1 parts/7 parts/9        suppliers/1 (2) ──2── parts/7 (2)
//!   2: suppliers/1 parts/7                      └────1──── parts/9 (1) ──1── parts/7
//! ```
//!
//! A vertex weighs the transactions that touch it, an edge the transactions that touch both ends;
//! both are stored as counts, [`HeatGraph::seconds`] turns them into rates. E-Store counts accesses
//! instead of transactions, so those are kept beside.
//!
//! # How it is built
//!
//! A recording in memory is looked at twice: lists of neighbours are measured, written, and then
//! counted one by one. A stream can be looked at only once, so its pairs are counted: a transaction
//! of n keys gives n(n−1)/2 of them, each one `u64`, low vertex first. Batches of pairs are sorted by
//! radix, equal ones counted, and sorted batches of like size merged, so memory follows the distinct
//! edges, not the recording. Either way both directions end up in one array per field (compressed
//! sparse rows), 8 bytes an edge and direction.
//!
//! # Omissions
//!
//! Transactions of more than [`CLIQUE_MAX`] keys would drown the graph in pairs; they give edges
//! along a ring and from the first key to all others, which keeps them connected.

mod build;
mod graph;
mod pairs;
mod sample;

pub use build::{CLIQUE_MAX, HeatBuilder, HeatStreamError};
pub use graph::{GraphError, HeatGraph};
pub use sample::{SampleError, Sampling};
