//! Epochs: what an operation under way may still be looking at is not freed under its eyes.
//!
//! Two things keep memory alive for those who look at it without a lock:
//!
//! ```text
//!                          protects                                  held for
//!   pin of a context       rows: every row that its owner may        a transaction
//!                          have met in the index ([`crate::context`])
//!   guard of an epoch      leaves, nodes, and versions taken out     one operation
//!                          of the middle of a chain
//! ```
//!
//! A guard that is held for long keeps memory for long, at every thread; a pin keeps only what its
//! snapshot may need. So values are lent under the pin alone, and guards come and go.

/// Protects leaves while an operation uses them. See the [module documentation](self).
pub struct Guard(crossbeam_epoch::Guard);

/// Begins an operation.
pub fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

impl Guard {
    /// Has `free` run once every guard that exists now is gone.
    ///
    /// # Safety
    /// What `free` frees cannot be reached by guards to come, and may be freed by any thread.
    pub(crate) unsafe fn defer(&self, free: impl FnOnce()) {
        // SAFETY: the caller's promise. All guards are of one collector, as this module makes them.
        unsafe { self.0.defer_unchecked(free) };
    }

    /// Frees some of what was deferred earlier. Whoever defers much at a time calls this, or the
    /// backlog grows faster than the collector works it off.
    pub(crate) fn flush_some(&self) {
        self.0.flush();
    }
}

/// Frees what this thread has deferred, as far as no guard of another thread is in the way. What is
/// deferred holds on to its heap.
pub(crate) fn flush() {
    // Each round moves the epoch by one at most, and what was deferred just now is two behind.
    for _ in 0..4 {
        crossbeam_epoch::pin().flush();
    }
}
