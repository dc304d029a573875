//! Drives the batch engine on virtual machines.
//!
//! ```text
//!   client ─▶ front end ─▶ leader: sequencer, log ─▶ each site: scheduler ─▶ cores ─▶ client
//!             bundles      one machine and disk      plan, locks              │  ▲
//!             requests                                                        └──┘ pushes
//! ```
//!
//! All of `isomer-batch` is the real code: sequencer, planner, sites, locks, procedures. The driver
//! adds virtual time. A request passes through a front end, a link and the leader. A batch is
//! synced and sent to every site. The scheduler of each site, a single thread, plans one batch
//! after the other and requests its locks. Each task of a site occupies a core, and holds its locks
//! meanwhile.
//!
//! No messages are lost and no site crashes. Pushes are dropped as if checkpoints were free.
//!
//! A plan is computed once for all sites, and each site is charged for it. On request every site
//! has its own planner, and all plans must be equal.

use super::charge::{Charge, Scheduling};
use super::machine::Machine;
use super::serial::{Serial, add_answer};
use super::spec::Experiment;
use super::system::System;
use super::tally::{Tally, Timeline};
use super::workload::{Demand, procedures};
use crate::costs::{Costs, MESSAGE_BYTES};
use crate::machines::request_bytes;
use isomer_batch::{
    Batch, Checkpoint, ClientId, FusionTable, Input, MemoryOrder, MemoryRows, Message, Order,
    Output, Plan, Planner, Provision, Replacement, Request, Sequencer, Site, Task, Work,
};
use isomer_design::{Key, KeyRange, SiteId, TableId, Time};
use isomer_plan::generate::{LoadTrace, Random, random};
use isomer_sim::world::World;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// A front end forwards its requests when it has this number, or after this time.
const BUNDLE: usize = 20;
const BUNDLE_WAIT_NS: u64 = 500_000;
/// The number of batches whose pushes are kept.
const KEPT_BATCHES: u64 = 16;

/// See the [module documentation](self).
pub(super) struct Driver {
    pub(super) world: Rc<World>,
    experiment: Experiment,
    charge: Charge,
    leader: Machine,
    hosts: Vec<Host>,
    order: RefCell<Ordering>,
    planned: RefCell<Planned>,
    clients: RefCell<Clients>,
    pub(super) tally: RefCell<Tally>,
    pub(super) serial: RefCell<Serial>,
    pub(super) stopping: Cell<bool>,
    begun_ns: u64,
    cold: RefCell<Option<Cold>>,
}

/// A site on its machine.
struct Host {
    id: SiteId,
    machine: Machine,
    site: RefCell<Site>,
    rows: RefCell<MemoryRows>,
    /// Requests of its clients that have not been forwarded.
    bundle: RefCell<Vec<Request>>,
    /// Batches that have arrived, with their times of arrival.
    waiting: RefCell<VecDeque<(Arc<Batch>, u64)>>,
    scheduling: Cell<bool>,
    finished: Cell<u64>,
    /// Its own planner, if each site has one.
    planner: Option<RefCell<Planner>>,
}

/// The state of the leader.
struct Ordering {
    sequencer: Sequencer,
    /// The time for which the sequencer's timer is set.
    timer: Option<Time>,
    unsynced: Vec<Batch>,
    syncing: bool,
    log: MemoryOrder,
    place: u64,
    provisions: Vec<Provision>,
}

/// Batches that some sites have planned and others have not.
struct Planned {
    planner: Planner,
    plans: BTreeMap<u64, PlannedBatch>,
}

struct PlannedBatch {
    plan: Arc<Plan>,
    scheduling: Rc<Scheduling>,
    /// The number of sites that still need the plan.
    wanted: usize,
}

struct Clients {
    asked: Demand,
    random: Random,
    /// By client: the number of its requests, and the timeline of the last one.
    last: Vec<(u64, Timeline)>,
    under_way: usize,
    answers: u64,
}

/// Cold records that move to a new site.
struct Cold {
    table: TableId,
    /// The keys still to be moved.
    keys: std::ops::Range<u64>,
    to: SiteId,
    /// `Some` while a chunk is in progress. Inside is its batch, once known.
    under_way: Option<Option<u64>>,
}

