//! The site's clock: hands out commit times.
//!
//! A hybrid clock: close to real time, which the caller passes in, but always moving forward and
//! always ahead of everything the site has seen. Every commit of the database has its own place in
//! one order; a snapshot is a cut through it.

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

    /// A time greater than all before: real time if that is ahead, else the next one.
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

    /// Makes sure that every later tick is greater than `time`.
    pub fn raise(&self, time: Time) {
        if self.last.load(Ordering::SeqCst) < time.0 {
            self.last.fetch_max(time.0, Ordering::SeqCst);
        }
    }

    /// No later tick is at or before this time.
    pub fn last(&self) -> Time {
        Time(self.last.load(Ordering::SeqCst))
    }
}
