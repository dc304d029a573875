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
//! a site refuses, until the site or its successor does it. If the log of a site has failed after
//! others have installed the batch, the order is halted: no later commit is accepted, and a restart
//! executes what is in the order.

use super::order::Order;
use super::queue::{Applied, Limits, NotOrdered, OrderQueue, Ordered, Waiting};
use crate::router::Router;
use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{RoutingTable, SiteId, SiteSet, Time};
use isomer_log::{Log, LogError};
use isomer_site::{
    BatchAnswer, BatchOutcome, BatchStep, Checklist, Conflict, Failure, OrderedCommit,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

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
}

#[derive(Default)]
pub(super) struct Progress {
    /// The number of the next batch.
    pub(super) next: u64,
    /// Outcomes that the order may not have durably, and the batch that reports each.
    pub(super) unsettled: VecDeque<(BatchOutcome, Option<u64>)>,
}

impl<T: Transport> Ordering<T> {
    /// The engine over an order's log.
    pub(crate) fn new(
        router: Arc<Router<T>>,
        queue: Arc<OrderQueue>,
        log: Arc<dyn Log>,
        syncs: bool,
    ) -> Ordering<T> {
        let order = Order::new(log);
        let progress = Mutex::new(Progress { next: 1, ..Progress::default() });
        Ordering { router, queue, order, progress, syncs }
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
        match select(pin!(next), pin!(self.router.transport().retry(site))).await {
            Either::Left((next, _)) => next,
            Either::Right(_) => Some(Vec::new()),
        }
    }

    /// Executes batches, until the orderer has ended.
    pub async fn execute_batches(&self) {
        while let Some(Ordered { number, commits }) = self.queue.next_ordered().await {
            let bodies: Vec<&OrderedCommit> = commits.iter().map(|it| &it.commit).collect();
            match self.execute(number, &bodies, None).await {
                Ok(executed) => {
                    self.router.has_committed(executed.time);
                    answer(&commits, &executed);
                    let conflicts = executed.conflicts.iter().flatten().count();
                    self.queue.count(commits.len(), conflicts);
                    self.cut(number, &executed.sites).await;
                }
                Err(error) => {
                    refuse(&commits, |_| NotOrdered::Unknown(error.clone()));
                    self.queue.halt(&error);
                }
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
        let mut failures = 0;
        let entered = loop {
            match self.enter(number, commits).await {
                Ok(entered) => break entered,
                Err((site, failure)) => {
                    // Others may take over from a failed site.
                    let failed = self.router.transport().failure(site);
                    failures += usize::from(failed.is_some());
                    match failed.filter(|_| failures > FAILURES_MAX) {
                        Some(error) => return Err(error),
                        None => self.pause(site, &failure).await?,
                    }
                }
            }
        };
        let Entered { routing, sites, conflicts, at } = entered;
        let conflicts = match known {
            // The clients are gone, so any conflict will do.
            Some(known) => {
                known.applied.iter().map(|it| (!it).then_some(Conflict::Changed)).collect()
            }
            None => conflicts,
        };
        let applied: Vec<bool> = conflicts.iter().map(Option::is_none).collect();
        let time = known.map_or(at, |known| known.time);
        let outcome = BatchOutcome { number, time, applied };
        let outcomes = self.with_earlier(&outcome);
        let mut writes = Checklist::new(commits, &routing).writes(&outcome.applied, &routing);
        // Before any row can be read: a commit that has read one is in a later batch, which reports
        // the time of the row.
        if known.is_none() && !commits.is_empty() {
            self.progress.lock().unsettled.push_back((outcome, None));
        }
        // All sites before any error, so that readers wait for no more than they must.
        let mut installed = Ok(());
        for site in sites.iter() {
            let writes = writes.remove(&site).unwrap_or_default();
            let outcomes = outcomes.clone();
            let step = BatchStep::Install { outcomes, writes, is_repeated: known.is_some() };
            installed = installed.and(self.until_done(site, step).await);
        }
        installed?;
        let first = sites.first().unwrap_or(SiteId(1));
        Ok(Executed { time, conflicts, sites, first })
    }

    /// Lets all sites enter a batch, or none. Returns the first site that refuses.
    async fn enter(
        &self,
        number: u64,
        commits: &[&OrderedCommit],
    ) -> Result<Entered, (SiteId, Failure)> {
        let routing = self.router.routing_table();
        let mut list = Checklist::new(commits, &routing);
        let steps: Vec<(SiteId, BatchStep)> = list
            .sites()
            .map(|(site, footprint, checks)| {
                let (footprint, checks) = (footprint.clone(), checks.to_vec());
                (site, BatchStep::Enter { number, footprint, checks })
            })
            .collect();
        let sites: SiteSet = steps.iter().map(|(site, _)| *site).collect();
        // Batches come one after the other, and all transactions lock in the order of sites.
        let mut at = self.router.transport().now();
        let proposals = sites.iter().map(|site| (site, BatchStep::Propose { number }));
        for (site, step) in steps.into_iter().chain(proposals) {
            match self.router.transport().batch(site, step).await {
                Ok(BatchAnswer::Entered(answers)) => list.answered(site, &answers),
                Ok(BatchAnswer::Proposed(time)) => at = at.max(time),
                Ok(BatchAnswer::Done) => {}
                Err(failure) => {
                    for site in sites.iter() {
                        // A site that has not entered has nothing to leave.
                        let _ = self.router.transport().batch(site, BatchStep::Leave).await;
                    }
                    return Err((site, failure));
                }
            }
        }
        let conflicts = list.decide();
        Ok(Entered { routing, sites, conflicts, at })
    }

    /// Repeats a step until the site has done it.
    async fn until_done(&self, site: SiteId, step: BatchStep) -> Result<(), LogError> {
        loop {
            match self.router.transport().batch(site, step.clone()).await {
                Ok(_) => return Ok(()),
                Err(failure) => {
                    if let Some(error) = self.router.transport().failure(site) {
                        return Err(error);
                    }
                    self.pause(site, &failure).await?;
                }
            }
        }
    }

    async fn pause(&self, site: SiteId, failure: &Failure) -> Result<(), LogError> {
        if self.router.transport().is_closing() {
            return Err(self.order.failed(&failure.to_string()));
        }
        self.router.transport().retry(site).await;
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
            if self.router.transport().batch(site, BatchStep::Settle).await.is_err() {
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

fn answer(commits: &[Arc<Waiting>], executed: &Executed) {
    let applied = Applied { time: executed.time, site: executed.first };
    for (waiting, conflict) in commits.iter().zip(&executed.conflicts) {
        waiting.answer(match conflict {
            None => Ok(applied),
            Some(conflict) => Err(NotOrdered::Conflict(conflict.clone())),
        });
    }
}

fn refuse(commits: &[Arc<Waiting>], why: impl Fn(&Waiting) -> NotOrdered) {
    commits.iter().for_each(|waiting| waiting.answer(Err(why(waiting))));
}
