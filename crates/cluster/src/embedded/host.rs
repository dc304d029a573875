//! One site of this process: its worker thread, its disk, and the clients that help.
//!
//! ```text
//!   client threads                 one worker thread per site
//!   ───────────────                ──────────────────────────
//!   route ─▶ call the site         inbox ─▶ receive            messages from other sites
//!        │   in its own code       log: work ─▶ sync ─▶ ship   group commit, then replication
//!        ▼ has to wait             every 2 ms: tick            heartbeats, garbage
//!   sync the log it wrote to,
//!   empty inboxes, then park until woken
//! ```
//!
//! A site without writes ticks less and less often. No other site needs its heartbeats then, and a
//! reader that waits for one requests it by a message, which wakes the worker.
//!
//! A transaction runs on the thread of its client. The worker of a site does the work that no
//! client should wait for. A client that has to wait does some of the workers' work first, because
//! that is often what it waits for. It empties inboxes, and syncs the log that it has just written
//! to unless another thread syncs it. That is cheaper than waking the worker and being woken by it.
//! Commits gather during a sync. The worker's next sync covers them all.

use super::busy::{Busy, Window};
use super::clock::WallClock;
use super::mailboxes::{Inbox, Mailboxes};
use super::thread::start;
use crate::remote::ServedPins;
use crate::transport::calls_for_failover;
use isomer_log::Durability;
use isomer_site::{Network, Pin, Site, TimeSource};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two ticks of a site that writes its log, and the longest of one that does not.
const TICKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(64));

/// A site, and the thread that works for it.
pub(super) struct Host {
    pub(super) site: Arc<Site>,
    /// Woken by the log when it has something to sync.
    driver: Waker,
    inbox: Arc<Inbox>,
    mailboxes: Arc<Mailboxes>,
    durability: Durability,
    /// Held while the inbox is being emptied.
    receiving: Mutex<()>,
    stop: AtomicBool,
    worker: Mutex<Option<JoinHandle<()>>>,
    renewal: Arc<Renewal>,
    pub(super) busy: Busy,
    pins: Arc<ServedPins<Pin>>,
    clock: Arc<WallClock>,
}

/// Renews the lease of the gateway of this process, once there is one and if no site is elsewhere.
/// Never blocks.
pub(super) type Renewal = OnceLock<Box<dyn Fn() + Send + Sync>>;

/// The parts of a runtime that its hosts share.
pub(super) struct Shared {
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) renewal: Arc<Renewal>,
    pub(super) pins: Arc<ServedPins<Pin>>,
    pub(super) clock: Arc<WallClock>,
}

impl Host {
    /// Starts the worker of a site.
    pub(super) fn start(site: Site, durability: Durability, shared: Shared) -> Arc<Host> {
        let Shared { mailboxes, renewal, pins, clock } = shared;
        let id = site.id();
        let host = Arc::new_cyclic(|host: &Weak<Host>| Host {
            site: Arc::new(site),
            driver: Waker::from(Arc::new(Driver(host.clone()))),
            inbox: mailboxes.inbox(id),
            mailboxes,
            durability,
            receiving: Mutex::new(()),
            stop: AtomicBool::new(false),
            worker: Mutex::new(None),
            renewal,
            busy: Busy::default(),
            pins,
            clock,
        });
        let worker = {
            let host = host.clone();
            start(&format!("isomer-{id}"), move || host.work())
        };
        host.inbox.set_worker(worker.thread());
        *host.worker.lock() = Some(worker);
        host
    }

