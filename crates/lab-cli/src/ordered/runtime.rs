//! The engine of batches on threads of one process.
//!
//! ```text
//!   clients ──▶ orderer ──────────▶ a thread for each site ──▶ clients
//!   one thread   sequencer, order,   Site::step on its rows
//!   for all      planner             ▲  └── pushes ──┐
//!                   │                └───────────────┘
//!                   └─────────────▶ witness: the same plans, one transaction after the other
//! ```
//!
//! The state machines are those of the library; this module adds channels, the clock and the
//! shutdown. The shutdown follows the flow of requests: clients stop, the orderer orders the last
//! batch, sites finish their open batches, and then the result is compared with the witness.
//!
//! **Left out**: an order on disk, and checkpoints. Channels between threads lose nothing, so sites
//! discard pushes without one.

use super::flow::Flow;
use hdrhistogram::Histogram;
use isomer::clock;
use isomer::failure::Failure;
use isomer::plan::recorded::write_batch;
use isomer_batch::{
    Answer, Checkpoint, ClientId, Input, Limits, MemoryOrder, MemoryRows, Order, Output, Plan,
    Planner, Recorded, Request, Sequencer, Site,
};
use isomer_design::{SiteId, Time};
use isomer_lab::ordered::{Demand, Serial, add_answer, procedures};
use isomer_plan::generate::random;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A batch closes after 2 ms, or when it has 200 requests.
const LIMITS: Limits = Limits { requests_max: 200, wait_ns_max: 2_000_000 };
/// The longest wait of an idle site or orderer.
const IDLE: Duration = Duration::from_millis(100);
/// Interval, in batches, at which a site discards pushes.
const KEPT_BATCHES: u64 = 16;

/// The parts and parameters of a run.
pub(super) struct Runtime {
    pub(super) planner: Planner,
    pub(super) demand: Demand,
    /// Number of clients.
    pub(super) clients: u64,
    pub(super) seed: u64,
    /// The file that plans are recorded in.
    pub(super) recording: Option<BufWriter<File>>,
}

/// The result of a run.
pub(super) struct Ran {
    pub(super) flow: Flow,
    pub(super) latency: Histogram<u64>,
    pub(super) seconds: f64,
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Records that are not at home.
    pub(super) away: usize,
    /// The result of the comparison with the witness.
    pub(super) verdict: Result<String, String>,
}

/// A view of a running engine.
pub(super) struct State<'a> {
    flow: &'a Mutex<Flow>,
    told: Flow,
    begun: Instant,
}

