//! All of a process's connections: [`Net`].

use crate::edge::{start, wall_ms};
use crate::envelopes::{LogsStatus, Service};
use crate::guest;
use crate::hello::{Hello, JOINS, LEAVES, Member, RESTART, Role, Verdict, judge};
use crate::line::{Limits, Line};
use crate::others::{Circle, Others};
use crate::peer::Peer;
use crate::pool::Pool;
use crate::status::{Status, ask_status, tell_leaving};
use crate::tls::NodeTls;
use futures_util::future::{LocalBoxFuture, ready};
use isomer_cluster::{Early, Endpoint, Joined, Reach, Unanswered, Wire};
use isomer_design::SiteId;
use isomer_site::wire;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

pub use crate::peer::PeerState;

/// The most inbound connections before the handshake, beside two for each member.
const STRANGERS_MAX: usize = 32;
/// The threads for requests, divided by this, are reserved for requests that end transactions.
const RESERVED: usize = 4;
/// The time for another process to take note that this one leaves.
const LEAVING: Duration = Duration::from_millis(500);

/// Stores the number of the cluster that this process joins.
type Join = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// The configuration of a process in a cluster.
pub struct Options {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The sites that it hosts.
    pub sites: BTreeSet<SiteId>,
    /// All other processes.
    pub members: Vec<Member>,
    /// The zone of this process, if zones are told apart.
    pub zone: Option<String>,
    /// The number of the cluster, if the process belongs to one. A process with the router that
    /// starts without must be told ([`Net::belongs_to`]) before it dials.
    pub cluster: Option<u64>,
    /// Stores that number durably, when a node without one joins a cluster.
    pub join: Join,
    /// Sites at which the database has rows, until [`Net::set_known`]; for the router's process.
    pub known: BTreeSet<SiteId>,
    /// The program's release, for people.
    pub release: String,
    /// How long clients wait for a process that is down.
    pub outage_wait: Duration,
    /// After this time without a connection, other processes take over from one, for tables with
    /// backups; `None`: never.
    pub failover_after: Option<Duration>,
    /// The timeout of input from a process, after which it counts as down. At most 4 s: tasks that
    /// wait for the leases of all sites wait at most that long.
    pub silence: Duration,
    /// The most bytes that may wait to be sent to one process.
    pub queue_bytes: usize,
    /// The most requests of other processes that run at once.
    pub requests: usize,
    /// The process's certificate, and the authority of the others'. `None`: no encryption, and any
    /// process that reaches the address has full access.
    pub tls: Option<NodeTls>,
}