impl Driver {
    /// Starts all machines and clients of a run.
    ///
    /// # Errors
    /// A message if the workload's options are invalid.
    pub(super) fn start(
        experiment: &Experiment,
        system: &System,
        costs: &Costs,
        load: &LoadTrace,
        seed: u64,
        each_plans: bool,
    ) -> Result<Rc<Driver>, String> {
        let world = World::new(seed, isomer_sim::world::Manners::orderly());
        let asked = Demand::new(experiment, load)?;
        let cluster = &experiment.cluster;
        let room = experiment.fusion.map(|share| (share * asked.records() as f64) as usize);
        let fusion = FusionTable::new(Replacement::Clock, room);
        let homes = asked.homes(experiment.placement);
        let planner = Planner::new(homes, system.route(), fusion);
        let limits = isomer_batch::Limits {
            requests_max: experiment.batch,
            wait_ns_max: (experiment.batch_wait_ms * 1e6) as u64,
        };
        let procedures = procedures();
        let host = |number| Host {
            id: SiteId(number),
            machine: Machine::new(&world, cluster),
            site: RefCell::new(Site::new(
                SiteId(number),
                procedures.clone(),
                Checkpoint::initial(&MemoryRows::new()),
            )),
            rows: RefCell::default(),
            bundle: RefCell::default(),
            waiting: RefCell::default(),
            scheduling: Cell::new(false),
            finished: Cell::new(0),
            planner: each_plans.then(|| RefCell::new(planner.clone())),
        };
        let count = usize::from(experiment.clients_per_site) * usize::from(asked.sites);
        let chunk = experiment.scale_out.as_ref().map_or(1, |scale_out| scale_out.chunk);
        let begun_ns = world.now().0;
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let from = begun_ns + ns(experiment.warm_up_s);
        let window = from..from + ns(experiment.seconds);
        let keys = asked.keys_per_site / 4;
        let driver = Rc::new(Driver {
            charge: Charge::new(costs, cluster, system.looks_ahead, chunk),
            leader: Machine::new(&world, cluster),
            hosts: (1..=cluster.sites).map(host).collect(),
            order: RefCell::new(Ordering {
                sequencer: Sequencer::new(limits),
                timer: None,
                unsynced: Vec::new(),
                syncing: false,
                log: MemoryOrder::new(),
                place: 0,
                provisions: Vec::new(),
            }),
            planned: RefCell::new(Planned { planner, plans: BTreeMap::new() }),
            clients: RefCell::new(Clients {
                asked,
                random: random(seed),
                last: vec![(0, Timeline::default()); count],
                under_way: 0,
                answers: 0,
            }),
            tally: RefCell::new(Tally::new(begun_ns, window, cluster.sites)),
            serial: RefCell::new(Serial::new(procedures.clone())),
            stopping: Cell::new(false),
            begun_ns,
            cold: RefCell::new(None),
            experiment: experiment.clone(),
            world,
        });
        for client in 0..count {
            // Spreads the first requests over 1 ms.
            let (driver, after) = (driver.clone(), driver.world.draw(0..1_000_000));
            driver.clone().world.after(after, move || driver.ask(client));
        }
        if let Some(scale_out) = &experiment.scale_out {
            let (driver, is_cold) = (driver.clone(), system.cold);
            let at_ns = ns(scale_out.at_s);
            driver.clone().world.after(at_ns, move || driver.add_site(keys, is_cold));
        }
        driver.clone().sample();
        Ok(driver)
    }

    fn host(&self, site: SiteId) -> &Host {
        &self.hosts[usize::from(site.0) - 1]
    }

