//! The fusion table: where the hot records are (Hermes, sections 3.1 and 4.1).
//!
//! Records that are not at home have an entry; everything else is found by the [homes](super::Homes). The
//! table is part of the state that all sites agree on: it changes in the planned order only, and never by
//! what a transaction did.
//!
//! ```text
//!   a, b, c are at home at s1, x at s2        fusion table   b → s2
//!   a range read of [a..c]                    s1 has a, c; s2 has b: both are asked
//! ```
//!
//! It is ordered by key, as range reads ask which records of a range are elsewhere. An entry says where a row
//! is if there is one: a deleted row keeps its entry, and one that is inserted has it before it exists.
//!
//! It is bounded. When a batch leaves it too full, entries are chosen by the replacement rule, and their
//! records go home at the end of the batch. (The paper lets each transaction evict while it is being
//! routed; at the end of the batch no plan that is already made depends on them.)

use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::ops::RangeBounds;

/// Which entries leave a full table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Those that came first.
    Fifo,
    /// Those used longest ago.
    Lru,
    /// Second chance: a hand goes round, and spares each entry that was used since it last came by.
    Clock,
}

#[derive(Clone, Copy, Debug)]
struct Entry<S> {
    site: S,
    /// FIFO and LRU: the place in the queue. CLOCK: the slot.
    place: u64,
    used: bool,
}

/// Where the hot records are: keys `K` at sites `S`.
#[derive(Clone, Debug)]
pub struct FusionTable<K, S> {
    replacement: Replacement,
    size_max: Option<usize>,
    entries: BTreeMap<K, Entry<S>>,
    /// Keys by place: the queue, or the circle of slots.
    queue: BTreeMap<u64, K>,
    next_place: u64,
    hand: u64,
    /// The sum of the entries' hashes.
    digest: u64,
}

impl<K: Ord + Clone + Hash, S: Copy + Eq + Hash> FusionTable<K, S> {
    /// An empty table of at most `size_max` entries; `None` is unbounded.
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

    /// The site of a key, if it is not at home. Does not count as use.
    #[inline]
    pub fn get(&self, key: &K) -> Option<S> {
        self.entries.get(key).map(|entry| entry.site)
    }

    /// The entries of a range, by key.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, S)> {
        self.entries.range(range).map(|(key, entry)| (key, entry.site))
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, S)> {
        self.entries.iter().map(|(key, entry)| (key, entry.site))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if every key is at home.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A hash of all that decides what happens next. Equal tables have equal hashes in all processes of one
    /// version; it is kept up entry by entry.
    pub fn digest(&self) -> u64 {
        self.digest ^ hash(&(self.next_place, self.hand))
    }

    /// A key was read.
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

    /// A key is at `site` from now on; at home it needs no entry.
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

    /// A key is at home from now on.
    pub fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.queue.remove(&entry.place);
            self.digest = self.digest.wrapping_sub(hash(&(key, entry.site, entry.place)));
        }
    }

    /// Removes a key that is too much for the size, as the rule chooses; and where it was.
    pub fn evict_over_size(&mut self) -> Option<(K, S)> {
        if self.size_max.is_some_and(|most| self.len() > most) { self.evict() } else { None }
    }

    /// Removes the key that the rule chooses; and where it was.
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
    fn the_rule_says_who_leaves_a_full_table() {
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
    fn what_is_home_again_leaves_no_trace_but_the_places_given() {
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
