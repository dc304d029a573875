//! The traits of workloads and transactions, and the check of the database.

use crate::number::number;
use crate::{DataAccess, Random};
use isomer_design::{Footprint, Key, KeyRange, Schema, TableId};
use std::collections::BTreeMap;
use std::ops::{Add, ControlFlow};
use thiserror::Error;

/// How a transaction ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The transaction asks to commit.
    Commit {
        /// Its net addition to the sum of the numbers in all rows. Counts only if the commit
        /// succeeds.
        added: i64,
    },
    /// The transaction asks to roll back, which is no error.
    Rollback {
        /// The reason in a few words.
        reason: &'static str,
    },
    /// The data is inconsistent: rows are missing or damaged. The executor must roll back and
    /// report it.
    Inconsistent {
        /// The inconsistency.
        what: String,
    },
}

impl Outcome {
    /// The reason for a rollback, or `None` if it commits.
    pub fn rolled_back(&self) -> Option<&str> {
        match self {
            Outcome::Commit { .. } => None,
            Outcome::Rollback { reason } => Some(reason),
            Outcome::Inconsistent { what } => Some(what),
        }
    }
}

/// A transaction of a workload.
pub trait Transaction {
    /// The kind of transaction, for statistics.
    fn name(&self) -> &'static str;

    /// Adds its reads and writes to `footprint`, which must be empty. Allows the caller to reuse
    /// its memory.
    fn footprint_into(&self, footprint: &mut Footprint);

    /// Its reads and writes.
    fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::new();
        self.footprint_into(&mut footprint);
        footprint
    }

    /// Runs it. Its only effects are those on `data`, so it may run again.
    ///
    /// # Errors
    /// Errors of the data. The transaction ends there.
    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error>;
}

/// A row to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadRow {
    /// The table.
    pub table: TableId,
    /// The encoded key.
    pub key: Key,
    /// The encoded row.
    pub row: Vec<u8>,
}

/// A generator of transactions, and a check of their effects.
///
/// A clone is another client of the same workload.
pub trait Workload {
    /// The transactions that it generates.
    type Transaction: Transaction;

    /// Its name for reports.
    fn name(&self) -> &'static str;

    /// The tables that it needs.
    fn tables(&self) -> Vec<(TableId, Schema)>;

    /// For each table, the first keys of partitions of about `rows` rows, without the first
    /// partition.
    ///
    /// The default suits tables of equal size whose keys are consecutive numbers from 0.
    fn borders(&self, rows: u64) -> BTreeMap<TableId, Vec<Key>> {
        let tables = self.tables();
        let keys = self.loaded().rows / tables.len() as u64;
        let rows = rows.max(1);
        let of_table = || (1..keys.div_ceil(rows)).map(|at| Key::int((at * rows) as i64)).collect();
        tables.iter().map(|(table, _)| (*table, of_table())).collect()
    }

    /// The initial rows, ordered by table and key.
    fn load(&self) -> impl Iterator<Item = LoadRow>;

    /// Generates the next transaction.
    fn next(&mut self, rng: &mut Random) -> Self::Transaction;

    /// The totals of the rows that [`Workload::load`] returns.
    fn loaded(&self) -> Totals;

    /// Read-only transactions that together read every row exactly once, about `rows` rows each. No
    /// other transactions may run meanwhile. A distributed database can add up their totals piece
    /// by piece, so no site needs all rows.
    fn audits(&self, rows: u64) -> Vec<Audit>;

    /// Returns an examiner for conditions beyond the sum. It must see every row exactly once, while
    /// no transactions run.
    fn examiner(&self) -> Box<dyn Examiner + '_> {
        Box::new(Content)
    }

    /// Compares the totals of all audits with the expected ones, given the sum of `added` over all
    /// committed transactions.
    ///
    /// # Errors
    /// The difference.
    fn judge(&self, found: Totals, added: i128) -> Result<(), Mismatch> {
        let loaded = self.loaded();
        let expected = Totals { sum: loaded.sum + added, ..loaded };
        if found == expected { Ok(()) } else { Err(Mismatch { found, expected }) }
    }

    /// Runs all audits and judges the result. No transactions may run meanwhile.
    ///
    /// # Errors
    /// The outer error is an error of the data, the inner one a difference.
    fn verify<D: DataAccess>(
        &self,
        data: &mut D,
        added: i128,
    ) -> Result<Result<(), Mismatch>, D::Error> {
        let mut totals = Totals::default();
        for audit in self.audits(u64::MAX) {
            totals = totals + audit.run(data)?;
        }
        Ok(self.judge(totals, added))
    }
}

