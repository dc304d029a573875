//! The threads of the database.

use std::thread::JoinHandle;

/// Starts a thread.
#[allow(
    clippy::disallowed_methods,
    reason = "the edge: the runtime's threads, and the database's own"
)]
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.expect("the system starts the threads of the database and of its sites")
}
