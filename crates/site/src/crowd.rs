//! Locks that many wait for: what whoever decides about splits has to know, and only the site can see.
//!
//! Whoever comes back from such a lock comes late, so what is learned from transactions that have run tells last of
//! those that wait longest. A queue can be seen at once.
//!
//! ```text
//!   a transaction queues for a lock ─▶ 8 or more wait there ─▶ noted
//!   asked: which? ─▶ those of the noted with 8 or more even now; the others are forgotten
//! ```
//!
//! Who need not wait does nothing for this.

use crate::partition::SitePartition;
use isomer_design::{Key, TableId};
use parking_lot::Mutex;
use std::sync::Arc;

/// So many are a crowd.
const CROWD_MIN: usize = 8;
/// More are not noted.
const NOTED_MAX: usize = 16;

/// A partition whose lock many wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crowd {
    /// Its table.
    pub table: TableId,
    /// Where it begins.
    pub start: Key,
    /// How many wait.
    pub waiting: usize,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Crowds {
    noted: Mutex<Vec<Arc<SitePartition>>>,
}

impl Crowds {
    /// Somebody queues for the lock of a partition.
    pub(crate) fn note(&self, partition: &Arc<SitePartition>) {
        if partition.lock.queued() < CROWD_MIN {
            return;
        }
        let mut noted = self.noted.lock();
        if noted.len() < NOTED_MAX && !noted.iter().any(|other| Arc::ptr_eq(other, partition)) {
            noted.push(partition.clone());
        }
    }

    /// Where there are crowds now, in no order.
    pub(crate) fn now(&self) -> Vec<Crowd> {
        let mut noted = self.noted.lock();
        noted.retain(|partition| !partition.is_gone() && partition.lock.queued() >= CROWD_MIN);
        let crowd = |partition: &Arc<SitePartition>| {
            let (start, waiting) = (partition.range.start.clone(), partition.lock.queued());
            Crowd { table: partition.table, start, waiting }
        };
        noted.iter().map(crowd).collect()
    }
}
