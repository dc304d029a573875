//! Garbage: superseded versions, from the moment they are superseded until they are freed.
//!
//! A version that came at time `a` and was superseded at time `b` is needed by snapshots `t` with
//! `a <= t < b`, and by nobody else. But a transaction may be looking at it for no reason of its own:
//! on its way through a leaf, say, just before a commit of that time replaced it. So the clock is
//! asked for one more time `g`, after the version is **gone** from the index, and `g` takes the place
//! of `b`: whoever may still look at the version has a snapshot before `g`.
//!
//! There are two ways to learn that nobody is left:
//!
//! ```text
//!   fast:  g <= floor                      every snapshot is later. Free it and leave the link to
//!                                          it dangling: only snapshots before b would follow it.
//!   slow:  no snapshot t with a <= t < g   a long reader holds the floor down, but needs other
//!                                          versions. Take it out of its chain, then free it.
//!
//!          newest          x
//!          ┌────┐   ┌────┐   ┌────┐   ┌────┐        long reader at t = 3
//!          │ 40 │──▶│ 30 │──▶│ 20 │──▶│ 2  │        needs 2, but none of 20, 30
//!          └────┘   └────┘   └────┘   └────┘
//! ```
//!
//! So memory stays flat under endless updates: without a long reader each context holds at most a
//! few hundred superseded versions, with one at most one more version per key and long reader, and
//! a constant factor on top.
//!
//! A deletion leaves a tombstone as the newest version. Once the floor has passed it, the key leaves
//! the index and the tombstone is freed; the slow way, this happens once no older version is left.
//!
//! **Invariants.** (1) A version is freed by the one entry that names it; tombstones that were never
//! superseded by their own. (2) Links change only with the leaf latched. (3) While an entry is in
//! the queue, its version is linked or already dangling-only below the floor. (4) Versions that were
//! superseded after the floor are all linked; the slow way walks along these only, and holds the
//! floor where it is while it walks.

use crate::context::{Context, Needs};
use crate::epoch::pin;
use crate::index::{Alter, Index};
use crate::row::Row;
use isomer_design::{Key, Time};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

/// A context looks at the others after it has superseded this many versions.
const SCAN_AFTER: usize = 96;
/// Whoever is on its way with a transaction frees no more versions than this at once, several times what came meanwhile.
const FREED_MAX: usize = 4 * SCAN_AFTER;
/// With more than this many entries held up, the slow way is worth its trips through the index.
const SLOW_AFTER: usize = if cfg!(feature = "shuttle") { 2 } else { 4096 };

/// What one context superseded, oldest first.
#[derive(Default)]
pub(crate) struct Garbage {
    queue: VecDeque<Entry>,
    /// The indexes that entries name, so that an entry costs no count that others share.
    indexes: Vec<Arc<Index>>,
    /// How many entries at the back are new since the last look at the other contexts.
    fresh: usize,
    /// How many entries the last slow pass left behind.
    held_up: usize,
}

struct Entry {
    /// Which of the queue's indexes.
    index: usize,
    /// When the version was superseded.
    at: Time,
    /// When it was gone from the index; later than now for entries that are new.
    gone: Time,
    what: What,
}

enum What {
    /// Still linked from the version that superseded it.
    Superseded(NonNull<Row>),
    /// Taken out of the index together with its key.
    Purged(NonNull<Row>),
    /// The key's newest version was a deletion.
    Tombstone(Key),
}

// SAFETY: the rows an entry names are shared memory; the queue itself has one owner at a time.
unsafe impl Send for Entry {}

