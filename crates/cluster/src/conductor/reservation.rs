//! Reservations: ranges of keys whose design one task changes, or relies on.
//!
//! A change reserves its partitions while it is carried out. A transaction that needs changes
//! reserves its whole footprint until it has run. Two transactions that want the same keys at
//! different sites therefore take turns. They do not move the keys to and fro, and neither starves.
//! A transaction that needs no change reserves nothing.
//!
//! All ranges of a holder are taken at once or none, so holders cannot deadlock. A task that needs
//! many ranges may wait long. A transaction that meets a change therefore tries again after it, a
//! few times, before it reserves anything.

use isomer_design::{Key, KeyRange, TableId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The ranges that tasks have reserved.
#[derive(Default)]
pub(crate) struct Reservations {
    held: Mutex<Held>,
}

/// Ranges that are held, by their first key; no two overlap.
#[derive(Default)]
struct Held(BTreeMap<(TableId, Key), Taken>);

struct Taken {
    end: Option<Key>,
    /// Tasks that wait for this range before others of theirs, in the order of their arrival.
    waiting: Vec<Waker>,
}

/// Released when dropped.
pub(crate) struct Reservation<'r> {
    reservations: &'r Reservations,
    starts: Vec<(TableId, Key)>,
}

impl Reservations {
    /// Waits until no other task holds any of the ranges, and takes them. The ranges are partitions
    /// of one design: any two are equal or disjoint.
    pub(crate) async fn take(&self, ranges: &[(TableId, KeyRange)]) -> Reservation<'_> {
        poll_fn(|cx| match self.held.lock().try_take(ranges, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let starts = ranges.iter().map(|(table, range)| (*table, range.start.clone())).collect();
        Reservation { reservations: self, starts }
    }

    /// Waits for each range until the task that holds it, or takes it during the wait, has released
    /// it.
    pub(crate) async fn passed(&self, ranges: &[(TableId, KeyRange)]) {
        for (table, range) in ranges {
            poll_fn(|cx| match self.held.lock().wait_for(*table, range, cx.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

impl Held {
    /// Takes all ranges. If another task holds one of them, registers the waker with the first such
    /// range and returns false.
    fn try_take(&mut self, ranges: &[(TableId, KeyRange)], waker: &Waker) -> bool {
        if !ranges.iter().all(|(table, range)| self.wait_for(*table, range, waker)) {
            return false;
        }
        for (table, range) in ranges {
            let taken = Taken { end: range.end.clone(), waiting: Vec::new() };
            self.0.insert((*table, range.start.clone()), taken);
        }
        true
    }

    /// True if no task holds any key of the range. Otherwise registers the waker with the holder.
    fn wait_for(&mut self, table: TableId, range: &KeyRange, waker: &Waker) -> bool {
        let Some(place) = self.overlapping(table, range) else { return true };
        let taken = self.0.get_mut(&place).expect("it was just found");
        if !taken.waiting.iter().any(|other| other.will_wake(waker)) {
            taken.waiting.push(waker.clone());
        }
        false
    }

    /// The first key of a range that is held and overlaps this one.
    fn overlapping(&self, table: TableId, range: &KeyRange) -> Option<(TableId, Key)> {
        let from = (table, range.start.clone());
        let before = self.0.range(..=&from).next_back();
        let reaches = |((of, _), taken): &(&(TableId, Key), &Taken)| {
            *of == table && taken.end.as_ref().is_none_or(|end| range.start < *end)
        };
        let after = || {
            let next = self.0.range(&from..).next();
            next.filter(|((of, start), _)| *of == table && range.is_below_end(start))
        };
        before.filter(reaches).or_else(after).map(|(place, _)| place.clone())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut waiting = Vec::new();
        {
            let mut held = self.reservations.held.lock();
            for start in &self.starts {
                let taken = held.0.remove(start);
                waiting.extend(taken.into_iter().flat_map(|taken| taken.waiting));
            }
        }
        waiting.into_iter().for_each(Waker::wake);
    }
}
