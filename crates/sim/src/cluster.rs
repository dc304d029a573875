//! A database in a world: sites, the real router, and a record of every transaction.
//!
//! Both the seeded runs ([`crate::scenario`]) and the scripts drive this.

use crate::history::{Ack, Copy, History, Op, Open, Outcome, Transaction, Value};
use crate::ledger;
use crate::order::{HasOrder, Order};
use crate::statements::Holders;
use crate::world::{SimTransport, World};
use isomer_cluster::open::Gateway;
use isomer_cluster::{Conductor, Error, Ran, Router, Session};
use isomer_design::{
    Backups, Design, Footprint, Invalid, Key, KeyRange, Placement, Schema, SiteId, TableId, Time,
};
use isomer_log::Log;
use isomer_site::{Abort, Holding, Txn};
use isomer_strategy::Strategy;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Usually a client is told of its commit within this time.
const LONG_NS: u64 = 1_000_000_000;

/// See the [module documentation](self).
pub struct Cluster {
    /// The world in which it runs.
    pub world: Rc<World>,
    front: RefCell<Front>,
    /// The number of conductors before this one.
    pub(crate) terms: Cell<u64>,
    /// The total order, if there are ordered tables.
    pub(crate) order: RefCell<Option<Order>>,
    pub(crate) transactions: RefCell<Vec<Transaction>>,
    pub(crate) opens: RefCell<Vec<Open>>,
    pub(crate) holders: RefCell<Holders>,
    pub(crate) conflicts: RefCell<Vec<String>>,
    pub(crate) acknowledged: Cell<Time>,
    acks: RefCell<Vec<Ack>>,
    /// When a client was last told of a commit while a partition had too few backups.
    lacked: Cell<Time>,
    values: Cell<Value>,
}

/// The process with the conductor. Another can take its place.
struct Front {
    conductor: Arc<Conductor<SimTransport>>,
    router: Arc<Router<SimTransport>>,
    gateway: Arc<Gateway<SimTransport>>,
}

/// A session with a number, under which its transactions are recorded.
pub struct Client {
    number: u64,
    session: Session,
}

impl Client {
    /// A client with a new session.
    pub fn new(number: u64) -> Client {
        Client { number, session: Session::new(number) }
    }

    /// The latest time that its session has seen.
    pub fn seen(&self) -> Time {
        self.session.seen()
    }

    /// Raises its session to the time that another session has seen.
    pub fn has_seen(&mut self, time: Time) {
        self.session.has_seen(time);
    }
}

impl Front {
    #[allow(clippy::arc_with_non_send_sync, reason = "on threads they are shared")]
    fn new(
        world: &Rc<World>,
        design: Design,
        last_table: TableId,
        strategy: Box<dyn Strategy>,
    ) -> Front {
        let transport = SimTransport::new(world.clone());
        let home = Box::new(HasOrder);
        let conductor = Arc::new(Conductor::new(transport, design, last_table, strategy, home));
        let router = Arc::new(Router::new(conductor.clone()));
        Front { gateway: Gateway::new(router.clone()), conductor, router }
    }
}

impl Cluster {
    /// Starts sites, with a router over them.
    ///
    /// # Errors
    /// [`Invalid`] if these cannot be the sites of a design.
    pub fn start(
        world: Rc<World>,
        sites: &[SiteId],
        strategy: Box<dyn Strategy>,
    ) -> Result<Rc<Cluster>, Invalid> {
        sites.iter().for_each(|site| world.start(*site));
        let design = Design::new(sites.iter().copied())?;
        let front = RefCell::new(Front::new(&world, design, TableId(0), strategy));
        Ok(Rc::new(Cluster {
            world,
            front,
            terms: Cell::new(0),
            order: RefCell::default(),
            transactions: RefCell::default(),
            opens: RefCell::default(),
            holders: RefCell::default(),
            conflicts: RefCell::default(),
            acknowledged: Cell::new(Time::ZERO),
            acks: RefCell::default(),
            lacked: Cell::new(Time::ZERO),
            values: Cell::new(0),
        }))
    }

    /// The gateway, for clients that send statements.
    pub fn gateway(&self) -> Arc<Gateway<SimTransport>> {
        self.front.borrow().gateway.clone()
    }

    /// The router, for clients.
    pub fn router(&self) -> Arc<Router<SimTransport>> {
        self.front.borrow().router.clone()
    }

    /// The conductor, for operators.
    pub fn conductor(&self) -> Arc<Conductor<SimTransport>> {
        self.front.borrow().conductor.clone()
    }

    /// Another process becomes the conductor, with a gateway of its own. The design was at rest.
    /// The tasks of the process before have ended.
    pub(crate) fn succeed(&self, strategy: Box<dyn Strategy>) {
        let design = self.conductor().design();
        let last = design.tables().map(|(table, _)| table).max().unwrap_or(TableId(0));
        *self.front.borrow_mut() = Front::new(&self.world, design, last, strategy);
        self.terms.set(self.terms.get() + 1);
    }

