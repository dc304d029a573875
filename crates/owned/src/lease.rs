//! The lease of an owner: how long it may serve reads without a confirmation that it owns the log.
//!
//! # The problem
//!
//! The fence stops an owner's commits, but not its reads. A process that was paused or is cut off
//! does not know that another process has taken the log over, and would return outdated rows.
//!
//! ```text
//!   A   ──send──▶ counts               SERVES after it was sent
//!         ├─────────────────────────────────▶│ serves no more reads, unless a record counts
//!   B                  claim is read ├─────────────────────────────────────▶│ first commit
//!                                               WAITS
//! ```
//!
//! B's site begins no commit before that time (`Log::is_sole`). Until then, a transaction that
//! reads at A and at B could see the commit at B only.
//!
//! The record that counts for A was written before B's claim, so A's interval begins earlier than
//! B's, and it is shorter. Clocks need not be right, but must run at similar speeds: B's less than
//! a quarter faster than A's.
//!
//! **A lease per owner.** A claim states the lease of its process ([`Times::waits`]), and the next
//! owner waits for the lease of the owner before it. So processes with different leases are safe.
//!
//! **Waiting has begun already** where the carrier knows when this process received the last
//! record of the owner before ([`Newest`](crate::Newest)). It was sent before that, so the wait
//! counts from there. A process that takes a log whose owner has been silent for longer need not
//! wait.
//!
//! An owner that serves reads but does not write renews its lease with an empty record, a fifth of
//! the lease after the last one. An owner without reads writes nothing. An owner that closes its
//! log releases it, and then the next owner need not wait. But it must not release the log before
//! its own wait is over, because an earlier owner may still serve reads until then.

use std::time::Duration;

/// The longest lease, which is the default: how long a new owner waits before it acknowledges
/// anything.
pub const WAITS: Duration = Duration::from_secs(5);
/// The shortest lease. An owner whose records take longer than most of it serves no reads.
pub const WAITS_MIN: Duration = Duration::from_secs(2);

/// The intervals of a lease, measured by a clock that runs through suspensions of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// How long an owner serves reads after it has sent a record that counts.
    pub serves: Duration,
    /// How long the next owner waits before it acknowledges anything.
    pub waits: Duration,
    /// Age of the last record at which an owner that serves reads writes an empty one.
    pub renews: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times::lasting(WAITS)
    }
}

impl Times {
    /// The intervals of a lease for which the next owner waits this long, within
    /// [`WAITS_MIN`] and [`WAITS`].
    pub fn lasting(waits: Duration) -> Times {
        let waits = waits.clamp(WAITS_MIN, WAITS);
        Times { serves: waits * 4 / 5, waits, renews: waits / 5 }
    }

    /// True if an owner may serve reads, `since` after it sent the last record that counts.
    pub fn is_serving(&self, since: Duration) -> bool {
        since < self.serves
    }

    /// True if an owner that is asked for a read should renew its lease.
    pub fn is_due(&self, since: Duration) -> bool {
        since >= self.renews
    }
}
