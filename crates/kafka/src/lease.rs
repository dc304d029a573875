//! How long an owner may show what it has, without knowing that it still owns the log.
//!
//! # The problem
//!
//! The fence stops an owner's commits, not its reads: a process that was paused, or is cut off, does not know that
//! another one has taken the log over, and would show what is no longer the newest.
//!
//! ```text
//!   A   ──send──▶ counts               SERVES after it was sent
//!         ├─────────────────────────────────▶│ shows nothing more, unless something counts again
//!   B                  claim is read ├─────────────────────────────────────▶│ acknowledges its first commit
//!                                               WAITS
//! ```
//!
//! What counts for A was written before B's claim, so A's time begins earlier than B's, and is shorter. No clock has to be
//! right; they have to go about as fast: B's by less than a quarter faster than A's.
//!
//! An owner that is read but does not write renews its time by an empty record, [`RENEWS`] after the last one; one that
//! nobody asks writes nothing. One that closes its log releases it, and then nobody waits; but not before its own wait is
//! over, since that is somebody else's time.

use std::time::Duration;

/// How long an owner shows what it has after it has sent something that counts.
pub const SERVES: Duration = Duration::from_secs(4);
/// How long a new owner waits before it acknowledges anything.
pub const WAITS: Duration = Duration::from_secs(5);
/// When an owner that is asked writes something for the lease alone.
pub const RENEWS: Duration = Duration::from_secs(1);

/// The times of a lease, by a clock that never stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// See [`SERVES`].
    pub serves: Duration,
    /// See [`WAITS`].
    pub waits: Duration,
    /// See [`RENEWS`].
    pub renews: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times { serves: SERVES, waits: WAITS, renews: RENEWS }
    }
}

impl Times {
    /// True if an owner may show what it has, `since` after it sent what counted last.
    pub fn is_serving(&self, since: Duration) -> bool {
        since < self.serves
    }

    /// True if it should renew its lease when it is asked.
    pub fn is_due(&self, since: Duration) -> bool {
        since >= self.renews
    }
}
