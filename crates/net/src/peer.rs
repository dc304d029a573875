//! Outbound connections: one other process, the pending requests to it, and the tasks that wait for
//! it.
//!
//! ```text
//!            dialled             welcome                connection ends
//!   down ──────────────▶ says hello ──────▶ up ─────────────────────▶ down: pending requests are lost
//!     ▲   refused or unreachable │                                       │
//!     └───── waits 20 ms, 40, … 500 ms ◀───────────────────────────────────┘
//! ```
//!
//! **Outages.** A client that finds the process down waits until it is up, unless the outage has
//! already lasted [`Options::outage_wait`](crate::Options::outage_wait). A restarted process is up
//! within that time. Later clients are refused at once. Each attempt to dial wakes the waiting
//! tasks, so they need no timers.

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

/// The pause between attempts to dial: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// Timeouts of the connect and of the handshake.
const DIAL: Duration = Duration::from_secs(2);
const GREETING: Duration = Duration::from_secs(5);
/// The most pending requests to one process.
const CALLS_MAX: usize = 16 << 10;

/// See the [module documentation](self).
pub(crate) struct Peer {
    pub(crate) member: Member,
    state: Mutex<State>,
    /// Wakes the dialling thread before its pause ends.
    look: Condvar,
    calls: Mutex<HashMap<u64, Arc<Call>>>,
    last_call: AtomicU64,
    /// Messages that were dropped, because the queue was full or the process down.
    pub(crate) dropped: AtomicU64,
}

struct State {
    line: Option<Arc<Line>>,
    /// The current connection, also before the handshake.
    dialled: Option<Arc<Line>>,
    /// Why the last attempt failed, or the last connection ended.
    trouble: String,
    /// When the last connection ended; at first, the start of this process.
    down_since: Instant,
    /// The number of attempts to dial.
    attempts: u64,
    /// The number of handshakes that have succeeded, and that this process has taken note of.
    handshakes: u64,
    /// The run of the process in the last handshake; 0: none.
    run: u64,
    release: String,
    /// How many milliseconds its clock is ahead.
    ahead_ms: i64,
    waiting: Vec<Waker>,
    is_stopped: bool,
}

/// The state of another process, as seen from here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// The process.
    pub member: Member,
    /// If it can be reached: its release, and how many milliseconds its clock is ahead. Otherwise
    /// the reason.
    pub reached: Result<(String, i64), String>,
    /// Messages to it that were dropped.
    pub dropped: u64,
}

/// A pending request.
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

/// Keeps a request pending; its answer is dropped after this is.
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
            handshakes: 0,
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

    /// Sends a request, and waits for the answer.
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

    /// Sends a message. Drops it if the queue is full or the process down.
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

    /// Why the process cannot be reached; `None` if it can.
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

    /// Ready when the process can be reached, or another attempt to dial has failed.
    pub(crate) async fn retry(&self) {
        let attempts = self.state.lock().attempts;
        self.until(|state| {
            let is_up = state.line.as_ref().is_some_and(|line| !line.is_over());
            let is_worth = is_up || state.attempts > attempts || state.is_stopped;
            is_worth.then_some(())
        })
        .await;
    }

    /// Waits until the process can be reached. False if the outage lasts `outage_wait` or longer.
    pub(crate) async fn returns(&self, outage_wait: Duration) -> bool {
        self.until(|state| match &state.line {
            // A process that reads nothing counts as down.
            Some(line) if !line.is_over() => Some(line.has_room()),
            Some(_) => None,
            None if state.is_stopped || state.down_since.elapsed() >= outage_wait => Some(false),
            None => None,
        })
        .await
    }

    /// How long it has been unreachable; `None` if it can be reached.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        match &state.line {
            Some(line) if !line.is_over() => None,
            // The connection has ended only now.
            Some(_) => Some(Duration::ZERO),
            None => Some(state.down_since.elapsed()),
        }
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

    /// Ends the connection, so that it is dialled with another hello. Returns the number of
    /// handshakes so far.
    pub(crate) fn dial_again(&self) -> u64 {
        let state = self.state.lock();
        if let Some(line) = &state.dialled {
            line.end("this process has the conductor now");
        }
        state.handshakes
    }

    /// The run of the process in the last handshake; 0 before.
    pub(crate) fn run(&self) -> u64 {
        self.state.lock().run
    }

    /// The number of handshakes so far.
    pub(crate) fn handshakes(&self) -> u64 {
        self.state.lock().handshakes
    }

    /// Ends the connection and all dialling.
    pub(crate) fn stop(&self) {
        self.change(|state| {
            state.is_stopped = true;
            if let Some(line) = &state.dialled {
                line.end("this process stops");
            }
        });
    }

    /// Dials the process again and again, until it is stopped.
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

    /// Dials it once; returns when the connection has ended. True if the handshake had succeeded.
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

    /// The handshake has succeeded. Returns whether this is another run than in the last handshake.
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

    /// The attempt has failed, or the connection ended: its pending requests are lost.
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

/// Handles the input of an outbound connection.
struct Answers {
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    line: Arc<Line>,
    /// The end of the handshake's timeout; `None` after the handshake.
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
                self.peer.state.lock().handshakes += 1;
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
        // The request may have been dropped.
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
