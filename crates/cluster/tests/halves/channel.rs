//! Parts of this process that act as processes, and exchange only bytes: each has a channel.

use futures_util::future::LocalBoxFuture;
use futures_util::task::AtomicWaker;
use isomer_cluster::{
    CancelReason, CancelToken, Database, Early, Endpoint, Gateway, Node, Options, Procedures,
    Reach, Unanswered, Wire,
};
use isomer_design::SiteId;
use isomer_site::{Step, wire};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// The kind of a transaction of a gateway with a seat.
const SEATED: u8 = <wire::Seated<'_> as wire::Asked>::KIND;

/// A request or message on its way to a process. A request names the sites of its sender.
enum Parcel {
    Ask(Vec<SiteId>, Vec<u8>, Arc<Call>),
    Message(Vec<u8>),
}

/// A request that waits for its answer.
#[derive(Default)]
struct Call {
    came: Mutex<Came>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Came {
    early: VecDeque<Vec<u8>>,
    answer: Option<Vec<u8>>,
    /// True if nothing more will come.
    is_over: bool,
}

impl Call {
    fn note(&self, note: impl FnOnce(&mut Came)) {
        note(&mut self.came.lock().expect("no thread panics with it"));
        self.waker.wake();
    }
}

/// Ends a request without an answer if its thread has panicked.
struct Answering(Arc<Call>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.note(|came| came.is_over = true);
    }
}

/// The processes that had the conductor before, and the requests under way.
#[derive(Default)]
struct Former {
    sites: Vec<Vec<SiteId>>,
    under_way: Vec<(Vec<SiteId>, Arc<CancelToken>)>,
}

/// The faults of the network, and its counters.
#[derive(Default)]
pub(crate) struct Weather {
    /// The number of messages of each kind that were sent.
    kinds: Mutex<BTreeMap<u8, u64>>,
    /// Nothing is sent before an answer.
    pub(crate) is_plain: AtomicBool,
    /// Requests have an unknown version.
    pub(crate) is_foreign: AtomicBool,
    /// The last byte of an answer is changed.
    pub(crate) is_noisy: AtomicBool,
    /// The sites of processes that have failed.
    gone: Mutex<BTreeSet<SiteId>>,
    /// The terms in which processes have had the conductor.
    pub(crate) terms: Mutex<Vec<u64>>,
    /// The sites of the process that has the conductor; at first, those of the first process.
    conductor: Mutex<Option<Vec<SiteId>>>,
    /// The sites of processes in whose place others have the conductor, and the requests that are
    /// being carried out.
    former: Mutex<Former>,
    /// Requests on their way to sites.
    calls: Mutex<Vec<(SiteId, Weak<Call>)>>,
    /// No request reaches the conductor.
    pub(crate) is_conductor_silent: AtomicBool,
    /// No request of the process with this site reaches the conductor.
    pub(crate) is_cut_off: Mutex<Option<SiteId>>,
    /// Commits of gateways with a seat are on their way, and do not arrive.
    pub(crate) are_commits_held: AtomicBool,
    /// The number of commits that were held.
    pub(crate) held: AtomicU64,
    /// No step of a change reaches this site.
    pub(crate) mute: Mutex<Option<SiteId>>,
    /// The next steps of this number that fence a failed site are lost on the way.
    pub(crate) fences_to_lose: AtomicU64,
}

impl Weather {
    /// The number of messages of a kind that were sent.
    pub(crate) fn sent(&self, kind: u8) -> u64 {
        let kinds = self.kinds.lock().expect("no thread panics with it");
        kinds.get(&kind).copied().unwrap_or(0)
    }

    /// From now on, no other process reaches these sites, and all count as failed. Requests that
    /// wait for an answer of theirs get none.
    pub(crate) fn end(&self, sites: &[u16]) {
        let sites: Vec<SiteId> = sites.iter().map(|site| SiteId(*site)).collect();
        self.gone.lock().expect("no thread panics with it").extend(&sites);
        self.calls.lock().expect("no thread panics with it").retain(|(at, call)| {
            let call = call.upgrade();
            let is_lost = sites.contains(at);
            call.iter().filter(|_| is_lost).for_each(|call| call.note(|came| came.is_over = true));
            !is_lost && call.is_some()
        });
    }

