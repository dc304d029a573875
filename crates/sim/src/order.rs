//! The total order of ordered tables, in a world: its log, the disk of that, and the engine.
//!
//! ```text
//!   process with the conductor     gateway ─ conductor ─ engine ─ the order's log ─ disk
//!                                                          │ steps of batches
//!   sites                          s1  s2  s3            ◀─┘    each with a disk of its own
//! ```
//!
//! The sites are **apart** from that process, and fail one by one; then a site that restarts waits
//! for the order. Or they are in the same process, and all fail together.

use crate::cluster::Cluster;
use crate::ledger;
use crate::plant::Plant;
use crate::world::{SimTransport, TaskId};
use isomer_cluster::conductor::Home;
use isomer_cluster::ordered::Ordering;
use isomer_cluster::{Error, FusedTable};
use isomer_design::TableId;
use isomer_log::{Durability, Log, MemoryLog, MemoryOptions};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

/// The tasks of the order, which end once it is closed.
pub(crate) const TASKS: [&str; 3] = ["the orderer", "the executor", "the disk of the order"];

/// How much longer a sync of the order takes if batches do not wait for it.
const LAX_TIMES: u64 = 20;

/// The home of a conductor that keeps nothing, and may have an order.
pub(crate) struct HasOrder;

impl Home for HasOrder {
    fn begin_order(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// See the [module documentation](self).
pub(crate) struct Order {
    log: Arc<MemoryLog>,
    engine: Arc<Ordering<SimTransport>>,
    tasks: [TaskId; 3],
    is_apart: bool,
}

impl Cluster {
    /// Begins an order, and makes all tables ordered. No transaction writes to them meanwhile.
    ///
    /// `is_lax`: a planted bug; batches do not wait for the disk.
    pub(crate) async fn begin_order(
        self: &Rc<Cluster>,
        is_apart: bool,
        is_lax: bool,
    ) -> Result<(), String> {
        let durability = if is_lax { Durability::None } else { Durability::Commit };
        let options = MemoryOptions { segment_bytes: 4096, keep_bytes: None, durability };
        self.open_order(Arc::new(MemoryLog::new(options)), is_apart).await?;
        let tables: Vec<TableId> = self.conductor().design().tables().map(|(id, _)| id).collect();
        let engine = self.order.borrow().as_ref().map(|order| order.engine.clone());
        let engine = engine.expect("it was just opened");
        engine.set_ordered(&tables, true).await.map_err(|error| error.to_string())
    }

    async fn open_order(
        self: &Rc<Cluster>,
        log: Arc<MemoryLog>,
        is_apart: bool,
    ) -> Result<(), String> {
        let world = &self.world;
        #[allow(clippy::arc_with_non_send_sync, reason = "on threads it is shared")]
        let engine = Arc::new(Ordering::new(self.router(), log.clone(), false, is_apart));
        let found = engine.read().await.map_err(|error| error.to_string())?;
        let disk = world.spawn(TASKS[2].into(), sync(self.clone(), log.clone()));
        let mut found = Some(found);
        if !is_apart {
            let recovered = engine.recover(found.take().expect("it was just read")).await;
            let decided = recovered.map_err(|error| error.to_string())?;
            world.note(format_args!("the order is executed, {decided} batches decided now"));
        }
        let (orderer, executor) = (engine.clone(), engine.clone());
        let orderer = world.spawn(TASKS[0].into(), async move { orderer.order_batches().await });
        let cluster = self.clone();
        let executor = world.spawn(TASKS[1].into(), async move {
            if let Some(found) = found {
                match executor.recover(found).await {
                    Ok(decided) => cluster
                        .world
                        .note(format_args!("the order is executed, {decided} batches decided now")),
                    Err(error) => panic!("the order cannot be executed: {error}"),
                }
            }
            executor.execute_batches().await;
        });
        if is_apart {
            let queue = engine.queue().clone();
            world.set_on_start(move |site| queue.may_wait(site));
        }
        *self.order.borrow_mut() =
            Some(Order { log, engine, tasks: [orderer, executor, disk], is_apart });
        Ok(())
    }

    /// The process with the order fails. Its durable batches remain, and a random prefix of the
    /// others.
    pub(crate) fn crash_order(&self) {
        let mut order = self.order.borrow_mut();
        let Some(order) = order.as_mut() else { return };
        order.tasks.into_iter().for_each(|task| self.world.kill(task));
        let kept = self.world.draw(order.log.durable()..order.log.end() + 1);
        order.log = Arc::new(order.log.crash(kept));
        self.world.note(format_args!("the process with the order fails"));
    }

    /// The next conductor opens the order.
    pub(crate) async fn reopen_order(self: &Rc<Cluster>, is_apart: bool) -> Result<(), String> {
        let log = self.order.borrow().as_ref().map(|order| order.log.clone());
        self.open_order(log.expect("there was an order"), is_apart).await
    }

    /// Ends the engine, once it has executed what waits.
    pub(crate) fn close_order(&self) {
        if let Some(order) = &*self.order.borrow() {
            order.engine.queue().close();
        }
    }

    /// Ends the disk of the order.
    pub(crate) fn end_order(&self) {
        if let Some(order) = &*self.order.borrow() {
            self.world.kill(order.tasks[2]);
        }
    }

    /// True if the tables are ordered.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order.borrow().is_some()
    }

    /// The order as its log has it.
    pub(crate) fn ordered(&self) -> Option<ledger::order::Ordered> {
        let order = self.order.borrow();
        let order = order.as_ref()?;
        // Sites apart have a batch on disk before any of its commits is acknowledged.
        let first = if order.is_apart { Default::default() } else { self.world.first_installed() };
        let fused = FusedTable(&self.conductor()).table();
        Some(ledger::order::Ordered { batches: ledger::order::batches(&order.log), fused, first })
    }
}

/// Syncs the log of the order whenever batches wait; a sync takes time.
async fn sync(cluster: Rc<Cluster>, log: Arc<MemoryLog>) {
    while poll_fn(|cx| log.poll_work(cx.waker())).await.is_ok() {
        let (least, below) = cluster.world.sync_ns();
        // A planted bug: batches do not wait, and by now their sites have them.
        let is_lax = cluster.world.plant() == Some(Plant::EarlyBatch);
        let times = if is_lax { LAX_TIMES } else { 1 };
        cluster.world.sleep(times * cluster.world.draw(least..below)).await;
        if log.sync().is_err() {
            return;
        }
    }
}
