//! Contexts: a running transaction's hold on old versions.
//!
//! Every operation on rows needs a context. A context announces its snapshot in one word that the
//! collector reads, keeps the versions it superseded until no snapshot needs them, and names the
//! heap pool to allocate from. A transaction shares none of this with other contexts: no counter,
//! no lock.
//!
//! **The floor** is a time below which no present or future snapshot lies. Versions that left the
//! index at or before the floor can be freed. A context that has collected enough garbage raises
//! the floor after a scan of all contexts:
//!
//! ```text
//!   scan                                         start of a snapshot
//!   1 limit = clock (or the horizon, if lower)   1 pin = starting | floor
//!   2 announce limit                             2 read announced limit
//!   3 floor = min(limit, every pin)              3 t = a time from the limit up to the clock
//!                                                4 pin = t
//!                                                5 read rows
//! ```
//!
//! If the scan's step 3 missed the pin of a starting snapshot, that snapshot's step 2 came after
//! the scan's step 2. So its `t` is not below the limit, and not below the floor. If the scan saw
//! the pin, the floor does not rise. Either way no snapshot lies below the floor.
//!
//! **Why a pin protects rows.** After a row has left the index (superseded, or its key removed),
//! the clock assigns it a time, and the row is freed when the floor has reached that time
//! ([`crate::garbage`]). A pinned context may have met the row only if it looked before that. Then
//! the context's `t`, which the clock had reached before the look, is smaller, and keeps the floor
//! below that time. This holds for every row of the index, also of other partitions: partitions
//! share leaves, and a search compares keys of other partitions.
//!
//! **A hold** stops the floor without a snapshot. It is for operations that access newest versions
//! only.
//!
//! **The horizon** keeps some history for snapshots that read replicas, because replicas are
//! complete only up to a recent time. The site moves it.

use crate::garbage::Garbage;
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;
use isomer_design::Time;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;

/// The maximum number of transactions that are open at one site at a time.
pub const CONTEXTS_MAX: usize = if cfg!(feature = "shuttle") { 8 } else { 1024 };

const IDLE: u64 = u64::MAX;
/// A snapshot is being chosen; the rest of the word is the floor when it began.
const STARTING: u64 = 1 << 63;
/// Rows are accessed without a snapshot; the rest of the word is the floor at the start.
const HOLDING: u64 = 1 << 62;

/// No garbage is left.
const CLEAN: u8 = 0;
/// Garbage is left. A slot in constant use frees it soon, while it is in its processor's cache.
const LITTERED: u8 = 1;
/// Garbage is left, and no context has used the slot since the last call of
/// [`Contexts::abandoned`].
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
    /// The state that the last owner left: [`CLEAN`], [`LITTERED`] or [`ABANDONED`].
    litter: AtomicU8,
    pin: AtomicU64,
    garbage: UnsafeCell<Garbage>,
}

// SAFETY: `garbage` is touched only by the one context that owns the slot.
unsafe impl Sync for Slot {}

/// The snapshots of the other contexts, as one scan saw them.
pub(crate) struct Needs {
    /// Snapshots that the scan did not see are at or after this time.
    pub(crate) limit: Time,
    /// The snapshots in use, in order; `None` if one was just being chosen.
    pub(crate) snapshots: Option<Vec<Time>>,
}

impl Needs {
    /// True if a snapshot may need a version that was visible from `came` until `gone`.
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
    /// The slot that this thread used last.
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

    /// Takes a free slot, preferably the one that this thread used last.
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

    /// Slots that were released with garbage in them and not used since the last call of this.
    pub(crate) fn abandoned(&self) -> impl Iterator<Item = usize> {
        let used = self.used.load(Ordering::SeqCst);
        let slots = self.slots[..used].iter().enumerate();
        let abandoned = slots.filter(|(_, slot)| match slot.litter.load(Ordering::Relaxed) {
            LITTERED => {
                // If the slot is being released right now, its garbage is visited a little early.
                slot.litter.store(ABANDONED, Ordering::Relaxed);
                false
            }
            litter => litter == ABANDONED,
        });
        abandoned.map(|(at, _)| at)
    }

    /// Has the next call of [`Contexts::abandoned`] return this slot.
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

    /// Announces that a snapshot is being chosen. Returns the earliest time that it may have.
    pub(crate) fn start(&self, slot: usize) -> Time {
        self.announce(slot, STARTING)
    }

    fn announce(&self, slot: usize, what: u64) -> Time {
        let floor = self.floor.load(Ordering::SeqCst);
        self.slots[slot].pin.store(what | floor, Ordering::SeqCst);
        Time(self.limit.load(Ordering::SeqCst))
    }

    /// Announces the chosen snapshot. A scan that still sees `STARTING` is only more careful.
    pub(crate) fn pin(&self, slot: usize, snapshot: Time) {
        debug_assert!(snapshot.0 < HOLDING, "times leave two bits free until the year 2116");
        self.slots[slot].pin.store(snapshot.0, Ordering::Release);
    }

    pub(crate) fn unpin(&self, slot: usize) {
        self.slots[slot].pin.store(IDLE, Ordering::Release);
    }

    /// The time above which the floor cannot rise while the pin of this slot stays the same.
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

    /// The right to scan; `None` if another context is scanning.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        let taken = self.scanning.swap(true, Ordering::SeqCst);
        (!taken).then(|| Turn { contexts: self })
    }
}

impl Turn<'_> {
    /// Reads the pins of all contexts and raises the floor if it can.
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
/// Rows are borrowed from a context: they stay in memory until the context begins another snapshot,
/// or ends.
pub struct Context<'s> {
    pub(crate) store: &'s Store,
    pub(crate) slot: usize,
    /// The snapshot in use.
    pub(crate) snapshot: Option<Time>,
    /// The snapshot it waits for, if a replica had not reached that time at the last attempt.
    pub(crate) wanted: Option<Time>,
    /// A context may move to another thread, but not be used by two.
    one_thread: PhantomData<Cell<()>>,
}

impl<'s> Context<'s> {
    /// The caller has acquired the slot.
    pub(crate) fn new(store: &'s Store, slot: usize) -> Context<'s> {
        Context { store, slot, snapshot: None, wanted: None, one_thread: PhantomData }
    }

    /// The versions that this context superseded and that are not collected yet.
    pub(crate) fn garbage(&mut self) -> &mut Garbage {
        let garbage = self.store.contexts.slots[self.slot].garbage.get();
        // SAFETY: the context owns the slot, and `&mut self` makes this the only reference.
        unsafe { &mut *garbage }
    }

    /// Like [`Context::garbage`], for one `change`, while rows are borrowed from the context.
    pub(crate) fn with_garbage(&self, change: impl FnOnce(&mut Garbage)) {
        let garbage = self.store.contexts.slots[self.slot].garbage.get();
        // SAFETY: the context owns the slot and one thread uses the context. No `change` accesses
        // the context, and other references to the garbage need `&mut self`.
        change(unsafe { &mut *garbage });
    }

    /// Prevents the floor from rising, without a snapshot. For operations that write rows or read
    /// newest versions only, such as refresh transactions and checkpoints.
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

    /// The floor cannot rise above this time while the context's pin stays the same; `None` if the
    /// context has neither a snapshot nor a hold.
    pub(crate) fn bound(&self) -> Option<Time> {
        self.store.contexts.bound(self.slot)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.store.contexts.release(self.slot);
    }
}
