//! The embedded runtime: sites as parts of this process.
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
//! A site where nothing is written ticks less and less often: nobody needs its heartbeats, and whoever
//! waits for one asks for it by a message, which wakes the worker.
//!
//! A transaction runs on the thread of its client. The worker of a site does what no client should
//! wait for. A client that has to wait first does the workers' work for them, since that is often what
//! it waits for: it empties inboxes, and syncs the log that it has just written to, if nobody is at it,
//! instead of waking the worker and being woken by it. While somebody syncs, commits gather; the next
//! sync covers them all, and is the worker's.

use crate::busy::{Busy, Window};
use crate::embedded::Embedded;
use crate::open::{CancelReason, CancelToken, Gateway};
use crate::remote::{Remote, ServedPins, Wire};
use crate::router::unless;
use arc_swap::{ArcSwap, Guard};
use futures_util::FutureExt;
use isomer_design::{SiteId, Time};
use isomer_log::Durability;
use isomer_site::{MemoryLimit, Message, Network, Pin, Procedures, Site, TimeSource, wire};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

/// The pause between two ticks of a site that writes its log, and the longest of one that does not.
const TICKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(64));

/// The computer's clock: monotonic while the process runs, and real time from one run to the next.
pub(crate) struct WallClock {
    begun: Instant,
    epoch_ns: u64,
}

impl WallClock {
    #[allow(clippy::disallowed_methods, reason = "the edge: time enters the database here")]
    pub(crate) fn new() -> WallClock {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallClock { begun: Instant::now(), epoch_ns: epoch.as_nanos() as u64 }
    }
}

impl TimeSource for WallClock {
    fn now(&self) -> Time {
        Time(self.epoch_ns + self.begun.elapsed().as_nanos() as u64)
    }
}

/// Where leases are renewed by a thread of their own, as answers take their time: the pause, and how long it waits.
const RENEWALS: (Duration, Duration) = (Duration::from_millis(16), Duration::from_secs(1));

/// The messages between sites: to the inboxes of those of this process, and over the wire to the others.
#[derive(Default)]
pub(crate) struct Mailboxes {
    wire: Option<Arc<dyn Wire>>,
    inboxes: ArcSwap<BTreeMap<SiteId, Arc<Inbox>>>,
    /// Who is told of a site whose log has failed.
    pub(crate) on_failure: OnceLock<Box<dyn Fn(SiteId) + Send + Sync>>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    messages: Mutex<VecDeque<(SiteId, Message)>>,
    worker: Mutex<Option<Thread>>,
}

impl Mailboxes {
    /// Brings a message to a site of this process.
    fn deliver(&self, from: SiteId, to: SiteId, message: Message) {
        let inbox = self.inbox(to);
        inbox.messages.lock().push_back((from, message));
        if let Some(worker) = &*inbox.worker.lock() {
            worker.unpark();
        }
    }

    /// The inbox of a site, made if there is none yet.
    fn inbox(&self, site: SiteId) -> Arc<Inbox> {
        if let Some(inbox) = self.inboxes.load().get(&site) {
            return inbox.clone();
        }
        self.inboxes.rcu(|inboxes| {
            let mut inboxes = BTreeMap::clone(inboxes);
            inboxes.entry(site).or_default();
            inboxes
        });
        self.inboxes.load()[&site].clone()
    }
}

impl Network for Mailboxes {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        match &self.wire {
            Some(wire) if wire.reaches(to) => wire.send(to, wire::message(from, to, &message)),
            _ => self.deliver(from, to, message),
        }
    }
}

/// A site, and the thread that works for it.
pub(crate) struct Host {
    pub(crate) site: Arc<Site>,
    /// What the log wakes when it has something to sync.
    driver: Waker,
    inbox: Arc<Inbox>,
    mailboxes: Arc<Mailboxes>,
    durability: Durability,
    /// Held by whoever empties the inbox.
    receiving: Mutex<()>,
    stop: AtomicBool,
    worker: Mutex<Option<JoinHandle<()>>>,
    gateway: SharedGateway,
    pub(crate) busy: Busy,
    pins: Arc<ServedPins<Pin>>,
    clock: Arc<WallClock>,
}

