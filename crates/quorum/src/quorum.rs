//! A member, driven by the threads that use it: the edge of this crate.
//!
//! ```text
//!   any thread ── request, envelope ─▶ inbox ─▶ is the member free? ─ no ─▶ its driver takes the input
//!                                                 │ yes: this thread drives
//!                                                 ▼
//!                             inputs ─▶ step ─▶ envelopes ─▶ Mailbox, outcomes ─▶ callers
//!                               ▲         └─▶ sync the journal ─┐
//!                               └───────────────────────────────┘ until nothing is left
//! ```
//!
//! **No thread is woken to drive the member**: a commit would wait for that at the leader and at
//! the followers, longer than for the disk. The thread with an input drives, if no other thread
//! does. All inputs that come in the meantime are its work as well, so one sync serves all of them.
//! After [`ROUNDS_MAX`] rounds it leaves the rest to the member's own thread, which drives once a
//! tick.

use crate::command::Ticket;
use crate::disk::Disk;
use crate::group::GroupState;
use crate::journal::Mark;
use crate::member::{Member, MemberOptions};
use crate::requests::{Caller, Mailbox, NoOutcome, Note, Pending, Reply, Request, missing};
use crate::roster::Standing;
use isomer_log::{FileLog, Log, Options};
use isomer_owned::edge::clock;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The length of a tick.
const TICK: Duration = Duration::from_millis(50);
/// A member that stood still goes on with this many ticks at most: the time before is not made up.
const TICKS_AT_ONCE: u32 = 2;
/// Bytes of a segment of the journal.
const SEGMENT_BYTES: u64 = 16 << 20;
/// The most rounds of steps that a thread makes for others.
const ROUNDS_MAX: usize = 16;
/// An append that waits for this long is reported.
const LONG: Duration = Duration::from_secs(2);

/// The configuration of a member.
pub struct QuorumOptions {
    /// The names of all members, this process's included.
    pub names: Vec<String>,
    /// The name of this process.
    pub own: String,
    /// A number that no other run of the process has.
    pub run: u64,
    /// A random number, for a new folder.
    pub drawn: u128,
    /// The state machine's options.
    pub member: MemberOptions,
    /// Tells an operator that commits wait, or go on.
    pub say: Box<dyn Fn(&str) + Send>,
}

enum Input {
    Envelope(usize, Vec<u8>),
    Request(Request, Caller),
}

#[derive(Default)]
struct Inbox {
    inputs: VecDeque<Input>,
    /// Why the member has ended.
    ended: Option<String>,
}

struct Shared {
    names: Vec<String>,
    mailbox: Arc<dyn Mailbox>,
    inbox: Mutex<Inbox>,
    /// `None` once the member has ended. The thread that has locked it drives.
    engine: Mutex<Option<Engine>>,
    is_stopped: Arc<AtomicBool>,
    /// The member's own thread has work before the next tick.
    has_work: Mutex<bool>,
    wakes: Condvar,
}

/// A member of the group. See the [module documentation](self).
pub struct Quorum {
    shared: Arc<Shared>,
    own: String,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The way of envelopes into a member. It does not keep the member running.
#[derive(Clone)]
pub struct Inlet(Arc<Shared>);

impl Inlet {
    /// Takes an envelope of another member, or of a [client](crate::Client).
    pub fn receive(&self, from: &str, envelope: Vec<u8>) {
        if let Some(from) = self.0.names.iter().position(|name| name == from) {
            self.0.put(Input::Envelope(from, envelope));
        } else if let Some(Note::Ask { run, number, request }) = Note::read(&envelope) {
            let (name, mailbox, asked) = (from.to_owned(), self.0.mailbox.clone(), clock());
            let caller = Caller::Elsewhere { name, run, number, mailbox, asked };
            self.0.put(Input::Request(request, caller));
        }
    }

