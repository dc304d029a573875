//! Contexts: the hold that a running transaction has on the past.
//!
//! Every operation on rows happens in a context. A context says, in one word that the collector
//! reads, which snapshot it uses; it keeps the versions it superseded until nobody needs them; and it
//! names the heap pool to allocate from. Nothing of this is shared with other contexts on the way of
//! a transaction: no counter, no lock.
//!
//! **The floor** is a time that no snapshot, present or future, lies below. What had left the index
//! at or before the floor can go. The floor is moved by whoever has collected enough garbage, by
//! looking at all contexts:
//!
//! ```text
//!   scan                                         begin of a snapshot
//!   1 limit = clock (or the horizon, if lower)   1 pin = starting | floor
//!   2 announce limit                             2 read announced limit
//!   3 floor = min(limit, every pin)              3 t = a time from limit up to what the clock says
//!                                                4 pin = t
//!                                                5 look at rows
//! ```
//!
//! If the scan's step 3 missed the pin of a starting snapshot, that snapshot's step 2 came after the
//! scan's step 2, so its `t` is not below the limit, and so not below the floor. If it saw the pin,
//! the floor stays at or below the old floor. Either way no snapshot lies below the floor.
//!
//! **Why a pin protects rows.** A row that left the index (superseded, or its key removed) is given a
//! time of its own by the clock afterwards, and freed when the floor has reached that time
//! ([`crate::garbage`]). A pinned context may have met the row only if it looked before that; but
//! then its `t`, which the clock had reached before it looked, is smaller, and holds the floor back.
//! This is so for every row of the index, of whatever partition: leaves are shared by partitions, and
//! whoever searches one compares keys that are none of its business.
//!
//! **Holding** is for those who look at newest versions only: it stops the floor where it is, without
//! a snapshot.
//!
//! **The horizon** keeps a little history for snapshots that read replicas, which are complete only
//! up to a moment ago. The site moves it.

use crate::garbage::Garbage;
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;
use isomer_design::Time;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;

/// How many transactions may be open at one site at a time.
pub const CONTEXTS_MAX: usize = if cfg!(feature = "shuttle") { 8 } else { 1024 };

const IDLE: u64 = u64::MAX;
/// A snapshot is being chosen; the rest of the word is the floor when it began.
const STARTING: u64 = 1 << 63;
/// No snapshot is in use, but rows are looked at; the rest of the word is the floor when it began.
const HOLDING: u64 = 1 << 62;

/// No garbage is left.
const CLEAN: u8 = 0;
/// Some is. Who uses the slot all the time frees it soon, with what is needed for that in its processor's cache.
const LITTERED: u8 = 1;
/// Some is, and nobody has used the slot since that was last looked at.
const ABANDONED: u8 = 2;

/// All contexts of a store, and the floor under their snapshots.
pub(crate) struct Contexts {
    slots: Box<[CachePadded<Slot>]>,
    /// Slots at and above this one were never used.
    used: AtomicUsize,
    limit: AtomicU64,
    floor: AtomicU64,
    horizon: AtomicU64,
    scanning: AtomicBool,
}

struct Slot {
    owned: AtomicBool,
    /// What the last owner left: [`CLEAN`], [`LITTERED`] or [`ABANDONED`].
    litter: AtomicU8,
    pin: AtomicU64,
    garbage: UnsafeCell<Garbage>,
}

// SAFETY: `garbage` is touched only by the one context that owns the slot.
unsafe impl Sync for Slot {}

/// What the other contexts need of the past, as one scan saw it.
pub(crate) struct Needs {
    /// Snapshots that the scan did not see are at or after this time.
    pub(crate) limit: Time,
    /// The snapshots in use, in order; `None` if one was just being chosen.
    pub(crate) snapshots: Option<Vec<Time>>,
}

impl Needs {
    /// True if a snapshot may need what was there from `came` until `gone`.
    pub(crate) fn any_between(&self, came: Time, gone: Time) -> bool {
        let Some(snapshots) = &self.snapshots else { return true };
        let first = snapshots.partition_point(|&snapshot| snapshot < came);
        gone > self.limit || snapshots.get(first).is_some_and(|&snapshot| snapshot < gone)
    }
}

