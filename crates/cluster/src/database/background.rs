//! The background threads of a database: work that no transaction waits for.
//!
//! | thread | work |
//! | --- | --- |
//! | `isomer-changes` | deferred plans of the strategy, and missing backups |
//! | `isomer-plan` | planning ticks of the strategy |
//! | `isomer-reconf` | plans of operators |
//! | `isomer-failover` | takeovers from failed sites |
//! | `isomer-readmit` | readmission of restarted sites |
//!
//! They end when the conductor is closed, after completing the work that they have begun. None of
//! that work waits for an unreachable site. The threads that work for the sites of the process are
//! those of its [node](crate::Node).

use crate::conductor::{Conductor, FailedOver};
use crate::embedded::{Embedded, Runtime, start};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// See the [module documentation](self).
pub(super) struct Background {
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(
        conductor: &Arc<Conductor<Embedded>>,
        runtime: &Arc<Runtime>,
        failed_over: &Arc<Mutex<Vec<FailedOver>>>,
    ) -> Background {
        Background { threads: of_conductor(conductor, runtime, failed_over) }
    }

    /// Waits for the threads to end.
    pub(super) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

/// Starts the threads that end with the conductor.
fn of_conductor(
    conductor: &Arc<Conductor<Embedded>>,
    runtime: &Arc<Runtime>,
    failed_over: &Arc<Mutex<Vec<FailedOver>>>,
) -> Vec<JoinHandle<()>> {
    let with = |name: &str, work: fn(&Conductor<Embedded>, &Runtime)| {
        let (conductor, runtime) = (conductor.clone(), runtime.clone());
        start(name, move || work(&conductor, &runtime))
    };
    vec![
        with("isomer-changes", |conductor, runtime| runtime.block_on(conductor.run_deferred())),
        with("isomer-plan", |conductor, runtime| runtime.block_on(conductor.plan())),
        with("isomer-reconf", |conductor, runtime| {
            runtime.block_on(conductor.run_reconfigurations());
        }),
        start("isomer-failover", {
            let (conductor, runtime) = (conductor.clone(), runtime.clone());
            let failed_over = failed_over.clone();
            let told = move |done: &FailedOver| {
                crate::log_line(done);
                failed_over.lock().push(done.clone());
            };
            move || runtime.block_on(conductor.fail_over(told))
        }),
        with("isomer-readmit", |conductor, runtime| {
            runtime.block_on(conductor.readmit_returned());
        }),
    ]
}
