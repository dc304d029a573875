//! Links that lose messages: two sites, and a network that drops one of `lost_of` messages.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{Message, Refusal, Site, SiteOptions, Step, Txn};
use mailboxes::Mailboxes;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
/// More than one message subscribes.
const PARTITIONS: i64 = 600;
/// A tick.
const TICK_NS: u64 = 2_000_000;
/// A wait of more ticks than this counts as endless.
const TICKS_MAX: usize = 20_000;

struct Pair {
    mailboxes: Arc<Mailboxes>,
    logs: [Arc<MemoryLog>; 2],
    sites: [Site; 2],
    /// One of this many messages is lost; 0: none.
    lost_of: Cell<u64>,
    sent: Cell<u64>,
    /// Subscriptions that arrived.
    subscribed: Cell<usize>,
}

impl Pair {
    /// `s1` masters all partitions, and `s2` has replicas of them.
    fn new() -> Pair {
        let mailboxes = Arc::new(Mailboxes::default());
        mailboxes.now.store(1_000_000_000, Ordering::Relaxed);
        let logs = [(); 2].map(|()| Arc::new(MemoryLog::new(MemoryOptions::default())));
        let sites = [S1, S2].map(|id| {
            let log = logs[usize::from(id.0) - 1].clone();
            let (network, time) = (mailboxes.clone(), mailboxes.clone());
            Site::open(SiteOptions::new(id, log, network, time)).unwrap()
        });
        let (lost_of, sent, subscribed) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let pair = Pair { mailboxes, logs, sites, lost_of, sent, subscribed };
        let [s1, s2] = &pair.sites;
        let ranges = (0..PARTITIONS).map(|at| KeyRange::ints(at, at + 1)).collect();
        pair.drive(s1.step(Step::Create(T, ranges))).unwrap();
        for at in 0..PARTITIONS {
            let snapshot = pair.drive(s1.follow(T, &Key::int(at), S2)).unwrap();
            pair.drive(s2.install(snapshot)).unwrap();
        }
        pair
    }

    /// Advances the time, syncs the disks, and delivers or loses messages.
    fn tick(&self) {
        self.mailboxes.now.fetch_add(TICK_NS, Ordering::Relaxed);
        for site in &self.sites {
            // A failed log does not sync.
            let _ = site.log().sync();
            site.ship();
            site.tick();
        }
        while let Some((from, to, envelope)) = self.mailboxes.next_letter() {
            self.sent.set(self.sent.get() + 1);
            if self.lost_of.get() > 0 && self.sent.get().is_multiple_of(self.lost_of.get()) {
                continue;
            }
            if let Message::Subscribe { replicas, .. } = &envelope {
                self.subscribed.set(self.subscribed.get() + replicas.len());
            }
            self.sites[usize::from(to.0) - 1].receive(from, envelope);
        }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..TICKS_MAX {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return done;
            }
            self.tick();
        }
        panic!("it waits for ever");
    }

    /// Writes one row of each partition.
    fn write_all(&self) {
        for at in 0..PARTITIONS {
            let key = Key::int(at);
            let footprint = Footprint::new().write(T, key.clone());
            let mut procedure = |txn: &mut Txn<'_>| txn.put(T, &key, b"x");
            let done = self.sites[0].execute(&footprint, Time::ZERO, &mut procedure);
            self.drive(done).unwrap();
        }
    }

    /// Advances the time until every replica has its master's version.
    fn settle(&self) {
        let versions = |site: &Site| -> Vec<u64> {
            site.holdings().iter().map(|holding| holding.version).collect()
        };
        for _ in 0..TICKS_MAX {
            if versions(&self.sites[0]) == versions(&self.sites[1]) {
                return;
            }
            self.tick();
        }
        panic!("the replicas stay behind");
    }

    /// Reads all rows at the replicas as of now, and counts them.
    fn read_all(&self) -> i64 {
        let all = KeyRange::ints(0, PARTITIONS);
        let footprint = Footprint::new().read_range(T, all.clone());
        let mut rows = 0;
        let mut procedure = |txn: &mut Txn<'_>| {
            rows = 0;
            txn.scan(T, &all, |_, _| {
                rows += 1;
                ControlFlow::Continue(())
            })
        };
        let now = Time(self.mailboxes.now.load(Ordering::Relaxed));
        self.drive(self.sites[1].execute(&footprint, now, &mut procedure)).unwrap();
        rows
    }
}

#[test]
fn many_replicas_catch_up_though_every_seventh_letter_is_lost() {
    let pair = Pair::new();
    pair.lost_of.set(7);
    pair.write_all();
    pair.settle();
    assert_eq!(pair.read_all(), PARTITIONS);
}

#[test]
fn nothing_is_asked_again_where_nothing_is_lost() {
    let pair = Pair::new();
    assert_eq!(pair.read_all(), 0, "all have joined");
    pair.subscribed.set(0);
    pair.write_all();
    pair.settle();
    // Much longer than the timeout of a silent master.
    (0..5_000).for_each(|_| pair.tick());
    assert_eq!(pair.subscribed.get(), 0);
}

/// A release cannot be applied at a site whose log has failed. The acquire fails, and releases its
/// lock.
#[test]
fn a_site_whose_log_fails_before_the_release_arrives_acquires_nothing() {
    let pair = Pair::new();
    let (start, [s1, s2]) = (Key::int(7), &pair.sites);
    pair.drive(s1.release(T, &start, S2)).unwrap();
    pair.logs[1].fail("the disk is broken");
    let refused = pair.drive(s2.acquire(T, &start)).expect_err("it never hears of the release");
    assert!(matches!(refused, Refusal::Log(_)), "{refused}");
}
