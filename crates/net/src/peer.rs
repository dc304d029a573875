//! One other process, as it is dialled: the requests under way there, and who waits for it.
//!
//! ```text
//!            dialled             welcome                line is over
//!   down ──────────────▶ says hello ──────▶ up ─────────────────────▶ down: requests under way are lost
//!     ▲   refused, nobody there │                                       │
//!     └───── waits 20 ms, 40, … 500 ms ◀───────────────────────────────────┘
//! ```
//!
//! **Who waits for it.** A client that finds it down waits until it is up, if it has not been down for longer than
//! clients are to wait ([`Options::outage_wait`](crate::Options::outage_wait)); a process that is started again is up within
//! that. Later clients are refused at once. Each attempt to dial wakes those who wait, so they have no timers.

use crate::edge::{now, wall_ms};
use crate::hello::{HELLO, HELLO_BYTES_MAX, Hello, Member, REFUSED, WELCOME};
use crate::line::{Line, Takes, Unsent};
use crate::net::Shared;
use futures_util::task::AtomicWaker;
use isomer_cluster::{Early, Unanswered};
use isomer_site::wire::{self, ANSWER, Head, PUBLISHED};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long it is waited until somebody is dialled again: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How long a connection may take to be made, and then a hello to be answered.
const DIAL: Duration = Duration::from_secs(2);
const GREETING: Duration = Duration::from_secs(5);
/// So many requests may be under way to one process.
const CALLS_MAX: usize = 16 << 10;

/// See the [module documentation](self).
pub(crate) struct Peer {
    pub(crate) member: Member,
    state: Mutex<State>,
    /// Woken when it is time to look again whether to dial.
    look: Condvar,
    calls: Mutex<HashMap<u64, Arc<Call>>>,
    last_call: AtomicU64,
    /// Messages that were dropped, as too much was waiting or nobody was there.
    pub(crate) dropped: AtomicU64,
}

struct State {
    line: Option<Arc<Line>>,
    /// The line that is there, whether or not somebody has said who is at its other end.
    dialled: Option<Arc<Line>>,
    /// What came of the last attempt, or ended the last line.
    trouble: String,
    /// Since when there is no line; at first, since the start.
    down_since: Instant,
    /// How often it was tried.
    attempts: u64,
    /// The run of the process that was met last; 0: none.
    run: u64,
    release: String,
    /// By how many milliseconds its clock is ahead.
    ahead_ms: i64,
    waiting: Vec<Waker>,
    is_stopped: bool,
}

/// How another process is, seen from here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// Which.
    pub member: Member,
    /// Its release and by how many milliseconds its clock is ahead, if it can be reached; or why it cannot.
    pub reached: Result<(String, i64), String>,
    /// Messages to it that were dropped.
    pub dropped: u64,
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
    is_lost: bool,
}

impl Call {
    fn note(&self, note: impl FnOnce(&mut Came)) {
        note(&mut self.came.lock());
        self.waker.wake();
    }

    fn poll(&self, cx: &mut Context<'_>, early: Early<'_>) -> Poll<Result<Vec<u8>, Unanswered>> {
        self.waker.register(cx.waker());
        let (before, answer, is_lost) = {
            let mut came = self.came.lock();
            (std::mem::take(&mut came.early), came.answer.take(), came.is_lost)
        };
        before.iter().for_each(|bytes| early(bytes));
        match answer {
            Some(answer) => Poll::Ready(Ok(answer)),
            None if is_lost => Poll::Ready(Err(Unanswered::Lost)),
            None => Poll::Pending,
        }
    }
}

/// A request that is under way, until this is dropped.
struct UnderWay<'p> {
    peer: &'p Peer,
    number: u64,
    call: Arc<Call>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.peer.calls.lock().remove(&self.number);
    }
}

