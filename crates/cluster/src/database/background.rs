//! The background threads of a database: work that no transaction waits for.
//!
//! | thread | work |
//! | --- | --- |
//! | `isomer-changes` | deferred plans of the strategy, and missing backups |
//! | `isomer-plan` | planning ticks of the strategy |
//! | `isomer-reconf` | plans of operators |
//! | `isomer-failover` | takeovers from failed sites |
//! | `isomer-readmit` | readmission of restarted sites |
//! | `isomer-checkpoint` | checkpoints that are due |
//! | `isomer-owners` | checks whether another process has taken the logs, where that is possible |
//!
//! All but the last two end when the conductor is closed, after completing the work that they have
//! begun. None of that work waits for an unreachable site.

use crate::conductor::{Conductor, FailedOver};
use crate::embedded::{Checkpointer, Embedded, Runtime, start};
use crate::storage::Storage;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The parts of a database that the threads use.
type Shared<'s> = (&'s Arc<Conductor<Embedded>>, &'s Arc<Runtime>, &'s Arc<dyn Storage>);

/// See the [module documentation](self).
pub(super) struct Background {
    threads: Vec<JoinHandle<()>>,
    /// Checks whether this process still owns the logs, where another process can take them.
    watcher: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(
        (conductor, runtime, storage): Shared<'_>,
        checkpointer: &Arc<Checkpointer>,
        failed_over: &Arc<Mutex<Vec<FailedOver>>>,
        can_be_taken: bool,
    ) -> Background {
        let mut threads = of_conductor(conductor, runtime, failed_over);
        if storage.folder().is_some() {
            let (checkpointer, runtime) = (checkpointer.clone(), runtime.clone());
            threads.push(start("isomer-checkpoint", move || checkpointer.work(&runtime)));
        }
        let watcher = can_be_taken.then(|| {
            let (runtime, storage) = (runtime.clone(), storage.clone());
            start("isomer-owners", move || runtime.watch_owners(|| storage.look_for_others()))
        });
        Background { threads, watcher }
    }

    /// Waits for the threads that end with the conductor and the checkpointer.
    pub(super) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }

    /// Waits for the thread that ends with the runtime.
    pub(super) fn join_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // A thread that panicked has reported it already.
            let _ = watcher.join();
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
