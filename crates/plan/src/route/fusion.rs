//! The engine's [fusion table](FusionTable) as the routers see it: sites are counted from 0.

use super::batch::{Batch, Home, Key, Places, Routed};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
pub use isomer_strategy::batch::{FusionTable, Replacement};

/// Where keys are: at home, unless a fusion table has them elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Fused<'a> {
    /// Homes.
    pub home: Home,
    /// Exceptions.
    pub fusion: &'a FusionTable<u64, u16>,
}

impl Places<u64> for Fused<'_> {
    fn sites(&self) -> u16 {
        self.home.sites()
    }

    fn home(&self, key: &u64) -> u16 {
        self.home.of(*key)
    }

    #[inline]
    fn of(&self, key: &u64) -> u16 {
        self.fusion.get(key).unwrap_or_else(|| self.home.of(*key))
    }
}

/// Applies a routed batch to a fusion table: the transactions in their new order, the keys of each
/// in theirs. A key that is only read is touched, a written key is set. Then the table evicts down
/// to its size. The evicted keys and their migrations are added to `routed`; the result is their
/// former sites. The planner of the engine does the same (`isomer-batch`).
pub fn fuse<K: Key>(
    fusion: &mut FusionTable<K, u16>,
    batch: &Batch<K>,
    home: impl Fn(&K) -> u16,
    routed: &mut Routed<K>,
) -> Vec<(K, u16)> {
    let places: HashMap<u64, usize, FixedState> =
        batch.transactions().iter().enumerate().map(|(at, t)| (t.id, at)).collect();
    for route in &routed.transactions {
        let Some(&at) = places.get(&route.id) else { continue };
        let transaction = &batch.transactions()[at];
        let mut keys: Vec<&K> = transaction.read.iter().chain(&transaction.write).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            match transaction.write.binary_search(key) {
                Ok(_) => fusion.set(key, route.site, home(key)),
                Err(_) => fusion.touch(key),
            }
        }
    }
    let evicted: Vec<(K, u16)> = std::iter::from_fn(|| fusion.evict_over_size()).collect();
    routed.evicted.extend(evicted.iter().map(|(key, _)| key.clone()));
    routed.migrations += evicted.len() as u64;
    evicted
}
