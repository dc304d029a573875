//! Locks that many wait for: what whoever decides about splits has to know, and only the site can see.
//!
//! Whoever comes back from such a lock comes late, so what is learned from transactions that have run tells last of
//! those that wait longest. A queue can be seen at once, and so can the keys that those in it want.
//!
//! ```text
//!   a transaction queues for a lock ─▶ 8 or more wait there ─▶ noted, with the keys that it writes there
//!   asked: which? ─▶ those of the noted with 8 or more even now; the others are forgotten
//! ```
//!
//! Who need not wait does nothing for this.

use crate::partition::SitePartition;
use isomer_design::{Access, Footprint, Key, TableId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// So many are a crowd.
const CROWD_MIN: usize = 8;
/// More are not noted.
const NOTED_MAX: usize = 16;
/// The keys that are remembered of each.
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
    /// A transaction queues for the lock of a partition.
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

    /// Where there are crowds now, in no order.
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
    /// Remembers what a transaction writes there; what was wanted longest ago is forgotten for it.
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
