//! Advisory locks at session level, which outlive the transaction that took them.
//!
//! ```text
//!   pg_advisory_lock(7)           transaction 12 locks 7, and keeps the lock when it ends
//!   begin                         transaction 13 begins: 12 hands the lock over to it
//!   pg_advisory_unlock(7)         13 releases it
//! ```
//!
//! The locks always belong to the session's current transaction. So the lock table knows which
//! transaction others wait for, detects deadlocks, and a session never waits for itself. Each lock
//! counts its acquisitions in both modes. The lock table has one mode per lock. A lock that is held
//! in both modes is held exclusively until the last of them is released.

use isomer_cluster::{Gateway, Owner};
use isomer_design::{Key, TableId};
use isomer_sql::SqlError;
use isomer_sql::budget::Holding;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The table id of advisory locks, which no table has.
pub(crate) const NUMBERS: TableId = TableId(u32::MAX);
/// The memory of a lock: in the lock table, in the list of a transaction, and here.
const NUMBER_BYTES: usize = 640;

/// The acquisitions of each lock, shared and exclusive.
pub(crate) type Counts = BTreeMap<Key, [u32; 2]>;

/// See the [module documentation](self). Dropping it releases all locks.
pub(crate) struct Numbers {
    gateway: Arc<Gateway>,
    /// The transaction that held them last.
    owner: Owner,
    counts: Counts,
    memory: Holding,
}

impl Numbers {
    pub(crate) fn new(gateway: Arc<Gateway>, memory: Holding) -> Numbers {
        Numbers { gateway, owner: 0, counts: Counts::new(), memory }
    }

    /// True if the session holds no lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    fn places(&self) -> Vec<(TableId, Key)> {
        self.counts.keys().map(|number| (NUMBERS, number.clone())).collect()
    }

    /// Hands all locks over to a new transaction of the session.
    pub(crate) fn hand_over(&mut self, to: Owner) -> Vec<(TableId, Key)> {
        let places = self.places();
        if !places.is_empty() {
            self.gateway.hand_over(self.owner, to, &places);
        }
        self.owner = to;
        places
    }

    /// Reserves memory for one more lock.
    pub(crate) fn charge(&mut self, number: &Key) -> Result<(), SqlError> {
        if self.counts.contains_key(number) { Ok(()) } else { self.memory.more(NUMBER_BYTES) }
    }

    /// Counts a lock that a transaction of the session has acquired.
    pub(crate) fn locked(&mut self, number: &Key, shared: bool, by: Owner) {
        self.owner = by;
        self.counts.entry(number.clone()).or_default()[usize::from(!shared)] += 1;
    }

    /// Counts a release: `None` if it was not held in this mode; true if it was the last
    /// acquisition of the lock.
    pub(crate) fn unlocked(&mut self, number: &Key, shared: bool) -> Option<bool> {
        let counts = self.counts.get_mut(number)?;
        let count = &mut counts[usize::from(!shared)];
        *count = count.checked_sub(1)?;
        let is_last = *counts == [0, 0];
        if is_last {
            self.counts.remove(number);
            self.resize();
        }
        Some(is_last)
    }

    /// Counts all locks as released, and returns them.
    pub(crate) fn all_unlocked(&mut self) -> Vec<Key> {
        let all = std::mem::take(&mut self.counts);
        self.resize();
        all.into_keys().collect()
    }

    /// The counts before a statement that may be repeated.
    pub(crate) fn mark(&self) -> Counts {
        self.counts.clone()
    }

    /// Restores the counts, and returns the locks that were not held then.
    pub(crate) fn back_to(&mut self, mark: &Counts) -> Vec<Key> {
        let now = std::mem::replace(&mut self.counts, mark.clone());
        self.resize();
        now.into_keys().filter(|number| !mark.contains_key(number)).collect()
    }

    /// Releases locks while the session has no transaction.
    pub(crate) fn give_back(&self, numbers: Vec<Key>) {
        let places: Vec<_> = numbers.into_iter().map(|number| (NUMBERS, number)).collect();
        self.gateway.give_back(self.owner, &places);
    }

    fn resize(&mut self) {
        let less = self.memory.resize(self.counts.len() * NUMBER_BYTES);
        debug_assert!(less.is_ok(), "less is always there");
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.gateway.give_back(self.owner, &self.places());
    }
}
