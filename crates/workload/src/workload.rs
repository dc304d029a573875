//! What a workload is, and how it is checked.

use crate::number::number;
use crate::{DataAccess, Random};
use isomer_design::{Footprint, Key, KeyRange, Schema, TableId};
use std::collections::BTreeMap;
use std::ops::{Add, ControlFlow};
use thiserror::Error;

/// How a transaction ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is to be committed.
    Commit {
        /// What it adds to the sum of the numbers in all rows, net. To be counted if and only if
        /// the commit succeeds.
        added: i64,
    },
    /// It is to be rolled back: nothing it wrote may stay. That is no error.
    Rollback {
        /// Why, in a few words.
        reason: &'static str,
    },
    /// The data cannot be right: rows are missing or damaged. To be rolled back and reported.
    Inconsistent {
        /// What is wrong.
        what: String,
    },
}

impl Outcome {
    /// Why it is to be rolled back, if it is.
    pub fn rolled_back(&self) -> Option<&str> {
        match self {
            Outcome::Commit { .. } => None,
            Outcome::Rollback { reason } => Some(reason),
            Outcome::Inconsistent { what } => Some(what),
        }
    }
}

/// One transaction of a workload.
pub trait Transaction {
    /// What kind it is, for statistics.
    fn name(&self) -> &'static str;

    /// Adds what it may read and write. To be called with an empty footprint, whose memory is
    /// used again.
    fn footprint_into(&self, footprint: &mut Footprint);

    /// What it may read and write.
    fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::new();
        self.footprint_into(&mut footprint);
        footprint
    }

    /// Runs it. It has no effect but through `data`, so it may be run again.
    ///
    /// # Errors
    /// Those of the data: the transaction ends there.
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

/// A generator of transactions, and the check of what they did.
///
/// A clone makes another client of the same workload.
pub trait Workload {
    /// What it generates.
    type Transaction: Transaction;

    /// Its name.
    fn name(&self) -> &'static str;

    /// The tables it needs.
    fn tables(&self) -> Vec<(TableId, Schema)>;

    /// For each table, the keys at which partitions of about `rows` rows begin, but for the first one.
    ///
    /// This is for tables whose keys are the numbers from 0, all of the same size.
    fn borders(&self, rows: u64) -> BTreeMap<TableId, Vec<Key>> {
        let tables = self.tables();
        let keys = self.loaded().rows / tables.len() as u64;
        let rows = rows.max(1);
        let of_table = || (1..keys.div_ceil(rows)).map(|at| Key::int((at * rows) as i64)).collect();
        tables.iter().map(|(table, _)| (*table, of_table())).collect()
    }

    /// The rows to begin with, ordered by table and key.
    fn load(&self) -> impl Iterator<Item = LoadRow>;

    /// The next transaction.
    fn next(&mut self, rng: &mut Random) -> Self::Transaction;

    /// The totals over the rows that [`Workload::load`] gives.
    fn loaded(&self) -> Totals;

    /// Read-only transactions that look at every row once, each at about `rows` of them. A
    /// distributed database sums up piece by piece, at rest, so that no site needs all rows.
    fn audits(&self, rows: u64) -> Vec<Audit>;

    /// Looks for what does not fit together beyond the sum. Sees every row of a database at rest, once.
    fn examiner(&self) -> Box<dyn Examiner + '_> {
        Box::new(Content)
    }

    /// Compares the totals over all audits with what they should be, after transactions that added
    /// `added` in all have committed.
    ///
    /// # Errors
    /// What differs.
    fn judge(&self, found: Totals, added: i128) -> Result<(), Mismatch> {
        let loaded = self.loaded();
        let expected = Totals { sum: loaded.sum + added, ..loaded };
        if found == expected { Ok(()) } else { Err(Mismatch { found, expected }) }
    }

    /// Runs all audits on data at rest, and judges.
    ///
    /// # Errors
    /// The outer error is that of the data, the inner one says what differs.
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

/// Sees every row of a database at rest, and says whether they fit together.
pub trait Examiner {
    /// Takes in a row.
    fn see(&mut self, table: TableId, key: &[u8], row: &[u8]);

    /// To be asked once all rows were seen.
    ///
    /// # Errors
    /// What does not fit, in words.
    fn verdict(&self) -> Result<(), String>;
}

/// Has nothing to find wrong.
struct Content;

impl Examiner for Content {
    fn see(&mut self, _table: TableId, _key: &[u8], _row: &[u8]) {}

    fn verdict(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Totals over some rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// How many there are.
    pub rows: u64,
    /// How many of them are too short to hold a number.
    pub damaged: u64,
    /// The sum of the numbers.
    pub sum: i128,
}

impl Totals {
    /// Takes in one more row.
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

/// The database does not add up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the database does not add up: it has {} rows ({} damaged) with the sum {}; after what was \
     loaded and committed it should have {} rows with the sum {} ({:+} too many)",
    found.rows, found.damaged, found.sum, expected.rows, expected.sum, found.sum - expected.sum
)]
pub struct Mismatch {
    /// What the audits found.
    pub found: Totals,
    /// What they should have found.
    pub expected: Totals,
}

/// A read-only transaction that sums up the rows of a key range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
}

impl Audit {
    /// Audits of a table whose keys are the numbers below `keys`, about `rows` at a time. The first
    /// and the last reach to the ends of the table, so that rows which should not exist are seen.
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

    /// What the audit reads.
    pub fn footprint(&self) -> Footprint {
        Footprint::new().read_range(self.table, self.range.clone())
    }

    /// Sums up.
    ///
    /// # Errors
    /// Those of the data.
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
    fn a_difference_is_told_in_words() {
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
