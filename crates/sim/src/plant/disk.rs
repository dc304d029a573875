//! A disk that reports appended frames as durable, and loses them in a crash.

use isomer_log::{Counters, Log, LogError, MemoryLog, Position};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// See the [module documentation](self).
pub(crate) struct LyingDisk {
    real: Arc<MemoryLog>,
}

impl LyingDisk {
    pub(crate) fn new(real: Arc<MemoryLog>) -> LyingDisk {
        LyingDisk { real }
    }
}

impl Log for LyingDisk {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.real.append(payload)
    }

    fn end(&self) -> Position {
        self.real.end()
    }

    /// Reports unsynced data as durable.
    fn durable(&self) -> Position {
        self.real.end()
    }

    fn begin(&self) -> Position {
        self.real.begin()
    }

    fn sync(&self) -> Result<Position, LogError> {
        self.real.sync()
    }

    /// The lie once more.
    fn poll_durable(&self, _: Position, _: &Waker) -> Poll<Result<(), LogError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.real.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        self.real.read(from, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        self.real.truncate_before(position)
    }

    fn counters(&self) -> Counters {
        self.real.counters()
    }

    fn failure(&self) -> Option<LogError> {
        self.real.failure()
    }
}
