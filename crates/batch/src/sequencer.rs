//! The sequencer: gathers requests into batches.
//!
//! ```text
//!   requests ──▶ │ open batch │ ── full, or its oldest request is `wait_ns_max` old ──▶ append
//! ```
//!
//! There may be several sequencers, for instance one at each site. The [order](crate::order)
//! assigns the places of their batches. A sequencer drops a request that is already in its open
//! batch. The [planner](crate::planner) finds repetitions of earlier requests, in the same way at
//! every site.
//!
//! A sequencer has no durable state: a crash loses its open batch, and clients send their requests
//! again.

use crate::request::{Batch, ClientId, Request};
use isomer_design::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The limits at which a batch is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The number of requests at which it is closed.
    pub requests_max: usize,
    /// The age of its first request at which it is closed, in nanoseconds.
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

    /// Adds a request. Returns the batch to append if this request has filled it.
    pub fn submit(&mut self, now: Time, request: Request) -> Option<Batch> {
        if !self.known.insert(request.identity()) {
            return None;
        }
        self.closes.get_or_insert(Time(now.0 + self.limits.wait_ns_max));
        self.open.push(Arc::new(request));
        (self.open.len() >= self.limits.requests_max).then(|| self.close())
    }

    /// Returns the batch to append if its first request is old enough.
    pub fn tick(&mut self, now: Time) -> Option<Batch> {
        self.closes.is_some_and(|at| at <= now).then(|| self.close())
    }

    /// The time at which [`Sequencer::tick`] returns the open batch; `None` if it is empty.
    pub fn closes_at(&self) -> Option<Time> {
        self.closes
    }

    fn close(&mut self) -> Batch {
        self.known.clear();
        self.closes = None;
        Batch { requests: std::mem::take(&mut self.open), provisions: Vec::new() }
    }
}
