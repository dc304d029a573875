//! Clocks that jump back and forth by hours: commits stay in order.
//!
//! A commit time comes from the site's own clock, which is never behind any time that the site has
//! seen. The computer's clock only pulls it forward (`docs/decisions/0002-commit-times.md`). So a
//! computer whose clock is set back loses only the closeness of commit times to real time, until
//! that has caught up.

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Durability, Log, MemoryLog, MemoryOptions};
use isomer_site::{
    CloseAhead, Committed, Message, Network, Site, SiteOptions, Step, TimeSource, Txn,
};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const HOUR: u64 = 3_600_000_000_000;
/// The initial time of the clocks.
const NOON: u64 = 1000 * HOUR;

/// A clock that the test sets.
struct Clock(AtomicU64);

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

impl Clock {
    fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Mailboxes(Mutex<VecDeque<(SiteId, SiteId, Message)>>);

impl Network for Mailboxes {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.0.lock().unwrap().push_back((from, to, message));
    }
}

/// `s1` is the master of all keys; `s2` has a copy. Each has a clock of its own.
struct Pair {
    mailboxes: Arc<Mailboxes>,
    clocks: [Arc<Clock>; 2],
    logs: [Arc<MemoryLog>; 2],
    sites: [Site; 2],
}

fn open(id: SiteId, log: &Arc<MemoryLog>, mailboxes: &Arc<Mailboxes>, clock: &Arc<Clock>) -> Site {
    Site::open(SiteOptions::new(id, log.clone(), mailboxes.clone(), clock.clone())).unwrap()
}

impl Pair {
    fn new() -> Pair {
        let mailboxes = Arc::new(Mailboxes::default());
        let clocks = [(); 2].map(|()| Arc::new(Clock(AtomicU64::new(NOON))));
        let options = MemoryOptions { durability: Durability::Commit, ..MemoryOptions::default() };
        let logs = [(); 2].map(|()| Arc::new(MemoryLog::new(options)));
        let sites = [0, 1].map(|at| open([S1, S2][at], &logs[at], &mailboxes, &clocks[at]));
        let pair = Pair { mailboxes, clocks, logs, sites };
        pair.drive(pair.sites[0].step(Step::Create(T, vec![KeyRange::all()]))).unwrap();
        let snapshot = pair.drive(pair.sites[0].follow(T, &Key::min(), S2)).unwrap();
        pair.drive(pair.sites[1].install(snapshot)).unwrap();
        pair
    }

    /// Polls, and syncs disks, delivers messages and ticks in between; no clock advances by itself.
    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..1000 {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return done;
            }
            for site in &self.sites {
                site.log().sync().unwrap();
                site.tick();
            }
            while let Some((from, to, envelope)) = self.next_letter() {
                self.sites[usize::from(to.0) - 1].receive(from, envelope);
            }
        }
        panic!("it waits for ever");
    }

    fn next_letter(&self) -> Option<(SiteId, SiteId, Message)> {
        self.mailboxes.0.lock().unwrap().pop_front()
    }

    /// Writes a row at the master, in a new session.
    fn write(&self, value: u8) -> Time {
        let footprint = Footprint::new().write(T, Key::int(1));
        let mut procedure = |txn: &mut Txn<'_>| txn.put(T, &Key::int(1), &[value]);
        let done = self.drive(self.sites[0].execute(&footprint, Time::ZERO, &mut procedure));
        done.unwrap().commit.unwrap()
    }

    /// Reads the row at a site, in a session that has seen a time.
    fn read(&self, site: usize, session: Time) -> (u8, Committed) {
        let footprint = Footprint::new().read(T, Key::int(1));
        let mut found = 0;
        let mut procedure = |txn: &mut Txn<'_>| {
            found = txn.get(T, &Key::int(1))?.unwrap()[0];
            Ok(())
        };
        let done = self.drive(self.sites[site].execute(&footprint, session, &mut procedure));
        (found, done.unwrap())
    }
}

#[test]
fn commit_times_stay_in_order_when_the_clock_jumps() {
    let pair = Pair::new();
    let mut last = Time::ZERO;
    for (value, jump) in [0, 2 * HOUR, HOUR, 0, HOUR + 1, 5 * HOUR, 1].into_iter().enumerate() {
        pair.clocks[0].set(NOON + jump);
        for value in [value as u8 * 2, value as u8 * 2 + 1] {
            let commit = pair.write(value);
            assert!(commit > last, "{commit} after {last}, with the clock at {jump}");
            last = commit;
            assert_eq!(pair.read(0, commit).0, value);
        }
    }
    assert!(last.0 < NOON + 5 * HOUR + 1_000_000_000, "a jump back is no jump forth: {last}");
}

