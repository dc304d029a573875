//! Hot locks: partitions whose lock many transactions wait for.
//!
//! Completed transactions are a biased sample: those queued behind the hottest locks finish, and
//! are counted, last. The queue itself is visible at once, and so are the keys that its
//! transactions want to write. The autopilot splits a hot partition between these keys.
//!
//! ```text
//!   a transaction queues for a lock ─▶ 8 or more wait there: tracked, with the keys it writes there
//!   Site::crowds() ─▶ the tracked locks that have 8 or more waiters even now; the others are dropped
//! ```
//!
//! A transaction that gets its locks at once does nothing for this.

use crate::partition::SitePartition;
use isomer_design::{Access, Footprint, Key, TableId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A lock with this many waiters is hot.
const CROWD_MIN: usize = 8;
/// Hot locks that are tracked at a time.
const NOTED_MAX: usize = 16;
/// Keys that are remembered of each, the latest.
const WANTED_MAX: usize = 64;

/// A partition whose lock many wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crowd {
    /// Its table.
    pub table: TableId,
    /// Where it begins.
    pub start: Key,
    /// How many wait.
    pub waiting: usize,
    /// Keys that the last of them want to write there, the oldest first.
    pub wanted: Vec<Key>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Crowds {
    noted: Mutex<Vec<Noted>>,
}

struct Noted {
    partition: Arc<SitePartition>,
    wanted: VecDeque<Key>,
}

impl Crowds {
    /// A transaction queues for the lock of a partition: tracks the lock if it is hot.
    pub(crate) fn note(&self, partition: &Arc<SitePartition>, footprint: &Footprint) {
        if partition.lock.queued() < CROWD_MIN {
            return;
        }
        let mut noted = self.noted.lock();
        let at = noted.iter().position(|other| Arc::ptr_eq(&other.partition, partition));
        let at = match at {
            Some(at) => at,
            None if noted.len() < NOTED_MAX => {
                let (partition, wanted) = (partition.clone(), VecDeque::new());
                noted.push(Noted { partition, wanted });
                noted.len() - 1
            }
            None => return,
        };
        noted[at].want(footprint);
    }

    /// The locks that are hot now, in no order.
    pub(crate) fn now(&self) -> Vec<Crowd> {
        let mut noted = self.noted.lock();
        let is_crowd = |partition: &SitePartition| {
            !partition.is_gone() && partition.lock.queued() >= CROWD_MIN
        };
        noted.retain(|noted| is_crowd(&noted.partition));
        noted.iter().map(Noted::crowd).collect()
    }
}

impl Noted {
    /// Remembers the keys that a transaction writes there, instead of the oldest ones.
    fn want(&mut self, footprint: &Footprint) {
        let (table, range) = (self.partition.table, &self.partition.range);
        let written =
            footprint.items().iter().filter(|i| i.access == Access::Write && i.table == table);
        let keys = written.map(|item| item.span.start()).filter(|key| range.contains(key));
        for key in keys {
            if self.wanted.len() == WANTED_MAX {
                self.wanted.pop_front();
            }
            self.wanted.push_back(key.clone());
        }
    }

    fn crowd(&self) -> Crowd {
        let Noted { partition, wanted } = self;
        let (table, start) = (partition.table, partition.range.start.clone());
        let wanted = wanted.iter().cloned().collect();
        Crowd { table, start, waiting: partition.lock.queued(), wanted }
    }
}