    /// Processes reach these sites again.
    pub(crate) fn begin(&self, sites: &[u16]) {
        let is_there = |site: &SiteId| sites.contains(&site.0);
        self.gone.lock().expect("no thread panics with it").retain(|site| !is_there(site));
    }

    fn is_gone(&self, site: SiteId) -> bool {
        self.gone.lock().expect("no thread panics with it").contains(&site)
    }

    fn loses(&self, site: SiteId, request: &[u8]) -> bool {
        let mute = *self.mute.lock().expect("no thread panics with it");
        if mute == Some(site) && matches!(wire::read_ask(request), Ok((_, wire::Ask::Step(_)))) {
            return true;
        }
        let left = || self.fences_to_lose.load(Ordering::SeqCst);
        let is_fence =
            || matches!(wire::read_ask(request), Ok((_, wire::Ask::Step(Step::Fence(_)))));
        left() > 0 && is_fence() && {
            self.fences_to_lose.fetch_sub(1, Ordering::SeqCst);
            true
        }
    }

    /// Begins a request of a process, unless another has the conductor in its place.
    fn begin_request(&self, of: &[SiteId]) -> Option<Arc<CancelToken>> {
        let mut former = self.former.lock().expect("no thread panics with it");
        let cancel = Arc::new(CancelToken::default());
        let is_former = former.sites.iter().any(|sites| sites == of);
        (!is_former).then(|| {
            former.under_way.push((of.to_vec(), cancel.clone()));
            cancel
        })
    }

    fn end_request(&self, cancel: &Arc<CancelToken>) {
        let mut former = self.former.lock().expect("no thread panics with it");
        former.under_way.retain(|(_, other)| !Arc::ptr_eq(other, cancel));
    }

    /// From now on no request of this process is carried out.
    fn supersede(&self, sites: Vec<SiteId>) {
        let is_under_way = || {
            let former = self.former.lock().expect("no thread panics with it");
            let mut own = former.under_way.iter().filter(|(of, _)| *of == sites).peekable();
            let found = own.peek().is_some();
            own.for_each(|(_, cancel)| cancel.end(CancelReason::Gone));
            found
        };
        self.former.lock().expect("no thread panics with it").sites.push(sites.clone());
        while is_under_way() {
            thread::yield_now();
        }
    }

    fn passes(&self, bytes: &[u8]) {
        let mut kinds = self.kinds.lock().expect("no thread panics with it");
        *kinds.entry(bytes[1]).or_default() += 1;
    }
}

/// The way from one process to the others.
#[derive(Clone)]
struct Channels {
    own: Vec<SiteId>,
    all: Vec<(Vec<SiteId>, Sender<Parcel>)>,
    weather: Arc<Weather>,
}

impl Channels {
    fn to(&self, site: SiteId) -> Option<&Sender<Parcel>> {
        self.all.iter().find(|(sites, _)| sites.contains(&site)).map(|(_, to)| to)
    }
}

impl Channels {
    /// True if this process or that of the site has failed.
    fn is_cut(&self, site: SiteId) -> bool {
        self.weather.is_gone(site) || self.has_failed()
    }

    /// True if this process has failed.
    fn has_failed(&self) -> bool {
        self.own.iter().any(|own| self.weather.is_gone(*own))
    }
}

impl Wire for Channels {
    fn reaches(&self, site: SiteId) -> bool {
        !self.own.contains(&site)
    }

    fn sites(&self) -> Vec<SiteId> {
        let all = self.all.iter().flat_map(|(sites, _)| sites.iter().copied());
        all.filter(|site| self.reaches(*site)).collect()
    }

