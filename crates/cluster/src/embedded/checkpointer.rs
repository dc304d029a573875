//! The thread that makes checkpoints, so that no log grows without bound.
//!
//! ```text
//!   ten times a second:   which sites are due?   ─▶ the longest log, relative to its limit
//!                         (policy: log, time)       piece ─ pause ─ piece ─ pause ─ …  cut its log
//!                                                         (policy: pace)
//! ```
//!
//! A process makes one checkpoint at a time, because its sites share disk and processors. A request
//! for checkpoints (`CHECKPOINT`, a clean stop) waits for the one under way, which then skips its
//! pauses. It makes its own checkpoints on its own thread, without pauses. A client that cancels
//! its statement ends the wait.
//!
//! A checkpoint waits for the locks of partitions. A distributed transaction in doubt may hold such
//! a lock for long. A checkpoint without progress for [`STUCK`] is stopped and tried again later,
//! because the other sites' logs grow during the wait.

mod policy;

pub use policy::Checkpointing;

use super::runtime::Runtime;
use isomer_design::{SiteId, Time};
use isomer_site::{CheckpointError, Pace, Site, Stage, TimeSource};
use parking_lot::Mutex;
use policy::{Pacing, Standing};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// The interval at which the thread checks whether a checkpoint is due.
const LOOK: Duration = Duration::from_millis(100);
/// The pause between two checks whether a checkpoint may write more.
const PAUSE: Duration = Duration::from_millis(2);
/// The time without progress after which a checkpoint is stopped.
const STUCK: Duration = Duration::from_secs(30);

/// See the [module documentation](self).
pub(crate) struct Checkpointer {
    policy: Checkpointing,
    /// Held while a checkpoint is made.
    turn: Mutex<()>,
    /// The number of requests that wait for their turn, or have it. While there are any, the
    /// checkpoint under way does not pause.
    hurried: AtomicUsize,
    /// The number of other sites that are due.
    waiting: AtomicU64,
    stopped: AtomicBool,
    thread: Mutex<Option<Thread>>,
    attempts: Mutex<BTreeMap<SiteId, Attempts>>,
}

/// The last attempts at one site.
#[derive(Clone, Default)]
struct Attempts {
    /// When the last successful one began, or the site was first seen.
    since: Time,
    failed: Option<(Time, u32)>,
    /// Why the last one failed.
    error: Option<String>,
}

impl Checkpointer {
    pub(crate) fn new(policy: Checkpointing) -> Checkpointer {
        Checkpointer {
            policy,
            turn: Mutex::new(()),
            hurried: AtomicUsize::new(0),
            waiting: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            thread: Mutex::new(None),
            attempts: Mutex::default(),
        }
    }

    /// Makes checkpoints when they are due, until it is stopped.
    pub(crate) fn work(&self, runtime: &Runtime) {
        *self.thread.lock() = Some(std::thread::current());
        while !self.stopped.load(Ordering::SeqCst) {
            for site in runtime.sites() {
                // Log files that cannot be removed now are removed at the next checkpoint.
                let _ = site.cut_again();
            }
            match self.most_due(runtime) {
                Some(site) => self.make_due(runtime, &site),
                None => std::thread::park_timeout(LOOK),
            }
        }
    }

