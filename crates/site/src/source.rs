//! The rows of a running transaction's snapshot: in the copies of its own site, or, if it runs over
//! several sites, among the rows that were gathered for it.

use crate::partition::{SitePartition, Table};
use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use isomer_store::{Context, Guard, Row, Spot};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// See the [module documentation](self).
#[allow(clippy::large_enum_variant, reason = "one for each transaction, on the stack")]
pub(crate) enum Source<'a> {
    /// At this site.
    Here(Copies<'a>),
    /// From several sites.
    Gathered(&'a Gathered),
}

/// The copies that a footprint names, at the site where the transaction runs.
pub(crate) struct Copies<'a> {
    /// The tables of the footprint's items, in their order.
    pub(crate) tables: &'a [&'a Arc<Table>],
    /// The footprint's partitions, ordered by table and key.
    pub(crate) partitions: &'a [&'a Arc<SitePartition>],
    /// Holds the snapshot.
    pub(crate) context: &'a Context<'a>,
    /// Protects the leaves of single keys, if there are any.
    pub(crate) guard: Option<&'a Guard>,
    /// For each single key of the footprint, the leaf that holds it.
    pub(crate) spots: SmallVec<[Option<Cell<Spot<'a>>>; 4]>,
}

/// Rows of one snapshot, from several sites.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gathered {
    /// Ordered by table and key, once the transaction runs.
    rows: Vec<GatheredRow>,
}

/// A row that was read for a transaction over several sites.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatheredRow {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// When it was committed.
    pub time: Time,
    /// The value.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

impl<'a> Source<'a> {
    /// The copies of this site.
    ///
    /// # Panics
    /// If the rows were gathered.
    pub(crate) fn here(&self) -> &Copies<'a> {
        match self {
            Source::Here(copies) => copies,
            Source::Gathered(_) => panic!("a transaction over several sites has no copies here"),
        }
    }

    /// The version of a row that the snapshot sees: its time, and its value unless it is a
    /// deletion.
    #[inline]
    pub(crate) fn row(
        &self,
        item: usize,
        table: TableId,
        key: &[u8],
    ) -> Option<(Time, Option<&'a [u8]>)> {
        match self {
            Source::Here(copies) => copies.row(item, key).map(|row| (row.time(), row.value())),
            Source::Gathered(rows) => {
                rows.get(table, key).map(|row| (row.time, Some(&row.value[..])))
            }
        }
    }

    /// Visits the versions of the rows of a range, in key order along `way`.
    #[inline]
    pub(crate) fn scan(
        &self,
        item: usize,
        table: TableId,
        (range, way): (&KeyRange, Direction),
        mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>, Time) -> ControlFlow<()>,
    ) {
        match self {
            Source::Here(copies) => {
                let index = &copies.tables[item].index;
                copies
                    .context
                    .scan_along(index, range, way, |row| visit(row.key(), row.value(), row.time()));
            }
            Source::Gathered(rows) => {
                for row in way.through(rows.within(table, range).iter()) {
                    if visit(&row.key, Some(&row.value), row.time).is_break() {
                        return;
                    }
                }
            }
        }
    }
}

impl<'a> Copies<'a> {
    /// The partition, among the footprint's, that covers a key.
    pub(crate) fn partition_of(&self, table: TableId, key: &[u8]) -> usize {
        let place = (table, key);
        self.partitions.partition_point(|p| (p.table, p.range.start.as_bytes()) <= place) - 1
    }

    fn row(&self, item: usize, key: &[u8]) -> Option<&'a Row> {
        match (&self.spots[item], self.guard) {
            (Some(spot), Some(guard)) => {
                let mut at = spot.get();
                let row = self.context.read(&mut at, key, guard);
                spot.set(at);
                row
            }
            _ => self.context.get(&self.tables[item].index, key),
        }
    }
}

impl Gathered {
    /// Puts the rows of all sites in order.
    pub(crate) fn of(mut rows: Vec<GatheredRow>) -> Gathered {
        rows.sort_unstable_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        // A key that two items of a footprint cover was read twice, at one time.
        rows.dedup_by(|a, b| (a.table, &a.key) == (b.table, &b.key));
        Gathered { rows }
    }

    fn get(&self, table: TableId, key: &[u8]) -> Option<&GatheredRow> {
        let at = self.reach(table, key);
        self.rows.get(at).filter(|row| row.table == table && *row.key == *key)
    }

    fn within(&self, table: TableId, range: &KeyRange) -> &[GatheredRow] {
        let from = self.reach(table, &range.start);
        let inside = |row: &GatheredRow| row.table == table && range.is_below_end(&row.key);
        let count = self.rows[from..].partition_point(inside);
        &self.rows[from..from + count]
    }

    fn reach(&self, table: TableId, key: &[u8]) -> usize {
        self.rows.partition_point(|row| (row.table, row.key.as_bytes()) < (table, key))
    }
}
