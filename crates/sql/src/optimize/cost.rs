//! The cost of work, in one unit: reading one row of a table in the order of its key.
//!
//! ```text
//!   all rows             n · ROW
//!   a span of the key    SEEK + n · ROW
//!   a span of an index   SEEK + n · ENTRY           an entry, and the row that it is of
//!   by a hash            rows kept · KEEP  +  rows before · PROBE  +  matches · MATCH
//!   a sort               n · log₂ n · COMPARE
//! ```
//!
//! The numbers are ratios that were measured on tables in memory at one site: an entry costs as
//! much as three rows, because the row behind it is looked up by its key. They need not be exact: a
//! plan is chosen among plans whose costs differ by factors.

/// Reading the next row of a range.
pub(super) const ROW: f64 = 1.0;
/// Reading an entry of an index, and looking up its row.
pub(super) const ENTRY: f64 = 3.0;
/// Beginning a range.
pub(super) const SEEK: f64 = 3.0;
/// Keeping a row in a hash.
const KEEP: f64 = 0.6;
/// Looking a row up in a hash.
const PROBE: f64 = 0.4;
/// The cost of comparing two rows.
const MATCH: f64 = 0.2;
/// Comparing two rows of a sort.
const COMPARE: f64 = 0.1;

/// Rows found by spans: how many spans, how many rows, and whether by an index.
pub(super) fn spans(spans: f64, rows: f64, by_index: bool) -> f64 {
    spans * SEEK + rows * if by_index { ENTRY } else { ROW }
}

/// All rows of a table, or of an index.
pub(super) fn everything(rows: f64, by_index: bool) -> f64 {
    rows * if by_index { ENTRY } else { ROW }
}

/// Joining rows with others that are kept: of `kept` rows, `before` are joined with, which make
/// `pairs`.
pub(super) fn hash(kept: f64, before: f64, pairs: f64) -> f64 {
    kept * KEEP + before * PROBE + pairs * MATCH
}

/// Looking at each pair of rows.
pub(super) fn nested(kept: f64, before: f64) -> f64 {
    kept * KEEP + kept * before * MATCH
}

/// Sorting rows.
pub(super) fn sort(rows: f64) -> f64 {
    rows * rows.max(2.0).log2() * COMPARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheaper_is_what_reads_less() {
        // Reading a third of the rows by an index costs the same as a full scan.
        assert!(spans(1.0, 300.0, true) < everything(1000.0, false));
        assert!(spans(1.0, 500.0, true) > everything(1000.0, false));
        assert!(spans(1.0, 999.0, false) < everything(1003.0, false));
        // A hash of 1,000 rows pays from some hundred look-ups on.
        let by_hash = |before: f64| everything(1000.0, false) + hash(1000.0, before, before);
        let by_index = |before: f64| before * spans(1.0, 1.0, true);
        assert!(by_index(100.0) < by_hash(100.0));
        assert!(by_index(1000.0) > by_hash(1000.0));
        assert!(nested(10.0, 10.0) < nested(100.0, 10.0));
        assert!(sort(1000.0) > sort(100.0) * 10.0);
    }
}
