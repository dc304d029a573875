//! The orderer, which makes batches durable, and the executor, which runs them at the sites.
//!
//! ```text
//!   orderer     close 43 ─ append ─ sync │ close 44 ─ append ─ sync │ …
//!   executor              enter 42, install 42 ─ answer │ enter 43, install 43 ─ answer │ …
//! ```
//!
//! Both are futures without threads. The embedded runtime runs each on a thread of its own, because
//! the orderer waits for the disk.
//!
//! **A failed site.** A batch in the order has to be executed, so the executor repeats a step that
//! a site refuses, until the site or its successor does it. In one process: if the log of a site
//! has failed after others have installed the batch, the order is halted; no later commit is
//! accepted, and a restart executes what is in the order.
//!
//! **Sites in several processes** ([`Ordering::is_apart`]) fail one by one. A batch then ends when
//! all its sites have it durably, so a site that restarts lacks one batch at most.
//!
//! ```text
//!   enter    s1 fails                      undecided: entered anew, at s1 or at its successor
//!   decide ──────────────────────────────  the time and the outcome stay from here on
//!   install  s1 restarts without its rows  s1 holds its partitions; entered and installed again
//!            s2 takes over from s1         the history of s1 is completed before (`takeover`)
//!   settle   s1 restarts                   the same as while it installs
//! ```
//!
//! A commit that names rows of a failed site, from which no other site can take over, fails before
//! the decision. After the decision the order waits for that site.

use super::order::Order;
use super::queue::{Applied, Decided, Limits, NotOrdered, OrderQueue, Ordered, Waiting, Work};
use crate::error::Error;
use crate::router::Router;
use crate::transport::Transport;
use futures_util::future::{Either, join_all, select};
use isomer_design::{Key, RoutingTable, SiteId, SiteSet, TableId, Time};
use isomer_log::{Log, LogError};
use isomer_site::{
    BatchAnswer, BatchOutcome, BatchStep, Checklist, Conflict, Failure, OrderedCommit, RowWrite,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Counting};

/// The number of times that a batch meets a site with a failed log, before the order is halted.
const FAILURES_MAX: usize = 64;

/// The engine of a database's ordered tables. See the [module documentation](self).
pub struct Ordering<T> {
    pub(super) router: Arc<Router<T>>,
    pub(super) queue: Arc<OrderQueue>,
    pub(super) order: Order,
    pub(super) progress: Mutex<Progress>,
    /// True if the orderer syncs the order's log itself.
    syncs: bool,
    /// True if the sites are in several processes, each of which may fail by itself.
    pub(crate) is_apart: bool,
    /// Counts the attempts to enter batches.
    attempts: AtomicU64,
    /// Sites that may wait, and could not be told to go on.
    unreached: Mutex<SiteSet>,
}

#[derive(Default)]
pub(super) struct Progress {
    /// The number of the next batch.
    pub(super) next: u64,
    /// Outcomes that the order may not have durably, and the batch that reports each.
    pub(super) unsettled: VecDeque<(BatchOutcome, Option<u64>)>,
}

/// The outcome of a batch, and the reasons of the commits that are not applied.
#[derive(Clone)]
struct Verdict {
    outcome: BatchOutcome,
    conflicts: Vec<Option<Conflict>>,
}

impl<T: Transport> Ordering<T> {
    /// The engine over an order's log. `syncs`: the orderer syncs it. `is_apart`: sites are in
    /// several processes.
    pub fn new(
        router: Arc<Router<T>>,
        log: Arc<dyn Log>,
        syncs: bool,
        is_apart: bool,
    ) -> Ordering<T> {
        let (order, queue) = (Order::new(log), router.conductor().order.clone());
        let progress = Mutex::new(Progress { next: 1, ..Progress::default() });
        let (attempts, unreached) = Default::default();
        Ordering { router, queue, order, progress, syncs, is_apart, attempts, unreached }
    }

    /// The commits that wait for it.
    pub fn queue(&self) -> &Arc<OrderQueue> {
        &self.queue
    }

