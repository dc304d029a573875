//! The log of a process in a modelled partition: the state machine of [`OwnedLog`], with the
//! world's clock.

use super::partition::Partition;
use crate::plant::Plant;
use crate::world::agenda::Clock;
use isomer_design::SiteId;
use isomer_log::{Counters, Log, LogError, Position};
use isomer_owned::owned::{OwnedLog, VisitRecord};
use isomer_owned::record::Offset;
use isomer_site::TimeSource;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The number of records that a read of the partition returns at once.
const READ_AT_ONCE: usize = 20;

/// The connection of a process to the brokers.
#[derive(Default)]
pub(super) struct Link {
    is_cut: AtomicBool,
}

impl Link {
    pub(super) fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }
}

/// See the [module documentation](self).
pub(super) struct SimLog {
    pub(super) site: SiteId,
    pub(super) owned: OwnedLog,
    pub(super) partition: Arc<Mutex<Partition>>,
    pub(super) link: Arc<Link>,
    pub(super) clock: Arc<Clock>,
    /// A planted bug of all logs.
    pub(super) plant: Arc<Mutex<Option<Plant>>>,
}

impl SimLog {
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().0)
    }

    fn has(&self, plant: Plant) -> bool {
        *self.plant.lock() == Some(plant)
    }

    /// Queries the partition, if a broker can be reached.
    fn reached<T>(
        &self,
        ask: impl FnOnce(&mut Partition) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut partition = self.partition.lock();
        if self.link.is_cut() || !partition.is_available() {
            return Err("no broker answers".to_owned());
        }
        ask(&mut partition)
    }

    /// True if a broker answers this process.
    pub(super) fn is_reachable(&self) -> bool {
        self.reached(|_| Ok(())).is_ok()
    }

    fn visit_from(&self, from: Offset, visit: &mut VisitRecord<'_>) -> Result<(), String> {
        let mut next = from;
        loop {
            let records = self.reached(|partition| partition.read(next, READ_AT_ONCE))?;
            let Some((last, _)) = records.last() else { return Ok(()) };
            next = last + 1;
            if records.iter().try_for_each(|(offset, record)| visit(*offset, record)).is_break() {
                return Ok(());
            }
        }
    }
}

impl Log for SimLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.owned.append(payload)
    }

    fn end(&self) -> Position {
        self.owned.end()
    }

    fn durable(&self) -> Position {
        self.owned.durable()
    }

    fn begin(&self) -> Position {
        self.owned.begin()
    }

    /// Does nothing: the driver writes the records, which takes time.
    fn sync(&self) -> Result<Position, LogError> {
        self.failure().map_or(Ok(self.durable()), Err)
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        self.owned.read(from, &|offset, visit| self.visit_from(offset, visit), visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let remove = |offset| {
            self.reached(|partition| {
                partition.remove_before(offset);
                Ok(())
            })
        };
        self.owned.truncate_before(position, &remove)
    }

    fn counters(&self) -> Counters {
        self.owned.counters()
    }

    fn look_for_others(&self) {
        if self.has(Plant::EagerOwner) && self.owned.serving(self.now()).is_ok() {
            // An owner need not look before its lease ends.
            return;
        }
        let end = self.reached(|partition| Ok(partition.bounds().1));
        if let (Some(next), Ok(end)) = (self.owned.next_offset(), end)
            && end > next
        {
            self.owned.ask();
        }
    }

    fn failure(&self) -> Option<LogError> {
        self.owned.failure()
    }

    fn serving(&self) -> Result<(), LogError> {
        match self.owned.serving(self.now()) {
            Err(LogError::Unconfirmed { .. }) if self.has(Plant::StaleOwner) => Ok(()),
            known => known,
        }
    }

    fn is_sole(&self) -> bool {
        self.owned.has_waited(self.now()) || self.has(Plant::EagerOwner)
    }
}
