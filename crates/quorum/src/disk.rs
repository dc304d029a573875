//! The journal's file, for a process that had better stand still than fail while its disk is full.
//!
//! A member that stands still is a case that the protocol knows: the others go on without it. So an
//! append without room waits, and is repeated, until there is room or the process stops.

use isomer_log::{Counters, FileLog, Log, LogError, Position};
use isomer_owned::edge::pause;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The pause before the next attempt.
const AGAIN: Duration = Duration::from_millis(100);

/// See the [module documentation](self).
pub(crate) struct Disk {
    pub(crate) log: FileLog,
    pub(crate) is_stopped: Arc<AtomicBool>,
}

impl Disk {
    fn may_wait(&self) -> bool {
        if self.is_stopped.load(Ordering::Acquire) {
            return false;
        }
        pause(AGAIN);
        true
    }
}

impl Log for Disk {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        loop {
            match self.log.append(payload) {
                Err(LogError::NoRoom { .. }) if self.may_wait() => {}
                Err(LogError::Backlog { .. }) => drop(self.log.sync()?),
                appended => return appended,
            }
        }
    }

    fn end(&self) -> Position {
        self.log.end()
    }

    fn durable(&self) -> Position {
        self.log.durable()
    }

    fn begin(&self) -> Position {
        self.log.begin()
    }

    /// Returns when everything is durable, unless the process stops.
    fn sync(&self) -> Result<Position, LogError> {
        let end = self.log.end();
        loop {
            let durable = self.log.sync()?;
            if durable >= end || !self.may_wait() {
                return Ok(durable);
            }
        }
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        self.log.read(from, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        self.log.truncate_before(position)
    }

    fn counters(&self) -> Counters {
        self.log.counters()
    }

    fn failure(&self) -> Option<LogError> {
        self.log.failure()
    }
}