impl State<'_> {
    /// The plans since the last call, and the seconds since the beginning.
    pub(super) fn since(&mut self) -> (Flow, f64) {
        let now = locked(self.flow).clone();
        let since = now.since(&self.told);
        self.told = now;
        (since, self.begun.elapsed().as_secs_f64())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to a site's thread.
enum Delivery {
    Input(Input),
    /// No more batches follow.
    End,
}

type Answered = (ClientId, u64, Answer);

impl Runtime {
    /// Runs until `watch` returns, then shuts down and compares the result with the witness.
    ///
    /// # Errors
    /// If the recording cannot be written.
    pub(super) fn run(self, watch: impl FnOnce(&mut State<'_>)) -> Result<Ran, Failure> {
        let Runtime { planner, demand, clients, seed, recording } = self;
        let sites: Vec<SiteId> = planner.homes().sites().iter().collect();
        let flow = Mutex::new(Flow::new(sites.len()));
        let (stop, begun) = (AtomicBool::new(false), clock::now());
        let (requests, to_order) = channel();
        let (answers, to_clients) = channel();
        let (plans, to_witness) = channel();
        let (posts, mailboxes): (Vec<_>, Vec<_>) = sites.iter().map(|_| channel()).unzip();
        std::thread::scope(|scope| {
            let orderer = Orderer { planner, posts: posts.clone(), plans, recording, flow: &flow };
            let orderer = scope.spawn(move || orderer.run(&to_order, begun));
            let site = |(id, mailbox): (SiteId, Receiver<Delivery>)| {
                let (posts, answers) = (posts.clone(), answers.clone());
                scope.spawn(move || run_site(id, &mailbox, &posts, &answers, begun))
            };
            let running: Vec<_> = sites.iter().copied().zip(mailboxes).map(site).collect();
            let witness = scope.spawn(move || {
                let mut serial = Serial::new(procedures());
                to_witness.iter().for_each(|plan: Arc<Plan>| serial.run(&plan));
                serial
            });
            let asking = Asking::new(demand, clients, seed);
            let stopping = &stop;
            let asking = scope.spawn(move || asking.run(&requests, &to_clients, stopping, begun));
            let told = locked(&flow).clone();
            watch(&mut State { flow: &flow, told, begun });
            stop.store(true, Ordering::Relaxed);
            let asking = asking.join().expect("clients do not panic");
            let seconds = begun.elapsed().as_secs_f64();
            let planner = orderer.join().expect("the orderer does not panic")?;
            let rows = running.into_iter().map(|site| site.join().expect("a site does not panic"));
            let rows: Vec<MemoryRows> = rows.collect();
            let serial = witness.join().expect("the witness does not panic");
            let verdict = serial.judge(asking.answers, &rows.iter().collect::<Vec<_>>());
            let count: usize = rows.iter().map(|rows| rows.iter().count()).sum();
            let verdict = verdict.map(|()| format!("{count} rows and every answer"));
            let flow = locked(&flow).clone();
            let Asking { latency, asked, answered, .. } = asking;
            Ok(Ran {
                flow,
                latency,
                seconds,
                asked,
                answered,
                away: planner.fusion().len(),
                verdict,
            })
        })
    }
}

/// Sequencer, order and planner.
struct Orderer<'a> {
    planner: Planner,
    posts: Vec<Sender<Delivery>>,
    plans: Sender<Arc<Plan>>,
    recording: Option<BufWriter<File>>,
    flow: &'a Mutex<Flow>,
}

impl Orderer<'_> {
    fn run(mut self, requests: &Receiver<Request>, begun: Instant) -> Result<Planner, Failure> {
        let (mut sequencer, mut order) = (Sequencer::new(LIMITS), MemoryOrder::new());
        let mut wrong = Ok(());
        loop {
            let now = time(begun);
            let due = sequencer
                .closes_at()
                .map_or(IDLE, |at| Duration::from_nanos(at.0.saturating_sub(now.0)));
            let closed = match requests.recv_timeout(due) {
                Ok(request) => sequencer.submit(time(begun), request),
                Err(RecvTimeoutError::Timeout) => sequencer.tick(time(begun)),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(batch) = closed {
                let Ok(()) = order.append(batch);
                order.sync();
            }
            let Ok(ordered) = order.read(self.planner.next());
            if let Some(batch) = ordered {
                let plan = Arc::new(self.planner.plan(&batch));
                let Ok(()) = order.truncate(self.planner.next());
                let away = self.planner.fusion().len();
                locked(self.flow).count(&plan, self.planner.homes(), away);
                if let Some(out) = &mut self.recording
                    && wrong.is_ok()
                {
                    let written = write_batch(out, &Recorded::of(&batch, &plan));
                    wrong = written.map_err(|error| Failure::failed(error.to_string()));
                }
                self.hand_out(&plan);
            }
        }
        self.posts.iter().for_each(|post| drop(post.send(Delivery::End)));
        if let Some(mut out) = self.recording {
            out.flush().map_err(Failure::failed)?;
        }
        wrong.map(|()| self.planner)
    }

    fn hand_out(&self, plan: &Arc<Plan>) {
        for post in &self.posts {
            post.send(Delivery::Input(Input::Plan(plan.clone())))
                .expect("a site waits for its end");
        }
        self.plans.send(plan.clone()).expect("the witness waits for the end");
    }
}

/// Runs a site until its end; returns its rows.
fn run_site(
    id: SiteId,
    mailbox: &Receiver<Delivery>,
    posts: &[Sender<Delivery>],
    answers: &Sender<Answered>,
    begun: Instant,
) -> MemoryRows {
    let mut rows = MemoryRows::new();
    let mut site = Site::new(id, procedures(), Checkpoint::initial(&rows));
    let mut is_ending = false;
    while !is_ending || site.open_batches() > 0 {
        let now = time(begun);
        let due =
            site.wake_at().map_or(IDLE, |at| Duration::from_nanos(at.0.saturating_sub(now.0)));
        let input = match mailbox.recv_timeout(due) {
            Ok(Delivery::Input(input)) => input,
            Ok(Delivery::End) => {
                is_ending = true;
                continue;
            }
            Err(_) => Input::Tick,
        };
        let mut outputs = site.step(time(begun), input, &mut rows);
        let finished = outputs.iter().filter_map(|output| match output {
            Output::Finished(finished) if finished.batch.is_multiple_of(KEPT_BATCHES) => {
                Some(finished.batch)
            }
            _ => None,
        });
        if let Some(batch) = finished.max() {
            outputs.extend(site.step(time(begun), Input::Saved(batch + 1), &mut rows));
        }
        outputs.into_iter().for_each(|output| deal(id, output, posts, answers));
    }
    rows
}

fn deal(id: SiteId, output: Output, posts: &[Sender<Delivery>], answers: &Sender<Answered>) {
    match output {
        Output::Send(to, message) => {
            let post = Delivery::Input(Input::Message(id, message));
            // Sending to a site that has ended fails. Such a site has pushed everything that others
            // need; a message to it can only be a question of a site in doubt, which needs no
            // answer then.
            let _ = posts[usize::from(to.0) - 1].send(post);
        }
        Output::Answer(client, sequence, answer) => {
            // Clients wait for all their answers.
            let _ = answers.send((client, sequence, answer));
        }
        Output::Resubmit(request) => panic!("the footprint of {request} was right"),
        Output::Finished(_) => {}
    }
}

/// All clients, each with one request under way.
struct Asking {
    demand: Demand,
    random: isomer_plan::generate::Random,
    /// By client: the number of its last request, and when it was sent.
    last: Vec<(u64, Time)>,
    latency: Histogram<u64>,
    asked: u64,
    answered: u64,
    /// The sum of all answers, to compare with the witness.
    answers: u64,
}

impl Asking {
    fn new(demand: Demand, clients: u64, seed: u64) -> Asking {
        let latency = Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("sane bounds");
        let (last, random) = (vec![(0, Time::ZERO); clients as usize], random(seed));
        Asking { demand, random, last, latency, asked: 0, answered: 0, answers: 0 }
    }

    fn run(
        mut self,
        requests: &Sender<Request>,
        answers: &Receiver<Answered>,
        stop: &AtomicBool,
        begun: Instant,
    ) -> Asking {
        (0..self.last.len()).for_each(|client| self.ask(client, requests, begun));
        while self.answered < self.asked {
            let (client, sequence, answer) = answers.recv().expect("sites answer");
            let at = client.0 as usize;
            let (last, asked_at) = self.last[at];
            assert_eq!(last, sequence, "{client} got an answer to another request");
            let output = answer.expect("nothing here aborts");
            self.answers = add_answer(self.answers, client, sequence, &output);
            self.answered += 1;
            self.latency.saturating_record(time(begun).0.saturating_sub(asked_at.0).max(1));
            if !stop.load(Ordering::Relaxed) {
                self.ask(at, requests, begun);
            }
        }
        self
    }

    fn ask(&mut self, client: usize, requests: &Sender<Request>, begun: Instant) {
        let now = time(begun);
        let (sequence, at) = &mut self.last[client];
        (*sequence, *at) = (*sequence + 1, now);
        let id = (ClientId(client as u64), *sequence);
        let request = self.demand.next(id, now.0 as f64 / 1e9, &mut self.random);
        requests.send(request).expect("the orderer waits for the clients' end");
        self.asked += 1;
    }
}

/// The time since the run began.
fn time(begun: Instant) -> Time {
    Time(begun.elapsed().as_nanos() as u64 + 1)
}
