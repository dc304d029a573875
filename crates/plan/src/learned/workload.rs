//! How often a range of keys is read and written, and which other ranges are accessed with it.
//!
//! The paper (MorphoSys, section 5.1) counts per partition, and has to divide or add up the counts
//! when partitions split and merge. Here the sampled transactions themselves are kept and indexed
//! by their keys. A probability is computed from the samples on demand:
//!
//! ```text
//!   sampled keys   3 ─▶ #1    5 ─▶ #1 #4    12 ─▶ #4    40 ─▶ #2 #3
//!                  └──── [0..10) ────┘
//!                        accessed by #1 and #4; half of these also write [10..20)
//! ```
//!
//! So splits and merges need no bookkeeping, and the distribution of accesses inside a partition is
//! known instead of assumed to be even.
//!
//! **Cost.** Decisions ask about the same ranges repeatedly: about partitions, and about the parts
//! of a possible split. Each answer is cached until an eighth of the samples is new. An answer
//! takes about [`Tuning::LOOKED_AT`] steps, for any length of transactions and size of the range. A
//! range with fewer accesses is counted exactly; a larger one is estimated from that number of
//! samples, evenly chosen.
//!
//! **Memory** is bounded by the reservoir: [`Damping::size`] samples of at most
//! [`Tuning::ITEMS_MAX`] items each. Of a larger footprint, evenly chosen items are kept.
//!
//! **Emulated transactions.** The paper adds transactions drawn from the co-access probabilities to
//! its samples, for robustness. With all samples of a range at hand they bring nothing, so there
//! are none by default; the [ablation](../../../../docs/results/ablation.md) shows both.

use super::range::Range;
use super::reservoir::{Damping, Reservoir};
use super::tuning::Tuning;
use isomer_design::{Access, Design, Footprint, Item, Key, KeyRange, Schema, Span, TableId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// A sampled transaction.
#[derive(Debug)]
pub struct Sample {
    number: u64,
    /// The keys that it read and wrote.
    pub footprint: Footprint,
    /// The number of rows that it read and wrote.
    pub rows: [usize; 2],
    /// Its latency, in microseconds.
    pub took_us: f64,
}

impl Sample {
    /// True for every other sample.
    pub(crate) fn is_odd(&self) -> bool {
        self.number % 2 == 1
    }
}

/// Reads and writes of a range, as shares of all accesses: R(p) and W(p).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shares {
    /// R(p).
    pub read: f64,
    /// W(p).
    pub written: f64,
}

/// A range of keys, and a sample that accesses it.
type Ranged = (KeyRange, Arc<Sample>);

/// The cached answers about a range.
#[derive(Clone, Debug)]
struct Counted {
    shares: Shares,
    writers: f64,
    /// The number of parts last asked for, and the cuts for it.
    cuts: Option<(usize, Vec<Key>)>,
    /// The value of `Workload::taken` at that time.
    taken: u64,
}

/// The samples that access given ranges, the oldest first.
pub struct Touching<'w> {
    /// All such samples, or an even selection of them.
    pub samples: Vec<&'w Arc<Sample>>,
    /// The number of samples that each of these stands for.
    pub each: f64,
}

impl Touching<'_> {
    /// The estimated number of samples that access the ranges.
    pub fn count(&self) -> f64 {
        self.samples.len() as f64 * self.each
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) reservoir: Reservoir<Arc<Sample>>,
    /// The samples with single keys, by key; and those with ranges, by access.
    keys: BTreeMap<(TableId, Key), Vec<Arc<Sample>>>,
    ranges: BTreeMap<(TableId, Access), Vec<Ranged>>,
    accesses: usize,
    taken: u64,
    counted: RefCell<BTreeMap<Range, Counted>>,
    /// Recent lock hold times of partitions, by their start.
    held_us: BTreeMap<(TableId, Key), f64>,
}

impl Workload {
    /// A workload without samples.
    ///
    /// # Panics
    /// As [`Reservoir::new`].
    pub fn new(damping: Damping, now_ns: u64) -> Workload {
        Workload {
            reservoir: Reservoir::new(damping, now_ns),
            keys: BTreeMap::new(),
            ranges: BTreeMap::new(),
            accesses: 0,
            taken: 0,
            counted: RefCell::default(),
            held_us: BTreeMap::new(),
        }
    }

