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

use crate::command::{Records, Ticket};
use crate::disk::Disk;
use crate::group::{GroupState, Outcome};
use crate::journal::Mark;
use crate::member::{Member, MemberOptions};
use crate::roster::Standing;
use isomer_log::{FileLog, Log, Options};
use isomer_owned::Newest;
use isomer_owned::edge::{clock, pause};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
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

/// Sends envelopes to the other members.
pub trait Mailbox: Send + Sync {
    /// Sends an envelope, without waiting. It may be lost.
    fn send(&self, to: &str, envelope: Vec<u8>);

    /// Why a member cannot be reached; `None` if it can.
    fn trouble(&self, name: &str) -> Option<String>;
}

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

/// The answer to a request.
enum Reply {
    Outcome(Outcome),
    Bounds((u64, u64)),
    Records(Records, u64),
    Count(u32),
    Has(bool),
    Newest(Option<Newest>),
    States(Standing, Vec<GroupState>),
    Failed(String),
}

/// A request to the member.
enum Request {
    Append(u32, Vec<u8>),
    RemoveBefore(u32, u64),
    Ask(u32),
    Bounds(u32),
    Read(u32, u64, u64),
    Count,
    Has(u32),
    Newest(u32),
    States,
}

enum Input {
    Envelope(usize, Vec<u8>),
    Request(Request, Caller),
}

/// The caller of a request.
struct Caller {
    reply: Sender<Reply>,
    wanted: Weak<()>,
}

impl Caller {
    fn answer(&self, reply: Reply) {
        // It may not wait any more.
        let _ = self.reply.send(reply);
    }
}

#[derive(Default)]
struct Inbox {
    inputs: VecDeque<Input>,
    /// Why the member has ended.
    ended: Option<String>,
}

