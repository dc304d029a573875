//! Garbage: superseded versions, from the moment they are superseded until they are freed.
//!
//! A version that came at time `a` and was superseded at time `b` is needed by snapshots `t` with
//! `a <= t < b`, and by nobody else. There are two ways to learn that none is left:
//!
//! ```text
//!   fast:  b <= floor                      every snapshot is later. Free it and leave the link to
//!                                          it dangling: only snapshots before b would follow it.
//!   slow:  no snapshot t with a <= t < b   a long reader holds the floor down, but needs other
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
//! the index and the tombstone is freed.
//!
//! **Invariants.** (1) A version is freed by the one entry that names it; tombstones that were never
//! superseded by their own. (2) Links change only with the leaf latched. (3) While an entry is in
//! the queue, its version is linked or already dangling-only below the floor.

use crate::context::{Context, Needs};
use crate::index::{Alter, Index};
use crate::row::Row;
use crossbeam_epoch::pin;
use isomer_design::{Key, Time};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

/// A context looks at the others after it has superseded this many versions.
const SCAN_AFTER: usize = 96;
/// With more than this many entries held up, the slow way is worth its trips through the index.
const SLOW_AFTER: usize = 4096;

/// What one context superseded, oldest first.
#[derive(Default)]
pub(crate) struct Garbage {
    queue: VecDeque<Entry>,
    since_scan: usize,
    /// How many entries the last slow pass left behind.
    held_up: usize,
}

struct Entry {
    index: Arc<Index>,
    at: Time,
    what: What,
}

enum What {
    Superseded(NonNull<Row>),
    Tombstone(Key),
}

// SAFETY: the rows an entry names are shared memory; the queue itself has one owner at a time.
unsafe impl Send for Entry {}

impl Context<'_> {
    /// Remembers that `row` was superseded at time `at`.
    pub(crate) fn retire(&mut self, index: &Arc<Index>, row: NonNull<Row>, at: Time) {
        let what = What::Superseded(row);
        self.garbage().push(Entry { index: index.clone(), at, what });
    }

    /// Remembers that a tombstone for `key` was installed at time `at`.
    pub(crate) fn retire_key(&mut self, index: &Arc<Index>, key: &[u8], at: Time) {
        let what = What::Tombstone(Key::from_bytes(key));
        self.garbage().push(Entry { index: index.clone(), at, what });
    }

    /// Collects what nobody needs any more, if enough has come together.
    pub fn collect_some(&mut self) {
        if self.garbage().since_scan >= SCAN_AFTER {
            self.collect();
        }
    }

    /// Looks at the needs of all contexts and collects what nobody needs any more.
    pub fn collect(&mut self) {
        let store = self.store;
        let needs = store.contexts.scan(store.clock.last());
        let floor = store.contexts.floor();
        let slot = self.slot;
        let garbage = self.garbage();
        garbage.since_scan = 0;
        while garbage.queue.front().is_some_and(|entry| entry.at <= floor) {
            let entry = garbage.queue.pop_front().expect("just seen");
            // SAFETY: the floor has passed the entry, so no snapshot needs its version.
            unsafe { entry.free_below_floor(slot) };
        }
        garbage.held_up = garbage.held_up.min(garbage.queue.len());
        if garbage.queue.len() > SLOW_AFTER.max(2 * garbage.held_up) {
            garbage.collect_between_snapshots(&needs, slot);
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

    fn push(&mut self, entry: Entry) {
        self.since_scan += 1;
        self.queue.push_back(entry);
    }

    fn collect_between_snapshots(&mut self, needs: &Needs, slot: usize) {
        let Some(snapshots) = &needs.snapshots else { return };
        self.queue.retain(|entry| {
            let What::Superseded(row) = entry.what else { return true };
            // SAFETY: the entry owns the version, so it is alive.
            let came = unsafe { row.as_ref() }.time();
            let needed = snapshots.iter().any(|&t| came <= t && t < entry.at);
            needed || entry.at > needs.limit || !entry.unlink(row, slot)
        });
        self.held_up = self.queue.len();
    }
}

impl Entry {
    /// # Safety
    /// No snapshot, present or future, is earlier than `self.at`.
    unsafe fn free_below_floor(self, slot: usize) {
        match self.what {
            // SAFETY: the caller's promise; the entry is the version's only owner.
            What::Superseded(row) => unsafe { self.index.free_row(slot, row) },
            What::Tombstone(key) => self.index.remove_tombstone(&key, self.at, slot),
        }
    }

    /// Takes the version out of its chain and has it freed after its last reader; `false` if the
    /// chain could not be found.
    fn unlink(&self, row: NonNull<Row>, slot: usize) -> bool {
        let guard = pin();
        let mut unlinked = false;
        // SAFETY: the entry owns the version, so it is alive.
        let gone = unsafe { row.as_ref() };
        self.index.alter(gone.key(), &guard, |newest| {
            let mut newer = newest;
            while newer.older() != row.as_ptr() {
                // SAFETY: versions between the newest and one above the floor are all linked.
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
            self.index.defer_free_row(slot, row, &guard);
        }
        unlinked
    }
}
