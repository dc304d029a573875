//! The site's clock: hands out commit times.
//!
//! A hybrid clock: close to real time, which the caller passes in, but always advancing, and always
//! ahead of every time the site has seen. Commit times put all commits of the database in one
//! order; a snapshot is a cut through that order.

use crate::sync::{AtomicU64, Ordering};
use isomer_design::Time;

/// See the [module documentation](self).
pub struct Clock {
    last: AtomicU64,
}

impl Clock {
    /// A clock whose times will all be greater than `start`.
    pub fn new(start: Time) -> Clock {
        Clock { last: AtomicU64::new(start.0) }
    }

    /// Returns a time greater than all before: `now` if it is ahead, otherwise the last time plus
    /// one.
    pub fn tick(&self, now: Time) -> Time {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = now.0.max(last + 1);
            match self.last.compare_exchange_weak(last, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Time(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// Makes every later tick greater than `time`.
    pub fn raise(&self, time: Time) {
        if self.last.load(Ordering::SeqCst) < time.0 {
            self.last.fetch_max(time.0, Ordering::SeqCst);
        }
    }

    /// The last time handed out. Every later tick is greater.
    pub fn last(&self) -> Time {
        Time(self.last.load(Ordering::SeqCst))
    }
}
