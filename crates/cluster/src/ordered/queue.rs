//! Commits that wait for their place in the order, and for their outcome.
//!
//! ```text
//!   submit ──▶ waiting ──▶ taken by the orderer ──▶ ordered ──▶ taken by the executor ──▶ answered
//! ```
//!
//! The queue is the only state that clients share with the engine. It knows no sites.

use crate::error::Error;
use arc_swap::ArcSwap;
use futures_util::task::AtomicWaker;
use isomer_design::{Access, SiteId, TableId, Time};
use isomer_log::LogError;
use isomer_site::{Conflict, OrderedCommit, Request};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

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
#[derive(Clone, Debug, thiserror::Error)]
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
}

/// The place and time of an applied commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Applied {
    pub(crate) time: Time,
    pub(crate) site: SiteId,
}

/// A commit that waits.
pub(crate) struct Waiting {
    pub(crate) commit: OrderedCommit,
    bytes: usize,
    answer: Mutex<Option<Result<Applied, NotOrdered>>>,
    waker: AtomicWaker,
}

impl Waiting {
    pub(crate) fn answer(&self, answer: Result<Applied, NotOrdered>) {
        *self.answer.lock() = Some(answer);
        self.waker.wake();
    }
}

/// A batch that is durable in the order.
pub(crate) struct Ordered {
    pub(crate) number: u64,
    pub(crate) commits: Vec<Arc<Waiting>>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub struct OrderQueue {
    state: Mutex<State>,
    orderer: AtomicWaker,
    executor: AtomicWaker,
    /// The ordered tables.
    tables: ArcSwap<BTreeSet<TableId>>,
    /// Tables that were switched with their rows, and the number of the switch.
    switched: ArcSwap<BTreeMap<TableId, u64>>,
    /// The number of switches so far.
    switches: AtomicU64,
    counters: [AtomicU64; 3],
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Waiting>>,
    ordered: VecDeque<Ordered>,
    /// Set once the order accepts no more commits.
    halted: Option<LogError>,
    is_closed: bool,
    /// No batch comes any more.
    is_over: bool,
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
    /// True if transactions on the table are ordered.
    #[inline]
    pub fn is_ordered(&self, table: TableId) -> bool {
        self.tables.load().contains(&table)
    }

    /// Refuses a transaction that would write to an ordered table without a place in the order.
    ///
    /// # Errors
    /// [`Error::Ordered`].
    pub(crate) fn check_unordered(&self, request: &Request<'_>) -> Result<(), Error> {
        let tables = self.tables.load();
        let written = request.footprint.items().iter().filter(|it| it.access == Access::Write);
        match written.map(|item| item.table).find(|table| tables.contains(table)) {
            Some(table) => Err(Error::Ordered(table)),
            None => Ok(()),
        }
    }

    /// Notes whether a table is ordered.
    pub(crate) fn set_ordered(&self, table: TableId, is_ordered: bool) {
        self.tables.rcu(|tables| {
            let mut tables = BTreeSet::clone(tables);
            match is_ordered {
                true => tables.insert(table),
                false => tables.remove(&table),
            };
            tables
        });
    }

    /// The number of switches so far. A transaction that has begun before the switch of a table
    /// cannot commit to it ([`OrderQueue::is_switched_since`]).
    pub(crate) fn switches(&self) -> u64 {
        self.switches.load(Ordering::SeqCst)
    }

    /// Notes that tables have become ordered, or are not ordered any more.
    pub(crate) fn note_switch(&self, tables: &[TableId]) {
        let number = self.switches() + 1;
        self.switched.rcu(|switched| {
            let mut switched = BTreeMap::clone(switched);
            switched.extend(tables.iter().map(|table| (*table, number)));
            switched
        });
        self.switches.fetch_max(number, Ordering::SeqCst);
    }

    /// True if a table was switched after this number of switches.
    pub(crate) fn is_switched_since(&self, table: TableId, switches: u64) -> bool {
        self.switched.load().get(&table).is_some_and(|number| *number > switches)
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

    /// Puts a commit into the order, and waits for its outcome. Once it is in the queue, it can be
    /// applied, even if this is dropped.
    ///
    /// # Errors
    /// [`NotOrdered`].
    pub(crate) async fn submit(&self, commit: OrderedCommit) -> Result<Applied, NotOrdered> {
        let row = |row: &Option<Vec<u8>>| row.as_ref().map_or(0, Vec::len);
        let rows = commit.writes.values().flatten();
        let bytes = rows.map(|(key, write)| key.len() + row(&write.row)).sum();
        let (answer, waker) = (Mutex::new(None), AtomicWaker::new());
        let waiting = Arc::new(Waiting { commit, bytes, answer, waker });
        {
            let mut state = self.state.lock();
            if let Some(error) = &state.halted {
                return Err(NotOrdered::Refused(error.clone()));
            }
            state.waiting.push_back(waiting.clone());
        }
        self.orderer.wake();
        poll_fn(|cx| {
            waiting.waker.register(cx.waker());
            waiting.answer.lock().take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
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

    /// The next batch to be executed. `None` once no batch comes any more.
    pub(super) async fn next_ordered(&self) -> Option<Ordered> {
        poll_fn(|cx| {
            self.executor.register(cx.waker());
            let mut state = self.state.lock();
            match state.ordered.pop_front() {
                Some(ordered) => Poll::Ready(Some(ordered)),
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
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.orderer.wake();
    }
}