    /// A client sends its next request.
    fn ask(self: &Rc<Driver>, client: usize) {
        if self.stopping.get() {
            return;
        }
        let now = self.world.now().0;
        let (request, front) = {
            let clients = &mut *self.clients.borrow_mut();
            let (sequence, timeline) = &mut clients.last[client];
            *sequence += 1;
            *timeline = Timeline { asked: now, ..Timeline::default() };
            clients.under_way += 1;
            let at_s = (now - self.begun_ns) as f64 / 1e9;
            let id = (ClientId(client as u64), *sequence);
            let request = clients.asked.next(id, at_s, &mut clients.random);
            (request, client % usize::from(clients.asked.sites))
        };
        let driver = self.clone();
        self.world.after(self.experiment.cluster.latency_us * 1000, move || {
            let there = driver.clone();
            let receive = driver.charge.costs.receive as u64;
            driver.hosts[front]
                .machine
                .cores
                .submit_ahead(receive, move || there.gather(front, request));
        });
    }

    /// A front end receives a request of a client.
    fn gather(self: &Rc<Driver>, front: usize, request: Request) {
        let mut bundle = self.hosts[front].bundle.borrow_mut();
        bundle.push(request);
        match bundle.len() {
            BUNDLE => {
                drop(bundle);
                self.hand_over(front);
            }
            1 => {
                let driver = self.clone();
                self.world.after(BUNDLE_WAIT_NS, move || driver.hand_over(front));
            }
            _ => {}
        }
    }

    /// A front end forwards its requests to the leader.
    fn hand_over(self: &Rc<Driver>, front: usize) {
        let bundle = self.hosts[front].bundle.take();
        if bundle.is_empty() {
            return;
        }
        let bytes: u64 = bundle.iter().map(bytes_of).sum();
        let (driver, costs) = (self.clone(), &self.charge.costs);
        let ns = (costs.receive + bundle.len() as f64 * costs.order) as u64;
        self.hosts[front].machine.cores.submit_ahead(costs.send as u64, move || {
            let there = driver.clone();
            driver.hosts[front].machine.send(bytes, move || {
                let leader = there.clone();
                there.leader.cores.submit_ahead(ns, move || leader.enter(bundle));
            });
        });
    }

    /// The leader receives requests.
    fn enter(self: &Rc<Driver>, bundle: Vec<Request>) {
        let now = self.world.now();
        for request in bundle {
            let full = self.order.borrow_mut().sequencer.submit(now, request);
            full.into_iter().for_each(|batch| self.append(batch));
        }
        self.set_timer();
    }

    /// Sets a timer for the time at which the open batch is closed even if it is not full.
    fn set_timer(self: &Rc<Driver>) {
        let mut order = self.order.borrow_mut();
        let due = order.sequencer.closes_at();
        if due == order.timer {
            return;
        }
        order.timer = due;
        let Some(due) = due else { return };
        let (driver, now) = (self.clone(), self.world.now());
        self.world.after(due.0.saturating_sub(now.0).max(1), move || {
            let closed = driver.order.borrow_mut().sequencer.tick(driver.world.now());
            closed.into_iter().for_each(|batch| driver.append(batch));
            driver.set_timer();
        });
    }

    fn append(self: &Rc<Driver>, mut batch: Batch) {
        let mut order = self.order.borrow_mut();
        batch.provisions.append(&mut order.provisions);
        order.unsynced.push(batch);
        if !order.syncing {
            drop(order);
            self.sync();
        }
    }

    /// Syncs the appended batches, then sends them to every site.
    fn sync(self: &Rc<Driver>) {
        let mut order = self.order.borrow_mut();
        order.syncing = true;
        let batches = std::mem::take(&mut order.unsynced);
        let driver = self.clone();
        self.world.after(self.experiment.cluster.sync_us * 1000 + 1, move || {
            let mut ready = Vec::new();
            let more = {
                let order = &mut *driver.order.borrow_mut();
                for batch in batches {
                    let Ok(()) = order.log.append(batch);
                }
                order.log.sync();
                while let Ok(Some(batch)) = order.log.read(order.place) {
                    ready.push((order.place, batch));
                    order.place += 1;
                }
                let Ok(()) = order.log.truncate(order.place);
                order.syncing = false;
                !order.unsynced.is_empty()
            };
            ready.into_iter().for_each(|(place, batch)| driver.send_to_all(place, &batch));
            if more {
                driver.sync();
            }
        });
    }

