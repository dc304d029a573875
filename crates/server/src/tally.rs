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
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a transaction has ended without a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum RolledBack {
    /// Its client asked for it.
    Asked,
    /// A statement or its commit has failed.
    Failed,
    /// The server runs it again from its beginning.
    Repeated,
    /// Its connection has ended.
    Left,
}

impl RolledBack {
    pub(crate) const ALL: [(RolledBack, &'static str); 4] = [
        (RolledBack::Asked, "asked"),
        (RolledBack::Failed, "failed"),
        (RolledBack::Repeated, "repeated"),
        (RolledBack::Left, "left"),
    ];
}

/// The counts of the process.
#[derive(Default)]
pub(crate) struct Tallies {
    counts: Mutex<Counts>,
    rolled_back: [AtomicU64; RolledBack::ALL.len()],
}

impl Tallies {
    /// The counts until now, without deadlocks.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    /// The number of transactions that ended in one way without a commit.
    pub(crate) fn rolled_back(&self, why: RolledBack) -> u64 {
        self.rolled_back[why as usize].load(Ordering::Relaxed)
    }
}

/// The counts of a transaction.
pub(crate) struct Tally {
    all: Arc<Tallies>,
    /// `None`: it has committed.
    rolled_back: Option<RolledBack>,
    tables: Vec<(TableId, RowCounts)>,
}

impl Tally {
    pub(crate) fn new(all: Arc<Tallies>) -> Tally {
        Tally { all, rolled_back: Some(RolledBack::Left), tables: Vec::new() }
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
        self.rolled_back = None;
    }

    /// The transaction ends without a commit for this reason, unless it commits after all.
    pub(crate) fn ends(&mut self, why: RolledBack) {
        self.rolled_back = Some(why);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut all = self.all.counts.lock();
        match self.rolled_back {
            None => all.commits += 1,
            Some(why) => {
                all.rollbacks += 1;
                self.all.rolled_back[why as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        for (table, counts) in &self.tables {
            all.tables.entry(*table).or_default().add(counts);
        }
    }
}
