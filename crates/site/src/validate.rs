//! Validation of the read set at the commit, for SERIALIZABLE transactions.
//!
//! A transaction with several statements reads at one time, long before it commits. Its commit
//! locks the partitions of its read set, reads them again, and writes under the same locks:
//!
//! ```text
//!   read at 90                                      at the commit, under the locks
//!   ──────────                                      ──────────────────────────────
//!   doctors[alice]    1 row                         1 row, of 71                  the same
//!   doctors[zoe]      no row                        no row                        the same
//!   shifts[5..9)      3 rows                        3 rows, the newest of 94      5..9 was changed: abort
//!   shifts[20..30)    2 rows                        1 row, of 40                  fewer rows: abort
//! ```
//!
//! **A span is unchanged if it has the same number of rows as before, none of them newer than the
//! time of the read.** A changed or inserted row is newer. A deleted row is missing, and only a
//! newer row could make up for it in the count. So the read set has one number for a range, and
//! sites need not keep deletions. The comparison is with the state at the commit: a row that was
//! inserted and deleted in between does not matter.
//!
//! **Invariant.** The spans are locked like written ones until the commit has its time
//! ([`crate::execute`], [`crate::two_phase`]), so they are in the same state at that time.
//!
//! **Left out.** Shared locks: a partition has one lock, and validation holds it for the length of
//! a commit.

use crate::error::Abort;
use crate::request::CheckedWrites;
use crate::txn::Txn;
use isomer_design::{Direction, Key, KeyRange, Span, TableId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Bytes of a span in memory, without its keys.
const SPAN_BYTES: usize = 96;

/// The read set of a transaction, at one time.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ReadSet {
    /// The time of the reads.
    at: Time,
    /// The number of rows in each span.
    spans: BTreeMap<TableId, BTreeMap<Span, u64>>,
}

impl ReadSet {
    /// Adds a span that was read at a time, with its number of rows. Returns the bytes that the
    /// read set has grown by: 0 if a covering span is there.
    pub fn add(&mut self, at: Time, table: TableId, span: Span, rows: u64) -> usize {
        // The earliest time is right for all spans: rows that are newer count as changed.
        self.at = if self.spans.is_empty() { at } else { self.at.min(at) };
        let spans = self.spans.entry(table).or_default();
        if spans.range(..=&span).next_back().is_some_and(|(before, _)| covers(before, &span)) {
            return 0;
        }
        let bytes = SPAN_BYTES + bytes_of(&span);
        spans.insert(span, rows);
        bytes
    }

    /// Removes a table that no other transaction can see.
    pub fn forget(&mut self, table: TableId) {
        self.spans.remove(&table);
    }

    /// True if nothing was read.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// True if there are spans of a table.
    pub fn has(&self, table: TableId) -> bool {
        self.spans.contains_key(&table)
    }

    /// The time of the reads.
    pub fn at(&self) -> Time {
        self.at
    }

    /// All spans, with their numbers of rows.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Span, u64)> {
        self.spans
            .iter()
            .flat_map(|(table, spans)| spans.iter().map(move |(span, rows)| (*table, span, *rows)))
    }

    /// The spans of each table, in the order of their first keys.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, impl ExactSizeIterator<Item = &Span>)> {
        self.spans.iter().map(|(table, spans)| (*table, spans.keys()))
    }

    /// Fails if any span has changed.
    ///
    /// # Errors
    /// [`Abort::ReadChanged`]; [`Abort::OutsideFootprint`].
    pub(crate) fn validate(&self, txn: &Txn<'_>) -> Result<(), Abort> {
        for (&table, spans) in &self.spans {
            for (span, &rows) in spans {
                match span {
                    Span::Key(key) => self.validate_key(txn, table, key, rows)?,
                    Span::Range(range) => self.validate_range(txn, table, range, rows)?,
                }
            }
        }
        Ok(())
    }

    fn validate_key(
        &self,
        txn: &Txn<'_>,
        table: TableId,
        key: &Key,
        rows: u64,
    ) -> Result<(), Abort> {
        let is_same = match txn.committed(table, key)? {
            Some((time, _)) => rows == 1 && time <= self.at,
            None => rows == 0,
        };
        if is_same { Ok(()) } else { Err(changed(table, Span::Key(key.clone()))) }
    }

    fn validate_range(
        &self,
        txn: &Txn<'_>,
        table: TableId,
        range: &KeyRange,
        rows: u64,
    ) -> Result<(), Abort> {
        let (mut found, mut newer) = (0, None);
        txn.scan_committed(table, range, Direction::Forward, |key, _, time| {
            found += 1;
            if time > self.at {
                newer = Some(Key::from_bytes(key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        match newer {
            Some(key) => Err(changed(table, Span::Key(key))),
            None if found != rows => Err(changed(table, Span::Range(range.clone()))),
            None => Ok(()),
        }
    }
}

/// Writes rows, if all spans and all replaced rows are unchanged.
pub(crate) fn write_validated(
    reads: &ReadSet,
    writes: &CheckedWrites,
    txn: &mut Txn<'_>,
) -> Result<(), Abort> {
    reads.validate(txn)?;
    crate::request::write_checked(writes, txn)
}

fn changed(table: TableId, span: Span) -> Abort {
    Abort::ReadChanged { table, span }
}

fn covers(span: &Span, other: &Span) -> bool {
    match other {
        Span::Key(key) => span.contains(key),
        Span::Range(range) => span.covers(range),
    }
}

fn bytes_of(span: &Span) -> usize {
    match span {
        Span::Key(key) => key.len(),
        Span::Range(range) => range.start.len() + range.end.as_ref().map_or(0, |end| end.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(1);

    fn spans(reads: &ReadSet) -> Vec<String> {
        reads.tables().flat_map(|(_, spans)| spans.map(Span::to_string)).collect()
    }

    #[test]
    fn what_a_range_has_seen_is_not_kept_key_by_key() {
        let mut reads = ReadSet::default();
        let (five, seven) = (Span::Key(Key::int(5)), Span::Key(Key::int(7)));
        let range = Span::Range(KeyRange::ints(6, 9));
        assert!(reads.add(Time(9), TABLE, five.clone(), 1) > 0);
        assert!(reads.add(Time(9), TABLE, range.clone(), 3) > 0);
        assert_eq!(reads.add(Time(9), TABLE, seven, 1), 0);
        assert_eq!(reads.add(Time(9), TABLE, range, 3), 0);
        assert_eq!(reads.add(Time(9), TABLE, five, 1), 0);
        assert_eq!(spans(&reads), ["[5]", "[6..9)"]);
    }

    #[test]
    fn of_two_times_the_earlier_one_is_kept() {
        let mut reads = ReadSet::default();
        for at in [9, 7, 8] {
            reads.add(Time(at), TABLE, Span::Key(Key::int(at as i64)), 0);
        }
        assert_eq!(reads.at, Time(7));
    }
}
