//! Rarely written partitions are closed ahead: two sites, and messages that are counted.
//!
//! `s1` is the master of the keys below 10, of which `s2` has a copy; `s2` is the master of the
//! others.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{Committed, Message, Part, Site, SiteOptions, Step, TimeSource, Txn, TxnId};
use mailboxes::Mailboxes;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const MS: u64 = 1_000_000;

struct Pair {
    mailboxes: Arc<Mailboxes>,
    sites: [Site; 2],
}

impl Pair {
    fn new() -> Pair {
        let mailboxes = Arc::new(Mailboxes::default());
        mailboxes.now.store(1000 * MS, Ordering::Relaxed);
        let sites = [S1, S2].map(|id| {
            let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
            let (network, time) = (mailboxes.clone(), mailboxes.clone());
            Site::open(SiteOptions::new(id, log, network, time)).unwrap()
        });
        let pair = Pair { mailboxes, sites };
        let [s1, s2] = &pair.sites;
        s1.greet(std::iter::once(S2));
        pair.deliver();
        let below = KeyRange::new(Key::min(), Some(Key::int(10)));
        pair.drive(s1.step(Step::Create(T, vec![below]))).unwrap();
        pair.drive(s2.step(Step::Create(T, vec![KeyRange::new(Key::int(10), None)]))).unwrap();
        let snapshot = pair.drive(s1.follow(T, &Key::min(), S2)).unwrap();
        pair.drive(s2.install(snapshot)).unwrap();
        pair.write(S1, 3);
        pair.tick();
        pair
    }

    fn site(&self, id: SiteId) -> &Site {
        &self.sites[usize::from(id.0) - 1]
    }

    fn pass(&self, ns: u64) {
        self.mailboxes.now.fetch_add(ns, Ordering::Relaxed);
    }

    /// Syncs the disks, and delivers all messages. Counts the requests to close ahead, the
    /// promises, and the requests to close a feed.
    fn deliver(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        self.sites.iter().for_each(|site| drop(site.log().sync()));
        while let Some((from, to, envelope)) = self.mailboxes.next_letter() {
            match envelope {
                Message::AskCloseAhead { .. } => counts[0] += 1,
                Message::CloseAhead { .. } => counts[1] += 1,
                Message::Close { .. } => counts[2] += 1,
                _ => {}
            }
            self.site(to).receive(from, envelope);
        }
        counts
    }

    /// Makes all writes known to both sites.
    fn tick(&self) {
        self.sites.iter().for_each(|site| _ = site.tick());
        self.deliver();
        self.sites.iter().for_each(|site| _ = site.tick());
        self.deliver();
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..1000 {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return done;
            }
            self.tick();
        }
        panic!("it waits for ever");
    }

    fn write(&self, site: SiteId, key: i64) -> Committed {
        let key = Key::int(key);
        let footprint = Footprint::new().write(T, key.clone());
        let mut procedure = |txn: &mut Txn<'_>| txn.put(T, &key, b"x");
        self.drive(self.site(site).execute(&footprint, Time::ZERO, &mut procedure)).unwrap()
    }

    /// Writes 13 at s2, and reads 3 there. Returns the counts of [`Pair::deliver`], without any
    /// tick.
    fn write_and_read(&self) -> [usize; 3] {
        let footprint = Footprint::new().read(T, Key::int(3)).write(T, Key::int(13));
        let mut procedure = |txn: &mut Txn<'_>| {
            assert!(txn.get(T, &Key::int(3))?.is_some());
            txn.put(T, &Key::int(13), b"y")
        };
        let mut done = pin!(self.site(S2).execute(&footprint, Time::ZERO, &mut procedure));
        let mut messages = [0; 3];
        for _ in 0..10 {
            if done.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return messages;
            }
            messages.iter_mut().zip(self.deliver()).for_each(|(sum, more)| *sum += more);
        }
        panic!("no site answers");
    }
}

#[test]
fn a_replica_that_is_closed_ahead_asks_no_more_for_some_time() {
    let pair = Pair::new();
    pair.pass(800 * MS);
    assert_eq!(pair.write_and_read(), [0; 3], "the replica is up to date");
    assert_eq!(pair.write_and_read(), [1, 1, 0], "promised for a quarter of the time");
    pair.pass(150 * MS);
    assert_eq!(pair.write_and_read(), [0; 3]);
    assert_eq!(pair.write_and_read(), [0; 3]);
    pair.pass(100 * MS);
    assert_eq!(pair.write_and_read(), [0; 3], "the snapshot is before the end of the promise");
    assert_eq!(pair.write_and_read(), [1, 1, 0], "the promise is over");
}

#[test]
fn a_promise_is_kept_by_the_next_event_whatever_it_is() {
    let pair = Pair::new();
    pair.pass(800 * MS);
    pair.write_and_read();
    assert_eq!(pair.write_and_read(), [1, 1, 0]);
    let promised = pair.mailboxes.now().0 + 150 * MS;
    assert!(pair.write(S1, 4).commit.unwrap().0 > promised, "ahead of real time");
    let pair = Pair::new();
    pair.pass(800 * MS);
    pair.write_and_read();
    assert_eq!(pair.write_and_read(), [1, 1, 0]);
    let promised = pair.mailboxes.now().0 + 150 * MS;
    pair.drive(pair.site(S1).step(Step::Split(T, Key::int(5)))).unwrap();
    assert!(pair.write(S1, 7).commit.unwrap().0 > promised, "and the right part, too");
}

#[test]
fn a_partition_with_recent_or_current_writes_is_not_closed_ahead() {
    let pair = Pair::new();
    pair.write(S2, 13);
    assert_eq!(pair.write_and_read(), [0, 0, 1], "written a moment ago");
    let pair = Pair::new();
    pair.pass(800 * MS);
    pair.write(S2, 13);
    let (coordinator, incarnation, number) = (S2, 1, 1);
    let (txn, footprint) =
        (TxnId { coordinator, incarnation, number }, Footprint::new().write(T, Key::int(4)));
    pair.drive(pair.site(S1).part(Part::Enter { txn, footprint, at: Time::ZERO })).unwrap();
    assert_eq!(pair.write_and_read(), [1, 0, 0], "locked: its feed is closed instead");
}
