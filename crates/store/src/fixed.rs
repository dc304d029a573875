//! Reading at a time that somebody else chose: the same cut at several sites, more than once.
//!
//! A transaction that arrives statement by statement reads at one time, at whichever sites hold the
//! rows. The time is chosen once, with a [`SnapshotPin`] at every store, so that none of them lets go of
//! what was there then:
//!
//! ```text
//!   keep            at every store: announce, learn the least time that it can still show
//!   the chooser     t = the greatest of these times, and of what its session has seen
//!   keep_from(t)    at every store: pin
//!   snapshot_at(t)  in any context of the store, as often as wanted, until the pin is let go
//! ```
//!
//! Between the first step and the third, the pin's slot says that a snapshot is being chosen, so
//! no scan raises the floor above what it was: the argument is that of [`crate::context`].

use crate::context::Context;
use crate::partition::Partition;
use crate::store::{NotYet, Store};
use isomer_design::Time;
use std::task::Waker;

/// Keeps a store from forgetting what was there at a time. Given back with [`Store::release_pin`]; it is
/// of use at the store alone that gave it.
#[derive(Debug)]
pub struct SnapshotPin {
    slot: usize,
    least: Time,
}

impl SnapshotPin {
    /// The earliest time that can be kept, as of when the pin was made.
    pub fn least(&self) -> Time {
        self.least
    }
}

impl Store {
    /// Begins to keep history; `None` if [`crate::CONTEXTS_MAX`] contexts and pins are in use.
    pub fn keep(&self) -> Option<SnapshotPin> {
        let slot = self.contexts.acquire()?;
        let least = self.contexts.start(slot);
        Some(SnapshotPin { slot, least })
    }

    /// Keeps what is there at `time`, and sees to it that what is committed from now on is later.
    ///
    /// # Panics
    /// If `time` is before what the pin can keep.
    pub fn keep_from(&self, snapshot_pin: &SnapshotPin, time: Time) {
        assert!(
            time >= snapshot_pin.least,
            "a snapshot_pin keeps no past that was there before it"
        );
        self.clock.raise(time);
        self.contexts.pin(snapshot_pin.slot, time);
    }

    /// Ends a pin's hold.
    pub fn release_pin(&self, snapshot_pin: SnapshotPin) {
        // The context, made for the moment, gives the slot back.
        drop(Context::new(self, snapshot_pin.slot));
    }
}

impl Context<'_> {
    /// Holds on to `time` without a [`SnapshotPin`], for [`Context::snapshot_at`]; what is committed from now on is
    /// later. `false` if what was there then may be gone already: whoever needs it keeps the
    /// [horizon](Store::set_horizon) below it.
    ///
    /// As for a pin, `time` is not below the limit that scans have announced, as seen after the context
    /// has said that it begins; so no scan that has missed it raises the floor above `time`.
    pub fn reach(&mut self, time: Time) -> bool {
        if self.store.contexts.start(self.slot) > time {
            self.unpin();
            return false;
        }
        self.store.clock.raise(time);
        self.store.contexts.pin(self.slot, time);
        true
    }

    /// Takes the snapshot at exactly `time`, which a [`SnapshotPin`] of this store keeps, or the context itself
    /// [holds](Context::reach).
    ///
    /// # Errors
    /// [`NotYet`]; the waker is woken when it is worth trying again.
    ///
    /// # Panics
    /// If the store no longer has what was there at `time`.
    pub fn snapshot_at<'p>(
        &mut self,
        partitions: impl Iterator<Item = &'p Partition> + Clone,
        time: Time,
        waker: &Waker,
    ) -> Result<(), NotYet> {
        self.hold();
        let contexts = &self.store.contexts;
        assert!(contexts.floor() <= time, "a snapshot_pin keeps the history that is read");
        contexts.pin(self.slot, time);
        Self::wait_for(time, partitions, waker)?;
        self.snapshot = Some(time);
        Ok(())
    }
}
