//! One site. It executes its part of each step of the plans, in the order that the locks require.
//!
//! ```text
//!   plan ──▶ request the locks of all steps ──▶ for each step with all its locks:
//!
//!              source      read the rows held here, remove moving ones, push all to the executors
//!              executor    wait for pushes of other sources, run, write rows placed here, reply
//!              both        release the locks, which may grant those of later steps
//! ```
//!
//! Work that can be done now is a [`Task`]. [`Site::step`] does all tasks at once. A caller that
//! schedules tasks on its own cores uses [`Site::take`], [`Site::next_task`] and [`Site::work`]
//! instead; a step holds its locks until its task is done.
//!
//! The site takes the next plan while steps of earlier ones still wait. There is no vote: all
//! executors reach the same outcome from the same rows, and each writes the records placed at it
//! after the step.
//!
//! # Progress
//!
//! A step waits only for locks of earlier steps at its site, and for pushes. A source pushes once
//! it has its locks, so it waits only for earlier steps, too. Hence the first unfinished step of
//! all sites waits only for messages.
//!
//! # Hashes
//!
//! The hash of a site's rows is a sum over its rows, so a step updates it from its writes alone.
//! The sum after a batch is exact even if later batches have begun, because each batch adds up its
//! own changes. The requested locks are hashed likewise. Copies of a site with the same order have
//! equal hashes after every batch.
//!
//! # Crash recovery
//!
//! Checkpoints are taken between batches: the embedding program withholds the next plan until the
//! site is idle, and saves the rows together with the [`Checkpoint`]. A restarted site runs all
//! later batches again with the same results, pushes and answers. Receivers recognize a repeated
//! push by its step, and a repeated answer by the number of its request.
//!
//! # What is left out
//!
//! Checkpoints of a busy site. Recovery of pushes from a site whose disk is lost: a copy of that
//! site could provide them, but no executor asks it.

use crate::locks::{Lock, Locks};
use crate::message::Message;
use crate::plan::{Leg, Plan, Repeat, Step, StepId, Work};
use crate::procedure::{self, Outcome, Procedures};
use crate::request::{Answer, ClientId, Request};
use crate::rows::{MemoryRows, RecordId, Row, Rows, Writes};
use foldhash::fast::FixedState;
use isomer_design::{Access, SiteId, SiteSet, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// The time after which an executor asks for missing pushes, in nanoseconds.
pub const ASK_AFTER_NS: u64 = 10_000_000;

/// An input of a site.
#[derive(Clone, Debug)]
pub enum Input {
    /// The plan of the next batch.
    Plan(Arc<Plan>),
    /// A message from another site.
    Message(SiteId, Message),
    /// Time has passed: the site asks for missing pushes, if [`Site::wake_at`] is due.
    Tick,
    /// The checkpoint taken before this batch is durable.
    Saved(u64),
}

/// An action that the embedding program must take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a message to another site.
    Send(SiteId, Message),
    /// Answer a client: its id, the sequence number of its request, and the answer.
    Answer(ClientId, u64, Answer),
    /// Submit this request to a sequencer: a restart with a larger footprint.
    Resubmit(Request),
    /// This batch and all earlier ones are done at this site.
    Finished(Finished),
}

/// Work on rows that is ready to run. The step holds its locks until the task is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// The step has obtained its locks: read and push the rows held here, and run the step if no
    /// push is missing.
    Begin(StepId),
    /// The last missing push has arrived: run the step.
    Run(StepId),
}

/// A batch that is done at a site, with hashes to compare copies of the site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The batch.
    pub batch: u64,
    /// The hash of the site's rows after the batch.
    pub rows: u64,
    /// The hash of all locks requested up to and including the batch.
    pub locks: u64,
    /// The hash of the planner's state after the batch.
    pub planner: u64,
}

/// The state machine of one site.
pub struct Site {
    id: SiteId,
    procedures: Procedures,
    locks: Locks,
    state: Checkpoint,
    running: BTreeMap<StepId, Running>,
    /// Unfinished batches in order.
    open: VecDeque<OpenBatch>,
    /// Pushes that arrived before the plan of their batch.
    early: BTreeMap<StepId, Vec<(SiteId, Pushed)>>,
    /// Tasks that are ready to run.
    tasks: VecDeque<Task>,
    asked_at: Time,
}

type Pushed = Arc<Vec<(RecordId, Row)>>;

