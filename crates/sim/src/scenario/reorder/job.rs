//! Runs changes of the layout one after the other, as [`Reorder`] says. Each runs to its end, or is
//! abandoned, or is cut short by the death of the process.
//!
//! The planted bugs are here: steps that are reported as done and were not, and a copy without
//! locks.

use super::super::Run;
use super::{Agreement, Beside, By, Order, Plan, begin, enter_catalog, id_of, make, restart};
use crate::plant::Plant;
use isomer_cluster::open::{
    CancelReason, CancelToken, Isolation, LockMode, OpenError, OpenTransaction,
};
use isomer_cluster::reorder::{Batch, Came, Copied, Reorder, Step};
use isomer_design::{Direction, Key};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The longest interval between changes, in nanoseconds.
const IDLE_NS: u64 = 20_000_000;
/// The interval between checks of a wait, in nanoseconds.
const LOOK_NS: u64 = 500_000;
/// How many times the table lock is tried without waiting before it is requested.
const LOOKS: usize = 3;
/// The most attempts of a step that has certainly had no effect; the pauses between them are at
/// most [`PAUSE_NS`].
const TRIES_MAX: usize = 10;
const PAUSE_NS: u64 = 20_000_000;
/// The most rows of a batch, as the table has few.
const ROWS_MAX: u64 = 10;
/// Before how many of a thousand steps the process dies.
const DIES_PER_MILLE: u64 = 10;

type World = crate::world::World;
type Txn = OpenTransaction<crate::world::SimTransport>;

pub(super) async fn go(run: &Rc<Run>) {
    let (world, orders) = (run.world(), run.orders());
    while !run.stopping.get() {
        world.doing(|| "waits before the next change of order".into());
        world.sleep(world.draw(0..IDLE_NS)).await;
        let plan = orders.plan();
        let by = if plan.own.by == By::Id { By::Group } else { By::Id };
        let made = make(run, by, &orders.next_table).await;
        let Ok(new) = made else { continue };
        let is_entered = world.plant() == Some(Plant::SuddenOrder);
        orders.publish(plan.own, Some(Beside { order: new, is_entered }));
        let mut change = Change { run, now: orders.plan(), new, closed: None };
        match change.drive().await {
            End::Whole => {}
            End::GivenUp => change.undo().await,
            End::Dead => {
                drop(change);
                restart(run).await;
            }
        }
    }
}

/// The result of a change.
enum End {
    /// It was made.
    Whole,
    /// It was not made, and must be undone.
    GivenUp,
    /// The process died.
    Dead,
}

struct Change<'r> {
    run: &'r Rc<Run>,
    now: Rc<Plan>,
    new: Order,
    /// Holds the table lock, which keeps writers out.
    closed: Option<Txn>,
}

