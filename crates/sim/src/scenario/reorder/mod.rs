//! A table whose layout changes again and again while clients use it and all faults happen: the
//! protocol of [`isomer_cluster::reorder`], with a simple catalog instead of the server's.
//!
//! ```text
//!   rows             id → value                        by id:      7 → 42
//!   by group         the value, modulo five, is the    by group:   (2, 7) → 42, and an index of ids: (7, 2, 7)
//!                    group, so rows move when they     both:       an index of marks, the value modulo three
//!                    change
//!   catalog          one row with the table's own layout; the second layout is in memory only
//! ```
//!
//! | task | what it does |
//! | --- | --- |
//! | [`client`] | transactions that insert, update, move and delete rows in all layouts; scans |
//! | [`job`] | one change of the layout after the other; each is finished or abandoned |
//! | the process | dies at any step of a change, with all its clients, and restarts from the catalog's row |
//! | the operator | splits, merges and moves the partitions of these tables |
//!
//! The invariants of the layouts are in [`checker`].

mod checker;
mod client;
mod job;

use super::{Run, settle};
use crate::history::Value;
use crate::statements::{Entered, Statements};
use crate::world::TaskId;
pub(super) use checker::check;
use isomer_cluster::open::{CancelToken, Isolation, LockMode, OpenError};
use isomer_design::{
    Change, Column, ColumnType, Key, KeyRange, Placement, Schema, SiteId, TableId, Time,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Ids are 0 up to this, exclusive.
const IDS: u64 = 24;
const GROUPS: i64 = 5;
const MARKS: i64 = 3;
/// The table whose only row identifies the current layout.
const CATALOG: TableId = TableId(900);
/// The number of the first table for a layout.
const FIRST: u32 = 1000;
/// The interval, in nanoseconds, at which a restart checks whether all clients have ended.
const LOOK_NS: u64 = 200_000;

/// The key of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Id,
    Group,
}

/// A layout of the rows, and its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Order {
    by: By,
    rows: TableId,
    /// The index of ids, if these are not the key.
    ids: Option<TableId>,
    marks: TableId,
}

impl Order {
    fn place(&self, id: i64, value: Value) -> Key {
        match self.by {
            By::Id => Key::int(id),
            By::Group => Key::ints(&[value % GROUPS, id]),
        }
    }

    /// The row and the index entries of a row, in this order.
    fn entries(&self, id: i64, value: Value) -> Entered {
        let place = self.place(id, value);
        let with = |first: i64| {
            let place = place.to_ints().expect("a place is made of numbers");
            Key::ints(&[&[first][..], &place].concat())
        };
        let mut entries = vec![(self.rows, place.clone(), value)];
        entries.extend(self.ids.map(|ids| (ids, with(id), id)));
        entries.push((self.marks, with(value % MARKS), id));
        entries
    }

    fn parts(&self) -> impl Iterator<Item = TableId> + use<> {
        [self.rows, self.marks].into_iter().chain(self.ids)
    }
}

fn id_of(place: &Key) -> i64 {
    *place
        .to_ints()
        .and_then(|ints| ints.last().copied())
        .as_ref()
        .expect("a place ends with the id")
}

/// The state of the table in the process.
#[derive(Debug)]
struct Plan {
    version: u64,
    own: Order,
    beside: Option<Beside>,
}

/// A second layout, and whether writers maintain it, or only remove from it.
#[derive(Clone, Copy, Debug)]
struct Beside {
    order: Order,
    is_entered: bool,
}

/// A period in which both layouts must agree.
struct Agreement {
    orders: [Order; 2],
    from: Time,
    until: Option<Time>,
}

/// The state that the tasks share.
pub(crate) struct Orders {
    plan: RefCell<Rc<Plan>>,
    next_table: Cell<u32>,
    /// The layout of each value of the catalog's row.
    meanings: RefCell<BTreeMap<Value, Order>>,
    /// The process is down: its clients have ended, or are about to.
    is_down: Cell<bool>,
    /// The number of clients in a transaction.
    at_work: Cell<u64>,
    /// The version of the plan that each reader uses.
    readers: RefCell<BTreeMap<u64, u64>>,
    agreements: RefCell<Vec<Agreement>>,
    switches: Cell<u64>,
    restarts: Cell<u64>,
}

impl Orders {
    fn plan(&self) -> Rc<Plan> {
        self.plan.borrow().clone()
    }

    /// Sets the plan of all transactions that begin from now on.
    fn publish(&self, own: Order, beside: Option<Beside>) {
        let version = self.plan().version + 1;
        *self.plan.borrow_mut() = Rc::new(Plan { version, own, beside });
    }

    fn is_current(&self, plan: &Plan) -> bool {
        self.plan.borrow().version == plan.version
    }

    /// Both layouts are no longer written.
    fn disagree(&self, now: Time) {
        let mut agreements = self.agreements.borrow_mut();
        for agreement in agreements.iter_mut().filter(|agreement| agreement.until.is_none()) {
            agreement.until = Some(now);
        }
    }

    /// The numbers of switches of the layout and of restarts of the process.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.switches.get(), self.restarts.get())
    }
}

