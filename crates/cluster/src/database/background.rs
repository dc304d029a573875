//! The background threads of a database: what no transaction waits for.
//!
//! | thread | what it does |
//! | --- | --- |
//! | `isomer-tend` | carries out plans of the strategy that may pay later |
//! | `isomer-plan` | lets the strategy learn and plan |
//! | `isomer-sites` | adds and removes sites |
//! | `isomer-reconf` | carries out plans of operators |
//! | `isomer-failover` | lets others take over from sites that are lost |
//! | `isomer-readmit` | takes sites back that have returned |
//! | `isomer-checkpoint` | makes checkpoints when they are due |
//! | `isomer-owners` | looks whether another process has taken the logs, where it can |
//!
//! All but the last two end when the router is closed, with what they had under way: each in a way that waits for no
//! site that cannot be reached.

use crate::embedded::{Checkpointer, Embedded, Runtime, start};
use crate::router::{FailedOver, Router};
use crate::sites::Sites;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// See the [module documentation](self).
pub(super) struct Background {
    threads: Vec<JoinHandle<()>>,
    /// It looks whether the logs are still this process's, where others can take them.
    watcher: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(
        sites: &Arc<Sites>,
        checkpointer: &Arc<Checkpointer>,
        failed_over: &Arc<Mutex<Vec<FailedOver>>>,
        can_be_taken: bool,
    ) -> Background {
        let Sites { runtime, storage, .. } = &**sites;
        let mut threads = of_router(sites, failed_over);
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

    /// Waits for those that end with the router and the checkpointer.
    pub(super) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }

    /// Waits for the one that ends with the runtime.
    pub(super) fn join_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // A thread that panicked has said so already.
            let _ = watcher.join();
        }
    }
}

/// Starts the threads that end with the router.
fn of_router(sites: &Arc<Sites>, failed_over: &Arc<Mutex<Vec<FailedOver>>>) -> Vec<JoinHandle<()>> {
    let Sites { router, runtime, catalog, .. } = &**sites;
    let with = |name: &str, work: fn(&Router<Embedded>, &Runtime)| {
        let (router, runtime) = (router.clone(), runtime.clone());
        start(name, move || work(&router, &runtime))
    };
    vec![
        with("isomer-tend", |router, runtime| runtime.block_on(router.run_deferred())),
        with("isomer-plan", |router, runtime| runtime.block_on(router.plan())),
        start("isomer-sites", {
            let sites = sites.clone();
            move || sites.make_wanted()
        }),
        with("isomer-reconf", |router, runtime| runtime.block_on(router.run_reconfigurations())),
        start("isomer-failover", {
            let (router, runtime) = (router.clone(), runtime.clone());
            let failed_over = failed_over.clone();
            let told = move |done: &FailedOver| {
                crate::log_line(done);
                failed_over.lock().push(done.clone());
            };
            move || runtime.block_on(router.fail_over(told))
        }),
        start("isomer-readmit", {
            let (router, runtime, catalog) = (router.clone(), runtime.clone(), catalog.clone());
            move || {
                while let Some(site) = runtime.block_on(router.next_returned()) {
                    // Tables come and go with this locked.
                    let catalog = catalog.lock();
                    let is_known = |table| catalog.has(table);
                    runtime.block_on(router.readmit_all(site, is_known));
                }
            }
        }),
    ]
}
