//! The sites of this process, and how the threads of clients wait for them.

use super::busy::Processors;
use super::clock::WallClock;
use super::host::{Host, Renewal, Shared, Unsynced};
use super::mailboxes::Mailboxes;
use super::thread::start;
use crate::gateways::desk::Serves;
use crate::gateways::shipping::Runs;
use crate::node::Endpoint;
use crate::open::{CancelReason, CancelToken, Gateway};
use crate::remote::{Remote, ServedPins, Unanswered, Wire};
use crate::router::unless;
use crate::transport::Transport;
use arc_swap::{ArcSwap, Guard};
use futures_util::FutureExt;
use isomer_design::{Domains, SiteId, SiteSet};
use isomer_log::{Durability, LogError};
use isomer_site::wire::{self, ClientId, ToConductor, ToConductorNow};
use isomer_site::{Admission, MemoryLimit, Message, Pin, Procedures, Site, TimeSource};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// The pause between two lease renewals on a thread of their own, and the longest wait for the
/// answers. That thread is used if there are sites elsewhere.
const RENEWALS: (Duration, Duration) = (Duration::from_millis(16), Duration::from_secs(1));

/// The pause between two checks whether logs still belong to this process.
const OWNERS: Duration = Duration::from_secs(2);

/// All sites of this process.
pub(crate) struct Runtime {
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) clock: Arc<WallClock>,
    pub(crate) procedures: Arc<Procedures>,
    /// The gateways whose commits the sites of this process accept.
    pub(crate) admission: Arc<Admission>,
    /// The memory limit of each site.
    pub(crate) memory: Arc<MemoryLimit>,
    /// The use of processors by this process.
    pub(super) processors: Processors,
    /// The pins that the sites of this process keep for clients elsewhere.
    pub(crate) pins: Arc<ServedPins<Pin>>,
    /// The number of this process as a client of sites.
    pub(crate) client: ClientId,
    /// Serves the gateways of other processes, while the conductor is here.
    pub(crate) desk: Mutex<Option<Arc<dyn Serves>>>,
    /// Runs statements of clients of other processes.
    pub(crate) runs: Mutex<Option<Arc<dyn Runs>>>,
    elsewhere: Option<Remote>,
    /// A site of each other process, until the processes may be others.
    others: Mutex<Option<Arc<[SiteId]>>>,
    renewal: Arc<Renewal>,
    hosts: ArcSwap<BTreeMap<SiteId, Arc<Host>>>,
    wire: Option<Arc<dyn Wire>>,
    /// Called for each site elsewhere that has restarted.
    pub(crate) on_return: OnceLock<Box<dyn Fn(SiteId) + Send + Sync>>,
    /// Renews the leases of a gateway, if there are sites elsewhere.
    renewer: Mutex<Option<JoinHandle<()>>>,
    /// See [`Transport::stale_for`].
    pub(crate) stale_for: AtomicU64,
    /// True once no wait for a site elsewhere may last.
    closing: AtomicBool,
    stopped: AtomicBool,
}