/// Creates the table, with rows.
pub(super) fn load(run: &Rc<Run>) -> Result<(), String> {
    if !run.draw.reshards {
        return Ok(());
    }
    let loader = run.clone();
    settle::await_it(run, "the loader of orders", settle::LOAD_NS, async move {
        let next_table = Cell::new(FIRST);
        let own = make(&loader, By::Id, &next_table).await?;
        create(&loader, CATALOG, "catalog").await?;
        let first = loader.cluster.fresh_value();
        let orders = Orders {
            plan: RefCell::new(Rc::new(Plan { version: 1, own, beside: None })),
            next_table,
            meanings: RefCell::new(BTreeMap::from([(first, own)])),
            is_down: Cell::new(false),
            at_work: Cell::new(0),
            readers: RefCell::default(),
            agreements: RefCell::default(),
            switches: Cell::new(0),
            restarts: Cell::new(0),
        };
        let _ = loader.orders.set(orders);
        let words = |error: OpenError| error.to_string();
        enter_catalog(&loader, first).await.map_err(words)?;
        for id in (0..IDS as i64).filter(|_| !loader.world().chance(250)) {
            let mut open = begin(&loader, Isolation::ReadCommitted);
            let plan = loader.orders().plan();
            let value = loader.cluster.fresh_value();
            client::put(&mut open, &plan, id, Some(value)).await.map_err(words)?;
            open.commit().await.map_err(words)?;
        }
        Ok(())
    })
}

/// Starts all tasks; returns those of clients.
pub(super) fn start(run: &Rc<Run>) -> Vec<TaskId> {
    if !run.draw.reshards {
        return Vec::new();
    }
    let (changing, operating) = (run.clone(), run.clone());
    run.world().spawn("the job".into(), async move { job::go(&changing).await });
    run.world().spawn("operator of orders".into(), async move { operate(&operating).await });
    client::start(run)
}

fn begin(run: &Run, isolation: Isolation) -> Statements {
    let mut open = Statements::begin(&run.cluster, isolation, Arc::new(CancelToken::default()));
    open.next();
    open
}

/// Creates the tables of a layout.
async fn make(run: &Run, by: By, next: &Cell<u32>) -> Result<Order, String> {
    let id = || TableId(next.replace(next.get() + 1));
    let (rows, marks) = (id(), id());
    let ids = (by == By::Group).then(id);
    let order = Order { by, rows, ids, marks };
    for id in order.parts() {
        create(run, id, "order").await?;
    }
    Ok(order)
}

async fn create(run: &Run, id: TableId, what: &str) -> Result<(), String> {
    let world = run.world();
    let columns = ["first", "value"].map(|name| Column::new(name, ColumnType::Int64)).to_vec();
    let schema = Schema::new(format!("{what}_{}", id.0), columns, &["first"]);
    let schema = schema.map_err(|error| error.to_string())?;
    let site = || Placement::at(SiteId(world.draw(1..u64::from(run.draw.sites) + 1) as u16));
    let mut partitions = vec![(Key::min(), site())];
    for first in 1..4 {
        if world.chance(300) {
            partitions.push((Key::int(first), site()));
        }
    }
    run.cluster.create_table(id, schema, partitions).await
}

/// Writes the current layout to the catalog.
async fn enter_catalog(run: &Run, meaning: Value) -> Result<(), OpenError> {
    let mut open = begin(run, Isolation::ReadCommitted);
    open.put(CATALOG, &Key::int(0), Some(meaning)).await?;
    open.commit().await.map(drop)
}

/// Reads the current layout from the catalog.
async fn read_catalog(run: &Run) -> Result<Order, OpenError> {
    let mut open = begin(run, Isolation::ReadCommitted);
    let (value, _) = open.lock(CATALOG, &Key::int(0), LockMode::Exclusive).await?;
    let meanings = run.orders().meanings.borrow();
    Ok(meanings[&value.expect("the row was loaded")])
}

/// The process dies, and restarts.
async fn restart(run: &Run) {
    let (world, orders) = (run.world(), run.orders());
    world.note(format_args!("the process dies"));
    orders.is_down.set(true);
    orders.restarts.set(orders.restarts.get() + 1);
    while orders.at_work.get() > 0 {
        world.doing(|| "waits for all clients to be gone".into());
        world.sleep(LOOK_NS).await;
    }
    orders.disagree(world.now());
    let own = loop {
        match read_catalog(run).await {
            Ok(own) => break own,
            Err(_) => world.sleep(LOOK_NS).await,
        }
    };
    world.note(format_args!("the process begins anew, with {:?}", own.rows));
    orders.publish(own, None);
    orders.is_down.set(false);
}

/// Changes the design of these tables at random.
async fn operate(run: &Run) {
    let world = run.world();
    while run.draw.change_every_ns > 0 && !run.stopping.get() {
        world.doing(|| "looks at the orders".into());
        world.sleep(world.draw(0..run.draw.change_every_ns)).await;
        let plan = run.orders().plan();
        let parts =
            plan.own.parts().chain(plan.beside.iter().flat_map(|beside| beside.order.parts()));
        let parts: Vec<TableId> = parts.chain([CATALOG]).collect();
        let table = parts[world.draw(0..parts.len() as u64) as usize];
        let at = Key::int(world.draw(0..IDS) as i64);
        let design = run.cluster.conductor().design();
        let to = SiteId(world.draw(1..u64::from(run.draw.sites) + 1) as u16);
        let found = design.partition_of(table, &at);
        let start = found.map_or(Key::min(), |(range, _)| range.start);
        let cuts = design.partitions_in(table, &KeyRange::all()).count();
        let change = match world.draw(0..4) {
            0 if cuts < 6 => Change::Split { table, at },
            0 | 1 => Change::Merge { table, at: start },
            _ => Change::Remaster { table, start, to },
        };
        if design.validate(&change).is_ok() {
            world.doing(|| format!("asks for {change}"));
            let _ = run.cluster.conductor().change(change, "at random").await;
        }
    }
}
