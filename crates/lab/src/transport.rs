//! The transport from the router to the sites: messages, cores, and the real sites.
//!
//! ```text
//!   router ─ send ─▶ link ─▶ ┌ site, on a core: receive, then poll Site::execute;                ┐
//!                            │   while it waits (lock, replica, log) the core is free;           │
//!                            │   when it wakes up it gets a core and is polled again             │
//!   router ◀─ link ◀─ send ─ └ the answer is sent on the core on which the execution ended       ┘
//! ```
//!
//! The coordinator of a distributed transaction contacts the participants in the same way, from its
//! own core.
//!
//! Routers run on the machines of the clients, of which there are enough: their work takes time but
//! waits for no core. A procedure spends its own cost in the middle of its execution
//! ([`mod@crate::client`]), while its locks are held.

use crate::cores::Rank;
use crate::costs::MESSAGE_BYTES;
use crate::machines::{Host, Machines, request_bytes};
use isomer_cluster::{Transport, load_of};
use isomer_design::{SiteId, Time};
use isomer_site::{
    Answer, Failure, Part, PartAnswer, Peers, Pin, Published, Read, Refusal, Reply, Request,
    RowWrite, SeenUpTo, Step, VisitRow,
};
use isomer_strategy::SiteLoad;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The time after which a router retries.
const RETRY_NS: u64 = 10_000_000;

/// See the [module documentation](self).
pub(crate) struct LabTransport {
    machines: Rc<Machines>,
}

impl LabTransport {
    pub(crate) fn new(machines: Rc<Machines>) -> LabTransport {
        LabTransport { machines }
    }

    /// The time that the router needs to find a place for a transaction with `items` items.
    /// Planning runs on another thread.
    fn decide(&self, items: usize) -> u64 {
        let costs = &self.machines.costs;
        self.machines.decide((costs.route + items as f64 * costs.route_item) as u64)
    }

    /// Delays a request by `after_ns` and the transfer to a site.
    async fn go(&self, after_ns: u64, bytes: u64) {
        let Machines { world, costs, .. } = &*self.machines;
        let way_ns = self.machines.charge(costs.send as u64 + self.machines.way_ns(bytes));
        world.sleep((after_ns + way_ns).max(1)).await;
    }

    /// Sends a small request to a site and waits for the answer.
    async fn ask<F: Future>(&self, host: &Host, question: F) -> F::Output {
        self.go(0, MESSAGE_BYTES).await;
        let first_ns = self.machines.costs.receive as u64;
        let answer = work(&self.machines, host, (Rank::Begins, first_ns), question).await;
        self.come_back(host, MESSAGE_BYTES).await;
        answer
    }

    /// Delays an answer by its transfer to the router.
    async fn come_back(&self, host: &Host, bytes: u64) {
        let Machines { world, costs, .. } = &*self.machines;
        let received = self.machines.charge(costs.receive as u64);
        world.sleep(self.machines.arrival_ns(&host.machine, bytes) + received).await;
    }
}

/// Runs the code of a site, which holds a core while it is polled. It first waits for a core with
/// this `rank` and spends `first_ns`.
async fn work<F: Future>(
    machines: &Machines,
    host: &Host,
    (mut rank, first_ns): (Rank, u64),
    work: F,
) -> F::Output {
    let Machines { world, costs, .. } = machines;
    let (mut work, mut spend_ns) = (pin!(work), first_ns);
    let bell = once(|waker| Arc::new(Bell { rang: AtomicBool::new(false), task: waker.clone() }));
    let bell = bell.await;
    let waker = Waker::from(bell.clone());
    loop {
        let core = host.machine.cores.take(rank).await;
        world.sleep(machines.charge(spend_ns)).await;
        bell.rang.store(false, Ordering::Relaxed);
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            world.sleep(machines.charge(costs.send as u64)).await;
            return done;
        }
        drop(core);
        let rang = |_: &mut Context<'_>| match bell.rang.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        poll_fn(rang).await;
        (rank, spend_ns) = (Rank::GoesOn, costs.resume as u64);
    }
}

/// The connection of a coordinator to the participants. The coordinator's core sends and receives.
struct Peer {
    machines: Rc<Machines>,
    coordinator: SiteId,
}

