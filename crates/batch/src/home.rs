//! Where records are at home: where they are unless they are fused elsewhere.
//!
//! Homes are ranges and change rarely; the [fusion table](crate::fusion) has the exceptions. A
//! [`Design`] gives homes: a record is at home at the master of its partition.

use isomer_design::{Design, Key, KeyRange, SiteId, SiteSet, TableId};

/// Where records are at home.
pub trait Home: Send + Sync {
    /// All sites.
    fn sites(&self) -> SiteSet;

    /// The home of a record; `None` if the table does not exist.
    fn of(&self, table: TableId, key: &Key) -> Option<SiteId>;

    /// The homes of a range, piece by piece in order, without a gap; empty if the table does not exist.
    fn pieces(&self, table: TableId, range: &KeyRange) -> Vec<(KeyRange, SiteId)>;
}

impl Home for Design {
    fn sites(&self) -> SiteSet {
        Design::sites(self).clone()
    }

    fn of(&self, table: TableId, key: &Key) -> Option<SiteId> {
        Some(self.partition_of(table, key)?.1.master)
    }

    fn pieces(&self, table: TableId, range: &KeyRange) -> Vec<(KeyRange, SiteId)> {
        let partitions = self.partitions_in(table, range);
        let mut pieces: Vec<(KeyRange, SiteId)> = Vec::new();
        for (partition, placement) in partitions {
            let piece = partition.intersection(range);
            match pieces.last_mut() {
                Some((last, site)) if *site == placement.master => last.end = piece.end,
                _ => pieces.push((piece, placement.master)),
            }
        }
        pieces
    }
}
