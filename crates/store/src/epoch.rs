//! Epochs: memory that an operation in progress may access is not freed before the operation ends.
//!
//! Two mechanisms keep memory alive for lock-free readers:
//!
//! ```text
//!                          protects                                  held for
//!   pin of a context       rows: every row that its owner may        a transaction
//!                          have met in the index ([`crate::context`])
//!   guard of an epoch      leaves, nodes, and versions taken out     one operation
//!                          of the middle of a chain
//! ```
//!
//! A guard that is held for long delays the freeing of memory at every thread; a pin keeps only the
//! versions that its snapshot may need. So rows are borrowed under the pin alone, and guards are
//! short.

/// Protects leaves while an operation uses them. See the [module documentation](self).
pub struct Guard(crossbeam_epoch::Guard);

/// Begins an operation, which ends when the guard is dropped.
pub fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

impl Guard {
    /// Runs `free` once all present guards are dropped.
    ///
    /// # Safety
    /// Later guards cannot reach the memory that `free` frees, and any thread may free it.
    pub(crate) unsafe fn defer(&self, free: impl FnOnce()) {
        // SAFETY: the caller's promise. All guards are of one collector, as this module makes them.
        unsafe { self.0.defer_unchecked(free) };
    }

    /// Frees some of the memory deferred earlier. Callers that defer much at a time must call this:
    /// otherwise the backlog grows faster than the collector works it off.
    pub(crate) fn flush_some(&self) {
        self.0.flush();
    }
}

/// Frees the memory that this thread has deferred, unless a guard of another thread prevents it.
/// Deferred functions keep their heap alive.
pub(crate) fn flush() {
    // Each round advances the epoch by at most one, and fresh deferrals need two.
    for _ in 0..4 {
        crossbeam_epoch::pin().flush();
    }
}