    /// Says whether transactions on tables are ordered. The caller knows that the tables have no
    /// transactions, and executes batches meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table; others if a site cannot be asked. The call can
    /// be repeated then.
    pub async fn set_ordered(&self, tables: &[TableId], is_ordered: bool) -> Result<(), Error> {
        crate::conductor::set_ordered(self.router.conductor(), tables, is_ordered).await
    }

    fn transport(&self) -> &T {
        self.router.transport()
    }

    /// Makes batches durable, until the queue is closed or the log has failed.
    pub async fn order_batches(&self) {
        while let Some(commits) = self.next_batch().await {
            if self.queue.is_halted() {
                let error = self.order.failed("the order has been halted");
                refuse(&commits, |_| NotOrdered::Refused(error.clone()));
                continue;
            }
            let (number, outcomes) = self.begin_batch();
            let bodies: Vec<&OrderedCommit> = commits.iter().map(|it| &it.commit).collect();
            let end = match self.order.append(number, &outcomes, &bodies) {
                Ok(end) => end,
                Err(error) => {
                    self.undo_batch(number);
                    refuse(&commits, |_| NotOrdered::Refused(error.clone()));
                    if error.is_final() {
                        self.queue.halt(&error);
                    }
                    continue;
                }
            };
            if let Err(error) = self.order.durable(end, self.syncs).await {
                refuse(&commits, |_| NotOrdered::Unknown(error.clone()));
                self.queue.halt(&error);
                continue;
            }
            self.is_reported(number);
            self.queue.pass(Ordered { number, commits });
        }
        self.queue.end();
    }

    /// The commits of the next batch. None, if outcomes should be reported though none waits.
    async fn next_batch(&self) -> Option<Vec<Arc<Waiting>>> {
        let next = self.queue.next_batch(Limits::default());
        let site = self.router.routing_table().sites().first();
        let Some(site) = site.filter(|_| self.has_unreported()) else { return next.await };
        match select(pin!(next), pin!(self.transport().retry(site))).await {
            Either::Left((next, _)) => next,
            Either::Right(_) => Some(Vec::new()),
        }
    }

    /// The order accepts no commits any more.
    pub(crate) fn halt(&self, what: &str) {
        self.queue.halt(&self.order.failed(what));
    }

    /// Executes batches, until the orderer has ended.
    pub async fn execute_batches(&self) {
        while let Some(work) = self.next_work().await {
            let Work::Batch(Ordered { number, commits }) = work else {
                self.let_sites_go_on(&SiteSet::EMPTY).await;
                continue;
            };
            let bodies: Vec<&OrderedCommit> = commits.iter().map(|it| &it.commit).collect();
            match self.execute(number, &bodies, None).await {
                Ok(executed) => {
                    self.router.has_committed(executed.time);
                    let answers = commits.iter().zip(executed.answers());
                    answers.for_each(|(waiting, answer)| waiting.answer(answer));
                    let conflicts = executed.conflicts.iter().flatten().count();
                    self.queue.count(commits.len(), conflicts);
                    let conductor = self.router.conductor();
                    conductor.ahead.close(conductor);
                    self.cut(number, &executed.sites).await;
                }
                Err(error) => {
                    refuse(&commits, |_| NotOrdered::Unknown(error.clone()));
                    self.queue.halt(&error);
                }
            }
        }
    }

    async fn next_work(&self) -> Option<Work> {
        let next = self.queue.next_work();
        let unreached = self.unreached.lock().first();
        let Some(site) = unreached else { return next.await };
        match select(pin!(next), pin!(self.transport().retry(site))).await {
            Either::Left((work, _)) => work,
            Either::Right(_) => {
                let unreached = std::mem::take(&mut *self.unreached.lock());
                unreached.iter().for_each(|site| self.queue.may_wait(site));
                Some(Work::Sites)
            }
        }
    }

    /// Lets sites go on that wait for the order, except those of the current batch.
    pub(super) async fn let_sites_go_on(&self, busy: &SiteSet) {
        let waiting = self.queue.take_waiting();
        let design = self.router.design();
        for site in (&waiting & design.sites()).iter().filter(|site| !busy.contains(*site)) {
            if self.transport().batch(site, BatchStep::Leave).await.is_err() {
                self.unreached.lock().insert(site);
            }
        }
    }