#[test]
fn a_session_is_served_by_a_site_whose_clock_is_hours_behind_or_ahead() {
    let pair = Pair::new();
    for (value, clocks) in [(1, [2, 0]), (2, [0, 3]), (3, [0, 0]), (4, [9, 1])] {
        pair.clocks[0].set(NOON + clocks[0] * HOUR);
        pair.clocks[1].set(NOON + clocks[1] * HOUR);
        let commit = pair.write(value);
        let (found, read) = pair.read(1, commit);
        assert_eq!(found, value, "at the replica, with clocks at {clocks:?}");
        assert!(read.snapshot >= commit);
        // And back: a snapshot of the replica is not in the future of the master.
        assert_eq!(pair.read(0, read.snapshot).0, value);
    }
}

#[test]
fn a_computer_that_starts_again_with_its_clock_set_back_goes_on_where_it_was() {
    let mut pair = Pair::new();
    pair.clocks[0].set(NOON + HOUR);
    let before = pair.write(1);
    for (value, hours) in [(2, 500), (3, 1)] {
        for at in [0, 1] {
            let log = Arc::new(pair.logs[at].crash(pair.logs[at].durable()));
            pair.clocks[at].set(hours * HOUR);
            pair.sites[at] = open([S1, S2][at], &log, &pair.mailboxes, &pair.clocks[at]);
            pair.logs[at] = log;
        }
        pair.mailboxes.0.lock().unwrap().clear();
        pair.sites[1].greet(std::iter::once(S1));
        pair.sites[0].greet(std::iter::once(S2));
        assert_eq!(pair.read(0, before).0, value - 1);
        let commit = pair.write(value);
        assert!(commit > before, "{commit} after {before}");
        assert_eq!(pair.read(1, commit).0, value, "the copy goes on as well");
    }
}

/// Other sites may be ahead of real time, as far as they close partitions ahead. A client that has
/// read here at such a time must find the same rows at that time after a restart (simulator, seed
/// 42002).
#[test]
fn a_commit_after_a_restart_is_later_than_any_read_before() {
    let mut pair = Pair::new();
    pair.write(1);
    // Without followers the site itself has closed nothing ahead.
    pair.drive(pair.sites[0].unfollow(T, &Key::min(), S2)).unwrap();
    let ahead = Time(NOON + CloseAhead::default().most_ns);
    let (found, read) = pair.read(0, ahead);
    assert_eq!((found, read.snapshot), (1, ahead));
    let log = Arc::new(pair.logs[0].crash(pair.logs[0].durable()));
    pair.clocks[0].set(NOON + 1);
    pair.sites[0] = open(S1, &log, &pair.mailboxes, &pair.clocks[0]);
    pair.logs[0] = log;
    let commit = pair.write(2);
    assert!(commit > ahead, "{commit} is not after {ahead}");
}

/// Two runs with one number look like one: the second numbers its feeds from 1 again, and followers
/// drop them as duplicates (simulator, seed 1273).
#[test]
fn runs_that_log_nothing_while_the_clock_is_behind_the_log_have_numbers_of_their_own() {
    let mut pair = Pair::new();
    pair.clocks[0].set(NOON + HOUR);
    let before = pair.write(1);
    pair.clocks[0].set(NOON);
    for _ in 0..2 {
        let last = pair.sites[0].incarnation();
        let (log, network, time) =
            (pair.logs[0].clone(), pair.mailboxes.clone(), pair.clocks[0].clone());
        let usual = SiteOptions::new(S1, log, network, time);
        let options = SiteOptions { incarnation: last + 1, ..usual };
        pair.sites[0] = Site::open(options).unwrap();
        assert!(pair.sites[0].incarnation() > last);
        pair.sites[0].greet(std::iter::once(S2));
        assert_eq!(pair.read(1, before).0, 1, "the stream of this run has begun");
    }
    let commit = pair.write(2);
    assert_eq!(pair.read(1, commit).0, 2, "and goes on");
}
