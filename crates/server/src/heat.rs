//! The heat map: how often key ranges are accessed over time, in bounded memory.
//!
//! ```text
//!              10 s columns, ten minutes      1 min columns, an hour
//!   t [ ..100)   1 0 2 0 1 ..                   9 8 ..
//!   t [100..101) 80 90 85 ..                    510 502 ..      a hot key has a range of its own
//!   t [101.. )   3 4 1 ..                       20 19 ..
//! ```
//!
//! A table begins as one range. Each second a range with more than 1/[`HOT_SHARE`] of the accesses
//! is split at the median of the keys that were seen there lately; a key that has them all is cut
//! out. When there are more than [`RANGES_MAX`] ranges, the neighbours whose busiest column has the
//! least share of its time are merged.
//!
//! **Invariants.** A range that had more than 1/[`HOT_SHARE`] of the accesses in any column that is
//! kept is merged only if all pairs have such a range. **Memory.** A range takes up to 1.5 kB, keys
//! are cut to [`KEY_BYTES_MAX`]: 1.6 MB in all, however many keys there are.
//!
//! Ranges that are split pass their past on by the shares of the keys seen, which is an estimate.

use isomer_design::{Access, Key, TableId};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most ranges of all tables.
pub(crate) const RANGES_MAX: usize = 1024;
/// A range with more than this part of the accesses is hot.
const HOT_SHARE: u64 = 64;
/// Columns of each layer.
pub(crate) const COLUMNS: usize = 60;
/// Seconds of a column, by layer.
pub(crate) const LAYERS: [u64; 2] = [10, 60];
/// Keys that are remembered of each range, to know where to split it.
const SEEN: usize = 8;
/// Borders have no more bytes than this.
const KEY_BYTES_MAX: usize = 64;
const NS: u64 = 1_000_000_000;

/// Reads and writes of one column.
type Cell = [u32; 2];

/// The columns of a range, in a ring for each layer.
type Cells = [[Cell; COLUMNS]; LAYERS.len()];

#[derive(Clone)]
struct Range {
    cells: Box<Cells>,
    /// Keys of the last accesses.
    seen: Vec<Key>,
    /// Accesses since the last round, and half of those before.
    recent: u64,
    count: usize,
}

impl Range {
    fn new() -> Range {
        let cells = Box::new([[[0; 2]; COLUMNS]; LAYERS.len()]);
        Range { cells, seen: Vec::new(), recent: 0, count: 0 }
    }
}

/// A range as it is shown, with its columns from the oldest to the newest.
pub(crate) struct Shown {
    pub(crate) table: TableId,
    pub(crate) start: Key,
    /// `None` at the end of the table.
    pub(crate) end: Option<Key>,
    /// When the first column begins, in seconds since 1970.
    pub(crate) since: u64,
    /// The seconds of a column.
    pub(crate) seconds: u64,
    pub(crate) columns: Vec<Cell>,
}

/// See the [module documentation](self).
pub(crate) struct Heat {
    ranges: BTreeMap<(TableId, Key), Range>,
    /// All accesses, by layer and column.
    totals: [[u64; COLUMNS]; LAYERS.len()],
    /// The number of the current column of each layer, and the second of the last round.
    at: [u64; LAYERS.len()],
    round: u64,
}

impl Default for Heat {
    fn default() -> Heat {
        let totals = [[0; COLUMNS]; LAYERS.len()];
        Heat { ranges: BTreeMap::new(), totals, at: [0; LAYERS.len()], round: 0 }
    }
}

impl Heat {
    /// Counts an access that stands for this many.
    pub(crate) fn count(
        &mut self,
        now_ns: u64,
        table: TableId,
        key: &Key,
        access: Access,
        weight: u32,
    ) {
        self.go_on(now_ns / NS);
        let end = (table, key.clone());
        let found = self.ranges.range_mut(..=end).next_back();
        let range = match found.filter(|((of, _), _)| *of == table) {
            Some((_, range)) => range,
            None => self.ranges.entry((table, Key::min())).or_insert_with(Range::new),
        };
        let way = usize::from(access == Access::Write);
        for (layer, at) in self.at.iter().enumerate() {
            let column = (*at % COLUMNS as u64) as usize;
            let cell = &mut range.cells[layer][column][way];
            *cell = cell.saturating_add(weight);
            self.totals[layer][column] += u64::from(weight);
        }
        range.recent += u64::from(weight);
        range.count = range.count.wrapping_add(1);
        match range.seen.len() {
            0..SEEN => range.seen.push(key.clone()),
            // An odd step, so that a pattern of the load does not choose the same place each time.
            _ => range.seen[(range.count.wrapping_mul(5) / 3) % SEEN] = key.clone(),
        }
    }

