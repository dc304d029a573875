//! One site: it does its part of each step of the plans, in their order as far as locks demand one.
//!
//! ```text
//!   plan ──▶ ask for the locks of all steps ──▶ as each step is granted:
//!
//!              source      read what it holds, remove what moves away, push all to the executors
//!              executor    wait for the other sources' pushes, run, write what is placed here, answer
//!              both        release the locks; whoever waited for these is next
//! ```
//!
//! What has its locks is a [`Task`]. [`Site::step`] does all there are at once; who has cores of its own takes the input
//! and hands the tasks to them ([`Site::take`], [`Site::next_task`], [`Site::work`]), and locks are held as long.
//!
//! The next plan is taken while steps of earlier ones wait. Nothing is voted on: from the same rows all
//! executors come to the same outcome, and each writes the records that are placed at it after the step.
//!
//! # Why it never stops
//!
//! A step waits for locks of earlier steps at its site, and for pushes of its sources, which wait for locks of
//! earlier steps there. So the first unfinished step of all sites waits for nothing but messages.
//!
//! # Hashes
//!
//! A site's rows have a hash that is a sum over rows, so a step changes it by what it writes, and the
//! sum after a batch is known although later batches have begun. The locks that were asked for are hashed alike.
//! Copies of a site that were given the same order agree on both after every batch.
//!
//! # A crash
//!
//! A checkpoint is taken between batches: no plan is handed over until the site is idle, then its rows and
//! [`Checkpoint`] are kept. A restarted site runs the batches from there on, with the same results, and the
//! same pushes and answers as before. Who gets one twice knows it by its step, or by its request's number.
//!
//! # What is left out
//!
//! Checkpoints while the site works; waiting for the pushes of a site whose disk is gone (a copy of it can
//! be asked as well as it, but nobody does yet).

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

/// How long an executor waits for pushes before it asks for them, in nanoseconds.
pub const ASK_AFTER_NS: u64 = 10_000_000;

/// What a site is given.
#[derive(Clone, Debug)]
pub enum Input {
    /// The next batch, worked out.
    Plan(Arc<Plan>),
    /// A message of another site.
    Message(SiteId, Message),
    /// Time has passed; pushes that did not come are asked for.
    Tick,
    /// The checkpoint that was taken before this batch is durable.
    Saved(u64),
}

/// What a site wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a message to another site.
    Send(SiteId, Message),
    /// Tell a client.
    Answer(ClientId, u64, Answer),
    /// Hand this request to a sequencer: its footprint was too small, and is larger now.
    Resubmit(Request),
    /// All steps of a batch, and of those before, are done here.
    Finished(Finished),
}

/// Work on rows that nothing stands in the way of: the step holds its locks until it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// The step has got its locks: read what is here, push it, and run it if nothing else is needed.
    Begin(StepId),
    /// The last of what other sites push has come: run it.
    Run(StepId),
}

/// A batch that is done at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The batch.
    pub batch: u64,
    /// A hash of the site's rows after it.
    pub rows: u64,
    /// A hash of the locks that were asked for up to it.
    pub locks: u64,
    /// A hash of the planner's state after it.
    pub planner: u64,
}

/// One site.
pub struct Site {
    id: SiteId,
    procedures: Procedures,
    locks: Locks,
    state: Checkpoint,
    running: BTreeMap<StepId, Running>,
    /// Batches that are not done, in order.
    open: VecDeque<OpenBatch>,
    /// Pushes that came before their plan.
    early: BTreeMap<StepId, Vec<(SiteId, Pushed)>>,
    /// What can be done now.
    tasks: VecDeque<Task>,
    asked_at: Time,
}

type Pushed = Arc<Vec<(RecordId, Row)>>;

/// What outlives a crash, beside the rows.
#[derive(Clone)]
pub struct Checkpoint {
    /// The next batch.
    next: u64,
    answers: BTreeMap<ClientId, Answered>,
    /// Pushes that their executors may still need.
    sent: BTreeMap<(SiteId, StepId), Pushed>,
    /// Who has ever pushed to it.
    sources: SiteSet,
    rows: u64,
    locks: u64,
}

