//! The sequencer: gathers requests into batches.
//!
//! ```text
//!   requests ──▶ │ open batch │ ── full, or its oldest request has waited long enough ──▶ append
//! ```
//!
//! There may be many, one at each site. What each appends gets its place from the [order](crate::order).
//! A request that is in the open batch already is not added again; one that came before is found out when
//! the batch is [planned](crate::planner), which every site does alike.
//!
//! A sequencer keeps nothing: one that crashes loses its open batch, and the clients ask again.

use crate::request::{Batch, ClientId, Request};
use isomer_design::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// When a batch is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// It has this many requests.
    pub requests_max: usize,
    /// Its first request has waited this long, in nanoseconds.
    pub wait_ns_max: u64,
}

/// Gathers requests.
#[derive(Debug)]
pub struct Sequencer {
    limits: Limits,
    open: Vec<Arc<Request>>,
    known: BTreeSet<(ClientId, u64, u32)>,
    closes: Option<Time>,
}

impl Sequencer {
    /// One without requests.
    pub fn new(limits: Limits) -> Sequencer {
        Sequencer { limits, open: Vec::new(), known: BTreeSet::new(), closes: None }
    }

    /// Takes a request; gives a batch to append, if it is full with this one.
    pub fn submit(&mut self, now: Time, request: Request) -> Option<Batch> {
        if !self.known.insert(request.identity()) {
            return None;
        }
        self.closes.get_or_insert(Time(now.0 + self.limits.wait_ns_max));
        self.open.push(Arc::new(request));
        (self.open.len() >= self.limits.requests_max).then(|| self.close())
    }

    /// Gives a batch to append, if it has waited long enough.
    pub fn tick(&mut self, now: Time) -> Option<Batch> {
        self.closes.is_some_and(|at| at <= now).then(|| self.close())
    }

    /// When the next [`Sequencer::tick`] is due.
    pub fn closes_at(&self) -> Option<Time> {
        self.closes
    }

    fn close(&mut self) -> Batch {
        self.known.clear();
        self.closes = None;
        Batch { requests: std::mem::take(&mut self.open), provisions: Vec::new() }
    }
}
