//! Concurrent operations on the store, under thousands of schedules.
//!
//! With the feature `shuttle`, every atomic and mutex of the crate is one of the crate `shuttle`,
//! whose scheduler decides at each of them which thread runs next. Each test below is a small story
//! of two or three threads, repeated under random schedules, and under those of PCT, which finds
//! bugs of few preemptions with a guaranteed probability. `cargo test -p isomer-store --features
//! shuttle` runs them.
//!
//! **Coverage.** Schedules are sequentially consistent; comments in the code argue for the
//! reorderings of weaker machines. `crossbeam-epoch` and `arc-swap` are not replaced: they never
//! wait for another thread. All threads of a story share one real thread, so the epoch stands still
//! while any of them holds a guard. Epochs therefore keep memory for longer than in production.
//! Pins do not, and their races are the ones to explore.
//!
//! **Detection.** Freed memory is overwritten and, under this feature, not reused; rows assert that
//! they are not read after that. Values are one byte, repeated. The scheduler reports an endless
//! wait as a deadlock.
//!
//! Each test names a planted bug (a mutation) with which it was seen to fail.

use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use isomer_store::{Context, Feed, Index, Partition, Stamp, Store, Turn, pin};
use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

/// Runs a story under `schedules` random schedules, and half as many of PCT.
fn explore(schedules: usize, story: fn()) {
    shuttle::check_random(story, schedules);
    shuttle::check_pct(story, schedules / 2, 3);
}

/// A site with one table: two partitions, whose keys are adjacent in the index.
struct Site {
    store: Store,
    index: Arc<Index>,
    left: Partition,
    right: Partition,
}

impl Site {
    fn new() -> Arc<Site> {
        let store = Store::new(Time(1));
        let stamp = Stamp { version: 1, last: Time(1) };
        let partition = |range| Partition::new(TableId(1), range, stamp, Time::MAX, Time::ZERO);
        Arc::new(Site {
            index: store.new_table(),
            left: partition(KeyRange::new(Key::min(), Some(key(1000)))),
            right: partition(KeyRange::new(key(1000), None)),
            store,
        })
    }

    fn partition(&self, number: u16) -> &Partition {
        if number < 1000 { &self.left } else { &self.right }
    }

    /// Installs rows before the threads start.
    fn fill(&self, numbers: impl Iterator<Item = u16>, value: u8) {
        let mut context = self.store.context().unwrap();
        context.hold();
        numbers.for_each(|number| self.install(&context, number, Some(value), Time(1)));
    }

    fn install(&self, context: &Context<'_>, number: u16, value: Option<u8>, time: Time) {
        let (guard, key) = (pin(), key(number));
        let mut spot = self.index.spot(&key, &guard);
        let value = value.map(|byte| [byte; 24]);
        let value = value.as_ref().map(<[u8; 24]>::as_slice);
        context.install(&self.index, &mut spot, &key, value, time, &guard);
    }

    /// A transaction that writes `value` to all these keys, and then collects garbage.
    fn commit(&self, numbers: &[u16], value: Option<u8>) {
        let mut partitions: Vec<&Partition> =
            numbers.iter().map(|&number| self.partition(number)).collect();
        partitions.dedup_by(|a, b| std::ptr::eq(*a, *b));
        partitions.iter().for_each(|partition| lock(partition));
        let mut context = self.store.context().unwrap();
        context.hold();
        partitions.iter().for_each(|partition| partition.begin_publishing());
        let time = self.store.clock.tick(Time::ZERO);
        numbers.iter().for_each(|&number| self.install(&context, number, value, time));
        for partition in partitions {
            partition.end_publishing(partition.version() + 1, time);
            partition.lock.unlock();
        }
        context.unpin();
        context.collect();
    }

    /// Waits for a snapshot of these partitions. Returns its context and time.
    fn look<'s>(&'s self, partitions: &[&Partition], at_least: Time) -> (Context<'s>, Time) {
        let mut context = self.store.context().unwrap();
        let snapshot = block_on(poll_fn(|cx| {
            match context.snapshot(partitions.iter().copied(), at_least, cx.waker()) {
                Ok(time) => Poll::Ready(time),
                Err(_) => Poll::Pending,
            }
        }));
        (context, snapshot)
    }

    fn value(&self, context: &Context<'_>, number: u16) -> Option<u8> {
        context.get(&self.index, &key(number)).map(|row| byte(row.value().unwrap()))
    }

    /// All keys that the snapshot sees, in scan order.
    fn scan(&self, context: &Context<'_>) -> Vec<Key> {
        let mut keys = Vec::new();
        context.scan(&self.index, &KeyRange::all(), |row| {
            byte(row.value().unwrap());
            keys.push(Key::from_bytes(row.key()));
            ControlFlow::Continue(())
        });
        assert!(keys.is_sorted_by(|a, b| a < b), "every key once, in order: {keys:?}");
        keys
    }
}

