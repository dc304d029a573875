//! The watermarks of a log, which any thread may read, and the waits for durability.

use crate::{Durability, LogError, Position};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Begin, durable and end of a log, its failure if it had one, and the waits for durability.
///
/// The marks are read without a lock. No wait is missed: `poll_durable` reads the mark again while
/// it holds the list of waits, and `set_durable` moves the mark before it locks that list.
pub(crate) struct Marks {
    durability: Durability,
    /// End of the log when it was opened.
    opened_at: Position,
    begin: AtomicU64,
    durable: AtomicU64,
    end: AtomicU64,
    syncs: AtomicU64,
    failure: OnceLock<LogError>,
    /// In order of position.
    waits: Mutex<VecDeque<(Position, Waker)>>,
}

impl Marks {
    /// The marks of a log just opened, all of which is durable.
    pub(crate) fn new(durability: Durability, begin: Position, end: Position) -> Marks {
        Marks {
            durability,
            opened_at: end,
            begin: AtomicU64::new(begin),
            durable: AtomicU64::new(end),
            end: AtomicU64::new(end),
            syncs: AtomicU64::new(0),
            failure: OnceLock::new(),
            waits: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn begin(&self) -> Position {
        self.begin.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> Position {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) -> Position {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Bytes appended since the log was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.end() - self.opened_at
    }

    pub(crate) fn set_begin(&self, begin: Position) {
        self.begin.store(begin, Ordering::Release);
    }

    pub(crate) fn set_end(&self, end: Position) {
        self.end.store(end, Ordering::Release);
    }

    /// Moves the durable mark after a sync, never back: of two concurrent syncs the slower one
    /// changes nothing. Returns the waits that this ends.
    pub(crate) fn set_durable(&self, durable: Position) -> Woken {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.durable.fetch_max(durable, Ordering::AcqRel);
        let mut waits = self.waits.lock();
        let reached = waits.partition_point(|(position, _)| *position <= durable);
        Woken(waits.drain(..reached).map(|(_, waker)| waker).collect())
    }

    /// Ends the log: from now on `check` returns the first failure. Returns all waits.
    pub(crate) fn fail(&self, failure: LogError) -> Woken {
        self.failure.get_or_init(|| failure);
        let waits = std::mem::take(&mut *self.waits.lock());
        Woken(waits.into_iter().map(|(_, waker)| waker).collect())
    }

    /// Fails if the log had a failure.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The failure, if the log had one.
    pub(crate) fn failure(&self) -> Option<LogError> {
        self.failure.get().cloned()
    }

    pub(crate) fn poll_durable(
        &self,
        position: Position,
        waker: &Waker,
    ) -> Poll<Result<(), LogError>> {
        if self.durable() >= position {
            return Poll::Ready(Ok(()));
        }
        if self.durability != Durability::Commit {
            return Poll::Ready(self.check());
        }
        let mut waits = self.waits.lock();
        if self.durable() >= position {
            return Poll::Ready(Ok(()));
        }
        if let Err(failure) = self.check() {
            return Poll::Ready(Err(failure));
        }
        insert(&mut waits, position, waker);
        Poll::Pending
    }
}

/// Wakers to call once no lock is held.
#[must_use]
pub(crate) struct Woken(Vec<Waker>);

impl Woken {
    /// Adds one more waker.
    pub(crate) fn and(mut self, waker: Option<Waker>) -> Woken {
        self.0.extend(waker);
        self
    }

    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// Adds a wait, in order of position. Positions nearly always arrive in order, so the search starts
/// at the end.
fn insert(waits: &mut VecDeque<(Position, Waker)>, position: Position, waker: &Waker) {
    let mut at = waits.len();
    while at > 0 && waits[at - 1].0 >= position {
        at -= 1;
        if waits[at].0 == position && waits[at].1.will_wake(waker) {
            return;
        }
    }
    waits.insert(at, (position, waker.clone()));
}