    /// Creates a table of this number.
    ///
    /// # Errors
    /// A message, if a site refuses or the design cannot take the table.
    pub async fn create_table(
        &self,
        id: TableId,
        schema: Schema,
        partitions: Vec<(Key, Placement)>,
    ) -> Result<(), String> {
        let created = self.conductor().create_table_as(id, schema, partitions).await;
        created.map_err(|error| error.to_string())
    }

    /// Sets the backups of a table.
    ///
    /// # Errors
    /// Those of the conductor.
    pub async fn set_backups(&self, id: TableId, backups: Backups) -> Result<(), Error> {
        if backups == Backups::NONE {
            return Ok(());
        }
        self.conductor().set_backups(id, backups).await
    }

    /// A client is told of a commit: records what the disks hold at this moment.
    pub(crate) fn note_ack(&self, site: SiteId, time: Time) {
        let disk = |id| Some((id, self.world.log(id)?.durable()));
        let durable = self.world.sites().into_iter().filter_map(disk).collect();
        let design = self.conductor().design();
        // While backups are lacking, a commit waits for the remaining ones, and its client is told
        // later.
        let now = self.world.now();
        if !design.lacking(&self.world.domains(), |_| true).is_empty() {
            self.lacked.set(now);
        }
        let is_whole = self.lacked.get() == Time::ZERO || now.0 - self.lacked.get().0 > LONG_NS;
        let tables = design.tables().filter(|_| is_whole);
        let backups = tables.map(|(id, table)| (id, table.backups())).collect();
        self.acks.borrow_mut().push(Ack { site, time, durable, backups });
    }

    /// A value that no transaction has written before.
    pub fn fresh_value(&self) -> Value {
        self.values.set(self.values.get() + 1);
        self.values.get()
    }

    /// Runs a transaction, and records its operations and the answer to its client.
    ///
    /// # Errors
    /// Those of the router.
    pub async fn run(
        &self,
        client: &mut Client,
        footprint: &Footprint,
        procedure: &mut dyn FnMut(&mut Recorder<'_, '_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        self.world.doing(|| "waits for the router".into());
        let at = {
            let mut transactions = self.transactions.borrow_mut();
            let (session, outcome) = (client.number, Outcome::Unknown);
            transactions.push(Transaction { session, ops: Vec::new(), outcome });
            transactions.len() - 1
        };
        let mut recorded = |txn: &mut Txn<'_>| {
            let ops = &self.transactions;
            ops.borrow_mut()[at].ops.clear();
            procedure(&mut Recorder { txn, transactions: ops, at })
        };
        let result = self.router().run(&mut client.session, footprint, &mut recorded).await;
        if let Ok(Ran { place, committed, .. }) = &result
            && let Some(time) = committed.commit
        {
            self.note_ack(place.site(), time);
        }
        self.transactions.borrow_mut()[at].outcome = match &result {
            Ok(Ran { place, committed, .. }) => Outcome::Committed {
                site: place.site(),
                snapshot: committed.snapshot,
                commit: committed.commit,
            },
            Err(error) if error.is_unknown() => Outcome::Unknown,
            Err(error) => Outcome::Nothing(error.to_string()),
        };
        if let Ok(ran) = &result {
            self.acknowledge(ran.committed.session());
        }
        result
    }

    /// The number of transactions that have begun.
    pub fn begun(&self) -> usize {
        self.transactions.borrow().len()
    }

    /// The partitions of all running sites.
    pub fn holdings(&self) -> Vec<(SiteId, Holding)> {
        let sites = self.world.sites().into_iter().filter_map(|id| self.world.site(id));
        sites.flat_map(|site| site.holdings().into_iter().map(move |h| (site.id(), h))).collect()
    }

    /// Why the sites are not at rest, as a message; `None` if every copy is at its master's
    /// version.
    pub fn why_not_settled(&self) -> Option<String> {
        let down = self.world.sites().into_iter().find(|site| self.world.site(*site).is_none());
        if let Some(site) = down {
            return Some(format!("{site} is down"));
        }
        let mut running = self.world.sites().into_iter().filter_map(|id| self.world.site(id));
        if let Some(site) = running.find(|site| site.unfinished() > 0) {
            let (site, count) = (site.id(), site.unfinished());
            return Some(format!("{site} has {count} transactions over several sites unfinished"));
        }
        let holdings = self.holdings();
        holdings.iter().find_map(|(site, holding)| {
            let source = holding.source?;
            let (table, range, version) = (holding.table, &holding.range, holding.version);
            let at_master = holdings
                .iter()
                .find(|(at, other)| *at == source && other.table == table && other.range == *range);
            match at_master {
                _ if holding.released_to.is_some() => Some(format!(
                    "{table}{range} was released to {source} as {site} knows, and not acquired"
                )),
                None => Some(format!(
                    "{site} at version {version} follows {source} for {table}{range}, which has no \
                     such partition"
                )),
                Some((_, master)) if master.source.is_some() => Some(format!(
                    "{site} follows {source} for {table}{range}, which is not its master"
                )),
                Some((_, master)) if master.version != version => Some(format!(
                    "{site} has version {version} of {table}{range}, its master {source} has {}",
                    master.version
                )),
                Some(_) => None,
            }
        })
    }

