//! The computer's clock.

use isomer_design::Time;
use isomer_site::TimeSource;
use std::time::{Instant, SystemTime};

/// Monotonic while the process runs, and real time from one run to the next.
pub(crate) struct WallClock {
    begun: Instant,
    epoch_ns: u64,
}

impl WallClock {
    #[allow(clippy::disallowed_methods, reason = "the edge: time enters the database here")]
    pub(crate) fn new() -> WallClock {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallClock { begun: Instant::now(), epoch_ns: epoch.as_nanos() as u64 }
    }
}

impl TimeSource for WallClock {
    fn now(&self) -> Time {
        Time(self.epoch_ns + self.begun.elapsed().as_nanos() as u64)
    }
}
