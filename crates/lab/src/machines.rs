//! Virtual machines: each has a site, cores, a disk and a link.
//!
//! ```text
//!   site s1                                   site s2
//!   commit ─▶ log ─▶ sync ─▶ feed             receive ─▶ refresh
//!                      │       │ send: a core    ▲ a core: the message, its events and rows
//!                   disk:      ▼                 │
//!                   sync_us  link ── bytes/bandwidth, messages in sequence ── latency
//! ```
//!
//! During setup no time is charged ([`Machines::set_charging`]), because setup is not measured.

use crate::cores::{Core, Cores, Rank};
use crate::costs::{Costs, MESSAGE_BYTES};
use isomer_design::{Footprint, Key, SiteId, TableId};
use isomer_log::{Durability, Log, MemoryLog, MemoryOptions};
use isomer_sim::world::World;
use isomer_site::{Message, Network, Site, SiteOptions};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The bytes of its log that a site keeps, enough for replicas that subscribe late.
const LOG_BYTES_KEPT: u64 = 4 << 20;

/// The hardware of the machines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// The number of sites.
    pub sites: u16,
    /// The number of cores per site.
    pub cores: u16,
    /// The factor by which a core is slower than that of the machine on which the costs were
    /// measured.
    pub slowdown: f64,
    /// The latency between two machines, in microseconds.
    pub latency_us: u64,
    /// The bandwidth with which a machine sends, in megabits per second.
    pub bandwidth_mbit: u64,
    /// The duration of a log sync, in microseconds.
    pub sync_us: u64,
    /// The limit for rows and indexes at a site, in megabytes; unlimited if missing.
    pub memory_mb: Option<f64>,
    /// The interval between ticks of a site (heartbeats, garbage collection), in microseconds.
    pub tick_us: u64,
}

/// All machines of a cluster. See the [module documentation](self).
pub(crate) struct Machines {
    pub(crate) world: Rc<World>,
    pub(crate) hardware: Hardware,
    pub(crate) costs: Costs,
    sites: BTreeMap<SiteId, Host>,
    outbox: Arc<Outbox>,
    charging: Cell<bool>,
    /// Nanoseconds that routers have spent on decisions so far.
    decided_ns: Cell<u64>,
    /// The executor of each partition, by its table and first key: its site and number. Empty
    /// unless executors are serial.
    executors: RefCell<BTreeMap<(TableId, Key), (SiteId, usize)>>,
}

/// Cores and a link.
pub(crate) struct Machine {
    pub(crate) cores: Rc<Cores>,
    /// The serial executors, one for each core.
    executors: Vec<Rc<Cores>>,
    /// The time at which all earlier messages have been sent.
    wire_free_at: Cell<u64>,
}

/// A site on its machine.
pub(crate) struct Host {
    pub(crate) site: Arc<Site>,
    pub(crate) machine: Machine,
}

/// Messages that sites have sent since the last delivery.
#[derive(Default)]
struct Outbox {
    messages: Mutex<Vec<(SiteId, SiteId, Message)>>,
    waker: Mutex<Option<Waker>>,
}

impl Network for Outbox {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.messages.lock().push((from, to, message));
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }
}

impl Machine {
    fn new(world: &Rc<World>, cores: u16) -> Machine {
        let executors = (0..cores).map(|_| Cores::new(world.clone(), 1)).collect();
        Machine { cores: Cores::new(world.clone(), cores), executors, wire_free_at: Cell::new(0) }
    }
}

impl Machines {
    /// Starts a site on each machine.
    pub(crate) fn start(world: Rc<World>, hardware: Hardware, costs: &Costs) -> Rc<Machines> {
        let outbox = Arc::<Outbox>::default();
        let host = |number| {
            let id = SiteId(number);
            let machine = Machine::new(&world, hardware.cores);
            (id, Host { site: open(&world, id, outbox.clone()), machine })
        };
        let sites: BTreeMap<SiteId, Host> = (1..=hardware.sites).map(host).collect();
        let machines = Rc::new(Machines {
            costs: costs.slowed(hardware.slowdown),
            world,
            hardware,
            sites,
            outbox,
            charging: Cell::new(false),
            decided_ns: Cell::new(0),
            executors: RefCell::default(),
        });
        machines.run_outbox();
        for (id, host) in &machines.sites {
            machines.drive_disk(host);
            machines.drive_ticks(host);
            host.site.greet(machines.sites.keys().copied().filter(|other| other != id));
        }
        machines
    }

    /// Starts or stops charging virtual time.
    pub(crate) fn set_charging(&self, charging: bool) {
        self.charging.set(charging);
    }

    pub(crate) fn host(&self, site: SiteId) -> &Host {
        &self.sites[&site]
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.sites.values()
    }

    /// The time to charge for work that costs `ns`.
    pub(crate) fn charge(&self, ns: u64) -> u64 {
        if self.charging.get() { ns } else { 0 }
    }

    /// Records that a router takes `ns` for a decision. Returns the time to charge.
    pub(crate) fn decide(&self, ns: u64) -> u64 {
        let charged_ns = self.charge(ns);
        self.decided_ns.set(self.decided_ns.get() + charged_ns);
        charged_ns
    }

    /// The time that routers have spent on decisions so far.
    pub(crate) fn decided_ns(&self) -> u64 {
        self.decided_ns.get()
    }

