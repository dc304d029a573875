//! A world of sites on one thread: virtual time, one source of chance, one agenda.
//!
//! ```text
//!              ┌────────────── ready tasks, next one chosen by the seed ───────────────┐
//!              │  clients, operator, nemesis, each site's disk and tick                │
//!              └───────▲──────────────────────────────────────────────────┬────────────┘
//!                wake  │                                                  │ poll
//!   agenda  ───────────┴─ time 41 000: wake client 3                      ▼
//!   (the only future)     time 52 300: message s1 → s2              Router · Site · Log
//!                         time 60 000: tick of s2                         │
//!              ▲                                                          │
//!              └──────── sleep, send, request, sync: all become entries ──┘
//! ```
//!
//! A step of the world polls one ready task. If none is ready, it moves the clock to the next entry
//! of the agenda. So time passes only when no task can run, and a run is a function of its seed.
//! The code between the borders is the real one; the borders are these:
//!
//! | border | module | behaviour |
//! | --- | --- | --- |
//! | tasks | [`tasks`] | polls futures; a procedure can be paused on a stack of its own |
//! | between sites | [`network`] | delays, reorders, duplicates, loses |
//! | router to site | [`transport`] | delays, loses; after a lost answer the outcome is unknown |
//! | disk | [`host`] | a sync takes time; a crash keeps the durable frames and a random prefix of the others |
//! | checkpoints | [`host`] | every piece takes time; a crash keeps the published one |
//! | clock | [`agenda`] | virtual nanoseconds |
//! | nodes on Kafka | [`kafka`] | processes that own sites, lose them, and notice that late; records that are delayed and lost |
//! | sites that stay down | [`gone`] | are declared dead; frames after the end that their successors have cut are void |
//!
//! A border can be *held* ([`Gate`]), as scripts do to fix one interleaving. It can also misbehave
//! ([`crate::plant`]), which proves that the checkers notice.
//!
//! **Left out.** Clocks that differ between sites (their contract is one epoch for all), and a
//! router that crashes (it has no state but what the sites tell it).

pub(crate) mod agenda;
mod cut;
mod gate;
mod gone;
mod host;
mod kafka;
mod network;
mod tasks;
mod trace;
mod transport;

pub use gate::Gate;
pub use kafka::{LEASE_NS, NodeId};
pub use network::Manners;
pub use tasks::{Stack, TaskId};
pub use transport::SimTransport;

use crate::plant::Plant;
use crate::plant::network::Hidden;
use agenda::{Agenda, Clock, Event};
use gate::Gates;
use gone::Gone;
pub use gone::Void;
use host::Host;
use isomer_design::{Domains, SiteId, Time};
use isomer_site::TimeSource;
use kafka::Kafka;
use network::Outbox;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::rc::Rc;
use std::sync::Arc;
use tasks::Tasks;
use trace::Trace;

/// Called with a site that starts.
type OnStart = Rc<dyn Fn(SiteId)>;

/// See the [module documentation](self).
pub struct World {
    manners: RefCell<Manners>,
    plant: Cell<Option<Plant>>,
    clock: Arc<Clock>,
    rng: RefCell<Xoshiro256PlusPlus>,
    agenda: RefCell<Agenda>,
    tasks: Tasks,
    outbox: Arc<Outbox>,
    gates: Gates,
    hosts: RefCell<BTreeMap<SiteId, Host>>,
    trace: RefCell<Trace>,
    panicked: RefCell<Option<String>>,
    /// Lost feeds that a planted bug has hidden.
    hidden: RefCell<Hidden>,
    crashes: Cell<u64>,
    /// Called when a site starts, which then waits for the total order.
    on_start: RefCell<Option<OnStart>>,
    /// When each batch was first installed anywhere.
    first_installed: RefCell<BTreeMap<u64, Time>>,
    /// The sites whose processes have the clients of tasks.
    homes: RefCell<BTreeMap<TaskId, SiteId>>,
    /// Sites that stay down.
    gone: Gone,
    /// The sites of each process.
    domains: RefCell<Domains>,
    /// Nodes and their logs, if there are any.
    kafka: Kafka,
    /// Polls since the time last advanced.
    restless: Cell<u64>,
}

/// A limit that only tasks which wake each other for ever exceed.
const POLLS_AT_ONE_TIME_MAX: u64 = 100_000;

