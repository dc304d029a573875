//! Ordered tables of an embedded database: the log of the order, and the threads of its engine.
//!
//! | thread | work |
//! | --- | --- |
//! | `isomer-orderer` | closes batches and makes them durable |
//! | `isomer-batches` | executes what a crash has cut off, then batches, at the sites |
//!
//! A database without ordered tables has no such log and no such threads. They are in the process
//! with the conductor.

use super::Database;
use crate::conductor::link_of;
use crate::embedded::{Embedded, drive, start};
use crate::error::{Error, OpenDatabaseError};
use crate::gateways::messages::Define;
use crate::open::{CancelReason, CancelToken};
use crate::ordered::hashes::{CopyHash, hashes};
use crate::ordered::{AheadCounters, OrderCounters, Ordering};
use crate::router::{Router, unless};
use crate::storage::Storage;
use crate::transport::Transport;
use isomer_design::{Footprint, Key, SiteId, TableId};
use isomer_strategy::batch::Route;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::thread::JoinHandle;

/// The threads of the order, once there is one.
#[derive(Default)]
pub(super) struct OrderThreads {
    router: OnceLock<Weak<Router<Embedded>>>,
    /// Held while the order begins: its log has one owner.
    beginning: Mutex<()>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Database {
    /// Says whether transactions on tables are [ordered](crate::ordered). The caller knows that
    /// they have no rows and no transactions; or it keeps writers out of them, and no transaction
    /// that has written to them is open.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table. [`Error::Open`] if the logs are where there is
    /// no order. The call can be repeated then.
    pub fn set_ordered(&self, tables: &[TableId], is_ordered: bool) -> Result<(), Error> {
        if link_of(&self.conductor).is_some() {
            let definition = Define::Ordered(tables.to_vec(), is_ordered);
            return self.others().define(definition).map(drop);
        }
        let set = crate::conductor::set_ordered(&self.conductor, tables, is_ordered);
        self.node.runtime.block_on(set)
    }

    /// Checks that there can be ordered tables.
    ///
    /// # Errors
    /// [`Error::Open`], if not.
    pub fn check_order(&self) -> Result<(), Error> {
        let storage = &self.node.storage;
        if self.node.runtime.has_wire() && !storage.can_be_taken() {
            let what = "the logs of the nodes are in their folders, and end with them".to_owned();
            return Err(OpenDatabaseError::Order(what).into());
        }
        Ok(())
    }

    /// Counts of the order; `None` if this process does not order commits.
    pub fn order_counters(&self) -> Option<OrderCounters> {
        let queue = &self.conductor.order;
        queue.is_running().then(|| queue.counters())
    }
}

/// The rows of ordered tables that [move](crate::fusion) to the process of a database.
pub struct FusedRows<'d>(pub &'d Database);

impl FusedRows<'_> {
    /// Sets the number of rows that may move to each site of this process, from other processes.
    /// With 0, rows that have moved here go home. All processes should be told the same.
    pub fn set_limit(&self, rows: usize) {
        self.0.conductor.mover.set_limit(rows);
    }

    /// The number of rows that may move to each site of this process.
    pub fn limit(&self) -> usize {
        self.0.conductor.mover.limit()
    }

    /// The rows that have moved, wherever that is: their sites, tables and keys, in this order.
    ///
    /// # Errors
    /// [`Error`], if a site with such rows cannot be asked.
    pub fn all(&self) -> Result<Vec<(SiteId, TableId, Key)>, Error> {
        self.0.node.runtime.block_on(crate::fusion::homeward::fused_rows(&self.0.conductor))
    }
}

/// The hashes of all copies of ordered tables as of now ([`crate::ordered::hashes`]).
pub fn order_hashes(database: &Database) -> Vec<CopyHash> {
    database.node.runtime.block_on(hashes(&database.conductor))
}

/// Statements on ordered tables that ask where to run ([prescient
/// routing](crate::ordered::ahead)).
pub struct OrderRouter<'d>(pub &'d Database);

/// The turn of a statement, until this is dropped.
pub struct StatementTurn {
    number: u64,
    router: Arc<Router<Embedded>>,
    /// The site of the process that is to run the statement; `None`: this process.
    pub elsewhere: Option<SiteId>,
    /// The rows that it writes are to move to the process that runs it.
    pub keeps_rows: bool,
}

