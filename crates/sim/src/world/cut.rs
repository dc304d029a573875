//! A log that a site has cut: the site does not find the cut part, but the checkers do, because
//! they check the whole history.

use isomer_log::{Counters, Log, LogError, Position};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// See the [module documentation](self).
pub(super) struct CutLog {
    whole: Arc<dyn Log>,
    begin: AtomicU64,
}

impl CutLog {
    pub(super) fn new(whole: Arc<dyn Log>, begin: Position) -> CutLog {
        CutLog { whole, begin: AtomicU64::new(begin) }
    }
}

impl Log for CutLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.whole.append(payload)
    }

    fn end(&self) -> Position {
        self.whole.end()
    }

    fn durable(&self) -> Position {
        self.whole.durable()
    }

    fn begin(&self) -> Position {
        self.begin.load(Ordering::SeqCst)
    }

    fn sync(&self) -> Result<Position, LogError> {
        self.whole.sync()
    }

    fn failure(&self) -> Option<LogError> {
        self.whole.failure()
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.whole.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.whole.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        let begin = self.begin();
        if from < begin {
            return Err(LogError::Truncated { position: from, begin });
        }
        self.whole.read(from, visit)
    }

    /// Cuts at a frame; a log in files would keep a few more frames.
    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let (limit, mut begin) = (position.min(self.whole.durable()), self.begin());
        let end = self.whole.read(begin, &mut |at, _| {
            if at > limit {
                return ControlFlow::Break(());
            }
            begin = at;
            ControlFlow::Continue(())
        })?;
        let begin = if end <= limit { end } else { begin };
        self.begin.fetch_max(begin, Ordering::SeqCst);
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.whole.counters()
    }
}
