//! The transport from the router to the sites: requests that take time, and answers that may be
//! lost.
//!
//! A request that reaches a site is carried out while that run of the site lasts. If the site
//! crashes before its answer arrives, or the request or its answer is lost, the router gets
//! [`Failure::Stopped`]. It is unknown then whether the request was carried out.

use super::kafka::STALE_NS;
use super::{Gate, World};
use crate::plant::{self, Plant};
use isomer_cluster::{Transport, load_of};
use isomer_design::{Domains, Footprint, SiteId, Time};
use isomer_log::{LogError, Position};
use isomer_site::{
    Abort, Answer, BatchAnswer, BatchStep, Body, Failure, OrderedSite, Part, PartAnswer, Peers,
    Pin, Procedure, Published, Read, Refusal, Reply, Request, RowWrite, SeenUpTo, Site, Step, Txn,
    VisitRow,
};
use isomer_strategy::SiteLoad;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// The interval, in nanoseconds, after which a router retries.
const RETRY_NS: u64 = 3_000_000;
/// How long a client waits for a node that is down, in nanoseconds.
const OUTAGE_NS: u64 = 100_000_000;
/// The longest time after which a request is cancelled, or counts as lost, in nanoseconds.
const GIVE_UP_NS: u64 = 4_000_000;

/// See the [module documentation](self).
#[derive(Clone)]
pub struct SimTransport {
    world: Rc<World>,
}

impl SimTransport {
    /// The transport to the sites of a world.
    pub fn new(world: Rc<World>) -> SimTransport {
        SimTransport { world }
    }

    pub(crate) fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// Runs or coordinates a transaction at a site, without planted bugs.
    pub(crate) async fn execute_honestly(
        &self,
        site: SiteId,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        let (footprint, branches) = (request.footprint, request.branches);
        let verb = if branches.is_some() { "coordinate" } else { "run" };
        self.world.doing(|| format!("waits for {site} to {verb}: {footprint}"));
        let Some((host, run)) = self.arrive(site).await else { return Err(Failure::Stopped(site)) };
        let mut living;
        let mut request = request.again();
        if let Body::Here(procedure) = request.body {
            living = Living { world: &self.world, site, run, procedure };
            request.body = Body::Here(&mut living);
        }
        // The publication, for which row locks wait, may arrive late, or be lost with its site.
        let is_late = !matches!(request.body, Body::Here(_)) && self.world.chance(500);
        let mut late = None;
        let execution = async {
            let mut published = |time| if is_late { late = Some(time) } else { published(time) };
            match branches {
                None => host.run(request, &mut published).await,
                Some(_) => host.coordinate(request, &mut published, self).await,
            }
        };
        let result = self.patiently(site, run, execution).await;
        let result = result.ok_or(Failure::Stopped(site))?;
        self.note_result(site, footprint, &result);
        if !self.returns(site, run).await {
            return Err(Failure::Stopped(site));
        }
        late.into_iter().for_each(published);
        result
    }

    /// Takes a step of a batch at a site, without planted bugs.
    pub(crate) async fn batch_honestly(
        &self,
        site: SiteId,
        step: BatchStep,
    ) -> Result<BatchAnswer, Failure> {
        let what = batch_words(&step);
        self.world.doing(|| format!("waits for {site} to {what}"));
        let stopped = Failure::Stopped(site);
        let Some((host, run)) = self.arrive(site).await else { return Err(stopped) };
        self.world.note(format_args!("{site} is asked to {what}"));
        if let BatchStep::Install { outcomes, .. } = &step
            && let Some(own) = outcomes.last()
        {
            self.world.first_installed.borrow_mut().entry(own.number).or_insert(own.time);
        }
        let answer = self.patiently(site, run, OrderedSite(&host).take(step)).await;
        let answer = answer.ok_or(stopped.clone())?;
        match &answer {
            Ok(_) => self.world.note(format_args!("{site} has done: {what}")),
            Err(failure) => self.world.note(format_args!("{site} refused to {what}: {failure}")),
        }
        if self.returns(site, run).await { answer } else { Err(stopped) }
    }

