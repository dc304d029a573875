//! Counts of transactions and of the rows that they read and change, for `pg_stat_database` and
//! `pg_stat_user_tables`.
//!
//! ```text
//!   transaction: Tally ── its end ──▶ Tallies of the process ──┐
//!                                     those of other gateways ─┴─▶ sums, when a query asks
//! ```
//!
//! A transaction counts for itself, and adds its counts to those of the process when it ends. So
//! there is one lock for each transaction, and none for each row.

use isomer_design::TableId;
use isomer_sql::system::{Counts, RowChange, RowCounts};
use parking_lot::Mutex;
use std::sync::Arc;

/// The counts of the process.
#[derive(Default)]
pub(crate) struct Tallies(Mutex<Counts>);

impl Tallies {
    /// The counts until now, without deadlocks.
    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().clone()
    }
}

/// The counts of a transaction.
pub(crate) struct Tally {
    all: Arc<Tallies>,
    has_committed: bool,
    tables: Vec<(TableId, RowCounts)>,
}

impl Tally {
    pub(crate) fn new(all: Arc<Tallies>) -> Tally {
        Tally { all, has_committed: false, tables: Vec::new() }
    }

    fn of(&mut self, table: TableId) -> &mut RowCounts {
        let found = self.tables.iter().position(|(other, _)| *other == table);
        let at = found.unwrap_or_else(|| {
            self.tables.push((table, RowCounts::default()));
            self.tables.len() - 1
        });
        &mut self.tables[at].1
    }

    /// The transaction has read a key, or a range of keys.
    pub(crate) fn looked_up(&mut self, table: TableId, rows: u64) {
        let counts = self.of(table);
        counts.lookups += 1;
        counts.fetched += rows;
    }

    /// The transaction has read all keys of a table.
    pub(crate) fn scanned(&mut self, table: TableId, rows: u64) {
        let counts = self.of(table);
        counts.scans += 1;
        counts.scanned += rows;
    }

    /// The transaction has changed a row.
    pub(crate) fn changed(&mut self, table: TableId, change: RowChange) {
        self.of(table).changed[change as usize] += 1;
    }

    /// The transaction has committed.
    pub(crate) fn committed(mut self) {
        self.has_committed = true;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        match self.has_committed {
            true => all.commits += 1,
            false => all.rollbacks += 1,
        }
        for (table, counts) in &self.tables {
            all.tables.entry(*table).or_default().add(counts);
        }
    }
}
