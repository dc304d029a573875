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
//! A step of the world polls one ready task, or, if none is ready, moves the clock to the next entry
//! of the agenda. So time passes only when nobody can do anything, and a run is a function of its
//! seed. The code between the borders is the real one; the borders are these:
//!
//! | border | here | what it does |
//! | --- | --- | --- |
//! | tasks | [`tasks`] | polls futures; a procedure can stop half-way on a stack of its own |
//! | between sites | [`network`] | delays, reorders, doubles, loses |
//! | router to site | [`transport`] | delays, loses; an answer that is lost leaves the outcome unknown |
//! | disk | [`host`] | a sync takes time; a crash keeps what is durable and a torn piece more |
//! | checkpoints | [`host`] | every piece takes time; a crash keeps the one that counts |
//! | clock | [`agenda`] | virtual nanoseconds |
//! | nodes on Kafka | [`kafka`] | processes that own sites, lose them, and find that out late; records that are late and lost |
//! | sites that stay away | [`gone`] | are given up; what their logs hold beyond the end that others took is void |
//!
//! A border can be *held* ([`Gate`]), which is how scripts write down one interleaving, and it can
//! misbehave ([`crate::plant`]), which is how the checkers prove that they would notice.
//!
//! Left out: clocks that disagree between sites (their contract is one epoch for all), a router that
//! crashes (it keeps nothing that sites do not tell it).

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
    /// What a planted bug has hidden of lost feeds.
    hidden: RefCell<Hidden>,
    crashes: Cell<u64>,
    /// Sites that stay away.
    gone: Gone,
    /// Which sites share a process.
    domains: RefCell<Domains>,
    /// Nodes and their logs, if there are any.
    kafka: Kafka,
    /// Polls since time last moved.
    restless: Cell<u64>,
}

/// Tasks that wake each other for ever without letting time pass have found a fault.
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
            gone: Gone::default(),
            domains: RefCell::default(),
            kafka: Kafka::default(),
            restless: Cell::new(0),
        })
    }

    /// Says which sites share a process, before any of them is started.
    pub fn set_domains(&self, domains: Domains) {
        *self.domains.borrow_mut() = domains;
    }

    /// Which sites share a process, and are lost together.
    pub fn domains(&self) -> Domains {
        self.domains.borrow().clone()
    }

    /// Polls a ready task, or else lets time pass until the next entry of the agenda, but not beyond
    /// `until`. `false` if there is nothing to do before that, or if a task has panicked.
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

    /// Ends everything: tasks, sites, messages. Tasks hold the world they live in, so without this
    /// neither would ever go.
    pub fn end(&self) {
        self.kill_all();
        drop(self.agenda.take());
        drop(self.hosts.take());
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

    /// What a task said when it panicked, which ends the run.
    pub fn panicked(&self) -> Option<String> {
        self.panicked.borrow().clone()
    }

    /// The virtual clock, for sites that are not started by the world itself.
    pub fn time_source(&self) -> Arc<dyn TimeSource> {
        self.clock.clone()
    }

    /// Has something done after `ns` nanoseconds.
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

    /// Writes a line that is of no interest to a person.
    fn murmur(&self, line: Arguments<'_>) {
        self.trace.borrow_mut().write(self.now(), line, false);
    }

    /// A hash of every line of the trace so far: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace.borrow().hash()
    }

    /// How many lines of the trace are kept, the last ones.
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

    /// How the world behaves at its borders, from now on.
    pub fn set_manners(&self, manners: Manners) {
        *self.manners.borrow_mut() = manners;
    }

    fn manners(&self) -> Manners {
        *self.manners.borrow()
    }

    /// How many sites have crashed.
    pub fn crashes(&self) -> u64 {
        self.crashes.get()
    }

    /// Plants a bug at the borders, from now on. A disk is honest until the next start of its site.
    pub fn set_plant(&self, plant: Option<Plant>) {
        self.plant.set(plant);
        self.set_serves_always(plant == Some(Plant::StaleOwner));
    }

    pub(crate) fn plant(&self) -> Option<Plant> {
        self.plant.get()
    }

    /// True if a planted bug shows now: of a thousand occasions, so often.
    pub(crate) fn spoils(&self, plant: Plant, per_mille: u64) -> bool {
        self.plant.get() == Some(plant) && self.chance(per_mille)
    }

    pub(crate) fn rng(&self) -> std::cell::RefMut<'_, Xoshiro256PlusPlus> {
        self.rng.borrow_mut()
    }
}
