//! Ordered tables of an embedded database: the log of the order, and the threads of its engine.
//!
//! | thread | work |
//! | --- | --- |
//! | `isomer-orderer` | closes batches and makes them durable |
//! | `isomer-batches` | executes them at the sites |
//!
//! A database without ordered tables has no such log and no such threads.

use super::Database;
use crate::embedded::{Embedded, drive, start};
use crate::error::{Error, OpenDatabaseError};
use crate::ordered::{NotOrdered, OrderCounters, OrderQueue, Ordering};
use crate::transport::Transport;
use isomer_design::TableId;
use isomer_site::{BatchStep, Failure, OrderedSite};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The running engine of a database.
pub(super) struct RunningOrder {
    queue: Arc<OrderQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Database {
    /// Says whether transactions on a table are [ordered](crate::ordered). The caller knows that it
    /// has no rows and no transactions.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table. [`Error::Open`] if sites are in other
    /// processes, or the logs are where there is no order. Nothing has changed then.
    pub fn set_ordered(&self, table: TableId, is_ordered: bool) -> Result<(), Error> {
        if is_ordered {
            self.check_order()?;
            start_order(self)?;
        }
        let set = crate::conductor::set_ordered(&self.conductor, table, is_ordered);
        self.node.runtime.block_on(set)?;
        if let Some(queue) = self.router.ordered() {
            queue.set_ordered(table, is_ordered);
        }
        Ok(())
    }

    /// Switches tables with rows to the order, or back, together. The caller keeps writers out of
    /// them, and no transaction that has written to them is open.
    ///
    /// # Errors
    /// As [`Database::set_ordered`]. The switch can be repeated then.
    pub fn switch_ordered(&self, tables: &[TableId], is_ordered: bool) -> Result<(), Error> {
        if is_ordered {
            self.check_order()?;
            start_order(self)?;
        }
        let Some(queue) = self.router.ordered() else { return Ok(()) };
        settle(self)?;
        for table in tables {
            let set = crate::conductor::set_ordered(&self.conductor, *table, is_ordered);
            self.node.runtime.block_on(set)?;
            queue.set_ordered(*table, is_ordered);
        }
        queue.note_switch(tables);
        Ok(())
    }

    /// Checks that there can be ordered tables.
    ///
    /// # Errors
    /// [`Error::Open`], if not.
    pub fn check_order(&self) -> Result<(), Error> {
        if self.node.runtime.has_wire() {
            let what = "sites in other processes cannot take part yet".to_owned();
            return Err(OpenDatabaseError::Order(what).into());
        }
        if self.node.storage.can_be_taken() {
            self.node.storage.order()?;
        }
        Ok(())
    }

    /// Counts of the order; `None` if there are no ordered tables.
    pub fn order_counters(&self) -> Option<OrderCounters> {
        self.router.ordered().map(|queue| queue.counters())
    }
}

/// Executes all that is ordered. On return the outcomes and the rows are durable, like all other
/// commits at the sites.
fn settle(database: &Database) -> Result<(), Error> {
    let Some(queue) = database.router.ordered() else { return Ok(()) };
    let settled = database.node.runtime.block_on(queue.settle());
    settled.map_err(|error| match error {
        NotOrdered::Refused(error) | NotOrdered::Unknown(error) => {
            Error::Failure(Failure::Log(error))
        }
        NotOrdered::Conflict(_) => unreachable!("a commit without reads has no conflict"),
    })?;
    let sites = database.design().sites().clone();
    for site in sites.iter() {
        let step = database.conductor.transport().batch(site, BatchStep::Settle);
        database.node.runtime.block_on(step).map_err(Error::Failure)?;
    }
    Ok(())
}

/// Executes what the order has and the sites lack, if there is an order.
pub(super) fn recover_order(database: &Database) -> Result<(), Error> {
    let design = database.design();
    let mut tables = design.tables().filter(|(_, table)| table.is_ordered()).peekable();
    if tables.peek().is_none() {
        return Ok(());
    }
    start_order(database)?;
    if let Some(queue) = database.router.ordered() {
        tables.for_each(|(table, _)| queue.set_ordered(table, true));
    }
    Ok(())
}

fn start_order(database: &Database) -> Result<(), Error> {
    let mut running = database.order.lock();
    if running.is_some() {
        return Ok(());
    }
    let log = database.node.storage.order()?;
    let queue = Arc::new(OrderQueue::default());
    let engine = Ordering::new(database.router.clone(), queue.clone(), log, true);
    let engine: Arc<Ordering<Embedded>> = Arc::new(engine);
    let outcomes = database
        .node
        .runtime
        .sites()
        .iter()
        .flat_map(|site| OrderedSite(site).outcomes())
        .collect();
    let recovered = drive(engine.recover(outcomes));
    recovered.map_err(|error| OpenDatabaseError::Order(error.to_string()))?;
    let (orderer, executor) = (engine.clone(), engine);
    let threads = vec![
        start("isomer-orderer", move || drive(orderer.order_batches())),
        start("isomer-batches", move || drive(executor.execute_batches())),
    ];
    database.router.set_ordered(queue.clone());
    *running = Some(RunningOrder { queue, threads });
    Ok(())
}

/// Waits until no batch that is not settled names a table that is about to be dropped.
pub(super) fn settle_before_drop(database: &Database, table: TableId) -> Result<(), Error> {
    let is_ordered = database.router.ordered().is_some_and(|queue| queue.is_ordered(table));
    if is_ordered { settle(database) } else { Ok(()) }
}

/// Executes what waits, and ends the engine.
pub(super) fn stop_order(database: &Database) {
    let Some(RunningOrder { queue, threads }) = database.order.lock().take() else { return };
    queue.close();
    for thread in threads {
        // A thread that panicked has reported it already.
        let _ = thread.join();
    }
}