    /// A partition begins here: a range does as well.
    pub(crate) fn cut(&mut self, table: TableId, at: &Key) {
        let within = self.ranges.range(..=(table, at.clone())).next_back();
        let Some((start, range)) = within.filter(|((of, _), _)| *of == table) else { return };
        if start.1 != *at {
            let (start, right) =
                (start.clone(), range.seen.iter().filter(|key| **key >= *at).count());
            let share = (right as f64 / range.seen.len().max(1) as f64, at.clone());
            self.split(&start, share);
        }
    }

    /// Clears the columns that begin, and splits and merges once a second.
    fn go_on(&mut self, second: u64) {
        for (layer, seconds) in LAYERS.iter().enumerate() {
            let now = second / seconds;
            let past = now.saturating_sub(self.at[layer]).min(COLUMNS as u64);
            for column in (0..past).map(|back| ((now - back) % COLUMNS as u64) as usize) {
                self.totals[layer][column] = 0;
                self.ranges.values_mut().for_each(|range| range.cells[layer][column] = [0; 2]);
            }
            self.at[layer] = self.at[layer].max(now);
        }
        if second > self.round {
            self.round = second;
            self.adapt();
        }
    }

    fn adapt(&mut self) {
        let all: u64 = self.ranges.values().map(|range| range.recent).sum();
        let is_hot = |range: &Range| range.recent > SEEN as u64 && range.recent * HOT_SHARE > all;
        let hot = self.ranges.iter().filter(|(_, range)| is_hot(range));
        let cuts: Vec<_> =
            hot.filter_map(|(at, range)| Some((at.clone(), cut_of(&at.1, range)?))).collect();
        for (start, cut) in cuts {
            self.split(&start, cut);
        }
        self.ranges.values_mut().for_each(|range| range.recent /= 2);
        if self.ranges.len() > RANGES_MAX {
            self.merge(self.ranges.len() - RANGES_MAX * 7 / 8);
        }
    }

    fn split(&mut self, start: &(TableId, Key), (right_share, cut): (f64, Key)) {
        let is_there = self.ranges.contains_key(&(start.0, cut.clone()));
        let Some(left) = self.ranges.get_mut(start).filter(|_| !is_there) else { return };
        let mut right = left.clone();
        let counts = left.cells.iter_mut().flatten().flatten();
        for (left, right) in counts.zip(right.cells.iter_mut().flatten().flatten()) {
            *right = (f64::from(*left) * right_share) as u32;
            *left -= *right;
        }
        right.recent = (left.recent as f64 * right_share) as u64;
        left.recent -= right.recent;
        right.seen.retain(|key| *key >= cut);
        left.seen.retain(|key| *key < cut);
        self.ranges.insert((start.0, cut), right);
    }

    /// The greatest share of a column's accesses that a range had.
    fn peak(&self, range: &Range) -> f64 {
        let mut peak = 0.0f64;
        for (cells, totals) in range.cells.iter().zip(&self.totals) {
            for (cell, total) in cells.iter().zip(totals).filter(|(_, total)| **total > 0) {
                let count = u64::from(cell[0]) + u64::from(cell[1]);
                peak = peak.max(count as f64 / *total as f64);
            }
        }
        peak
    }

    /// Merges `count` pairs of neighbours, the coldest first.
    fn merge(&mut self, count: usize) {
        let peaks: Vec<((TableId, Key), f64)> =
            self.ranges.iter().map(|(at, range)| (at.clone(), self.peak(range))).collect();
        let pairs = peaks.windows(2).filter(|pair| pair[0].0.0 == pair[1].0.0);
        let mut pairs: Vec<(f64, (TableId, Key))> =
            pairs.map(|pair| (pair[0].1.max(pair[1].1), pair[1].0.clone())).collect();
        pairs.sort_by(|one, next| one.0.total_cmp(&next.0));
        for (_, right) in pairs.into_iter().take(count) {
            let Some(gone) = self.ranges.remove(&right) else { continue };
            let before = self.ranges.range_mut(..right).next_back();
            let (_, left) = before.expect("the left one of the pair, or what it was merged into");
            let counts = left.cells.iter_mut().flatten().flatten();
            for (left, gone) in counts.zip(gone.cells.iter().flatten().flatten()) {
                *left = left.saturating_add(*gone);
            }
            left.recent += gone.recent;
            left.seen.extend(gone.seen);
            left.seen.truncate(SEEN);
        }
    }