    /// The names of all members, in their order.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Whether the member takes part, and the state of its groups.
    ///
    /// # Errors
    /// Why it has ended, or does not answer.
    pub fn states(&self, longest: Duration) -> Result<(Standing, Vec<GroupState>), String> {
        self.0.states(longest)
    }
}

impl Shared {
    /// Adds an input, and drives the member, unless another thread does.
    fn put(&self, input: Input) {
        {
            let mut inbox = self.inbox.lock();
            if let Some(why) = &inbox.ended {
                if let Input::Request(_, caller) = input {
                    caller.answer(Reply::Failed(why.clone()));
                }
                return;
            }
            inbox.inputs.push_back(input);
        }
        self.drive();
    }

    fn begin(&self, request: Request) -> Pending {
        let (caller, pending) = Caller::here();
        self.put(Input::Request(request, caller));
        pending
    }

    fn states(&self, longest: Duration) -> Result<(Standing, Vec<GroupState>), String> {
        match self.begin(Request::States).reply(longest) {
            Ok(Reply::States(standing, states)) => Ok((standing, states)),
            Err(NoOutcome::Ended(why)) => Err(why),
            _ => Err("it does not answer".to_owned()),
        }
    }

    /// Drives the member until nothing is left to do, unless another thread drives it.
    fn drive(&self) {
        loop {
            let Some(mut engine) = self.engine.try_lock() else { return };
            let Some(driven) = engine.as_mut() else { return };
            // Raft's library asserts its invariants. A member that breaks one is as good as gone.
            let worked = catch_unwind(AssertUnwindSafe(|| driven.work(&self.inbox)));
            let why = match worked {
                Ok(Ok(true)) => {
                    drop(engine);
                    *self.has_work.lock() = true;
                    self.wakes.notify_one();
                    return;
                }
                Ok(Ok(false)) => None,
                Ok(Err(why)) => Some(format!("this node's copies of the logs have failed: {why}")),
                Err(_) => Some(
                    "this node's copies of the logs have failed; standard error says why"
                        .to_owned(),
                ),
            };
            if let Some(why) = why {
                let ended = engine.take();
                drop(engine);
                self.end(ended, &why);
                return;
            }
            drop(engine);
            // A thread that found this one driving has left its input.
            if self.inbox.lock().inputs.is_empty() {
                return;
            }
        }
    }

    fn end(&self, engine: Option<Engine>, why: &str) {
        let inputs = {
            let mut inbox = self.inbox.lock();
            inbox.ended = Some(why.to_owned());
            std::mem::take(&mut inbox.inputs)
        };
        for input in inputs {
            if let Input::Request(_, caller) = input {
                caller.answer(Reply::Failed(why.to_owned()));
            }
        }
        for (_, waits) in engine.into_iter().flat_map(|engine| engine.waiting) {
            waits.caller.answer(Reply::Failed(why.to_owned()));
        }
    }

    /// The member's own thread: drives it once a tick.
    fn run(&self) {
        while !self.is_stopped.load(Ordering::Acquire) {
            self.drive();
            let mut has_work = self.has_work.lock();
            if !*has_work {
                self.wakes.wait_for(&mut has_work, TICK);
            }
            *has_work = false;
        }
    }
}

impl Quorum {
    /// Starts the member whose journal is in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// A message, if the journal cannot be used.
    #[allow(clippy::disallowed_methods, reason = "the edge: a member has a thread")]
    pub fn start(
        folder: &Path,
        options: QuorumOptions,
        mailbox: Arc<dyn Mailbox>,
    ) -> Result<Arc<Quorum>, String> {
        let QuorumOptions { mut names, own, run, drawn, member, say } = options;
        names.sort_unstable();
        let place = names.iter().position(|name| *name == own).ok_or("it is not in its list")?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let file = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
        let (log, _) = FileLog::open(folder, file)
            .map_err(|error| format!("the copies of the logs at {}: {error}", folder.display()))?;
        let disk = Arc::new(Disk { log, is_stopped: is_stopped.clone() });
        let member = Member::open(names.clone(), place, (run, drawn), disk.clone(), member)
            .map_err(|error| format!("the copies of the logs at {}: {error}", folder.display()))?;
        let engine = Engine {
            names: names.clone(),
            mailbox: mailbox.clone(),
            member,
            journal: disk,
            waiting: BTreeMap::new(),
            own: place,
            say,
            has_said: false,
            newest: BTreeMap::new(),
            next_tick: clock() + TICK,
        };
        let shared = Arc::new(Shared {
            names,
            mailbox,
            inbox: Mutex::new(Inbox::default()),
            engine: Mutex::new(Some(engine)),
            is_stopped,
            has_work: Mutex::new(false),
            wakes: Condvar::new(),
        });
        let (named, of) = (std::thread::Builder::new(), shared.clone());
        let thread = named.name("isomer-quorum".to_owned()).spawn(move || of.run());
        let thread = Mutex::new(Some(thread.map_err(|error| error.to_string())?));
        Ok(Arc::new(Quorum { shared, own, thread }))
    }