impl Options {
    /// A process that hosts these sites, belongs to no cluster yet, and knows no others.
    pub fn new(name: &str, role: Role, sites: &[SiteId]) -> Options {
        Options {
            name: name.to_owned(),
            role,
            sites: sites.iter().copied().collect(),
            members: Vec::new(),
            zone: None,
            cluster: None,
            join: Box::new(|_| Ok(())),
            known: BTreeSet::new(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            outage_wait: Duration::from_secs(10),
            failover_after: None,
            silence: Duration::from_secs(3),
            queue_bytes: 64 << 20,
            requests: 2048,
            tls: None,
        }
    }
}

/// Why a process cannot take part.
#[derive(Debug)]
pub struct StartError(String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for StartError {}

/// The connections of a process. It dials and accepts from [`Wire::open`], when its sites are
/// running, to [`Wire::close`]. Envelopes pass from [`Net::exchange_envelopes`] until this is
/// dropped.
pub struct Net {
    shared: Arc<Shared>,
    address: SocketAddr,
    listening: Mutex<Option<JoinHandle<()>>>,
}

/// Makes the process restart, once transactions have ended or this time has passed.
type Restart = Box<dyn Fn(Duration) + Send + Sync>;

/// Lets a process join the cluster. Returns it with its sites, and the text of the cluster's file.
type Admit = Box<dyn Fn(Joined) -> Result<(Joined, String), String> + Send + Sync>;

/// Returns the sites at which the database has rows.
type Known = Box<dyn Fn() -> BTreeSet<SiteId> + Send + Sync>;

/// The state that all connections share.
pub(crate) struct Shared {
    own: Hello,
    known: OnceLock<Known>,
    /// The sites with rows until `known` is there.
    known_first: Mutex<BTreeSet<SiteId>>,
    cluster: Mutex<Option<u64>>,
    join: Join,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<NodeTls>,
    outage_wait: Duration,
    failover_after: Option<Duration>,
    circle: Circle,
    zone: Option<String>,
    pub(crate) pool: Arc<Pool>,
    requests: usize,
    endpoint: Mutex<Option<Endpoint>>,
    guests: Mutex<BTreeMap<String, (u64, Arc<Line>)>>,
    guest_went: Condvar,
    service: OnceLock<Arc<dyn Service>>,
    /// All inbound connections, also before their handshakes.
    lines: Mutex<Vec<Weak<Line>>>,
    conductor: Mutex<KnownConductor>,
    /// The name and run of the last process that had the conductor and has closed its database.
    left: Mutex<Option<(String, u64)>>,
    restart: OnceLock<Restart>,
    admit: OnceLock<Admit>,
    is_stopped: AtomicBool,
}

/// The process that has the conductor, as far as this one knows.
#[derive(Clone, Default, Debug)]
struct KnownConductor {
    term: u64,
    name: String,
    run: u64,
    /// The name and run of the process that had it before.
    before: Option<(String, u64)>,
}

impl Net {
    /// Starts to listen. `run` is greater than in any earlier run of the process, or at least
    /// different.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be used or the members do not fit together.
    pub fn start(
        listener: TcpListener,
        run: u64,
        options: Options,
    ) -> Result<Arc<Net>, StartError> {
        check(&options)?;
        let failed = |error: std::io::Error| StartError(error.to_string());
        let address = listener.local_addr().map_err(failed)?;
        let own = Hello {
            cluster: None,
            name: options.name,
            role: options.role,
            term: 0,
            run,
            release: options.release,
            sites: options.sites,
            known: BTreeSet::new(),
            wall_ms: 0,
        };
        let shared = Arc::new(Shared {
            own,
            known: OnceLock::new(),
            known_first: Mutex::new(options.known),
            cluster: Mutex::new(options.cluster),
            join: options.join,
            limits: Limits { silence: options.silence, queue_bytes: options.queue_bytes },
            tls: options.tls,
            outage_wait: options.outage_wait,
            failover_after: options.failover_after,
            circle: Circle::of(&options.members),
            zone: options.zone,
            pool: Pool::new(options.requests),
            requests: options.requests,
            endpoint: Mutex::new(None),
            guests: Mutex::default(),
            guest_went: Condvar::new(),
            service: OnceLock::new(),
            lines: Mutex::default(),
            conductor: Mutex::default(),
            left: Mutex::default(),
            restart: OnceLock::new(),
            admit: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
        });
        let of = shared.clone();
        let listening = start("isomer-listen", move || of.listen(&listener)).map_err(failed)?;
        let listening = Mutex::new(Some(listening));
        Ok(Arc::new(Net { shared, address, listening }))
    }

    /// Exchanges envelopes of a service with the other processes, from now on and until this is
    /// dropped. May be called once.
    ///
    /// # Panics
    /// If there is a service already.
    pub fn exchange_envelopes(&self, service: Arc<dyn Service>) {
        let is_first = self.shared.service.set(service).is_ok();
        assert!(is_first, "a process has one service with envelopes");
        self.shared.circle.exchange(&self.shared);
    }

    /// Sets the function that returns the processes that have joined the cluster since its file was
    /// written, or nothing if it cannot find out now. It may wait. May be called once.
    ///
    /// # Panics
    /// If there is one already.
    pub fn set_list(&self, list: impl Fn() -> Option<Vec<Joined>> + Send + Sync + 'static) {
        assert!(self.shared.circle.set_list(Box::new(list)), "a cluster has one list");
    }

    /// The processes that have joined the cluster, as far as this one knows.
    pub fn joined(&self) -> Vec<Joined> {
        self.shared.circle.joined()
    }

    /// Sets the function that lets another process join the cluster. May be called once.
    ///
    /// # Panics
    /// If there is one already.
    pub fn set_admit(
        &self,
        admit: impl Fn(Joined) -> Result<(Joined, String), String> + Send + Sync + 'static,
    ) {
        let is_first = self.shared.admit.set(Box::new(admit)).is_ok();
        assert!(is_first, "a process admits others in one way");
    }

    /// Sends an envelope to a process. It may be lost.
    pub fn send_envelope(&self, to: &str, envelope: &[u8]) {
        if let Some(envelopes) = self.shared.circle.now().envelopes_to(to) {
            envelopes.send(envelope);
        }
    }

    /// Why envelopes do not reach a process; `None` if they do.
    pub fn envelope_trouble(&self, to: &str) -> Option<String> {
        match self.shared.circle.now().envelopes_to(to) {
            Some(envelopes) => envelopes.trouble(),
            None => Some("it is not in the list".to_owned()),
        }
    }

    /// Sets the number of the cluster, and the sites at which the database has rows until
    /// [`Net::set_known`], once they were read in the logs. Before that this process neither dials
    /// nor accepts others for its database.
    pub fn belongs_to(&self, cluster: Option<u64>, known: BTreeSet<SiteId>) {
        *self.shared.cluster.lock() = cluster;
        *self.shared.known_first.lock() = known;
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The other processes, as seen from here.
    pub fn peers(&self) -> Vec<PeerState> {
        self.shared.circle.now().peers.iter().map(|peer| peer.state()).collect()
    }

    /// Sets the function that returns the sites at which the database has rows. A process without
    /// data for them may not join. May be called once.
    pub fn set_known(&self, known: impl Fn() -> BTreeSet<SiteId> + Send + Sync + 'static) {
        let is_first = self.shared.known.set(Box::new(known)).is_ok();
        assert!(is_first, "a process has one database");
    }

    /// Sets the function with which another program can make this process restart. May be called
    /// once.
    pub fn set_restart(&self, restart: impl Fn(Duration) + Send + Sync + 'static) {
        let is_first = self.shared.restart.set(Box::new(restart)).is_ok();
        assert!(is_first, "a process restarts in one way");
    }

    /// Tells the others that this process has closed its database, so that the next process takes
    /// the conductor at once. Called after that. A process that is not told waits for the failover
    /// timeout.
    pub fn leave(&self) {
        let leaves = (self.shared.own.name.clone(), self.shared.own.run);
        for Member { name, address, .. } in self.shared.circle.now().members() {
            let _ = tell_leaving((name, address), self.shared.tls.as_ref(), LEAVING, &leaves);
        }
    }

    /// Starts to dial the others before the sites of this process are running, to wait for them.
    pub fn dial(&self) {
        let is_node = self.shared.own.role != Role::Router;
        assert!(is_node || self.cluster().is_some(), "the router's process knows its cluster");
        self.shared.circle.dial(&self.shared);
    }

    /// The number of the cluster that this process belongs to.
    pub fn cluster(&self) -> Option<u64> {
        self.shared.cluster()
    }

    /// The name of this process.
    pub fn own_name(&self) -> &str {
        &self.shared.own.name
    }

    /// Asks another process to restart: see [`crate::ask_restart`].
    ///
    /// # Errors
    /// A message, if there is no process of this name, or it does not answer within `limit`, or
    /// cannot restart.
    pub fn ask_restart(
        &self,
        name: &str,
        limit: Duration,
        longest: Duration,
    ) -> Result<(), String> {
        let now = self.shared.circle.now();
        let member = now.members().find(|member| member.name == name);
        let member = member.ok_or_else(|| format!("there is no process {name}"))?;
        let tls = self.shared.tls.as_ref();
        crate::ask_restart(name, &member.address, tls, limit, longest).map(drop)
    }

    /// Asks another process for its view of the cluster, also if it refuses this one.
    ///
    /// # Errors
    /// A message, if it does not answer within `limit`.
    pub fn ask_status(&self, member: &Member, limit: Duration) -> Result<Status, String> {
        ask_status(&member.name, &member.address, self.shared.tls.as_ref(), limit)
    }

    /// The name of the process that has the conductor, as far as this one knows.
    pub fn conductor(&self) -> Option<String> {
        let conductor = self.shared.conductor.lock();
        Some(conductor.name.clone()).filter(|name| !name.is_empty())
    }

    /// Whether the process that had the conductor, as far as this one knows, has begun anew since.
    /// It may stand by now.
    pub fn conductor_began_anew(&self) -> bool {
        let (name, run) = {
            let conductor = self.shared.conductor.lock();
            (conductor.name.clone(), conductor.run)
        };
        let others = self.shared.circle.now();
        others.peer_named(&name).is_some_and(|peer| ![0, run].contains(&peer.run()))
    }

    /// Whether another process has been unreachable for the failover timeout.
    pub fn is_gone(&self, name: &str) -> bool {
        let others = self.shared.circle.now();
        others.peer_named(name).is_some_and(|peer| self.shared.why_gone(peer).is_some())
    }

    fn peer(&self, site: SiteId) -> Option<Arc<Peer>> {
        self.shared.circle.now().peer(site).cloned()
    }

    fn stop_listening(&self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        self.shared.end_guests();
        if let Some(listening) = self.listening.lock().take() {
            // A thread that panicked has reported that itself.
            let _ = listening.join();
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.close();
        self.shared.circle.stop_writing();
        self.stop_listening();
        self.shared.circle.join_writing();
    }
}

fn check(options: &Options) -> Result<(), StartError> {
    let failed = |what: String| Err(StartError(what));
    let mut names = BTreeSet::from([&options.name]);
    let mut places: BTreeMap<SiteId, &String> =
        options.sites.iter().map(|site| (*site, &options.name)).collect();
    for member in &options.members {
        if !names.insert(&member.name) {
            return failed(format!("two processes are named `{}`", member.name));
        }
        for site in &member.sites {
            if let Some(other) = places.insert(*site, &member.name) {
                return failed(format!(
                    "site {site} is said to live at `{other}` and at `{}`",
                    member.name
                ));
            }
        }
    }
    Ok(())
}

impl Wire for Net {
    fn reaches(&self, site: SiteId) -> bool {
        self.shared.circle.now().peer(site).is_some()
    }

    fn learn(&self) {
        self.shared.learn(true);
    }

    fn left(&self, name: &str) {
        match name == self.shared.name() {
            // The others do not let it read the list any more.
            true => self.shared.circle.leave(name),
            false => self.shared.learn(true),
        }
    }

    fn sites(&self) -> Vec<SiteId> {
        self.shared.circle.now().sites().collect()
    }

    fn reach(&self, site: SiteId) -> Option<Reach> {
        let peer = self.peer(site)?;
        let Member { name, zone, .. } = &peer.member;
        Some(Reach { node: name.clone(), zone: zone.clone(), trouble: peer.trouble() })
    }

    fn name(&self) -> Option<String> {
        Some(self.shared.own.name.clone())
    }

    fn zone(&self) -> Option<String> {
        self.shared.zone.clone()
    }

    fn ask<'a>(
        &'a self,
        site: SiteId,
        request: Vec<u8>,
        early: Early<'a>,
    ) -> LocalBoxFuture<'a, Result<Vec<u8>, Unanswered>> {
        match self.peer(site) {
            Some(peer) => Box::pin(async move { peer.ask(request, early).await }),
            None => {
                let why = "no process is said to have it".to_owned();
                Box::pin(ready(Err(Unanswered::Unreachable(why))))
            }
        }
    }

    fn ask_conductor(&self, request: Vec<u8>) -> LocalBoxFuture<'_, Result<Vec<u8>, Unanswered>> {
        let others = self.shared.circle.now();
        match self.conductor().and_then(|name| others.peer_named(&name).cloned()) {
            Some(peer) => Box::pin(async move { peer.ask(request, &mut |_| {}).await }),
            None => {
                let why = "no other process is known to have the conductor".to_owned();
                Box::pin(ready(Err(Unanswered::Unreachable(why))))
            }
        }
    }

    fn send(&self, site: SiteId, message: Vec<u8>) {
        if let Some(peer) = self.peer(site) {
            peer.send(message);
        }
    }

    fn retry(&self, site: SiteId) -> LocalBoxFuture<'_, ()> {
        match self.peer(site) {
            Some(peer) => Box::pin(async move { peer.retry().await }),
            None => Box::pin(ready(())),
        }
    }