/// The latest that a client was told here.
#[derive(Clone)]
struct Answered {
    sequence: u64,
    attempt: u32,
    output: Output,
}

/// A step in which this site has a part.
struct Running {
    plan: Arc<Plan>,
    /// It has its locks, and this site has pushed what it holds.
    has_begun: bool,
    /// Sources whose pushes have not come.
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
    /// The step that it is a part of.
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
    /// A site that comes later, without rows: it takes this batch first. Its planner is a clone of another's.
    pub fn joining(next: u64) -> Checkpoint {
        Checkpoint { next, ..Checkpoint::initial(&MemoryRows::new()) }
    }

    /// Before the first batch: no rows but these.
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

    /// The first batch that it does not have.
    pub fn next(&self) -> u64 {
        self.next
    }
}

impl Site {
    /// A site that goes on from a checkpoint.
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

    /// The batch whose plan it takes next.
    pub fn next(&self) -> u64 {
        self.state.next
    }

    /// How many pushes it keeps for sites that may ask again. A site that was removed can go when there are none.
    pub fn kept_pushes(&self) -> usize {
        self.state.sent.len()
    }

    /// How many batches it has begun and not done.
    pub fn open_batches(&self) -> usize {
        self.open.len()
    }

    /// What must be kept, with the rows as they are now; `None` while a batch is being worked on.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.open.is_empty().then(|| self.state.clone())
    }

    /// When to [`Input::Tick`], if nothing else comes.
    pub fn wake_at(&self) -> Option<Time> {
        let waits = self.running.values().any(|running| !running.awaited.is_empty());
        waits.then_some(Time(self.asked_at.0 + ASK_AFTER_NS))
    }

    /// The locks that steps hold and wait for here.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Takes an input, changes rows, and says what else is to be done.
    ///
    /// # Panics
    /// If a plan is handed over before those that come before it.
    pub fn step(&mut self, now: Time, input: Input, rows: &mut dyn Rows) -> Vec<Output> {
        let mut outputs = self.take(now, input);
        while let Some(task) = self.next_task() {
            outputs.extend(self.work(task, rows));
        }
        outputs
    }

    /// The first half of [`Site::step`], for who has cores to share out: takes an input, and leaves the work on
    /// rows to [`Site::next_task`] and [`Site::work`].
    ///
    /// # Panics
    /// If a plan is handed over before those that come before it.
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

    /// What can be worked on now, in the order in which it became possible. Tasks do not touch each other's rows, so
    /// they may be worked on in any order.
    pub fn next_task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// Does a task, which may make others possible.
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

    /// The step of a task that is not done yet.
    ///
    /// # Panics
    /// If it is done.
    pub fn step_of(&self, task: Task) -> &Step {
        let id = task.id();
        &self.running[&id].plan.steps[id.step as usize]
    }

    /// True if a task runs its step's code here: the others only push.
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

    /// Asks for what the oldest batch waits for: later ones may have to wait for it anyway.
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

    /// Adds what a source has pushed; false if that is not awaited.
    fn gather(&mut self, id: StepId, from: SiteId, rows: &Pushed) -> bool {
        let Some(running) = self.running.get_mut(&id) else { return false };
        if !running.awaited.contains(from) {
            return false;
        }
        running.awaited = running.awaited.without(from);
        rows.iter().for_each(|(record, row)| running.gathered.put(record.clone(), row.clone()));
        true
    }

    /// The batch of a step that is not done.
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

/// One task being worked on.
struct Turn<'a> {
    site: &'a mut Site,
    rows: &'a mut dyn Rows,
    outputs: Vec<Output>,
}

impl Turn<'_> {
    /// A step has its locks: this site pushes what it holds, and does the rest if nothing is missing.
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

    /// Reads what this site holds of a step, removes what moves away, and pushes it to the executors.
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

    /// Runs a step here, which has its locks and all rows.
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

    /// Gives an output about a request, if this site answers it, and keeps it for who asks again.
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

/// The rows that a step brings to a site, whether it commits or not.
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
