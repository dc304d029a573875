//! Tables and rows to begin with.

use crate::progress::Progress;
use isomer_cluster::{Database, Error, Session};
use isomer_design::{Footprint, Key, KeyRange, SiteId};
use isomer_workload::{LoadRow, Workload};

/// The most rows that one transaction loads.
const BATCH_ROWS: u64 = 1000;

/// How a table begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) sites: u16,
    pub(crate) rows_per_partition: u64,
    pub(crate) spread: Spread,
}

/// How partitions are spread over sites at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Spread {
    /// Each site gets one contiguous part of the keys
    Range,
    /// Each partition goes to a site by a hash of its number: neighbours are rarely together
    Hash,
}

impl Layout {
    fn site(&self, partition: u64, partitions: u64) -> SiteId {
        let sites = u64::from(self.sites);
        let at = match self.spread {
            Spread::Range => partition * sites / partitions,
            Spread::Hash => (partition + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
        };
        SiteId((at % sites) as u16 + 1)
    }

    fn placement(&self, rows: u64) -> Vec<(Key, SiteId)> {
        let partitions = rows.div_ceil(self.rows_per_partition).max(1);
        let start = |partition: u64| match partition {
            0 => Key::min(),
            _ => Key::int((partition * self.rows_per_partition) as i64),
        };
        (0..partitions).map(|p| (start(p), self.site(p, partitions))).collect()
    }
}

/// Creates the tables of a workload, and loads them. Keys are the numbers from 0.
pub(crate) fn load(db: &Database, workload: &impl Workload, layout: Layout) -> Result<(), Error> {
    let (tables, rows) = (workload.tables(), workload.loaded().rows);
    for (id, schema) in &tables {
        let placement = layout.placement(rows / tables.len() as u64);
        let created = db.create_table(schema.clone(), &placement)?;
        assert_eq!(created, *id, "tables get numbers from 1, as the workload expects");
    }
    let mut progress = Progress::new("loading rows", rows);
    let mut session = db.session();
    let mut batch: Vec<LoadRow> = Vec::new();
    let batch_rows = BATCH_ROWS.min(layout.rows_per_partition);
    let mut since_start = 0;
    for row in workload.load() {
        // Batches do not cross borders of partitions or tables.
        let is_next_table = batch.last().is_some_and(|last| last.table != row.table);
        since_start = if is_next_table { 0 } else { since_start };
        let is_full = (since_start % layout.rows_per_partition).is_multiple_of(batch_rows);
        if is_next_table || is_full {
            progress.add(batch.len() as u64);
            insert(db, &mut session, &batch)?;
            batch.clear();
        }
        since_start += 1;
        batch.push(row);
    }
    insert(db, &mut session, &batch)
}

fn insert(db: &Database, session: &mut Session, rows: &[LoadRow]) -> Result<(), Error> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
    let range = KeyRange::new(first.key.clone(), Some(last.key.successor()));
    let footprint = Footprint::new().write_range(first.table, range);
    db.run(session, &footprint, |txn| {
        rows.iter().try_for_each(|row| txn.insert(row.table, &row.key, &row.row))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_layout_gives_each_site_one_part_and_a_hash_layout_mixes() {
        let layout = |spread| Layout { sites: 4, rows_per_partition: 10, spread };
        let sites = |spread| -> Vec<u16> {
            layout(spread).placement(400).into_iter().map(|(_, site)| site.0).collect()
        };
        let range = sites(Spread::Range);
        assert_eq!(range.len(), 40);
        assert!(range.is_sorted());
        let hash = sites(Spread::Hash);
        let borders = hash.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(borders > 20, "{hash:?}");
        assert!((1..=4).all(|site| hash.iter().filter(|s| **s == site).count() >= 5), "{hash:?}");
    }
}