    /// Offers a transaction that read and wrote `rows` and took `took_us`; `chances` are two random
    /// numbers in [0, 1). Returns true if it is kept.
    pub fn offer(
        &mut self,
        now_ns: u64,
        footprint: &Footprint,
        rows: [usize; 2],
        took_us: f64,
        chances: [f64; 2],
    ) -> bool {
        if footprint.is_empty() || !self.reservoir.wants(now_ns, chances[0]) {
            return false;
        }
        let expired: Vec<Arc<Sample>> = self.reservoir.expire(now_ns).collect();
        expired.iter().for_each(|sample| self.forget(sample));
        self.taken += 1;
        let sample =
            Arc::new(Sample { number: self.taken, footprint: thinned(footprint), rows, took_us });
        self.enter(&sample);
        if let Some(replaced) = self.reservoir.take(now_ns, sample, chances[1]) {
            self.forget(&replaced);
        }
        true
    }

    /// As [`Reservoir::sides`].
    pub(crate) fn sides(&self) -> impl Iterator<Item = (bool, &Sample)> + Clone {
        self.reservoir.sides().map(|(is_new, sample)| (is_new, &**sample))
    }

    /// As [`Reservoir::end_renewal`].
    pub(crate) fn end_renewal(&mut self, is_another: bool) {
        let old: Vec<Arc<Sample>> = self.reservoir.end_renewal(is_another).collect();
        old.iter().for_each(|sample| self.forget(sample));
        if !old.is_empty() {
            self.counted.borrow_mut().clear();
        }
    }

    /// The number of samples.
    pub(crate) fn len(&self) -> usize {
        self.reservoir.items().len()
    }