    /// Ends the thread soon, whatever it is doing.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// Makes a checkpoint of each site, without pauses, while `goes_on` returns true. Returns false
    /// if it was stopped. Finished checkpoints stay.
    ///
    /// # Errors
    /// The first error; the earlier sites have made theirs.
    pub(crate) fn make_all(
        &self,
        runtime: &Runtime,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, CheckpointError> {
        let _hurried = Hurried::new(&self.hurried);
        let _turn = loop {
            match self.turn.try_lock_for(LOOK) {
                Some(turn) => break turn,
                None if goes_on() => {}
                None => return Ok(false),
            }
        };
        for site in runtime.sites().iter().filter(|site| site.failure().is_none()) {
            let begun = runtime.clock.now();
            let Some(made) = drive(site.checkpoint(&mut Unpaced(goes_on)), goes_on) else {
                return Ok(false);
            };
            self.remember(site.id(), begun, made.as_ref().err().map(ToString::to_string));
            made?;
        }
        Ok(true)
    }

    /// Why the last attempt at a site failed.
    pub(crate) fn error(&self, site: SiteId) -> Option<String> {
        self.attempts.lock().get(&site).and_then(|attempts| attempts.error.clone())
    }

    /// Of the sites that are due, the one whose log is longest relative to its limit.
    fn most_due(&self, runtime: &Runtime) -> Option<Arc<Site>> {
        let now = runtime.clock.now();
        let sites = runtime.sites().into_iter().filter(|site| site.failure().is_none());
        let over = |site: &Site| self.policy.due(&self.standing(site, now));
        let mut due: Vec<(u64, Arc<Site>)> =
            sites.filter_map(|site| Some((over(&site)?, site))).collect();
        self.waiting.store((due.len() as u64).saturating_sub(1), Ordering::Relaxed);
        due.sort_by_key(|(over, _)| *over);
        due.pop().map(|(_, site)| site)
    }

    fn standing(&self, site: &Site, now: Time) -> Standing {
        let mut attempts = self.attempts.lock();
        let fresh = Attempts { since: now, ..Attempts::default() };
        let Attempts { since, failed, .. } = attempts.entry(site.id()).or_insert(fresh);
        let (since, failed, report) = (*since, *failed, site.checkpoints());
        let table_bytes = table_bytes(site, report.bytes);
        Standing { now, since, failed, log_bytes: report.log_bytes, table_bytes }
    }

    fn make_due(&self, runtime: &Runtime, site: &Arc<Site>) {
        let _turn = self.turn.lock();
        let begun = runtime.clock.now();
        let moved = AtomicU64::new(begun.0);
        let mut pace = Paced {
            checkpointer: self,
            runtime,
            site,
            begun,
            log_begin: site.log().end(),
            table_bytes: table_bytes(site, site.checkpoints().bytes),
            moved: &moved,
        };
        let goes_on = || {
            let still = runtime.clock.now().0.saturating_sub(moved.load(Ordering::Relaxed));
            !self.stopped.load(Ordering::SeqCst) && Duration::from_nanos(still) < STUCK
        };
        match drive(site.checkpoint(&mut pace), goes_on) {
            Some(made) => {
                self.remember(site.id(), begun, made.err().map(|error| error.to_string()));
            }
            None if self.stopped.load(Ordering::SeqCst) => {}
            None => {
                let what = format!("a partition was locked for {} s", STUCK.as_secs());
                self.remember(site.id(), begun, Some(what));
            }
        }
    }

    fn remember(&self, site: SiteId, begun: Time, error: Option<String>) {
        let mut all = self.attempts.lock();
        let attempts = all.entry(site).or_default();
        if let Some(what) = &error {
            if attempts.error.is_none() {
                tracing::error!("site {site}: no checkpoint was made, it is tried again: {what}");
            }
            let failures = attempts.failed.map_or(0, |(_, failures)| failures);
            attempts.failed = Some((begun, failures + 1));
        } else {
            attempts.since = begun;
            attempts.failed = None;
        }
        attempts.error = error;
    }
}

/// The approximate number of bytes of a checkpoint: that of the last one, or an estimate from
/// memory if rows have been added since. Rows take half as much again in memory.
fn table_bytes(site: &Site, last: u64) -> u64 {
    last.max(site.memory_bytes() as u64 * 2 / 3)
}

/// Counts a request that must not be delayed, until this is dropped.
struct Hurried<'a>(&'a AtomicUsize);

impl<'a> Hurried<'a> {
    fn new(count: &'a AtomicUsize) -> Hurried<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Hurried(count)
    }
}

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The pace of an automatic checkpoint.
struct Paced<'a> {
    checkpointer: &'a Checkpointer,
    runtime: &'a Runtime,
    site: &'a Site,
    begun: Time,
    log_begin: u64,
    table_bytes: u64,
    /// The time of its last progress.
    moved: &'a AtomicU64,
}

impl Paced<'_> {
    fn may_have(&self, written: u64) -> bool {
        let passed = self.runtime.clock.now().0.saturating_sub(self.begun.0);
        let pacing = Pacing {
            elapsed: Duration::from_nanos(passed),
            log_bytes: self.site.log().end().saturating_sub(self.log_begin),
            table_bytes: self.table_bytes,
            waiting: self.checkpointer.waiting.load(Ordering::Relaxed),
        };
        written <= self.checkpointer.policy.allowed(&pacing)
    }
}

impl Pace for Paced<'_> {
    /// Blocks the checkpointer's own thread, which has no other work.
    async fn reached(&mut self, stage: Stage) {
        let Stage::Copied(written) = stage else { return };
        let Checkpointer { hurried, stopped, .. } = self.checkpointer;
        let is_free = || hurried.load(Ordering::SeqCst) > 0 || stopped.load(Ordering::SeqCst);
        while !is_free() && !self.may_have(written) {
            std::thread::park_timeout(PAUSE);
        }
        self.moved.store(self.runtime.clock.now().0, Ordering::Relaxed);
        if stopped.load(Ordering::SeqCst) {
            // `drive` checks this, and stops the checkpoint.
            std::future::pending::<()>().await;
        }
    }
}

/// The pace of a requested checkpoint: no pauses, while the function returns true.
struct Unpaced<'a>(&'a dyn Fn() -> bool);

impl Pace for Unpaced<'_> {
    async fn reached(&mut self, _: Stage) {
        if !self.0() {
            // `drive` checks this, and stops the checkpoint.
            std::future::pending::<()>().await;
        }
    }
}

/// Wakes a thread that waits for a future.
struct Waiting(Thread);

impl Wake for Waiting {
    fn wake(self: Arc<Waiting>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread while `goes_on` returns true; `None` if it was stopped.
fn drive<F: Future>(future: F, goes_on: impl Fn() -> bool) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Waiting(std::thread::current())));
    let mut future = pin!(future);
    while goes_on() {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        if goes_on() {
            std::thread::park_timeout(LOOK);
        }
    }
    None
}
