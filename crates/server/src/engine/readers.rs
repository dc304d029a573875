//! Who may still read what a former catalog says.
//!
//! A statement reads the tables of the store that its plan names, and its plan is of the catalog at its beginning; a
//! transaction that keeps its snapshot may go on with what was there then. Each session says, at a place of its own,
//! which catalog it works with. So whoever has replaced one can tell when nobody reads by it any more, and no session
//! waits or is counted for it.

use super::Engine;
use isomer_sql::SqlError;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Works with no catalog.
const IDLE: u64 = u64::MAX;

/// The places of all sessions.
#[derive(Default)]
pub(crate) struct Readers {
    all: Mutex<Vec<Weak<AtomicU64>>>,
    /// Who waits for them.
    waiting: AtomicUsize,
}

/// The place of a session.
pub(crate) struct ReaderPlace(Arc<AtomicU64>);

/// A session works with a catalog, until this is dropped.
pub(crate) struct Reading(Arc<AtomicU64>);

impl Engine {
    /// How many definitions wait for transactions that only read, which no lock shows.
    pub fn waiting_for_readers(&self) -> usize {
        self.readers.waiting.load(Ordering::SeqCst)
    }
}

impl Readers {
    pub(crate) fn enter(&self) -> ReaderPlace {
        let place = Arc::new(AtomicU64::new(IDLE));
        let mut all = self.all.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&place));
        ReaderPlace(place)
    }

    /// Waits until nobody works with a catalog before this version, looking each time that `pause` is over.
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

    fn are_past(&self, version: u64) -> bool {
        let mut all = self.all.lock();
        all.retain(|place| place.strong_count() > 0);
        let places = all.iter().filter_map(Weak::upgrade);
        places.into_iter().all(|place| place.load(Ordering::SeqCst) >= version)
    }
}

impl ReaderPlace {
    /// The session works with the catalog as it is.
    pub(crate) fn begin(&self, engine: &Engine) -> Reading {
        let reading = Reading(self.0.clone());
        reading.renew(engine);
        reading
    }
}

impl Reading {
    /// It works with none, while it waits for somebody who may wait for those who read, and until it is renewed.
    pub(crate) fn rest(&self) {
        self.0.store(IDLE, Ordering::SeqCst);
    }

    /// From here on it works with the catalog as it is now.
    pub(crate) fn renew(&self, engine: &Engine) {
        // Whoever publishes a catalog looks at the places afterwards; so either it sees this one, or this sees it.
        loop {
            let version = engine.catalog.load().version;
            self.0.store(version, Ordering::SeqCst);
            if engine.catalog.load().version == version {
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
