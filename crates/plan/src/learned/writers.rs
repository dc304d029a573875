//! How many samples write to a partition, kept up to date as samples come and go.
//!
//! Every measured transaction asks who writes to its partitions, and to count that anew may take a
//! look at all samples. So what was counted once is remembered, and each sample counts itself in
//! and out:
//!
//! ```text
//!   remembered    [0..10) 2      [10..20) 7      [40..50) 0
//!                     ▲              ▲
//!   comes         write 3, 5     write 12             2 ─▶ 3, 7 ─▶ 8
//! ```
//!
//! Invariant: remembered ranges do not overlap. After a split or a merge, those of the old design
//! go when one of the new is asked for.

use super::range::Range;
use isomer_design::{Access, Footprint, Item, Key, KeyRange, Span, TableId};
use std::collections::BTreeMap;

/// More ranges are not remembered.
const REMEMBERED_MAX: usize = 16_384;

type Place = (TableId, Key);

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    /// By where a range begins: its keys, and who writes to them.
    counts: BTreeMap<Place, (KeyRange, u32)>,
}

impl Writers {
    /// How many samples write to a range, if that is remembered.
    pub(crate) fn get(&self, range: &Range) -> Option<u32> {
        let (keys, count) = self.counts.get(&(range.table, range.keys.start.clone()))?;
        (*keys == range.keys).then_some(*count)
    }

    /// So many do.
    pub(crate) fn remember(&mut self, range: &Range, count: u32) {
        if self.counts.len() >= REMEMBERED_MAX {
            self.counts.clear();
        }
        for place in self.overlapping(range.table, &range.keys) {
            self.counts.remove(&place);
        }
        let place = (range.table, range.keys.start.clone());
        self.counts.insert(place, (range.keys.clone(), count));
    }

    /// A sample comes.
    pub(crate) fn enter(&mut self, footprint: &Footprint) {
        for place in self.written(footprint) {
            self.counts.entry(place).and_modify(|(_, count)| *count += 1);
        }
    }

    /// It goes.
    ///
    /// # Panics
    /// If it never came.
    pub(crate) fn leave(&mut self, footprint: &Footprint) {
        for place in self.written(footprint) {
            self.counts.entry(place).and_modify(|(_, count)| {
                *count = count.checked_sub(1).expect("what goes was counted when it came");
            });
        }
    }

    /// The remembered ranges that a footprint writes to, each once.
    fn written(&self, footprint: &Footprint) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for Item { table, span, access } in footprint.items() {
            match span {
                _ if *access == Access::Read => {}
                Span::Range(keys) => places.extend(self.overlapping(*table, keys)),
                Span::Key(key) => {
                    let found =
                        self.before(*table, key).filter(|(_, (keys, _))| keys.contains(key));
                    places.extend(found.map(|(place, _)| place.clone()));
                }
            }
        }
        places.sort();
        places.dedup();
        places
    }

    /// The last range of a table that does not begin after a key.
    fn before(&self, table: TableId, key: &Key) -> Option<(&Place, &(KeyRange, u32))> {
        let found = self.counts.range(..=(table, key.clone())).next_back();
        found.filter(|(place, _)| place.0 == table)
    }

    /// The remembered ranges that overlap one.
    fn overlapping(&self, table: TableId, keys: &KeyRange) -> Vec<Place> {
        let first = self.before(table, &keys.start).map_or(&keys.start, |(place, _)| &place.1);
        let from = self.counts.range((table, first.clone())..);
        let until = from.take_while(|((t, start), _)| *t == table && keys.is_below_end(start));
        let found = until.filter(|(_, (other, _))| other.overlaps(keys));
        found.map(|(place, _)| place.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    fn range(from: i64, to: i64) -> Range {
        Range { table: T, keys: KeyRange::ints(from, to) }
    }

    fn writes(keys: &[i64]) -> Footprint {
        keys.iter().fold(Footprint::new(), |footprint, key| footprint.write(T, Key::int(*key)))
    }

    #[test]
    fn samples_count_themselves_in_and_out_once_for_each_range() {
        let mut writers = Writers::default();
        [range(0, 10), range(10, 20), range(40, 50)].iter().for_each(|r| writers.remember(r, 0));
        let of = |writers: &Writers| {
            [(0, 10), (10, 20), (40, 50)].map(|(from, to)| writers.get(&range(from, to)).unwrap())
        };
        writers.enter(&writes(&[3, 5, 12, 25]));
        writers.enter(&Footprint::new().read(T, Key::int(5)));
        assert_eq!(of(&writers), [1, 1, 0]);
        let mut everything = writes(&[4]);
        everything.add(T, Span::Range(KeyRange::all()), Access::Write);
        writers.enter(&everything);
        assert_eq!(of(&writers), [2, 2, 1]);
        writers.leave(&writes(&[3, 5, 12, 25]));
        assert_eq!(of(&writers), [1, 1, 1]);
    }

    #[test]
    fn what_a_split_or_a_merge_leaves_behind_is_forgotten() {
        let mut writers = Writers::default();
        writers.remember(&range(0, 20), 7);
        assert_eq!(writers.get(&range(0, 10)), None, "it was split");
        writers.remember(&range(10, 20), 3);
        assert_eq!((writers.get(&range(0, 20)), writers.get(&range(10, 20))), (None, Some(3)));
        writers.remember(&range(0, 10), 4);
        writers.remember(&range(5, 15), 2);
        assert_eq!(writers.counts.len(), 1, "both overlap it");
    }
}