    fn note_result(&self, site: SiteId, footprint: &Footprint, result: &Result<Reply, Failure>) {
        match result {
            Ok(Reply { committed, .. }) => self.world.note(format_args!(
                "{site} committed {footprint}: {}{}",
                committed.snapshot,
                committed.commit.map(|commit| format!(" {commit}")).unwrap_or_default()
            )),
            Err(failure) => self.world.note(format_args!("{site} refused {footprint}: {failure}")),
        }
    }

    /// Sends a request that is not in the trace.
    async fn ask<A>(
        &self,
        site: SiteId,
        what: &str,
        work: impl AsyncFnOnce(Arc<Site>) -> Result<A, Failure>,
    ) -> Result<A, Failure> {
        self.world.doing(|| format!("waits for {site} to {what}"));
        let stopped = Failure::Stopped(site);
        let Some((host, run)) = self.arrive(site).await else { return Err(stopped) };
        let answer = self.patiently(site, run, work(host)).await;
        if self.returns(site, run).await { answer.unwrap_or(Err(stopped)) } else { Err(stopped) }
    }

    /// A client's request travels to a site; `None` if it is lost, or the site is down. If sites
    /// are at nodes, it may reach the process that had the site before.
    async fn arrive(&self, site: SiteId) -> Option<(Arc<Site>, u64)> {
        self.arrive_at(site, World::run_for_client).await
    }

    /// The same for requests between processes, which go to the process that connected last.
    async fn arrive_at_last(&self, site: SiteId) -> Option<(Arc<Site>, u64)> {
        self.arrive_at(site, World::run_of).await
    }

    async fn arrive_at(
        &self,
        site: SiteId,
        find: fn(&World, SiteId) -> Option<u64>,
    ) -> Option<(Arc<Site>, u64)> {
        if self.is_lost().await {
            self.world.note(format_args!("a request to {site} is lost"));
            return None;
        }
        self.world.sleep(self.world.delay()).await;
        self.world.pass(Gate::Requests(site)).await;
        let mut run = find(&self.world, site);
        let until = self.world.now().0 + OUTAGE_NS;
        // The sender waits for a process that is down.
        while run.is_none() && self.world.node_of(site).is_some() && self.world.now().0 < until {
            self.world.sleep(RETRY_NS).await;
            run = find(&self.world, site);
        }
        if run.is_none() {
            self.world.note(format_args!("{site} is down: a request is lost"));
        }
        Some((self.world.site_in(site, run?)?, run?))
    }

    /// Lets a site work on a request while it runs, or, by chance, for a shorter time: then the
    /// connection breaks, and the site drops the request in whatever state it is.
    async fn patiently<F: Future>(&self, site: SiteId, run: u64, work: F) -> Option<F::Output> {
        let give_up = self.world.chance(self.world.manners().give_up_per_mille);
        let cancel = self.world.sleep(if give_up { self.world.draw(0..GIVE_UP_NS) } else { 0 });
        let (mut work, mut cancel) = (pin!(work), pin!(cancel));
        let both = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if give_up => cancel.as_mut().poll(cx).map(|()| None),
            Poll::Pending => Poll::Pending,
        });
        let done = self.world.while_running(site, run, both).await?;
        if done.is_none() {
            self.world.note(format_args!("{site} is given up: a request ends half-way"));
        }
        done
    }

    /// True if a message is lost; returns after the sender's timeout.
    async fn is_lost(&self) -> bool {
        let lost = self.world.chance(self.world.manners().lose_per_mille);
        if lost {
            self.world.sleep(self.world.draw(0..GIVE_UP_NS)).await;
        }
        lost
    }

    /// An answer travels back; false if it is lost, or its site crashes.
    async fn returns(&self, site: SiteId, run: u64) -> bool {
        if self.is_lost().await {
            self.world.note(format_args!("an answer of {site} is lost"));
            return false;
        }
        let back = async {
            self.world.sleep(self.world.delay()).await;
            self.world.pass(Gate::Answers(site)).await;
        };
        let returned = self.world.while_running(site, run, back).await.is_some();
        if !returned {
            self.world.note(format_args!("{site} crashed: an answer is lost"));
        }
        returned
    }
}