    fn send_to_all(self: &Rc<Driver>, place: u64, batch: &Arc<Batch>) {
        self.note_chunk(place, batch);
        let bytes = MESSAGE_BYTES + batch.requests.iter().map(|one| bytes_of(one)).sum::<u64>();
        for at in 0..self.hosts.len() {
            let (driver, batch) = (self.clone(), batch.clone());
            self.leader.cores.submit_ahead(self.charge.costs.send as u64, move || {
                let there = driver.clone();
                driver.leader.send(bytes, move || {
                    let receive = there.charge.costs.receive as u64;
                    let host = there.clone();
                    there.hosts[at].machine.cores.submit_ahead(receive, move || {
                        let now = host.world.now().0;
                        host.hosts[at].waiting.borrow_mut().push_back((batch, now));
                        host.schedule(at);
                    });
                });
            });
        }
    }

    /// The scheduler of a site continues with the next batch.
    fn schedule(self: &Rc<Driver>, at: usize) {
        let host = &self.hosts[at];
        if host.scheduling.get() {
            return;
        }
        let Some((batch, came_ns)) = host.waiting.borrow_mut().pop_front() else { return };
        host.scheduling.set(true);
        let (plan, scheduling) = self.plan(host, &batch);
        let ns = scheduling.ns(host.id, &self.charge.costs);
        let driver = self.clone();
        host.machine.cores.submit_ahead(ns, move || {
            let host = &driver.hosts[at];
            driver.note_scheduled(host.id, &plan, came_ns);
            let outputs = host.site.borrow_mut().take(driver.world.now(), Input::Plan(plan));
            driver.deal(at, outputs);
            host.scheduling.set(false);
            driver.schedule(at);
        });
    }

    /// Returns the plan of the next batch of a site.
    fn plan(&self, host: &Host, batch: &Batch) -> (Arc<Plan>, Rc<Scheduling>) {
        let place = host.site.borrow().next();
        let planned = &mut *self.planned.borrow_mut();
        if planned.planner.next() == place {
            let plan = Arc::new(planned.planner.plan(batch));
            self.serial.borrow_mut().run(&plan);
            self.tally.borrow_mut().planned(self.world.now().0, &plan);
            let scheduling = Rc::new(self.charge.scheduling(&plan, self.hosts.len()));
            let wanted = self.hosts.len();
            planned.plans.insert(place, PlannedBatch { plan, scheduling, wanted });
        }
        let found = planned.plans.get_mut(&place).expect("each site takes each batch once");
        if let Some(own) = &host.planner {
            let own = own.borrow_mut().plan(batch);
            assert!(own == *found.plan, "{} plans batch {place} otherwise than others", host.id);
        }
        found.wanted -= 1;
        let both = (found.plan.clone(), found.scheduling.clone());
        if found.wanted == 0 {
            planned.plans.remove(&place);
        }
        both
    }

    fn note_scheduled(&self, site: SiteId, plan: &Plan, came_ns: u64) {
        let now = self.world.now().0;
        let last = &mut self.clients.borrow_mut().last;
        for step in &plan.steps {
            if let Work::Call(request) = &step.work
                && step.executors[0] == site
            {
                let timeline = &mut last[request.client.0 as usize].1;
                (timeline.came, timeline.scheduled) = (came_ns, now);
            }
        }
    }

    /// Updates the timeline of a task's transaction, at the site that answers it.
    fn note(&self, host: &Host, task: Task, note: impl FnOnce(&mut Timeline)) {
        let site = host.site.borrow();
        let step = site.step_of(task);
        if let Work::Call(request) = &step.work
            && step.executors[0] == host.id
        {
            note(&mut self.clients.borrow_mut().last[request.client.0 as usize].1);
        }
    }