impl Change<'_> {
    fn world(&self) -> &Rc<World> {
        self.run.world()
    }

    async fn drive(&mut self) -> End {
        let mut change = Reorder::begin(false);
        loop {
            let (step, world) = (change.step(), self.world().clone());
            world.doing(|| format!("{step:?}"));
            world.note(format_args!("the order of {}: {step:?}", self.new.rows));
            if world.chance(DIES_PER_MILLE) {
                return End::Dead;
            }
            if self.run.stopping.get() && !change.is_switched() {
                return End::GivenUp;
            }
            let came = match step {
                Step::Done => return End::Whole,
                Step::AwaitWriters => self.await_writers().await,
                Step::Enter => {
                    let beside = Beside { order: self.new, is_entered: true };
                    self.run.orders().publish(self.now.own, Some(beside));
                    Ok(Came::Done)
                }
                Step::Copy(batch) => self.copy(batch).await,
                Step::Pause(ns) => {
                    world.sleep(ns).await;
                    Ok(Came::Done)
                }
                Step::Close(patience_ms) => self.close(patience_ms).await,
                Step::Switch => match self.switch().await {
                    Ok(()) if world.chance(DIES_PER_MILLE) => return End::Dead,
                    Ok(()) => {
                        self.publish_switch();
                        Ok(Came::Done)
                    }
                    Err(error) => Err(error),
                },
                Step::AwaitReaders => {
                    self.await_readers().await;
                    Ok(Came::Done)
                }
                Step::LetGo => {
                    self.run.orders().disagree(world.now());
                    self.run.orders().publish(self.now.own, None);
                    Ok(Came::Done)
                }
            };
            match came {
                Ok(came) => change.came(&came),
                Err(error) => {
                    world.note(format_args!("a change of order fails: {error}"));
                    return End::GivenUp;
                }
            }
        }
    }

    async fn await_writers(&self) -> Result<Came, OpenError> {
        if self.world().plant() != Some(Plant::MissedWriters) {
            let mut open = begin(self.run, Isolation::ReadCommitted);
            open.wait_for_holders(self.now.own.rows).await?;
        }
        Ok(Came::Done)
    }

    async fn copy(&self, mut batch: Batch) -> Result<Came, OpenError> {
        let world = self.world();
        batch.rows = batch.rows.min(world.draw(1..ROWS_MAX) as usize);
        batch.rows_alone = batch.rows;
        let begun = world.now();
        let mut tries = 0;
        let copied = loop {
            let (is_committed, copied) = self.copy_once(&batch).await;
            tries += 1;
            match copied {
                Ok(copied) => break copied,
                // The commit may still arrive, and overwrite later writes.
                Err(error) if is_committed && is_unknown(&error) => return Err(error),
                Err(error) if tries == TRIES_MAX => return Err(error),
                Err(_) => world.sleep(world.draw(0..PAUSE_NS)).await,
            }
        };
        if copied.is_end {
            let from = self.run.cluster.gateway().present();
            let orders = [self.now.own, self.new];
            let agreement = Agreement { orders, from, until: None };
            self.run.orders().agreements.borrow_mut().push(agreement);
        }
        Ok(Came::Copied(copied, world.now().0 - begun.0))
    }

    /// The result of one attempt; true if it reached its commit.
    async fn copy_once(&self, batch: &Batch) -> (bool, Result<Copied, OpenError>) {
        if self.world().plant() == Some(Plant::UnlockedCopy) {
            return (true, self.copy_unlocked(batch).await);
        }
        let mut open = begin(self.run, Isolation::ReadCommitted);
        let own = self.now.own.rows;
        if let Some(key) = &batch.waits_for
            && let Err(error) = open.hold(own, key, LockMode::Shared).await
        {
            return (false, Err(error));
        }
        let entered = |key: &Key, value| self.new.entries(id_of(key), value);
        let copied = match open.copy(own, batch, entered).await {
            Ok(copied) => copied,
            Err(error) => return (false, Err(error)),
        };
        (true, open.commit().await.map(|_| copied))
    }

    /// The planted bug: copies the rows of a slightly older snapshot.
    async fn copy_unlocked(&self, batch: &Batch) -> Result<Copied, OpenError> {
        let gateway = self.run.cluster.gateway();
        let mut reader = gateway.begin(Isolation::ReadCommitted, Arc::default());
        let mut rows = Vec::new();
        let visit = |key: &[u8], row: &[u8]| {
            rows.push((Key::from_bytes(key), crate::ledger::decode(row)));
            match rows.len() < batch.rows {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        reader.scan(self.now.own.rows, &batch.range, Direction::Forward, visit).await?;
        drop(reader);
        self.world().sleep(self.world().draw(0..2_000_000)).await;
        let mut open = begin(self.run, Isolation::ReadCommitted);
        for (key, value) in &rows {
            for (table, key, value) in self.new.entries(id_of(key), *value) {
                open.enter(table, &key, Some(value)).await?;
            }
        }
        open.commit().await?;
        let (count, last) = (rows.len() as u64, rows.last().map(|(key, _)| key.clone()));
        Ok(Copied {
            rows: count,
            last,
            busy: None,
            is_alone: false,
            is_end: rows.len() < batch.rows,
        })
    }

    async fn close(&mut self, patience_ms: u64) -> Result<Came, OpenError> {
        let (run, place) = (self.run, (self.now.own.rows, Key::min()));
        if self.world().plant() == Some(Plant::EarlySwitch) {
            return Ok(Came::Done);
        }
        let patience = Arc::new(CancelToken::default());
        let mut txn = run.cluster.gateway().begin(Isolation::ReadCommitted, patience.clone());
        for _ in 0..LOOKS {
            match txn.lock(place.0, &place.1, LockMode::Exclusive, false).await {
                Ok(()) => {
                    self.closed = Some(txn);
                    return Ok(Came::Done);
                }
                Err(OpenError::Locked) => self.world().sleep(LOOK_NS).await,
                Err(error) => return Err(error),
            }
        }
        self.world().after(patience_ms * 1_000_000, move || patience.end(CancelReason::LockTime));
        match txn.lock(place.0, &place.1, LockMode::Exclusive, true).await {
            Ok(()) => {
                self.closed = Some(txn);
                Ok(Came::Done)
            }
            Err(OpenError::Canceled(_) | OpenError::Deadlock(_)) => Ok(Came::Open),
            Err(error) => Err(error),
        }
    }

    /// The commit to the catalog.
    async fn switch(&self) -> Result<(), OpenError> {
        let meaning = self.run.cluster.fresh_value();
        self.run.orders().meanings.borrow_mut().insert(meaning, self.new);
        let mut tries = 0;
        loop {
            tries += 1;
            match enter_catalog(self.run, meaning).await {
                Err(error) if tries < TRIES_MAX && !is_unknown(&error) => {
                    self.world().sleep(self.world().draw(0..PAUSE_NS)).await;
                }
                entered => return entered,
            }
        }
    }

    fn publish_switch(&mut self) {
        let orders = self.run.orders();
        self.world().note(format_args!("rows are found in {} now", self.new.rows));
        orders.publish(self.new, Some(Beside { order: self.now.own, is_entered: true }));
        orders.switches.set(orders.switches.get() + 1);
        self.now = orders.plan();
        self.closed = None;
    }

    async fn await_readers(&self) {
        let readers = &self.run.orders().readers;
        while readers.borrow().values().any(|version| *version < self.now.version) {
            self.world().sleep(LOOK_NS).await;
        }
    }

    /// Restores the layout, also if the state of the catalog is unknown.
    async fn undo(&mut self) {
        let (orders, own) = (self.run.orders(), self.now.own);
        if own != self.new {
            let meaning = self.run.cluster.fresh_value();
            orders.meanings.borrow_mut().insert(meaning, own);
            while let Err(error) = enter_catalog(self.run, meaning).await {
                self.world().doing(|| format!("puts the catalog back, after {error}"));
                self.world().sleep(LOOK_NS).await;
            }
            orders.disagree(self.world().now());
            orders.publish(own, None);
        }
        self.closed = None;
    }
}

/// True if the write may have taken effect.
fn is_unknown(error: &OpenError) -> bool {
    matches!(error, OpenError::Database(error) if error.is_unknown())
}
