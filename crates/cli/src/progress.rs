//! Progress of long steps on standard error.

use crate::{clock, text};
use std::time::{Duration, Instant};

/// Time before the first line and between two lines.
const PAUSE: Duration = Duration::from_secs(2);

/// Prints the progress of a step on standard error, every two seconds.
pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    told: Instant,
}

impl Progress {
    /// Begins a step of `total` units.
    pub fn new(what: &'static str, total: u64) -> Progress {
        Progress { what, total, done: 0, told: clock::now() }
    }

    /// Counts `more` finished units.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        if self.told.elapsed() >= PAUSE {
            self.told = clock::now();
            eprintln!("{}: {} of {}", self.what, text::count(self.done), text::count(self.total));
        }
    }
}