impl Runtime {
    #[allow(clippy::disallowed_methods, reason = "the edge: no two clients may have one name")]
    pub(crate) fn new(procedures: Procedures, wire: Option<Arc<dyn Wire>>) -> Runtime {
        let clock = Arc::new(WallClock::new());
        let mailboxes = Arc::new(Mailboxes::new(wire.clone()));
        let client = RandomState::new().hash_one(clock.now().0);
        Runtime {
            elsewhere: wire.clone().map(|wire| Remote::new(wire, mailboxes.clone(), client)),
            client,
            desk: Mutex::new(None),
            runs: Mutex::new(None),
            others: Mutex::new(None),
            wire,
            on_return: OnceLock::new(),
            mailboxes,
            clock,
            procedures: Arc::new(procedures),
            admission: Arc::default(),
            memory: Arc::default(),
            processors: Processors::new(),
            pins: Arc::default(),
            renewal: Arc::default(),
            hosts: ArcSwap::default(),
            renewer: Mutex::new(None),
            stale_for: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// The client of a site, if it is in another process.
    #[inline]
    pub(crate) fn elsewhere(&self, site: SiteId) -> Option<&Remote> {
        self.elsewhere.as_ref().filter(|remote| remote.reaches(site))
    }

    /// True if the site is, or would be, in this process.
    pub(crate) fn hosts_site(&self, site: SiteId) -> bool {
        self.elsewhere(site).is_none()
    }

    /// The sites that share a process, according to the wire. A site elsewhere whose location the
    /// wire does not know counts as a process of its own.
    pub(crate) fn domains(&self) -> Domains {
        let mut processes: BTreeMap<String, SiteSet> = BTreeMap::new();
        let mut zones: BTreeMap<String, SiteSet> = BTreeMap::new();
        for (wire, site) in
            self.wire.iter().flat_map(|wire| wire.sites().into_iter().map(move |s| (wire, s)))
        {
            let (node, zone) = match wire.reach(site) {
                Some(reach) => (reach.node, reach.zone),
                None => (site.to_string(), None),
            };
            processes.entry(node).or_default().insert(site);
            // The sites of the caller's zone are named by none, as those of its process.
            if let Some(zone) = zone.filter(|zone| Some(zone) != self.zone().as_ref()) {
                zones.entry(zone).or_default().insert(site);
            }
        }
        processes.into_values().collect::<Domains>().with_zones(zones.into_values())
    }

    /// The name of this process among those of its cluster; empty without one.
    pub(crate) fn name(&self) -> String {
        self.wire.as_ref().and_then(|wire| wire.name()).unwrap_or_default()
    }

    /// The zone of this process, if it has one.
    pub(crate) fn zone(&self) -> Option<String> {
        self.wire.as_ref()?.zone()
    }

    /// One site of each other process.
    pub(super) fn one_of_each_process(&self) -> Arc<[SiteId]> {
        // Every snapshot asks for them. The lock is held, so that none of before is kept.
        let mut known = self.others.lock();
        known.get_or_insert_with(|| self.find_one_of_each_process()).clone()
    }

    fn find_one_of_each_process(&self) -> Arc<[SiteId]> {
        let mut first: BTreeMap<String, SiteId> = BTreeMap::new();
        for (wire, site) in
            self.wire.iter().flat_map(|w| w.sites().into_iter().map(move |s| (w, s)))
        {
            let node = wire.reach(site).map_or_else(|| site.to_string(), |reach| reach.node);
            first.entry(node).or_insert(site);
        }
        first.into_values().collect()
    }

    /// Has the wire look who belongs to the cluster.
    pub(crate) fn learn(&self) {
        self.wire.iter().for_each(|wire| wire.learn());
        *self.others.lock() = None;
    }

    /// A process has left the cluster.
    pub(super) fn left(&self, name: &str) {
        self.wire.iter().for_each(|wire| wire.left(name));
        *self.others.lock() = None;
    }

    /// Asks the process with the conductor; before others, if it `is_urgent`.
    pub(super) async fn ask_conductor(
        &self,
        request: Vec<u8>,
        is_urgent: bool,
    ) -> Result<Vec<u8>, Unanswered> {
        let Some(wire) = &self.wire else {
            return Err(Unanswered::Unreachable("there is no other process".to_owned()));
        };
        // Every request has a site; here it stands for the process.
        let any = SiteId(1);
        let answer = if is_urgent {
            let request = wire::ask(any, &ToConductorNow(request));
            wire::read_answer::<ToConductorNow>(&wire.ask_conductor(request).await?)
        } else {
            let request = wire::ask(any, &ToConductor(request));
            wire::read_answer::<ToConductor>(&wire.ask_conductor(request).await?)
        };
        answer.map_err(|_| Unanswered::Lost)
    }

    /// The sites of this process.
    #[inline]
    pub(super) fn hosts(&self) -> Guard<Arc<BTreeMap<SiteId, Arc<Host>>>> {
        self.hosts.load()
    }

    /// Delivers a message from elsewhere to a site. It is lost if the site is not here, or its
    /// inbox is full.
    pub(crate) fn deliver(&self, from: SiteId, to: SiteId, message: Message) {
        if self.hosts.load().contains_key(&to) && self.mailboxes.has_room(to) {
            self.mailboxes.deliver(from, to, message);
        }
    }

    /// True if there may be sites elsewhere.
    pub(crate) fn has_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// Tells the wire that this process has the conductor, in this term of the catalog.
    pub(crate) fn conduct(&self, term: u64) {
        self.admission.conduct(term);
        if let Some(wire) = &self.wire {
            wire.conduct(term);
        }
    }

    /// Why a site elsewhere is declared dead, if it is.
    pub(crate) fn gone(&self, site: SiteId) -> Option<String> {
        self.elsewhere(site)?;
        self.wire.as_ref()?.gone(site)
    }

    /// Notes the failure of a site elsewhere, if the wire declares the site dead.
    pub(crate) fn look_whether_gone(&self, site: SiteId) {
        if let Some(remote) = self.elsewhere(site) {
            remote.look_whether_gone(site);
        }
    }

    /// Opens the wire to others, once all sites of this process are running.
    pub(crate) fn open_wire(self: &Arc<Runtime>) {
        if let Some(wire) = &self.wire {
            wire.open(Endpoint::new(self.clone()));
        }
    }

    /// Handles the handshake with the process of other sites.
    pub(crate) fn meet(&self, others: &[SiteId], is_new: bool) {
        // They may be of a process that has just joined.
        *self.others.lock() = None;
        self.sites().iter().for_each(|site| site.meet(others));
        // A site that was declared dead has missed changes, even if its process has kept running.
        let is_stale = |other: &SiteId| {
            let remote = self.elsewhere(*other);
            is_new || remote.is_some_and(|remote| remote.failure(*other).is_some())
        };
        if let Some(tell) = self.on_return.get() {
            others.iter().filter(|other| is_stale(other)).for_each(|other| tell(*other));
        }
    }

    /// Adds a site and starts its worker.
    pub(super) fn add(&self, site: Site, durability: Durability) {
        let id = site.id();
        let shared = Shared {
            mailboxes: self.mailboxes.clone(),
            renewal: self.renewal.clone(),
            pins: self.pins.clone(),
            clock: self.clock.clone(),
        };
        let host = Host::start(site, durability, shared);
        self.hosts.rcu(|hosts| {
            let mut hosts = BTreeMap::clone(hosts);
            hosts.insert(id, host.clone());
            hosts
        });
        let others = self.hosts.load();
        let here = others.keys().copied().filter(|other| *other != id);
        // Sites elsewhere may be unreachable now. Until they have reported their positions, the log
        // keeps everything that they may lack.
        let elsewhere = self.wire.iter().flat_map(|wire| wire.sites());
        host.site.greet(here.chain(elsewhere));
    }

    /// Renews the lease of a gateway from now on.
    pub(crate) fn set_gateway<T>(self: &Arc<Runtime>, gateway: &Arc<Gateway<T>>)
    where
        T: Transport + Send + Sync + 'static,
        T::Pin: Send + Sync,
    {
        let gateway = Arc::downgrade(gateway);
        let is_first = if self.elsewhere.is_some() {
            let runtime = self.clone();
            let mut renewer = self.renewer.lock();
            if let Some(before) = renewer.take() {
                // Its gateway has ended, and this process has become the conductor.
                before.thread().unpark();
                let _ = before.join();
            }
            *renewer = Some(start("isomer-lease", move || runtime.renew_leases(&gateway)));
            true
        } else {
            let renew = move || {
                if let Some(gateway) = gateway.upgrade() {
                    // All sites are in this process, so the future is ready at once.
                    let _ = gateway.renew().now_or_never();
                }
            };
            self.renewal.set(Box::new(renew)).is_ok()
        };
        assert!(is_first, "a database has one gateway, which it is given to");
    }

    fn renew_leases<T: Transport>(&self, gateway: &Weak<Gateway<T>>) {
        let (pause, longest) = RENEWALS;
        while !self.stopped.load(Ordering::SeqCst) {
            let Some(gateway) = gateway.upgrade() else { break };
            // A renewal that times out is repeated in the next round.
            let _ = self.block_on_for(gateway.renew(), longest);
            drop(gateway);
            std::thread::park_timeout(pause);
        }
    }

    /// Stops a site's worker, and removes the site.
    pub(crate) fn remove(&self, id: SiteId) {
        let Some(host) = self.hosts.load().get(&id).cloned() else { return };
        self.hosts.rcu(|hosts| {
            let mut hosts = BTreeMap::clone(hosts);
            hosts.remove(&id);
            hosts
        });
        host.stop();
    }

    /// From now on, no request waits for an unreachable site in another process.
    pub(crate) fn begin_to_close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Stops all workers, after a last sync of each log.
    pub(crate) fn stop_all(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(renewer) = self.renewer.lock().take() {
            renewer.thread().unpark();
            // A thread that panicked has reported it already.
            let _ = renewer.join();
        }
        if let Some(wire) = &self.wire {
            wire.close();
        }
        for host in self.hosts.swap(Arc::default()).values() {
            host.stop();
        }
    }

    pub(super) fn site(&self, id: SiteId) -> Option<Arc<Site>> {
        self.hosts.load().get(&id).map(|host| host.site.clone())
    }

    /// Checks at intervals whether another process has taken the log of a site, until all are
    /// stopped. An idle site would not find out by itself. `beside` checks the other logs of the
    /// process.
    pub(crate) fn watch_owners(&self, beside: impl Fn()) {
        while !self.stopped.load(Ordering::SeqCst) {
            beside();
            self.sites().iter().for_each(|site| site.log().look_for_others());
            std::thread::park_timeout(OWNERS);
        }
    }

    /// A site whose log another process has taken over, with the error of the log.
    pub(crate) fn fenced(&self) -> Option<(SiteId, LogError)> {
        self.hosts.load().values().find_map(|host| match host.site.failure() {
            Some(fenced @ LogError::Fenced { .. }) => Some((host.site.id(), fenced)),
            _ => None,
        })
    }

    /// The numbers of the sites of this process.
    pub(crate) fn sites_here(&self) -> SiteSet {
        self.hosts.load().keys().copied().collect()
    }

    /// A site's share of the time of all processors in the last second.
    pub(super) fn busy(&self, id: SiteId) -> Option<f64> {
        self.hosts.load().get(&id).and_then(|host| host.busy.share())
    }

    pub(super) fn host(&self, id: SiteId) -> Option<Arc<Host>> {
        self.hosts.load().get(&id).cloned()
    }

    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        self.hosts.load().values().map(|host| host.site.clone()).collect()
    }

    /// Empties inboxes. Returns `false` if there was nothing to do.
    fn help(&self) -> bool {
        let helped = self.hosts.load().values().filter(|host| host.receive()).count();
        helped > 0
    }

    /// Like [`Runtime::block_on`], for a client whose wait may be canceled: the future is dropped
    /// then.
    pub(crate) fn block_on_until<F: Future>(
        &self,
        cancel: &CancelToken,
        future: F,
    ) -> Result<F::Output, CancelReason> {
        self.block_on(unless(&|waker| cancel.poll_over(waker), future))
    }

    /// Runs a future on this thread, which helps the sites while it waits.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.block_on_by(future, None).expect("it has no limit")
    }

    /// Like [`Runtime::block_on`], for up to `time`; `None` after that.
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

/// Runs a future on this thread. The thread does no other work while it waits: it neither empties
/// inboxes nor syncs logs.
pub(crate) fn drive<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    SLEEPER.with(|(sleeper, waker)| {
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return done;
            }
            while !sleeper.woken.swap(false, Ordering::SeqCst) {
                std::thread::park();
            }
        }
    })
}

/// Parks this thread until it is woken or `until` is reached. Returns `false` if `until` is
/// reached.
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
    static SLEEPER: (Arc<Sleeper>, Waker) = {
        let thread = std::thread::current();
        let sleeper = Arc::new(Sleeper { thread, woken: AtomicBool::new(false) });
        (sleeper.clone(), Waker::from(sleeper))
    };
}
