//! Numbers that a session has locked to its own end: advisory locks that no transaction gives back.
//!
//! ```text
//!   pg_advisory_lock(7)           transaction 12 locks 7, and keeps it when it ends
//!   begin                         transaction 13 begins: 12 hands 7 over to it
//!   pg_advisory_unlock(7)         13 gives it back
//! ```
//!
//! So the lock table knows whom a session's transaction keeps waiting, and finds circles, and a session never waits for
//! itself. Each lock is counted, as often as it was asked for, in both modes. The modes are not told apart in the lock
//! table: a number that is held in both is held exclusively until the last of them is given back.

use isomer_cluster::{Gateway, Owner};
use isomer_design::{Key, TableId};
use isomer_sql::SqlError;
use isomer_sql::budget::Holding;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of locks of numbers, where no table is.
pub(crate) const NUMBERS: TableId = TableId(u32::MAX);
/// What one takes: in the table of locks, in the list of a transaction, and here.
const NUMBER_BYTES: usize = 640;

/// How often each number is locked, shared and exclusively.
pub(crate) type Counts = BTreeMap<Key, [u32; 2]>;

/// See the [module documentation](self). Dropping it gives all of them back.
pub(crate) struct Numbers {
    gateway: Arc<Gateway>,
    /// The transaction that had them last.
    owner: Owner,
    counts: Counts,
    memory: Holding,
}

impl Numbers {
    pub(crate) fn new(gateway: Arc<Gateway>, memory: Holding) -> Numbers {
        Numbers { gateway, owner: 0, counts: Counts::new(), memory }
    }

    fn places(&self) -> Vec<(TableId, Key)> {
        self.counts.keys().map(|number| (NUMBERS, number.clone())).collect()
    }

    /// A transaction of the session begins: the places that are handed over to it.
    pub(crate) fn hand_over(&mut self, to: Owner) -> Vec<(TableId, Key)> {
        let places = self.places();
        if !places.is_empty() {
            self.gateway.hand_over(self.owner, to, &places);
        }
        self.owner = to;
        places
    }

    /// Room for one more number.
    pub(crate) fn charge(&mut self, number: &Key) -> Result<(), SqlError> {
        if self.counts.contains_key(number) { Ok(()) } else { self.memory.more(NUMBER_BYTES) }
    }

    /// A transaction of the session has locked a number for it.
    pub(crate) fn locked(&mut self, number: &Key, shared: bool, by: Owner) {
        self.owner = by;
        self.counts.entry(number.clone()).or_default()[usize::from(!shared)] += 1;
    }

    /// Counts one lock less: none if it was not held so; true if that was the last one of the number.
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

    /// Counts all locks as given back, and tells of which numbers.
    pub(crate) fn all_unlocked(&mut self) -> Vec<Key> {
        let all = std::mem::take(&mut self.counts);
        self.resize();
        all.into_keys().collect()
    }

    /// The locks as they are, before a statement that may have to run again.
    pub(crate) fn mark(&self) -> Counts {
        self.counts.clone()
    }

    /// Counts them as they were, and tells which numbers were not locked then.
    pub(crate) fn back_to(&mut self, mark: &Counts) -> Vec<Key> {
        let now = std::mem::replace(&mut self.counts, mark.clone());
        self.resize();
        now.into_keys().filter(|number| !mark.contains_key(number)).collect()
    }

    /// Gives a number back that no transaction of the session is there to give back.
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
