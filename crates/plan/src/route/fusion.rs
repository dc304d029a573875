//! The fusion table: where the hot keys are (Hermes, sections 3.1 and 4.1).
//!
//! Keys that are not at home have an entry; everything else is found by the static ranges. The table
//! is bounded: when a batch leaves it too full, keys are chosen by the replacement rule, and the last
//! transaction of the batch takes them home. (The paper lets each transaction evict while it is
//! being routed; at the end of the batch no plan that is already made depends on them.)
//!
//! Replicas must agree, so the reference state changes only in [`FusionTable::apply`], which
//! follows the routed order: reads touch, writes set.

use super::batch::{Batch, Home, Routed};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Which keys leave a full table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Those that came first.
    Fifo,
    /// Those used longest ago.
    Lru,
    /// Second chance: a hand goes round, and spares each key that was used since it last came by.
    Clock,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    site: u16,
    /// FIFO and LRU: the place in the queue. CLOCK: the slot.
    place: u64,
    used: bool,
}

/// Where the hot keys are.
#[derive(Clone, Debug)]
pub struct FusionTable {
    replacement: Replacement,
    size_max: Option<usize>,
    entries: HashMap<u64, Entry, FixedState>,
    /// Keys by place: the queue, or the circle of slots.
    queue: BTreeMap<u64, u64>,
    next_place: u64,
    hand: u64,
}

impl FusionTable {
    /// An empty table of at most `size_max` entries; `None` is unbounded.
    pub fn new(replacement: Replacement, size_max: Option<usize>) -> FusionTable {
        FusionTable {
            replacement,
            size_max,
            entries: HashMap::default(),
            queue: BTreeMap::new(),
            next_place: 0,
            hand: 0,
        }
    }

    /// The site of a key, if it is not at home. Does not count as use.
    pub fn get(&self, key: u64) -> Option<u16> {
        self.entries.get(&key).map(|entry| entry.site)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if every key is at home.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, by key.
    pub fn entries(&self) -> Vec<(u64, u16)> {
        let mut entries: Vec<(u64, u16)> =
            self.entries.iter().map(|(&key, entry)| (key, entry.site)).collect();
        entries.sort_unstable();
        entries
    }

    /// Notes what a routed batch does, in its order, then evicts down to the size; the evicted keys
    /// and their migrations are added to `routed`.
    pub fn apply(&mut self, batch: &Batch, home: Home, routed: &mut Routed) {
        let places: HashMap<u64, usize, FixedState> =
            batch.transactions().iter().enumerate().map(|(at, t)| (t.id, at)).collect();
        for route in &routed.transactions {
            let Some(&at) = places.get(&route.id) else { continue };
            let transaction = &batch.transactions()[at];
            transaction.read.iter().for_each(|&key| self.touch(key));
            transaction.write.iter().for_each(|&key| self.set(key, route.site, home));
        }
        while self.size_max.is_some_and(|most| self.len() > most) {
            let Some(key) = self.evict() else { break };
            routed.evicted.push(key);
            routed.migrations += 1;
        }
    }

    /// A key was read.
    pub fn touch(&mut self, key: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.used = true;
        if self.replacement == Replacement::Lru {
            self.queue.remove(&entry.place);
            entry.place = self.next_place;
            self.queue.insert(self.next_place, key);
            self.next_place += 1;
        }
    }

    /// A key was written at `site`; at home it needs no entry.
    pub fn set(&mut self, key: u64, site: u16, home: Home) {
        if site == home.of(key) {
            if let Some(entry) = self.entries.remove(&key) {
                self.queue.remove(&entry.place);
            }
            return;
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.site = site;
            self.touch(key);
            return;
        }
        self.entries.insert(key, Entry { site, place: self.next_place, used: true });
        self.queue.insert(self.next_place, key);
        self.next_place += 1;
    }

    /// Removes the key that the rule chooses.
    pub fn evict(&mut self) -> Option<u64> {
        let key = match self.replacement {
            Replacement::Fifo | Replacement::Lru => self.queue.pop_first()?.1,
            Replacement::Clock => self.second_chance()?,
        };
        self.entries.remove(&key);
        Some(key)
    }

    fn second_chance(&mut self) -> Option<u64> {
        loop {
            let next =
                self.queue.range(self.hand..).next().or_else(|| self.queue.first_key_value());
            let (&place, &key) = next?;
            self.hand = place + 1;
            match self.entries.get_mut(&key) {
                Some(entry) if entry.used => entry.used = false,
                _ => {
                    self.queue.remove(&place);
                    return Some(key);
                }
            }
        }
    }
}
