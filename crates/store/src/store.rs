//! The store of one site: the heap, the clock and the contexts, which its tables share.

use crate::clock::Clock;
use crate::context::{Context, Contexts};
use crate::epoch::{Guard, flush, pin};
use crate::heap::{ABOUT_BYTES, Heap};
use crate::index::{Index, Spot};
use crate::partition::Partition;
use crate::row::Row;
use isomer_design::{Key, KeyRange, Time};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// Number of keys removed from an index under one guard.
const PURGED_AT_ONCE: usize = 256;

/// See the [module documentation](self).
pub struct Store {
    pub(crate) heap: Arc<Heap>,
    pub(crate) contexts: Contexts,
    /// Assigns commit times.
    pub clock: Clock,
}

/// Why a snapshot is not available yet. The waker passed in will be woken.
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
        Some(Context::new(self, slot))
    }

    /// Keeps history from `horizon` on, for snapshots that read replicas. `Time::MAX` keeps only
    /// the versions that open snapshots need.
    pub fn set_horizon(&self, horizon: Time) {
        self.contexts.set_horizon(horizon);
    }

    /// No snapshot, present or future, is earlier than this.
    pub fn floor(&self) -> Time {
        self.contexts.floor()
    }

    /// Collects up to about `most` versions left behind in contexts that were not used since the
    /// last call of this. Returns true if more could be freed. A single scan of all contexts serves
    /// all garbage of the call.
    pub fn collect_idle(&self, most: usize) -> bool {
        let contexts = &self.contexts;
        let free = contexts.abandoned().filter(|&slot| contexts.acquire_at(slot));
        let mut idle: Vec<Context<'_>> = free.map(|slot| Context::new(self, slot)).collect();
        idle.iter_mut().for_each(Context::stamp_garbage);
        self.raise_floor();
        let (mut left, mut is_more) = (most, false);
        for mut context in idle {
            let (slot, before) = (context.slot, context.garbage_len());
            let is_all = context.collect_stamped(left);
            left = left.saturating_sub(before - context.garbage_len());
            drop(context);
            if !is_all {
                contexts.abandon(slot);
                is_more = true;
            }
        }
        is_more
    }

    /// Raises the floor as far as all contexts allow, unless another context is scanning.
    pub fn raise_floor(&self) {
        if let Some(turn) = self.contexts.turn() {
            turn.scan(self.clock.last());
        }
    }

    /// Bytes of rows and leaves, rounding included. Visits every pool of the heap.
    pub fn memory_bytes(&self) -> usize {
        self.heap.live_bytes()
    }

    /// True if memory plus `more` bytes is at most `max`. Costs one load, unless the limit is
    /// close.
    pub fn has_room(&self, more: usize, max: usize) -> bool {
        let at_most = self.heap.about_bytes().saturating_add(ABOUT_BYTES);
        at_most.saturating_add(more) <= max || self.memory_bytes().saturating_add(more) <= max
    }
}