impl Peer {
    pub(crate) fn new(member: Member) -> Peer {
        let state = State {
            line: None,
            dialled: None,
            trouble: "it was not dialled yet".to_owned(),
            down_since: now(),
            attempts: 0,
            run: 0,
            release: String::new(),
            ahead_ms: 0,
            waiting: Vec::new(),
            is_stopped: false,
        };
        Peer {
            member,
            state: Mutex::new(state),
            look: Condvar::new(),
            calls: Mutex::default(),
            last_call: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(
        &self,
        mut request: Vec<u8>,
        early: Early<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        let line = self.line()?;
        let number = self.last_call.fetch_add(1, Ordering::Relaxed) + 1;
        let call = Arc::new(Call::default());
        {
            let mut calls = self.calls.lock();
            if calls.len() >= CALLS_MAX {
                return Err(self.unreachable(&format!("{CALLS_MAX} requests wait for answers")));
            }
            calls.insert(number, call.clone());
        }
        let under_way = UnderWay { peer: self, number, call };
        wire::set_number(&mut request, number);
        match line.send(request) {
            Ok(()) => {}
            Err(Unsent::Full) => return Err(self.unreachable("too much waits to be sent")),
            Err(Unsent::Over) => return Err(self.unreachable("the connection has just ended")),
        }
        poll_fn(|cx| under_way.call.poll(cx, early)).await
    }

    /// Sends a message, unless too much waits to be sent, or nobody is there.
    pub(crate) fn send(&self, message: Vec<u8>) {
        let line = self.state.lock().line.clone();
        if line.is_none_or(|line| line.send(message).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn line(&self) -> Result<Arc<Line>, Unanswered> {
        let state = self.state.lock();
        state.line.clone().ok_or_else(|| self.unreachable(&state.trouble))
    }

    fn unreachable(&self, why: &str) -> Unanswered {
        let Member { name, address, .. } = &self.member;
        Unanswered::Unreachable(format!("node {name} at {address}: {why}"))
    }

    /// Why it cannot be reached, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.line() {
            Ok(_) | Err(Unanswered::Lost) => None,
            Err(Unanswered::Unreachable(why)) => Some(why),
        }
    }

    pub(crate) fn state(&self) -> PeerState {
        let state = self.state.lock();
        let reached = match &state.line {
            Some(_) => Ok((state.release.clone(), state.ahead_ms)),
            None => Err(state.trouble.clone()),
        };
        let (member, dropped) = (self.member.clone(), self.dropped.load(Ordering::Relaxed));
        PeerState { member, reached, dropped }
    }

    /// Ready when it can be reached, or was dialled once more in vain.
    pub(crate) async fn retry(&self) {
        let attempts = self.state.lock().attempts;
        self.until(|state| {
            let is_up = state.line.as_ref().is_some_and(|line| !line.is_over());
            let is_worth = is_up || state.attempts > attempts || state.is_stopped;
            is_worth.then_some(())
        })
        .await;
    }

    /// Waits until it can be reached; `false` if it has been away for so long that nobody is to wait.
    pub(crate) async fn returns(&self, outage_wait: Duration) -> bool {
        self.until(|state| match &state.line {
            // One that takes nothing is as good as away.
            Some(line) if !line.is_over() => Some(line.has_room()),
            Some(_) => None,
            None if state.is_stopped || state.down_since.elapsed() >= outage_wait => Some(false),
            None => None,
        })
        .await
    }

    /// For how long it could not be reached.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        let is_up = state.line.as_ref().is_some_and(|line| !line.is_over());
        (!is_up).then(|| state.down_since.elapsed())
    }

    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match look(&state) {
                Some(seen) => Poll::Ready(seen),
                None => {
                    if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        state.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Ends it; nobody dials it any more.
    pub(crate) fn stop(&self) {
        self.change(|state| {
            state.is_stopped = true;
            if let Some(line) = &state.dialled {
                line.end("this process stops");
            }
        });
    }

    /// Dials it, again and again, until it is stopped.
    pub(crate) fn dial_until_stopped(self: &Arc<Peer>, shared: &Arc<Shared>) {
        let mut pause = BACK_OFF.0;
        while !self.state.lock().is_stopped {
            let was_up = self.dial(shared);
            pause = if was_up { BACK_OFF.0 } else { (pause * 2).min(BACK_OFF.1) };
            let mut state = self.state.lock();
            if !state.is_stopped {
                self.look.wait_for(&mut state, pause);
            }
        }
    }

    /// Dials it once; returns when it is down again. True if it was up.
    fn dial(self: &Arc<Peer>, shared: &Arc<Shared>) -> bool {
        if shared.cluster().is_none() {
            let why = "this process belongs to no cluster yet; the one with the router comes first";
            self.went_down(None, why);
            return false;
        }
        let line = match self.connect(shared) {
            Ok(line) => Arc::new(line),
            Err(why) => {
                self.went_down(None, &why);
                return false;
            }
        };
        {
            let mut state = self.state.lock();
            if state.is_stopped {
                return false;
            }
            state.dialled = Some(line.clone());
        }
        let _ = line.send(shared.hello().write(HELLO));
        let mut answers = Answers {
            peer: self.clone(),
            shared: shared.clone(),
            line: line.clone(),
            deadline: Some(now() + GREETING),
        };
        let ended = line.run(&mut answers);
        let was_up = answers.deadline.is_none();
        self.went_down(Some(&line), &ended);
        was_up
    }

    fn connect(&self, shared: &Shared) -> Result<Line, String> {
        let addresses = self.member.address.to_socket_addrs().map_err(|error| error.to_string())?;
        let mut why = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, DIAL) {
                Ok(socket) => {
                    let tls = shared.tls.as_ref().map(|tls| tls.dial(&self.member.name));
                    let line = Line::new(socket, shared.limits, tls.transpose()?);
                    return line.map_err(|error| error.to_string());
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Somebody is there, and one of us. Gives whether that is another run than was met before.
    fn went_up(&self, line: &Arc<Line>, theirs: &Hello) -> bool {
        let mut is_new = false;
        self.change(|state| {
            is_new = state.run != theirs.run;
            state.run = theirs.run;
            state.line = Some(line.clone());
            state.release = theirs.release.clone();
            state.ahead_ms = theirs.wall_ms as i64 - wall_ms() as i64;
        });
        is_new
    }

    /// Nobody is there, or not any more: what was under way on the line is lost.
    fn went_down(&self, line: Option<&Arc<Line>>, why: &str) {
        self.change(|state| {
            if state.line.take().is_some() {
                state.down_since = now();
            }
            state.dialled = None;
            state.attempts += 1;
            state.trouble = why.to_owned();
        });
        if line.is_some() {
            let lost = std::mem::take(&mut *self.calls.lock());
            lost.values().for_each(|call| call.note(|came| came.is_lost = true));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waiting = {
            let mut state = self.state.lock();
            change(&mut state);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        self.look.notify_all();
    }
}

/// What comes by a line that was dialled.
struct Answers {
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    line: Arc<Line>,
    /// Until when it has to say who it is; `None`: it has.
    deadline: Option<Instant>,
}

impl Answers {
    fn greeted(&mut self, head: Head, message: &[u8]) -> Result<(), String> {
        match head.kind {
            WELCOME => {
                let theirs = Hello::read(WELCOME, message).map_err(|bad| bad.to_string())?;
                let name = &self.peer.member.name;
                if theirs.name != *name {
                    return Err(format!("`{}` is there, and not `{name}`", theirs.name));
                }
                self.shared.judge(&theirs)?;
                self.deadline = None;
                let is_new = self.peer.went_up(&self.line, &theirs);
                self.shared.met(&self.peer, is_new);
                Ok(())
            }
            REFUSED => {
                let why: String =
                    wire::read_carried(REFUSED, message).map_err(|bad| bad.to_string())?;
                Err(why)
            }
            kind => Err(format!("a message of kind {kind}, where a welcome is expected")),
        }
    }
}

impl Takes for Answers {
    fn longest(&self) -> usize {
        if self.deadline.is_some() { HELLO_BYTES_MAX } else { usize::MAX }
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn take(&mut self, head: Head, message: Vec<u8>) -> Result<(), String> {
        if self.deadline.is_some() {
            return self.greeted(head, &message);
        }
        // Who has asked may wait no longer.
        let call = self.peer.calls.lock().get(&head.number).cloned();
        match head.kind {
            PUBLISHED => {
                if let Some(call) = call {
                    call.note(|came| came.early.push_back(message));
                }
                Ok(())
            }
            kind if kind >= ANSWER => {
                if let Some(call) = call {
                    call.note(|came| came.answer = Some(message));
                }
                Ok(())
            }
            kind => Err(format!("a message of kind {kind}, where an answer is expected")),
        }
    }
}