    fn returns(&self, site: SiteId) -> LocalBoxFuture<'_, bool> {
        match self.peer(site) {
            Some(peer) => Box::pin(async move { peer.returns(self.shared.outage_wait).await }),
            None => Box::pin(ready(false)),
        }
    }

    fn gone(&self, site: SiteId) -> Option<String> {
        self.shared.why_gone(&*self.peer(site)?)
    }

    fn conduct(&self, term: u64) {
        let shared = &self.shared;
        let (name, run) = (shared.own.name.clone(), shared.own.run);
        *shared.conductor.lock() = KnownConductor { term, name, run, before: None };
        // The others learn of it in the handshake. They admit this process once the requests of an
        // earlier conductor have ended.
        let others: Arc<Others> = shared.circle.now().clone();
        let before: Vec<u64> = others.peers.iter().map(|peer| peer.dial_again()).collect();
        let is_told = |(peer, before): (&Arc<Peer>, &u64)| {
            peer.handshakes() > *before || shared.why_gone(peer).is_some()
        };
        while !others.peers.iter().zip(&before).all(is_told)
            && !shared.is_stopped.load(Ordering::SeqCst)
        {
            pause();
        }
    }

    fn open(&self, endpoint: Endpoint) {
        *self.shared.endpoint.lock() = Some(endpoint.clone());
        self.dial();
        // Peers that were reached before.
        for peer in &self.shared.circle.now().peers {
            if peer.trouble().is_none() {
                self.shared.met(peer, true);
            }
        }
    }

    fn close(&self) {
        *self.shared.endpoint.lock() = None;
        self.shared.close();
        self.shared.circle.join_dialling();
        if self.shared.service.get().is_none() {
            self.stop_listening();
        }
    }
}

