//! SIGINT and SIGTERM: how a process ends.
//!
//! | phase | effect of a signal |
//! | --- | --- |
//! | serves, or waits for other processes | graceful: sessions end, checkpoints are made |
//! | opens its database | immediate: no client has an answer, and durable data stays durable |
//! | stops | immediate: a second signal means that the user does not want to wait |
//!
//! A *restart* is asked for by another program, over the connections between processes. Sessions
//! end once their transactions have, and the process begins anew as the program that is installed
//! then, with the same arguments and the same number.
//!
//! So a wait for another process, which may never restart, cannot keep this process from ending.
//!
//! All threads block the signals, and one thread takes them by `sigwait`. A handler would not work:
//! METIS, which the autopilot calls, installs its own handler for SIGTERM while it runs. It jumps
//! to where METIS was called, on whichever thread receives the signal.

use crate::failure::Failure;
use nix::sys::signal::{SigSet, Signal, raise};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The variable that tells the next run that another process takes the conductor.
const LEFT: &str = "ISOMER_LEFT_CONDUCTOR";

/// True if the run of this process before has left the conductor to another process.
pub(crate) fn has_left() -> bool {
    std::env::var_os(LEFT).is_some()
}

/// The phase of the process, which decides the effect of a signal.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Phase {
    Looks,
    Opens,
    Stops,
}

/// The request to end a process. See the [module documentation](self).
#[derive(Default)]
pub struct Stop {
    asked: AtomicBool,
    phase: AtomicU8,
    /// The longest wait for transactions before a restart, in milliseconds, plus one; 0: the
    /// process does not restart.
    restart: AtomicU64,
}

impl Stop {
    /// Handles the process's signals. Must be called before other threads start, because they
    /// inherit the blocked signals.
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

    /// True once a signal has asked the process to stop.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Asks the process to restart. Does nothing if it stops already.
    pub fn ask_restart(&self, longest: Duration) {
        let longest_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX - 1);
        if self.phase.load(Ordering::SeqCst) == Phase::Looks as u8 && !self.is_asked() {
            self.restart.store(longest_ms + 1, Ordering::SeqCst);
            self.asked.store(true, Ordering::SeqCst);
        }
    }

    /// The longest wait for transactions, if the process is to restart.
    pub fn restarts(&self) -> Option<Duration> {
        self.restart.load(Ordering::SeqCst).checked_sub(1).map(Duration::from_millis)
    }

    /// Begins anew, if the process is to restart. Nothing of it is left then, so the caller
    /// has closed its database. If another process takes the conductor of this one (`leaves`), the
    /// new run waits for that.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn restart_if_asked(&self, leaves: bool) -> Result<(), Failure> {
        if self.restarts().is_none() {
            return Ok(());
        }
        let program = std::env::current_exe().map_err(Failure::failed)?;
        // The name of a program that was replaced meanwhile.
        let program = program.to_string_lossy();
        let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
        let mut again = Command::new(program);
        again.args(std::env::args_os().skip(1));
        match leaves {
            true => again.env(LEFT, "1"),
            false => again.env_remove(LEFT),
        };
        let error = again.exec();
        Err(Failure::failed(format!("{program}: {error}")))
    }

    /// Runs `open`, during which a signal ends the process at once.
    pub fn while_opening<T>(&self, open: impl FnOnce() -> T) -> T {
        self.begin(Phase::Opens);
        if self.is_asked() {
            end_at_once(Signal::SIGTERM);
        }
        let opened = open();
        self.begin(Phase::Looks);
        opened
    }

    /// Begins the phase in which a further signal ends the process at once.
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

/// Ends the process by the default action of the signal. Other threads run until then, so nothing
/// is destroyed while they use it.
fn end_at_once(signal: Signal) -> ! {
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
    std::process::abort()
}
