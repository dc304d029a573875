//! Tracks the sessions that still read by an old catalog.
//!
//! A statement reads the store tables that its plan names, and its plan belongs to the catalog at
//! its beginning. A transaction with a fixed snapshot may keep its catalog. Each session publishes
//! the version of its catalog in a slot of its own. A definition that has replaced a catalog can
//! thus tell when the old one has no readers left, without locks or shared counters in sessions.

use arc_swap::ArcSwap;
use isomer_sql::SqlError;
use isomer_sql::catalog::Catalog;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The version in the slot of a session without a catalog.
const IDLE: u64 = u64::MAX;

/// The slots of all sessions.
#[derive(Default)]
pub(crate) struct Readers {
    all: Mutex<Vec<Weak<AtomicU64>>>,
    /// The number of definitions that wait for readers.
    waiting: AtomicUsize,
}

/// The slot of a session.
pub(crate) struct ReaderPlace(Arc<AtomicU64>);

/// The use of a catalog by a session, until this is dropped.
pub(crate) struct Reading(Arc<AtomicU64>);

impl Readers {
    /// The number of definitions that wait for readers.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn enter(&self) -> ReaderPlace {
        let place = Arc::new(AtomicU64::new(IDLE));
        let mut all = self.all.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&place));
        ReaderPlace(place)
    }

    /// Waits until no session uses a catalog before this version, polling after each `pause`.
    pub(crate) fn wait_until_past(
        &self,
        version: u64,
        pause: impl Fn() -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut waited = Ok(());
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while waited.is_ok() && !self.are_past(version) {
            waited = pause();
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    pub(super) fn are_past(&self, version: u64) -> bool {
        let mut all = self.all.lock();
        all.retain(|place| place.strong_count() > 0);
        let places = all.iter().filter_map(Weak::upgrade);
        places.into_iter().all(|place| place.load(Ordering::SeqCst) >= version)
    }
}

impl ReaderPlace {
    /// Begins to use the current catalog.
    pub(crate) fn begin(&self, catalog: &ArcSwap<Catalog>) -> Reading {
        let reading = Reading(self.0.clone());
        reading.renew(catalog);
        reading
    }

    /// Begins to use the catalog that `other` uses.
    pub(crate) fn begin_as(&self, other: &Reading) -> Reading {
        self.0.store(other.0.load(Ordering::SeqCst), Ordering::SeqCst);
        Reading(self.0.clone())
    }
}

impl Reading {
    /// Uses no catalog until `renew`, for a wait that may be for a definition which waits for
    /// readers.
    pub(crate) fn rest(&self) {
        self.0.store(IDLE, Ordering::SeqCst);
    }

    /// Uses the current catalog from here on.
    pub(crate) fn renew(&self, catalog: &ArcSwap<Catalog>) {
        // A publisher reads the slots after it has stored its catalog. So either it sees this
        // version, or this load sees its catalog.
        loop {
            let version = catalog.load().version;
            self.0.store(version, Ordering::SeqCst);
            if catalog.load().version == version {
                return;
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::SeqCst);
    }
}
