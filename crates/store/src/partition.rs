//! A partition: a range of keys with a lock, a version, and times.
//!
//! The rows are in the table's index and do not refer to partitions, so splitting and merging
//! change this metadata only. A partition adds to its rows:
//!
//! - the **lock**: one writer at a time, for transactions and design changes alike;
//! - the **version**: the number of events in the partition's history;
//! - the **last commit**: the time of the newest installed event, and a mark while one is being
//!   published, so that a reader of several partitions never sees half of a transaction;
//! - **complete**: the time up to which this copy is known to hold everything. It is infinite for a
//!   master, because no other site can commit. A replica that keeps up shares the closed timestamp
//!   of its [`Feed`], so that a site with thousands of replicas receives one heartbeat, not
//!   thousands;
//! - **since**: the time from which this copy holds history. Earlier snapshots must not read it.

use crate::sync::{AtomicBool, AtomicU64, Ordering, spin};
use crate::wait::{Alarms, Lock, Waiters};
use arc_swap::ArcSwapOption;
use isomer_design::{KeyRange, TableId, Time, Version};
use std::sync::Arc;
use std::task::Waker;

const PUBLISHING: u64 = 1;
/// How many times a reader checks a publishing partition before it waits.
const SETTLE_ROUNDS: u32 = if cfg!(feature = "shuttle") { 2 } else { 32 };

/// The metadata of one partition at one site. See the [module documentation](self).
pub struct Partition {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// Held by a transaction that writes to the partition, or by a change of the partition.
    pub lock: Lock,
    /// Woken when the last commit, the completeness or the mastership changes.
    pub progress: Waiters,
    version: AtomicU64,
    /// Time of the last installed event, shifted left by one, and the publishing mark.
    last: AtomicU64,
    /// Completeness without the feed's; `Time::MAX` at a master.
    complete: AtomicU64,
    /// True while events from the feed wait to be installed: the feed's time does not apply yet.
    lagging: AtomicBool,
    feed: ArcSwapOption<Feed>,
    /// The promise to commit nothing up to this time: at a master its own, at a replica the
    /// master's.
    closed_ahead_until: AtomicU64,
    /// The latest time for which such a promise was requested.
    asked: AtomicU64,
    since: AtomicU64,
}

/// The stream of events from one master site, and the time up to which it is complete.
#[derive(Default)]
pub struct Feed {
    closed: AtomicU64,
    /// The latest time up to which closing was requested.
    asked: AtomicU64,
    /// The waits for `closed` to reach a time.
    alarms: Alarms,
}

impl Feed {
    /// Every event up to this time has arrived.
    pub fn closed(&self) -> Time {
        Time(self.closed.load(Ordering::SeqCst))
    }

    /// Raises the closed time. The caller must first mark partitions with waiting events as
    /// lagging.
    pub fn close(&self, time: Time) {
        if self.closed.fetch_max(time.0, Ordering::SeqCst) < time.0 {
            self.alarms.ring(time);
        }
    }

    /// True for the first request to close up to `time`. The caller then sends that request.
    pub fn ask(&self, time: Time) -> bool {
        self.asked.fetch_max(time.0, Ordering::SeqCst) < time.0
    }
}

/// The state of a partition as logged, checkpointed, and sent to replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Number of events.
    pub version: Version,
    /// Time of the last event.
    pub last: Time,
}

impl Partition {
    /// A partition whose history here begins at `since`.
    pub fn new(
        table: TableId,
        range: KeyRange,
        stamp: Stamp,
        complete: Time,
        since: Time,
    ) -> Partition {
        Partition {
            table,
            range,
            lock: Lock::new(),
            progress: Waiters::new(),
            version: AtomicU64::new(stamp.version),
            last: AtomicU64::new(stamp.last.0 << 1),
            complete: AtomicU64::new(complete.0),
            lagging: AtomicBool::new(false),
            feed: ArcSwapOption::empty(),
            closed_ahead_until: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            since: AtomicU64::new(since.0),
        }
    }

    /// Version and time of the last installed event. Exact while the lock is held.
    pub fn stamp(&self) -> Stamp {
        Stamp { version: self.version(), last: self.last() }
    }

    /// The number of events.
    pub fn version(&self) -> Version {
        self.version.load(Ordering::Acquire)
    }

    /// Time of the last installed event.
    pub fn last(&self) -> Time {
        Time(self.last.load(Ordering::SeqCst) >> 1)
    }

    /// The time up to which this copy holds everything.
    pub fn safe_time(&self) -> Time {
        let own = Time(self.complete.load(Ordering::SeqCst));
        if own == Time::MAX {
            return own;
        }
        let own = own.max(self.closed_ahead_until());
        let Some(feed) = &*self.feed.load() else { return own };
        // In this order: before the feed is closed further, a copy with waiting events is lagging.
        let closed = feed.closed();
        if self.lagging.load(Ordering::SeqCst) || !self.follows(feed) {
            own
        } else {
            own.max(closed)
        }
    }