/// The gateway whose lease the workers renew, once there is one and no site is elsewhere.
type SharedGateway = Arc<OnceLock<Weak<Gateway<Embedded>>>>;

impl Host {
    /// Hands the messages of the inbox to the site; `false` if there are none, or somebody is at it.
    fn receive(&self) -> bool {
        let Some(_receiving) = self.receiving.try_lock() else { return false };
        let messages = std::mem::take(&mut *self.inbox.messages.lock());
        // Where nobody waits for the log's disk, what is logged is sent as soon as somebody asks.
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
        // A failed log tells everyone who waits for it; there is nothing to add here.
        let _ = self.site.log().sync();
    }

    fn ship(&self) {
        self.busy.during(|| self.site.ship());
    }

    /// Syncs on a client's thread. What others have written meanwhile is the worker's.
    fn sync_for_client(&self) {
        self.sync();
        self.ship();
        if matches!(self.site.log().poll_work(&self.driver), Poll::Ready(Ok(()))) {
            self.wake_worker();
        }
    }

    fn wake_worker(&self) {
        if let Some(worker) = &*self.inbox.worker.lock() {
            worker.unpark();
        }
    }

    /// Says that the log has failed, if it has; `false` if there is nothing to say, or nobody to hear it.
    fn tell_failure(&self) -> bool {
        let (Some(failure), Some(tell)) = (self.site.failure(), self.mailboxes.on_failure.get())
        else {
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
                if let Some(gateway) = self.gateway.get().and_then(Weak::upgrade) {
                    // No site of this process lets it wait.
                    let _ = gateway.renew().now_or_never();
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

/// All sites of this process.
pub(crate) struct Runtime {
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) clock: Arc<WallClock>,
    pub(crate) procedures: Arc<Procedures>,
    /// Of each site.
    pub(crate) memory: Arc<MemoryLimit>,
    /// What the sites of this process keep for clients elsewhere.
    pub(crate) pins: Arc<ServedPins<Pin>>,
    elsewhere: Option<Remote>,
    gateway: SharedGateway,
    hosts: ArcSwap<BTreeMap<SiteId, Arc<Host>>>,
    /// Renews the leases of a gateway, if there are sites elsewhere.
    renewer: Mutex<Option<JoinHandle<()>>>,
    stopped: AtomicBool,
}

impl Runtime {
    #[allow(clippy::disallowed_methods, reason = "the edge: no two clients may have one name")]
    pub(crate) fn new(procedures: Procedures, wire: Option<Arc<dyn Wire>>) -> Runtime {
        let clock = Arc::new(WallClock::new());
        let mailboxes = Arc::new(Mailboxes { wire: wire.clone(), ..Mailboxes::default() });
        let client = RandomState::new().hash_one(clock.now().0);
        Runtime {
            elsewhere: wire.map(|wire| Remote::new(wire, mailboxes.clone(), client)),
            mailboxes,
            clock,
            procedures: Arc::new(procedures),
            memory: Arc::default(),
            pins: Arc::default(),
            gateway: Arc::default(),
            hosts: ArcSwap::default(),
            renewer: Mutex::new(None),
            stopped: AtomicBool::new(false),
        }
    }

    /// The way to a site, if it is in another process.
    #[inline]
    pub(crate) fn elsewhere(&self, site: SiteId) -> Option<&Remote> {
        self.elsewhere.as_ref().filter(|remote| remote.reaches(site))
    }

    /// True if the site is, or would be, in this process.
    pub(crate) fn hosts_site(&self, site: SiteId) -> bool {
        self.elsewhere(site).is_none()
    }

    /// The sites of this process.
    #[inline]
    pub(crate) fn hosts(&self) -> Guard<Arc<BTreeMap<SiteId, Arc<Host>>>> {
        self.hosts.load()
    }

    /// Brings a message from elsewhere to a site; to one that is not here, it is lost.
    pub(crate) fn deliver(&self, from: SiteId, to: SiteId, message: Message) {
        if self.hosts.load().contains_key(&to) {
            self.mailboxes.deliver(from, to, message);
        }
    }

    /// Takes a site in and starts its worker.
    pub(crate) fn add(&self, site: Site, durability: Durability) {
        let id = site.id();
        let host = Arc::new_cyclic(|host: &Weak<Host>| Host {
            site: Arc::new(site),
            driver: Waker::from(Arc::new(Driver(host.clone()))),
            inbox: self.mailboxes.inbox(id),
            mailboxes: self.mailboxes.clone(),
            durability,
            receiving: Mutex::new(()),
            stop: AtomicBool::new(false),
            worker: Mutex::new(None),
            gateway: self.gateway.clone(),
            busy: Busy::default(),
            pins: self.pins.clone(),
            clock: self.clock.clone(),
        });
        let worker = {
            let host = host.clone();
            start(&format!("isomer-{id}"), move || host.work())
        };
        *host.inbox.worker.lock() = Some(worker.thread().clone());
        *host.worker.lock() = Some(worker);
        self.hosts.rcu(|hosts| {
            let mut hosts = BTreeMap::clone(hosts);
            hosts.insert(id, host.clone());
            hosts
        });
        let others = self.hosts.load();
        host.site.greet(others.keys().copied().filter(|other| *other != id));
    }

    /// Has the lease of a gateway renewed from now on.
    pub(crate) fn set_gateway(self: &Arc<Runtime>, gateway: &Arc<Gateway<Embedded>>) {
        let gateway = Arc::downgrade(gateway);
        if self.elsewhere.is_some() {
            let runtime = self.clone();
            let renewer = start("isomer-lease", move || runtime.renew_leases(&gateway));
            let before = self.renewer.lock().replace(renewer);
            assert!(before.is_none(), "a database has one gateway, which it is given to");
        } else {
            let set = self.gateway.set(gateway);
            assert!(set.is_ok(), "a database has one gateway, which it is given to");
        }
    }

    fn renew_leases(&self, gateway: &Weak<Gateway<Embedded>>) {
        let (pause, longest) = RENEWALS;
        while !self.stopped.load(Ordering::SeqCst) {
            let Some(gateway) = gateway.upgrade() else { break };
            // What does not answer is asked again.
            let _ = self.block_on_for(gateway.renew(), longest);
            drop(gateway);
            std::thread::park_timeout(pause);
        }
    }

    /// Stops a site's worker, and forgets the site.
    pub(crate) fn remove(&self, id: SiteId) {
        let Some(host) = self.hosts.load().get(&id).cloned() else { return };
        self.hosts.rcu(|hosts| {
            let mut hosts = BTreeMap::clone(hosts);
            hosts.remove(&id);
            hosts
        });
        self.stop(&host);
    }

    /// Stops all workers, after a last sync of each log.
    pub(crate) fn stop_all(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(renewer) = self.renewer.lock().take() {
            renewer.thread().unpark();
            // A thread that panicked has said so already.
            let _ = renewer.join();
        }
        for host in self.hosts.swap(Arc::default()).values() {
            self.stop(host);
        }
    }

    fn stop(&self, host: &Host) {
        host.stop.store(true, Ordering::SeqCst);
        if let Some(worker) = host.worker.lock().take() {
            worker.thread().unpark();
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
    }

    pub(crate) fn site(&self, id: SiteId) -> Option<Arc<Site>> {
        self.hosts.load().get(&id).map(|host| host.site.clone())
    }

    /// Of the time of all processors in the last second, a site's share.
    pub(crate) fn busy(&self, id: SiteId) -> Option<f64> {
        self.hosts.load().get(&id).and_then(|host| host.busy.share())
    }

    pub(crate) fn host(&self, id: SiteId) -> Option<Arc<Host>> {
        self.hosts.load().get(&id).cloned()
    }

    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        self.hosts.load().values().map(|host| host.site.clone()).collect()
    }

    /// Empties inboxes; `false` if there was nothing to do.
    fn help(&self) -> bool {
        let helped = self.hosts.load().values().filter(|host| host.receive()).count();
        helped > 0
    }

    /// As [`Runtime::block_on`], for a client whose wait may be cancelled: the future is dropped then.
    pub(crate) fn block_on_until<F: Future>(
        &self,
        cancel: &CancelToken,
        future: F,
    ) -> Result<F::Output, CancelReason> {
        self.block_on(unless(&|waker| cancel.poll_over(waker), future))
    }

    /// Runs a future on this thread, which helps the sites while it has to wait.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.block_on_by(future, None).expect("it has no limit")
    }

    /// The same, but no longer than `time`; `None` if that was not enough.
    #[allow(clippy::disallowed_methods, reason = "the edge: clients limit how long they wait")]
    pub(crate) fn block_on_for<F: Future>(&self, future: F, time: Duration) -> Option<F::Output> {
        self.block_on_by(future, Instant::now().checked_add(time))
    }

    fn block_on_by<F: Future>(&self, future: F, until: Option<Instant>) -> Option<F::Output> {
        let mut future = pin!(future);
        SLEEPER.with(|(sleeper, waker)| {
            loop {
                let (polled, unsynced) =
                    Unsynced::during(|| future.as_mut().poll(&mut Context::from_waker(waker)));
                if let Poll::Ready(done) = polled {
                    unsynced.leave();
                    return Some(done);
                }
                unsynced.sync_one();
                while !sleeper.woken.swap(false, Ordering::SeqCst) {
                    if !self.help() && !park(until) {
                        return None;
                    }
                }
            }
        })
    }
}

/// Starts a thread.
#[allow(
    clippy::disallowed_methods,
    reason = "the edge: the runtime's threads, and the database's own"
)]
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.expect("the system starts a thread for each site, and three for each database")
}