struct Shared {
    names: Vec<String>,
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
    mailbox: Arc<dyn Mailbox>,
    own: String,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The way of envelopes into a member. It does not keep the member running.
#[derive(Clone)]
pub struct Inlet(Arc<Shared>);

impl Inlet {
    /// Takes an envelope of another member. Envelopes of other processes are ignored.
    pub fn receive(&self, from: &str, envelope: Vec<u8>) {
        if let Some(from) = self.0.names.iter().position(|name| name == from) {
            self.0.put(Input::Envelope(from, envelope));
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
        match self.0.begin(Request::States).reply.recv_timeout(longest) {
            Ok(Reply::States(standing, states)) => Ok((standing, states)),
            Ok(Reply::Failed(why)) => Err(why),
            _ => Err("it does not answer".to_owned()),
        }
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
        let (reply, pending) = channel();
        let wanted = Arc::new(());
        self.put(Input::Request(request, Caller { reply, wanted: Arc::downgrade(&wanted) }));
        Pending { reply: pending, _wanted: wanted }
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

/// A pending append, or another request whose outcome comes later.
pub(crate) struct Pending {
    reply: Receiver<Reply>,
    /// The member repeats a request until it has an outcome, or this is dropped.
    _wanted: Arc<()>,
}

/// Why a request has no outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoOutcome {
    /// There is none yet.
    Late,
    /// The member has ended, for this reason.
    Ended(String),
}

impl Pending {
    pub(crate) fn wait(&self, longest: Duration) -> Result<Outcome, NoOutcome> {
        match self.reply.recv_timeout(longest) {
            Ok(Reply::Outcome(outcome)) => Ok(outcome),
            Ok(Reply::Failed(why)) => Err(NoOutcome::Ended(why)),
            Ok(_) => Err(NoOutcome::Ended("it has another answer".to_owned())),
            Err(RecvTimeoutError::Timeout) => Err(NoOutcome::Late),
            Err(RecvTimeoutError::Disconnected) => Err(NoOutcome::Ended("it stops".to_owned())),
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
            inbox: Mutex::new(Inbox::default()),
            engine: Mutex::new(Some(engine)),
            is_stopped,
            has_work: Mutex::new(false),
            wakes: Condvar::new(),
        });
        let (named, of) = (std::thread::Builder::new(), shared.clone());
        let thread = named.name("isomer-quorum".to_owned()).spawn(move || of.run());
        let thread = Mutex::new(Some(thread.map_err(|error| error.to_string())?));
        Ok(Arc::new(Quorum { shared, mailbox, own, thread }))
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
    /// Why it has ended.
    pub fn states(&self, longest: Duration) -> Result<(Standing, Vec<GroupState>), String> {
        match self.request(Request::States, longest)? {
            Reply::States(standing, states) => Ok((standing, states)),
            _ => Err(self.why_late()),
        }
    }

    /// Waits until this member takes part, and a majority answers. False if that takes longer than
    /// `longest`.
    ///
    /// # Errors
    /// Why this member may not take part.
    pub fn is_ready(&self, longest: Duration) -> Result<bool, String> {
        let until = clock() + longest;
        loop {
            let asked = self.shared.begin(Request::States).reply;
            match asked.recv_timeout(until.saturating_sub(clock())) {
                Ok(Reply::States(Standing::Refused(why), _) | Reply::Failed(why)) => {
                    return Err(why);
                }
                Ok(Reply::States(Standing::Member, _)) => break,
                // A disk that is busy is no reason to give up.
                _ if clock() >= until => return Ok(false),
                _ => pause(TICK),
            }
        }
        let asked = self.shared.begin(Request::Ask(0));
        match asked.wait(until.saturating_sub(clock())) {
            Ok(_) => Ok(true),
            Err(NoOutcome::Late) => Ok(false),
            Err(NoOutcome::Ended(why)) => Err(why),
        }
    }

    /// The members that cannot be reached, with reasons, to append to a message.
    pub fn missing(&self) -> String {
        missing(self.names(), &self.own, &*self.mailbox)
    }

    fn request(&self, request: Request, longest: Duration) -> Result<Reply, String> {
        match self.shared.begin(request).reply.recv_timeout(longest) {
            Ok(Reply::Failed(why)) => Err(why),
            Ok(reply) => Ok(reply),
            Err(RecvTimeoutError::Timeout) => Err(self.why_late()),
            Err(RecvTimeoutError::Disconnected) => Err("this process stops".to_owned()),
        }
    }

    /// Why a request has no answer yet.
    pub(crate) fn why_late(&self) -> String {
        match self.missing() {
            missing if missing.is_empty() => "no majority of the nodes has answered yet".to_owned(),
            missing => format!("no majority of the nodes answers: {missing}"),
        }
    }

    pub(crate) fn append(&self, group: u32, record: &[u8]) -> Pending {
        self.shared.begin(Request::Append(group, record.to_vec()))
    }

    pub(crate) fn remove_before(
        &self,
        group: u32,
        offset: u64,
        longest: Duration,
    ) -> Result<(), String> {
        self.request(Request::RemoveBefore(group, offset), longest).map(drop)
    }

    /// Waits until this member has all records that were acknowledged before.
    pub(crate) fn catch_up(&self, group: u32, longest: Duration) -> Result<(), String> {
        self.request(Request::Ask(group), longest).map(drop)
    }

    pub(crate) fn bounds(&self, group: u32, longest: Duration) -> Result<(u64, u64), String> {
        match self.request(Request::Bounds(group), longest)? {
            Reply::Bounds(bounds) => Ok(bounds),
            _ => Err(self.why_late()),
        }
    }

    pub(crate) fn read(
        &self,
        group: u32,
        from: u64,
        bytes_max: u64,
        longest: Duration,
    ) -> Result<(Records, u64), String> {
        match self.request(Request::Read(group, from, bytes_max), longest)? {
            Reply::Records(records, next) => Ok((records, next)),
            _ => Err(self.why_late()),
        }
    }

    pub(crate) fn has(&self, group: u32, longest: Duration) -> Result<bool, String> {
        match self.request(Request::Has(group), longest)? {
            Reply::Has(has) => Ok(has),
            _ => Err(self.why_late()),
        }
    }

    /// The newest record of a group that this member has received.
    pub(crate) fn newest(&self, group: u32, longest: Duration) -> Option<Newest> {
        match self.request(Request::Newest(group), longest) {
            Ok(Reply::Newest(newest)) => newest,
            _ => None,
        }
    }

    pub(crate) fn partitions(&self, longest: Duration) -> Result<u32, String> {
        match self.request(Request::Count, longest)? {
            Reply::Count(count) => Ok(count),
            _ => Err(self.why_late()),
        }
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

fn missing(names: &[String], own: &str, mailbox: &dyn Mailbox) -> String {
    let others = names.iter().filter(|name| *name != own);
    let missing = others.filter_map(|name| Some(format!("{name} ({})", mailbox.trouble(name)?)));
    missing.collect::<Vec<_>>().join(", ")
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
        self.forget_unwanted();
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
                let newest = self.newest.get(&group);
                Reply::Newest(newest.map(|(mark, since)| Newest {
                    offset: mark.index - 1,
                    age: clock().saturating_sub(*since),
                }))
            }
            Request::Has(group) if is_member => Reply::Has(self.member.has(group)),
            _ => Reply::Failed("this node does not take part yet".to_owned()),
        }
    }

    /// Forgets the requests of callers that do not wait any more. An append of such a caller must
    /// not take effect much later: it may be a claim.
    fn forget_unwanted(&mut self) {
        let unwanted = |_: &Ticket, waits: &mut Waits| waits.caller.wanted.strong_count() == 0;
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
