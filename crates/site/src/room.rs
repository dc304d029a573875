//! The memory limit of a site's rows.
//!
//! Rows live in memory. Without a limit a site can grow until the system kills the process, and
//! with it all of its sites. With a limit, a full site refuses requests that would make it grow,
//! and serves all others:
//!
//! ```text
//!   0 %                                         95 %          100 %
//!   ├────────────────────────────────────────────┼──────────────┤
//!    all requests                                 a planning     no room: transactions that write rows, and new
//!                                                 strategy       replicas, are refused by name. Reads, deletions,
//!                                                 drops          changes that free memory, and refreshes of
//!                                                 replicas       replicas continue
//! ```
//!
//! **The check comes before any promise**: before a transaction's frame is in the log, before a
//! participant is prepared, before a coordinator sends its prepares, before the first row of a new
//! replica. Later steps are carried out even beyond the limit.
//!
//! **Counted bytes.** The bytes of rows and index that the store has allocated, old versions
//! included, and those of the rows to add. Deletions make room once no snapshot needs the rows.
//! Until then, a transaction that only deletes adds its tombstones; it is admitted, because
//! otherwise no client could make room.
//!
//! **Making room.** A context collects its garbage when it commits, or is idle. At a full site
//! contexts may do neither, so a refused transaction collects too: retries of clients do not delay
//! the collection.
//!
//! **Growth beyond the limit.** Transactions that commit at the same moment do not count each
//! other's rows. Replicas keep applying their masters' events: a replica that refused would lag for
//! good, while its master has room. Tables that are [spared](MemoryLimit::spare) may grow, since
//! dropping a table may have to write to the catalog.
//!
//! **Left out.** Updates that do not enlarge a row. They, too, need memory as long as a snapshot
//! reads the old version, and their number is not bounded.

use crate::copy::Snapshot;
use crate::full::Full;
use crate::site::Site;
use arc_swap::ArcSwap;
use isomer_design::TableId;
use isomer_store::row_bytes;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory limit of each site that shares this value, for its rows and index. May be changed at
/// any time.
pub struct MemoryLimit {
    /// `usize::MAX`: no limit.
    bytes: AtomicUsize,
    spared: ArcSwap<Vec<TableId>>,
}

impl Default for MemoryLimit {
    fn default() -> MemoryLimit {
        MemoryLimit { bytes: AtomicUsize::new(usize::MAX), spared: ArcSwap::default() }
    }
}

impl MemoryLimit {
    /// The limit in bytes; `None`: no limit.
    pub fn get(&self) -> Option<usize> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes != usize::MAX).then_some(bytes)
    }

    /// Sets the limit in bytes.
    pub fn set(&self, bytes: Option<usize>) {
        self.bytes.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Lets a table grow at a full site. Without such a table, no client could make room.
    pub fn spare(&self, table: TableId) {
        self.spared.rcu(|spared| {
            let mut spared = Vec::clone(spared);
            spared.push(table);
            spared
        });
    }
}

impl Site {
    /// The site's memory limit in bytes; `None`: no limit.
    pub fn memory_max(&self) -> Option<usize> {
        self.memory.get()
    }

    /// Checks that there is room for rows to write. Deleted rows have the value `None`.
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

    /// Checks that there is room for a new replica.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn room_for_copy(&self, snapshot: &Snapshot) -> Result<(), Full> {
        let Some(limit) = self.memory.get() else { return Ok(()) };
        // One row more, because an empty replica will probably get rows.
        self.room(snapshot.bytes() + (snapshot.rows() + 1) * row_bytes(&[], &[]), limit)
    }

    fn room(&self, more: usize, limit: usize) -> Result<(), Full> {
        if more == 0 || self.store.has_room(more, limit) {
            return Ok(());
        }
        Err(Full { site: self.id, limit, used: self.memory_bytes(), more })
    }
}