/// The durable state of a site, except for its rows.
#[derive(Clone)]
pub struct Checkpoint {
    /// The next batch to begin.
    next: u64,
    answers: BTreeMap<ClientId, Answered>,
    /// Pushes that their executors may still ask for.
    sent: BTreeMap<(SiteId, StepId), Pushed>,
    /// All sites whose pushes this site has ever waited for. They are told when a checkpoint is
    /// durable.
    sources: SiteSet,
    rows: u64,
    locks: u64,
}

/// The latest output of this site about a request of one client.
#[derive(Clone)]
struct Answered {
    sequence: u64,
    attempt: u32,
    output: Output,
}

/// A step that this site has not finished.
struct Running {
    plan: Arc<Plan>,
    /// True once the step has its locks and this site has pushed its rows.
    has_begun: bool,
    /// Sources whose pushes have not arrived.
    awaited: SiteSet,
    gathered: MemoryRows,
}

struct OpenBatch {
    batch: u64,
    steps_left: usize,
    rows: u64,
    locks: u64,
    planner: u64,
}

impl Task {
    /// The step of the task.
    pub fn id(self) -> StepId {
        match self {
            Task::Begin(id) | Task::Run(id) => id,
        }
    }
}

impl Running {
    fn is_ready(&self) -> bool {
        self.has_begun && self.awaited.is_empty()
    }
}

impl Checkpoint {
    /// The checkpoint of a site that joins without rows and begins with batch `next`. The planner
    /// of the new site is a clone of another site's planner at that batch.
    pub fn joining(next: u64) -> Checkpoint {
        Checkpoint { next, ..Checkpoint::initial(&MemoryRows::new()) }
    }

    /// The checkpoint of a site before the first batch, with the given rows.
    pub fn initial(rows: &MemoryRows) -> Checkpoint {
        let hashes = rows.iter().map(|(record, row)| row_hash(record, row));
        Checkpoint {
            next: 0,
            answers: BTreeMap::new(),
            sent: BTreeMap::new(),
            sources: SiteSet::EMPTY,
            rows: hashes.fold(0, u64::wrapping_add),
            locks: 0,
        }
    }

    /// The first batch that is not in the checkpoint.
    pub fn next(&self) -> u64 {
        self.next
    }
}

impl Site {
    /// A site that continues from a checkpoint.
    pub fn new(id: SiteId, procedures: Procedures, from: Checkpoint) -> Site {
        Site {
            id,
            procedures,
            locks: Locks::new(),
            state: from,
            running: BTreeMap::new(),
            open: VecDeque::new(),
            early: BTreeMap::new(),
            tasks: VecDeque::new(),
            asked_at: Time::ZERO,
        }
    }

    /// The batch of the next plan to be taken.
    pub fn next(&self) -> u64 {
        self.state.next
    }

    /// The number of pushes kept for executors that may ask again. A removed site may be shut down
    /// when there are none.
    pub fn kept_pushes(&self) -> usize {
        self.state.sent.len()
    }

    /// The number of batches begun and not finished.
    pub fn open_batches(&self) -> usize {
        self.open.len()
    }