/// Parks this thread until it is woken or it is time; `false` if it is.
#[allow(clippy::disallowed_methods, reason = "the edge: clients limit how long they wait")]
fn park(until: Option<Instant>) -> bool {
    let Some(until) = until else {
        std::thread::park();
        return true;
    };
    let left = until.saturating_duration_since(Instant::now());
    std::thread::park_timeout(left);
    !left.is_zero()
}

/// What a log wakes when it has something to sync: the client that has just written to it and is about
/// to wait, or else the worker.
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

/// The logs that a client has written to since it last waited, and that nobody is told to sync.
#[derive(Default)]
struct Unsynced(Vec<Arc<Host>>);

/// What was there before a client ran a part of its transaction, and is there again afterwards.
struct Before(Option<Unsynced>);

impl Drop for Before {
    fn drop(&mut self) {
        // Only a client that panics has left something.
        let left = UNSYNCED.replace(self.0.take());
        left.iter().for_each(Unsynced::leave);
    }
}

impl Unsynced {
    /// Calls a function, and says which logs have something to sync since then.
    fn during<T>(call: impl FnOnce() -> T) -> (T, Unsynced) {
        let _before = Before(UNSYNCED.replace(Some(Unsynced::default())));
        let called = call();
        let unsynced = UNSYNCED.with_borrow_mut(|unsynced| unsynced.as_mut().map(std::mem::take));
        (called, unsynced.unwrap_or_default())
    }

    /// Leaves them to the workers.
    fn leave(&self) {
        self.0.iter().for_each(|host| host.wake_worker());
    }

    /// Syncs one, while the workers sync the others.
    fn sync_one(mut self) {
        let own = self.0.pop();
        self.leave();
        own.iter().for_each(|host| host.sync_for_client());
    }
}

/// A thread that waits for a future.
struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Sleeper>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Sleeper>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

thread_local! {
    /// There while a client runs a part of its transaction.
    static UNSYNCED: RefCell<Option<Unsynced>> = const { RefCell::new(None) };

    static SLEEPER: (Arc<Sleeper>, Waker) = {
        let thread = std::thread::current();
        let sleeper = Arc::new(Sleeper { thread, woken: AtomicBool::new(false) });
        (sleeper.clone(), Waker::from(sleeper))
    };
}