impl Shared {
    pub(crate) fn cluster(&self) -> Option<u64> {
        *self.cluster.lock()
    }

    /// This process's description of itself.
    pub(crate) fn hello(&self) -> Hello {
        let known = self.known.get();
        let known = known.map_or_else(|| self.known_first.lock().clone(), |known| known());
        Hello { known, ..self.own_now(self.cluster()) }
    }

    fn own_now(&self, cluster: Option<u64>) -> Hello {
        let (role, term) = self.role();
        Hello { cluster, role, term, wall_ms: wall_ms(), ..self.own.clone() }
    }

    /// The role of this process, and the conductor's term if it has the conductor.
    fn role(&self) -> (Role, u64) {
        let conductor = self.conductor.lock();
        if conductor.name == self.own.name {
            (Role::Router, conductor.term)
        } else {
            (self.own.role, 0)
        }
    }

    /// Why a process is declared dead, if it is.
    fn why_gone(&self, peer: &Peer) -> Option<String> {
        let longest = self.failover_after?;
        let (name, away) = (&peer.member.name, peer.away_for()?);
        let has_left = || self.left.lock().as_ref() == Some(&(name.clone(), peer.run()));
        if away < longest && has_left() {
            return Some(format!("node {name} has closed its database"));
        }
        if away < longest {
            return None;
        }
        Some(format!("node {name} could not be reached for {:.1} s", away.as_secs_f64()))
    }