    /// Returns the state to be saved together with the rows; `None` while a batch is in progress.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.open.is_empty().then(|| self.state.clone())
    }

    /// The latest time for the next [`Input::Tick`]; `None` if no push is missing.
    pub fn wake_at(&self) -> Option<Time> {
        let waits = self.running.values().any(|running| !running.awaited.is_empty());
        waits.then_some(Time(self.asked_at.0 + ASK_AFTER_NS))
    }

    /// The lock manager of the site.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Takes an input and does all tasks that it makes possible. Returns the actions for the
    /// embedding program.
    ///
    /// # Panics
    /// If the plan of an earlier batch is missing.
    pub fn step(&mut self, now: Time, input: Input, rows: &mut dyn Rows) -> Vec<Output> {
        let mut outputs = self.take(now, input);
        while let Some(task) = self.next_task() {
            outputs.extend(self.work(task, rows));
        }
        outputs
    }

    /// The first half of [`Site::step`], for callers that schedule tasks themselves: takes an input
    /// and leaves the work on rows to [`Site::next_task`] and [`Site::work`].
    ///
    /// # Panics
    /// If the plan of an earlier batch is missing.
    pub fn take(&mut self, now: Time, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        match input {
            Input::Plan(plan) => self.begin(now, plan, &mut outputs),
            Input::Message(from, Message::Push { step, rows }) => self.receive(step, from, rows),
            Input::Message(from, Message::Ask { step }) => {
                outputs.extend(self.push_again(from, step));
            }
            Input::Message(from, Message::Done { below }) => self.forget(from, below),
            Input::Tick => self.ask(now, &mut outputs),
            Input::Saved(below) => self.say_done(below, &mut outputs),
        }
        self.finish_batches(&mut outputs);
        outputs
    }

    /// Returns the task that has been ready for longest. Ready tasks conflict with each other in no
    /// row, so they may be done in any order.
    pub fn next_task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// Does a task, which may make further tasks ready.
    pub fn work(&mut self, task: Task, rows: &mut dyn Rows) -> Vec<Output> {
        let mut turn = Turn { site: self, rows, outputs: Vec::new() };
        match task {
            Task::Begin(id) => turn.begin_step(id),
            Task::Run(id) => turn.run(id),
        }
        let mut outputs = turn.outputs;
        self.finish_batches(&mut outputs);
        outputs
    }

    /// The step of an unfinished task.
    ///
    /// # Panics
    /// If the task is done.
    pub fn step_of(&self, task: Task) -> &Step {
        let id = task.id();
        &self.running[&id].plan.steps[id.step as usize]
    }

    /// True if the task runs the code of its step here; otherwise it only pushes rows.
    pub fn runs(&self, task: Task) -> bool {
        match task {
            Task::Run(_) => true,
            Task::Begin(id) => {
                self.step_of(task).is_run_at(self.id) && self.running[&id].awaited.is_empty()
            }
        }
    }

    fn begin(&mut self, now: Time, plan: Arc<Plan>, outputs: &mut Vec<Output>) {
        assert!(plan.batch <= self.state.next, "the plan of batch {} came early", plan.batch);
        if plan.batch < self.state.next {
            return;
        }
        if self.running.is_empty() {
            self.asked_at = now;
        }
        let (batch, planner) = (plan.batch, plan.digest);
        let mut open = OpenBatch { batch, steps_left: 0, rows: 0, locks: 0, planner };
        self.state.next += 1;
        for at in 0..plan.steps.len() {
            let (id, step) = (plan.id(at), &plan.steps[at]);
            let locks = locks(step, self.id);
            let runs = step.is_run_at(self.id);
            if locks.is_empty() && !runs {
                continue;
            }
            open.steps_left += 1;
            open.locks = open.locks.wrapping_add(hash(&(id, hash_locks(&locks))));
            let awaited = if runs { step.sources().without(self.id) } else { SiteSet::EMPTY };
            awaited.iter().for_each(|source| self.state.sources.insert(source));
            let (plan, gathered) = (plan.clone(), MemoryRows::new());
            self.running.insert(id, Running { plan, has_begun: false, awaited, gathered });
            if self.locks.acquire(id, locks) {
                self.tasks.push_back(Task::Begin(id));
            }
            for (from, rows) in self.early.remove(&id).unwrap_or_default() {
                self.gather(id, from, &rows);
            }
        }
        self.open.push_back(open);
        outputs.extend(plan.repeats.iter().filter_map(|repeat| self.answer_again(repeat)));
    }

    fn answer_again(&self, repeat: &Repeat) -> Option<Output> {
        let answered = self.state.answers.get(&repeat.client)?;
        let is_it = repeat.site == self.id && answered.sequence == repeat.sequence;
        is_it.then(|| answered.output.clone())
    }

    fn receive(&mut self, id: StepId, from: SiteId, rows: Pushed) {
        if id.batch >= self.state.next {
            let early = self.early.entry(id).or_default();
            if early.iter().all(|(other, _)| *other != from) {
                early.push((from, rows));
            }
        } else if self.gather(id, from, &rows) && self.running[&id].is_ready() {
            self.tasks.push_back(Task::Run(id));
        }
    }

    fn push_again(&self, to: SiteId, step: StepId) -> Option<Output> {
        let rows = self.state.sent.get(&(to, step))?.clone();
        Some(Output::Send(to, Message::Push { step, rows }))
    }

    /// Asks for the missing pushes of the oldest waiting batch only, because later batches may wait
    /// for its locks.
    fn ask(&mut self, now: Time, outputs: &mut Vec<Output>) {
        if self.wake_at().is_none_or(|at| now < at) {
            return;
        }
        self.asked_at = now;
        let waiting = self.running.iter().filter(|(_, running)| !running.awaited.is_empty());
        let oldest = waiting.clone().next().map(|(id, _)| id.batch);
        for (&step, running) in waiting.take_while(|(id, _)| Some(id.batch) == oldest) {
            let ask = |source| Output::Send(source, Message::Ask { step });
            outputs.extend(running.awaited.iter().map(ask));
        }
    }

    fn say_done(&self, below: u64, outputs: &mut Vec<Output>) {
        let done = |source| Output::Send(source, Message::Done { below });
        outputs.extend(self.state.sources.iter().map(done));
    }

    /// Adds the rows of a push to its step. Returns false if the step does not wait for a push from
    /// `from`.
    fn gather(&mut self, id: StepId, from: SiteId, rows: &Pushed) -> bool {
        let Some(running) = self.running.get_mut(&id) else { return false };
        if !running.awaited.contains(from) {
            return false;
        }
        running.awaited = running.awaited.without(from);
        rows.iter().for_each(|(record, row)| running.gathered.put(record.clone(), row.clone()));
        true
    }

    /// The batch of an unfinished step.
    fn open_batch(&mut self, id: StepId) -> &mut OpenBatch {
        let first = self.open.front().expect("a step's batch is open").batch;
        &mut self.open[(id.batch - first) as usize]
    }

    fn finish_batches(&mut self, outputs: &mut Vec<Output>) {
        while let Some(open) = self.open.pop_front_if(|open| open.steps_left == 0) {
            self.state.rows = self.state.rows.wrapping_add(open.rows);
            self.state.locks = self.state.locks.wrapping_add(open.locks);
            let (rows, locks) = (self.state.rows, self.state.locks);
            let OpenBatch { batch, planner, .. } = open;
            outputs.push(Output::Finished(Finished { batch, rows, locks, planner }));
        }
    }

    fn forget(&mut self, executor: SiteId, below: u64) {
        self.state.sent.retain(|&(to, step), _| to != executor || step.batch >= below);
    }
}