/// The right to scan: one context at a time.
pub(crate) struct Turn<'a> {
    contexts: &'a Contexts,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.contexts.scanning.store(false, Ordering::SeqCst);
    }
}

thread_local! {
    /// Where this thread found a context last.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

impl Contexts {
    pub(crate) fn new(start: Time) -> Contexts {
        let slot = || Slot {
            owned: AtomicBool::new(false),
            litter: AtomicU8::new(CLEAN),
            pin: AtomicU64::new(IDLE),
            garbage: UnsafeCell::new(Garbage::default()),
        };
        Contexts {
            slots: (0..CONTEXTS_MAX).map(|_| CachePadded::new(slot())).collect(),
            used: AtomicUsize::new(0),
            limit: AtomicU64::new(start.0),
            floor: AtomicU64::new(start.0),
            horizon: AtomicU64::new(Time::MAX.0),
            scanning: AtomicBool::new(false),
        }
    }

    /// Takes a free slot, preferably the one this thread had last.
    pub(crate) fn acquire(&self) -> Option<usize> {
        let hint = HINT.get();
        let slot = (hint..CONTEXTS_MAX).chain(0..hint).find(|&at| self.acquire_at(at))?;
        HINT.set(slot);
        if self.used.load(Ordering::SeqCst) <= slot {
            self.used.fetch_max(slot + 1, Ordering::SeqCst);
        }
        Some(slot)
    }

    /// Takes a given slot, if it is free.
    pub(crate) fn acquire_at(&self, slot: usize) -> bool {
        let owned = &self.slots[slot].owned;
        !owned.load(Ordering::Relaxed) && !owned.swap(true, Ordering::Acquire)
    }

    /// Slots that were given back with garbage in them, and that nobody has used since this was last asked.
    pub(crate) fn abandoned(&self) -> impl Iterator<Item = usize> {
        let used = self.used.load(Ordering::SeqCst);
        let slots = self.slots[..used].iter().enumerate();
        let abandoned = slots.filter(|(_, slot)| match slot.litter.load(Ordering::Relaxed) {
            LITTERED => {
                // If the slot is given back just now, it is looked at a little early, or for nothing.
                slot.litter.store(ABANDONED, Ordering::Relaxed);
                false
            }
            litter => litter == ABANDONED,
        });
        abandoned.map(|(at, _)| at)
    }

    /// The garbage in a slot that was given back is to be asked for soon.
    pub(crate) fn abandon(&self, slot: usize) {
        self.slots[slot].litter.store(ABANDONED, Ordering::Relaxed);
    }

    fn release(&self, slot: usize) {
        self.unpin(slot);
        let Slot { owned, litter, garbage, .. } = &*self.slots[slot];
        // SAFETY: the slot is still owned by the context that is being dropped.
        let left = if unsafe { (*garbage.get()).is_empty() } { CLEAN } else { LITTERED };
        if litter.load(Ordering::Relaxed) != left {
            litter.store(left, Ordering::Relaxed);
        }
        owned.store(false, Ordering::Release);
    }

    /// Announces that a snapshot is being chosen; returns what it must not be below.
    pub(crate) fn start(&self, slot: usize) -> Time {
        self.announce(slot, STARTING)
    }

    fn announce(&self, slot: usize, what: u64) -> Time {
        let floor = self.floor.load(Ordering::SeqCst);
        self.slots[slot].pin.store(what | floor, Ordering::SeqCst);
        Time(self.limit.load(Ordering::SeqCst))
    }

    /// The snapshot is chosen. A scan that still sees `STARTING` is only more careful.
    pub(crate) fn pin(&self, slot: usize, snapshot: Time) {
        debug_assert!(snapshot.0 < HOLDING, "times leave two bits free until the year 2116");
        self.slots[slot].pin.store(snapshot.0, Ordering::Release);
    }

    pub(crate) fn unpin(&self, slot: usize) {
        self.slots[slot].pin.store(IDLE, Ordering::Release);
    }

    /// What keeps the floor from rising above it while this slot is as it is.
    fn bound(&self, slot: usize) -> Option<Time> {
        let pin = self.slots[slot].pin.load(Ordering::Relaxed);
        (pin != IDLE).then_some(Time(pin & !(STARTING | HOLDING)))
    }

    pub(crate) fn floor(&self) -> Time {
        Time(self.floor.load(Ordering::SeqCst))
    }

    pub(crate) fn set_horizon(&self, horizon: Time) {
        self.horizon.store(horizon.0, Ordering::SeqCst);
    }

    /// The right to scan, unless somebody else is at it.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        let taken = self.scanning.swap(true, Ordering::SeqCst);
        (!taken).then(|| Turn { contexts: self })
    }
}

