//! Processes: each owns the logs of its node's sites, as far as it knows.
//!
//! ```text
//!   start ──▶ opens: reads, claims, reads its claim ──▶ has the sites ──▶ learns of another owner: ends
//!               ▲ refused: again                         │      ▲
//!               └─────────────                   pause ──▶ stands still ──▶ resume
//! ```

use super::broker::Client;
use super::log::{Link, SimLog};
use super::partition::{DATABASE, Partition};
use super::{Folders, Node, NodeId, options};
use crate::plant::Plant;
use crate::world::network::Envelope;
use crate::world::tasks::TaskId;
use crate::world::{Gate, World};
use isomer_design::SiteId;
use isomer_log::{Checkpoints, Log, LogError, MemoryCheckpoints};
use isomer_owned::owned::{OpenReport, Opening, Options, OwnedLog, Sent, Step};
use isomer_site::Site;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The longest interval at which a process checks whether it still owns its logs, in nanoseconds.
const LOOK_NS: u64 = 25_000_000;
/// The pause before another attempt to open a site, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000;

/// How many of a thousand suitable answers to an owner a planted bug corrupts.
pub(super) const SPOILT_PER_MILLE: u64 = 300;

/// See the [module documentation](self).
pub(super) struct Process {
    node: NodeId,
    link: Arc<Link>,
    /// Its sites, with the numbers of their runs.
    runs: Vec<(SiteId, u64)>,
    logs: Vec<Arc<SimLog>>,
    /// Its tasks, apart from those of its sites.
    tasks: Vec<TaskId>,
    is_paused: bool,
}

/// A site's log that a process has opened, and its checkpoint folder.
struct Opened {
    site: SiteId,
    client: Client,
    log: Arc<SimLog>,
    checkpoints: MemoryCheckpoints,
}

impl Opened {
    /// True if a broker answers, and has all that the site will read. A former owner that does not
    /// know of this process may have cut the log, after a checkpoint that this folder lacks.
    fn is_readable(&self) -> bool {
        let first = self.checkpoints.newest().map_or(self.log.begin(), |found| found.position);
        let read = self.log.read(first, &mut |_, _| ControlFlow::Break(()));
        self.log.is_reachable() && read.is_ok()
    }
}

impl Folders {
    /// A folder for another process: a copy of the one with the newest checkpoint.
    fn copy(&mut self) -> MemoryCheckpoints {
        let position = |folder: &&MemoryCheckpoints| folder.newest().map(|found| found.position);
        let newest = self.0.iter().max_by_key(position);
        let copy = newest.map_or_else(MemoryCheckpoints::new, MemoryCheckpoints::crash);
        self.0.push(copy.clone());
        copy
    }
}

impl World {
    /// Assigns sites to nodes, and their logs to partitions, from now on.
    pub fn set_nodes(&self, nodes: &[Vec<SiteId>]) {
        for (node, sites) in (1..).zip(nodes) {
            for site in sites {
                let partition = Partition::new(u32::from(site.0), crate::world::host::options());
                let partition = Arc::new(Mutex::new(partition));
                self.kafka.partitions.borrow_mut().insert(*site, partition);
                self.make_host(*site);
            }
            let sites = sites.iter().map(|site| (*site, Folders::default())).collect();
            self.kafka.nodes.borrow_mut().insert(node, Node { sites, process: None });
        }
    }

