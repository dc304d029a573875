//! The rows that a site holds, behind the smallest interface that the engine needs.
//!
//! A site holds exactly the rows that are *placed* there: those at home here that are not fused elsewhere,
//! and those that are fused here. So a range read asks each holder for all it has in the range, and gets
//! every row once.

use isomer_design::{Key, KeyRange, TableId};
pub(crate) use isomer_strategy::batch::{RecordId, bounds, end_of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row's bytes, shared by all that read it.
pub type Row = Arc<[u8]>;

/// Rows to put, and rows to delete.
pub type Writes = BTreeMap<RecordId, Option<Row>>;

/// Rows, by table and key.
pub trait Rows {
    /// One row.
    fn get(&self, record: &RecordId) -> Option<Row>;

    /// The rows of a range, in the order of their keys.
    fn scan(&self, table: TableId, range: &KeyRange) -> Vec<(Key, Row)>;

    /// Makes changes, all of them or none.
    fn apply(&mut self, writes: &Writes);
}

/// Rows in memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemoryRows(BTreeMap<RecordId, Row>);

impl MemoryRows {
    /// No rows.
    pub fn new() -> MemoryRows {
        MemoryRows::default()
    }

    /// Puts a row.
    pub fn put(&mut self, record: RecordId, row: Row) {
        self.0.insert(record, row);
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordId, &Row)> {
        self.0.iter()
    }
}

impl Rows for MemoryRows {
    fn get(&self, record: &RecordId) -> Option<Row> {
        self.0.get(record).cloned()
    }

    fn scan(&self, table: TableId, range: &KeyRange) -> Vec<(Key, Row)> {
        if range.is_empty() {
            return Vec::new();
        }
        let rows = self.0.range(bounds(table, range));
        rows.map(|((_, key), row)| (key.clone(), row.clone())).collect()
    }

    fn apply(&mut self, writes: &Writes) {
        for (record, row) in writes {
            match row {
                Some(row) => self.0.insert(record.clone(), row.clone()),
                None => self.0.remove(record),
            };
        }
    }
}
