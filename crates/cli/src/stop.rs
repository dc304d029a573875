//! SIGINT and SIGTERM: when a process is to end.
//!
//! | while it | a signal |
//! | --- | --- |
//! | waits for others, serves | asks it to stop: sessions end, checkpoints are made |
//! | opens its database | ends it at once: nobody was told anything, and what was durable is |
//! | stops | ends it at once, too: whoever asks twice does not want to wait |
//!
//! So nothing that waits for another process, which may never come back, keeps this one from ending.
//!
//! The signals are blocked in all threads, and one thread takes them. A handler would not do: METIS, which the
//! autopilot calls, has its own for SIGTERM while it works, which jumps to where METIS was called, on whatever thread
//! the signal has come.

use crate::failure::Failure;
use nix::sys::signal::{SigSet, Signal, raise};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What a process does, as far as signals are concerned.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Phase {
    Looks,
    Opens,
    Stops,
}

/// Whether a process is to end. See the [module documentation](self).
#[derive(Default)]
pub struct Stop {
    asked: AtomicBool,
    phase: AtomicU8,
}

impl Stop {
    /// Takes the process's signals. Called before there is another thread: those that come later block them, too.
    pub fn on_signals() -> Result<Arc<Stop>, Failure> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block().map_err(Failure::failed)?;
        let stop = Arc::new(Stop::default());
        let taking = stop.clone();
        let take = move || {
            while let Ok(signal) = signals.wait() {
                taking.take(signal);
            }
        };
        let thread = std::thread::Builder::new().name("isomer-signals".to_owned());
        thread.spawn(take).map_err(Failure::failed)?;
        Ok(stop)
    }

    /// True once it has been asked to.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Runs what opens a database.
    pub fn while_opening<T>(&self, open: impl FnOnce() -> T) -> T {
        self.begin(Phase::Opens);
        if self.is_asked() {
            end_at_once(Signal::SIGTERM);
        }
        let opened = open();
        self.begin(Phase::Looks);
        opened
    }

    /// The process begins to stop.
    pub fn begin_to_stop(&self) {
        self.begin(Phase::Stops);
    }

    fn begin(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn take(&self, signal: Signal) {
        if self.phase.load(Ordering::SeqCst) == Phase::Looks as u8 {
            self.asked.store(true, Ordering::SeqCst);
        } else {
            end_at_once(signal);
        }
    }
}

/// Ends the process as the signal does where nobody takes it. Other threads go on until then, so nothing is destroyed
/// under them.
fn end_at_once(signal: Signal) -> ! {
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
    std::process::abort()
}
