//! The atomics and mutexes of this crate, in one module, so that tests can explore schedules.
//!
//! Built normally, these are the standard library's atomics and `parking_lot`'s mutex. Built with
//! the feature `shuttle`, they are the scheduler-controlled ones of the crate `shuttle`, and
//! `tests/schedules.rs` runs the store's races under thousands of interleavings.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// Hints that the caller spins until another thread changes a value, within nanoseconds.
    pub(crate) fn spin(round: u32) {
        // Yields the core to a holder that was preempted inside its few instructions.
        if round % 64 == 63 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

#[cfg(feature = "shuttle")]
mod real {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// `parking_lot`'s interface over the explored mutex.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    pub(crate) fn spin(_round: u32) {
        shuttle::thread::yield_now();
    }
}

pub(crate) use real::*;
