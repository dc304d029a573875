//! The other processes of a cluster: those that this one was told of at its start, and those that
//! have joined since.
//!
//! ```text
//!   d joins              a: an unknown name            the list (the catalog)
//!   ──────               ───────────────────           ─────────────────────
//!   dials, is `d` ─────▶ not known: reads ───────────▶ d at 10.0.0.4:7433, site 4
//!        ◀── welcome ─── knows it now, and dials it
//! ```
//!
//! The embedder keeps the list, and is asked when a process with an unknown name introduces itself
//! ([`crate::Net::set_list`]), and when the conductor says that the list has changed
//! ([`isomer_cluster::Wire::learn`]). A process that has disappeared from the list is forgotten.

use crate::edge::{now, start};
use crate::envelopes::Envelopes;
use crate::hello::Member;
use crate::net::Shared;
use crate::peer::Peer;
use arc_swap::{ArcSwap, Guard};
use isomer_cluster::Joined;
use isomer_design::SiteId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The shortest time between two readings of the list for unknown names.
const READ_AGAIN: Duration = Duration::from_millis(100);

/// Returns the processes that have joined the cluster; `None` if that cannot be found out now.
pub(crate) type List = Box<dyn Fn() -> Option<Vec<Joined>> + Send + Sync>;

/// The other processes at one moment.
#[derive(Clone, Default)]
pub(crate) struct Others {
    pub(crate) peers: Vec<Arc<Peer>>,
    pub(crate) envelopes: Vec<Arc<Envelopes>>,
    by_site: BTreeMap<SiteId, Arc<Peer>>,
}

impl Others {
    fn add(&mut self, member: &Member) -> (Arc<Peer>, Arc<Envelopes>) {
        let peer = Arc::new(Peer::new(member.clone()));
        let envelopes = Arc::new(Envelopes::new(member.clone()));
        self.by_site.extend(member.sites.iter().map(|site| (*site, peer.clone())));
        self.peers.push(peer.clone());
        self.envelopes.push(envelopes.clone());
        (peer, envelopes)
    }

    fn remove(&mut self, name: &str) {
        self.peers.retain(|peer| peer.member.name != name);
        self.envelopes.retain(|envelopes| envelopes.name() != name);
        self.by_site.retain(|_, peer| peer.member.name != name);
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.peers.iter().map(|peer| &peer.member)
    }

    pub(crate) fn peer(&self, site: SiteId) -> Option<&Arc<Peer>> {
        self.by_site.get(&site)
    }

    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.by_site.keys().copied()
    }

    pub(crate) fn peer_named(&self, name: &str) -> Option<&Arc<Peer>> {
        self.peers.iter().find(|peer| peer.member.name == name)
    }

    pub(crate) fn envelopes_to(&self, name: &str) -> Option<&Arc<Envelopes>> {
        self.envelopes.iter().find(|envelopes| envelopes.name() == name)
    }
}

/// The other processes, and the threads that dial them.
pub(crate) struct Circle {
    now: ArcSwap<Others>,
    list: OnceLock<List>,
    /// The processes that have joined, as the list was last read.
    joined: Mutex<Vec<Joined>>,
    /// Excludes other readers of the list; and when it was read.
    read: Mutex<Option<Instant>>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    /// Others are dialled for the database, and for envelopes.
    dials: bool,
    exchanges: bool,
    dialling: Vec<JoinHandle<()>>,
    writing: Vec<JoinHandle<()>>,
}