    /// All nodes.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.kafka.nodes.borrow().keys().copied().collect()
    }

    /// The node of a site; `None` if its log is on a disk.
    pub(in crate::world) fn node_of(&self, site: SiteId) -> Option<NodeId> {
        let nodes = self.kafka.nodes.borrow();
        nodes.iter().find(|(_, node)| node.sites.contains_key(&site)).map(|(id, _)| *id)
    }

    /// The current process of a node, which may still be opening its sites.
    pub fn process_of(&self, node: NodeId) -> Option<u64> {
        self.kafka.nodes.borrow().get(&node).and_then(|node| node.process)
    }

    pub(super) fn is_process(&self, process: u64) -> bool {
        self.kafka.processes.borrow().contains_key(&process)
    }

    pub(super) fn partition_of(&self, site: SiteId) -> Arc<Mutex<Partition>> {
        self.kafka.partitions.borrow()[&site].clone()
    }

    /// The redo log that the safe records of a site's partition make; `None` if its log is on a
    /// disk.
    pub(in crate::world) fn history_of(&self, site: SiteId) -> Option<Arc<isomer_log::MemoryLog>> {
        let partitions = self.kafka.partitions.borrow();
        partitions.get(&site).map(|partition| partition.lock().history().clone())
    }

    /// The number of sites that were taken from a process that was still running.
    pub fn taken(&self) -> u64 {
        self.kafka.taken.get()
    }

    pub(in crate::world) fn set_plant_of_logs(&self, plant: Option<Plant>) {
        *self.kafka.plant.lock() = plant;
    }

    /// Starts a process for a node that has none.
    pub fn start_node(self: &Rc<World>, node: NodeId) {
        if self.process_of(node).is_none() {
            self.start_process(node);
        }
    }

    /// Starts a process for a node, which takes the sites from the current process.
    pub fn start_process(self: &Rc<World>, node: NodeId) {
        let number = self.kafka.begun.get() + 1;
        self.kafka.begun.set(number);
        let link = Arc::new(Link::default());
        let before = {
            let mut nodes = self.kafka.nodes.borrow_mut();
            nodes.get_mut(&node).expect("there is such a node").process.replace(number)
        };
        // A process that has not opened its sites yet is ended.
        let opening = |process: &Process| process.runs.is_empty();
        if let Some(before) = before
            && self.kafka.processes.borrow().get(&before).is_some_and(opening)
        {
            self.end_process(before, "another one is started");
            self.kafka.nodes.borrow_mut().get_mut(&node).expect("there is one").process =
                Some(number);
        }
        self.note(format_args!("process {number} starts as node {node}"));
        let world = self.clone();
        let task = self.spawn(format!("process {number}"), async move {
            let opened = world.open_sites(node, number).await;
            world.begin_serving(number, opened);
        });
        let (runs, logs, is_paused) = (Vec::new(), Vec::new(), false);
        let process = Process { node, link, runs, logs, tasks: vec![task], is_paused };
        self.kafka.processes.borrow_mut().insert(number, process);
    }

    /// Opens the logs of a node's sites; retries until all are open.
    async fn open_sites(self: &Rc<World>, node: NodeId, process: u64) -> Vec<Opened> {
        self.doing(|| "opens its sites".into());
        let sites: Vec<SiteId> = self.kafka.nodes.borrow()[&node].sites.keys().copied().collect();
        let mut opened = Vec::new();
        for site in sites {
            loop {
                match self.open_log(node, process, site).await {
                    Ok(one) => break opened.push(one),
                    Err(why) => {
                        self.note(format_args!("process {process} cannot open {site}: {why}"));
                        self.sleep(AGAIN_NS).await;
                    }
                }
            }
        }
        opened
    }

    /// Reads a log, claims it, and writes the first record of the term.
    async fn open_log(
        self: &Rc<World>,
        node: NodeId,
        process: u64,
        site: SiteId,
    ) -> Result<Opened, String> {
        let client = self.client(process, site);
        let checkpoints = {
            let mut nodes = self.kafka.nodes.borrow_mut();
            let node = nodes.get_mut(&node).expect("there is such a node");
            node.sites.get_mut(&site).expect("it has the site").copy()
        };
        let needed = Some(checkpoints.newest().map_or(0, |found| found.position));
        let options = Options { needed, ..options(*self.kafka.plant.lock()) };
        let (owned, report) = self.claim(&client, options).await?;
        let OpenReport { term, taken_from, .. } = report;
        let from = taken_from.map_or_else(String::new, |name| format!(", taken from {name}"));
        self.note(format_args!("process {process} owns the log of {site} in {term}{from}"));
        let log = Arc::new(SimLog {
            site,
            owned,
            partition: client.partition.clone(),
            link: client.link.clone(),
            clock: self.clock.clone(),
            plant: self.kafka.plant.clone(),
        });
        self.write_out(&client, &log).await.map_err(|error| error.to_string())?;
        Ok(Opened { site, client, log, checkpoints })
    }

    fn client(&self, process: u64, site: SiteId) -> Client {
        Client {
            site,
            process,
            partition: self.partition_of(site),
            link: self.kafka.processes.borrow()[&process].link.clone(),
            producer: self.draw(0..u64::MAX),
            sequence: 0.into(),
        }
    }

    async fn claim(
        self: &Rc<World>,
        client: &Client,
        options: Options,
    ) -> Result<(OwnedLog, OpenReport), String> {
        let Client { site, process, .. } = *client;
        let (first, end) = self.ask_bounds(client).await;
        let mut opening =
            Opening::new(site.to_string().into(), DATABASE, u32::from(site.0), first, options);
        // A planted bug: the last record is skipped.
        let is_short = self.plant() == Some(Plant::WrongOffset) && end > first;
        let end_of_reading = end - u64::from(is_short);
        while opening.next() < end_of_reading {
            for (offset, record) in self.fetch(client, opening.next()).await? {
                if offset < end_of_reading {
                    let _ = opening.take(offset, &record).map_err(|broken| broken.to_string())?;
                }
            }
        }
        let claim = opening.claim(self.draw(0..u64::MAX), &format!("process {process}"))?;
        self.produce(client, claim).await;
        while !opening.has_read_claim() {
            for (offset, record) in self.fetch(client, opening.next().max(end)).await? {
                let taken = opening.take(offset, &record).map_err(|broken| broken.to_string())?;
                if taken.is_break() {
                    break;
                }
            }
        }
        opening.own(self.monotonic(), None)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.now().0)
    }

    /// Writes everything that has been appended to a log so far, as a sync does.
    async fn write_out(self: &Rc<World>, client: &Client, log: &SimLog) -> Result<(), LogError> {
        let end = log.end();
        loop {
            let expected = log.owned.next_offset();
            match log.owned.step(self.monotonic())? {
                Step::Send(record) => {
                    let mut offset = self.produce(client, record).await;
                    if self.spoils(Plant::NoFencing, SPOILT_PER_MILLE) {
                        offset = expected;
                    }
                    log.owned.answered(Sent::Written(offset))?;
                }
                Step::Await => unreachable!("each record is waited for"),
                Step::ReadBack(from) => self.read_back(client, log, from).await?,
                Step::Wait(until) => {
                    let left = until.saturating_sub(self.monotonic());
                    self.sleep((left.as_nanos() as u64).clamp(1, 1_000_000)).await;
                }
                Step::Rest => return Ok(()),
            }
            if log.owned.next_offset().is_some() && log.durable() >= end {
                return Ok(());
            }
        }
    }

    async fn read_back(&self, client: &Client, log: &SimLog, from: u64) -> Result<(), LogError> {
        let Ok(records) = self.fetch(client, from).await else {
            return log.owned.begins_at(self.ask_bounds(client).await.0);
        };
        for (offset, record) in records {
            if log.owned.read_back(offset, &record)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Starts the sites of a process that has opened their logs.
    fn begin_serving(self: &Rc<World>, process: u64, opened: Vec<Opened>) {
        if !opened.iter().all(Opened::is_readable) {
            return self.start_later(process);
        }
        let mut started = Vec::new();
        for Opened { site, client, log, checkpoints } in opened {
            let Some((run, site)) = self.install(site, log.clone(), checkpoints) else { return };
            let task = self.drive_log(&site, client, log.clone());
            self.add_task(site.id(), task);
            let mut processes = self.kafka.processes.borrow_mut();
            let Some(process) = processes.get_mut(&process) else { return };
            process.runs.push((site.id(), run));
            process.logs.push(log);
            started.push(site.id());
        }
        let world = self.clone();
        let watch = self.spawn(format!("watch of process {process}"), async move {
            world.watch(process).await;
        });
        let mut processes = self.kafka.processes.borrow_mut();
        if let Some(process) = processes.get_mut(&process) {
            process.tasks = vec![watch];
        }
        drop(processes);
        self.kafka.on_return.get().iter().for_each(|told| started.iter().copied().for_each(told));
    }

    /// Calls a function with each site that a node starts from now on. To be called once.
    pub fn set_on_return(&self, told: impl Fn(SiteId) + 'static) {
        let _ = self.kafka.on_return.set(Box::new(told));
    }

    /// Ends a process that cannot read its logs, as that of a node ends, and starts it again.
    fn start_later(self: &Rc<World>, process: u64) {
        let node = self.kafka.processes.borrow().get(&process).map(|process| process.node);
        let Some(node) = node else { return };
        let world = self.clone();
        self.spawn(format!("start of node {node}"), async move {
            world.sleep(AGAIN_NS).await;
            world.start_node(node);
        });
        self.end_process(process, "its logs cannot be read");
    }

    /// Starts a new run of a site, whatever its current run does.
    fn install(
        self: &Rc<World>,
        id: SiteId,
        log: Arc<SimLog>,
        checkpoints: MemoryCheckpoints,
    ) -> Option<(u64, Arc<Site>)> {
        if self.set_aside(id) {
            self.kafka.taken.set(self.kafka.taken.get() + 1);
        }
        let site = self.open_site(id, log, Arc::new(checkpoints))?;
        Some((self.run_of(id)?, site))
    }

    /// Writes whenever frames wait.
    fn drive_log(self: &Rc<World>, site: &Arc<Site>, client: Client, log: Arc<SimLog>) -> TaskId {
        let (world, site) = (self.clone(), site.clone());
        self.spawn(format!("log of {}", site.id()), async move {
            while poll_fn(|cx| log.poll_work(cx.waker())).await.is_ok() {
                let (least, below) = world.manners().sync_ns;
                world.sleep(world.draw(least..below)).await;
                world.pass(Gate::Disk(site.id())).await;
                if world.write_out(&client, &log).await.is_ok() {
                    site.ship();
                }
            }
        })
    }

    /// Checks periodically whether a process still owns its logs; if not, ends it.
    async fn watch(self: &Rc<World>, process: u64) {
        loop {
            self.sleep(self.draw(1..LOOK_NS)).await;
            let logs = match self.kafka.processes.borrow().get(&process) {
                Some(process) => process.logs.clone(),
                None => return,
            };
            logs.iter().for_each(|log| log.look_for_others());
            let Some(failure) = logs.iter().find_map(|log| log.failure()) else { continue };
            if !matches!(failure, LogError::Fenced { .. }) {
                self.panicked.borrow_mut().get_or_insert_with(|| failure.to_string());
            }
            return self.end_process(process, &failure.to_string());
        }
    }

    /// Kills the process of a node.
    pub fn kill_process(self: &Rc<World>, node: NodeId) {
        if let Some(process) = self.process_of(node) {
            self.crashes.set(self.crashes.get() + 1);
            self.end_process(process, "it is killed");
        }
    }

    /// Stops the process of a node in an orderly way: it releases its logs.
    pub fn stop_process(self: &Rc<World>, node: NodeId) {
        let Some(number) = self.process_of(node) else { return };
        let logs = match self.kafka.processes.borrow().get(&number) {
            Some(process) if !process.is_paused => process.logs.clone(),
            _ => return,
        };
        let releases: Vec<(Client, Vec<u8>)> = logs
            .iter()
            .filter_map(|log| {
                let site = log.site;
                Some((self.client(number, site), log.owned.release(self.monotonic())?))
            })
            .collect();
        self.end_process(number, "it is stopped");
        for (client, release) in releases {
            let world = self.clone();
            self.spawn(format!("release by process {number}"), async move {
                let written = world.produce(&client, release);
                let mut written = std::pin::pin!(written);
                let mut patience = std::pin::pin!(world.sleep(20_000_000));
                poll_fn(|cx| match written.as_mut().poll(cx) {
                    std::task::Poll::Ready(_) => std::task::Poll::Ready(()),
                    std::task::Poll::Pending => patience.as_mut().poll(cx),
                })
                .await;
            });
        }
    }

    /// Ends a process, with all its sites.
    fn end_process(self: &Rc<World>, number: u64, why: &str) {
        let Some(process) = self.kafka.processes.borrow_mut().remove(&number) else { return };
        self.note(format_args!("process {number} ends: {why}"));
        if let Some(node) = self.kafka.nodes.borrow_mut().get_mut(&process.node)
            && node.process == Some(number)
        {
            node.process = None;
        }
        process.tasks.into_iter().for_each(|task| self.kill(task));
        for (site, run) in process.runs {
            self.kafka.standing.borrow_mut().remove(&(site, run));
            self.end_run(site, run);
        }
        let world = self.clone();
        self.after(0, move || world.let_held_go());
    }

    /// Pauses a process at any place in its code, as SIGSTOP does.
    pub fn pause_process(&self, number: u64) {
        let mut processes = self.kafka.processes.borrow_mut();
        let Some(process) = processes.get_mut(&number).filter(|process| !process.is_paused) else {
            return;
        };
        self.note(format_args!("process {number} is paused"));
        process.is_paused = true;
        self.kafka.standing.borrow_mut().extend(&process.runs);
        let tasks = process.runs.iter().flat_map(|(site, run)| self.tasks_of(*site, *run));
        tasks.chain(process.tasks.iter().copied()).for_each(|task| self.stand(task));
    }

    /// Continues a paused process.
    pub fn resume_process(self: &Rc<World>, number: u64) {
        let tasks: Vec<TaskId> = {
            let mut processes = self.kafka.processes.borrow_mut();
            let Some(process) = processes.get_mut(&number).filter(|process| process.is_paused)
            else {
                return;
            };
            self.note(format_args!("process {number} goes on"));
            process.is_paused = false;
            let mut standing = self.kafka.standing.borrow_mut();
            standing.retain(|run| !process.runs.contains(run));
            let tasks = process.runs.iter().flat_map(|(site, run)| self.tasks_of(*site, *run));
            tasks.chain(process.tasks.iter().copied()).collect()
        };
        // Deferred, so that it does not run inside of another task.
        let world = self.clone();
        self.after(0, move || {
            if !world.is_paused_process(number) {
                tasks.into_iter().for_each(|task| world.resume(task));
            }
            world.let_held_go();
        });
    }

    fn is_paused_process(&self, number: u64) -> bool {
        self.kafka.processes.borrow().get(&number).is_some_and(|process| process.is_paused)
    }

    /// Continues everything that waited for paused processes, if these have continued.
    fn let_held_go(self: &Rc<World>) {
        let held = std::mem::take(&mut *self.kafka.held.borrow_mut());
        held.into_iter().for_each(|task| self.resume(task));
        self.wake_watchers();
        let stopped = std::mem::take(&mut *self.kafka.stopped.borrow_mut());
        stopped.into_iter().for_each(|message| self.deliver(message));
    }

    /// True while the process of a run is paused.
    pub(in crate::world) fn stands(&self, site: SiteId, run: u64) -> bool {
        self.kafka.standing.borrow().contains(&(site, run))
    }

    /// Keeps a procedure from continuing while its process is paused; false if that is not paused.
    pub(in crate::world) fn holds_back(&self, task: TaskId, place: Option<(SiteId, u64)>) -> bool {
        let holds = place.is_some_and(|(site, run)| self.stands(site, run));
        if holds {
            self.kafka.held.borrow_mut().push(task);
        }
        holds
    }

    /// Keeps a message to a paused run.
    pub(in crate::world) fn stop_message(&self, message: Envelope) {
        self.kafka.stopped.borrow_mut().push(message);
    }

    /// Cuts a process off from the brokers, or reconnects it.
    pub fn set_cut_off(&self, number: u64, is_cut: bool) {
        if let Some(process) = self.kafka.processes.borrow().get(&number) {
            let word = if is_cut { "does not reach" } else { "reaches" };
            self.note(format_args!("process {number} {word} the brokers"));
            process.link.set_cut(is_cut);
        }
    }

    /// Continues all processes, reconnects them, and makes all brokers answer.
    pub fn heal_nodes(self: &Rc<World>) {
        let processes: Vec<u64> = self.kafka.processes.borrow().keys().copied().collect();
        for process in processes {
            self.set_cut_off(process, false);
            self.resume_process(process);
        }
        let sites: Vec<SiteId> = self.kafka.partitions.borrow().keys().copied().collect();
        sites.into_iter().for_each(|site| self.set_available(site, true));
    }

    /// The tasks of processes, apart from those of their sites.
    pub(in crate::world) fn process_tasks(&self) -> Vec<TaskId> {
        let processes = self.kafka.processes.borrow();
        let serving = processes.values().filter(|process| !process.runs.is_empty());
        serving.flat_map(|process| process.tasks.iter().copied()).collect()
    }

    /// Ends all nodes of the world.
    pub(in crate::world) fn end_nodes(&self) {
        drop(self.kafka.processes.take());
        drop(self.kafka.waiting.take());
    }
}
