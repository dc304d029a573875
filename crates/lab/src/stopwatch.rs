//! How the laboratory measures what the real code takes on this machine.

/// Nanoseconds from some moment on.
pub type Stopwatch<'c> = &'c dyn Fn() -> u64;
