//! The audit trail and the other histories, where several processes have gateways.
//!
//! Each gateway has all of them, so they survive the loss of the process with the conductor. That
//! process makes changes, failovers and plans, and tells the others of them as news. Actions happen
//! at every gateway:
//!
//! ```text
//!   b: ALTER SYSTEM .. ── note ──▶ a (the conductor's): keeps it ── news ──▶ b, c: keep it
//!   d: joins           ◀── the last events ───────────── a ◀── actions that a does not have ── d
//! ```
//!
//! The statement waits up to [`SENT`] for the conductor's gateway, and ends as it would have
//! without that. An action that could not be sent stays in the trail of its gateway. It is sent
//! again with the next action, and when the gateway joins again. An action that arrives twice is
//! kept once.

use crate::chronicle::{Chronicle, Event};
use crate::engine::questions::{Question, Reply, ask_within};
use isomer_cluster::Database;
use std::time::Duration;

/// The longest wait of a statement for the conductor's gateway.
const SENT: Duration = Duration::from_secs(1);

/// Compares the histories of a gateway, which has joined, with those of the conductor's.
pub(crate) fn compare(database: &Database, chronicle: &Chronicle, theirs: &[Event]) {
    chronicle.learn_all(theirs);
    let own = chronicle.last(2);
    chronicle.send(own.into_iter().filter(|action| !theirs.contains(action)));
    send(database, chronicle);
}

/// Sends the conductor's gateway the actions that it may not have.
pub(crate) fn send(database: &Database, chronicle: &Chronicle) {
    let unsent = chronicle.unsent();
    if unsent.is_empty() {
        return;
    }
    if let Ok(Reply::Done) = ask_within(database, &Question::Note(unsent.clone()), SENT) {
        chronicle.has_sent(&unsent);
    }
}
