//! A partition: a range of keys, with a version, a lock and a place in time.
//!
//! The rows lie in the table's index and know nothing of partitions, so splitting and merging touch
//! this metadata only. What a partition adds to its rows:
//!
//! - the **lock**: one writer at a time, for transactions and design changes alike;
//! - the **version**: how many events its stream has seen;
//! - the **last commit**: the time of the newest installed event, and a mark while one is being
//!   published, so that a reader of several partitions never sees half of a transaction;
//! - **complete**: up to which time the copy here is known to hold everything. For a master that is
//!   "for ever", as nothing can happen elsewhere; a replica that keeps up shares the word of its
//!   [`Feed`], so that a site with thousands of replicas hears one heartbeat, not thousands;
//! - **since**: from which time on the copy here holds history. Snapshots before it must not read it.

use crate::sync::{AtomicBool, AtomicU64, Ordering, spin};
use crate::wait::{Alarms, Lock, Waiters};
use arc_swap::ArcSwapOption;
use isomer_design::{KeyRange, TableId, Time, Version};
use std::sync::Arc;
use std::task::Waker;

const PUBLISHING: u64 = 1;
/// How often a reader looks at a partition that is publishing before it goes to wait.
const SETTLE_ROUNDS: u32 = if cfg!(feature = "shuttle") { 2 } else { 32 };

/// The metadata of one partition at one site. See the [module documentation](self).
pub struct Partition {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// Held by whoever writes to the partition or changes it.
    pub lock: Lock,
    /// Woken when the last commit, completeness or mastership moves.
    pub progress: Waiters,
    version: AtomicU64,
    /// Time of the last installed event, shifted left by one, and the publishing mark.
    last: AtomicU64,
    /// What the copy knows of itself: `Time::MAX` at a master.
    complete: AtomicU64,
    /// True while events from the feed wait to be installed: the feed's word does not hold yet.
    lagging: AtomicBool,
    feed: ArcSwapOption<Feed>,
    /// At a master, what it has promised; at a replica, what it was promised.
    closed_ahead_until: AtomicU64,
    /// Up to when somebody asked for such a promise.
    asked: AtomicU64,
    since: AtomicU64,
}

/// The stream of events from one master site, and up to when it is known to have told everything.
#[derive(Default)]
pub struct Feed {
    closed: AtomicU64,
    /// Up to when somebody asked for it to be closed.
    asked: AtomicU64,
    /// Those who wait for it to be closed up to a time.
    alarms: Alarms,
}

impl Feed {
    /// Every event up to this time has arrived.
    pub fn closed(&self) -> Time {
        Time(self.closed.load(Ordering::SeqCst))
    }

    /// Closes the stream further. Partitions with events that still wait are marked as lagging
    /// before.
    pub fn close(&self, time: Time) {
        if self.closed.fetch_max(time.0, Ordering::SeqCst) < time.0 {
            self.alarms.ring(time);
        }
    }

    /// True for the first who wants it closed up to this time: it is enough if one of them asks.
    pub fn ask(&self, time: Time) -> bool {
        self.asked.fetch_max(time.0, Ordering::SeqCst) < time.0
    }
}

