//! Which rows move to the own sites, as one gateway decides it.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_design::{Key, TableId, Time};
use isomer_site::CheckedWrites;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of rows whose last writer is remembered.
const REMEMBERED_MAX: usize = 1 << 16;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Mover {
    /// The newest versions that this gateway has written. Emptied when it is full.
    written: Mutex<HashMap<(TableId, Key), Time, FixedState>>,
    /// The most fused rows of a site; 0: rows do not move, and go home.
    limit: AtomicUsize,
    /// The number of rows that may still move to the own sites.
    room: AtomicUsize,
    /// True if rows have moved, or the limit has changed, since the last look at the own sites.
    is_changed: AtomicBool,
}

impl Mover {
    /// The most fused rows of a site.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the most fused rows of a site.
    pub(crate) fn set_limit(&self, rows: usize) {
        self.limit.store(rows, Ordering::Relaxed);
        self.room.fetch_min(rows, Ordering::Relaxed);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// True if rows have moved, or the limit has changed, since the last call.
    pub(crate) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::Relaxed)
    }

    /// Sets the number of rows that may still move to the own sites.
    pub(super) fn set_room(&self, rows: usize) {
        self.room.store(rows, Ordering::Relaxed);
    }

    /// Takes room for one more row. Returns false if there is none.
    pub(crate) fn take_room(&self) -> bool {
        let less = |rows: usize| rows.checked_sub(1);
        let is_taken = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.is_changed.fetch_or(is_taken, Ordering::Relaxed);
        is_taken
    }

    /// True if this gateway has written this version.
    pub(crate) fn has_written(&self, row: &(TableId, Key), version: Time) -> bool {
        self.written.lock().get(row) == Some(&version)
    }

    /// Notes the rows of a commit, so that those that this gateway writes again can move.
    pub(crate) fn note(&self, writes: &CheckedWrites, time: Time) {
        if self.limit() == 0 {
            return;
        }
        let mut written = self.written.lock();
        if written.len() >= REMEMBERED_MAX {
            written.clear();
        }
        for (&table, rows) in writes {
            written.extend(rows.keys().map(|key| ((table, key.clone()), time)));
        }
    }
}
