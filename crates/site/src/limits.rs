//! Limits of the protocols of a site.

/// Timeout of a step that waits for a follower or a replica, in nanoseconds.
pub(crate) const PATIENCE_NS: u64 = 5_000_000_000;