/// A task in progress.
struct Turn<'a> {
    site: &'a mut Site,
    rows: &'a mut dyn Rows,
    outputs: Vec<Output>,
}

impl Turn<'_> {
    /// Called when a step has its locks: pushes the rows held here, then finishes or runs the step
    /// unless a push is missing.
    fn begin_step(&mut self, id: StepId) {
        self.push(id);
        let running = self.site.running.get_mut(&id).expect("a granted step runs");
        running.has_begun = true;
        if !running.plan.steps[id.step as usize].is_run_at(self.site.id) {
            self.finish(id, &Writes::new());
        } else if running.is_ready() {
            self.run(id);
        }
    }

    /// Reads the rows of a step that this site holds, pushes them to the executors, and removes
    /// those that move away.
    fn push(&mut self, id: StepId) {
        let site = &mut *self.site;
        let running = site.running.get_mut(&id).expect("a granted step runs");
        let step = &running.plan.steps[id.step as usize];
        if !step.legs.iter().any(|leg| leg.is_from(site.id)) {
            return;
        }
        let mut found = Vec::new();
        let mut leaving = Writes::new();
        for leg in step.legs.iter().filter(|leg| leg.is_from(site.id)) {
            match leg {
                Leg::Record { record, to, .. } => {
                    found.extend(self.rows.get(record).map(|row| (record.clone(), row)));
                    if *to != site.id {
                        leaving.insert(record.clone(), None);
                    }
                }
                Leg::Range { table, range, to, .. } => {
                    for (key, row) in self.rows.scan(*table, range) {
                        if to.is_some_and(|to| to != site.id) {
                            leaving.insert((*table, key.clone()), None);
                        }
                        found.push(((*table, key), row));
                    }
                }
            }
        }
        found.iter().for_each(|(record, row)| running.gathered.put(record.clone(), row.clone()));
        let rows = Arc::new(found);
        for &to in step.executors.iter().filter(|&&to| to != site.id) {
            site.state.sent.insert((to, id), rows.clone());
            self.outputs.push(Output::Send(to, Message::Push { step: id, rows: rows.clone() }));
        }
        self.write(id, &leaving);
    }

    /// Runs a step here. It must have its locks and all pushes.
    fn run(&mut self, id: StepId) {
        let running = &self.site.running[&id];
        let plan = running.plan.clone();
        let step = &plan.steps[id.step as usize];
        let mut changes = arrivals(step, self.site.id, &running.gathered);
        match &step.work {
            Work::Carry => {}
            Work::Refuse(request, abort) => self.say(step, request, Err(abort.clone())),
            Work::Call(request) => {
                match procedure::run(&self.site.procedures, request, &running.gathered, &*self.rows)
                {
                    Outcome::Committed { output, writes } => {
                        let here = Some(self.site.id);
                        let placed = writes.into_iter();
                        changes
                            .extend(placed.filter(|(record, _)| step.place_after(record) == here));
                        self.say(step, request, Ok(output));
                    }
                    Outcome::Aborted(abort) => self.say(step, request, Err(abort)),
                    Outcome::Restart(footprint) => {
                        self.note(step, request, Output::Resubmit(request.restarted(footprint)));
                    }
                }
            }
        }
        self.finish(id, &changes);
    }

    fn say(&mut self, step: &Step, request: &Request, answer: Answer) {
        self.note(step, request, Output::Answer(request.client, request.sequence, answer));
    }

    /// Emits an output about a request, if this site is the one that answers, and keeps it for
    /// repetitions.
    fn note(&mut self, step: &Step, request: &Request, output: Output) {
        if step.executors[0] != self.site.id {
            return;
        }
        let (client, sequence, attempt) = request.identity();
        let answers = &mut self.site.state.answers;
        let is_later = |known: &Answered| (known.sequence, known.attempt) > (sequence, attempt);
        if !answers.get(&client).is_some_and(is_later) {
            answers.insert(client, Answered { sequence, attempt, output: output.clone() });
        }
        self.outputs.push(output);
    }

    fn finish(&mut self, id: StepId, changes: &Writes) {
        self.write(id, changes);
        self.site.running.remove(&id);
        let granted = self.site.locks.release(id);
        self.site.tasks.extend(granted.into_iter().map(Task::Begin));
        self.site.open_batch(id).steps_left -= 1;
    }

    fn write(&mut self, id: StepId, changes: &Writes) {
        if changes.is_empty() {
            return;
        }
        let mut delta = 0u64;
        for (record, row) in changes {
            let before = self.rows.get(record).map_or(0, |row| row_hash(record, &row));
            let after = row.as_ref().map_or(0, |row| row_hash(record, row));
            delta = delta.wrapping_sub(before).wrapping_add(after);
        }
        let open = self.site.open_batch(id);
        open.rows = open.rows.wrapping_add(delta);
        self.rows.apply(changes);
    }
}