impl Circle {
    pub(crate) fn of(members: &[Member]) -> Circle {
        let mut others = Others::default();
        members.iter().for_each(|member| drop(others.add(member)));
        Circle {
            now: ArcSwap::from_pointee(others),
            list: OnceLock::new(),
            joined: Mutex::default(),
            read: Mutex::default(),
            threads: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Guard<Arc<Others>> {
        self.now.load()
    }

    /// Sets the list. Returns false if there is one already.
    pub(crate) fn set_list(&self, list: List) -> bool {
        self.list.set(list).is_ok()
    }

    /// The processes that have joined, as far as this one knows.
    pub(crate) fn joined(&self) -> Vec<Joined> {
        self.joined.lock().clone()
    }

    /// This process, which has joined, has left the cluster.
    pub(crate) fn leave(&self, own: &str) {
        self.joined.lock().retain(|joined| joined.name != own);
    }

    /// Dials the others for the database, from now on.
    pub(crate) fn dial(&self, shared: &Arc<Shared>) {
        let mut threads = self.threads.lock();
        if !std::mem::replace(&mut threads.dials, true) {
            self.now().peers.iter().for_each(|peer| threads.dial(shared, peer));
        }
    }

    /// Dials the others for envelopes, from now on.
    pub(crate) fn exchange(&self, shared: &Arc<Shared>) {
        let mut threads = self.threads.lock();
        if !std::mem::replace(&mut threads.exchanges, true) {
            self.now().envelopes.iter().for_each(|envelopes| threads.exchange(shared, envelopes));
        }
    }

    /// Reads the list, and knows those of it from now on. `is_urgent`: also if it was read just
    /// now.
    pub(crate) fn learn(&self, shared: &Arc<Shared>, own: &str, is_urgent: bool) {
        let Some(list) = self.list.get() else { return };
        let mut read = self.read.lock();
        if !is_urgent && read.is_some_and(|read| read.elapsed() < READ_AGAIN) {
            return;
        }
        let found = list();
        *read = Some(now());
        let Some(found) = found else { return };
        let before = std::mem::replace(&mut *self.joined.lock(), found.clone());
        let mut others = Others::clone(&self.now());
        let is_gone = |of: &&Joined| found.iter().all(|other| other.name != of.name);
        let gone: Vec<_> = before.iter().filter(is_gone).collect();
        for Joined { name, .. } in &gone {
            others.peer_named(name).iter().for_each(|peer| peer.stop());
            others.envelopes_to(name).iter().for_each(|envelopes| envelopes.stop());
            others.remove(name);
        }
        let is_new = |of: &&Joined| of.name != own && others.peer_named(&of.name).is_none();
        let new: Vec<_> = found.iter().filter(is_new).map(Member::of).collect();
        let mut threads = self.threads.lock();
        for member in &new {
            let (peer, envelopes) = others.add(member);
            if threads.dials {
                threads.dial(shared, &peer);
            }
            if threads.exchanges {
                threads.exchange(shared, &envelopes);
            }
        }
        self.now.store(Arc::new(others));
    }

    /// Ends the connections for the database, and dials no others for it.
    pub(crate) fn close(&self) {
        self.threads.lock().dials = false;
        self.now().peers.iter().for_each(|peer| peer.stop());
    }

    /// Waits for the threads that dialled for the database.
    pub(crate) fn join_dialling(&self) {
        join(std::mem::take(&mut self.threads.lock().dialling));
    }

    /// Ends the connections for envelopes.
    pub(crate) fn stop_writing(&self) {
        self.threads.lock().exchanges = false;
        self.now().envelopes.iter().for_each(|envelopes| envelopes.stop());
    }

    /// Waits for the threads that dialled for envelopes.
    pub(crate) fn join_writing(&self) {
        join(std::mem::take(&mut self.threads.lock().writing));
    }
}

impl Threads {
    fn dial(&mut self, shared: &Arc<Shared>, peer: &Arc<Peer>) {
        let (dialled, shared) = (peer.clone(), shared.clone());
        let name = format!("isomer-to-{}", peer.member.name);
        let started = start(&name, move || dialled.dial_until_stopped(&shared));
        self.dialling.push(started.expect("the system has a thread for each other process"));
    }

    fn exchange(&mut self, shared: &Arc<Shared>, envelopes: &Arc<Envelopes>) {
        let (envelopes, shared) = (envelopes.clone(), shared.clone());
        let name = format!("isomer-envelopes-{}", envelopes.name());
        let started = start(&name, move || {
            envelopes.dial_until_stopped(shared.name(), shared.limits, shared.tls.as_ref());
        });
        self.writing.push(started.expect("the system has a thread for each other process"));
    }
}

impl Member {
    /// A process that has joined.
    fn of(joined: &Joined) -> Member {
        let Joined { name, address, sites, zone, .. } = joined.clone();
        Member { name, address, sites, zone }
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A thread that panicked has reported that itself.
        let _ = thread.join();
    }
}
