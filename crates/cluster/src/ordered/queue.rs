//! Commits that wait for their place in the order, and for their outcome.
//!
//! ```text
//!   submit ──▶ waiting ──▶ taken by the orderer ──▶ ordered ──▶ taken by the executor ──▶ answered
//! ```
//!
//! The queue is the only state that clients and takeovers share with the engine.
//!
//! **Takeovers.** A batch that was decided may be at some of its sites only. If others take over
//! from a site, they complete its history with its part of that batch ([`Decided`]), as they do
//! with the transactions that it had prepared. A batch that was not decided is entered again at the
//! new masters; a takeover that has begun is counted for that ([`OrderQueue::takeovers`]).

use super::recent::{Outcome, Recent};
use super::recover::decided;
use futures_util::task::AtomicWaker;
use isomer_design::{SiteId, SiteSet, Time};
use isomer_log::LogError;
use isomer_site::{BatchOutcome, CommitId, Conflict, OrderedBatch, OrderedCommit, RowWrite};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The largest commit, in bytes of keys and rows.
pub(crate) const COMMIT_BYTES_MAX: usize = 64 << 20;

/// The limits at which a batch is closed though more commits wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// The number of commits.
    pub(crate) commits: usize,
    /// The bytes of their writes.
    pub(crate) bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { commits: 10_000, bytes: 8 << 20 }
    }
}

/// Why a commit was not applied, or may not have been.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum NotOrdered {
    /// Another commit came first in the order.
    #[error("another commit came first: {0:?}")]
    Conflict(Conflict),
    /// It has no place in the order: nothing was written.
    #[error("the order's log refuses commits: {0}")]
    Refused(LogError),
    /// It may be in the order.
    #[error("the order's log has failed: {0}")]
    Unknown(LogError),
    /// There is no order here, or not yet.
    #[error("this process does not order commits")]
    NotHere,
    /// It is not in the order, and never will be.
    #[error("it was not ordered")]
    Never,
}

/// The place and time of an applied commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) time: Time,
    pub(crate) site: SiteId,
}

/// A commit that waits.
pub(crate) struct Waiting {
    pub(crate) commit: OrderedCommit,
    bytes: usize,
    outcome: Arc<Outcome>,
}

impl Waiting {
    pub(crate) fn answer(&self, answer: Result<Applied, NotOrdered>) {
        self.outcome.answer(answer);
    }
}

/// A batch whose outcome is known, and which a site may lack.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// Its outcome, after those that the order may not have durably.
    pub(crate) outcomes: Vec<BatchOutcome>,
    /// The rows of its applied commits, ordered by table and key.
    pub(crate) writes: Vec<RowWrite>,
}

impl Decided {
    /// The number of the batch.
    pub(crate) fn number(&self) -> u64 {
        self.outcomes.last().map_or(0, |outcome| outcome.number)
    }
}

/// A batch that is durable in the order.
pub(crate) struct Ordered {
    pub(crate) number: u64,
    pub(crate) commits: Vec<Arc<Waiting>>,
}

/// Work of the executor.
pub(super) enum Work {
    /// Execute a batch.
    Batch(Ordered),
    /// Let sites go on that wait.
    Sites,
}

/// See the [module documentation](self).
#[derive(Default)]
pub struct OrderQueue {
    state: Mutex<State>,
    orderer: AtomicWaker,
    executor: AtomicWaker,
    counters: [AtomicU64; 3],
    /// The number of the last name of a commit of this process.
    named: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Waiting>>,
    ordered: VecDeque<Ordered>,
    /// True once there is an engine.
    is_running: bool,
    /// Those that wait for an engine.
    until_running: Vec<Waker>,
    /// The batch that the executor is installing.
    decided: Option<Decided>,
    /// The batches that were found in the order, from the first on that sites may lack.
    found: Vec<OrderedBatch>,
    takeovers: u64,
    /// The outcomes of commits of gateways elsewhere.
    recent: Recent,
    /// Outcomes in the logs of sites whose processes are down.
    of_lost: Vec<BatchOutcome>,
    /// Sites that the executor has to let go on.
    waiting_sites: SiteSet,
    /// Set once the order accepts no more commits.
    halted: Option<LogError>,
    is_closed: bool,
    /// No batch comes any more.
    is_over: bool,
}

