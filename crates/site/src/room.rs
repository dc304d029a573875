//! Room: how much memory the rows of a site may take, and what happens when they do.
//!
//! Rows live in memory, so a site without a limit grows until the system ends the process, and all sites with it.
//! With one, a site that is full refuses what would make it grow, and everything else goes on:
//!
//! ```text
//!   0 %                                         95 %          100 %
//!   ├────────────────────────────────────────────┼──────────────┤
//!    everything                                   a strategy     no room: transactions that write rows, and new
//!                                                 that plans     replicas, are refused by name. Reads, deletions,
//!                                                 lets replicas  changes that free memory, and what replicas
//!                                                 go             have to apply go on
//! ```
//!
//! **Where it is looked.** Before anything is promised: a transaction before its frame is in the log, a participant
//! before it is prepared, a coordinator before the others are asked to prepare, a new replica before its first row.
//! What has been promised is carried out, whatever it takes.
//!
//! **What counts.** The bytes of rows and index that the store has allocated, old versions among them, and those of
//! the rows that are to be added. Deleting makes room once no snapshot needs the rows any more. A transaction that
//! only deletes adds its tombstones for that long, and is let through, or nobody could make room.
//!
//! **Making room.** A context collects its garbage when it commits, or is idle. Where every transaction is refused
//! it does neither, so a transaction that is refused collects too: clients that try again do not keep the room from
//! becoming free.
//!
//! **What may go beyond the limit.** Transactions that commit at the same moment do not count each other's rows.
//! Replicas go on applying what their masters write: one that refused would be behind for good, while its master
//! has room. Tables that are [spared](MemoryLimit::spare) may grow, since a definition may have to be written for a
//! table to be dropped.
//!
//! Left out: updates that leave a row as large as it was. They too need memory as long as a snapshot reads the old
//! version, and nothing bounds how many there are.

use crate::copy::Snapshot;
use crate::site::Site;
use arc_swap::ArcSwap;
use isomer_design::{SiteId, TableId};
use isomer_store::row_bytes;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes the rows and the index of each site may take, for all sites that are given it. May be changed at
/// any time.
pub struct MemoryLimit {
    /// `usize::MAX`: there is no limit.
    bytes: AtomicUsize,
    spared: ArcSwap<Vec<TableId>>,
}

impl Default for MemoryLimit {
    fn default() -> MemoryLimit {
        MemoryLimit { bytes: AtomicUsize::new(usize::MAX), spared: ArcSwap::default() }
    }
}

impl MemoryLimit {
    /// How many bytes; `None`: as many as there are.
    pub fn get(&self) -> Option<usize> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes != usize::MAX).then_some(bytes)
    }

    /// From now on it is this.
    pub fn set(&self, bytes: Option<usize>) {
        self.bytes.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// From now on this table may grow at a site that is full: without it nobody could make room.
    pub fn spare(&self, table: TableId) {
        self.spared.rcu(|spared| {
            let mut spared = Vec::clone(spared);
            spared.push(table);
            spared
        });
    }
}

/// A site has no room for what it was to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error(
    "site {site} is full: its rows and index take {} kB of {} kB, and this would add {} kB; \
     delete rows, drop tables or replicas there, let another site master some of its partitions, or raise the limit",
    used.div_ceil(1024), limit / 1024, more.div_ceil(1024)
)]
pub struct Full {
    /// The site.
    pub site: SiteId,
    /// How many bytes rows and index may take.
    pub limit: usize,
    /// How many they take.
    pub used: usize,
    /// How many would be added.
    pub more: usize,
}

impl Site {
    /// How many bytes of rows and index there may be; `None`: as many as there are.
    pub fn memory_max(&self) -> Option<usize> {
        self.memory.get()
    }

    /// Asks for room for rows that are to be written; the values of those that are deleted are `None`.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn room_for<'r>(
        &self,
        rows: impl Iterator<Item = (TableId, &'r [u8], Option<&'r [u8]>)> + Clone,
    ) -> Result<(), Full> {
        let Some(limit) = self.memory.get() else { return Ok(()) };
        let added = rows.filter_map(|(table, key, value)| Some((table, row_bytes(key, value?))));
        let all = added.clone().map(|(_, bytes)| bytes).sum();
        if all == 0 || self.store.has_room(all, limit) {
            return Ok(());
        }
        let spared = self.memory.spared.load();
        let counted = added.filter(|(table, _)| !spared.contains(table));
        self.room(counted.map(|(_, bytes)| bytes).sum(), limit)
    }

    /// Asks for room for a new replica.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn room_for_copy(&self, snapshot: &Snapshot) -> Result<(), Full> {
        let Some(limit) = self.memory.get() else { return Ok(()) };
        // An empty one will hardly stay so.
        self.room(snapshot.bytes() + (snapshot.rows() + 1) * row_bytes(&[], &[]), limit)
    }

    fn room(&self, more: usize, limit: usize) -> Result<(), Full> {
        if more == 0 || self.store.has_room(more, limit) {
            return Ok(());
        }
        Err(Full { site: self.id, limit, used: self.memory_bytes(), more })
    }
}
