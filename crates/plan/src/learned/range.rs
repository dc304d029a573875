//! A range of keys of one table: what decisions are about.

use isomer_design::{Footprint, Item, KeyRange, Span, TableId};
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
        footprint.items().iter().any(|item| lies_in(item, self))
    }
}

pub(crate) fn lies_in(item: &Item, range: &Range) -> bool {
    item.table == range.table
        && match &item.span {
            Span::Key(key) => range.keys.contains(key),
            Span::Range(keys) => keys.overlaps(&range.keys),
        }
}
