//! The clock with which the laboratory measures the real code on this machine.

/// Returns nanoseconds since an arbitrary start.
pub type Stopwatch<'c> = &'c dyn Fn() -> u64;