    fn has_unreported(&self) -> bool {
        self.progress.lock().unsettled.iter().any(|(_, by)| by.is_none())
    }

    /// A number for the next batch, and the outcomes that it reports.
    fn begin_batch(&self) -> (u64, Vec<BatchOutcome>) {
        let mut progress = self.progress.lock();
        let number = progress.next;
        progress.next += 1;
        let unreported = progress.unsettled.iter_mut().filter(|(_, by)| by.is_none());
        let report = |(outcome, by): &mut (BatchOutcome, Option<u64>)| {
            *by = Some(number);
            outcome.clone()
        };
        (number, unreported.map(report).collect())
    }

    /// The batch is not in the order.
    fn undo_batch(&self, number: u64) {
        let mut progress = self.progress.lock();
        progress.next = number;
        let by_it = progress.unsettled.iter_mut().filter(|(_, by)| *by == Some(number));
        by_it.for_each(|(_, by)| *by = None);
    }

    /// The outcomes that this batch reports are durable.
    fn is_reported(&self, number: u64) {
        self.progress.lock().unsettled.retain(|(_, by)| by.is_none_or(|by| by > number));
    }

    /// Executes a batch. `known` is its outcome, if it was executed before.
    pub(super) async fn execute(
        &self,
        number: u64,
        commits: &[&OrderedCommit],
        known: Option<&BatchOutcome>,
    ) -> Result<Executed, LogError> {
        let mut verdict = known.map(|known| Verdict {
            outcome: known.clone(),
            conflicts: known.applied.iter().map(not_applied).collect(),
        });
        let (mut failures, mut lost) = (0, SiteSet::EMPTY);
        loop {
            let takeovers = self.queue.takeovers();
            let is_repeated = verdict.is_some();
            let entered = match self.enter(number, commits, (&lost, is_repeated)).await {
                Ok(entered) => entered,
                Err((site, failure)) => {
                    if !is_repeated && self.is_lost_for_good(site, commits) {
                        lost.insert(site);
                    }
                    self.wait_for(site, &failure, &mut failures).await?;
                    continue;
                }
            };
            let decided = match &verdict {
                Some(verdict) => verdict.clone(),
                None => {
                    let applied = entered.conflicts.iter().map(Option::is_none).collect();
                    let outcome = BatchOutcome { number, time: entered.at, applied };
                    Verdict { outcome, conflicts: entered.conflicts.clone() }
                }
            };
            let outcomes = self.with_earlier(&decided.outcome);
            let list = Checklist::new(commits, &entered.routing, &lost);
            let mut writes = list.writes(&decided.outcome.applied, &entered.routing);
            let moved = self.moved(&writes);
            if self.is_apart && !is_repeated {
                let all = writes.values().flatten().cloned().collect();
                let known = Decided { outcomes: outcomes.clone(), writes: all };
                if !self.queue.decide(takeovers, known) {
                    continue;
                }
            }
            // Before any row can be read: a commit that has read one is in a later batch, which
            // reports the time of the row.
            if !is_repeated && !commits.is_empty() {
                self.progress.lock().unsettled.push_back((decided.outcome.clone(), None));
            }
            verdict = Some(decided.clone());
            let steps = entered.sites.iter().map(|site| {
                let writes = writes.remove(&site).unwrap_or_default();
                (site, BatchStep::Install { outcomes: outcomes.clone(), writes, is_repeated })
            });
            if let Err((site, failure)) = self.end(number, steps.collect()).await {
                // The rows of one process are at some of its sites only.
                if !self.is_apart
                    && let Some(error) = self.transport().failure(site)
                {
                    return Err(error);
                }
                self.let_sites_go_on(&entered.sites).await;
                self.wait_for(site, &failure, &mut 0).await?;
                continue;
            }
            self.queue.is_done(number);
            if !moved.is_empty() {
                let conductor = self.router.conductor();
                conductor.ahead.moved(conductor, &moved);
            }
            if is_repeated {
                // A site may have entered at an earlier attempt only.
                let design = self.router.design();
                design.sites().iter().for_each(|site| self.queue.may_wait(site));
            }
            let Verdict { outcome, conflicts } = decided;
            let first = entered.sites.first().unwrap_or(SiteId(1));
            return Ok(Executed { time: outcome.time, conflicts, sites: entered.sites, first });
        }
    }