impl World {
    /// A world without sites.
    pub fn new(seed: u64, manners: Manners) -> Rc<World> {
        Rc::new(World {
            manners: RefCell::new(manners),
            plant: Cell::new(None),
            clock: Arc::new(Clock::default()),
            rng: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed)),
            agenda: RefCell::default(),
            tasks: Tasks::default(),
            outbox: Arc::default(),
            gates: Gates::default(),
            hosts: RefCell::default(),
            trace: RefCell::default(),
            panicked: RefCell::default(),
            hidden: RefCell::default(),
            crashes: Cell::new(0),
            on_start: RefCell::default(),
            first_installed: RefCell::default(),
            homes: RefCell::default(),
            gone: Gone::default(),
            domains: RefCell::default(),
            kafka: Kafka::default(),
            restless: Cell::new(0),
        })
    }

    /// Sets which sites share a process. To be called before any of them starts.
    pub fn set_domains(&self, domains: Domains) {
        *self.domains.borrow_mut() = domains;
    }

    /// The sites of each process, which fail together.
    pub fn domains(&self) -> Domains {
        self.domains.borrow().clone()
    }

    /// From now on, a site that starts holds its partitions until the total order lets it go on.
    pub(crate) fn set_on_start(&self, told: impl Fn(SiteId) + 'static) {
        *self.on_start.borrow_mut() = Some(Rc::new(told));
    }

    /// A task is a client of the process with this site.
    pub(crate) fn set_home(&self, task: TaskId, site: SiteId) {
        self.homes.borrow_mut().insert(task, site);
    }

    /// The times that batches had when they were first installed. A crash of everything may undo
    /// that, and then each is decided anew.
    pub(crate) fn first_installed(&self) -> BTreeMap<u64, Time> {
        self.first_installed.borrow().clone()
    }

    /// True if a site is in the process of the current task.
    fn is_home(&self, site: SiteId) -> bool {
        self.homes.borrow().get(&self.current()) == Some(&site)
    }

    /// The time that a sync takes: the least, and the bound.
    pub(crate) fn sync_ns(&self) -> (u64, u64) {
        self.manners.borrow().sync_ns
    }

    /// Polls a ready task, or else advances the time to the next entry of the agenda, but not
    /// beyond `until`. False if there is nothing to do before that, or a task has panicked.
    pub fn step(self: &Rc<World>, until: Time) -> bool {
        if self.panicked.borrow().is_some() {
            return false;
        }
        self.post_letters();
        if let Some(task) = self.next_ready() {
            self.restless.set(self.restless.get() + 1);
            if self.restless.get() > POLLS_AT_ONE_TIME_MAX {
                let what = self.what_is_done_by(task).unwrap_or_default();
                *self.panicked.borrow_mut() = Some(format!("no end of waking up: {what}"));
            }
            self.poll(task);
            return true;
        }
        self.restless.set(0);
        let next = self.agenda.borrow_mut().pop_until(until);
        let Some((time, event)) = next else {
            self.clock.advance(until);
            return false;
        };
        self.clock.advance(time);
        match event {
            Event::Wake(waker) => waker.wake(),
            Event::Resume(task) => self.resume(task),
            Event::Deliver(envelope) => self.deliver(*envelope),
            Event::Call(call) => drop(self.guarded(call)),
        }
        true
    }

    /// Ends all tasks, sites and messages. Tasks hold the world, so without this neither would ever
    /// be freed.
    pub fn end(&self) {
        self.kill_all();
        drop(self.agenda.take());
        drop(self.hosts.take());
        drop(self.on_start.take());
        self.end_nodes();
    }

    /// Lets `ns` nanoseconds pass, or fewer if `done` becomes true.
    pub fn run_for(self: &Rc<World>, ns: u64, mut done: impl FnMut() -> bool) {
        let until = Time(self.now().0 + ns);
        while !done() && self.step(until) {}
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The message of a task that panicked, which ends the run.
    pub fn panicked(&self) -> Option<String> {
        self.panicked.borrow().clone()
    }

    /// The virtual clock, for sites that the world does not start itself.
    pub fn time_source(&self) -> Arc<dyn TimeSource> {
        self.clock.clone()
    }

    /// Calls a function after `ns` nanoseconds.
    pub fn after(&self, ns: u64, call: impl FnOnce() + 'static) {
        let at = Time(self.now().0 + ns);
        self.agenda.borrow_mut().add(at, Event::Call(Box::new(call)));
    }

    /// A number from a range, by the seed.
    pub fn draw(&self, range: std::ops::Range<u64>) -> u64 {
        if range.end <= range.start + 1 {
            return range.start;
        }
        self.rng.borrow_mut().random_range(range)
    }

    /// True in `per_mille` of a thousand cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.draw(0..1000) < per_mille
    }

    /// Writes a line into the trace.
    pub fn note(&self, line: Arguments<'_>) {
        self.trace.borrow_mut().write(self.now(), line, true);
    }

    /// Writes a line that counts for the hash only.
    fn murmur(&self, line: Arguments<'_>) {
        self.trace.borrow_mut().write(self.now(), line, false);
    }

    /// A hash of every line of the trace so far: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace.borrow().hash()
    }

    /// Sets the number of last lines of the trace that are kept.
    pub fn keep_lines(&self, most: usize) {
        self.trace.borrow_mut().keep(most);
    }

    /// The last lines of the trace.
    pub fn last_lines(&self) -> Vec<String> {
        self.trace.borrow().last_lines()
    }

    /// The lines of the trace since the last call.
    pub fn take_lines(&self) -> Vec<String> {
        self.trace.borrow_mut().take_lines()
    }

    /// Sets the fault profile of the borders from now on.
    pub fn set_manners(&self, manners: Manners) {
        *self.manners.borrow_mut() = manners;
    }

    fn manners(&self) -> Manners {
        *self.manners.borrow()
    }

    /// The number of crashes of sites.
    pub fn crashes(&self) -> u64 {
        self.crashes.get()
    }

    /// Plants a bug at the borders from now on. Disks change at the next start of their site.
    pub fn set_plant(&self, plant: Option<Plant>) {
        self.plant.set(plant);
        self.set_plant_of_logs(plant);
    }

    pub(crate) fn plant(&self) -> Option<Plant> {
        self.plant.get()
    }

    /// True if a planted bug shows now, in `per_mille` of a thousand cases.
    pub(crate) fn spoils(&self, plant: Plant, per_mille: u64) -> bool {
        self.plant.get() == Some(plant) && self.chance(per_mille)
    }

    pub(crate) fn rng(&self) -> std::cell::RefMut<'_, Xoshiro256PlusPlus> {
        self.rng.borrow_mut()
    }
}
