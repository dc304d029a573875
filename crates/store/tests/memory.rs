//! Memory stays flat under endless updates, with and without long readers, and garbage is freed.
//!
//! The bounds are stated in rows, like those in the module documentation of `garbage`. Per context:
//! a few hundred superseded versions without a long reader. With long readers: some thousands more,
//! plus one version per key and long reader.
#![cfg(not(feature = "shuttle"))]

mod seeded;

use isomer_design::{Key, KeyRange, Time};
use isomer_store::{Context, Index, Store, pin};
use parking_lot::Mutex;
use seeded::Seeded;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// One test at a time, because other operations would delay the epochs.
static ALONE: Mutex<()> = Mutex::new(());

const KEYS: u64 = 500;
/// The slot of a row of these tests: header, key and value, rounded up.
const ROW_BYTES: usize = 24 + 4 + 100;
/// Limit on the superseded versions of a context without a long reader.
const GARBAGE_ROWS: usize = 300;
/// The same with long readers; the versions that they need come on top.
const HELD_UP_ROWS: usize = 6000;

struct Table {
    store: Store,
    index: Arc<Index>,
    empty_bytes: usize,
}

impl Table {
    fn new() -> Table {
        let store = Store::new(Time(1));
        let index = store.new_table();
        let table = Table { empty_bytes: 0, store, index };
        let mut context = table.store.context().unwrap();
        (0..KEYS).for_each(|key| table.write(&mut context, key, Some(0)));
        context.collect();
        drop(context);
        Table { empty_bytes: table.store.memory_bytes(), ..table }
    }

    fn write(&self, context: &mut Context<'_>, key: u64, value: Option<u64>) {
        context.hold();
        let (guard, key) = (pin(), Key::int(key as i64));
        let mut spot = self.index.spot(&key, &guard);
        let value = value.map(|number| [number.to_le_bytes().as_slice(), &[7; 92]].concat());
        let time = self.store.clock.tick(Time::ZERO);
        context.install(&self.index, &mut spot, &key, value.as_deref(), time, &guard);
        context.unpin();
        context.collect_some();
    }

    /// Random updates over all keys. Returns the maximal number of rows beyond one per key.
    fn update(&self, contexts: &mut [Context<'_>], random: &mut Seeded, updates: u64) -> usize {
        let mut peak = 0;
        for number in 0..updates {
            let context = random.below(contexts.len() as u64) as usize;
            self.write(&mut contexts[context], random.below(KEYS), Some(number));
            peak = peak.max(self.extra_rows());
        }
        peak
    }

    fn extra_rows(&self) -> usize {
        self.store.memory_bytes().saturating_sub(self.empty_bytes) / ROW_BYTES
    }

    /// A context with a snapshot of the present.
    fn look(&self) -> Context<'_> {
        let mut context = self.store.context().unwrap();
        let now = self.store.clock.last();
        context.snapshot(std::iter::empty(), now, Waker::noop()).unwrap();
        context
    }

    fn values(&self, context: &Context<'_>) -> Vec<Option<u64>> {
        let number = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
        let value = |key| context.get(&self.index, &Key::int(key as i64));
        (0..KEYS).map(|key| value(key).map(|row| number(row.value().unwrap()))).collect()
    }
}

#[test]
fn updates_take_no_memory_without_readers() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let mut contexts = [table.store.context().unwrap()];
    let peak = table.update(&mut contexts, &mut Seeded(1), 200_000);
    assert!(peak <= GARBAGE_ROWS, "{peak} rows");
    contexts[0].collect();
    assert_eq!((contexts[0].garbage_len(), table.extra_rows()), (0, 0));
}

#[test]
fn many_contexts_hold_bounded_garbage_each_and_free_it() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let mut contexts: Vec<_> = (0..40).map(|_| table.store.context().unwrap()).collect();
    let peak = table.update(&mut contexts, &mut Seeded(2), 200_000);
    assert!(peak <= 40 * GARBAGE_ROWS, "{peak} rows");
    drop(contexts);
    table.store.collect_idle(usize::MAX);
    assert!(table.extra_rows() > 0, "contexts leave uncollected garbage behind");
    table.store.collect_idle(usize::MAX); // No context has used the slots since then.
    assert_eq!(table.extra_rows(), 0);
}

#[test]
fn a_slow_reader_costs_one_version_per_key() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let reader = table.look();
    let before = table.values(&reader);
    let mut contexts = [table.store.context().unwrap()];
    let peak = table.update(&mut contexts, &mut Seeded(3), 300_000);
    assert!(peak <= KEYS as usize + HELD_UP_ROWS, "{peak} rows");
    assert_eq!(table.values(&reader), before, "the reader still sees what it saw first");
    drop(reader);
    contexts[0].collect();
    flush_epochs();
    assert_eq!((contexts[0].garbage_len(), table.extra_rows()), (0, 0));
}