    /// Reads the list of those that have joined.
    fn learn(self: &Arc<Shared>, is_urgent: bool) {
        self.circle.learn(self, &self.own.name, is_urgent);
    }

    /// The name of this process.
    pub(crate) fn name(&self) -> &str {
        &self.own.name
    }

    /// The other processes. Looks for one of this name in the list, if it is not known.
    fn others_with(self: &Arc<Shared>, name: &str) -> Arc<Others> {
        if name != self.own.name && self.circle.now().peer_named(name).is_none() {
            self.learn(false);
        }
        self.circle.now().clone()
    }

    /// Checks another process's description, and joins its cluster if the verdict says so.
    pub(crate) fn judge(self: &Arc<Shared>, theirs: &Hello) -> Result<(), String> {
        let members: Vec<Member> = self.others_with(&theirs.name).members().cloned().collect();
        let mut cluster = self.cluster.lock();
        if let Verdict::Join(number) = judge(&self.own_now(*cluster), &members, theirs)? {
            (self.join)(number)?;
            *cluster = Some(number);
        }
        match theirs.role {
            Role::Router => self.obey(theirs),
            Role::Node | Role::Standby => Ok(()),
        }
    }

    /// Takes note of a process with the conductor. Refuses a process of an earlier term. If the
    /// process begins a later term, ends the requests of the conductor before it.
    fn obey(&self, theirs: &Hello) -> Result<(), String> {
        let before = {
            let mut conductor = self.conductor.lock();
            let is_other = !conductor.name.is_empty() && conductor.name != theirs.name;
            if is_other && conductor.term > theirs.term {
                let KnownConductor { term, name, .. } = &*conductor;
                return Err(format!(
                    "`{name}` has the conductor since term {term}, after `{}` had it",
                    theirs.name
                ));
            }
            if is_other {
                conductor.before = Some((conductor.name.clone(), conductor.run));
            }
            conductor.term = theirs.term;
            conductor.name.clone_from(&theirs.name);
            conductor.run = theirs.run;
            conductor.before.clone()
        };
        let Some((name, run)) = before else { return Ok(()) };
        match self.guests.lock().get(&name).filter(|(guest, _)| *guest == run) {
            Some((_, line)) => {
                line.end("another process has the conductor now");
                Err("the requests of the conductor before it are about to end".to_owned())
            }
            None => Ok(()),
        }
    }

