//! Real time, sleep and randomness: the only place where the commands use them.

use std::time::{Duration, Instant, SystemTime};

/// The current time, to measure durations.
#[allow(clippy::disallowed_methods, reason = "the edge: a command measures how long things take")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "the edge: a command waits between two looks")]
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Nanoseconds since `begun`.
pub fn elapsed_ns(begun: Instant) -> u64 {
    begun.elapsed().as_nanos() as u64
}

/// Microseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the edge: clients of the server ask for the time")]
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64
}

/// Fills bytes with cryptographic randomness.
///
/// # Panics
/// If the system has no randomness, which happens only while it boots.
pub fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has randomness");
}