    /// The places in the fused table that a batch writes, and whether rows are there then, if
    /// statements ask for their sites.
    fn moved(&self, writes: &BTreeMap<SiteId, Vec<RowWrite>>) -> Vec<(Key, bool)> {
        let is_on = self.router.conductor().ahead.is_on();
        let Some(fused) = self.router.ordered().fused().filter(|_| is_on) else {
            return Vec::new();
        };
        let of_fused = writes.values().flatten().filter(|write| write.table == fused);
        of_fused.map(|write| (write.key.clone(), write.value.is_some())).collect()
    }

    /// Installs a batch at its sites, all before any error, so that readers wait for no more than
    /// they must. Where sites are in several processes, waits until all have it durably.
    async fn end(
        &self,
        number: u64,
        steps: Vec<(SiteId, BatchStep)>,
    ) -> Result<(), (SiteId, Failure)> {
        let sites: Vec<SiteId> = steps.iter().map(|(site, _)| *site).collect();
        self.all(steps).await?;
        match self.is_apart {
            true => {
                let settle = |site: &SiteId| (*site, BatchStep::Settle { number });
                self.all(sites.iter().map(settle).collect()).await.map(drop)
            }
            false => Ok(()),
        }
    }

    /// Takes steps at several sites at once. Returns the first failure.
    async fn all(
        &self,
        steps: Vec<(SiteId, BatchStep)>,
    ) -> Result<Vec<BatchAnswer>, (SiteId, Failure)> {
        let each = steps.into_iter().map(|(site, step)| async move {
            self.transport().batch(site, step).await.map_err(|failure| (site, failure))
        });
        join_all(each).await.into_iter().collect()
    }

    /// True if no other site can take over from a failed one what these commits name.
    fn is_lost_for_good(&self, site: SiteId, commits: &[&OrderedCommit]) -> bool {
        let is_gone = matches!(self.transport().failure(site), Some(LogError::Gone { .. }));
        let design = self.router.design();
        let list = Checklist::new(commits, &self.router.routing_table(), &SiteSet::EMPTY);
        let is_backed = |table| design.table(table).is_ok_and(|it| it.backups().count > 0);
        is_gone
            && list
                .sites()
                .filter(|(at, ..)| *at == site)
                .all(|(_, footprint, _)| !footprint.items().iter().any(|it| is_backed(it.table)))
    }

    /// Lets all sites enter a batch. Returns the first site that refuses. `is_repeated`: the batch
    /// was decided.
    async fn enter(
        &self,
        number: u64,
        commits: &[&OrderedCommit],
        (lost, is_repeated): (&SiteSet, bool),
    ) -> Result<Entered, (SiteId, Failure)> {
        let routing = self.router.routing_table();
        let attempt = self.attempts.fetch_add(1, Counting::Relaxed) + 1;
        let mut list = Checklist::new(commits, &routing, lost);
        let steps: Vec<(SiteId, BatchStep)> = list
            .sites()
            .map(|(site, footprint, checks)| {
                let (footprint, checks) = (footprint.clone(), checks.to_vec());
                (site, BatchStep::Enter { number, attempt, footprint, checks })
            })
            .collect();
        let sites: SiteSet = steps.iter().map(|(site, _)| *site).collect();
        let now = self.transport().now();
        match self.enter_sites(number, steps, &mut list).await {
            Ok(times) => {
                let (conflicts, at) = (list.decide(), times.into_iter().fold(now, Time::max));
                Ok(Entered { routing, sites, conflicts, at })
            }
            Err(refused) => {
                self.stop_entering(&sites, is_repeated).await;
                Err(refused)
            }
        }
    }

