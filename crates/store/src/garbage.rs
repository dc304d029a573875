//! Garbage: superseded versions, from the commit that superseded them until they are freed.
//!
//! A version that was installed at time `a` and superseded at time `b` is needed by the snapshots
//! `t` with `a <= t < b`, and by no others. But a transaction with a later snapshot may be
//! accessing it too: say, while it searched a leaf just before the commit at `b` replaced the
//! version. So after the version has left the index, the clock hands out one more time, `g`, which
//! replaces `b`. Every transaction that may still access the version has a snapshot before `g`.
//!
//! The collector has two ways to find out that no such snapshot is left:
//!
//! ```text
//!   fast:  g <= floor                      every snapshot is later. Free it and leave the link to
//!                                          dangling: only snapshots before b would follow it.
//!   slow:  no snapshot t with a <= t < g   a long reader holds the floor down, but needs other
//!                                          versions. Unlink it from its chain, then free it.
//!
//!          newest          x
//!          ┌────┐   ┌────┐   ┌────┐   ┌────┐        long reader at t = 3
//!          │ 40 │──▶│ 30 │──▶│ 20 │──▶│ 2  │        needs 2, but none of 20, 30
//!          └────┘   └────┘   └────┘   └────┘
//! ```
//!
//! So memory stays flat under endless updates. Without a long reader each context holds a few
//! hundred superseded versions at most. Each long reader adds at most one version per key, and
//! there is a constant factor on top.
//!
//! A deletion installs a tombstone as the newest version. Once the floor has passed it, the key is
//! removed from the index and the tombstone is freed. On the slow path, this happens once no older
//! version is left.
//!
//! **Invariants.** (1) Exactly one entry names a superseded version, and that entry frees it; a
//! tombstone that was never superseded is freed by its own entry. (2) Links change only with the
//! leaf latched. (3) While an entry is in the queue, its version is linked, or only snapshots below
//! the floor could reach it. (4) Versions that were superseded after the floor are all linked. The
//! slow path follows only their links, and prevents the floor from rising meanwhile.

use crate::context::{Context, Needs};
use crate::epoch::pin;
use crate::index::{Alter, Index};
use crate::row::Row;
use isomer_design::{Key, Time};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

/// A context scans the other contexts after it has superseded this many versions.
const SCAN_AFTER: usize = 96;
/// Limit on the versions that a transaction frees at a time: several times what it adds.
const FREED_MAX: usize = 4 * SCAN_AFTER;
/// With more than this many entries held up, the slow path is worth its index lookups.
const SLOW_AFTER: usize = if cfg!(feature = "shuttle") { 2 } else { 4096 };

/// The versions that a context superseded, oldest first.
#[derive(Default)]
pub(crate) struct Garbage {
    queue: VecDeque<Entry>,
    /// The indexes that entries name. Entries refer to them by number, which saves a shared
    /// counter.
    indexes: Vec<Arc<Index>>,
    /// Number of entries at the back that are new since the last scan of the other contexts.
    fresh: usize,
    /// Number of entries that the last slow pass could not free.
    held_up: usize,
}

struct Entry {
    /// The number of its index in `indexes`.
    index: usize,
    /// The time at which the version was superseded.
    at: Time,
    /// A time after the version left the index; `Time::MAX` for new entries.
    gone: Time,
    what: What,
}

enum What {
    /// Still linked from the version that superseded it.
    Superseded(NonNull<Row>),
    /// Removed from the index together with its key.
    Purged(NonNull<Row>),
    /// The newest version of the key was a deletion.
    Tombstone(Key),
}

// SAFETY: the rows an entry names are shared memory; the queue itself has one owner at a time.
unsafe impl Send for Entry {}