/// Keys that agree in the bytes of a leaf's word, so that searches compare rows.
fn key(number: u16) -> Key {
    Key::from_bytes(&[b"alike in words, ".as_slice(), &number.to_be_bytes()].concat())
}

/// The byte that a value repeats.
fn byte(value: &[u8]) -> u8 {
    assert!(value.len() == 24 && value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
    value[0]
}

fn lock(partition: &Partition) {
    let mut turn = Turn::default();
    block_on(poll_fn(|cx| match partition.lock.try_lock(&mut turn, cx.waker()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }));
}

fn thread(site: &Arc<Site>, story: impl FnOnce(&Site) + Send + 'static) -> JoinHandle<()> {
    let site = site.clone();
    thread::spawn(move || story(&site))
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A full leaf is split under a reader, which must find every earlier row, and the rows that are
/// committed to the new leaves, although it remembers the old leaf.
///
/// Planted: the old leaf marked obsolete after the new root was published.
#[test]
fn a_leaf_is_split_under_a_reader() {
    explore(12_000, || {
        let site = Site::new();
        site.fill((0..32).map(|number| 2 * number), 7);
        let guard = pin();
        let mut spot = site.index.spot(&key(4), &guard);
        let splitter = thread(&site, |site| site.commit(&[1005], Some(8)));
        let writer = thread(&site, |site| site.commit(&[4], Some(9)));
        join([writer]);
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        let row = context.read(&mut spot, &key(4), &guard).unwrap();
        assert_eq!(byte(row.value().unwrap()), 9, "the committed value is seen");
        drop(context);
        join([splitter]);
    });
    explore(500, || {
        let site = Site::new();
        site.fill((0..32).map(|number| 2 * number), 7);
        let writer = thread(&site, |site| site.commit(&[5, 33], Some(8)));
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        assert!(site.scan(&context).len() >= 32);
        assert_eq!([4, 62].map(|number| site.value(&context, number)), [Some(7); 2]);
        drop(context);
        join([writer]);
    });
}

/// Rows come and go in a leaf whose keys are compared through the rows, while a reader searches for
/// a row between them that stays.
///
/// Planted: a move of entries without a change of the sequence number.
#[test]
fn entries_move_under_a_reader() {
    explore(1500, || {
        let site = Site::new();
        site.fill([10, 20, 30, 40].into_iter(), 7);
        let writer = thread(&site, |site| {
            site.commit(&[5, 25], Some(8));
            site.commit(&[10, 25], None);
            site.commit(&[15], Some(8));
        });
        for _ in 0..2 {
            let (context, _) = site.look(&[&site.left], Time::ZERO);
            assert_eq!(site.value(&context, 20), Some(7));
            assert_eq!(site.value(&context, 21), None);
            assert!(site.scan(&context).contains(&key(40)));
        }
        join([writer]);
    });
}

/// Two writers fill one leaf until it splits, while a reader scans.
///
/// Planted: a split that does not check again whether the leaf is full.
#[test]
fn two_writers_fill_one_leaf() {
    explore(150, || {
        let site = Site::new();
        site.fill((0..32).map(|number| 40 * number), 7);
        let writers = [25, 1225].map(|number| {
            thread(&site, move |site| {
                site.commit(&[number], Some(8));
                site.commit(&[number + 1], Some(8));
            })
        });
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        assert!((32..=36).contains(&site.scan(&context).len()));
        drop(context);
        join(writers);
        let (context, _) = site.look(&[&site.left, &site.right], Time::ZERO);
        assert_eq!(site.scan(&context).len(), 36);
    });
}

/// A leaf becomes empty and is unlinked; its left neighbour takes over its keys and gets new ones.
/// A concurrent scan of newest versions must not see them twice.
///
/// Planted: a scan that takes all entries of a leaf, whatever its bounds were on the path there.
#[test]
fn a_leaf_grows_under_a_scan() {
    explore(1200, || a_leaf_grows_under(Direction::Forward));
}

/// The same, from the last key to the first: the leaf that has grown precedes the unlinked one.
///
/// Planted: a scan backward that takes all entries of a leaf, also those after the range's end.
#[test]
fn a_leaf_grows_under_a_scan_backward() {
    explore(1200, || a_leaf_grows_under(Direction::Backward));
}

fn a_leaf_grows_under(way: Direction) {
    let site = Site::new();
    site.fill(0..33, 7);
    let holder = site.look(&[&site.left], Time::ZERO);
    site.commit(&[31, 32], None); // The keys stay in the index for the holder.
    drop(holder);
    let writer = thread(&site, |site| {
        (0..2).for_each(|_| _ = site.store.collect_idle(usize::MAX));
        site.commit(&[31], Some(8));
    });
    for _ in 0..2 {
        let mut context = site.store.context().unwrap();
        context.hold();
        let mut keys = Vec::new();
        context.scan_newest_along(&site.index, &KeyRange::all(), way, |row| {
            keys.push(Key::from_bytes(row.key()));
            ControlFlow::Continue(())
        });
        let in_order = keys.is_sorted_by(|a, b| way.compare(a, b).is_lt());
        assert!(in_order && keys.len() >= 31, "{keys:?}");
    }
    join([writer]);
}

/// A leaf is split during a scan from the last key to the first: the scan meets every earlier row
/// once, in order.
///
/// Planted: a descent to the leaf that begins where the range ends.
#[test]
fn a_leaf_is_split_under_a_scan_backward() {
    explore(1200, || {
        let site = Site::new();
        site.fill((0..64).step_by(2), 7); // One leaf, full.
        let writer = thread(&site, |site| site.commit(&[31, 63], Some(8)));
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        let mut seen = Vec::new();
        context.scan_along(&site.index, &KeyRange::all(), Direction::Backward, |row| {
            seen.push(Key::from_bytes(row.key()));
            ControlFlow::Continue(())
        });
        assert!(seen.is_sorted_by(|a, b| a > b), "every key once, from the last: {seen:?}");
        let before = seen.iter().filter(|seen| (0..64).step_by(2).any(|n| **seen == key(n)));
        assert_eq!(before.count(), 32);
        assert_eq!(seen.len() % 2, 0, "both of the commit's keys or none: {seen:?}");
        drop(context);
        join([writer]);
    });
}

/// A commit over two partitions is seen whole or not at all, and stays seen.
///
/// Planted: the publishing mark set after the time is taken.
#[test]
fn a_commit_over_two_partitions_is_atomic() {
    explore(6000, || {
        let site = Site::new();
        site.fill([1, 1001].into_iter(), 0);
        let writer = thread(&site, |site| {
            (1..=2).for_each(|value| site.commit(&[1, 1001], Some(value)));
        });
        let mut session = (Time::ZERO, 0);
        for _ in 0..2 {
            // The session may have seen any earlier time, at this site or another.
            let at_least = site.store.clock.last();
            let (context, time) = site.look(&[&site.left, &site.right], at_least);
            let seen = [1, 1001].map(|number| site.value(&context, number).unwrap());
            assert_eq!(seen[0], seen[1], "at {time}");
            assert!(time >= session.0 && seen[0] >= session.1, "a session moves forward");
            session = (time, seen[0]);
        }
        join([writer]);
    });
}

/// A replica that is known to be complete far ahead does not lead its readers to a time at which
/// the other partition's master has half a commit.
///
/// Planted: a snapshot at the clock's time after the partitions were read.
#[test]
fn a_fresh_replica_beside_a_busy_master() {
    explore(1500, || {
        let site = Site::new();
        site.fill([1, 2].into_iter(), 0);
        site.right.follow(Time(1000), None);
        let writer = thread(&site, |site| {
            (1..=2).for_each(|value| site.commit(&[1, 2], Some(value)));
        });
        for _ in 0..2 {
            let (context, time) = site.look(&[&site.left, &site.right], Time::ZERO);
            let seen = [1, 2, 1].map(|number| site.value(&context, number).unwrap());
            assert!(seen[0] == seen[1] && seen[0] == seen[2], "{seen:?} at {time}");
        }
        join([writer]);
    });
}

/// A snapshot begins while its versions are superseded, the floor rises, and garbage below it is
/// freed.
///
/// Planted: a scan that does not announce its limit, so that the snapshot may lie below a floor
/// computed without it.
#[test]
fn a_snapshot_begins_while_the_floor_moves() {
    explore(1500, || {
        let site = Site::new();
        site.fill([1, 2].into_iter(), 0);
        let writer = thread(&site, |site| {
            (1..=3).for_each(|value| site.commit(&[1, 2], Some(value)));
        });
        for _ in 0..2 {
            let (context, _) = site.look(&[&site.left], Time::ZERO);
            let seen = [1, 2, 1].map(|number| site.value(&context, number).unwrap());
            assert!(seen[0] == seen[1] && seen[0] == seen[2], "{seen:?}");
        }
        join([writer]);
    });
}

/// A reader of one partition passes rows of another partition, which its snapshot does not cover,
/// while a commit with an earlier time than the snapshot supersedes them.
///
/// Planted: versions freed once the floor has reached the time of the commit that superseded them,
/// instead of a time taken after they left the index.
#[test]
fn rows_of_other_partitions_are_passed_in_a_leaf() {
    explore(1500, || {
        let site = Site::new();
        site.fill([998, 999, 1000, 1001].into_iter(), 7);
        let right = thread(&site, |site| site.commit(&[1000], Some(8)));
        let left = thread(&site, |site| site.commit(&[998], Some(8)));
        for _ in 0..2 {
            let (context, _) = site.look(&[&site.left], Time::ZERO);
            let range = KeyRange::new(Key::min(), Some(key(1000)));
            let mut count = 0;
            context.scan(&site.index, &range, |row| {
                byte(row.value().unwrap());
                count += 1;
                ControlFlow::Continue(())
            });
            assert_eq!(count, 2);
            assert_eq!(site.value(&context, 999), Some(7));
            // The other partition's row may have any value, but reading it must be safe.
            let other = context.get(&site.index, &key(1000)).unwrap();
            thread::yield_now();
            assert!(matches!(byte(other.value().unwrap()), 7 | 8));
        }
        join([right, left]);
    });
}

/// The same with a longer reader, so that the slow path frees the passed rows.
///
/// Planted: a slow path that asks for snapshots until the version was superseded, instead of until
/// it left the index.
#[test]
fn rows_of_other_partitions_are_kept_above_a_long_reader() {
    explore(1500, || {
        let site = Site::new();
        site.fill([999, 1000].into_iter(), 7);
        let long = site.look(&[&site.left], Time::ZERO);
        site.commit(&[1000], Some(8));
        let writer = thread(&site, |site| {
            (9..12).for_each(|value| site.commit(&[1000], Some(value)));
            drop(site.store.new_table()); // Advances the epochs.
        });
        for _ in 0..2 {
            let (context, _) = site.look(&[&site.left], site.store.clock.last());
            let other = context.get(&site.index, &key(1000)).unwrap();
            (0..20).for_each(|_| thread::yield_now());
            assert!((7..12).contains(&byte(other.value().unwrap())));
        }
        drop(long);
        join([writer]);
    });
}

/// A long reader keeps its versions while two writers unlink those above them, each next to
/// versions of the other. When the reader ends, the rest goes the fast path.
///
/// Planted: a slow pass that does not hold the floor while it walks.
#[test]
fn chains_are_shortened_above_a_long_reader() {
    explore(500, || {
        let site = Site::new();
        site.fill([1, 2].into_iter(), 0);
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        let writers = [1, 2].map(|writer| {
            thread(&site, move |site| {
                for value in 1..=4 {
                    site.commit(&[1, 2], Some(10 * writer + value));
                }
            })
        });
        for _ in 0..2 {
            assert_eq!(site.value(&context, 1), Some(0));
            assert_eq!(site.value(&context, 2), Some(0));
        }
        drop(context);
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        assert_eq!(site.value(&context, 1), site.value(&context, 2));
        drop(context);
        join(writers);
    });
}

/// Under a long reader, one writer inserts and deletes keys, and a second one inserts.
///
/// Planted: the slow path removes a tombstone although an older version is left.
#[test]
fn tombstones_are_collected_under_a_long_reader() {
    explore(400, || {
        let site = Site::new();
        site.fill([1].into_iter(), 7);
        let (context, _) = site.look(&[&site.left], Time::ZERO);
        let churner = thread(&site, |site| {
            for value in 1..=2 {
                site.commit(&[1, 2], Some(value));
                site.commit(&[1, 2], None);
            }
        });
        let other = thread(&site, |site| site.commit(&[2], Some(9)));
        for _ in 0..2 {
            assert_eq!(site.value(&context, 1), Some(7));
            assert_eq!(site.value(&context, 2), None);
        }
        drop(context);
        join([churner, other]);
    });
}

/// A lock passes from thread to thread; a thread that finds it busy sleeps until it is woken.
///
/// Planted: an attempt that does not check again after registering its waker.
#[test]
fn a_lock_is_handed_over_without_a_lost_wakeup() {
    explore(8000, || {
        let site = Site::new();
        let threads = [1, 2, 3].map(|_| {
            thread(&site, |site| {
                for _ in 0..2 {
                    lock(&site.left);
                    site.left.begin_publishing(); // Asserts that no other thread is publishing.
                    site.left.cancel_publishing();
                    site.left.lock.unlock();
                }
            })
        });
        join(threads);
        assert!(!site.left.lock.is_held());
    });
}

/// A refresh: an event from the feed, marked as waiting, then installed on one partition.
fn refresh(site: &Site, number: u16, value: u8, time: Time) {
    let partition = site.partition(number);
    let mut context = site.store.context().unwrap();
    context.hold();
    lock(partition);
    partition.begin_publishing();
    site.install(&context, number, Some(value), time);
    partition.end_publishing(partition.version() + 1, time);
    partition.lock.unlock();
    partition.set_lagging(false);
    context.unpin();
    context.collect();
}

/// Mastership of both partitions moves away, commits arrive through the feed, and mastership
/// returns, under a reader of both.
///
/// Planted: the feed's closed time applied although events from the feed wait to be installed.
#[test]
fn mastership_moves_under_a_reader() {
    explore(1000, || {
        let site = Site::new();
        site.fill([1, 1001].into_iter(), 0);
        let mover = thread(&site, |site| {
            let both = [&site.left, &site.right];
            let feed = Arc::new(Feed::default());
            both.iter().for_each(|partition| lock(partition));
            let released = site.store.clock.tick(Time::ZERO);
            for partition in both {
                partition.follow(released, Some(feed.clone()));
                partition.lock.unlock();
            }
            let there = site.store.clock.tick(Time::ZERO);
            both.iter().for_each(|partition| partition.set_lagging(true));
            feed.close(Time(there.0 + 10));
            site.store.clock.raise(there);
            refresh(site, 1, 1, there);
            refresh(site, 1001, 1, there);
            both.iter().for_each(|partition| partition.become_master());
            site.commit(&[1, 1001], Some(2));
        });
        let mut session = (Time::ZERO, 0);
        for _ in 0..2 {
            let (context, time) = site.look(&[&site.left, &site.right], session.0);
            let seen = [1, 1001].map(|number| site.value(&context, number).unwrap());
            assert_eq!(seen[0], seen[1], "at {time}");
            assert!(seen[0] >= session.1, "a session goes forward");
            session = (time, seen[0]);
        }
        join([mover]);
    });
}

/// A replica leaves its feed while a reader asks how far it is complete: the events of the next
/// master have not arrived yet.
///
/// Planted: completeness that does not check again whether the feed is still the same.
#[test]
fn a_replica_changes_its_feed_under_a_reader() {
    explore(1500, || {
        let site = Site::new();
        site.fill([1].into_iter(), 0);
        let feed = Arc::new(Feed::default());
        site.left.follow(Time(1), Some(feed.clone()));
        let mover = thread(&site, move |site| {
            // The old master's last event is waiting when its feed continues without the partition.
            site.left.set_lagging(true);
            feed.close(Time(100));
            site.left.follow(Time(2), None);
            site.left.set_lagging(false);
        });
        assert!(site.left.safe_time() <= Time(2), "the old feed does not cover later events");
        join([mover]);
    });
}

/// A late event, from a feed that the copy no longer follows, makes no master of a replica, and no
/// replica of a master.
///
/// Planted: completeness that is frozen with a plain store.
#[test]
fn late_events_do_not_change_roles() {
    explore(1500, || {
        let site = Site::new();
        let feed = Arc::new(Feed::default());
        feed.close(Time(50));
        site.right.follow(Time(10), Some(feed));
        let late = thread(&site, |site| {
            site.left.set_lagging(true);
            site.right.set_lagging(true);
        });
        site.left.follow(Time(20), None);
        site.right.become_master();
        join([late]);
        assert!(!site.left.is_master() && site.right.is_master());
    });
}

/// Two threads want a lock twice each, and a third gives up its turn after one attempt: every
/// waiter gets the lock, and never two at once.
///
/// Planted: leaving a turn that was woken without waking the next.
#[test]
fn a_lock_serves_every_waiter() {
    explore(3000, || {
        let site = Site::new();
        let take_twice = |site: &Site| {
            for _ in 0..2 {
                lock(&site.left);
                assert!(!site.left.lock.try_once(), "two hold it");
                site.left.lock.unlock();
            }
        };
        let others = [thread(&site, take_twice), thread(&site, take_twice)];
        let mut turn = Turn::default();
        match site.left.lock.try_lock(&mut turn, std::task::Waker::noop()) {
            true => site.left.lock.unlock(),
            false => site.left.lock.leave(&mut turn),
        }
        join(others);
        assert!(!site.left.lock.is_held());
    });
}
