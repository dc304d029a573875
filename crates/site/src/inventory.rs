//! The copies of partitions at a site, for operators: their rows, and the lag of replicas.
//!
//! ```text
//!   commit at the master ── durable, shipped ──▶ applied at the replica
//!   10:00:00.000                                 10:00:00.004            a delay of 4 ms
//!
//!   replica complete up to 10:00:00.000, now 10:00:00.090                a lag of 90 ms
//! ```
//!
//! **The delay** is known of each event that a replica applies. **The lag** is the time since which
//! the replica may lack events. It also grows while the master commits nothing, until the next
//! heartbeat: up to 48 ticks.

use crate::durations::DurationsShown;
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{KeyRange, TableId, Time};
use std::ops::ControlFlow;

/// A copy of a partition at a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// The table.
    pub table: TableId,
    /// Its keys.
    pub range: KeyRange,
    /// True if the site is its master.
    pub is_master: bool,
    /// Its rows, as of now.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The time since which a replica may lack events, in nanoseconds; 0 at the master.
    pub lag_ns: u64,
}

/// The copies at a site. Reads all rows, to count them.
pub fn inventory(site: &Site) -> Vec<CopyReport> {
    let (now, mut copies) = (site.time.now(), Vec::new());
    for table in site.tables().iter() {
        let map = table.partitions.load();
        for (_, partition) in map.iter() {
            let Some(mut context) = site.store.context() else { continue };
            // For each partition anew, so that old versions are freed in between.
            context.hold();
            let (mut rows, mut bytes) = (0, 0);
            context.scan_newest(&table.index, &partition.range, |row| {
                if let Some(value) = row.value() {
                    rows += 1;
                    bytes += (row.key().len() + value.len()) as u64;
                }
                ControlFlow::Continue(())
            });
            copies.push(CopyReport {
                table: table.id,
                range: partition.range.clone(),
                is_master: partition.is_master(),
                rows,
                bytes,
                lag_ns: lag_of(partition, now),
            });
        }
    }
    copies
}

/// The greatest lag of a replica at a site, in nanoseconds; `None` if no replica is there.
pub fn lag_ns(site: &Site) -> Option<u64> {
    let now = site.time.now();
    let tables = site.tables();
    let lags = tables.iter().filter_map(|table| {
        let map = table.partitions.load();
        let replicas = map.iter().filter(|(_, partition)| !partition.is_master());
        replicas.map(|(_, replica)| lag_of(replica, now)).max()
    });
    lags.max()
}

/// The delays from commits at masters until the replicas of a site have applied them.
pub fn apply_delays(site: &Site) -> DurationsShown {
    site.apply_delays.shown()
}

fn lag_of(partition: &SitePartition, now: Time) -> u64 {
    now.0.saturating_sub(partition.safe_time().0)
}