    /// The handshake with a dialled process has succeeded.
    pub(crate) fn met(&self, peer: &Peer, is_new: bool) {
        let endpoint = self.endpoint.lock().clone();
        if let Some(endpoint) = endpoint {
            let sites: Vec<SiteId> = peer.member.sites.iter().copied().collect();
            endpoint.meet(&sites, is_new);
        }
    }

    /// Accepts an inbound handshake, unless a process of the same name is connected.
    pub(crate) fn welcome(
        self: &Arc<Shared>,
        theirs: &Hello,
        line: &Arc<Line>,
    ) -> Result<Endpoint, String> {
        let Some(endpoint) = self.endpoint.lock().clone() else {
            return Err("its sites are not running yet".to_owned());
        };
        if !line.may_be(&theirs.name) {
            return Err(format!("its certificate is not one of `{}`", theirs.name));
        }
        self.judge(theirs)?;
        let mut guests = self.guests.lock();
        match guests.get(&theirs.name) {
            None => {
                guests.insert(theirs.name.clone(), (theirs.run, line.clone()));
                Ok(endpoint)
            }
            Some((run, before)) if *run == theirs.run => {
                before.end("it has dialled again");
                Err("the connection before this one is about to end".to_owned())
            }
            Some(_) => Err(format!(
                "a process named `{}` is connected already; if it has just been started again, this one is let in \
                 when the other's requests have ended",
                theirs.name
            )),
        }
    }

    /// A guest's connection and all its requests have ended.
    pub(crate) fn guest_is_gone(&self, name: &str) {
        self.guests.lock().remove(name);
        self.guest_went.notify_all();
    }

    /// Accepts a process that sends envelopes.
    pub(crate) fn introduce(
        self: &Arc<Shared>,
        name: &str,
        line: &Arc<Line>,
    ) -> Result<Arc<dyn Service>, String> {
        let Some(service) = self.service.get() else {
            return Err(format!("`{}` keeps no logs for other processes", self.own.name));
        };
        if self.others_with(name).peer_named(name).is_none() {
            return Err(format!(
                "`{}` knows no process named `{name}`: give all processes the same list, or let it join",
                self.own.name
            ));
        }
        if !line.may_be(name) {
            return Err(format!("its certificate is not one of `{name}`"));
        }
        Ok(service.clone())
    }

    /// The state of the logs that the processes keep for each other.
    pub(crate) fn logs(&self) -> Result<LogsStatus, String> {
        let none = || format!("`{}` keeps no logs for other processes", self.own.name);
        Ok(self.service.get().ok_or_else(none)?.status())
    }

