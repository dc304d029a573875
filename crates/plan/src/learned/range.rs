//! A range of keys of one table: the subject of decisions.

use isomer_design::{Footprint, Item, KeyRange, Span, TableId};
use isomer_strategy::Need;

/// A range of keys of a table: a partition, or a possible one.
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

    /// True if a footprint reads or writes a key of the range.
    pub(crate) fn is_touched_by(&self, footprint: &Footprint) -> bool {
        self.touched_by(footprint).next().is_some()
    }

    /// The items of a footprint that read or write a key of the range.
    pub(crate) fn touched_by<'f>(
        &self,
        footprint: &'f Footprint,
    ) -> impl Iterator<Item = &'f Item> {
        let lies_in = |span: &Span| match span {
            Span::Key(key) => self.keys.contains(key),
            Span::Range(keys) => keys.overlaps(&self.keys),
        };
        let items = footprint.items();
        let first = items.partition_point(|item| item.table < self.table);
        let of_table = items[first..].iter().take_while(|item| item.table == self.table);
        of_table.filter(move |item| lies_in(&item.span))
    }
}
