//! The fusion table: the sites of the hot records (Hermes, sections 3.1 and 4.1).
//!
//! Each record that is away from home has an entry; all other records are at their
//! [homes](super::Homes). The table is part of the state on which all sites agree: it changes only
//! in the planned order, never by results of transactions.
//!
//! ```text
//!   a, b, c have their home at s1, x at s2    fusion table   b → s2
//!   range read of [a..c]                      s1 has a, c; s2 has b: both are asked
//! ```
//!
//! It is ordered by key, because a range read needs the records of the range that are elsewhere. An
//! entry says where a row would be: a deleted row keeps its entry, and a row to be inserted has an
//! entry before it exists.
//!
//! The table is bounded. If it is too full after a batch, the replacement policy chooses entries,
//! and their records move home at the end of the batch. The paper evicts while it routes each
//! transaction. Evicting at the end of the batch keeps the plans of that batch valid.

use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::ops::RangeBounds;

/// The replacement policy of a full table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Evicts the oldest entries.
    Fifo,
    /// Evicts the least recently used entries.
    Lru,
    /// Second chance: a hand goes around the slots, and skips and clears each entry used since its
    /// last pass.
    Clock,
}

#[derive(Clone, Copy, Debug)]
struct Entry<S> {
    site: S,
    /// For FIFO and LRU the position in the queue, for CLOCK the slot.
    place: u64,
    used: bool,
}

/// The sites of the hot records: maps keys `K` to sites `S`.
#[derive(Clone, Debug)]
pub struct FusionTable<K, S> {
    replacement: Replacement,
    size_max: Option<usize>,
    entries: BTreeMap<K, Entry<S>>,
    /// Keys by [`Entry::place`].
    queue: BTreeMap<u64, K>,
    next_place: u64,
    hand: u64,
    /// The wrapping sum of the hashes of all entries.
    digest: u64,
}

impl<K: Ord + Clone + Hash, S: Copy + Eq + Hash> FusionTable<K, S> {
    /// An empty table with room for `size_max` entries; `None` means unbounded.
    pub fn new(replacement: Replacement, size_max: Option<usize>) -> FusionTable<K, S> {
        FusionTable {
            replacement,
            size_max,
            entries: BTreeMap::new(),
            queue: BTreeMap::new(),
            next_place: 0,
            hand: 0,
            digest: 0,
        }
    }

    /// Returns the site of a key, or `None` if it is at home. Does not count as a use.
    #[inline]
    pub fn get(&self, key: &K) -> Option<S> {
        self.entries.get(key).map(|entry| entry.site)
    }

    /// The entries of a range in key order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, S)> {
        self.entries.range(range).map(|(key, entry)| (key, entry.site))
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, S)> {
        self.entries.iter().map(|(key, entry)| (key, entry.site))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if all keys are at home.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A hash of the state, maintained incrementally. Equal tables have equal digests in all
    /// processes of the same version.
    pub fn digest(&self) -> u64 {
        self.digest ^ hash(&(self.next_place, self.hand))
    }

    /// Records a read of a key.
    pub fn touch(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.used = true;
        if self.replacement == Replacement::Lru {
            self.digest = self.digest.wrapping_sub(hash(&(key, entry.site, entry.place)));
            self.queue.remove(&entry.place);
            entry.place = self.next_place;
            self.queue.insert(self.next_place, key.clone());
            self.next_place += 1;
            self.digest = self.digest.wrapping_add(hash(&(key, entry.site, entry.place)));
        }
    }

    /// Sets the site of a key. At its home the key needs no entry.
    pub fn set(&mut self, key: &K, site: S, home: S) {
        if site == home {
            return self.remove(key);
        }
        if let Some(entry) = self.entries.get_mut(key) {
            self.digest = self.digest.wrapping_sub(hash(&(key, entry.site, entry.place)));
            entry.site = site;
            self.digest = self.digest.wrapping_add(hash(&(key, entry.site, entry.place)));
            return self.touch(key);
        }
        let place = self.next_place;
        self.entries.insert(key.clone(), Entry { site, place, used: true });
        self.queue.insert(place, key.clone());
        self.next_place += 1;
        self.digest = self.digest.wrapping_add(hash(&(key, site, place)));
    }

    /// Removes the entry of a key, which is at home from now on.
    pub fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.queue.remove(&entry.place);
            self.digest = self.digest.wrapping_sub(hash(&(key, entry.site, entry.place)));
        }
    }

    /// If the table is too large, evicts one key by the policy. Returns the key and its site.
    pub fn evict_over_size(&mut self) -> Option<(K, S)> {
        if self.size_max.is_some_and(|most| self.len() > most) { self.evict() } else { None }
    }

    /// Evicts one key by the policy. Returns the key and its site.
    pub fn evict(&mut self) -> Option<(K, S)> {
        let key = match self.replacement {
            Replacement::Fifo | Replacement::Lru => self.queue.first_key_value()?.1.clone(),
            Replacement::Clock => self.second_chance()?,
        };
        let site = self.get(&key)?;
        self.remove(&key);
        Some((key, site))
    }

    fn second_chance(&mut self) -> Option<K> {
        loop {
            let next =
                self.queue.range(self.hand..).next().or_else(|| self.queue.first_key_value());
            let (&place, key) = next?;
            self.hand = place + 1;
            match self.entries.get_mut(key) {
                Some(entry) if entry.used => entry.used = false,
                _ => return Some(key.clone()),
            }
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(replacement: Replacement, most: usize) -> FusionTable<u64, u16> {
        FusionTable::new(replacement, Some(most))
    }

    #[test]
    fn the_policy_chooses_the_evicted_entry() {
        for (rule, leaves) in
            [(Replacement::Fifo, 1), (Replacement::Lru, 2), (Replacement::Clock, 1)]
        {
            let mut table = table(rule, 2);
            (1..=3).for_each(|key| table.set(&key, 7, 0));
            table.touch(&1);
            assert_eq!(table.evict_over_size(), Some((leaves, 7)), "{rule:?}");
            assert_eq!(table.evict_over_size(), None);
        }
    }

    #[test]
    fn a_record_that_is_home_again_has_no_entry() {
        let mut table = table(Replacement::Fifo, 9);
        table.set(&1, 7, 0);
        let before = table.digest();
        table.set(&2, 7, 0);
        assert_ne!(table.digest(), before);
        table.set(&2, 0, 0);
        assert_eq!((table.get(&2), table.len()), (None, 1));
        assert_eq!(table.range(0..9).collect::<Vec<_>>(), [(&1, 7)]);
    }
}