    /// All samples, in no order.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.reservoir.items().map(|sample| &**sample)
    }

    /// The shares of all accesses that go to the range.
    pub fn shares(&self, range: &Range) -> Shares {
        self.counted(range, |counted| counted.shares)
    }

    /// The share of all transactions that write to the range.
    pub fn writers(&self, range: &Range) -> f64 {
        self.counted(range, |counted| counted.writers)
    }

    /// Reads the cached answers about a range, and renews them if they are too old.
    fn counted<T>(&self, range: &Range, look: impl FnOnce(&mut Counted) -> T) -> T {
        let mut counted = self.counted.borrow_mut();
        let is_recent =
            |found: &Counted| self.taken - found.taken <= (self.len() / Tuning::SEVERAL) as u64;
        if let Some(found) = counted.get_mut(range).filter(|found| is_recent(found)) {
            return look(found);
        }
        if counted.len() >= Tuning::PARTITIONS_MAX {
            counted.clear();
        }
        let mut found = self.count(range);
        let looked = look(&mut found);
        counted.insert(range.clone(), found);
        looked
    }

    fn count(&self, range: &Range) -> Counted {
        let touching = self.touching_any(std::slice::from_ref(range));
        let (mut counts, mut writers) = ([0.0, 0.0], 0.0);
        for sample in &touching.samples {
            let items = range.touched_by(&sample.footprint);
            let [read, written] =
                items.fold([0.0, 0.0], |[read, written], item| match item.access {
                    Access::Read => [read + 1.0, written],
                    Access::Write => [read, written + 1.0],
                });
            counts = [counts[0] + read, counts[1] + written];
            writers += f64::from(u8::from(written > 0.0));
        }
        let all = self.accesses.max(1) as f64;
        let [read, written] = counts.map(|count| count * touching.each / all);
        let writers = writers * touching.each / self.len().max(1) as f64;
        Counted { shares: Shares { read, written }, writers, cuts: None, taken: self.taken }
    }

    /// Records the time for which a transaction held the lock of the partition that begins at
    /// `place`.
    pub fn hold(&mut self, place: (TableId, Key), held_us: f64) {
        if self.held_us.len() >= Tuning::PARTITIONS_MAX {
            self.held_us.clear();
        }
        let mean = self.held_us.entry(place).or_insert(held_us);
        *mean += Tuning::HELD_PACE * (held_us - *mean);
    }

    /// The recent lock hold time of writers of a range, in microseconds; for a part of a partition,
    /// that of the partition. `None` if no writer was measured.
    pub fn held_us(&self, range: &Range) -> Option<f64> {
        let place = (range.table, range.keys.start.clone());
        let found = self.held_us.range(..=place).next_back();
        found.filter(|(place, _)| place.0 == range.table).map(|(_, us)| *us)
    }

    /// The keys at which to cut a range into about `parts` parts with equal accesses. A key with
    /// the accesses of a whole part gets one of its own. No cuts if fewer than two keys are known.
    pub fn cuts(&self, range: &Range, parts: usize) -> Vec<Key> {
        self.counted(range, |counted| match &counted.cuts {
            Some((known, cuts)) if *known == parts => cuts.clone(),
            _ => {
                let cuts = self.find_cuts(range, parts);
                counted.cuts = Some((parts, cuts.clone()));
                cuts
            }
        })
    }

    fn find_cuts(&self, range: &Range, parts: usize) -> Vec<Key> {
        let keys = self.keys_in(range);
        if keys.clone().take(Tuning::LOOKED_AT + 1).count() <= Tuning::LOOKED_AT {
            return even_cuts(keys.map(|((_, key), samples)| (key, samples.len() as u64)), parts);
        }
        // A subset of the samples has the same quantiles.
        let mut counts: BTreeMap<&Key, u64> = BTreeMap::new();
        for sample in self.some(Tuning::LOOKED_AT / Tuning::SEVERAL) {
            for item in range.touched_by(&sample.footprint) {
                if let Span::Key(key) = &item.span {
                    *counts.entry(key).or_default() += 1;
                }
            }
        }
        even_cuts(counts.iter().map(|(key, count)| (*key, *count)), parts)
    }

    /// Plausible transactions (MorphoSys 5.3.1): each accesses two partitions as one of the samples
    /// does, at any of the known keys there. The choice is random, so likely transactions are
    /// frequent.
    pub(crate) fn emulated(
        &self,
        design: &Design,
        samples: &[&Sample],
        count: usize,
    ) -> Vec<Sample> {
        let any = |item: &Item, at: usize| {
            let Span::Key(key) = &item.span else { return item.span.clone() };
            let found = design.partition_of(item.table, key);
            let range = found.map(|(keys, _)| Range { table: item.table, keys });
            let mut keys = range.iter().flat_map(|range| self.keys_in(range));
            let count = keys.clone().count().max(1);
            Span::Key(keys.nth(at % count).map_or(key, |((_, other), _)| other).clone())
        };
        // A substitute for randomness: strides without a common factor.
        let emulate = |at: usize| {
            let items = samples[at % samples.len()].footprint.items();
            let mut footprint = Footprint::new();
            for item in [&items[7 * at % items.len()], &items[11 * at % items.len()]] {
                footprint.add(item.table, any(item, 13 * at), item.access);
            }
            let written = footprint.items().iter().filter(|item| item.access == Access::Write);
            let rows = [footprint.items().len(), written.count()];
            Sample { number: 0, footprint, rows, took_us: 0.0 }
        };
        (0..if samples.is_empty() { 0 } else { count }).map(emulate).collect()
    }

    /// The bounds before the values of the first column that accessed keys of a range have, and the
    /// starts of accessed ranges. `None` if the key has no second column, or the samples have no
    /// such value, or more than `most`.
    pub(crate) fn firsts(&self, range: &Range, schema: &Schema, most: usize) -> Option<Vec<Key>> {
        if schema.key_columns().len() < 2 {
            return None;
        }
        let keys = self.keys_in(range).map(|((_, key), _)| key);
        let starts = [Access::Read, Access::Write].into_iter().flat_map(|access| {
            let ranges = self.ranges.get(&(range.table, access)).into_iter().flatten();
            ranges.map(|(accessed, _)| &accessed.start).filter(|start| range.keys.contains(start))
        });
        let mut firsts: BTreeSet<Key> = BTreeSet::new();
        for key in keys.chain(starts) {
            let before = firsts.range::<Key, _>(..=key).next_back();
            if before.is_some_and(|first| key.starts_with(first)) {
                continue;
            }
            // The start of a range may have no value.
            let Some(first) = schema.decode_prefix(key).0.into_iter().next() else { continue };
            firsts.insert(schema.encode_prefix(&[first]).ok()?);
            if firsts.len() > most {
                return None;
            }
        }
        (!firsts.is_empty()).then(|| firsts.into_iter().collect())
    }

    /// The samples that access any of the ranges.
    pub fn touching_any<'a>(&'a self, ranges: &'a [Range]) -> Touching<'a> {
        let single = ranges.iter().flat_map(|range| self.keys_in(range));
        let single = single.flat_map(|(_, samples)| samples);
        let wide = |access| ranges.iter().flat_map(move |range| self.ranges_in(range, access));
        let wide = wide(Access::Read).chain(wide(Access::Write));
        let (mut samples, mut each): (Vec<&Arc<Sample>>, f64) =
            (single.chain(wide).take(Tuning::LOOKED_AT + 1).collect(), 1.0);
        if samples.len() > Tuning::LOOKED_AT {
            let touches =
                |sample: &Sample| ranges.iter().any(|r| r.is_touched_by(&sample.footprint));
            samples = self.some(Tuning::LOOKED_AT).filter(|sample| touches(sample)).collect();
            each = self.len() as f64 / self.len().min(Tuning::LOOKED_AT) as f64;
        }
        samples.sort_unstable_by_key(|sample| sample.number);
        samples.dedup_by_key(|sample| sample.number);
        Touching { samples, each }
    }

    /// An even selection of `count` samples, or all if there are fewer.
    fn some(&self, count: usize) -> impl Iterator<Item = &Arc<Sample>> {
        let (all, len) = (self.reservoir.items(), self.len());
        let count = count.min(len);
        let is_chosen = move |at: usize| at * count / len != (at + 1) * count / len;
        all.enumerate().filter(move |(at, _)| is_chosen(*at)).map(|(_, sample)| sample)
    }

    fn keys_in<'a>(
        &'a self,
        range: &'a Range,
    ) -> impl Iterator<Item = (&'a (TableId, Key), &'a Vec<Arc<Sample>>)> + Clone {
        let Range { table, keys } = range;
        let from = Bound::Included((*table, keys.start.clone()));
        let to = match &keys.end {
            Some(end) => Bound::Excluded((*table, end.clone())),
            None => Bound::Excluded((TableId(table.0 + 1), Key::min())),
        };
        self.keys.range((from, to))
    }

    /// The samples with this access to a range that overlaps `range`, once for each such range.
    fn ranges_in<'a>(
        &'a self,
        range: &'a Range,
        access: Access,
    ) -> impl Iterator<Item = &'a Arc<Sample>> {
        let ranges = self.ranges.get(&(range.table, access)).into_iter().flatten();
        ranges.filter(|(other, _)| other.overlaps(&range.keys)).map(|(_, sample)| sample)
    }

    fn enter(&mut self, sample: &Arc<Sample>) {
        self.accesses += sample.footprint.items().len();
        for item in sample.footprint.items() {
            match &item.span {
                Span::Key(key) => {
                    let samples = self.keys.entry((item.table, key.clone())).or_default();
                    samples.push(sample.clone());
                }
                Span::Range(range) => {
                    let ranges = self.ranges.entry((item.table, item.access)).or_default();
                    ranges.push((range.clone(), sample.clone()));
                }
            }
        }
    }

    fn forget(&mut self, sample: &Arc<Sample>) {
        self.accesses -= sample.footprint.items().len();
        for item in sample.footprint.items() {
            if let Span::Key(key) = &item.span {
                let place = (item.table, key.clone());
                let samples = self.keys.get_mut(&place).expect("a sample is found by its keys");
                samples.retain(|other| other.number != sample.number);
                if samples.is_empty() {
                    self.keys.remove(&place);
                }
            } else if let Some(ranges) = self.ranges.get_mut(&(item.table, item.access)) {
                ranges.retain(|(_, other)| other.number != sample.number);
            }
        }
        self.ranges.retain(|_, ranges| !ranges.is_empty());
    }
}

