//! The initial tables and rows of a workload.

use crate::progress::Progress;
use isomer_cluster::{Database, Error, Session};
use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId};
use isomer_workload::{LoadRow, Workload};
use std::collections::BTreeMap;

/// The most rows of one loading transaction.
const BATCH_ROWS: u64 = 1000;

/// The initial sites and partitions of a table.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub sites: u16,
    pub rows_per_partition: u64,
    pub spread: Spread,
}

/// The initial distribution of partitions over sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Spread {
    /// Each site gets one contiguous part of the keys
    Range,
    /// Each partition goes to a site by a hash of its number, so neighbours are rarely at one site
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

    /// The initial placement of partitions that begin at the first key and at `borders`.
    fn placement(&self, borders: &[Key]) -> Vec<(Key, SiteId)> {
        let count = borders.len() as u64 + 1;
        let starts = std::iter::once(Key::min()).chain(borders.iter().cloned());
        starts.zip(0..).map(|(start, at)| (start, self.site(at, count))).collect()
    }
}

/// The first keys of each table's partitions, without that of the first partition.
pub type Borders = BTreeMap<TableId, Vec<Key>>;

/// Creates the tables of a workload, and loads them.
pub fn load(db: &Database, workload: &impl Workload, layout: Layout) -> Result<(), Error> {
    let borders = workload.borders(layout.rows_per_partition);
    create(db, workload, layout, &borders)?;
    fill(db, workload, &borders)
}

/// Creates the tables of a workload.
pub fn create(
    db: &Database,
    workload: &impl Workload,
    layout: Layout,
    borders: &Borders,
) -> Result<(), Error> {
    for (id, schema) in workload.tables() {
        let created = db.create_table(schema, &layout.placement(&borders[&id]))?;
        assert_eq!(created, id, "tables get numbers from 1, as the workload expects");
    }
    Ok(())
}

/// Loads the rows of a workload. Each transaction loads rows of one partition.
pub fn fill(db: &Database, workload: &impl Workload, borders: &Borders) -> Result<(), Error> {
    let mut progress = Progress::new("loading rows", workload.loaded().rows);
    let mut session = db.session();
    let mut batch: Vec<LoadRow> = Vec::new();
    for row in workload.load() {
        if batch.first().is_some_and(|first| !are_together(&borders[&first.table], first, &row))
            || batch.len() as u64 == BATCH_ROWS
        {
            progress.add(batch.len() as u64);
            insert(db, &mut session, &batch)?;
            batch.clear();
        }
        batch.push(row);
    }
    insert(db, &mut session, &batch)
}

/// True if two rows are in the same partition.
fn are_together(borders: &[Key], one: &LoadRow, other: &LoadRow) -> bool {
    let partition = |row: &LoadRow| borders.partition_point(|border| *border <= row.key);
    one.table == other.table && partition(one) == partition(other)
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
        let borders: Vec<Key> = (1..40).map(|at| Key::int(at * 10)).collect();
        let sites = |spread| -> Vec<u16> {
            layout(spread).placement(&borders).into_iter().map(|(_, site)| site.0).collect()
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