    /// The way of envelopes into this member.
    pub fn inlet(&self) -> Inlet {
        Inlet(self.shared.clone())
    }

    /// The names of all members, in their order.
    pub fn names(&self) -> &[String] {
        &self.shared.names
    }

    /// Whether this member takes part, and the state of its groups.
    ///
    /// # Errors
    /// Why it has ended, or does not answer.
    pub fn states(&self, longest: Duration) -> Result<(Standing, Vec<GroupState>), String> {
        self.shared.states(longest)
    }

    /// The members that cannot be reached, with reasons, to append to a message.
    pub fn missing(&self) -> String {
        missing(self.names(), &self.own, &*self.shared.mailbox)
    }

    pub(crate) fn begin(&self, request: Request) -> Pending {
        self.shared.begin(request)
    }
}

impl Drop for Quorum {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        *self.shared.has_work.lock() = true;
        self.shared.wakes.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has reported that itself.
            let _ = thread.join();
        }
        // Waits for another thread that drives it.
        let engine = self.shared.engine.lock().take();
        self.shared.end(engine, "this process stops");
    }
}

/// A member with all that its driver needs.
struct Engine {
    names: Vec<String>,
    mailbox: Arc<dyn Mailbox>,
    member: Member,
    journal: Arc<Disk>,
    /// The callers of requests without an outcome.
    waiting: BTreeMap<Ticket, Waits>,
    own: usize,
    say: Box<dyn Fn(&str) + Send>,
    /// An operator knows that commits wait.
    has_said: bool,
    /// The newest record of each group, and when it was here for the first time, or later.
    newest: BTreeMap<u32, (Mark, Duration)>,
    next_tick: Duration,
}

struct Waits {
    caller: Caller,
    group: u32,
    is_append: bool,
    since: Duration,
}