/// The state of a partition that travels: into the log, into checkpoints, over to replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Events so far.
    pub version: Version,
    /// Time of the last one.
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

    /// Events so far.
    pub fn version(&self) -> Version {
        self.version.load(Ordering::Acquire)
    }

    /// Time of the last installed event.
    pub fn last(&self) -> Time {
        Time(self.last.load(Ordering::SeqCst) >> 1)
    }

    /// Up to which time this copy holds everything.
    pub fn safe_time(&self) -> Time {
        let own = Time(self.complete.load(Ordering::SeqCst));
        if own == Time::MAX {
            return own;
        }
        let own = own.max(self.closed_ahead_until());
        let Some(feed) = &*self.feed.load() else { return own };
        // In this order: whoever closes the feed further has marked us as lagging before.
        let closed = feed.closed();
        if self.lagging.load(Ordering::SeqCst) || !self.follows(feed) {
            own
        } else {
            own.max(closed)
        }
    }

    /// True if `feed` still speaks for this copy. The master may have changed while its events
    /// waited, and they may wait no longer.
    fn follows(&self, feed: &Arc<Feed>) -> bool {
        self.feed.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, feed))
    }

    /// No event that is not here yet will be at or before this time: the master's promise.
    pub fn closed_ahead_until(&self) -> Time {
        Time(self.closed_ahead_until.load(Ordering::SeqCst))
    }

    /// The master promises silence up to this time; or a replica that holds everything has heard of that.
    pub fn close_ahead(&self, until: Time) {
        self.closed_ahead_until.fetch_max(until.0, Ordering::SeqCst);
        self.progress.wake();
    }

    /// True for the first who wants silence up to this time: it is enough if one of them asks.
    pub fn ask(&self, time: Time) -> bool {
        self.asked.fetch_max(time.0, Ordering::SeqCst) < time.0
    }

    /// True if this copy is the master's.
    pub fn is_master(&self) -> bool {
        self.complete.load(Ordering::SeqCst) == Time::MAX.0
    }

    /// From which time on this copy holds history.
    pub fn since(&self) -> Time {
        Time(self.since.load(Ordering::SeqCst))
    }

    /// Forgets the history before `time`.
    pub fn raise_since(&self, time: Time) {
        self.since.fetch_max(time.0, Ordering::SeqCst);
    }

    /// The feed that the copy follows.
    pub fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.load_full()
    }

    /// Becomes the master's copy, which is complete for ever.
    pub fn become_master(&self) {
        self.complete.store(Time::MAX.0, Ordering::SeqCst);
        self.feed.store(None);
        self.lagging.store(false, Ordering::SeqCst);
        self.progress.wake();
    }

    /// Becomes a replica that holds everything up to `complete`, and follows `feed`, if it has
    /// joined one.
    pub fn follow(&self, complete: Time, feed: Option<Arc<Feed>>) {
        self.complete.store(complete.0, Ordering::SeqCst);
        self.feed.store(feed);
        self.progress.wake();
    }

    /// Says whether events from the feed wait to be installed.
    pub fn set_lagging(&self, lagging: bool) {
        let complete = self.safe_time();
        if lagging && complete != Time::MAX {
            // Only ever forward: the copy may be becoming the master's at this moment.
            self.complete.fetch_max(complete.0, Ordering::SeqCst);
        }
        self.lagging.store(lagging, Ordering::SeqCst);
        if !lagging {
            self.progress.wake();
        }
    }

    /// Leaves a waker for whatever may let this copy be complete up to `time`.
    pub fn wait_until_complete(&self, time: Time, waker: &Waker) {
        self.progress.register(waker);
        if let Some(feed) = &*self.feed.load() {
            feed.alarms.set(time, waker);
        }
    }

    /// Marks that an event is about to get its time and to be installed. Needs the lock.
    ///
    /// The mark goes up before the time is taken: a reader that sees no mark knows that every event
    /// still to come is later than everything it has seen.
    pub fn begin_publishing(&self) {
        let last = self.last.load(Ordering::Relaxed);
        assert_eq!(last & PUBLISHING, 0, "one event is published at a time");
        self.last.store(last | PUBLISHING, Ordering::SeqCst);
    }

    /// The event is not to be: its record could not be logged.
    pub fn cancel_publishing(&self) {
        let last = self.last.load(Ordering::Relaxed);
        self.last.store(last & !PUBLISHING, Ordering::SeqCst);
        self.progress.wake();
    }

    /// The event is installed: version and time move, readers see it.
    pub fn end_publishing(&self, version: Version, time: Time) {
        let last = self.last.load(Ordering::Relaxed);
        assert_eq!(last & PUBLISHING, PUBLISHING, "what ends was begun");
        assert!(last >> 1 < time.0, "events of a partition are installed in the order of time");
        self.version.store(version, Ordering::Release);
        self.last.store(time.0 << 1, Ordering::SeqCst);
        self.progress.wake();
    }

    /// True while an event may have its time and is not visible yet. A version that is read after
    /// this was false counts every event that had its time before.
    pub fn is_publishing(&self) -> bool {
        self.last.load(Ordering::SeqCst) & PUBLISHING != 0
    }

    /// The time of the last installed event, or `None` while one is being published (after giving
    /// it the moment that this normally takes).
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