    /// The number of this run.
    pub(crate) fn run(&self) -> u64 {
        self.own.run
    }

    /// Makes this process restart. The message has the longest wait in milliseconds.
    pub(crate) fn restart(&self, message: &[u8]) -> Result<(), String> {
        let longest_ms = wire::read_carried(RESTART, message).map_err(|bad| bad.to_string())?;
        let restart = self.restart.get().ok_or("this process cannot restart itself")?;
        restart(Duration::from_millis(longest_ms));
        Ok(())
    }

    /// Takes note of a process that has closed its database.
    pub(crate) fn note_leaving(&self, message: &[u8], line: &Line) -> Result<(), String> {
        let left: (String, u64) =
            wire::read_carried(LEAVES, message).map_err(|bad| bad.to_string())?;
        if !line.may_be(&left.0) {
            return Err(format!("its certificate is not one of `{}`", left.0));
        }
        *self.left.lock() = Some(left);
        Ok(())
    }

    /// The number of threads reserved for requests that end transactions.
    pub(crate) fn reserve(&self) -> usize {
        self.requests / RESERVED
    }

    pub(crate) fn status(&self) -> Status {
        let others = self.circle.now();
        let peers = others.peers.iter().map(|peer| {
            let state = peer.state();
            (state.member.name, state.reached.err())
        });
        Status {
            cluster: self.cluster(),
            name: self.own.name.clone(),
            role: self.role().0,
            release: self.own.release.clone(),
            sites: self.own.sites.clone(),
            is_open: self.endpoint.lock().is_some(),
            peers: peers.collect(),
            joined: self.circle.joined(),
        }
    }

    /// Lets the process of a message join the cluster.
    pub(crate) fn admit(&self, message: &[u8], line: &Line) -> Result<(Joined, String), String> {
        let joined: Joined = wire::read_carried(JOINS, message).map_err(|bad| bad.to_string())?;
        if !line.may_be(&joined.name) {
            return Err(format!("its certificate is not one of `{}`", joined.name));
        }
        let none = "it lets no process join: it does not serve clients yet, or the redo logs of its cluster are in files";
        let admit = self.admit.get().ok_or(none)?;
        admit(joined)
    }

    fn listen(self: &Arc<Shared>, listener: &TcpListener) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        while !self.is_stopped.load(Ordering::SeqCst) {
            let Some(socket) = accept(listener) else { continue };
            threads.retain(|thread| !thread.is_finished());
            if threads.len() >= self.circle.now().peers.len() * 2 + STRANGERS_MAX {
                continue;
            }
            let Ok(tls) = self.tls.as_ref().map(NodeTls::listen).transpose() else { continue };
            let Ok(line) = Line::new(socket, self.limits, tls) else { continue };
            let line = Arc::new(line);
            let mut lines = self.lines.lock();
            lines.retain(|line| line.strong_count() > 0);
            lines.push(Arc::downgrade(&line));
            drop(lines);
            let shared = self.clone();
            threads.extend(start("isomer-guest", move || guest::serve(&line, &shared)));
        }
        self.end_guests();
        for thread in threads {
            // A thread that panicked has reported that itself.
            let _ = thread.join();
        }
    }

    fn end_guests(&self) {
        let lines: Vec<_> = self.lines.lock().iter().filter_map(Weak::upgrade).collect();
        lines.iter().for_each(|line| line.end("this process stops"));
    }

    /// Ends all that is for the database, and waits until the requests of others have ended.
    fn close(&self) {
        self.circle.close();
        // Connections with envelopes end as well, and are dialled again.
        self.end_guests();
        let mut guests = self.guests.lock();
        while !guests.is_empty() {
            self.guest_went.wait(&mut guests);
        }
    }
}

/// A moment, until connections have changed.
#[allow(clippy::disallowed_methods, reason = "the edge: it waits for other processes")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// The next connection; `None` after 50 ms.
fn accept(listener: &TcpListener) -> Option<std::net::TcpStream> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut looked = [PollFd::new(listener, PollFlags::IN)];
    let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut looked, Some(&pause)) {
        Ok(1..) => listener.accept().ok().map(|(socket, _)| socket),
        _ => None,
    }
}