impl Context<'_> {
    /// Chooses a snapshot over `partitions`, not earlier than `at_least`, and pins it. The snapshot
    /// is the earliest with all commits of the masters, and the freshest of the replicas that needs
    /// no waiting. A later time would show no more rows, but the session would have to wait for it
    /// at other sites.
    ///
    /// The result is a cut through the one order of commits: every commit on the partitions at or
    /// before it is installed, and every other one will get a later time.
    ///
    /// # Errors
    /// [`NotYet`] if a partition is publishing, or a replica is behind. The waker is woken when the
    /// caller should retry with the same context, which remembers the time it waits for.
    pub fn snapshot<'p>(
        &mut self,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        at_least: Time,
        waker: &Waker,
    ) -> Result<Time, NotYet> {
        let contexts = &self.store.contexts;
        self.snapshot = None;
        let still_good = |wanted: &Time| {
            *wanted >= at_least && partitions.clone().all(|partition| partition.since() <= *wanted)
        };
        let waits_for = self.wanted.take().filter(still_good);
        let result = match waits_for {
            Some(time) => Self::wait_for(time, partitions, waker),
            None => {
                let limit = contexts.start(self.slot);
                self.choose(partitions, limit.max(at_least), waker)
            }
        };
        match result {
            Ok(time) => {
                self.snapshot = Some(time);
                contexts.pin(self.slot, time);
            }
            // The time stays the same, and pinned, until the replica reaches it. With a new time at
            // every attempt, a reader of a busy master would never catch up.
            Err(NotYet::Behind(_, time)) => {
                self.wanted = Some(time);
                contexts.pin(self.slot, time);
            }
            Err(NotYet::Publishing(_)) if waits_for.is_some() => self.wanted = waits_for,
            Err(NotYet::Publishing(_)) => contexts.unpin(self.slot),
        }
        result
    }

    /// A cut is any time that the clock showed before the partitions were read, if the replicas are
    /// complete up to it. A master that had taken a commit time by then had marked the partition
    /// before. So a partition that is seen later without a mark has these commits installed.
    fn choose<'p>(
        &self,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        at_least: Time,
        waker: &Waker,
    ) -> Result<Time, NotYet> {
        loop {
            self.store.clock.raise(at_least);
            let now = self.store.clock.last();
            let (mut time, mut complete, mut newest) = (at_least, Time::MAX, at_least);
            for (at, partition) in partitions.clone().enumerate() {
                // In this order: if the copy becomes the master's in between, its commits are later
                // than now.
                let last = Self::settled(partition, at, waker)?;
                let here = partition.safe_time();
                time = time.max(partition.since());
                if here == Time::MAX {
                    // Commits after `now` need not be visible.
                    time = time.max(last.min(now));
                } else {
                    complete = complete.min(here);
                    newest = newest.max(last);
                }
            }
            if time > now {
                self.store.clock.raise(time);
            } else if complete >= time {
                let fresh = if complete == Time::MAX { time } else { complete.min(newest) };
                return Ok(time.max(fresh.min(now)));
            } else if let Some(behind) = Self::wait_for_replica(partitions.clone(), time, waker) {
                return Err(NotYet::Behind(behind, time));
            }
        }
    }

    /// Checks whether a time that was chosen and pinned earlier can be read now.
    pub(crate) fn wait_for<'p>(
        time: Time,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        waker: &Waker,
    ) -> Result<Time, NotYet> {
        for (at, partition) in partitions.clone().enumerate() {
            Self::settled(partition, at, waker)?;
        }
        match Self::wait_for_replica(partitions, time, waker) {
            Some(behind) => Err(NotYet::Behind(behind, time)),
            None => Ok(time),
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
            if partition.safe_time() >= time {
                return false;
            }
            partition.wait_until_complete(time, waker);
            partition.safe_time() < time
        })
    }

    /// Installs a new version of a row (`None`: a deletion) as of `time`, superseding the newest.
    ///
    /// The caller must hold the partition's lock and have marked it as publishing. This context
    /// must have a snapshot or a [hold](Context::hold).
    ///
    /// # Panics
    /// If the context has neither, or the index is another store's, or not the one of `spot`.
    pub fn install<'g>(
        &self,
        index: &Arc<Index>,
        spot: &mut Spot<'g>,
        key: &[u8],
        value: Option<&[u8]>,
        time: Time,
        guard: &'g Guard,
    ) {
        self.assert_holds(index);
        assert!(spot.is_in(index), "a row goes into the index where its place was looked up");
        let row = Row::allocate(&self.store.heap, self.slot, key, value, time);
        if let Some(old) = spot.install(row, guard) {
            self.retire(index, old, time);
        }
        if value.is_none() {
            self.retire_key(index, key, time);
        }
    }

    /// Removes every row of `range` from the index. No snapshot may read the range any more: see
    /// [`Store::floor`].
    pub fn purge(&mut self, index: &Arc<Index>, range: &KeyRange) {
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            (_, rest) = self.purge_some(index, range, PURGED_AT_ONCE);
        }
        self.collect();
    }

    /// Like [`Context::purge`], for up to `most` keys. Returns the number of keys removed, and the
    /// rest of the range, if any.
    pub fn purge_some(
        &mut self,
        index: &Arc<Index>,
        mut range: KeyRange,
        most: usize,
    ) -> (usize, Option<KeyRange>) {
        self.hold();
        let mut keys = Vec::new();
        self.scan_newest(index, &range, |row| {
            keys.push(Key::from_bytes(row.key()));
            if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for keys in keys.chunks(PURGED_AT_ONCE) {
            let guard = pin();
            for key in keys {
                if let Some(row) = index.remove_if(key, &guard, |_| true) {
                    self.retire_purged(index, row);
                }
            }
            guard.flush_some();
        }
        self.unpin();
        self.collect_some();
        let rest = keys.last().filter(|_| keys.len() == most).map(|last| {
            range.start = last.successor();
            range
        });
        if rest.is_none() {
            flush();
        }
        (keys.len(), rest)
    }
}