impl Peers for SimTransport {
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        let what = part_words(&part);
        let stopped = Failure::Stopped(site);
        let Some((host, run)) = self.arrive_at_last(site).await else { return Err(stopped) };
        self.world.note(format_args!("{site} is asked to {what}"));
        let answer = self.patiently(site, run, host.part(part)).await;
        let answer = answer.ok_or(stopped.clone())?;
        match &answer {
            Ok(_) => self.world.note(format_args!("{site} has done: {what}")),
            Err(failure) => self.world.note(format_args!("{site} refused to {what}: {failure}")),
        }
        if self.returns(site, run).await { answer } else { Err(stopped) }
    }
}

impl Transport for SimTransport {
    fn drop_revokes(&self, site: SiteId) -> bool {
        self.world.is_home(site)
    }

    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        plant::transport::execute(self, site, request, published).await
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
        let moved = plant::transport::time_of_read(self, at);
        let (at, pin) = (moved, pin.filter(|_| moved == at));
        let mut rows = Vec::new();
        let mut collect = |key: &[u8], row: &[u8], time: Time| {
            rows.push((key.to_vec(), row.to_vec(), time));
            ControlFlow::Continue(())
        };
        let seen = self
            .ask(site, "read", async |host| host.read_at(read, at, pin, &mut collect).await)
            .await?;
        let _ = rows.iter().try_for_each(|(key, row, time)| visit(key, row, *time));
        Ok(seen)
    }

    async fn pin(&self, site: SiteId, at: Time) -> Result<Pin, Failure> {
        self.ask(site, "pin", async |host| host.pin(at)).await
    }

    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure> {
        self.ask(site, "keep history", async |host| Ok(host.lease(from))).await
    }

    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure> {
        if self.world.spoils(Plant::UnsyncedRead, 1000) {
            return Ok(());
        }
        self.ask(site, "sync", async |host| host.until_durable(seen).await).await
    }

    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        let what = words(&step);
        let is_own_admission = matches!(step, Step::Admit(of) if of == site);
        self.world.doing(|| format!("waits for {site} to {what}"));
        let unavailable = Refusal::Unavailable(site);
        let Some((host, run)) = self.arrive_at_last(site).await else { return Err(unavailable) };
        self.world.note(format_args!("{site} is asked to {what}"));
        let answer = self.patiently(site, run, host.step(step)).await;
        let answer = answer.ok_or(unavailable.clone())?;
        if is_own_admission && answer.is_ok() {
            self.world.set_readmitted(site);
        }
        match &answer {
            Ok(_) => self.world.note(format_args!("{site} has done: {what}")),
            Err(refusal) => self.world.note(format_args!("{site} refused to {what}: {refusal}")),
        }
        if self.returns(site, run).await { answer } else { Err(unavailable) }
    }

    async fn batch(&self, site: SiteId, step: BatchStep) -> Result<BatchAnswer, Failure> {
        plant::order::batch(self, site, step).await
    }

    fn domains(&self) -> Domains {
        self.world.domains()
    }

    fn stale_for(&self) -> u64 {
        let has_nodes = self.world.sites().iter().any(|site| self.world.node_of(*site).is_some());
        if has_nodes { STALE_NS } else { 0 }
    }

    fn failure(&self, site: SiteId) -> Option<LogError> {
        let what = || "nobody waits for it".into();
        self.world.is_given_up(site).then(|| LogError::Gone { what: what() })
    }

    async fn retry(&self, _site: SiteId) {
        self.world.sleep(RETRY_NS).await;
    }

    fn set_taken_over(&self, site: SiteId, end: Option<Position>) {
        self.world.set_taken_over(site, end);
    }

    fn load(&self, site: SiteId) -> SiteLoad {
        load_of(site, self.world.site(site).as_deref())
    }

    fn now(&self) -> Time {
        self.world.now()
    }
}

