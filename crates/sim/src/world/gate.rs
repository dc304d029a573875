//! Gates: borders of the world that can be held, so that messages and requests wait there.

use super::World;
use isomer_design::SiteId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A border that can be held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gate {
    /// Messages from one site to another.
    Messages(SiteId, SiteId),
    /// The router's requests to a site.
    Requests(SiteId),
    /// A site's answers to the router.
    Answers(SiteId),
    /// The syncs of a site's disk.
    Disk(SiteId),
    /// The publication of a site's checkpoint, which is on disk.
    Publish(SiteId),
    /// The cut of a site's log, after its checkpoint is published.
    Cut(SiteId),
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gate::Messages(from, to) => write!(f, "messages {from} → {to}"),
            Gate::Requests(site) => write!(f, "requests to {site}"),
            Gate::Answers(site) => write!(f, "answers of {site}"),
            Gate::Disk(site) => write!(f, "syncs of {site}"),
            Gate::Publish(site) => write!(f, "checkpoints of {site}"),
            Gate::Cut(site) => write!(f, "the cut of {site}'s log"),
        }
    }
}

/// The held gates, and the tasks that wait at them.
#[derive(Default)]
pub(super) struct Gates {
    held: RefCell<BTreeSet<Gate>>,
    waiting: RefCell<BTreeMap<Gate, Vec<Waker>>>,
}

impl World {
    /// Holds a gate.
    pub fn hold(&self, gate: Gate) {
        self.gates.held.borrow_mut().insert(gate);
    }

    /// Opens a gate: everything that waits at it passes.
    pub fn let_go(self: &Rc<World>, gate: Gate) {
        self.gates.held.borrow_mut().remove(&gate);
        let waiting = self.gates.waiting.borrow_mut().remove(&gate);
        waiting.into_iter().flatten().for_each(Waker::wake);
        if let Gate::Messages(from, to) = gate {
            self.deliver_held(from, to, usize::MAX);
        }
    }

    /// Opens every gate.
    pub fn let_all_go(self: &Rc<World>) {
        let held = self.gates.held.borrow().clone();
        held.into_iter().for_each(|gate| self.let_go(gate));
    }

    pub(super) fn is_held(&self, gate: Gate) -> bool {
        self.gates.held.borrow().contains(&gate)
    }

    /// Waits until a gate is open.
    pub(super) async fn pass(&self, gate: Gate) {
        poll_fn(|cx| {
            if !self.is_held(gate) {
                return Poll::Ready(());
            }
            let mut waiting = self.gates.waiting.borrow_mut();
            waiting.entry(gate).or_default().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