/// The locks that a step needs at a site.
fn locks(step: &Step, site: SiteId) -> Vec<Lock> {
    let here = step.legs.iter().filter(|leg| leg.is_locked_at(site));
    let lock = |leg: &Leg| {
        let (table, span) = leg.span();
        Lock { table, span, access: leg.access() }
    };
    here.map(lock).collect()
}

/// The rows that move to a site with a step. They move even if the step aborts.
fn arrivals(step: &Step, site: SiteId, gathered: &MemoryRows) -> Writes {
    let mut arrivals = Writes::new();
    for leg in step.legs.iter().filter(|leg| leg.is_to(site)) {
        match leg {
            Leg::Record { from, .. } if *from == site => {}
            Leg::Record { record, .. } => {
                let row = gathered.get(record).map(|row| (record.clone(), Some(row)));
                arrivals.extend(row);
            }
            Leg::Range { table, range, .. } => {
                let rows = gathered.scan(*table, range).into_iter();
                arrivals.extend(rows.map(|(key, row)| ((*table, key), Some(row))));
            }
        }
    }
    arrivals
}

fn row_hash(record: &RecordId, row: &Row) -> u64 {
    hash(&(record, row))
}

fn hash_locks(locks: &[Lock]) -> u64 {
    let hash_of = |lock: &Lock| {
        let is_write = lock.access == Access::Write;
        match &lock.span {
            Span::Key(key) => hash(&(lock.table, key, is_write)),
            Span::Range(range) => hash(&(lock.table, range, is_write)),
        }
    };
    locks.iter().map(hash_of).fold(0, u64::wrapping_add)
}

fn hash(value: &impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}