/// A procedure that fails if the run of its site has ended.
struct Living<'p> {
    world: &'p World,
    site: SiteId,
    run: u64,
    procedure: &'p mut dyn Procedure,
}

impl Procedure for Living<'_> {
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort> {
        self.world.enter_place(self.site, self.run);
        self.procedure.run(txn)?;
        // The site may have crashed while the procedure was paused.
        let lives = self.world.runs(self.site, self.run);
        if lives { Ok(()) } else { Err(Abort::because("the site died")) }
    }
}

/// A step of a batch, in a few words.
fn batch_words(step: &BatchStep) -> String {
    match step {
        BatchStep::Enter { number, footprint, .. } => format!("enter batch {number}: {footprint}"),
        BatchStep::Propose { number } => format!("propose a time for batch {number}"),
        BatchStep::Install { outcomes, writes, .. } => {
            let last = outcomes.last().map_or(0, |outcome| outcome.number);
            format!("install batch {last}: {}", keys(writes))
        }
        BatchStep::Leave => "leave its batch".to_owned(),
        BatchStep::Settle { number } => format!("settle batch {number}"),
        BatchStep::Tell => "tell outcomes of batches".to_owned(),
    }
}

/// A request to a participant, in a few words.
fn part_words(part: &Part) -> String {
    match part {
        Part::Enter { txn, footprint, .. } => format!("enter {txn}: {footprint}"),
        Part::Prepare { txn, writes, .. } => format!("prepare {txn}: {}", keys(writes)),
        Part::PrepareAll { txn, writes, .. } => format!("prepare {txn} whole: {}", keys(writes)),
    }
}

fn keys(writes: &[RowWrite]) -> String {
    let keys = writes.iter().map(|write| format!("{}[{}]", write.table, write.key));
    let keys = keys.collect::<Vec<_>>().join(", ");
    if keys.is_empty() { "no rows".to_owned() } else { keys }
}

/// A step in a few words.
pub(crate) fn words(step: &Step) -> String {
    match step {
        Step::Create(table, ranges) => format!("create {} partitions of {table}", ranges.len()),
        Step::Split(table, at) => format!("split {table} at {at}"),
        Step::Merge(table, at) => format!("merge {table} at {at}"),
        Step::Follow(table, start, site) => format!("let {site} follow {table}[{start}]"),
        Step::Install(snapshot) => {
            format!("install {}{}", snapshot.table, snapshot.range)
        }
        Step::Unfollow(table, start, site) => {
            format!("let {site} no longer follow {table}[{start}]")
        }
        Step::Drop(table, range) => format!("drop {table}{range}"),
        Step::Release(table, start, to) => format!("release {table}[{start}] to {to}"),
        Step::Acquire(table, start) => format!("acquire {table}[{start}]"),
        Step::Standing(table, start) => format!("say how far {table}[{start}] is durable"),
        Step::Promote(table, start, version, _) => {
            format!("promote {table}[{start}] from version {version}")
        }
        Step::Turn(table, start, _, to) => format!("follow {to} in {table}[{start}]"),
        Step::Discard(table, range) => format!("discard {table}{range}"),
        Step::Forget(table) => format!("forget {table}"),
        Step::Describe => "describe itself".to_owned(),
        Step::Finish => "finish what it has decided about".to_owned(),
        Step::Dismiss(site) => format!("keep nothing for {site}"),
        Step::Backups(table, backups) => format!("let {table} have backups: {backups}"),
        Step::BackedBy(table, start, site) => format!("have {table}[{start}] backed by {site}"),
        Step::Fence(site) => format!("hear no more of {site}"),
        Step::TakeFrames(from, frames) => format!("take {} frames of {from}", frames.len()),
        Step::EndInDoubt(outcomes) => format!("end {} transactions", outcomes.len()),
        Step::Replaced(site) => format!("wait no more for {site}"),
        Step::Admit(site) => format!("hear {site} again"),
    }
}
