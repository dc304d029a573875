//! Parts of this process that act as processes, and exchange only bytes: each has a channel.

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

/// A request or message on its way to a process.
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
}

impl Weather {
    /// The number of messages of a kind that were sent.
    pub(crate) fn sent(&self, kind: u8) -> u64 {
        let kinds = self.kinds.lock().expect("no thread panics with it");
        kinds.get(&kind).copied().unwrap_or(0)
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

/// Serves a process until no other one can reach it any more. Each request has a thread of its own.
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
    let mut answer = answer.expect("no test cancels it");
    weather.passes(&answer);
    if weather.is_noisy.load(Ordering::SeqCst) {
        *answer.last_mut().expect("a message has a head") ^= 1;
    }
    call.note(|came| came.answer = Some(answer));
}

/// A database of four sites, in one process for each list of sites.
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