impl Context<'_> {
    /// Records that `row` was superseded at time `at`.
    pub(crate) fn retire(&self, index: &Arc<Index>, row: NonNull<Row>, at: Time) {
        self.with_garbage(|garbage| garbage.push(index, at, What::Superseded(row)));
    }

    /// Records that `row`, the newest version of its key, was removed from the index.
    pub(crate) fn retire_purged(&self, index: &Arc<Index>, row: NonNull<Row>) {
        // SAFETY: the row is this context's to free, and it has not done so.
        let at = unsafe { row.as_ref() }.time();
        self.with_garbage(|garbage| garbage.push(index, at, What::Purged(row)));
    }

    /// Records that a tombstone for `key` was installed at time `at`.
    pub(crate) fn retire_key(&self, index: &Arc<Index>, key: &[u8], at: Time) {
        let what = What::Tombstone(Key::from_bytes(key));
        self.with_garbage(|garbage| garbage.push(index, at, what));
    }

    /// Collects some of the garbage, if enough has accumulated. After a jump of the horizon, the
    /// backlog is freed in steps of `FREED_MAX`.
    pub fn collect_some(&mut self) {
        if self.garbage().fresh >= SCAN_AFTER {
            self.stamp_garbage();
            self.store.raise_floor();
            self.collect_stamped(FREED_MAX);
        }
    }

    /// Scans all contexts and collects the garbage that no snapshot needs.
    pub fn collect(&mut self) {
        self.stamp_garbage();
        self.store.raise_floor();
        self.collect_stamped(usize::MAX);
    }

    /// Assigns new entries a time after their versions left the index.
    pub(crate) fn stamp_garbage(&mut self) {
        if let Some(latest) = self.garbage().latest_fresh() {
            let gone = self.store.clock.tick(latest);
            self.garbage().stamp(gone);
        }
    }

    /// Collects up to `most` entries below the floor. If worth it, the slow path then collects
    /// entries above the floor. Returns false if entries below the floor are left.
    pub(crate) fn collect_stamped(&mut self, most: usize) -> bool {
        let (store, slot) = (self.store, self.slot);
        let is_all = self.garbage().collect_below(store.contexts.floor(), slot, most);
        if is_all && self.garbage().is_worth_the_slow_path() {
            self.collect_on_the_slow_path();
        }
        is_all
    }

    fn collect_on_the_slow_path(&mut self) {
        let (store, slot) = (self.store, self.slot);
        // Any earlier scan must end before the floor is read, because it may have missed the hold.
        // Later scans see the hold and cannot raise the floor.
        let Some(turn) = store.contexts.turn() else { return };
        let idle = self.bound().is_none();
        if idle {
            self.hold();
        }
        let needs = turn.scan(store.clock.last());
        let linked_after = store.contexts.floor().max(self.bound().expect("just held"));
        drop(turn);
        // If a snapshot was just being chosen, a later call tries again.
        if needs.snapshots.is_some() {
            self.garbage().collect_between(&needs, linked_after, slot);
        }
        if idle {
            self.unpin();
        }
    }

    /// The number of superseded versions that this context holds.
    pub fn garbage_len(&mut self) -> usize {
        self.garbage().queue.len()
    }
}

impl Garbage {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, index: &Arc<Index>, at: Time, what: What) {
        let known = self.indexes.iter().rposition(|other| Arc::ptr_eq(other, index));
        let index = known.unwrap_or_else(|| {
            self.indexes.push(index.clone());
            self.indexes.len() - 1
        });
        self.fresh += 1;
        self.queue.push_back(Entry { index, at, gone: Time::MAX, what });
    }

    /// The latest time at which a new entry was superseded.
    fn latest_fresh(&self) -> Option<Time> {
        self.queue.iter().rev().take(self.fresh).map(|entry| entry.at).max()
    }

    fn stamp(&mut self, gone: Time) {
        self.queue.iter_mut().rev().take(self.fresh).for_each(|entry| entry.gone = gone);
        self.fresh = 0;
    }

    /// Frees up to `most` entries below the floor. Returns true if none is left there.
    fn collect_below(&mut self, floor: Time, slot: usize, most: usize) -> bool {
        let is_below = |entry: &mut Entry| entry.gone <= floor;
        for _ in 0..most {
            let Some(entry) = self.queue.pop_front_if(is_below) else { break };
            // SAFETY: the floor has passed the entry, so no snapshot needs its version.
            unsafe { entry.free_below_floor(&self.indexes, slot) };
        }
        self.held_up = self.held_up.min(self.queue.len());
        if self.queue.is_empty() {
            self.indexes.clear();
        }
        self.queue.front().is_none_or(|entry| entry.gone > floor)
    }

    fn is_worth_the_slow_path(&self) -> bool {
        self.queue.len() > SLOW_AFTER.max(2 * self.held_up)
    }

    fn collect_between(&mut self, needs: &Needs, linked_after: Time, slot: usize) {
        let Garbage { queue, indexes, .. } = self;
        queue.retain(|entry| !entry.collect(indexes, needs, linked_after, slot));
        self.held_up = self.queue.len();
    }
}

