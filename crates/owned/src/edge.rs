//! The edge of the crate: a clock for leases, and pauses of the flusher's thread.

use std::time::Duration;

/// A clock that also runs while the machine is suspended.
pub fn clock() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Pauses the calling thread.
#[allow(clippy::disallowed_methods, reason = "the edge: the flusher waits, as for a disk")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