    /// Takes the steps to enter, and notes the answers. Returns the times that the sites propose.
    async fn enter_sites(
        &self,
        number: u64,
        steps: Vec<(SiteId, BatchStep)>,
        list: &mut Checklist<'_>,
    ) -> Result<Vec<Time>, (SiteId, Failure)> {
        let propose = |site: &(SiteId, BatchStep)| (site.0, BatchStep::Propose { number });
        let proposals = steps.iter().map(propose).collect();
        // One after the other: all transactions lock in the order of sites.
        for (site, step) in steps {
            match self.transport().batch(site, step).await {
                Ok(BatchAnswer::Entered(answers)) => list.answered(site, &answers),
                Ok(_) => {}
                Err(failure) => return Err((site, failure)),
            }
        }
        let proposed = self.all(proposals).await?;
        let time = |answer: &BatchAnswer| match answer {
            BatchAnswer::Proposed(time) => Some(*time),
            _ => None,
        };
        Ok(proposed.iter().filter_map(time).collect())
    }

    /// Lets sites release a batch that not all of them could enter. If it was decided, they keep
    /// what they hold, because some may have its rows already.
    async fn stop_entering(&self, sites: &SiteSet, is_decided: bool) {
        if !is_decided {
            sites.iter().for_each(|site| self.queue.may_wait(site));
        }
        self.let_sites_go_on(if is_decided { sites } else { &SiteSet::EMPTY }).await;
    }

    /// Waits until a step that a site has refused may be repeated.
    async fn wait_for(
        &self,
        site: SiteId,
        failure: &Failure,
        failures: &mut usize,
    ) -> Result<(), LogError> {
        if self.transport().is_closing() {
            return Err(self.order.failed(&failure.to_string()));
        }
        // Others may take over from a failed site.
        if let Some(error) = self.transport().failure(site).filter(|_| !self.is_apart) {
            *failures += 1;
            if *failures > FAILURES_MAX {
                return Err(error);
            }
        }
        self.transport().retry(site).await;
        Ok(())
    }

    /// The outcomes that the order may not have durably, and this one.
    fn with_earlier(&self, outcome: &BatchOutcome) -> Vec<BatchOutcome> {
        let progress = self.progress.lock();
        let earlier = progress.unsettled.iter().map(|(outcome, _)| outcome.clone());
        earlier.chain([outcome.clone()]).collect()
    }

    /// Cuts a long order before this batch, once all sites have everything durably.
    async fn cut(&self, number: u64, sites: &SiteSet) {
        if !self.order.is_long() {
            return;
        }
        let all = &self.router.design().sites().clone() | sites;
        for site in all.iter() {
            if self.transport().batch(site, BatchStep::Settle { number: 0 }).await.is_err() {
                return;
            }
        }
        // If this fails, a later cut removes more.
        let _ = self.order.cut_before(number);
    }
}

/// A batch that all its sites have entered.
struct Entered {
    routing: Arc<RoutingTable>,
    sites: SiteSet,
    conflicts: Vec<Option<Conflict>>,
    at: Time,
}

/// A batch that was executed.
pub(super) struct Executed {
    time: Time,
    conflicts: Vec<Option<Conflict>>,
    sites: SiteSet,
    first: SiteId,
}

impl Executed {
    /// A batch that all sites have.
    pub(super) fn of(outcome: &BatchOutcome) -> Executed {
        let conflicts = outcome.applied.iter().map(not_applied).collect();
        Executed { time: outcome.time, conflicts, sites: SiteSet::EMPTY, first: SiteId(1) }
    }

    /// The answers to its commits.
    pub(super) fn answers(&self) -> impl Iterator<Item = Result<Applied, NotOrdered>> {
        let applied = Applied { time: self.time, site: self.first };
        self.conflicts.iter().map(move |conflict| match conflict {
            None => Ok(applied),
            Some(conflict) => Err(NotOrdered::Conflict(conflict.clone())),
        })
    }
}

/// The conflict of a commit that was decided before. Its reason was not kept, and its client only
/// asks whether it was applied.
fn not_applied(applied: &bool) -> Option<Conflict> {
    (!applied).then_some(Conflict::Forgotten)
}

fn refuse(commits: &[Arc<Waiting>], why: impl Fn(&Waiting) -> NotOrdered) {
    commits.iter().for_each(|waiting| waiting.answer(Err(why(waiting))));
}
