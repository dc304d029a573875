//! Reading at a given time: the same cut at several sites, repeatedly.
//!
//! A transaction that arrives statement by statement reads at one time, at all sites that hold its
//! rows. The gateway chooses that time once. A [`SnapshotPin`] at every store keeps the versions
//! that were visible then:
//!
//! ```text
//!   keep            at every store: announce; returns the earliest time it can read
//!   the gateway     t = the latest of these times and of the session's time
//!   keep_from(t)    at every store: pin
//!   snapshot_at(t)  in any context of the store, repeatedly, until the pin is released
//! ```
//!
//! Between the first step and the third, the pin's slot announces that a snapshot is being chosen,
//! so no scan raises the floor above what it was: the argument is that of [`crate::context`].

use crate::context::Context;
use crate::partition::Partition;
use crate::store::{NotYet, Store};
use isomer_design::Time;
use std::task::Waker;

/// Keeps the versions of a store that were visible at a time. Release it with
/// [`Store::release_pin`] of the store that created it.
#[derive(Debug)]
pub struct SnapshotPin {
    slot: usize,
    least: Time,
}

impl SnapshotPin {
    /// The earliest time that this pin can keep, as of its creation.
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

    /// Keeps the versions visible at `time`, and makes every later commit time greater.
    ///
    /// # Panics
    /// If `time` is before [`SnapshotPin::least`].
    pub fn keep_from(&self, snapshot_pin: &SnapshotPin, time: Time) {
        assert!(
            time >= snapshot_pin.least,
            "a snapshot_pin keeps no past that was there before it"
        );
        self.clock.raise(time);
        self.contexts.pin(snapshot_pin.slot, time);
    }

    /// Releases a pin.
    pub fn release_pin(&self, snapshot_pin: SnapshotPin) {
        // Dropping a temporary context releases the slot.
        drop(Context::new(self, snapshot_pin.slot));
    }
}

impl Context<'_> {
    /// Pins `time` without a [`SnapshotPin`], for [`Context::snapshot_at`], and makes every later
    /// commit time greater. Returns `false` if the versions visible at `time` may be freed already.
    /// A caller that needs them keeps the [horizon](Store::set_horizon) below `time`.
    ///
    /// As for a pin, `time` is not below the limit that scans had announced after this context
    /// announced its start. So a scan that missed the context does not raise the floor above
    /// `time`.
    pub fn reach(&mut self, time: Time) -> bool {
        if self.store.contexts.start(self.slot) > time {
            self.unpin();
            return false;
        }
        self.store.clock.raise(time);
        self.store.contexts.pin(self.slot, time);
        true
    }

    /// Takes the snapshot at exactly `time`. A [`SnapshotPin`] of this store must keep that time,
    /// or this context must have [reached](Context::reach) it.
    ///
    /// # Errors
    /// [`NotYet`]; the waker is woken when the caller should retry.
    ///
    /// # Panics
    /// If the store no longer has the versions visible at `time`.
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
