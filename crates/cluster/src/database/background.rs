//! The background threads of a database: work that no transaction waits for.
//!
//! | thread | work |
//! | --- | --- |
//! | `isomer-changes` | deferred plans of the strategy, and missing backups |
//! | `isomer-plan` | planning ticks of the strategy |
//! | `isomer-reconf` | plans of operators |
//! | `isomer-failover` | takeovers from failed sites |
//! | `isomer-readmit` | readmission of restarted sites |
//! | `isomer-seats` | seats of gateways of other processes |
//! | `isomer-news`, `isomer-frees` | of a gateway whose conductor is in another process |
//! | `isomer-fused` | rows that are fused at the sites of the process |
//!
//! They end when the conductor is closed, after completing the work that they have begun. None of
//! that work waits for an unreachable site. The threads that work for the sites of the process are
//! those of its [node](crate::Node).

use crate::conductor::{Conductor, FailedOver, link_of};
use crate::embedded::{Embedded, Runtime, start};
use crate::fusion::homeward::{look_after, prepare};
use crate::gateways::{Desk, Link};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two looks at the seats of gateways.
const TICK: Duration = Duration::from_millis(20);
/// The number of such pauses between two looks whether other processes have gateways, and the
/// longest wait for their answers.
const TICKS_TO_SETTLE: u32 = 50;
const SETTLED: Duration = Duration::from_millis(500);
/// The longest wait for an answer of the conductor, and the pause after none has come.
const ANSWER: Duration = Duration::from_secs(2);
/// The pause between two looks at fused rows.
const LOOKS: Duration = Duration::from_millis(100);
/// The number of such looks after which fused rows are read though none is known to have moved.
const QUIET_MAX: u32 = 20;

/// See the [module documentation](self).
pub(super) struct Background {
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The threads that do not end with the conductor end with this.
    stop: Arc<AtomicBool>,
}

impl Background {
    pub(super) fn start(
        conductor: &Arc<Conductor<Embedded>>,
        runtime: &Arc<Runtime>,
        failed_over: &Arc<Mutex<Vec<FailedOver>>>,
    ) -> Background {
        let stop = Arc::default();
        let mut threads = of_conductor(conductor, runtime, failed_over);
        threads.push(look_after_fused(conductor, runtime, &stop));
        Background::with(threads, stop)
    }

    fn with(threads: Vec<JoinHandle<()>>, stop: Arc<AtomicBool>) -> Background {
        Background { threads: Mutex::new(threads), stop }
    }

    /// For a gateway whose conductor is in another process.
    pub(super) fn follow(
        conductor: &Arc<Conductor<Embedded>>,
        runtime: &Arc<Runtime>,
    ) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let with = |name: &str, work: fn(&Conductor<Embedded>, &Link, &Runtime) -> bool| {
            let (conductor, runtime, stop) = (conductor.clone(), runtime.clone(), stop.clone());
            start(name, move || {
                // Without a link, the conductor has come to this process.
                while let Some(link) = link_of(&conductor).filter(|_| !stop.load(Ordering::SeqCst))
                {
                    if !work(&conductor, link, &runtime) {
                        std::thread::park_timeout(TICK);
                    }
                }
            })
        };
        let threads = vec![
            look_after_fused(conductor, runtime, &stop),
            with("isomer-news", |conductor, link, runtime| {
                runtime.block_on_for(link.step(conductor), ANSWER).unwrap_or(false)
            }),
            with("isomer-frees", |conductor, link, runtime| {
                let sending = link.send_frees(conductor.transport());
                runtime.block_on_for(sending, ANSWER).unwrap_or(true)
            }),
        ];
        Background::with(threads, stop)
    }

    /// For a gateway whose process has become the conductor.
    pub(super) fn add_conductor(
        &self,
        conductor: &Arc<Conductor<Embedded>>,
        runtime: &Arc<Runtime>,
        failed_over: &Arc<Mutex<Vec<FailedOver>>>,
    ) {
        self.threads.lock().extend(of_conductor(conductor, runtime, failed_over));
    }

    /// Looks after the seats of gateways of other processes.
    pub(super) fn serve_gateways(&self, runtime: &Arc<Runtime>, desk: &Arc<Desk<Embedded>>) {
        let (stop, desk, runtime) = (self.stop.clone(), desk.clone(), runtime.clone());
        let thread = start("isomer-seats", move || {
            let mut ticks = 0_u32;
            while !stop.load(Ordering::SeqCst) && !runtime.is_closing() {
                desk.tick();
                ticks = ticks.wrapping_add(1);
                if ticks.is_multiple_of(TICKS_TO_SETTLE) {
                    // Without an answer, again next time.
                    let _ = runtime.block_on_for(desk.settle(), SETTLED);
                }
                std::thread::park_timeout(TICK);
            }
        });
        self.threads.lock().push(thread);
    }

    /// Waits for the threads to end.
    pub(super) fn join(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.lock().drain(..) {
            thread.thread().unpark();
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

/// Starts the thread that looks after the rows that are fused at the sites of this process.
fn look_after_fused(
    conductor: &Arc<Conductor<Embedded>>,
    runtime: &Arc<Runtime>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<()> {
    let (conductor, runtime, stop) = (conductor.clone(), runtime.clone(), stop.clone());
    start("isomer-fused", move || {
        let mut quiet = QUIET_MAX;
        while !stop.load(Ordering::SeqCst) && !runtime.is_closing() {
            // The next look repeats a step that fails.
            if conductor.mover.limit() > 0 && link_of(&conductor).is_none() {
                let _ = runtime.block_on(prepare(&conductor));
            }
            if conductor.ordered.fused().is_some() {
                // Fused rows also come with a takeover from another process.
                quiet += 1;
                if conductor.mover.take_changed() || quiet >= QUIET_MAX {
                    let done = runtime.block_on_for(look_after(&conductor), ANSWER);
                    quiet = if matches!(done, Some(Ok(()))) { 0 } else { QUIET_MAX };
                }
            }
            std::thread::park_timeout(LOOKS);
        }
    })
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
                tracing::warn!("{done}");
                failed_over.lock().push(done.clone());
            };
            move || runtime.block_on(conductor.fail_over(told))
        }),
        with("isomer-readmit", |conductor, runtime| {
            runtime.block_on(conductor.readmit_returned());
        }),
    ]
}