    /// Stops the worker, after a last sync of the log.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(worker) = self.worker.lock().take() {
            worker.thread().unpark();
            // A worker that panicked has reported it already.
            let _ = worker.join();
        }
    }

    /// Passes the messages of the inbox to the site. Returns `false` if there are none, or another
    /// thread does this.
    pub(super) fn receive(&self) -> bool {
        let Some(_receiving) = self.receiving.try_lock() else { return false };
        let messages = self.inbox.take();
        // If commits do not wait for the disk, logged events are sent as soon as a thread gets
        // here.
        let sent = self.durability != Durability::Commit && self.site.has_unsent();
        if sent || (!messages.is_empty() && self.durability != Durability::Commit) {
            self.sync();
            self.ship();
        }
        let received = !messages.is_empty();
        if received {
            self.busy.during(|| {
                messages.into_iter().for_each(|(from, message)| self.site.receive(from, message));
            });
        }
        received || sent
    }

    fn sync(&self) {
        // A failed log reports the error to all that wait for it.
        let _ = self.site.log().sync();
    }

    fn ship(&self) {
        self.busy.during(|| self.site.ship());
    }

    /// Syncs on a client's thread. Commits of others since then are left to the worker.
    fn sync_for_client(&self) {
        self.sync();
        self.ship();
        if matches!(self.site.log().poll_work(&self.driver), Poll::Ready(Ok(()))) {
            self.wake_worker();
        }
    }

    fn wake_worker(&self) {
        self.inbox.wake_worker();
    }

    /// Reports a failure of the log. Returns `false` if there is none to report, or no receiver
    /// yet.
    fn tell_failure(&self) -> bool {
        let failure = self.site.failure().filter(calls_for_failover);
        let (Some(failure), Some(tell)) = (failure, self.mailboxes.on_failure.get()) else {
            return false;
        };
        self.mailboxes.trouble(self.site.id(), &failure.to_string());
        tell(self.site.id());
        true
    }

    #[allow(clippy::disallowed_methods, reason = "the edge: the worker measures its own pauses")]
    fn work(&self) {
        let (mut ticked, mut synced) = (Instant::now(), Instant::now());
        let longest = match self.durability {
            Durability::Interval(pause) => TICKS.1.min(pause),
            _ => TICKS.1,
        };
        let (mut pause, mut end) = (TICKS.0, self.site.log().end());
        let (mut told, mut window) = (false, Window::begin(&self.busy));
        while !self.stop.load(Ordering::SeqCst) {
            told = told || self.tell_failure();
            let mut worked = self.receive();
            if self.durability == Durability::Commit
                && matches!(self.site.log().poll_work(&self.driver), Poll::Ready(Ok(())))
            {
                self.sync();
                self.ship();
                worked = true;
            }
            if ticked.elapsed() >= pause {
                let due = match self.durability {
                    Durability::Interval(pause) => synced.elapsed() >= pause,
                    _ => true,
                };
                if due {
                    self.sync();
                    synced = Instant::now();
                }
                let freed = self.busy.during(|| self.site.tick());
                window.look(&self.busy);
                self.pins.expire(self.clock.now());
                if let Some(renew) = self.renewal.get() {
                    renew();
                }
                ticked = Instant::now();
                let before = end;
                end = self.site.log().end();
                let is_idle = end == before && !freed.is_more;
                pause = if is_idle { (pause * 2).min(longest) } else { TICKS.0 };
            } else if !worked {
                std::thread::park_timeout(pause.saturating_sub(ticked.elapsed()));
            }
        }
        self.sync();
    }
}

/// Woken by a log when it has something to sync. Leaves that to the client that has just written to
/// the log and is about to wait, or else wakes the worker.
struct Driver(Weak<Host>);

impl Wake for Driver {
    fn wake(self: Arc<Driver>) {
        let Some(host) = self.0.upgrade() else { return };
        UNSYNCED.with_borrow_mut(|unsynced| match unsynced {
            Some(hosts) => hosts.0.push(host),
            None => host.wake_worker(),
        });
    }
}

/// The logs that a client has written to since its last wait, and whose workers were not woken.
#[derive(Default)]
pub(super) struct Unsynced(Vec<Arc<Host>>);

/// The state before a client ran a part of its transaction, restored afterwards.
struct Before(Option<Unsynced>);

impl Drop for Before {
    fn drop(&mut self) {
        // Not empty only after a panic of the client.
        let left = UNSYNCED.replace(self.0.take());
        left.iter().for_each(Unsynced::leave);
    }
}

impl Unsynced {
    /// Calls a function. Returns also the logs that have something to sync since then.
    pub(super) fn during<T>(call: impl FnOnce() -> T) -> (T, Unsynced) {
        let _before = Before(UNSYNCED.replace(Some(Unsynced::default())));
        let called = call();
        let unsynced = UNSYNCED.with_borrow_mut(|unsynced| unsynced.as_mut().map(std::mem::take));
        (called, unsynced.unwrap_or_default())
    }

    /// Wakes the workers to sync them all.
    pub(super) fn leave(&self) {
        self.0.iter().for_each(|host| host.wake_worker());
    }

    /// Syncs one, while the workers sync the others.
    pub(super) fn sync_one(mut self) {
        let own = self.0.pop();
        self.leave();
        own.iter().for_each(|host| host.sync_for_client());
    }
}

thread_local! {
    /// `Some` while a client runs a part of its transaction.
    static UNSYNCED: RefCell<Option<Unsynced>> = const { RefCell::new(None) };
}
