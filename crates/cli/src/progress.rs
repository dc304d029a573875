//! Telling that something takes its time.

use crate::{clock, text};
use std::time::{Duration, Instant};

/// Nobody wonders before this much time.
const PAUSE: Duration = Duration::from_secs(2);

/// Says on standard error, every two seconds, how far something is.
pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    told: Instant,
}

impl Progress {
    /// Nothing of `total` is done.
    pub fn new(what: &'static str, total: u64) -> Progress {
        Progress { what, total, done: 0, told: clock::now() }
    }

    /// So much more is done.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        if self.told.elapsed() >= PAUSE {
            self.told = clock::now();
            eprintln!("{}: {} of {}", self.what, text::count(self.done), text::count(self.total));
        }
    }
}
