//! Contexts: the hold that a running transaction has on the past.
//!
//! Every operation on rows happens in a context. A context says, in one word that the collector
//! reads, which snapshot it uses; it keeps the versions it superseded until nobody needs them; and it
//! names the heap pool to allocate from. Nothing of this is shared with other contexts on the way of
//! a transaction: no counter, no lock.
//!
//! **The floor** is a time that no snapshot, present or future, lies below. A version that was
//! superseded at or before the floor can go. The floor is moved by whoever has collected enough
//! garbage, by looking at all contexts:
//!
//! ```text
//!   scan                                         begin of a snapshot
//!   1 limit = clock (or the horizon, if lower)   1 pin = starting | floor
//!   2 announce limit                             2 read announced limit
//!   3 floor = min(limit, every pin)              3 look at the partitions: t = max(limit, their times)
//!                                                4 pin = t
//! ```
//!
//! If the scan's step 3 missed the pin of a starting snapshot, that snapshot's step 2 came after the
//! scan's step 2, so its `t` is not below the limit, and so not below the floor. If it saw the pin,
//! the floor stays at or below the old floor. Either way no snapshot lies below the floor.
//!
//! **The horizon** keeps a little history for snapshots that read replicas, which are complete only
//! up to a moment ago. The site moves it.

use crate::garbage::Garbage;
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;
use isomer_design::Time;
use std::cell::{Cell, UnsafeCell};

/// How many transactions may be open at one site at a time.
pub const CONTEXTS_MAX: usize = 1024;

const IDLE: u64 = u64::MAX;
/// A snapshot is being chosen; the rest of the word is the floor when it began.
const STARTING: u64 = 1 << 63;

/// All contexts of a store, and the floor under their snapshots.
pub(crate) struct Contexts {
    slots: Box<[CachePadded<Slot>]>,
    /// Slots at and above this one were never used.
    used: AtomicUsize,
    limit: AtomicU64,
    floor: AtomicU64,
    horizon: AtomicU64,
}

struct Slot {
    owned: AtomicBool,
    /// The last owner left garbage.
    littered: AtomicBool,
    pin: AtomicU64,
    garbage: UnsafeCell<Garbage>,
}

// SAFETY: `garbage` is touched only by the one context that owns the slot.
unsafe impl Sync for Slot {}

/// What the other contexts need of the past, as one scan saw it.
pub(crate) struct Needs {
    /// Commits at or before this time were installed before the scan looked.
    pub(crate) limit: Time,
    /// The snapshots in use; `None` if one was just being chosen.
    pub(crate) snapshots: Option<Vec<Time>>,
}

thread_local! {
    /// Where this thread found a context last.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

impl Contexts {
    pub(crate) fn new(start: Time) -> Contexts {
        let slot = || Slot {
            owned: AtomicBool::new(false),
            littered: AtomicBool::new(false),
            pin: AtomicU64::new(IDLE),
            garbage: UnsafeCell::new(Garbage::default()),
        };
        Contexts {
            slots: (0..CONTEXTS_MAX).map(|_| CachePadded::new(slot())).collect(),
            used: AtomicUsize::new(0),
            limit: AtomicU64::new(start.0),
            floor: AtomicU64::new(start.0),
            horizon: AtomicU64::new(Time::MAX.0),
        }
    }

    /// Takes a free slot, preferably the one this thread had last.
    pub(crate) fn acquire(&self) -> Option<usize> {
        let hint = HINT.get();
        let slot = (hint..CONTEXTS_MAX).chain(0..hint).find(|&at| self.acquire_at(at))?;
        HINT.set(slot);
        if self.used.load(Ordering::Relaxed) <= slot {
            self.used.fetch_max(slot + 1, Ordering::SeqCst);
        }
        Some(slot)
    }

    /// Takes a given slot, if it is free.
    pub(crate) fn acquire_at(&self, slot: usize) -> bool {
        let owned = &self.slots[slot].owned;
        !owned.load(Ordering::Relaxed) && !owned.swap(true, Ordering::Acquire)
    }

    /// Slots that were given back with garbage in them.
    pub(crate) fn left_behind(&self) -> impl Iterator<Item = usize> {
        let used = self.used.load(Ordering::SeqCst);
        (0..used).filter(|&slot| self.slots[slot].littered.load(Ordering::Relaxed))
    }

    fn release(&self, slot: usize) {
        self.unpin(slot);
        // SAFETY: the slot is still owned by the context that is being dropped.
        let littered = unsafe { !(*self.slots[slot].garbage.get()).is_empty() };
        if self.slots[slot].littered.load(Ordering::Relaxed) != littered {
            self.slots[slot].littered.store(littered, Ordering::Relaxed);
        }
        self.slots[slot].owned.store(false, Ordering::Release);
    }

    /// Announces that a snapshot is being chosen; returns what it must not be below.
    pub(crate) fn start(&self, slot: usize) -> Time {
        let floor = self.floor.load(Ordering::SeqCst);
        self.slots[slot].pin.store(STARTING | floor, Ordering::SeqCst);
        Time(self.limit.load(Ordering::SeqCst))
    }

    /// The snapshot is chosen. A scan that still sees `STARTING` is only more careful.
    pub(crate) fn pin(&self, slot: usize, snapshot: Time) {
        self.slots[slot].pin.store(snapshot.0, Ordering::Release);
    }

    pub(crate) fn unpin(&self, slot: usize) {
        self.slots[slot].pin.store(IDLE, Ordering::Release);
    }

    pub(crate) fn floor(&self) -> Time {
        Time(self.floor.load(Ordering::SeqCst))
    }

    pub(crate) fn set_horizon(&self, horizon: Time) {
        self.horizon.store(horizon.0, Ordering::SeqCst);
    }

    /// Looks at all contexts; moves the floor up if it can.
    pub(crate) fn scan(&self, clock: Time) -> Needs {
        let limit = clock.0.min(self.horizon.load(Ordering::SeqCst));
        let limit = self.limit.fetch_max(limit, Ordering::SeqCst).max(limit);
        let mut floor = limit;
        let mut snapshots = Some(Vec::new());
        for slot in &self.slots[..self.used.load(Ordering::SeqCst)] {
            match slot.pin.load(Ordering::SeqCst) {
                IDLE => {}
                pin if pin & STARTING != 0 => {
                    floor = floor.min(pin & !STARTING);
                    snapshots = None;
                }
                pin => {
                    floor = floor.min(pin);
                    snapshots.iter_mut().for_each(|times| times.push(Time(pin)));
                }
            }
        }
        self.floor.fetch_max(floor, Ordering::SeqCst);
        Needs { limit: Time(limit), snapshots }
    }
}

/// A transaction's hold on the store; dropped when the transaction ends.
pub struct Context<'s> {
    pub(crate) store: &'s Store,
    pub(crate) slot: usize,
}

// SAFETY: a context may move to another thread between operations; only its owner uses the slot.
unsafe impl Send for Context<'_> {}

impl Context<'_> {
    /// What this context superseded and nobody has collected yet.
    pub(crate) fn garbage(&mut self) -> &mut Garbage {
        let garbage = self.store.contexts.slots[self.slot].garbage.get();
        // SAFETY: the context owns the slot, and `&mut self` makes this the only reference.
        unsafe { &mut *garbage }
    }

    /// Ends the use of the snapshot; the context can start another.
    pub fn unpin(&mut self) {
        self.store.contexts.unpin(self.slot);
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.store.contexts.release(self.slot);
    }
}