impl Peers for Peer {
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        let (machines, coordinator) = (self.machines.clone(), self.coordinator);
        let answer = Rc::new(RefCell::new(None));
        let waiting = once(|waker| waker.clone()).await;
        let slot = answer.clone();
        // A separate task: only the answer must wake the coordinator, not the steps of the
        // transfer.
        self.machines.world.spawn("part".into(), async move {
            let answer = ask(machines, coordinator, site, part).await;
            *slot.borrow_mut() = Some(answer);
            waiting.wake();
        });
        poll_fn(|_| answer.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

async fn ask(
    machines: Rc<Machines>,
    coordinator: SiteId,
    site: SiteId,
    part: Part,
) -> Result<PartAnswer, Failure> {
    let costs = &machines.costs;
    let [from, to] = [coordinator, site].map(|id| machines.host(id));
    from.machine.cores.compute(machines.charge(costs.send as u64)).await;
    let sent = MESSAGE_BYTES + part_bytes(&part);
    machines.world.sleep(machines.arrival_ns(&from.machine, sent)).await;
    let first_ns = costs.receive as u64 + costs.of_part(&part);
    // The coordinator has begun and may hold locks, so its participants have the same priority.
    let answer = work(&machines, to, (Rank::GoesOn, first_ns), to.site.part(part)).await;
    let rows = match &answer {
        Ok(PartAnswer::Entered(entered)) => &entered.rows[..],
        _ => &[],
    };
    let read_ns = rows.len() as f64 * costs.snapshot_row;
    to.machine.cores.compute(machines.charge(read_ns as u64)).await;
    let bytes: usize = rows.iter().map(|row| row.key.len() + row.value.len()).sum();
    let way_ns = machines.arrival_ns(&to.machine, MESSAGE_BYTES + bytes as u64);
    machines.world.sleep(way_ns).await;
    from.machine.cores.compute(machines.charge(costs.receive as u64)).await;
    answer
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Enter { footprint, .. } => request_bytes(footprint.items().len()),
        Part::Prepare { writes, .. } | Part::PrepareAll { writes, .. } => {
            let value = |write: &RowWrite| write.value.as_ref().map_or(0, Vec::len);
            writes.iter().map(|write| (write.key.len() + value(write)) as u64).sum()
        }
    }
}

/// Records whether a future of a site has been woken. A task may be woken for other reasons.
struct Bell {
    rang: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.rang.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

impl Transport for LabTransport {
    fn drop_revokes(&self, _site: SiteId) -> bool {
        true
    }

    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        let (host, footprint) = (self.machines.host(site), request.footprint);
        let items = footprint.items().len();
        self.go(self.decide(items), request_bytes(items)).await;
        let first_ns = self.machines.costs.receive as u64;
        let begins = (Rank::Begins, first_ns);
        let result = match request.branches {
            None => {
                let _turns = self.machines.turns(Some(site), footprint).await;
                work(&self.machines, host, begins, host.site.run(request, published)).await
            }
            Some(_) => {
                let _turns = self.machines.turns(None, footprint).await;
                let peers = Peer { machines: self.machines.clone(), coordinator: site };
                let coordination = host.site.coordinate(request, published, &peers);
                work(&self.machines, host, begins, coordination).await
            }
        };
        self.come_back(host, MESSAGE_BYTES).await;
        result
    }

    type Pin = Pin;

    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&Pin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        let host = self.machines.host(site);
        self.ask(host, host.site.read_at(read, at, pin, visit)).await
    }

    async fn pin(&self, site: SiteId, at: Time) -> Result<Pin, Failure> {
        let host = self.machines.host(site);
        self.ask(host, async { host.site.pin(at) }).await
    }

    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure> {
        let host = self.machines.host(site);
        self.ask(host, async { Ok(host.site.lease(from)) }).await
    }

    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure> {
        let host = self.machines.host(site);
        self.ask(host, host.site.until_durable(seen)).await
    }

    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        let Machines { costs, .. } = &*self.machines;
        let host = self.machines.host(site);
        let bytes = match &step {
            Step::Install(snapshot) => MESSAGE_BYTES + snapshot.bytes() as u64,
            _ => MESSAGE_BYTES,
        };
        self.go(0, bytes).await;
        let first_ns = costs.receive as u64 + costs.of_step(&step);
        let answer =
            work(&self.machines, host, (Rank::Begins, first_ns), host.site.step(step)).await;
        let mut bytes = MESSAGE_BYTES;
        if let Ok(Answer::Snapshot(snapshot)) = &answer {
            let read_ns = snapshot.rows() as f64 * costs.snapshot_row;
            host.machine.cores.compute(self.machines.charge(read_ns as u64)).await;
            bytes += snapshot.bytes() as u64;
        }
        self.come_back(host, bytes).await;
        answer
    }

    async fn retry(&self, _site: SiteId) {
        self.machines.world.sleep(RETRY_NS).await;
    }

    fn load(&self, site: SiteId) -> SiteLoad {
        let host = self.machines.host(site);
        let memory_max =
            self.machines.hardware.memory_mb.map(|mb| (mb * f64::from(1 << 20)) as usize);
        let busy = Some(host.machine.cores.lately_busy());
        SiteLoad { busy, memory_max, ..load_of(site, Some(&host.site)) }
    }

    fn now(&self) -> Time {
        self.machines.world.now()
    }
}

/// Calls a function with the waker of the current task.
async fn once<T>(mut call: impl FnMut(&Waker) -> T) -> T {
    poll_fn(|cx| Poll::Ready(call(cx.waker()))).await
}