impl State {
    /// Notes outcomes in the logs of sites. Only the last batch with an outcome may be lacking at
    /// sites: each is entered after the one before has ended.
    fn know(&mut self, outcomes: &[BatchOutcome]) {
        let known = self.decided.as_ref().map_or(0, Decided::number);
        let later = self.found.iter().rev().take_while(|found| found.number > known);
        let with_outcome = later.filter_map(|found| {
            let outcome = outcomes.iter().find(|outcome| outcome.number == found.number)?;
            Some(decided(found, outcome.clone()))
        });
        if let Some(last) = with_outcome.into_iter().next() {
            self.decided = Some(last);
        }
    }
}

/// Counts of the order since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OrderCounters {
    /// Batches.
    pub batches: u64,
    /// Commits in them.
    pub commits: u64,
    /// Commits that were not applied.
    pub conflicts: u64,
}

impl OrderQueue {
    /// There is an engine from now on.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        state.is_running = true;
        state.until_running.drain(..).for_each(Waker::wake);
    }

    /// Ready once there is an engine.
    pub(crate) async fn running(&self) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.is_running {
                return Poll::Ready(());
            }
            state.until_running.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// True if there is an engine.
    pub fn is_running(&self) -> bool {
        self.state.lock().is_running
    }

    /// The number of takeovers that have begun.
    pub(super) fn takeovers(&self) -> u64 {
        self.state.lock().takeovers
    }

    /// Notes the decision about a batch, unless a takeover has begun since this number of them:
    /// some of its sites may have entered it, and not their successors. Returns false then.
    pub(super) fn decide(&self, takeovers: u64, decided: Decided) -> bool {
        let mut state = self.state.lock();
        if state.takeovers != takeovers {
            return false;
        }
        state.decided = Some(decided);
        true
    }

    /// All sites have the batches up to this number.
    pub(super) fn is_done(&self, number: u64) {
        let mut state = self.state.lock();
        state.decided.take_if(|decided| decided.number() <= number);
        state.found.retain(|found| found.number > number);
    }

    /// Some sites may lack the last of these batches that has an outcome, which one of these or a
    /// site that cannot be asked may know.
    pub(super) fn may_lack(&self, batches: Vec<OrderedBatch>, outcomes: &[BatchOutcome]) {
        let mut state = self.state.lock();
        state.found = batches;
        let known = [outcomes, &state.of_lost].concat();
        state.know(&known);
    }

    /// A takeover begins. Returns the batch that the failed sites may lack.
    pub(crate) fn take_over(&self) -> Option<Decided> {
        let mut state = self.state.lock();
        state.takeovers += 1;
        state.decided.clone()
    }

    /// Notes outcomes in the log of a site whose process is down.
    pub(crate) fn note_of_lost(&self, outcomes: Vec<BatchOutcome>) {
        let mut state = self.state.lock();
        state.know(&outcomes);
        state.of_lost.extend(outcomes);
    }

    pub(super) fn of_lost(&self) -> Vec<BatchOutcome> {
        self.state.lock().of_lost.clone()
    }

    /// A site may have recovered, and [waits](isomer_site::OrderedSite::wait_for_order).
    pub fn may_wait(&self, site: SiteId) {
        self.state.lock().waiting_sites.insert(site);
        self.executor.wake();
    }

    /// Sites that may wait. Those that are not left to continue must be noted again.
    pub(super) fn take_waiting(&self) -> SiteSet {
        std::mem::take(&mut self.state.lock().waiting_sites)
    }

    /// Counts of the order.
    pub fn counters(&self) -> OrderCounters {
        let [batches, commits, conflicts] =
            self.counters.each_ref().map(|count| count.load(Ordering::Relaxed));
        OrderCounters { batches, commits, conflicts }
    }

    pub(crate) fn count(&self, commits: usize, conflicts: usize) {
        for (counter, more) in self.counters.iter().zip([1, commits, conflicts]) {
            counter.fetch_add(more as u64, Ordering::Relaxed);
        }
    }

    /// A name for a commit of this process, whose number among all is `gateway`.
    pub(crate) fn name(&self, gateway: u64) -> CommitId {
        CommitId { gateway, number: self.named.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Puts a commit into the order, and waits for its outcome. Once it is in the queue, it can be
    /// applied, even if this is dropped.
    ///
    /// # Errors
    /// [`NotOrdered`].
    pub(crate) async fn submit(&self, commit: OrderedCommit) -> Result<Applied, NotOrdered> {
        let row = |row: &Option<Vec<u8>>| row.as_ref().map_or(0, Vec::len);
        let rows = commit.writes.values().flatten();
        let bytes = rows.map(|(key, write)| key.len() + row(&write.row)).sum();
        let outcome = {
            let mut state = self.state.lock();
            if let Some(error) = &state.halted {
                return Err(NotOrdered::Refused(error.clone()));
            }
            if !state.is_running {
                return Err(NotOrdered::NotHere);
            }
            let outcome = state.recent.begin(commit.id).ok_or(NotOrdered::Never)?;
            let waiting = Waiting { commit, bytes, outcome: outcome.clone() };
            state.waiting.push_back(Arc::new(waiting));
            outcome
        };
        self.orderer.wake();
        outcome.wait().await
    }

    /// The outcome of a commit of a gateway that has got no answer. If it is not in the order, it
    /// never will be.
    ///
    /// # Errors
    /// [`NotOrdered`].
    pub(crate) async fn outcome_of(&self, id: CommitId) -> Result<Applied, NotOrdered> {
        let outcome = {
            let mut state = self.state.lock();
            if !state.is_running {
                return Err(NotOrdered::NotHere);
            }
            state.recent.find(id)
        };
        outcome.wait().await
    }

    /// Notes a commit that was found in the order. Its outcome follows.
    pub(super) fn note_found(&self, id: CommitId) -> Option<Arc<Outcome>> {
        self.state.lock().recent.begin(id).filter(|_| id.gateway != 0)
    }

    /// Waits until all that was ordered so far is executed, and its outcomes are durable.
    ///
    /// # Errors
    /// [`NotOrdered`].
    pub(crate) async fn settle(&self) -> Result<(), NotOrdered> {
        // The first is executed after all earlier ones. The batch of the second reports outcomes.
        self.submit(OrderedCommit::default()).await?;
        self.submit(OrderedCommit::default()).await?;
        Ok(())
    }

    /// Waits for commits, and takes those of the next batch. `None` once the queue is closed.
    pub(super) async fn next_batch(&self, limits: Limits) -> Option<Vec<Arc<Waiting>>> {
        poll_fn(|cx| {
            self.orderer.register(cx.waker());
            let mut state = self.state.lock();
            let mut bytes = 0;
            let fits = |waiting: &&Arc<Waiting>| {
                bytes += waiting.bytes;
                bytes <= limits.bytes
            };
            let fit = state.waiting.iter().take(limits.commits).take_while(fits).count();
            // A commit that is larger than a batch is a batch of its own.
            let count = fit.max(usize::from(!state.waiting.is_empty()));
            match count {
                0 if state.is_closed => Poll::Ready(None),
                0 => Poll::Pending,
                count => Poll::Ready(Some(state.waiting.drain(..count).collect())),
            }
        })
        .await
    }

    /// Passes a durable batch to the executor.
    pub(super) fn pass(&self, ordered: Ordered) {
        self.state.lock().ordered.push_back(ordered);
        self.executor.wake();
    }

    /// The next work of the executor. `None` once no batch comes any more.
    pub(super) async fn next_work(&self) -> Option<Work> {
        poll_fn(|cx| {
            self.executor.register(cx.waker());
            let mut state = self.state.lock();
            if !state.waiting_sites.is_empty() {
                return Poll::Ready(Some(Work::Sites));
            }
            match state.ordered.pop_front() {
                Some(ordered) => Poll::Ready(Some(Work::Batch(ordered))),
                None if state.is_over => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The order accepts no more commits. Those that wait learn why.
    pub(super) fn halt(&self, error: &LogError) {
        let (waiting, ordered) = {
            let mut state = self.state.lock();
            state.halted.get_or_insert_with(|| error.clone());
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.ordered))
        };
        waiting.iter().for_each(|it| it.answer(Err(NotOrdered::Refused(error.clone()))));
        let ordered = ordered.iter().flat_map(|ordered| &ordered.commits);
        ordered.for_each(|it| it.answer(Err(NotOrdered::Unknown(error.clone()))));
    }

    /// True once the order accepts no more commits.
    pub(super) fn is_halted(&self) -> bool {
        self.state.lock().halted.is_some()
    }

    /// No batch comes any more.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.executor.wake();
    }

    /// Ends the engine, once it has executed what waits.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.orderer.wake();
    }
}
