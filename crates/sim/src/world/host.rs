//! Sites in the world: their disks, their ticks, their crashes.
//!
//! A **run** of a site lasts from a start to the next crash. Everything that belongs to a run
//! (tasks, messages, requests in progress) ends with it. Only the disk survives, in the state that
//! the crash left.

use super::cut::CutLog;
use super::kafka::LEASE_NS;
use super::network::{Envelope, Port};
use super::tasks::TaskId;
use super::{Gate, World};
use crate::plant::Plant;
use crate::plant::disk::LyingDisk;
use isomer_design::SiteId;
use isomer_log::{
    Checkpoints, Durability, Log, MemoryCheckpoints, MemoryLog, MemoryOptions, Position,
};
use isomer_site::{CloseAhead, Holding, LinkTimeouts, OrderedSite, Pace, Site, SiteOptions, Stage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A few rows, so that most copies have several pieces.
const PIECE_BYTES: usize = 100;
/// The interval, in nanoseconds, at which a site without checkpoints checks whether to make one.
const LOOK_NS: u64 = 50_000_000;
/// How many of a thousand client requests go to the former owner, while it still runs.
const STALE_PER_MILLE: u64 = 400;

/// One site, running or not.
pub(super) struct Host {
    /// Counts from 1; while the site is down, the number of the next run.
    run: u64,
    /// The incarnation of the last run, which it stored before it sent any message.
    incarnation: u64,
    site: Option<Arc<Site>>,
    disk: Disk,
    tasks: Vec<TaskId>,
    /// Earlier runs that still run, because their processes do not know of the current run.
    stale: Vec<Stale>,
    /// The partitions of the last run, if its crash left the whole log: the next run must have the
    /// same.
    left: Option<Vec<Holding>>,
    /// Woken by the crash.
    watchers: Vec<Waker>,
    pub(super) held_messages: BTreeMap<SiteId, VecDeque<Envelope>>,
}

/// A run of a site whose log another process has taken.
struct Stale {
    run: u64,
    site: Arc<Site>,
    tasks: Vec<TaskId>,
}

/// The state that a crash leaves, and the site's view of it.
struct Disk {
    real: Arc<MemoryLog>,
    face: Arc<CutLog>,
    checkpoints: MemoryCheckpoints,
    shown_checkpoints: MemoryCheckpoints,
}

impl World {
    /// Starts a site, for the first time or after a crash. A failed recovery ends the simulation,
    /// because a site must be able to read every disk that a crash can leave. If the sites are at
    /// nodes, starts the node of the site.
    pub fn start(self: &Rc<World>, id: SiteId) {
        if let Some(node) = self.node_of(id) {
            return self.start_node(node);
        }
        self.make_host(id);
        if self.site(id).is_some() {
            return;
        }
        let (log, checkpoints): (_, Arc<dyn Checkpoints>) = {
            let disk = &self.hosts.borrow()[&id].disk;
            (disk.face.clone(), Arc::new(disk.shown_checkpoints.clone()))
        };
        if let Some(site) = self.open_site(id, log, checkpoints) {
            let task = self.drive_disk(&site);
            self.add_task(id, task);
        }
    }

    /// Adds a site that is down.
    pub(super) fn make_host(&self, id: SiteId) {
        self.hosts.borrow_mut().entry(id).or_insert_with(|| Host {
            run: 1,
            incarnation: 0,
            site: None,
            disk: self.disk(MemoryLog::new(options()), 0, MemoryCheckpoints::new()),
            tasks: Vec::new(),
            stale: Vec::new(),
            left: None,
            watchers: Vec::new(),
            held_messages: BTreeMap::new(),
        });
    }

    /// Opens a site that is down, with a log that the caller drives.
    pub(super) fn open_site(
        self: &Rc<World>,
        id: SiteId,
        log: Arc<dyn Log>,
        checkpoints: Arc<dyn Checkpoints>,
    ) -> Option<Arc<Site>> {
        let (run, before) = {
            let host = &self.hosts.borrow()[&id];
            (host.run, host.incarnation)
        };
        self.note(format_args!("{id} starts, run {run}"));
        let network = Arc::new(Port { run, outbox: self.outbox.clone() });
        let time = self.clock.clone();
        let most_ns = if self.node_of(id).is_some() { LEASE_NS / 4 } else { 50_000_000 };
        let close_ahead = CloseAhead { after_ns: 2_000_000, most_ns };
        let usual = SiteOptions::new(id, log, network, time);
        let link_timeouts = LinkTimeouts { gap_ns: 20_000_000, silent_ns: 250_000_000 };
        let (piece_bytes, checkpoints, incarnation) = (PIECE_BYTES, Some(checkpoints), before + 1);
        let options = SiteOptions {
            piece_bytes,
            close_ahead,
            link_timeouts,
            checkpoints,
            incarnation,
            domains: self.domains(),
            ..usual
        };
        let opened = self.guarded(|| match Site::open(options) {
            Ok(site) => Arc::new(site),
            Err(error) => panic!("{id} cannot start: {error}"),
        });
        let site = opened?;
        self.guarded(|| self.check_recovered(&site))?;
        let on_start = self.on_start.borrow().clone();
        if on_start.is_some() && !self.spoils(Plant::HastySite, 1000) {
            self.guarded(|| OrderedSite(&site).wait_for_order())?;
        }
        let tasks = vec![self.drive_ticks(&site), self.drive_checkpoints(&site)];
        let others: Vec<SiteId> = {
            let mut hosts = self.hosts.borrow_mut();
            let host = hosts.get_mut(&id).expect("it was just entered");
            (host.site, host.incarnation) = (Some(site.clone()), site.incarnation());
            host.tasks = tasks;
            hosts.keys().copied().filter(|other| *other != id).collect()
        };
        site.greet(others.into_iter());
        on_start.iter().for_each(|told| told(id));
        Some(site)
    }

    /// Checks that a site with a whole log has the same partitions as before the crash. The sources
    /// of replicas are not compared: after a failover, a replica follows the new master before that
    /// is in its log.
    fn check_recovered(&self, site: &Site) {
        let left = self.hosts.borrow_mut().get_mut(&site.id()).and_then(|host| host.left.take());
        let Some(left) = left else { return };
        let known =
            |held: &Holding| Holding { source: held.source.map(|_| site.id()), ..held.clone() };
        let [left, found] =
            [left, site.holdings()].map(|all| all.iter().map(known).collect::<Vec<_>>());
        let other = left.iter().zip(&found).find(|(before, now)| before != now);
        assert!(other.is_none(), "{} holds something else after a restart: {other:?}", site.id());
        assert_eq!(left.len(), found.len(), "{} holds as much after a restart", site.id());
    }

    /// Adds a task that ends with the site's run.
    pub(super) fn add_task(&self, id: SiteId, task: TaskId) {
        let mut hosts = self.hosts.borrow_mut();
        hosts.get_mut(&id).into_iter().for_each(|host| host.tasks.push(task));
    }

    /// Kills a site. Its durable frames survive, and a random prefix of the others.
    ///
    /// If sites are at nodes, kills the process with all of its sites.
    pub fn crash(self: &Rc<World>, id: SiteId) {
        if let Some(node) = self.node_of(id) {
            return self.kill_process(node);
        }
        let keep = {
            let hosts = self.hosts.borrow();
            let Some(host) = hosts.get(&id).filter(|host| host.site.is_some()) else { return };
            let (durable, end) = (host.disk.real.durable(), host.disk.real.end());
            self.draw(durable..end + 1)
        };
        self.crash_keeping(id, keep);
    }

    /// Breaks the disk of a site that is up: it fails until the site has crashed and restarted.
    pub fn break_disk(&self, id: SiteId) {
        if let Some(log) = self.site(id).and_then(|_| self.log(id)) {
            self.note(format_args!("the disk of {id} breaks"));
            log.fail("the simulated disk is broken");
        }
    }

    /// Kills a site. Only its durable frames survive.
    pub fn crash_hard(self: &Rc<World>, id: SiteId) {
        self.crash_keeping(id, 0);
    }

    fn crash_keeping(self: &Rc<World>, id: SiteId, keep: u64) {
        self.note(format_args!("{id} crashes"));
        let (site, tasks, watchers) = {
            let mut hosts = self.hosts.borrow_mut();
            let Some(host) = hosts.get_mut(&id) else { return };
            host.run += 1;
            let is_whole = keep.max(host.disk.real.durable()) >= host.disk.real.end();
            host.left = host.site.as_ref().filter(|_| is_whole).map(|site| site.holdings());
            let checkpoints = host.disk.checkpoints.crash();
            let (log, begin) = (host.disk.real.crash(keep), host.disk.face.begin());
            host.disk = self.disk(log, begin, checkpoints);
            host.held_messages.clear();
            let tasks = std::mem::take(&mut host.tasks);
            (host.site.take(), tasks, std::mem::take(&mut host.watchers))
        };
        self.crashes.set(self.crashes.get() + u64::from(site.is_some()));
        tasks.into_iter().for_each(|task| self.kill(task));
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Replaces the current run of a site as the target of messages; the run itself continues.
    /// False if there is none.
    pub(super) fn set_aside(&self, id: SiteId) -> bool {
        let mut hosts = self.hosts.borrow_mut();
        let Some(host) = hosts.get_mut(&id) else { return false };
        let Some(site) = host.site.take() else { return false };
        host.stale.push(Stale { run: host.run, site, tasks: std::mem::take(&mut host.tasks) });
        host.run += 1;
        true
    }

    /// Ends any run of a site. Its log is in Kafka.
    pub(super) fn end_run(&self, id: SiteId, run: u64) {
        let (site, tasks, watchers) = {
            let mut hosts = self.hosts.borrow_mut();
            let Some(host) = hosts.get_mut(&id) else { return };
            let stale = host.stale.iter().position(|stale| stale.run == run);
            let (site, tasks) = match stale.map(|at| host.stale.remove(at)) {
                Some(stale) => (Some(stale.site), stale.tasks),
                None if host.run == run => {
                    host.run += 1;
                    host.held_messages.clear();
                    (host.site.take(), std::mem::take(&mut host.tasks))
                }
                None => return,
            };
            (site, tasks, std::mem::take(&mut host.watchers))
        };
        tasks.into_iter().for_each(|task| self.kill(task));
        watchers.into_iter().for_each(Waker::wake);
        drop(site);
    }

    /// The tasks of a run.
    pub(super) fn tasks_of(&self, id: SiteId, run: u64) -> Vec<TaskId> {
        let hosts = self.hosts.borrow();
        let Some(host) = hosts.get(&id) else { return Vec::new() };
        let stale = host.stale.iter().find(|stale| stale.run == run);
        stale.map_or(&host.tasks, |stale| &stale.tasks).clone()
    }

    /// Wakes everything that waits for sites, to check again.
    pub(super) fn wake_watchers(&self) {
        let mut hosts = self.hosts.borrow_mut();
        let watchers: Vec<Waker> =
            hosts.values_mut().flat_map(|host| std::mem::take(&mut host.watchers)).collect();
        drop(hosts);
        watchers.into_iter().for_each(Waker::wake);
    }

    /// The sites that were ever started.
    pub fn sites(&self) -> Vec<SiteId> {
        self.hosts.borrow().keys().copied().collect()
    }

    /// A site, if it is running.
    pub fn site(&self, id: SiteId) -> Option<Arc<Site>> {
        self.hosts.borrow().get(&id).and_then(|host| host.site.clone())
    }

    /// A site's log, including the part that the site has cut.
    pub fn log(&self, id: SiteId) -> Option<Arc<MemoryLog>> {
        if let Some(history) = self.history_of(id) {
            return Some(history);
        }
        self.hosts.borrow().get(&id).map(|host| host.disk.real.clone())
    }

    pub(super) fn site_tasks(&self) -> BTreeSet<TaskId> {
        let hosts = self.hosts.borrow();
        let stale = |host: &Host| -> Vec<TaskId> {
            host.stale.iter().flat_map(|stale| stale.tasks.clone()).collect()
        };
        let own = hosts.values().flat_map(|host| host.tasks.iter().copied().chain(stale(host)));
        own.chain(self.process_tasks()).collect()
    }

    /// The number of the current run of a site; `None` if it is down.
    pub(super) fn run_of(&self, id: SiteId) -> Option<u64> {
        let hosts = self.hosts.borrow();
        hosts.get(&id).filter(|host| host.site.is_some()).map(|host| host.run)
    }

    pub(super) fn runs(&self, id: SiteId, run: u64) -> bool {
        self.site_in(id, run).is_some()
    }

    /// A site in one of its runs, if that still runs.
    pub(super) fn site_in(&self, id: SiteId, run: u64) -> Option<Arc<Site>> {
        let hosts = self.hosts.borrow();
        let host = hosts.get(&id)?;
        if host.run == run {
            return host.site.clone();
        }
        host.stale.iter().find(|stale| stale.run == run).map(|stale| stale.site.clone())
    }

    /// The run that gets a client's request: by chance an earlier one that still runs.
    pub(super) fn run_for_client(&self, id: SiteId) -> Option<u64> {
        let stale: Vec<u64> = {
            let hosts = self.hosts.borrow();
            hosts.get(&id)?.stale.iter().map(|stale| stale.run).collect()
        };
        if !stale.is_empty() && self.chance(STALE_PER_MILLE) {
            return Some(stale[self.draw(0..stale.len() as u64) as usize]);
        }
        self.run_of(id)
    }

    /// Polls a future while a run of a site lasts; `None` if the run ended first.
    pub(super) async fn while_running<F: Future>(
        &self,
        id: SiteId,
        run: u64,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if !self.runs(id, run) {
                return Poll::Ready(None);
            }
            if !self.stands(id, run)
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                return Poll::Ready(Some(done).filter(|_| self.runs(id, run)));
            }
            if let Some(host) = self.hosts.borrow_mut().get_mut(&id)
                && !host.watchers.iter().any(|other| other.will_wake(cx.waker()))
            {
                host.watchers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn disk(&self, log: MemoryLog, begin: Position, checkpoints: MemoryCheckpoints) -> Disk {
        let real = Arc::new(log);
        let lies = self.plant.get().is_some_and(|plant| plant.disk_lies());
        let face: Arc<dyn Log> =
            if lies { Arc::new(LyingDisk::new(real.clone())) } else { real.clone() };
        let face = Arc::new(CutLog::new(face, begin));
        let loses = self.plant.get().is_some_and(|plant| plant.loses_checkpoints());
        // Checkpoints that are published there are lost in the crash.
        let shown_checkpoints = if loses { checkpoints.crash() } else { checkpoints.clone() };
        Disk { real, face, checkpoints, shown_checkpoints }
    }

    /// Syncs whenever frames wait; a sync takes time.
    fn drive_disk(self: &Rc<World>, site: &Arc<Site>) -> TaskId {
        let (world, site) = (self.clone(), site.clone());
        self.spawn(format!("disk of {}", site.id()), async move {
            while poll_fn(|cx| site.log().poll_work(cx.waker())).await.is_ok() {
                let (least, below) = world.manners.borrow().sync_ns;
                world.sleep(world.draw(least..below)).await;
                world.pass(Gate::Disk(site.id())).await;
                if site.log().sync().is_ok() {
                    site.ship();
                }
            }
        })
    }

    fn drive_ticks(self: &Rc<World>, site: &Arc<Site>) -> TaskId {
        let (world, site) = (self.clone(), site.clone());
        self.spawn(format!("ticks of {}", site.id()), async move {
            loop {
                let tick = world.manners.borrow().tick_ns;
                world.sleep(tick / 2 + world.draw(0..tick)).await;
                site.tick();
            }
        })
    }

    /// Makes a checkpoint periodically, if the fault profile says so.
    fn drive_checkpoints(self: &Rc<World>, site: &Arc<Site>) -> TaskId {
        let (world, site) = (self.clone(), site.clone());
        self.spawn(format!("checkpoints of {}", site.id()), async move {
            loop {
                match world.manners().checkpoint_ns {
                    0 => {
                        world.sleep(LOOK_NS).await;
                        let _ = site.cut_again();
                    }
                    most => {
                        world.sleep(world.draw(1..most)).await;
                        let _ = site.cut_again();
                        world.make_checkpoint(&site).await;
                    }
                }
            }
        })
    }

    /// Makes a checkpoint of a site, as a task that ends with the site's run.
    pub fn checkpoint(self: &Rc<World>, id: SiteId) {
        let Some(site) = self.site(id) else { return };
        let world = self.clone();
        let name = format!("a checkpoint of {id}");
        let task = self.spawn(name, async move { world.make_checkpoint(&site).await });
        let mut hosts = self.hosts.borrow_mut();
        hosts.get_mut(&id).into_iter().for_each(|host| host.tasks.push(task));
    }

    async fn make_checkpoint(self: &Rc<World>, site: &Site) {
        let mut pace = SlowPace { world: self.clone(), site: site.id() };
        match site.checkpoint(&mut pace).await {
            Ok(()) => self.note(format_args!("{} has cut its log", site.id())),
            // A failed disk is reported elsewhere, too.
            Err(error) => self.murmur(format_args!("{} has made none: {error}", site.id())),
        }
    }
}

/// A slow checkpoint: each piece takes as long as a sync.
struct SlowPace {
    world: Rc<World>,
    site: SiteId,
}

impl Pace for SlowPace {
    async fn reached(&mut self, stage: Stage) {
        let (world, site) = (&self.world, self.site);
        let (least, below) = world.manners().sync_ns;
        world.sleep(world.draw(least..below)).await;
        match stage {
            Stage::Copied(_) => {}
            Stage::Settled => {
                world.note(format_args!("{site} has a checkpoint on disk"));
                world.pass(Gate::Publish(site)).await;
            }
            Stage::Published => {
                world.note(format_args!("the checkpoint of {site} counts"));
                world.pass(Gate::Cut(site)).await;
            }
        }
    }
}

pub(super) fn options() -> MemoryOptions {
    // Small segments, so that logs have many of them.
    MemoryOptions { segment_bytes: 4096, keep_bytes: None, durability: Durability::Commit }
}
