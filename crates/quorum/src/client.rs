//! A process that keeps no copies of the logs: it asks those that do.
//!
//! ```text
//!   node d, with site 4                      node a, a member              nodes b, c
//!   ───────────────────                      ────────────────              ──────────
//!   append to group 4 ── ask 17 ───────────▶ append ─────── entry ───────▶
//!      300 ms ────────── ask 17 ───────────▶ it is still wanted
//!        ◀────────────── reply 17: 812 ───── committed ◀──────────────────
//!        ✗ a is silent
//!   append ───────────── ask 18 ────────────────────────────────────────▶ b
//! ```
//!
//! A database may have more nodes than its logs have copies: three or five copies survive what a
//! cluster has to survive, and each further one costs a disk more for every commit.
//!
//! **A request is asked until it has a reply**, of one member after the other. So a record may be
//! appended twice, and after its caller has given up, as with any carrier
//! ([`isomer_owned::Partition`]). A member forgets a request that is not repeated. No failure of a
//! member is a failure of the request: without a majority it waits.

use crate::requests::{Caller, Mailbox, Note, Pending, Reply, Request, missing};
use isomer_owned::edge::clock;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two looks at the requests.
const LOOK: Duration = Duration::from_millis(100);
/// A request without a reply is asked again after this time.
const AGAIN: Duration = Duration::from_millis(300);
/// Another member is asked if one has not answered for this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The requests of a process, and the members that it asks. See the [module documentation](self).
pub struct Client {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    names: Vec<String>,
    run: u64,
    mailbox: Arc<dyn Mailbox>,
    state: Mutex<State>,
    is_stopped: AtomicBool,
    wakes: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    /// The member that is asked.
    at: usize,
    /// When it was chosen, or has last replied.
    heard: Duration,
    waiting: BTreeMap<u64, Waits>,
}

struct Waits {
    caller: Caller,
    /// The request as a note.
    note: Vec<u8>,
    /// When it was last asked.
    asked: Duration,
}

impl Client {
    /// Starts a client of the members with these names. `run` is a number that no other run of the
    /// process has.
    ///
    /// # Errors
    /// A message, if the system refuses a thread.
    #[allow(clippy::disallowed_methods, reason = "the edge: requests are repeated by a thread")]
    pub fn start(
        mut names: Vec<String>,
        run: u64,
        mailbox: Arc<dyn Mailbox>,
    ) -> Result<Arc<Client>, String> {
        names.sort_unstable();
        let state = Mutex::new(State { heard: clock(), ..State::default() });
        let (is_stopped, wakes) = (AtomicBool::new(false), Condvar::new());
        let shared = Arc::new(Shared { names, run, mailbox, state, is_stopped, wakes });
        let (named, of) = (std::thread::Builder::new(), shared.clone());
        let thread = named.name("isomer-quorum".to_owned()).spawn(move || of.repeat());
        let thread = Mutex::new(Some(thread.map_err(|error| error.to_string())?));
        Ok(Arc::new(Client { shared, thread }))
    }

    /// Takes an envelope of a member. Other envelopes are ignored.
    pub fn receive(&self, from: &str, envelope: &[u8]) {
        let Some(Note::Reply { run, number, reply }) = Note::read(envelope) else { return };
        if run != self.shared.run {
            return;
        }
        let mut state = self.shared.state.lock();
        if matches!(reply, Reply::Failed(_)) {
            // Another member may be able to.
            if self.shared.names[state.at] == from {
                state.heard = Duration::ZERO;
            }
            return;
        }
        state.heard = clock();
        let waits = state.waiting.remove(&number);
        drop(state);
        waits.into_iter().for_each(|waits| waits.caller.answer(reply.clone()));
    }

    /// The names of all members, in their order.
    pub fn names(&self) -> &[String] {
        &self.shared.names
    }

    /// The members that cannot be reached, with reasons, to append to a message.
    pub fn missing(&self) -> String {
        missing(self.names(), "", &*self.shared.mailbox)
    }

    pub(crate) fn begin(&self, request: Request) -> Pending {
        let (caller, pending) = Caller::here();
        let shared = &*self.shared;
        let (to, note) = {
            let mut state = shared.state.lock();
            let now = clock();
            if state.waiting.is_empty() {
                // It had nothing to reply to.
                state.heard = state.heard.max(now);
            }
            state.last += 1;
            let number = state.last;
            let note = Note::Ask { run: shared.run, number, request }.write();
            state.waiting.insert(number, Waits { caller, note: note.clone(), asked: now });
            (state.at, note)
        };
        shared.mailbox.send(&shared.names[to], note);
        pending
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.wakes.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has reported that itself.
            let _ = thread.join();
        }
        let ended = || Reply::Failed("this process stops".to_owned());
        let waiting = std::mem::take(&mut self.shared.state.lock().waiting);
        waiting.into_values().for_each(|waits| waits.caller.answer(ended()));
    }
}

impl Shared {
    /// Repeats requests until the client ends.
    fn repeat(&self) {
        while !self.is_stopped.load(Ordering::Acquire) {
            let (to, notes) = {
                let mut state = self.state.lock();
                self.wakes.wait_for(&mut state, LOOK);
                self.due(&mut state, clock())
            };
            notes.into_iter().for_each(|note| self.mailbox.send(&self.names[to], note));
        }
    }

    /// The requests that are to be asked again, and of which member.
    fn due(&self, state: &mut State, now: Duration) -> (usize, Vec<Vec<u8>>) {
        state.waiting.retain(|_, waits| waits.caller.is_wanted(now));
        let is_silent = now > state.heard + PATIENCE;
        let is_gone = |at: usize| self.mailbox.trouble(&self.names[at]).is_some();
        let moves = !state.waiting.is_empty() && (is_silent || is_gone(state.at));
        if moves {
            let count = self.names.len();
            let mut others = (1..=count).map(|step| (state.at + step) % count);
            // If none can be reached, the next one is as good as any.
            let next = (state.at + 1) % count;
            state.at = others.find(|at| !is_gone(*at)).unwrap_or(next);
            state.heard = now;
        }
        let due = state.waiting.values_mut().filter(|waits| moves || now >= waits.asked + AGAIN);
        let notes = due.map(|waits| {
            waits.asked = now;
            waits.note.clone()
        });
        let notes = notes.collect();
        (state.at, notes)
    }
}
