//! The virtual clock, and the events in the order of their times.

use super::network::Envelope;
use super::tasks::TaskId;
use isomer_design::Time;
use isomer_site::TimeSource;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;

/// Virtual time in nanoseconds, shared by all sites.
pub(crate) struct Clock(AtomicU64);

impl Default for Clock {
    /// Not zero, which means "before every commit".
    fn default() -> Clock {
        Clock(AtomicU64::new(1_000_000))
    }
}

impl Clock {
    pub(super) fn advance(&self, to: Time) {
        self.0.fetch_max(to.0, Relaxed);
    }
}

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(self.0.load(Relaxed))
    }
}

/// An entry of the agenda.
pub(crate) enum Event {
    Wake(Waker),
    /// A procedure that was paused continues.
    Resume(TaskId),
    Deliver(Box<Envelope>),
    /// Code of the world's user.
    Call(Box<dyn FnOnce()>),
}

/// Entries by time, and at equal times in the order in which they were added.
#[derive(Default)]
pub(crate) struct Agenda {
    made: u64,
    entries: BinaryHeap<Entry>,
}

struct Entry {
    /// The time, and a number that orders entries of the same time.
    order: Reverse<(Time, u64)>,
    event: Event,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Time, event: Event) {
        self.made += 1;
        self.entries.push(Entry { order: Reverse((at, self.made)), event });
    }

    pub(super) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        let first = self.entries.peek_mut().filter(|entry| entry.order.0.0 <= until)?;
        let entry = PeekMut::pop(first);
        Some((entry.order.0.0, entry.event))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.order.cmp(&other.order)
    }
}