    /// Distributes the partitions of each site evenly over its executors.
    pub(crate) fn make_serial<'p>(
        &self,
        parts: impl Iterator<Item = (TableId, &'p Key, SiteId)> + Clone,
    ) {
        let mut counts: BTreeMap<(TableId, SiteId), usize> = BTreeMap::new();
        parts.clone().for_each(|(table, _, site)| *counts.entry((table, site)).or_default() += 1);
        let mut seen: BTreeMap<(TableId, SiteId), usize> = BTreeMap::new();
        let mut executors = self.executors.borrow_mut();
        for (table, start, site) in parts {
            let at = seen.entry((table, site)).or_default();
            let executor = *at * usize::from(self.hardware.cores) / counts[&(table, site)];
            executors.insert((table, start.clone()), (site, executor));
            *at += 1;
        }
    }

    /// Acquires all executors that a footprint needs: those of one site, or of all sites if `at` is
    /// `None`. They are acquired in a fixed order, so deadlock is impossible.
    pub(crate) async fn turns(&self, at: Option<SiteId>, footprint: &Footprint) -> Vec<Core<'_>> {
        let mut turns = Vec::new();
        for (site, executor) in self.executors_of(at, footprint) {
            turns.push(self.sites[&site].machine.executors[executor].take(Rank::Begins).await);
        }
        turns
    }

    fn executors_of(&self, at: Option<SiteId>, footprint: &Footprint) -> BTreeSet<(SiteId, usize)> {
        let executors = self.executors.borrow();
        let mut found = BTreeSet::new();
        if executors.is_empty() {
            return found;
        }
        for item in footprint.items() {
            let table = item.table;
            let start = item.span.start().clone();
            let first = executors.range(..=(table, start)).next_back();
            let more = executors
                .range((Bound::Excluded((table, item.span.start().clone())), Bound::Unbounded));
            let reached =
                more.take_while(|((of, start), _)| *of == table && item.span.reaches(start));
            // A site that can run the transaction holds all of it. Copies have the same executor as
            // their master.
            let places =
                first.into_iter().chain(reached).map(|(_, (site, executor))| (site, executor));
            found.extend(places.map(|(site, executor)| (at.unwrap_or(*site), *executor)));
        }
        found
    }

    /// The time that a message takes on an idle link.
    pub(crate) fn way_ns(&self, bytes: u64) -> u64 {
        bytes * 8_000 / self.hardware.bandwidth_mbit.max(1) + self.hardware.latency_us * 1000
    }

    /// The nanoseconds until a message that `from` sends now arrives. Messages are sent in
    /// sequence.
    pub(crate) fn arrival_ns(&self, from: &Machine, bytes: u64) -> u64 {
        if !self.charging.get() {
            return 1;
        }
        let now = self.world.now().0;
        let waits_ns = from.wire_free_at.get().saturating_sub(now);
        let way_ns = self.way_ns(bytes);
        from.wire_free_at.set(now + waits_ns + way_ns - self.way_ns(0));
        waits_ns + way_ns
    }

    fn run_outbox(self: &Rc<Machines>) {
        let machines = self.clone();
        self.world.spawn("mailbox_waker".into(), async move {
            loop {
                let messages = poll_fn(|cx| {
                    let messages = std::mem::take(&mut *machines.outbox.messages.lock());
                    if messages.is_empty() {
                        *machines.outbox.waker.lock() = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                    Poll::Ready(messages)
                });
                for (from, to, message) in messages.await {
                    machines.transmit(from, to, message);
                }
            }
        });
    }

    /// Sends a message: takes a core of the sender, the link, and a core of the receiver.
    fn transmit(self: &Rc<Machines>, from: SiteId, to: SiteId, message: Message) {
        let (receive_ns, bytes) = self.costs.of_message(&message);
        let machines = self.clone();
        let send_ns = self.charge(self.costs.send as u64);
        self.host(from).machine.cores.submit(send_ns, move || {
            let arrival_ns = machines.arrival_ns(&machines.host(from).machine, bytes);
            let world = machines.world.clone();
            world.after(arrival_ns, move || {
                let there = machines.clone();
                let host = there.host(to);
                let site = host.site.clone();
                let receive_ns = machines.charge(receive_ns);
                host.machine.cores.submit(receive_ns, move || site.receive(from, message));
            });
        });
    }

    /// Syncs the log whenever it has unsynced frames, and then ships the durable frames to the
    /// followers.
    fn drive_disk(self: &Rc<Machines>, host: &Host) {
        let (machines, site) = (self.clone(), host.site.clone());
        self.world.spawn("disk".into(), async move {
            while poll_fn(|cx| site.log().poll_work(cx.waker())).await.is_ok() {
                machines
                    .world
                    .sleep(machines.charge(machines.hardware.sync_us * 1000).max(1))
                    .await;
                if site.log().sync().is_ok() {
                    site.ship();
                }
            }
        });
    }

    fn drive_ticks(self: &Rc<Machines>, host: &Host) {
        let (machines, site) = (self.clone(), host.site.clone());
        self.world.spawn("ticks".into(), async move {
            let tick_ns = machines.hardware.tick_us * 1000;
            // Offsets the ticks of the sites.
            machines.world.sleep(machines.world.draw(0..tick_ns.max(1))).await;
            loop {
                machines.world.sleep(tick_ns.max(1)).await;
                site.tick();
            }
        });
    }
}

fn open(world: &Rc<World>, id: SiteId, network: Arc<Outbox>) -> Arc<Site> {
    let options = MemoryOptions {
        segment_bytes: 1 << 20,
        keep_bytes: Some(LOG_BYTES_KEPT),
        durability: Durability::Commit,
    };
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(options));
    let time = world.time_source();
    let site = Site::open(SiteOptions::new(id, log, network, time));
    Arc::new(site.expect("an empty log can be read"))
}

/// The size of a request or answer with a footprint of `items` items, in bytes.
pub(crate) fn request_bytes(items: usize) -> u64 {
    MESSAGE_BYTES + 20 * items as u64
}