impl OrderRouter<'_> {
    /// Sets the router of this name. All processes should be told the same; that of the process
    /// with the conductor routes. `None`: statements run where their clients are.
    pub fn set(&self, name: &str, route: Option<Arc<dyn Route>>) {
        self.0.conductor.ahead.set_route(route.map(|route| (name.to_owned(), route)));
    }

    /// The name of the router, if there is one.
    pub fn name(&self) -> Option<String> {
        self.0.conductor.ahead.name()
    }

    /// True if there is a router.
    pub fn is_set(&self) -> bool {
        self.0.conductor.ahead.is_on()
    }

    /// True if all of these tables are ordered.
    pub fn is_about(&self, footprint: &Footprint) -> bool {
        let ordered = self.0.router.ordered();
        footprint.items().iter().all(|item| ordered.has(item.table))
    }

    /// Counts of the statements that this process has routed.
    pub fn counters(&self) -> AheadCounters {
        self.0.conductor.ahead.counters()
    }

    /// Waits for the turn of a statement with this footprint.
    ///
    /// # Errors
    /// The reason, if its client has canceled it.
    pub fn turn(
        &self,
        footprint: Footprint,
        cancel: &CancelToken,
    ) -> Result<StatementTurn, CancelReason> {
        let conductor = &self.0.conductor;
        let keeps_rows = conductor.ahead.keeps_rows();
        let number = conductor.ahead.number();
        let router = self.0.router.clone();
        let mut held = StatementTurn { number, router, elsewhere: None, keeps_rows };
        let turn = async {
            match link_of(conductor) {
                Some(link) => link.turn(conductor.transport(), number, footprint).await,
                None => conductor.ahead.turn(&**conductor, (0, number), footprint, || true).await,
            }
        };
        let over = |waker: &Waker| cancel.poll_over(waker);
        let site = self.0.node.runtime.block_on(unless(&over, turn))?;
        held.elsewhere = site.filter(|site| !conductor.transport().drop_revokes(*site));
        Ok(held)
    }
}

impl Drop for StatementTurn {
    fn drop(&mut self) {
        let conductor = self.router.conductor();
        match link_of(conductor) {
            Some(link) => link.end_turn(self.number),
            None => conductor.ahead.end((0, self.number)),
        }
    }
}

/// Opens the order, if there is one, before other sites can take over from failed ones. In a
/// cluster the executor begins now, because sites that wait for it hold what repairs may need. In
/// one process it begins with [`run_order`].
pub(super) fn open_order(database: &Database) -> Result<Option<Opened>, Error> {
    let _ = database.order.router.set(Arc::downgrade(&database.router));
    let has_tables = database.design().tables().any(|(_, table)| table.is_ordered());
    if !has_tables && !database.node.storage.has_order()? {
        return Ok(None);
    }
    let opened = read_order(&*database.node.storage, &database.router)?;
    if opened.engine.is_apart {
        opened.run(&database.order)?;
        return Ok(None);
    }
    Ok(Some(opened))
}

/// Executes what a crash has cut off, once the changes of the design that it cut off are repaired:
/// a partition may have no master until then.
pub(super) fn run_order(database: &Database, opened: Option<Opened>) -> Result<(), Error> {
    opened.map_or(Ok(()), |opened| opened.run(&database.order))
}

/// An order that was read.
pub(super) struct Opened {
    engine: Arc<Ordering<Embedded>>,
    found: crate::ordered::Found,
}

fn read_order(storage: &dyn Storage, router: &Arc<Router<Embedded>>) -> Result<Opened, Error> {
    let log = storage.order()?;
    let engine = Arc::new(Ordering::new(router.clone(), log, true, storage.can_be_taken()));
    let found = drive(engine.read()).map_err(bad_order)?;
    Ok(Opened { engine, found })
}

fn bad_order(error: crate::ordered::BadOrder) -> Error {
    OpenDatabaseError::Order(error.to_string()).into()
}

impl Opened {
    /// Executes what the sites lack, and starts the threads. In one process the sites lack nothing
    /// on return. In a cluster the executor may wait for other processes, while their sites hold
    /// what is not complete.
    fn run(self, threads: &OrderThreads) -> Result<(), Error> {
        let Opened { engine, found } = self;
        let (orderer, executor) = (engine.clone(), engine);
        let later = match executor.is_apart {
            true => Some(found),
            false => {
                drive(executor.recover(found)).map_err(bad_order)?;
                None
            }
        };
        let batches = move || {
            drive(async {
                if let Some(found) = later
                    && let Err(error) = executor.recover(found).await
                {
                    return executor.halt(&error.to_string());
                }
                executor.execute_batches().await;
            });
        };
        let orders = move || drive(orderer.order_batches());
        let started = [start("isomer-orderer", orders), start("isomer-batches", batches)];
        threads.running.lock().extend(started);
        Ok(())
    }
}

/// Begins an order, unless there is one.
pub(super) fn begin_order(threads: &OrderThreads, storage: &dyn Storage) -> Result<(), Error> {
    let Some(router) = threads.router.get().and_then(Weak::upgrade) else {
        return Err(Error::NoSeat);
    };
    let _alone = threads.beginning.lock();
    if router.conductor().order.is_running() {
        return Ok(());
    }
    read_order(storage, &router)?.run(threads)
}

/// Executes what waits, and ends the engine.
pub(super) fn stop_order(database: &Database) {
    database.conductor.order.close();
    for thread in std::mem::take(&mut *database.order.running.lock()) {
        // A thread that panicked has reported it already.
        let _ = thread.join();
    }
}
