//! A range of keys of one table: what decisions are about.

use isomer_design::{Footprint, KeyRange, Span, TableId};
use isomer_strategy::Need;

/// A range of keys of a table: a partition, or what one could become.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Range {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub keys: KeyRange,
}

impl Range {
    /// The partition of a footprint.
    pub(crate) fn of(need: &Need) -> Range {
        Range { table: need.table, keys: need.range.clone() }
    }

    /// True if a footprint reads or writes any of it.
    pub(crate) fn is_touched_by(&self, footprint: &Footprint) -> bool {
        let lies_in = |span: &Span| match span {
            Span::Key(key) => self.keys.contains(key),
            Span::Range(keys) => keys.overlaps(&self.keys),
        };
        footprint.items().iter().any(|item| item.table == self.table && lies_in(&item.span))
    }
}
