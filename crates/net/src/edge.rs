//! The edge of the crate: reads of the clock, and starts of threads.

use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

/// The stack of a thread: a request may be a statement, whose expressions need it.
const STACK_BYTES: usize = 8 << 20;

/// The monotonic time.
#[allow(clippy::disallowed_methods, reason = "the edge: silence and back-off are measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day in milliseconds, to compare with another machine's.
#[allow(clippy::disallowed_methods, reason = "the edge: the clocks of machines are compared")]
pub(crate) fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// The time of day, for certificates.
pub(crate) fn time_for_certificates() -> rustls::pki_types::UnixTime {
    rustls::pki_types::UnixTime::now()
}

/// Starts a thread.
///
/// # Errors
/// If the system refuses a thread.
#[allow(clippy::disallowed_methods, reason = "the edge: lines and requests have threads")]
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work)
}
