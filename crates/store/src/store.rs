//! The store of one site: the heap, the clock and the contexts that its tables share.

use crate::clock::Clock;
use crate::context::{Context, Contexts};
use crate::heap::Heap;
use crate::index::{Index, Spot};
use crate::partition::Partition;
use crate::row::Row;
use crossbeam_epoch::{Guard, pin};
use isomer_design::{KeyRange, Time};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// See the [module documentation](self).
pub struct Store {
    pub(crate) heap: Arc<Heap>,
    pub(crate) contexts: Contexts,
    /// Hands out the times of commits.
    pub clock: Clock,
}

/// Why a snapshot cannot be had yet. The waker passed in will be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotYet {
    /// The partition at this position of the argument is publishing an event.
    Publishing(usize),
    /// The copy at this position is a replica that is not known to be complete up to this time.
    Behind(usize, Time),
}

impl Store {
    /// An empty store whose clock starts after `start`.
    pub fn new(start: Time) -> Store {
        Store {
            heap: Arc::new(Heap::new()),
            contexts: Contexts::new(start),
            clock: Clock::new(start),
        }
    }

    /// An empty index for the rows of a table.
    pub fn new_table(&self) -> Arc<Index> {
        Arc::new(Index::new(self.heap.clone()))
    }

    /// A context for one transaction; `None` if [`crate::CONTEXTS_MAX`] are in use.
    pub fn context(&self) -> Option<Context<'_>> {
        let slot = self.contexts.acquire()?;
        Some(Context { store: self, slot })
    }

    /// Keeps history from `horizon` on, for snapshots that read replicas. `Time::MAX`: keep only
    /// what open snapshots need.
    pub fn set_horizon(&self, horizon: Time) {
        self.contexts.set_horizon(horizon);
    }

    /// No snapshot, present or future, is earlier than this.
    pub fn floor(&self) -> Time {
        self.contexts.floor()
    }

    /// Collects what contexts that are not in use have left behind.
    pub fn collect_idle(&self) {
        for slot in self.contexts.left_behind() {
            if let Some(mut context) =
                self.contexts.acquire_at(slot).then_some(Context { store: self, slot })
            {
                context.collect();
            }
        }
    }

    /// Bytes of rows and leaves, rounding included.
    pub fn memory_bytes(&self) -> usize {
        self.heap.live_bytes()
    }
}

impl Context<'_> {
    /// Chooses a snapshot over `partitions`, not earlier than `at_least`, and holds on to it: the
    /// largest time up to which everything on them is installed here, as far as that is known
    /// without waiting.
    ///
    /// The result is a cut through the one order of commits: every commit on the partitions at or
    /// before it is installed, and every later one will get a later time. The partitions are looked
    /// at twice; if nothing moved between, there was a moment when all of it held together.
    ///
    /// # Errors
    /// [`NotYet`] if a partition is publishing, or a replica is behind. The snapshot is not held
    /// then; the waker is woken when it is worth trying again.
    pub fn snapshot<'p>(
        &mut self,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        at_least: Time,
        waker: &Waker,
    ) -> Result<Time, NotYet> {
        let contexts = &self.store.contexts;
        let limit = contexts.start(self.slot);
        self.store.clock.raise(at_least);
        let result = self.choose(partitions.clone(), limit.max(at_least), waker);
        match result {
            Ok(time) => contexts.pin(self.slot, time),
            Err(_) => contexts.unpin(self.slot),
        }
        result
    }

    /// Holds on to the present without choosing a snapshot: for whoever writes rows without reading,
    /// as refresh transactions do.
    pub fn hold(&mut self) {
        self.store.contexts.start(self.slot);
    }

    fn choose<'p>(
        &self,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        floor: Time,
        waker: &Waker,
    ) -> Result<Time, NotYet> {
        loop {
            let (mut time, mut complete) = (floor, Time::MAX);
            let mut seen = smallvec::SmallVec::<[(Time, bool); 8]>::new();
            for (at, partition) in partitions.clone().enumerate() {
                let last = Self::settled(partition, at, waker)?;
                let master = partition.is_master();
                seen.push((last, master));
                time = time.max(partition.since());
                if master {
                    time = time.max(last);
                } else {
                    complete = complete.min(partition.complete());
                }
            }
            // Replicas stand still at any time up to which they are complete; masters must have.
            let stood_still = |(partition, &(last, master)): (&Partition, &(Time, bool))| {
                !master || (partition.is_settled_at(last) && partition.is_master())
            };
            if !partitions.clone().zip(&seen).all(stood_still) {
                continue;
            }
            if complete >= time {
                // Nothing but replicas: take the freshest cut they all hold.
                let fresh = if complete == Time::MAX { time } else { complete };
                return Ok(time.max(fresh.min(self.store.clock.last())));
            }
            if let Some(behind) = Self::wait_for_replica(partitions.clone(), time, waker) {
                return Err(NotYet::Behind(behind, time));
            }
        }
    }

    fn settled(partition: &Partition, at: usize, waker: &Waker) -> Result<Time, NotYet> {
        if let Some(last) = partition.settled() {
            return Ok(last);
        }
        partition.progress.register(waker);
        partition.settled().ok_or(NotYet::Publishing(at))
    }

    fn wait_for_replica<'p>(
        mut partitions: impl Iterator<Item = &'p Partition>,
        time: Time,
        waker: &Waker,
    ) -> Option<usize> {
        partitions.position(|partition| {
            if partition.complete() >= time {
                return false;
            }
            partition.wait_for_progress(waker);
            partition.complete() < time
        })
    }

    /// Installs a new version of a row (`None`: a deletion) as of `time`, superseding the newest.
    ///
    /// The caller holds the partition's lock, has marked it as publishing, and this context is
    /// pinned to a snapshot or [held](Context::hold).
    pub fn install<'g>(
        &mut self,
        index: &Arc<Index>,
        spot: &mut Spot<'g>,
        key: &[u8],
        value: Option<&[u8]>,
        time: Time,
        guard: &'g Guard,
    ) {
        let row = Row::allocate(&self.store.heap, self.slot, key, value, time);
        if let Some(old) = index.install_at(spot, row, guard) {
            self.retire(index, old, time);
        }
        if value.is_none() {
            self.retire_key(index, key, time);
        }
    }

    /// Takes every row of `range` out of the index, for good. Only for ranges that no snapshot
    /// reads any more: see [`Store::floor`].
    pub fn purge(&mut self, index: &Index, range: &KeyRange) {
        let mut keys = Vec::new();
        loop {
            let guard = pin();
            self.hold();
            index.scan(range, &guard, |row| {
                keys.push(isomer_design::Key::from_bytes(row.key()));
                if keys.len() < 256 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.unpin();
            if keys.is_empty() {
                return;
            }
            for key in keys.drain(..) {
                index.remove_if(&key, self.slot, |_| true);
            }
        }
    }
}
