//! Counts of the rows of a plan's nodes, for EXPLAIN ANALYZE.
//!
//! ```text
//!   source ── found ──▶ its conditions ── matched ──▶ join ── rows ──▶ next step
//! ```
//!
//! Without ANALYZE there are no counts, and a row costs one comparison.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The counts of a step of a plan, or of a query, over all its runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NodeCounts {
    /// How often the source was read, or the query ran.
    pub loops: u64,
    /// The rows that the access path of a step has found.
    pub found: u64,
    /// Those of them that meet the conditions of the scan. Of a query: the rows of all sources that
    /// meet its conditions.
    pub matched: u64,
    /// The rows that a step has passed on, or a query has returned.
    pub rows: u64,
    /// The rows of a step that came from sites of other processes.
    pub shipped: u64,
}

/// Counts by the addresses of steps and queries: a plan stays where it is while it runs and is
/// shown.
#[derive(Default)]
pub(crate) struct Counting {
    nodes: RefCell<HashMap<usize, NodeCounts>>,
    /// The rows from other processes that sources inside of the current one have read.
    inside: Cell<u64>,
}

impl Counting {
    /// Counts a run of a source, which has found this many rows while the statement got `shipped`
    /// rows from other processes. `around` is what [`Counting::begin`] has returned before the run.
    pub(super) fn ran(&self, address: usize, found: u64, shipped: u64, around: u64) {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.entry(address).or_default();
        node.loops += 1;
        node.found += found;
        node.shipped += shipped - self.inside.get();
        self.inside.set(around + shipped);
    }

    /// Begins a run of a source, during which the sources of later steps run.
    pub(super) fn begin(&self) -> u64 {
        self.inside.replace(0)
    }

    /// The counts of all nodes that have run.
    pub(crate) fn into_nodes(self) -> HashMap<usize, NodeCounts> {
        self.nodes.into_inner()
    }
}

/// Counts for a node, if the statement is counted.
pub(super) fn count(counts: &Option<Counting>, address: usize, add: impl FnOnce(&mut NodeCounts)) {
    if let Some(counts) = counts {
        add(counts.nodes.borrow_mut().entry(address).or_default());
    }
}