    /// Submits the ready tasks of a site to its cores.
    fn hand_out(self: &Rc<Driver>, at: usize) {
        let host = &self.hosts[at];
        let now = self.world.now().0;
        loop {
            let Some(task) = host.site.borrow_mut().next_task() else { return };
            let driver = self.clone();
            match task {
                Task::Begin(_) => {
                    self.note(host, task, |timeline| timeline.granted = now);
                    let runs = host.site.borrow().runs(task);
                    let mut ns = self.charge.begin_ns(host.site.borrow().step_of(task), host.id);
                    ns += if runs { self.run_ns(host, task) } else { 0 };
                    host.machine.cores.submit(ns, move || driver.begun(at, task, runs));
                }
                Task::Run(_) => {
                    self.note(host, task, |timeline| timeline.gathered = now);
                    let ns = self.charge.costs.resume as u64 + self.run_ns(host, task);
                    host.machine.cores.submit_ahead(ns, move || driver.work(at, task));
                }
            }
        }
    }

    fn run_ns(&self, host: &Host, task: Task) -> u64 {
        self.charge.run_ns(host.site.borrow().step_of(task), host.id)
    }

    /// A step has read and pushed. It runs at once if the missing pushes have arrived meanwhile.
    fn begun(self: &Rc<Driver>, at: usize, task: Task, has_run: bool) {
        let host = &self.hosts[at];
        let now = self.world.now().0;
        let runs = host.site.borrow().runs(task);
        if !has_run {
            self.note(host, task, |timeline| timeline.begun = now);
        }
        if runs && !has_run {
            self.note(host, task, |timeline| timeline.gathered = now);
            let (driver, ns) = (self.clone(), self.run_ns(host, task));
            return host.machine.cores.submit_ahead(ns, move || driver.work(at, task));
        }
        self.work(at, task);
    }

    fn work(self: &Rc<Driver>, at: usize, task: Task) {
        let host = &self.hosts[at];
        let now = self.world.now().0;
        self.note(host, task, |timeline| timeline.ran = now);
        let mut site = host.site.borrow_mut();
        let bytes = self.charge.push_bytes(site.step_of(task), host.id);
        let outputs = site.work(task, &mut *host.rows.borrow_mut());
        drop(site);
        for output in outputs {
            match output {
                Output::Send(to, message) => self.push(at, to, message, bytes),
                output => self.deal(at, vec![output]),
            }
        }
        self.hand_out(at);
    }

    fn push(self: &Rc<Driver>, at: usize, to: SiteId, message: Message, bytes: u64) {
        let (driver, from) = (self.clone(), self.hosts[at].id);
        self.hosts[at].machine.send(bytes, move || {
            let there = driver.clone();
            let receive = driver.charge.costs.receive as u64;
            driver.host(to).machine.cores.submit_ahead(receive, move || {
                there.receive(from, to, message);
            });
        });
    }

    fn receive(self: &Rc<Driver>, from: SiteId, to: SiteId, message: Message) {
        let now = self.world.now();
        let outputs = self.host(to).site.borrow_mut().take(now, Input::Message(from, message));
        self.deal(usize::from(to.0) - 1, outputs);
    }

