//! Hot locks: partition locks with long queues, and the keys that the queues want.
//!
//! A strategy that splits hot partitions learns from completed transactions, and these are a biased
//! sample: a transaction queued behind the hottest lock completes, and is counted, last. The queue
//! itself is visible at once, but only at its site.
//!
//! ```text
//!   a transaction queues ─▶ 8 or more wait? ─▶ the lock is tracked, with the keys wanted there
//!   Site::hot_locks      ─▶ the tracked locks with 8 or more waiting now; the others are dropped
//! ```
//!
//! A transaction that gets its lock at once does nothing for this.

use crate::partition::SitePartition;
use isomer_design::{Access, Footprint, HotLock, Key};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A lock is hot while at least this many transactions wait for it.
const QUEUED_MIN: usize = 8;
/// The most locks that are tracked.
const TRACKED_MAX: usize = 16;
/// The number of latest keys that are kept of each.
const HOT_KEYS_MAX: usize = 64;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct HotLocks {
    tracked: Mutex<Vec<Tracked>>,
}

struct Tracked {
    partition: Arc<SitePartition>,
    keys: VecDeque<Key>,
}

impl HotLocks {
    /// A transaction queues for the lock of a partition.
    pub(crate) fn track(&self, partition: &Arc<SitePartition>, footprint: &Footprint) {
        if partition.lock.queued() < QUEUED_MIN {
            return;
        }
        let mut tracked = self.tracked.lock();
        let at = tracked.iter().position(|other| Arc::ptr_eq(&other.partition, partition));
        let at = match at {
            Some(at) => at,
            None if tracked.len() < TRACKED_MAX => {
                tracked.push(Tracked { partition: partition.clone(), keys: VecDeque::new() });
                tracked.len() - 1
            }
            None => return,
        };
        tracked[at].add_keys(footprint);
    }

    /// The locks that are hot now, in no order.
    pub(crate) fn now(&self) -> Vec<HotLock> {
        let mut tracked = self.tracked.lock();
        let is_hot = |partition: &SitePartition| {
            !partition.is_gone() && partition.lock.queued() >= QUEUED_MIN
        };
        tracked.retain(|lock| is_hot(&lock.partition));
        tracked.iter().map(Tracked::hot_lock).collect()
    }
}

impl Tracked {
    /// Adds the keys that a transaction writes in the partition; drops the oldest beyond the limit.
    fn add_keys(&mut self, footprint: &Footprint) {
        let (table, range) = (self.partition.table, &self.partition.range);
        let written =
            footprint.items().iter().filter(|i| i.access == Access::Write && i.table == table);
        let keys = written.map(|item| item.span.start()).filter(|key| range.contains(key));
        for key in keys {
            if self.keys.len() == HOT_KEYS_MAX {
                self.keys.pop_front();
            }
            self.keys.push_back(key.clone());
        }
    }

    fn hot_lock(&self) -> HotLock {
        let Tracked { partition, keys } = self;
        let (table, start) = (partition.table, partition.range.start.clone());
        let keys = keys.iter().cloned().collect();
        HotLock { table, start, waiting: partition.lock.queued(), keys }
    }
}