/// Sees every row of a database, and checks whether the rows are consistent.
pub trait Examiner {
    /// Processes a row.
    fn see(&mut self, table: TableId, key: &[u8], row: &[u8]);

    /// The result. Call it after all rows have been seen.
    ///
    /// # Errors
    /// A violated condition.
    fn verdict(&self) -> Result<(), String>;
}

/// An examiner without conditions.
struct Content;

impl Examiner for Content {
    fn see(&mut self, _table: TableId, _key: &[u8], _row: &[u8]) {}

    fn verdict(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Totals of some rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// The number of rows.
    pub rows: u64,
    /// The number of rows too short for a number.
    pub damaged: u64,
    /// The sum of the numbers.
    pub sum: i128,
}

impl Totals {
    /// Adds a row to the totals.
    pub fn count(&mut self, row: &[u8]) {
        self.rows += 1;
        match number(row) {
            Some(number) => self.sum += i128::from(number),
            None => self.damaged += 1,
        }
    }
}

impl Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            rows: self.rows + other.rows,
            damaged: self.damaged + other.damaged,
            sum: self.sum + other.sum,
        }
    }
}

/// The totals differ from the expected ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the database does not add up: it has {} rows ({} damaged) with the sum {}; after what was \
     loaded and committed it should have {} rows with the sum {} ({:+} too many)",
    found.rows, found.damaged, found.sum, expected.rows, expected.sum, found.sum - expected.sum
)]
pub struct Mismatch {
    /// The totals of the audits.
    pub found: Totals,
    /// The expected totals.
    pub expected: Totals,
}

/// A read-only transaction that sums up the rows of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The table.
    pub table: TableId,
    /// The range.
    pub range: KeyRange,
}

impl Audit {
    /// Audits of a table whose keys are the numbers below `keys`, about `rows` rows each. The first
    /// and the last audit extend to the ends of the table, so unexpected rows are counted, too.
    pub fn of_table(table: TableId, keys: u64, rows: u64) -> Vec<Audit> {
        let mut audits = Vec::new();
        let mut start = Key::min();
        let mut next = rows.max(1);
        while next < keys {
            let end = Key::int(next as i64);
            audits.push(Audit { table, range: KeyRange::new(start, Some(end.clone())) });
            start = end;
            next = next.saturating_add(rows.max(1));
        }
        audits.push(Audit { table, range: KeyRange::new(start, None) });
        audits
    }

    /// The range that it reads.
    pub fn footprint(&self) -> Footprint {
        Footprint::new().read_range(self.table, self.range.clone())
    }

    /// Sums up the rows.
    ///
    /// # Errors
    /// Errors of the data.
    pub fn run<D: DataAccess>(&self, data: &mut D) -> Result<Totals, D::Error> {
        let mut totals = Totals::default();
        data.scan(self.table, &self.range, |_, row| {
            totals.count(row);
            ControlFlow::Continue(())
        })?;
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audits_cover_every_key_once() {
        for (keys, rows) in [(0, 1), (1, 1), (10, 3), (10, 10), (10, u64::MAX), (10, 0)] {
            let audits = Audit::of_table(TableId(1), keys, rows);
            assert_eq!(audits[0].range.start, Key::min());
            assert_eq!(audits.last().map(|audit| audit.range.end.clone()), Some(None));
            for pair in audits.windows(2) {
                assert_eq!(pair[0].range.end.as_ref(), Some(&pair[1].range.start));
            }
            for key in -2..12 {
                let covering = audits.iter().filter(|a| a.range.contains(&Key::int(key)));
                assert_eq!(covering.count(), 1);
            }
        }
    }

    #[test]
    fn a_difference_is_described_in_words() {
        let mismatch = Mismatch {
            found: Totals { rows: 9, damaged: 1, sum: 10 },
            expected: Totals { rows: 10, damaged: 0, sum: 12 },
        };
        assert_eq!(
            mismatch.to_string(),
            "the database does not add up: it has 9 rows (1 damaged) with the sum 10; after what \
             was loaded and committed it should have 10 rows with the sum 12 (-2 too many)"
        );
    }
}