/// A footprint with at most [`Tuning::ITEMS_MAX`] of the items, evenly chosen.
fn thinned(footprint: &Footprint) -> Footprint {
    let items = footprint.items();
    let count = items.len().min(Tuning::ITEMS_MAX);
    let mut kept = Footprint::new();
    for item in (0..count).map(|i| &items[i * items.len() / count]) {
        kept.add(item.table, item.span.clone(), item.access);
    }
    kept
}

/// Cuts between keys, given in order with their weights, into about `parts` parts of equal weight.
/// A key with the weight of a whole part stands alone.
pub(crate) fn even_cuts<'k>(
    keys: impl Iterator<Item = (&'k Key, u64)> + Clone,
    parts: usize,
) -> Vec<Key> {
    let all: u64 = keys.clone().map(|(_, weight)| weight).sum();
    let share = (all / parts.max(2) as u64).max(1);
    let (mut cuts, mut part) = (Vec::new(), 0);
    for (key, weight) in keys {
        // The key goes to the next part unless that makes this one far too light.
        if part > 0 && (part >= share || share - part <= (part + weight).saturating_sub(share)) {
            cuts.push(key.clone());
            part = 0;
        }
        part += weight;
    }
    cuts.truncate(2 * parts);
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    fn range(from: i64, to: i64) -> Range {
        Range { table: T, keys: KeyRange::ints(from, to) }
    }

    fn workload(size: usize, footprints: &[Footprint]) -> Workload {
        let damping = Damping { size, window_ns: 100, expiry_ns: 1000, ..Damping::default() };
        let mut workload = Workload::new(damping, 0);
        for footprint in footprints {
            assert!(workload.offer(1, footprint, [0, 0], 0.0, [0.0, 0.0]));
        }
        workload
    }

    fn write(keys: &[i64]) -> Footprint {
        keys.iter().fold(Footprint::new(), |footprint, key| footprint.write(T, Key::int(*key)))
    }

    /// The picture at the head of the module.
    fn picture() -> Workload {
        workload(
            10,
            &[
                write(&[3]).read(T, Key::int(5)),
                write(&[40]),
                write(&[40]).read_range(T, KeyRange::ints(30, 50)),
                write(&[5, 12]),
            ],
        )
    }

    #[test]
    fn shares_are_of_all_accesses() {
        let workload = picture();
        let of = |from, to| workload.shares(&range(from, to));
        assert_eq!(of(0, 10), Shares { read: 1.0 / 7.0, written: 2.0 / 7.0 });
        assert_eq!(of(30, 41), Shares { read: 1.0 / 7.0, written: 2.0 / 7.0 });
        assert_eq!(of(20, 30), Shares::default());
        // The shares of the parts of a split are exact, without an assumption.
        let (left, right) = (of(0, 5), of(5, 10));
        assert_eq!(left.written + right.written, of(0, 10).written);
    }

    #[test]
    fn writers_are_cached_until_samples_or_the_range_change() {
        let mut workload = workload(64, &vec![write(&[3, 4]); 64]);
        assert_eq!(workload.writers(&range(0, 10)), 1.0, "each once, whatever it writes");
        assert_eq!(workload.writers(&range(10, 20)), 0.0);
        for taken in 1..=9 {
            let replaced = f64::from(taken) / 64.0;
            assert!(workload.offer(1, &write(&[20]), [0, 0], 0.0, [0.0, replaced]));
        }
        assert_eq!(workload.writers(&range(0, 10)), 55.0 / 64.0);
        assert_eq!(workload.writers(&range(0, 4)), 55.0 / 64.0, "it was split");
        assert_eq!(workload.writers(&range(0, 3)), 0.0);
    }

    #[test]
    fn a_range_is_cut_where_its_accesses_are() {
        let cut = |keys: &[i64], parts| {
            let each: Vec<Footprint> = keys.iter().map(|key| write(&[*key])).collect();
            workload(10, &each).cuts(&range(0, 100), parts)
        };
        let keys = |keys: &[i64]| keys.iter().map(|key| Key::int(*key)).collect::<Vec<_>>();
        assert_eq!(cut(&[90, 92, 94, 96], 2), keys(&[94]));
        assert_eq!(cut(&[90, 92, 94, 96], 4), keys(&[92, 94, 96]));
        assert_eq!(cut(&[5, 50, 50, 50, 50, 50], 2), keys(&[50]), "a hot key stands alone");
        assert_eq!(cut(&[50, 50, 50, 50, 50, 70], 2), keys(&[70]));
        assert_eq!(cut(&[0, 0, 0, 0, 0, 70], 2), keys(&[70]));
        assert_eq!(cut(&[1, 2, 3, 3, 3, 3, 4, 5], 4), keys(&[3, 4]));
        assert_eq!((cut(&[0, 0], 2), cut(&[], 2)), (keys(&[]), keys(&[])));
    }

    #[test]
    fn evicted_samples_leave_no_trace() {
        let mut workload = workload(1, &[write(&[3, 5])]);
        let scan = Footprint::new().read_range(T, KeyRange::ints(0, 50));
        assert!(workload.offer(2, &scan, [0, 0], 0.0, [0.0, 0.0]));
        assert_eq!(workload.shares(&range(0, 10)), Shares { read: 1.0, written: 0.0 });
        assert!(
            workload.offer(5000, &write(&[7]), [0, 0], 0.0, [0.0, 0.0]),
            "the scan has expired"
        );
        assert_eq!(workload.shares(&range(0, 10)), Shares { read: 0.0, written: 1.0 });
        assert_eq!((workload.len(), workload.keys.len(), workload.ranges.len()), (1, 1, 0));
    }

    #[test]
    fn wide_footprints_are_thinned_evenly() {
        let keys: Vec<i64> = (0..1000).collect();
        let workload = workload(2, &[write(&keys)]);
        assert_eq!(workload.accesses, Tuning::ITEMS_MAX);
        let half = workload.shares(&range(0, 500)).written;
        assert!((half - 0.5).abs() < 0.02, "{half}");
    }
}