    /// True if the copy still follows `feed`. After a change of the feed, a cleared lagging mark
    /// says nothing about events of the old feed.
    fn follows(&self, feed: &Arc<Feed>) -> bool {
        self.feed.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, feed))
    }

    /// Every event that is not installed here yet has a later time than this: the master's promise.
    pub fn closed_ahead_until(&self) -> Time {
        Time(self.closed_ahead_until.load(Ordering::SeqCst))
    }

    /// Records the promise, at a master or at a replica that holds all earlier events.
    pub fn close_ahead(&self, until: Time) {
        self.closed_ahead_until.fetch_max(until.0, Ordering::SeqCst);
        self.progress.wake();
    }

    /// True for the first request for a promise up to `time`. The caller then sends that request.
    pub fn ask(&self, time: Time) -> bool {
        self.asked.fetch_max(time.0, Ordering::SeqCst) < time.0
    }

    /// True if this is the master's copy.
    pub fn is_master(&self) -> bool {
        self.complete.load(Ordering::SeqCst) == Time::MAX.0
    }

    /// The time from which this copy holds history.
    pub fn since(&self) -> Time {
        Time(self.since.load(Ordering::SeqCst))
    }

    /// Drops the history before `time`: `since` becomes at least `time`.
    pub fn raise_since(&self, time: Time) {
        self.since.fetch_max(time.0, Ordering::SeqCst);
    }

    /// The feed that the copy follows.
    pub fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.load_full()
    }

    /// Makes this the master's copy, which is complete for ever.
    pub fn become_master(&self) {
        self.complete.store(Time::MAX.0, Ordering::SeqCst);
        self.feed.store(None);
        self.lagging.store(false, Ordering::SeqCst);
        self.progress.wake();
    }

    /// Makes this a replica that is complete up to `complete`, and follows `feed` if it has joined
    /// one.
    pub fn follow(&self, complete: Time, feed: Option<Arc<Feed>>) {
        self.complete.store(complete.0, Ordering::SeqCst);
        self.feed.store(feed);
        self.progress.wake();
    }

    /// Sets whether events from the feed wait to be installed.
    pub fn set_lagging(&self, lagging: bool) {
        let complete = self.safe_time();
        if lagging && complete != Time::MAX {
            // Only forward, because the copy may become the master's at this moment.
            self.complete.fetch_max(complete.0, Ordering::SeqCst);
        }
        self.lagging.store(lagging, Ordering::SeqCst);
        if !lagging {
            self.progress.wake();
        }
    }

    /// Registers a waker for every change that may make this copy complete up to `time`.
    pub fn wait_until_complete(&self, time: Time, waker: &Waker) {
        self.progress.register(waker);
        if let Some(feed) = &*self.feed.load() {
            feed.alarms.set(time, waker);
        }
    }

    /// Marks that an event is about to get its time and to be installed. Needs the lock.
    ///
    /// The mark must be set before the time is taken: a reader that sees no mark knows that every
    /// later event has a later time than all events it has seen.
    pub fn begin_publishing(&self) {
        let last = self.last.load(Ordering::Relaxed);
        assert_eq!(last & PUBLISHING, 0, "one event is published at a time");
        self.last.store(last | PUBLISHING, Ordering::SeqCst);
    }

    /// Clears the mark without an event, because its record could not be logged.
    pub fn cancel_publishing(&self) {
        let last = self.last.load(Ordering::Relaxed);
        self.last.store(last & !PUBLISHING, Ordering::SeqCst);
        self.progress.wake();
    }

    /// Records an installed event: sets version and time, and clears the mark.
    pub fn end_publishing(&self, version: Version, time: Time) {
        let last = self.last.load(Ordering::Relaxed);
        assert_eq!(last & PUBLISHING, PUBLISHING, "the mark was set");
        assert!(last >> 1 < time.0, "events of a partition are installed in the order of time");
        self.version.store(version, Ordering::Release);
        self.last.store(time.0 << 1, Ordering::SeqCst);
        self.progress.wake();
    }

    /// True while an event may have its time and is not visible yet. A version that is read after
    /// this returned false counts every event that had its time before.
    pub fn is_publishing(&self) -> bool {
        self.last.load(Ordering::SeqCst) & PUBLISHING != 0
    }

    /// The time of the last installed event, or `None` while one is being published. Retries
    /// [`SETTLE_ROUNDS`] times first.
    pub(crate) fn settled(&self) -> Option<Time> {
        for round in 0..SETTLE_ROUNDS {
            let last = self.last.load(Ordering::SeqCst);
            if last & PUBLISHING == 0 {
                return Some(Time(last >> 1));
            }
            spin(round);
        }
        None
    }
}
