//! A line on standard error for a stage that takes longer than two seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the current stage on a terminal, once the command has run for two seconds.
pub struct Progress {
    start: Instant,
    last: Duration,
    shown: bool,
}

impl Progress {
    /// Starts counting.
    #[allow(clippy::disallowed_methods)] // The command line is the edge.
    pub fn start() -> Progress {
        Progress { start: Instant::now(), last: Duration::ZERO, shown: false }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Shows a line if two seconds have passed, at most four times a second.
    pub fn tick(&mut self, line: impl FnOnce() -> String) {
        let now = self.start.elapsed();
        if now < Duration::from_secs(2) || now - self.last < Duration::from_millis(250) {
            return;
        }
        self.last = now;
        let mut out = std::io::stderr();
        if out.is_terminal() {
            self.shown = true;
            let _ = write!(out, "\r\x1b[K{}", line());
        }
    }

    /// Shows the name of the stage that begins, if two seconds have passed.
    pub fn stage(&mut self, name: &str) {
        self.last = Duration::ZERO;
        self.tick(|| format!("{name} ..."));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