#[test]
fn slow_readers_that_come_and_go_cost_one_version_per_key_each() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let random = &mut Seeded(4);
    let mut contexts: Vec<_> = (0..3).map(|_| table.store.context().unwrap()).collect();
    let mut readers = Vec::new();
    for round in 0..12 {
        let reader = table.look();
        let seen = table.values(&reader);
        readers.push((reader, seen));
        let peak = table.update(&mut contexts, random, 60_000);
        let bound = readers.len() * KEYS as usize + contexts.len() * HELD_UP_ROWS;
        assert!(peak <= bound, "{peak} rows in round {round}");
        if round % 4 > 1 {
            let (reader, seen) = readers.swap_remove(random.below(2) as usize);
            assert_eq!(table.values(&reader), seen);
        }
    }
    for (reader, seen) in readers {
        assert_eq!(table.values(&reader), seen);
    }
    contexts.iter_mut().for_each(Context::collect);
    contexts.iter_mut().for_each(Context::collect);
    flush_epochs();
    assert_eq!(table.extra_rows(), 0);
}

/// Keys that are inserted and deleted, old and new ones, under a reader that saw none of them.
#[test]
fn deletions_under_a_slow_reader_leave_nothing_behind() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let mut context = table.store.context().unwrap();
    let reader = table.look();
    let before = table.values(&reader);
    let mut peak = [0, 0];
    for number in 0..100_000 {
        let key = if number % 2 == 0 { KEYS + number % 50 } else { 2 * KEYS + number };
        table.write(&mut context, key, Some(number));
        table.write(&mut context, key, None);
        let half = (number / 50_000) as usize;
        peak[half] = peak[half].max(table.extra_rows() + context.garbage_len());
    }
    // Two versions and one tombstone entry for each.
    assert!(peak[1] <= 4 * HELD_UP_ROWS && peak[1] < 2 * peak[0], "{peak:?} rows");
    assert_eq!(table.values(&reader), before);
    let mut count = 0;
    reader.scan_newest(&table.index, &KeyRange::all(), |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    assert!(count <= KEYS as usize + HELD_UP_ROWS, "{count} keys are left in the index");
}

#[test]
fn deleted_keys_leave_the_index_with_all_versions() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let mut context = table.store.context().unwrap();
    (0..KEYS).for_each(|key| table.write(&mut context, key, None));
    context.collect();
    flush_epochs();
    assert_eq!(context.garbage_len(), 0);
    assert!(table.store.memory_bytes() < 2000, "a leaf and a node may be left");
}

/// Garbage may outlive the context that made it, and its slot may be in use again when
/// `collect_idle` runs.
#[test]
fn collecting_idle_contexts_spares_those_in_use() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let holder = table.look();
    let mut writer = table.store.context().unwrap();
    table.write(&mut writer, 1, Some(1));
    drop(writer); // Its garbage waits for the holder.
    let reader = table.look(); // Uses the writer's slot now.
    drop(holder);
    (0..2).for_each(|_| _ = table.store.collect_idle(usize::MAX));
    let mut writer = table.store.context().unwrap();
    for number in 2..1000 {
        table.write(&mut writer, 1, Some(number));
    }
    assert_eq!(table.values(&reader)[1], Some(1));
}

#[test]
#[should_panic(expected = "rows are read with a snapshot or a hold")]
fn rows_cannot_be_read_without_a_hold() {
    let _alone = ALONE.lock();
    let table = Table::new();
    let context = table.store.context().unwrap();
    context.scan_newest(&table.index, &KeyRange::all(), |_| ControlFlow::Break(()));
}

#[test]
#[should_panic(expected = "contexts use the indexes of their own store")]
fn contexts_cannot_read_another_store() {
    let _alone = ALONE.lock();
    let (one, other) = (Table::new(), Table::new());
    one.look().get(&other.index, &Key::int(1));
}

/// Creates and drops stores of some megabytes: rows, leaves, nodes, and rows too large for the
/// pools.
#[test]
#[cfg(target_os = "linux")]
fn a_dropped_store_returns_all_memory() {
    let _alone = ALONE.lock();
    let round = || {
        let table = Table::new();
        let mut context = table.store.context().unwrap();
        context.hold();
        for number in 0..20_000 {
            let (guard, key) = (pin(), Key::ints(&[number, 3 - number]));
            let value = vec![1; if number % 100 == 0 { 50_000 } else { 100 }];
            let mut spot = table.index.spot(&key, &guard);
            context.install(&table.index, &mut spot, &key, Some(&value), Time(2), &guard);
        }
    };
    (0..10).for_each(|_| round());
    let before = resident_bytes();
    (0..30).for_each(|_| round());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes more after 30 stores of 14 MB each");
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Advances this thread's epochs, so that deferred memory is freed.
fn flush_epochs() {
    drop(Store::new(Time(1)).new_table());
}
