//! Reservations: ranges of keys whose design somebody is changing, or relies on.
//!
//! A change reserves its partitions while it is carried out; a transaction that needs changes reserves
//! its whole footprint until it has run. So two transactions that want the same keys at different
//! sites take turns instead of pulling them to and fro, and none of them starves. Transactions that
//! need no change reserve nothing and ask nobody.
//!
//! All of a holder's ranges are taken at once or none, so holders cannot wait for each other in a
//! circle.

use isomer_design::{KeyRange, TableId};
use isomer_store::Waiters;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::task::Poll;

/// Who has reserved what.
#[derive(Default)]
pub(crate) struct Reservations {
    held: Mutex<Held>,
    released: Waiters,
}

#[derive(Default)]
struct Held {
    next: u64,
    ranges: Vec<(u64, TableId, KeyRange)>,
}

/// Given back when dropped.
pub(crate) struct Reservation<'r> {
    reservations: &'r Reservations,
    holder: u64,
}

impl Reservations {
    /// Waits until nobody else holds any of the ranges, and takes them.
    pub(crate) async fn take(&self, ranges: &[(TableId, KeyRange)]) -> Reservation<'_> {
        let holder = poll_fn(|cx| {
            if let Some(holder) = self.try_take(ranges) {
                return Poll::Ready(holder);
            }
            self.released.register(cx.waker());
            self.try_take(ranges).map_or(Poll::Pending, Poll::Ready)
        });
        Reservation { reservations: self, holder: holder.await }
    }

    fn try_take(&self, ranges: &[(TableId, KeyRange)]) -> Option<u64> {
        let mut held = self.held.lock();
        let taken = |(table, range): &(TableId, KeyRange)| {
            held.ranges.iter().any(|(_, t, r)| t == table && r.overlaps(range))
        };
        if ranges.iter().any(taken) {
            return None;
        }
        held.next += 1;
        let holder = held.next;
        held.ranges.extend(ranges.iter().map(|(table, range)| (holder, *table, range.clone())));
        Some(holder)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.reservations.held.lock().ranges.retain(|(holder, ..)| *holder != self.holder);
        self.reservations.released.wake();
    }
}
