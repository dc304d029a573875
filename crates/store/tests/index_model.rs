//! The index compared with a sorted map: the same operations on both give the same contents.
//!
//! One thread, so that every difference is a fault of the tree; `schedules.rs` tests many threads.
//! The keys come in four families: short ones, which fit the word of a leaf's entry; long ones that
//! agree in the bytes of that word; composite ones; and integers.
#![cfg(not(feature = "shuttle"))]

mod seeded;

use isomer_design::{Direction, Key, KeyRange, Time};
use isomer_store::{Context, Index, Row, Store, pin};
use parking_lot::Mutex;
use seeded::Seeded;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::task::Waker;

/// One test at a time, because other operations would delay the epochs.
static ALONE: Mutex<()> = Mutex::new(());

type Bytes = Vec<u8>;
type Family = fn(&mut Seeded) -> Bytes;

const FAMILIES: [Family; 4] = [short, alike, composite, integer];

fn short(random: &mut Seeded) -> Bytes {
    letters(random, 8)
}

/// Up to 40 bytes with more equal leading bytes than the seven that a word holds.
fn alike(random: &mut Seeded) -> Bytes {
    let head = b"warehouse/district/"[..8 + random.below(12) as usize].to_vec();
    [head, letters(random, 21)].concat()
}

fn composite(random: &mut Seeded) -> Bytes {
    let mut column = |bound| random.below(bound) as i64 - 2;
    Key::ints(&[column(4), column(70_000), column(40)]).to_vec()
}

fn integer(random: &mut Seeded) -> Bytes {
    Key::int(random.below(20_000) as i64 - 10_000).to_vec()
}

fn letters(random: &mut Seeded, count: u64) -> Bytes {
    (0..random.below(count)).map(|_| [0, 1, b'a', 0xff][random.below(4) as usize]).collect()
}

/// A table in the store, and the contents it should have.
struct Twin<'s> {
    context: Context<'s>,
    store: &'s Store,
    index: Arc<Index>,
    model: BTreeMap<Bytes, Bytes>,
}