impl Turn<'_> {
    /// Looks at all contexts; moves the floor up if it can.
    pub(crate) fn scan(&self, clock: Time) -> Needs {
        let all = self.contexts;
        let limit = clock.0.min(all.horizon.load(Ordering::SeqCst));
        let limit = all.limit.fetch_max(limit, Ordering::SeqCst).max(limit);
        let mut floor = limit;
        let mut snapshots = Some(Vec::new());
        for slot in &all.slots[..all.used.load(Ordering::SeqCst)] {
            let pin = slot.pin.load(Ordering::SeqCst);
            if pin == IDLE {
                continue;
            }
            floor = floor.min(pin & !(STARTING | HOLDING));
            if pin & STARTING != 0 {
                snapshots = None;
            } else if pin & HOLDING == 0 {
                snapshots.iter_mut().for_each(|times| times.push(Time(pin)));
            }
        }
        snapshots.iter_mut().for_each(|times| times.sort_unstable());
        all.floor.fetch_max(floor, Ordering::SeqCst);
        Needs { limit: Time(limit), snapshots }
    }
}

/// A transaction's hold on the store; dropped when the transaction ends.
///
/// What is read in a context is lent by it: rows stay where they are until the context begins
/// another snapshot, or ends.
pub struct Context<'s> {
    pub(crate) store: &'s Store,
    pub(crate) slot: usize,
    /// The snapshot in use.
    pub(crate) snapshot: Option<Time>,
    /// The snapshot it waits for, if a replica did not reach that far when it asked.
    pub(crate) wanted: Option<Time>,
    /// A context may move to another thread, but not be used by two.
    one_thread: PhantomData<Cell<()>>,
}

impl<'s> Context<'s> {
    /// The slot was acquired.
    pub(crate) fn new(store: &'s Store, slot: usize) -> Context<'s> {
        Context { store, slot, snapshot: None, wanted: None, one_thread: PhantomData }
    }

    /// What this context superseded and nobody has collected yet.
    pub(crate) fn garbage(&mut self) -> &mut Garbage {
        let garbage = self.store.contexts.slots[self.slot].garbage.get();
        // SAFETY: the context owns the slot, and `&mut self` makes this the only reference.
        unsafe { &mut *garbage }
    }

    /// As [`Context::garbage`], for one `change`, with the rows the context has lent in use.
    pub(crate) fn with_garbage(&self, change: impl FnOnce(&mut Garbage)) {
        let garbage = self.store.contexts.slots[self.slot].garbage.get();
        // SAFETY: the context owns the slot and one thread uses the context. No `change` comes back
        // to the context, and other references to the garbage need `&mut self`.
        change(unsafe { &mut *garbage });
    }

    /// Holds on to the present without choosing a snapshot: for whoever writes rows or looks at
    /// newest versions only, as refresh transactions and checkpoints do.
    pub fn hold(&mut self) {
        self.wanted = None;
        self.snapshot = None;
        self.store.contexts.announce(self.slot, HOLDING);
    }

    /// Ends the use of the snapshot; the context can start another.
    pub fn unpin(&mut self) {
        self.wanted = None;
        self.snapshot = None;
        self.store.contexts.unpin(self.slot);
    }

    /// The floor cannot rise above this while the context stays as it is; `None` if it does not
    /// hold on to anything.
    pub(crate) fn bound(&self) -> Option<Time> {
        self.store.contexts.bound(self.slot)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.store.contexts.release(self.slot);
    }
}