    /// Carries out the outputs of a site, and submits its ready tasks.
    fn deal(self: &Rc<Driver>, at: usize, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                // Only messages about checkpoints, which are free here.
                Output::Send(to, message) => self.receive(self.hosts[at].id, to, message),
                Output::Answer(client, sequence, answer) => {
                    let output = answer.expect("nothing here aborts");
                    let driver = self.clone();
                    self.hosts[at].machine.send(MESSAGE_BYTES, move || {
                        driver.answered(client, sequence, &output);
                    });
                }
                Output::Resubmit(request) => panic!("the footprint of {request} was right"),
                Output::Finished(finished) => self.finished(at, finished.batch),
            }
        }
        self.hand_out(at);
    }

    fn answered(self: &Rc<Driver>, client: ClientId, sequence: u64, output: &[u8]) {
        let now = self.world.now().0;
        {
            let clients = &mut *self.clients.borrow_mut();
            let (last, timeline) = clients.last[client.0 as usize];
            assert_eq!(last, sequence, "{client} was told of another request");
            clients.under_way -= 1;
            clients.answers = add_answer(clients.answers, client, sequence, output);
            self.tally.borrow_mut().answered(now, timeline);
        }
        self.ask(client.0 as usize);
    }

    /// A site has finished a batch.
    fn finished(self: &Rc<Driver>, at: usize, batch: u64) {
        let host = &self.hosts[at];
        host.finished.set(batch + 1);
        if batch.is_multiple_of(KEPT_BATCHES) {
            let saved = Input::Saved(batch + 1);
            let outputs = host.site.borrow_mut().take(self.world.now(), saved);
            self.deal(at, outputs);
        }
        self.next_chunk();
    }

    /// Adds a site, and starts moving cold records to it if `is_cold`.
    fn add_site(self: &Rc<Driver>, keys: u64, is_cold: bool) {
        let to = SiteId(self.experiment.cluster.sites);
        self.order.borrow_mut().provisions.push(Provision::AddSite(to));
        if is_cold {
            let cold = Cold { table: TableId(1), keys: 0..keys, to, under_way: None };
            *self.cold.borrow_mut() = Some(cold);
            self.next_chunk();
        }
    }

    /// Records the batch that contains the chunk in progress.
    fn note_chunk(&self, place: u64, batch: &Batch) {
        let is_chunk = |one: &Provision| matches!(one, Provision::MoveRange { .. });
        if let Some(cold) = &mut *self.cold.borrow_mut()
            && batch.provisions.iter().any(is_chunk)
        {
            cold.under_way = Some(Some(place));
        }
    }

    /// Starts the next chunk once the last one has arrived.
    fn next_chunk(self: &Rc<Driver>) {
        let mut cold = self.cold.borrow_mut();
        let (Some(going), Some(scale_out)) = (cold.as_mut(), &self.experiment.scale_out) else {
            return;
        };
        let is_done = match going.under_way {
            None => true,
            Some(None) => false,
            Some(Some(batch)) => self.hosts.iter().all(|host| host.finished.get() > batch),
        };
        if !is_done {
            return;
        }
        if going.keys.is_empty() {
            self.tally.borrow_mut().cold_ended(self.world.now().0);
            *cold = None;
            return;
        }
        going.under_way = Some(None);
        let (start, end) =
            (going.keys.start, (going.keys.start + scale_out.chunk).min(going.keys.end));
        going.keys.start = end;
        let first = if start == 0 { Key::min() } else { Key::int(start as i64) };
        let range = KeyRange::new(first, Some(Key::int(end as i64)));
        let chunk = Provision::MoveRange { table: going.table, range, to: going.to };
        let driver = self.clone();
        let pause_ns = (scale_out.pause_ms * 1e6) as u64;
        self.world.after(pause_ns + 1, move || driver.order.borrow_mut().provisions.push(chunk));
    }

    /// Periodically records the core time used and the bytes sent.
    fn sample(self: Rc<Driver>) {
        let (used, sent) = self.spent();
        let now = self.world.now().0;
        let slice_ns = self.tally.borrow_mut().sampled(now, used, sent);
        let driver = self.clone();
        self.world.after(slice_ns, move || {
            if !driver.stopping.get() {
                driver.sample();
            }
        });
    }

    /// The core time used in nanoseconds and the bytes sent so far, over all sites.
    pub(super) fn spent(&self) -> (u64, u64) {
        let used = self.hosts.iter().map(|host| host.machine.cores.used_ns());
        (used.sum(), self.hosts.iter().map(|host| host.machine.sent.get()).sum())
    }

    /// True if no client waits for an answer and all sites have finished all batches.
    pub(super) fn is_quiet(&self) -> bool {
        let place = self.order.borrow().place;
        self.clients.borrow().under_way == 0
            && self.hosts.iter().all(|host| host.finished.get() == place)
    }

    /// Checks the answers to clients and the rows of the sites.
    ///
    /// # Errors
    /// A message that describes the difference.
    pub(super) fn judge(&self) -> Result<(), String> {
        let rows: Vec<_> = self.hosts.iter().map(|host| host.rows.borrow()).collect();
        let rows: Vec<&MemoryRows> = rows.iter().map(|rows| &**rows).collect();
        self.serial.borrow().judge(self.clients.borrow().answers, &rows)
    }

    /// The number of records away from home.
    pub(super) fn fused(&self) -> usize {
        self.planned.borrow().planner.fusion().len()
    }
}

fn bytes_of(request: &Request) -> u64 {
    request_bytes(request.footprint.items().len())
}
