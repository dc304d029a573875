//! Hashes of the copies of ordered tables at one time, to compare them.
//!
//! ```text
//!   now: 930     t 0..10   s1 (master)  12 rows  5f31…      read at 930
//!                          s2           12 rows  5f31…      waits until it has all up to 930
//! ```
//!
//! A batch has one time, so each time is the boundary of a batch: a copy has all rows of a batch
//! then, or none. The rows include stubs, and the fused table is one of the tables. So equal hashes
//! say that all copies have run the same batches with the same outcomes, and that the same rows
//! have moved to the same sites.
//!
//! The process that asks reads the rows, in portions. A copy may therefore be as large as it likes,
//! but the request takes as long as a scan of all of them.

use crate::conductor::Conductor;
use crate::transport::Transport;
use foldhash::fast::FixedState;
use isomer_design::{Direction, Key, KeyRange, SiteId, TableId, Time};
use isomer_site::{Read, ReadSpan};
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;

/// The number of rows that are read at once.
const PORTION: usize = 1024;

/// The hash of a copy of a partition of an ordered table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyHash {
    /// The table.
    pub table: TableId,
    /// The partition.
    pub range: KeyRange,
    /// The site with the copy.
    pub site: SiteId,
    /// True if the site is the master.
    pub is_master: bool,
    /// The number of rows and the hash of their keys, values and versions; `None` if the site could
    /// not be asked.
    pub hashed: Option<(u64, u64)>,
}

/// Hashes all copies of all ordered tables as of now.
pub(crate) async fn hashes<T: Transport>(conductor: &Conductor<T>) -> Vec<CopyHash> {
    let transport = conductor.transport();
    let at = transport.now().max(transport.latest().await.0);
    let design = conductor.design();
    let mut all = Vec::new();
    for (table, _) in design.tables().filter(|(_, table)| table.is_ordered()) {
        for (range, placement) in design.partitions_in(table, &KeyRange::all()) {
            for site in placement.holders().iter() {
                let hashed = hash(transport, (table, &range), site, at).await;
                let (range, is_master) = (range.clone(), site == placement.master);
                all.push(CopyHash { table, range, site, is_master, hashed });
            }
        }
    }
    all
}

/// The number of rows of a copy, and their hash.
async fn hash<T: Transport>(
    transport: &T,
    (table, range): (TableId, &KeyRange),
    site: SiteId,
    at: Time,
) -> Option<(u64, u64)> {
    let pin = transport.pin(site, at).await.ok()?;
    let mut hasher = FixedState::default().build_hasher();
    let (mut rows, mut rest) = (0, range.clone());
    loop {
        let (mut read, mut last) = (0, None);
        let mut visit = |key: &[u8], row: &[u8], version: Time| {
            for part in [key, row] {
                hasher.write_usize(part.len());
                hasher.write(part);
            }
            hasher.write_u64(version.0);
            (read, last) = (read + 1, Some(Key::from_bytes(key)));
            ControlFlow::Continue(())
        };
        let span = ReadSpan::Range(&rest, Direction::Forward);
        let portion = Read { table, span, limit: PORTION };
        transport.read_at(site, portion, at, Some(&pin), &mut visit).await.ok()?;
        rows += read;
        match last {
            Some(last) if read == PORTION as u64 => rest.start = last.successor(),
            _ => return Some((rows, hasher.finish())),
        }
    }
}