impl Engine {
    /// Carries out all inputs, and what follows from them. Returns true if more is to be done, by
    /// another thread.
    fn work(&mut self, inbox: &Mutex<Inbox>) -> Result<bool, String> {
        for _ in 0..ROUNDS_MAX {
            let (inputs, now) = (std::mem::take(&mut inbox.lock().inputs), clock());
            self.tick(now);
            for input in inputs {
                self.take(input, now);
            }
            if self.step()? {
                // The next round does what the journal has made possible.
                self.journal.sync().map_err(|error| error.to_string())?;
            } else if inbox.lock().inputs.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tick(&mut self, now: Duration) {
        let Some(late) = now.checked_sub(self.next_tick) else { return };
        let passed = u32::try_from(late.as_nanos() / TICK.as_nanos()).unwrap_or(u32::MAX);
        (0..=passed.min(TICKS_AT_ONCE - 1)).for_each(|_| self.member.tick());
        self.next_tick = now + TICK;
        self.forget_unwanted(now);
        self.report(now);
    }

    fn take(&mut self, input: Input, now: Duration) {
        let (request, caller) = match input {
            Input::Envelope(from, envelope) => {
                self.member.receive(from, &envelope);
                return;
            }
            Input::Request(request, caller) => (request, caller),
        };
        let mut waiting = self.waiting.values_mut();
        if waiting.any(|waits| waits.caller.is_repeated_by(&caller)) {
            return;
        }
        let is_member = self.member.standing() == Standing::Member;
        let is_append = matches!(request, Request::Append(..));
        let (group, ticket) = match request {
            Request::Append(group, record) if is_member => {
                (group, self.member.append(group, &record))
            }
            Request::RemoveBefore(group, offset) if is_member => {
                (group, self.member.remove_before(group, offset))
            }
            Request::Ask(group) if is_member => (group, self.member.ask(group)),
            now => return caller.answer(self.answer(now, is_member)),
        };
        self.waiting.insert(ticket, Waits { caller, group, is_append, since: now });
    }

    /// The answer to a request that need not wait.
    fn answer(&mut self, request: Request, is_member: bool) -> Reply {
        match request {
            Request::States => Reply::States(self.member.standing(), self.member.states()),
            Request::Bounds(group) if is_member => Reply::Bounds(self.member.bounds(group)),
            Request::Read(group, from, bytes_max) if is_member => {
                match self.member.read(group, from, bytes_max) {
                    Ok((records, next)) => Reply::Records(records, next),
                    Err(error) => Reply::Failed(error.to_string()),
                }
            }
            Request::Count if is_member => Reply::Count(self.member.partitions()),
            Request::Newest(group) if is_member => {
                let age = |since: Duration| clock().saturating_sub(since);
                let newest = self.newest.get(&group);
                Reply::Newest(newest.map(|(mark, since)| (mark.index - 1, age(*since))))
            }
            Request::Has(group) if is_member => Reply::Has(self.member.has(group)),
            _ => Reply::Failed("this node does not take part yet".to_owned()),
        }
    }

    /// Forgets the requests of callers that do not wait any more. An append of such a caller must
    /// not take effect much later: it may be a claim.
    fn forget_unwanted(&mut self, now: Duration) {
        let unwanted = |_: &Ticket, waits: &mut Waits| !waits.caller.is_wanted(now);
        for (ticket, waits) in self.waiting.extract_if(.., unwanted) {
            self.member.forget(waits.group, ticket);
        }
    }

    /// Does the member's work. True if the journal must be synced.
    fn step(&mut self) -> Result<bool, String> {
        let output = self.member.step().map_err(|error| error.to_string())?;
        self.note_newest();
        for (to, envelope) in output.envelopes {
            self.mailbox.send(&self.names[to], envelope);
        }
        for (ticket, outcome) in output.done {
            if let Some(waits) = self.waiting.remove(&ticket) {
                waits.caller.answer(Reply::Outcome(outcome));
            }
        }
        Ok(output.wants_sync)
    }

    /// Notes when records were received. After they were, so that no age is too high.
    fn note_newest(&mut self) {
        let Engine { member, newest, .. } = self;
        for (group, mark) in member.newest_records() {
            match (mark, newest.get(&group)) {
                (Some(mark), Some((known, _))) if *known == mark => {}
                (Some(mark), _) => drop(newest.insert(group, (mark, clock()))),
                (None, _) => drop(newest.remove(&group)),
            }
        }
    }

    /// Tells an operator that commits wait for a majority, and that they go on.
    fn report(&mut self, now: Duration) {
        let appends = self.waiting.values().filter(|waits| waits.is_append);
        let longest = appends.map(|waits| now.saturating_sub(waits.since)).max();
        let is_long = longest.is_some_and(|longest| longest >= LONG);
        if is_long && !self.has_said {
            let names = &self.names;
            let (majority, all) = (names.len() / 2 + 1, names.len());
            let missing = missing(names, &names[self.own], &*self.mailbox);
            let missing =
                if missing.is_empty() { "all can be reached".to_owned() } else { missing };
            (self.say)(&format!(
                "commits wait: the logs need {majority} of {all} nodes; not reached: {missing}"
            ));
            self.has_said = true;
        }
        if longest.is_none() && self.has_said {
            (self.say)("commits go on: a majority of the nodes keeps the logs");
            self.has_said = false;
        }
    }
}
