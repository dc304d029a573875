//! Processes that are parts of this one, and hear of each other nothing but bytes: a channel for each.

use futures_util::future::LocalBoxFuture;
use futures_util::task::AtomicWaker;
use isomer_cluster::{
    CancelToken, Database, Early, Endpoint, Gateway, Node, Options, Procedures, Unanswered, Wire,
};
use isomer_design::SiteId;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

/// What is on its way to a process.
enum Parcel {
    Ask(Vec<u8>, Arc<Call>),
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
    /// Nothing more will come.
    is_over: bool,
}

impl Call {
    fn note(&self, note: impl FnOnce(&mut Came)) {
        note(&mut self.came.lock().expect("nobody panics with it"));
        self.waker.wake();
    }
}

/// An answer that is not given, as its thread has panicked, is lost.
struct Answering(Arc<Call>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.note(|came| came.is_over = true);
    }
}

/// What the network does, and has done.
#[derive(Default)]
pub(crate) struct Weather {
    /// How many messages of each kind were sent.
    kinds: Mutex<BTreeMap<u8, u64>>,
    /// Nothing comes before an answer.
    pub(crate) is_plain: AtomicBool,
    /// Requests are of a version that nobody knows.
    pub(crate) is_foreign: AtomicBool,
    /// The last byte of an answer is not the one that was sent.
    pub(crate) is_noisy: AtomicBool,
}

impl Weather {
    /// How many messages of a kind were sent.
    pub(crate) fn sent(&self, kind: u8) -> u64 {
        let kinds = self.kinds.lock().expect("nobody panics with it");
        kinds.get(&kind).copied().unwrap_or(0)
    }

    fn passes(&self, bytes: &[u8]) {
        let mut kinds = self.kinds.lock().expect("nobody panics with it");
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
            request[0] = isomer_site::wire::VERSION + 1;
        }
        let call = Arc::new(Call::default());
        let sent = self.to(site).map(|to| to.send(Parcel::Ask(request, call.clone())));
        let is_sent = sent.is_some_and(|sent| sent.is_ok());
        Box::pin(poll_fn(move |cx| {
            if !is_sent {
                return Poll::Ready(Err(Unanswered::Lost));
            }
            call.waker.register(cx.waker());
            let mut came = call.came.lock().expect("nobody panics with it");
            for bytes in came.early.drain(..) {
                early(&bytes);
            }
            match came.answer.take() {
                None if !came.is_over => Poll::Pending,
                answer => Poll::Ready(answer.ok_or(Unanswered::Lost)),
            }
        }))
    }

    fn send(&self, site: SiteId, message: Vec<u8>) {
        self.weather.passes(&message);
        // Messages may be lost.
        let _ = self.to(site).map(|to| to.send(Parcel::Message(message)));
    }

    fn retry(&self, _: SiteId) -> LocalBoxFuture<'_, ()> {
        thread::yield_now();
        Box::pin(async {})
    }
}

/// Serves a process until nobody can reach it any more, each request on a thread of its own.
#[allow(clippy::disallowed_methods, reason = "threads of the test's processes")]
fn host(endpoint: Endpoint, inbox: Receiver<Parcel>, weather: Arc<Weather>) {
    thread::spawn(move || {
        for parcel in inbox {
            match parcel {
                Parcel::Message(bytes) => {
                    endpoint.receive(&bytes).expect("it is what was sent");
                }
                Parcel::Ask(request, call) => {
                    let (endpoint, weather) = (endpoint.clone(), weather.clone());
                    let call = Answering(call);
                    thread::spawn(move || answer(&endpoint, &weather, &request, &call));
                }
            }
        }
    });
}

fn answer(endpoint: &Endpoint, weather: &Weather, request: &[u8], Answering(call): &Answering) {
    let never_over = CancelToken::default();
    let answer = endpoint.serve(request, &never_over, |early| {
        if !weather.is_plain.load(Ordering::SeqCst) {
            weather.passes(&early);
            call.note(|came| came.early.push_back(early));
        }
    });
    let mut answer = answer.expect("nobody ends it");
    weather.passes(&answer);
    if weather.is_noisy.load(Ordering::SeqCst) {
        *answer.last_mut().expect("a message has a head") ^= 1;
    }
    call.note(|came| came.answer = Some(answer));
}

/// A database of four sites, in as many processes as are named.
pub(crate) struct Cluster {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) weather: Arc<Weather>,
}

impl Cluster {
    /// The database hosts the sites of the first process, nodes those of the others.
    pub(crate) fn open(
        processes: &[&[u16]],
        options: Options,
        procedures: fn() -> Procedures,
    ) -> Cluster {
        let weather = Arc::new(Weather::default());
        let sites = processes.iter().map(|own| own.iter().map(|site| SiteId(*site)).collect());
        let (senders, inboxes): (Vec<_>, Vec<_>) = processes.iter().map(|_| channel()).unzip();
        let all: Vec<(Vec<SiteId>, Sender<Parcel>)> = sites.zip(senders).collect();
        let wire = |at: usize| {
            let (own, weather) = (all[at].0.clone(), weather.clone());
            Arc::new(Channels { own, all: all.clone(), weather })
        };
        let mut inboxes = inboxes.into_iter();
        let own = inboxes.next().expect("there is a process");
        let mut nodes = Vec::new();
        for (at, inbox) in (1..).zip(inboxes) {
            let node = Node::open(
                Options::in_memory(0)
                    .sites(&all[at].0)
                    .procedures(procedures())
                    .elsewhere(wire(at)),
            );
            let node = node.expect("in memory");
            host(node.endpoint(), inbox, weather.clone());
            nodes.push(node);
        }
        let options = options.elsewhere(wire(0)).procedures(procedures());
        let database = Database::open(options).expect("all sites can be asked");
        host(database.endpoint(), own, weather.clone());
        Cluster { gateway: Gateway::new(database), nodes, weather }
    }
}
