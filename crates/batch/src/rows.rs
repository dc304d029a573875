//! The interface to the rows of a site.
//!
//! A site holds exactly the rows *placed* there: rows with their home here that are not fused
//! elsewhere, and rows fused here. A range read therefore asks each holder for all its rows in the
//! range, and gets every row exactly once.

use isomer_design::{Key, KeyRange, TableId};
pub(crate) use isomer_strategy::batch::{RecordId, bounds, end_of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of a row, shared between its readers.
pub type Row = Arc<[u8]>;

/// New rows by record; `None` deletes the row.
pub type Writes = BTreeMap<RecordId, Option<Row>>;

/// Rows, by table and key.
pub trait Rows {
    /// Returns the row of a record.
    fn get(&self, record: &RecordId) -> Option<Row>;

    /// Returns the rows of a range in key order.
    fn scan(&self, table: TableId, range: &KeyRange) -> Vec<(Key, Row)>;

    /// Applies all writes atomically.
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

    /// Inserts or replaces a row.
    pub fn put(&mut self, record: RecordId, row: Row) {
        self.0.insert(record, row);
    }

    /// All rows in key order.
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