impl Context<'_> {
    /// Remembers that `row` was superseded at time `at`.
    pub(crate) fn retire(&self, index: &Arc<Index>, row: NonNull<Row>, at: Time) {
        self.with_garbage(|garbage| garbage.push(index, at, What::Superseded(row)));
    }

    /// Remembers that `row`, the newest of its key, was taken out of the index.
    pub(crate) fn retire_purged(&self, index: &Arc<Index>, row: NonNull<Row>) {
        // SAFETY: the row is this context's to free, and it has not done so.
        let at = unsafe { row.as_ref() }.time();
        self.with_garbage(|garbage| garbage.push(index, at, What::Purged(row)));
    }

    /// Remembers that a tombstone for `key` was installed at time `at`.
    pub(crate) fn retire_key(&self, index: &Arc<Index>, key: &[u8], at: Time) {
        let what = What::Tombstone(Key::from_bytes(key));
        self.with_garbage(|garbage| garbage.push(index, at, what));
    }

    /// Collects some of what nobody needs any more, if enough has come together: where the horizon has jumped, what it
    /// has passed is freed little by little.
    pub fn collect_some(&mut self) {
        if self.garbage().fresh >= SCAN_AFTER {
            self.stamp_garbage();
            self.store.raise_floor();
            self.collect_stamped(FREED_MAX);
        }
    }

    /// Looks at the needs of all contexts and collects what nobody needs any more.
    pub fn collect(&mut self) {
        self.stamp_garbage();
        self.store.raise_floor();
        self.collect_stamped(usize::MAX);
    }

    /// Gives what is new a time at which it was gone.
    pub(crate) fn stamp_garbage(&mut self) {
        if let Some(latest) = self.garbage().latest_fresh() {
            let gone = self.store.clock.tick(latest);
            self.garbage().stamp(gone);
        }
    }

    /// Collects what the floor has passed, so many versions at most; and the slow way, where that is
    /// worth it, what is above it. False if there is more that the floor has passed.
    pub(crate) fn collect_stamped(&mut self, most: usize) -> bool {
        let (store, slot) = (self.store, self.slot);
        let is_all = self.garbage().collect_below(store.contexts.floor(), slot, most);
        if is_all && self.garbage().is_worth_the_slow_way() {
            self.collect_the_slow_way();
        }
        is_all
    }

    fn collect_the_slow_way(&mut self) {
        let (store, slot) = (self.store, self.slot);
        // Scans that did not see the hold must be over before the floor is read: no later one can
        // raise it then.
        let Some(turn) = store.contexts.turn() else { return };
        let idle = self.bound().is_none();
        if idle {
            self.hold();
        }
        let needs = turn.scan(store.clock.last());
        let linked_after = store.contexts.floor().max(self.bound().expect("just held"));
        drop(turn);
        // If a snapshot was just being chosen, there is another chance soon.
        if needs.snapshots.is_some() {
            self.garbage().collect_between(&needs, linked_after, slot);
        }
        if idle {
            self.unpin();
        }
    }

    /// How many superseded versions this context holds.
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

    /// When the latest of the new entries was superseded.
    fn latest_fresh(&self) -> Option<Time> {
        self.queue.iter().rev().take(self.fresh).map(|entry| entry.at).max()
    }

    fn stamp(&mut self, gone: Time) {
        self.queue.iter_mut().rev().take(self.fresh).for_each(|entry| entry.gone = gone);
        self.fresh = 0;
    }

    /// Frees what the floor has passed, so many at most; true if that was all.
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

    fn is_worth_the_slow_way(&self) -> bool {
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

    /// The slow way; `false` if the entry must stay.
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

/// Takes a key out of the index if `condition` holds for its newest version, a tombstone that no
/// snapshot needs. Operations under way may look at the tombstone, but nobody keeps it.
fn remove_tombstone(
    index: &Index,
    key: &[u8],
    condition: impl FnOnce(&Row) -> bool,
    slot: usize,
) -> bool {
    let guard = pin();
    let removed = index.remove_if(key, &guard, condition);
    if let Some(row) = removed {
        // SAFETY: the tombstone was not superseded, so no entry names it; its key is gone.
        unsafe { index.defer_free_row(slot, row, &guard) };
    }
    removed.is_some()
}

/// Takes a version out of its chain and has it freed after the operations under way; `false` if it
/// is not found.
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