impl Entry {
    /// # Safety
    /// No snapshot, present or future, is earlier than `self.gone`.
    unsafe fn free_below_floor(self, indexes: &[Arc<Index>], slot: usize) {
        let index = &indexes[self.index];
        match self.what {
            What::Superseded(row) | What::Purged(row) => {
                // SAFETY: the caller's promise; the entry is the version's only owner.
                unsafe { index.free_row(slot, row) }
            }
            What::Tombstone(key) => {
                let is_it = |row: &Row| row.time() == self.at && row.value().is_none();
                remove_tombstone(index, &key, is_it, slot);
            }
        }
    }

    /// Tries to collect the entry on the slow path. Returns `false` if it must stay.
    fn collect(
        &self,
        indexes: &[Arc<Index>],
        needs: &Needs,
        linked_after: Time,
        slot: usize,
    ) -> bool {
        let index = &indexes[self.index];
        match &self.what {
            What::Superseded(row) => {
                // SAFETY: the entry owns the version, so it is alive.
                let came = unsafe { row.as_ref() }.time();
                self.at > linked_after
                    && !needs.any_between(came, self.gone)
                    && unlink(index, *row, slot)
            }
            What::Purged(row) => {
                // SAFETY: the entry owns the version, so it is alive.
                let came = unsafe { row.as_ref() }.time();
                let free = !needs.any_between(came, self.gone);
                if free {
                    // SAFETY: the version is out of the index, and no snapshot needs it.
                    unsafe { index.defer_free_row(slot, *row, &pin()) };
                }
                free
            }
            What::Tombstone(key) => {
                let mut superseded = true;
                let alone = |row: &Row| {
                    superseded = row.time() != self.at;
                    !superseded && row.older().is_null()
                };
                remove_tombstone(index, key, alone, slot) || superseded
            }
        }
    }
}

/// Removes a key from the index if `condition` holds for its newest version, a tombstone that no
/// snapshot needs. Operations in progress may still access the tombstone until their guards end.
fn remove_tombstone(
    index: &Index,
    key: &[u8],
    condition: impl FnOnce(&Row) -> bool,
    slot: usize,
) -> bool {
    let guard = pin();
    let removed = index.remove_if(key, &guard, condition);
    if let Some(row) = removed {
        // SAFETY: the tombstone was not superseded, so no entry names it, and its key is removed.
        unsafe { index.defer_free_row(slot, row, &guard) };
    }
    removed.is_some()
}

/// Removes a version from its chain and frees it after the operations in progress. Returns `false`
/// if it is not found.
fn unlink(index: &Index, row: NonNull<Row>, slot: usize) -> bool {
    let guard = pin();
    let mut unlinked = false;
    // SAFETY: the caller owns the version, so it is alive.
    let gone = unsafe { row.as_ref() };
    index.alter(gone.key(), &guard, |newest| {
        let mut newer = newest;
        while newer.older() != row.as_ptr() {
            // SAFETY: versions that were superseded after this one are all linked (invariant 4).
            match unsafe { newer.older().as_ref() } {
                Some(next) if next.time() > gone.time() => newer = next,
                _ => return Alter::Keep,
            }
        }
        newer.set_older(gone.older());
        unlinked = true;
        Alter::Keep
    });
    if unlinked {
        // SAFETY: the version is out of its chain, and no snapshot needs it.
        unsafe { index.defer_free_row(slot, row, &guard) };
    }
    unlinked
}