    /// The history for the checkers, once the world is at rest. Reads every copy at its site.
    pub async fn gather(&self) -> Result<History, String> {
        let mut history = self.history_so_far();
        let newest = history.commits.last().map_or(Time::ZERO, |commit| commit.time);
        for (site, holding) in self.holdings() {
            let (table, range) = (holding.table, holding.range.clone());
            let rows = self.rows_at(site, table, &range, newest).await?;
            let (version, source) = (holding.version, holding.source);
            let followers = holding.followers;
            history.copies.push(Copy { site, table, range, version, source, followers, rows });
        }
        let design = self.conductor().design();
        for (id, _) in design.tables() {
            let all = KeyRange::all();
            let placed = design.partitions_in(id, &all).map(|(range, at)| (id, range, at));
            history.placements.extend(placed);
        }
        Ok(history)
    }

    /// The observations of clients and the contents of logs, at any moment.
    pub fn history_so_far(&self) -> History {
        let logs: Vec<_> = self
            .world
            .sites()
            .into_iter()
            .filter_map(|id| Some((id, self.world.log(id)?)))
            .collect();
        let (commits, terms) =
            ledger::read(logs.iter().map(|(site, log)| (*site, &**log)), &self.world.void());
        let transactions = self.transactions.borrow().clone();
        let (mut opens, conflicts) = (self.opens.borrow().clone(), self.conflicts.borrow().clone());
        let copied = ledger::copied(logs.iter().map(|(site, log)| (*site, &**log)));
        let acks = self.acks.borrow().clone();
        let (mut installed, mut batches, mut moves) = Default::default();
        let commits = match self.ordered() {
            None => commits,
            Some(order) => {
                batches = ledger::order::read(&order.batches, &logs, &self.world.void());
                let (told, renewed) = ledger::order::told(&commits, &order, &batches);
                renewed.normalise(&mut opens);
                (installed, moves) = (commits, renewed.places());
                told
            }
        };
        let mut history = History {
            transactions,
            opens,
            conflicts,
            commits,
            installed,
            batches,
            moves,
            terms,
            acks,
            copied,
            domains: self.world.domains(),
            ..History::default()
        };
        history.locate();
        history
    }

    /// The rows of a partition's copy at one site, not older than a time.
    pub async fn rows_at(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
        at_least: Time,
    ) -> Result<Vec<(Key, Value)>, String> {
        self.world.doing(|| format!("reads the copy of {table}{range} at {site}"));
        let host = self.world.site(site).ok_or(format!("{site} is down"))?;
        let footprint = Footprint::new().read_range(table, range.clone());
        let mut rows = Vec::new();
        let mut scan = |txn: &mut Txn<'_>| {
            rows.clear();
            txn.scan(table, range, |key, value| {
                rows.push((Key::from_bytes(key), ledger::decode(value)));
                ControlFlow::Continue(())
            })
        };
        let done = host.execute(&footprint, at_least, &mut scan).await;
        done.map_err(|failure| failure.to_string())?;
        Ok(rows)
    }
}

/// A transaction that is recorded while it runs.
pub struct Recorder<'a, 't> {
    txn: &'a mut Txn<'t>,
    transactions: &'a RefCell<Vec<Transaction>>,
    at: usize,
}

impl Recorder<'_, '_> {
    /// Reads a key.
    ///
    /// # Errors
    /// As [`Txn::get`]; so for the others.
    pub fn get(&mut self, table: TableId, key: &Key) -> Result<Option<Value>, Abort> {
        let value = self.txn.get(table, key)?.map(ledger::decode);
        self.record(Op::Read(table, key.clone(), value));
        Ok(value)
    }

    /// Reads a range.
    pub fn scan(&mut self, table: TableId, range: &KeyRange) -> Result<Vec<(Key, Value)>, Abort> {
        let mut rows = Vec::new();
        self.txn.scan(table, range, |key, value| {
            rows.push((Key::from_bytes(key), ledger::decode(value)));
            ControlFlow::Continue(())
        })?;
        self.record(Op::Scan(table, range.clone(), rows.clone()));
        Ok(rows)
    }

    /// Writes a key.
    pub fn put(&mut self, table: TableId, key: &Key, value: Value) -> Result<(), Abort> {
        self.txn.put(table, key, &ledger::encode(value))?;
        self.record(Op::Write(table, key.clone(), Some(value)));
        Ok(())
    }

    /// Writes a key that must not exist.
    pub fn insert(&mut self, table: TableId, key: &Key, value: Value) -> Result<(), Abort> {
        self.txn.insert(table, key, &ledger::encode(value))?;
        self.record(Op::Write(table, key.clone(), Some(value)));
        Ok(())
    }

    /// Deletes a key; `false` if it does not exist.
    pub fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Abort> {
        let existed = self.txn.delete(table, key)?;
        if existed {
            self.record(Op::Write(table, key.clone(), None));
        }
        Ok(existed)
    }

    /// The time of the snapshot.
    pub fn snapshot(&self) -> Time {
        self.txn.snapshot()
    }

    fn record(&self, op: Op) {
        self.transactions.borrow_mut()[self.at].ops.push(op);
    }
}
