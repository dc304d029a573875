//! The virtual clock, and what is to happen at which time.

use super::network::Letter;
use super::tasks::TaskId;
use isomer_design::Time;
use isomer_site::TimeSource;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// Virtual time in nanoseconds; the sites share it.
pub(crate) struct Clock(AtomicU64);

impl Default for Clock {
    /// Not zero, which means "before every commit".
    fn default() -> Clock {
        Clock(AtomicU64::new(1_000_000))
    }
}

impl Clock {
    pub(super) fn advance(&self, to: Time) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

/// What the agenda holds.
pub(crate) enum Event {
    Wake(Waker),
    /// A procedure that stopped half-way goes on.
    Resume(TaskId),
    Deliver(Letter),
}

/// Entries by time, and among equals in the order in which they were made.
#[derive(Default)]
pub(crate) struct Agenda {
    made: u64,
    entries: BTreeMap<(Time, u64), Event>,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Time, event: Event) {
        self.made += 1;
        self.entries.insert((at, self.made), event);
    }

    pub(super) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        let entry = self.entries.first_entry().filter(|entry| entry.key().0 <= until)?;
        let ((time, _), event) = entry.remove_entry();
        Some((time, event))
    }
}