    fn ask<'a>(
        &'a self,
        site: SiteId,
        mut request: Vec<u8>,
        early: Early<'a>,
    ) -> LocalBoxFuture<'a, Result<Vec<u8>, Unanswered>> {
        self.weather.passes(&request);
        if self.weather.is_foreign.load(Ordering::SeqCst) {
            request[0] = wire::VERSION + 1;
        }
        let call = Arc::new(Call::default());
        if self.is_cut(site) {
            let why = Unanswered::Unreachable("its process has ended".to_owned());
            return Box::pin(async { Err(why) });
        }
        if self.weather.loses(site, &request) {
            return Box::pin(async { Err(Unanswered::Lost) });
        }
        let under_way = (site, Arc::downgrade(&call));
        self.weather.calls.lock().expect("no thread panics with it").push(under_way);
        if self.is_cut(site) {
            call.note(|came| came.is_over = true);
        }
        let sent =
            self.to(site).map(|to| to.send(Parcel::Ask(self.own.clone(), request, call.clone())));
        let is_sent = sent.is_some_and(|sent| sent.is_ok());
        Box::pin(poll_fn(move |cx| {
            if !is_sent {
                return Poll::Ready(Err(Unanswered::Lost));
            }
            call.waker.register(cx.waker());
            let mut came = call.came.lock().expect("no thread panics with it");
            for bytes in came.early.drain(..) {
                early(&bytes);
            }
            match came.answer.take() {
                None if !came.is_over => Poll::Pending,
                answer => Poll::Ready(answer.ok_or(Unanswered::Lost)),
            }
        }))
    }

    fn ask_conductor(&self, request: Vec<u8>) -> LocalBoxFuture<'_, Result<Vec<u8>, Unanswered>> {
        let cut_off = *self.weather.is_cut_off.lock().expect("no thread panics with it");
        if self.weather.is_conductor_silent.load(Ordering::SeqCst)
            || cut_off.is_some_and(|site| self.own.contains(&site))
        {
            let why = Unanswered::Unreachable("for the test".to_owned());
            return Box::pin(async { Err(why) });
        }
        let sites = self.weather.conductor.lock().expect("no thread panics with it").clone();
        let site = sites.unwrap_or_else(|| self.all[0].0.clone())[0];
        Box::pin(async move { self.ask(site, request, &mut |_| {}).await })
    }

    fn send(&self, site: SiteId, message: Vec<u8>) {
        self.weather.passes(&message);
        // Messages may be lost.
        let to = self.to(site).filter(|_| !self.is_cut(site));
        let _ = to.map(|to| to.send(Parcel::Message(message)));
    }

    fn retry(&self, _: SiteId) -> LocalBoxFuture<'_, ()> {
        let mut has_waited = false;
        Box::pin(poll_fn(move |cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            thread::yield_now();
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn returns(&self, site: SiteId) -> LocalBoxFuture<'_, bool> {
        // Waits for a takeover, which the caller looks for at each turn.
        Box::pin(poll_fn(move |cx| {
            thread::yield_now();
            cx.waker().wake_by_ref();
            if self.is_cut(site) { Poll::Pending } else { Poll::Ready(true) }
        }))
    }

    fn reach(&self, site: SiteId) -> Option<Reach> {
        let trouble = self.is_cut(site).then(|| "it has ended".to_owned());
        let (sites, _) = self.all.iter().find(|(sites, _)| sites.contains(&site))?;
        Some(Reach { node: format!("of {}", sites[0]), zone: None, trouble })
    }

    fn gone(&self, site: SiteId) -> Option<String> {
        // A process that has failed does not take over from others.
        let is_gone = self.weather.is_gone(site) && !self.has_failed();
        is_gone.then(|| "its process has ended".to_owned())
    }

    fn conduct(&self, term: u64) {
        self.weather.terms.lock().expect("no thread panics with it").push(term);
        let own = Some(self.own.clone()).filter(|own| !own.is_empty());
        let before = {
            let mut conductor = self.weather.conductor.lock().expect("no thread panics with it");
            std::mem::replace(&mut *conductor, own.clone())
        };
        let before = before.unwrap_or_else(|| self.all[0].0.clone());
        if own.is_some_and(|own| own != before) {
            self.weather.supersede(before);
        }
    }
}

/// The endpoint of a process, which another run of it replaces.
type Serving = Arc<Mutex<Endpoint>>;

/// Serves a process until no other one can reach it any more. Each request has a thread of its own.
#[allow(clippy::disallowed_methods, reason = "threads of the test's processes")]
fn host(serving: Serving, inbox: Receiver<Parcel>, weather: Arc<Weather>) {
    thread::spawn(move || {
        for parcel in inbox {
            let endpoint = serving.lock().expect("no thread panics with it").clone();
            match parcel {
                Parcel::Message(bytes) => {
                    endpoint.receive(&bytes).expect("it is what was sent");
                }
                Parcel::Ask(of, request, call) => {
                    let (endpoint, weather) = (endpoint.clone(), weather.clone());
                    let call = Answering(call);
                    thread::spawn(move || {
                        if let Some(cancel) = weather.begin_request(&of) {
                            answer(&endpoint, &weather, (&request, &cancel), &call);
                            weather.end_request(&cancel);
                        }
                    });
                }
            }
        }
    });
}

