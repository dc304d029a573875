//! The order as a log: each frame is a batch.
//!
//! ```text
//!   begin                                      durable        end
//!     │ 41 │ 42 │ 43 │ 44                         │ 45           │
//!     └ kept while a site may lack it            └ not seen by any site
//! ```
//!
//! Any [`Log`] will do: in memory, in a folder, or carried elsewhere with the fencing that it has.

use isomer_log::{Log, LogError, Position};
use isomer_site::{BatchOutcome, OrderedBatch, OrderedCommit};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The order is cut when it has become longer than this number of bytes.
const KEPT_BYTES: u64 = 64 << 20;

/// See the [module documentation](self).
pub(crate) struct Order {
    log: Arc<dyn Log>,
    /// The begins of the batches of this run, by number.
    begins: Mutex<VecDeque<(u64, Position)>>,
}

/// Why the order cannot be read, or does not fit the sites.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BadOrder {
    /// The log cannot be read, or a site refuses a batch.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A frame is no batch.
    #[error("position {0:#x} of the order: {1}")]
    Batch(Position, isomer_site::BadBatch),
    /// Batches are missing.
    #[error("position {0:#x} of the order: batch {1} follows batch {2}")]
    Gap(Position, u64, u64),
    /// The end is missing.
    #[error(
        "the order ends with batch {last}, and a site has rows of batch {known}: its log is lost or another one"
    )]
    Short {
        /// The last batch of the order.
        last: u64,
        /// The last batch of the sites.
        known: u64,
    },
    /// The outcome of a batch is missing.
    #[error("the outcome of batch {0} is lost, and that of batch {1} is known")]
    NoOutcome(u64, u64),
}

impl Order {
    pub(crate) fn new(log: Arc<dyn Log>) -> Order {
        Order { log, begins: Mutex::default() }
    }

    /// All batches that are kept.
    pub(crate) fn read(&self) -> Result<Vec<OrderedBatch>, BadOrder> {
        let (mut batches, mut bad): (Vec<OrderedBatch>, _) = (Vec::new(), None);
        self.log.read(self.log.begin(), &mut |position, frame| {
            match OrderedBatch::decode(frame) {
                Ok(batch) => match batches.last() {
                    Some(last) if last.number + 1 != batch.number => {
                        bad = Some(BadOrder::Gap(position, batch.number, last.number));
                    }
                    _ => batches.push(batch),
                },
                Err(error) => bad = Some(BadOrder::Batch(position, error)),
            }
            if bad.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        bad.map_or(Ok(batches), Err)
    }

    /// Appends a batch. Returns the position to wait for.
    pub(crate) fn append(
        &self,
        number: u64,
        outcomes: &[BatchOutcome],
        commits: &[&OrderedCommit],
    ) -> Result<Position, LogError> {
        let begin = self.log.end();
        let end = self.log.append(&OrderedBatch::encode(number, outcomes, commits))?;
        self.begins.lock().push_back((number, begin));
        Ok(end)
    }

    /// Ready once the order is durable up to a position. `syncs`: the caller is the log's flusher.
    pub(crate) async fn durable(&self, position: Position, syncs: bool) -> Result<(), LogError> {
        if syncs {
            // Also if commits need not wait for the disk: a site must not have more than the order.
            while self.log.sync()? < position {
                if let Poll::Ready(ended) = self.log.poll_durable(position, Waker::noop()) {
                    ended?;
                }
            }
            return Ok(());
        }
        poll_fn(|cx| self.log.poll_durable(position, cx.waker())).await
    }

    /// The error of an order that takes no more batches.
    pub(crate) fn failed(&self, what: &str) -> LogError {
        LogError::Failed { durable: self.log.durable(), what: what.into() }
    }

    /// True if batches should be dropped that all sites have.
    pub(crate) fn is_long(&self) -> bool {
        self.log.end() - self.log.begin() > KEPT_BYTES
    }

    /// Drops batches before this one, which all sites have durably. Some are kept, because gateways
    /// may ask what became of their commits.
    pub(crate) fn cut_before(&self, number: u64) -> Result<(), LogError> {
        let begin = {
            let mut begins = self.begins.lock();
            let is_old = |begin: Position| self.log.end() - begin > KEPT_BYTES / 2;
            while begins.front().is_some_and(|(first, at)| *first < number && is_old(*at)) {
                begins.pop_front();
            }
            begins.front().map(|(_, begin)| *begin)
        };
        begin.map_or(Ok(()), |begin| self.log.truncate_before(begin))
    }
}