impl<'s> Twin<'s> {
    fn new(store: &'s Store) -> Twin<'s> {
        let context = store.context().unwrap();
        Twin { context, store, index: store.new_table(), model: BTreeMap::new() }
    }

    fn write(&mut self, key: &[u8], value: Option<Bytes>) {
        self.context.hold();
        let (guard, time) = (pin(), self.store.clock.tick(Time::ZERO));
        let mut spot = self.index.spot(key, &guard);
        self.context.install(&self.index, &mut spot, key, value.as_deref(), time, &guard);
        self.context.unpin();
        self.context.collect_some();
        match value {
            Some(value) => self.model.insert(key.to_vec(), value),
            None => self.model.remove(key),
        };
    }

    fn put(&mut self, key: &[u8]) {
        let value = self.model.len().to_le_bytes().repeat(3);
        self.write(key, Some(value));
    }

    fn look(&mut self) {
        let now = self.store.clock.last();
        self.context.snapshot(std::iter::empty(), now, Waker::noop()).unwrap();
    }

    fn check_key(&self, key: &[u8]) {
        let found = self.context.get(&self.index, key).map(|row| row.value().unwrap());
        assert_eq!(found, self.model.get(key).map(Vec::as_slice), "{key:x?}");
    }

    /// Compares up to `limit` rows from `start` on and below `end`.
    fn check_scan(&self, start: &[u8], end: Option<&[u8]>, limit: usize) {
        let range = KeyRange::new(Key::from_bytes(start), end.map(Key::from_bytes));
        let mut seen: Vec<&Row> = Vec::new();
        self.context.scan(&self.index, &range, |row| {
            seen.push(row);
            if seen.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let seen = seen.iter().map(|row| (row.key(), row.value().unwrap()));
        let expected = self.model.range(start.to_vec()..).map(|(key, value)| (&**key, &**value));
        let expected = expected.take_while(|(key, _)| end.is_none_or(|end| *key < end)).take(limit);
        assert!(seen.eq(expected), "{range}");
        self.check_scan_backward(&range, limit);
    }

    /// Like the forward scan, from the end.
    fn check_scan_backward(&self, range: &KeyRange, limit: usize) {
        let mut seen: Vec<&Row> = Vec::new();
        self.context.scan_along(&self.index, range, Direction::Backward, |row| {
            seen.push(row);
            if seen.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let seen = seen.iter().map(|row| (row.key(), row.value().unwrap()));
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()));
        let expected = self.model.range((Bound::Unbounded, end)).rev();
        let expected = expected.map(|(key, value)| (&**key, &**value));
        let expected = expected.take_while(|(key, _)| *key >= range.start.as_bytes()).take(limit);
        assert!(seen.eq(expected), "{range} backward");
    }

    /// Checks every key, a scan of everything, and short scans from every key and from between
    /// keys.
    fn check_all(&mut self) {
        self.look();
        self.check_scan(&[], None, usize::MAX);
        for key in self.model.keys() {
            self.check_key(key);
            self.check_scan(key, None, 3);
            self.check_scan(&[], Some(key), 3);
            self.check_scan(&Key::from_bytes(key).successor(), None, 2);
        }
        self.context.unpin();
    }

    fn collect_all(&mut self) {
        self.context.collect();
        assert_eq!(self.context.garbage_len(), 0, "no snapshot needs old versions");
    }

    /// The number of keys in the index, deletions included.
    fn keys_in_index(&mut self) -> usize {
        let mut count = 0;
        self.context.hold();
        self.context.scan_newest(&self.index, &KeyRange::all(), |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        self.context.unpin();
        count
    }
}

#[test]
fn keys_inserted_in_any_order_are_found_in_order() {
    let _alone = ALONE.lock();
    for (seed, family) in FAMILIES.into_iter().enumerate() {
        let random = &mut Seeded(seed as u64);
        let mut keys: Vec<Bytes> = (0..3000).map(|_| family(random)).collect();
        for order in ["random", "up", "down"] {
            match order {
                "up" => keys.sort(),
                "down" => keys.reverse(),
                _ => {}
            }
            let store = Store::new(Time(1));
            let mut twin = Twin::new(&store);
            keys.iter().for_each(|key| twin.put(key));
            twin.check_all();
        }
    }
}

/// Phases of growth and decline, in which leaves and whole nodes become empty and fill up again.
#[test]
fn any_operations_leave_index_and_map_equal() {
    let _alone = ALONE.lock();
    for seed in 0..12 {
        let random = &mut Seeded(seed);
        let family = FAMILIES[seed as usize % FAMILIES.len()];
        let store = Store::new(Time(1));
        let mut twin = Twin::new(&store);
        for phase in 0..8 {
            let deletes = [5, 95, 30, 100][phase % 4];
            for _ in 0..4000 {
                let key = family(random);
                // Most deletions should hit a row.
                let near = twin.model.range(key.clone()..).next().map(|(key, _)| key.clone());
                match near {
                    Some(near) if random.below(100) < deletes => twin.write(&near, None),
                    _ if deletes == 100 => {}
                    _ => twin.put(&key),
                }
            }
            twin.check_all();
            twin.collect_all();
            assert_eq!(twin.keys_in_index(), twin.model.len(), "deleted keys leave the index");
        }
        for _ in 0..300 {
            let (start, end) = (family(random), family(random));
            twin.look();
            twin.check_scan(&start, Some(&end), 1 + random.below(200) as usize);
        }
    }
}

/// The tree has several levels, becomes empty range by range, in either direction, and is filled
/// again from the middle of the emptied part.
#[test]
fn an_emptied_index_can_be_filled_again() {
    let _alone = ALONE.lock();
    let store = Store::new(Time(1));
    let mut twin = Twin::new(&store);
    let all: Vec<Bytes> = (0..40_000).map(|key| Key::ints(&[7, key]).to_vec()).collect();
    for round in 0..4 {
        all.iter().for_each(|key| twin.put(key));
        twin.look();
        twin.check_scan(&[], None, usize::MAX);
        twin.context.unpin();
        let (from, to) = [(0, 40_000), (13_000, 29_000), (1, 20_000), (20_000, 40_000)][round];
        if round % 2 == 0 {
            all[from..to].iter().for_each(|key| twin.write(key, None));
        } else {
            all[from..to].iter().rev().for_each(|key| twin.write(key, None));
        }
        twin.collect_all();
        assert_eq!(twin.keys_in_index(), twin.model.len());
        all[from..to].iter().skip(3).step_by(7).for_each(|key| twin.put(key));
        twin.look();
        all[from..to].iter().for_each(|key| twin.check_key(key));
        twin.check_scan(&[], None, usize::MAX);
        twin.context.unpin();
    }
}

/// A queue: inserts at one end, deletes at the other. Empty nodes must leave the tree, or memory
/// would grow with every row that ever passed through.
#[test]
fn a_queue_takes_no_more_memory_than_it_holds() {
    let _alone = ALONE.lock();
    let store = Store::new(Time(1));
    let mut twin = Twin::new(&store);
    let key = |number: i64| Key::ints(&[1, number]).to_vec();
    let mut peak = [0, 0];
    for number in 0..200_000 {
        twin.put(&key(number));
        if number >= 500 {
            twin.write(&key(number - 500), None);
        }
        let half = (number / 100_000) as usize;
        peak[half] = store.memory_bytes().max(peak[half]);
    }
    assert!(peak[1] < peak[0] + 64_000, "the second half needs no more than the first: {peak:?}");
    twin.check_all();
}

/// Rows above 4096 bytes do not fit the classes of a pool. The keys fit one leaf.
#[test]
fn rows_of_any_size_come_back_whole_and_leave_no_trace() {
    let _alone = ALONE.lock();
    let store = Store::new(Time(1));
    let mut twin = Twin::new(&store);
    let random = &mut Seeded(9);
    let empty = store.memory_bytes();
    for round in 0..400u64 {
        let key = Key::int(random.below(25) as i64).to_vec();
        let bytes = [0, 1, 100, 4071, 4072, 4073, 9000, 70_000][random.below(8) as usize];
        let value = (0..bytes).map(|at: u64| (at ^ round) as u8).collect();
        twin.write(&key, (random.below(5) > 0).then_some(value));
    }
    twin.check_all();
    for key in twin.model.clone().into_keys() {
        twin.write(&key, None);
    }
    twin.collect_all();
    drop(Store::new(Time(1)).new_table()); // Lets epochs pass.
    assert_eq!(store.memory_bytes(), empty);
}

#[test]
fn a_purged_range_is_empty_and_the_rest_is_not() {
    let _alone = ALONE.lock();
    let store = Store::new(Time(1));
    let mut twin = Twin::new(&store);
    (0..5000).for_each(|key| twin.put(&Key::int(key)));
    (0..5000).step_by(3).for_each(|key| twin.write(&Key::int(key), None));
    twin.context.purge(&twin.index, &KeyRange::ints(1000, 4000));
    let range = Key::int(1000).to_vec()..Key::int(4000).to_vec();
    twin.model.extract_if(range, |_, _| true).for_each(drop);
    twin.check_all();
    twin.collect_all();
    assert_eq!(twin.keys_in_index(), twin.model.len());
}