    /// All ranges by table and key, in each layer.
    pub(crate) fn shown(&mut self, now_ns: u64) -> Vec<Shown> {
        self.go_on(now_ns / NS);
        let mut shown = Vec::new();
        for (layer, seconds) in LAYERS.into_iter().enumerate() {
            let first = (self.at[layer] + 1).saturating_sub(COLUMNS as u64);
            for ((table, start), range) in &self.ranges {
                let next = self
                    .ranges
                    .range((Bound::Excluded((*table, start.clone())), Bound::Unbounded))
                    .next();
                let end = next.filter(|((of, _), _)| of == table).map(|((_, key), _)| key.clone());
                let columns = (first..=self.at[layer])
                    .map(|at| range.cells[layer][(at % COLUMNS as u64) as usize]);
                let (columns, since) = (columns.collect(), first * seconds);
                shown.push(Shown {
                    table: *table,
                    start: start.clone(),
                    end,
                    since,
                    seconds,
                    columns,
                });
            }
        }
        shown
    }
}

/// Where a hot range is split, and the share of its accesses from there on; `None` if it is one
/// key, or not known.
fn cut_of(start: &Key, range: &Range) -> Option<(f64, Key)> {
    let mut seen: Vec<&Key> = range.seen.iter().collect();
    seen.sort();
    let middle = seen[seen.len() / 2..].iter().find(|key| ***key > *start);
    let cut = match middle {
        Some(key) => (*key).clone(),
        // All accesses are of the first key: the others go elsewhere.
        None if seen.len() == SEEN && seen[0] == start => start.successor(),
        None => return None,
    };
    let right = seen.iter().filter(|key| ***key >= cut).count();
    let is_short = cut.as_bytes().len() <= KEY_BYTES_MAX;
    is_short.then(|| (right as f64 / seen.len() as f64, cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    /// A second of accesses, of which every third is of the hot key.
    fn second(heat: &mut Heat, second: u64, hot: i64) {
        for n in 0..300u64 {
            let cold = (n * 7_919 + second * 104_729) % 10_000_000;
            let key = if n % 3 == 0 { hot } else { cold as i64 };
            heat.count(second * NS, T, &Key::int(key), Access::Write, 1);
        }
    }

    #[test]
    fn a_hot_key_gets_a_range_of_its_own_and_keeps_it_in_bounded_memory() {
        let mut heat = Heat::default();
        (1000..1120).for_each(|at| second(&mut heat, at, 4_711));
        // Another spot for half an hour: the first one stays to be seen.
        (1120..3000).for_each(|at| second(&mut heat, at, 9_000_000));
        assert!(heat.ranges.len() <= RANGES_MAX, "{}", heat.ranges.len());
        for hot in [4_711, 9_000_000] {
            let key = Key::int(hot);
            let (start, range) = heat.ranges.range(..=(T, key.clone())).next_back().expect("one");
            assert_eq!(start.1, key, "{hot} begins a range");
            assert!(heat.peak(range) > 0.3, "{hot}: {}", heat.peak(range));
        }
        let shown = heat.shown(3000 * NS);
        let minutes: Vec<&Shown> = shown.iter().filter(|it| it.seconds == 60).collect();
        let all: u64 =
            minutes.iter().flat_map(|it| &it.columns).map(|cell| u64::from(cell[1])).sum();
        assert_eq!(all, 2000 * 300, "nothing is lost by splits and merges");
        assert!(minutes.windows(2).all(|two| two[0].end.as_ref() == Some(&two[1].start)));
    }

    #[test]
    fn columns_that_are_over_are_cleared() {
        let mut heat = Heat::default();
        second(&mut heat, 50, 1);
        let count = |heat: &mut Heat, at: u64| -> u64 {
            let shown = heat.shown(at * NS);
            let cells = shown.iter().filter(|it| it.seconds == 10).flat_map(|it| &it.columns);
            cells.map(|cell| u64::from(cell[0] + cell[1])).sum()
        };
        assert_eq!(count(&mut heat, 50), 300);
        assert_eq!(count(&mut heat, 640), 300);
        assert_eq!(count(&mut heat, 650), 0, "ten minutes later");
    }

    #[test]
    fn a_range_begins_where_a_partition_does() {
        let mut heat = Heat::default();
        second(&mut heat, 50, 1);
        heat.cut(T, &Key::int(5_000_000));
        heat.cut(TableId(9), &Key::int(5));
        assert!(heat.ranges.contains_key(&(T, Key::int(5_000_000))));
    }
}