fn answer(
    endpoint: &Endpoint,
    weather: &Weather,
    (request, cancel): (&[u8], &CancelToken),
    Answering(call): &Answering,
) {
    if request[1] == SEATED && weather.are_commits_held.load(Ordering::SeqCst) {
        weather.held.fetch_add(1, Ordering::SeqCst);
        while weather.are_commits_held.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
    let answer = endpoint.serve(request, cancel, |early| {
        if !weather.is_plain.load(Ordering::SeqCst) {
            weather.passes(&early);
            call.note(|came| came.early.push_back(early));
        }
    });
    let Some(mut answer) = answer else { return };
    weather.passes(&answer);
    if weather.is_noisy.load(Ordering::SeqCst) {
        *answer.last_mut().expect("a message has a head") ^= 1;
    }
    call.note(|came| came.answer = Some(answer));
}

/// A database of four sites, in one process for each list of sites.
pub(crate) struct Cluster {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) weather: Arc<Weather>,
    serving: Vec<Serving>,
    wires: Vec<Arc<Channels>>,
}

impl Cluster {
    /// The database hosts the sites of the first process, nodes those of the others.
    pub(crate) fn open(
        processes: &[&[u16]],
        options: Options,
        procedures: fn() -> Procedures,
    ) -> Cluster {
        let mut options = Some(options);
        Cluster::open_with(processes, procedures, |at| match at {
            0 => options.take().expect("it is asked once"),
            _ => Options::in_memory(0),
        })
    }

    /// Like [`Cluster::open`], with options for each process.
    pub(crate) fn open_with(
        processes: &[&[u16]],
        procedures: fn() -> Procedures,
        mut options: impl FnMut(usize) -> Options,
    ) -> Cluster {
        let weather = Arc::new(Weather::default());
        let sites = processes.iter().map(|own| own.iter().map(|site| SiteId(*site)).collect());
        let (senders, inboxes): (Vec<_>, Vec<_>) = processes.iter().map(|_| channel()).unzip();
        let all: Vec<(Vec<SiteId>, Sender<Parcel>)> = sites.zip(senders).collect();
        let wire = |own: &(Vec<SiteId>, _)| {
            let (own, all, weather) = (own.0.clone(), all.clone(), weather.clone());
            Arc::new(Channels { own, all, weather })
        };
        let wires: Vec<Arc<Channels>> = all.iter().map(wire).collect();
        let mut inboxes = inboxes.into_iter();
        let own = inboxes.next().expect("there is a process");
        let (mut nodes, mut serving) = (Vec::new(), Vec::new());
        let mut host = |endpoint: Endpoint, inbox| {
            let of = Arc::new(Mutex::new(endpoint));
            serving.push(of.clone());
            host(of, inbox, weather.clone());
        };
        for (at, inbox) in (1..).zip(inboxes) {
            let of_node = options(at).sites(&all[at].0).procedures(procedures());
            let node = Node::open(of_node.elsewhere(wires[at].clone())).expect("a node");
            host(node.endpoint(), inbox);
            nodes.push(Arc::new(node));
        }
        let options = options(0).elsewhere(wires[0].clone()).procedures(procedures());
        let database = Database::open(options).expect("all sites can be asked");
        host(database.endpoint(), own);
        serving.rotate_right(1);
        Cluster { gateway: Gateway::new(database), nodes, weather, serving, wires }
    }

    /// Starts a process that has failed once more, as a node. The others meet it.
    pub(crate) fn restart(&mut self, at: usize, options: Options) -> Node {
        let own = &self.wires[at].own;
        let node = Node::open(options.sites(own).elsewhere(self.wires[at].clone()));
        let node = node.expect("a node");
        *self.serving[at].lock().expect("no thread panics with it") = node.endpoint();
        let numbers: Vec<u16> = own.iter().map(|site| site.0).collect();
        self.weather.begin(&numbers);
        for (other, serving) in self.serving.iter().enumerate().filter(|(other, _)| *other != at) {
            let serving = serving.lock().expect("no thread panics with it").clone();
            node.endpoint().meet(&self.wires[other].own, false);
            serving.meet(own, true);
        }
        node
    }
}
