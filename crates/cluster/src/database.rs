//! An open database: the public face of this crate.

use crate::assemble::{Assembled, assemble};
use crate::catalog::{Catalog, Kind};
use crate::embedded::{
    Checkpointer, Checkpointing, Embedded, Recovering, Runtime, SiteReport, Told, start,
};
use crate::error::{Error, OpenDatabaseError};
use crate::event::ChangeEvent;
use crate::folder::Folder;
use crate::node::Endpoint;
use crate::protocol;
use crate::reconfiguration::{Control, Reconfiguration};
use crate::remote::{Reach, Wire};
use crate::router::{FailedOver, Job, Ran, Router, Session};
use crate::sites::Sites;
use crate::storage::{Beside, CheckpointStore, InFolder, InMemory, Logs, Storage};
use crate::transport::Transport;
use isomer_design::{
    Backups, Change, Design, Direction, Footprint, Key, KeyRange, Placement, Plan, Schema, SiteId,
    TableId, Time,
};
use isomer_log::{DiskFaults, Durability, LogError};
use isomer_site::{
    Abort, Answer, Body, CheckedWrites, Failure, Holding, Procedures, Read, ReadSpan, Refusal,
    Request, Step, TimeSource, Txn,
};
use isomer_strategy::{OnDemand, SiteLoad, Strategy};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A procedure whose footprint was explored wrongly is tried again this often.
const EXPLORED_MAX: usize = 20;
/// After so many changes of the design, what the strategy remembers is written.
const REMEMBERED_EVERY: u64 = 500;

/// How to open a database.
pub struct Options {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) logs: Option<Arc<dyn Logs>>,
    pub(crate) store: Option<Arc<dyn CheckpointStore>>,
    pub(crate) sites: Vec<SiteId>,
    pub(crate) durability: Durability,
    strategy: Box<dyn Strategy>,
    pub(crate) accept_loss: bool,
    pub(crate) faults: BTreeMap<SiteId, Arc<DiskFaults>>,
    pub(crate) procedures: Procedures,
    pub(crate) checkpoints: Checkpointing,
    pub(crate) site_memory: Option<usize>,
    pub(crate) told: Box<Told>,
    pub(crate) wire: Option<Arc<dyn Wire>>,
}

impl Options {
    /// A database of `sites` sites that lives in memory, and goes with the process.
    pub fn in_memory(sites: u16) -> Options {
        Options {
            folder: None,
            logs: None,
            store: None,
            sites: (1..=sites).map(SiteId).collect(),
            durability: Durability::None,
            strategy: Box::new(OnDemand::default()),
            procedures: Procedures::default(),
            accept_loss: false,
            faults: BTreeMap::new(),
            checkpoints: Checkpointing::default(),
            site_memory: None,
            told: Box::new(|_| {}),
            wire: None,
        }
    }

    /// A database in a folder. A missing or empty folder becomes a new database of `sites` sites; an
    /// existing database keeps the sites it has. Commits wait for the disk.
    pub fn in_folder(folder: impl Into<PathBuf>, sites: u16) -> Options {
        let durability = Durability::Commit;
        Options { folder: Some(folder.into()), durability, ..Options::in_memory(sites) }
    }

    /// The redo logs, and the catalog, of a database in a folder are not there but elsewhere; or the redo logs of a
    /// [node](crate::Node)'s sites. Whoever opens them last has them: the process that had them before is told so by its
    /// logs ([`Fenced`](LogError::Fenced)).
    pub fn logs(mut self, logs: Arc<dyn Logs>) -> Options {
        self.logs = Some(logs);
        self
    }

    /// Checkpoints are not in the folder either, but in a store that all machines reach: then a site starts anywhere. Only
    /// with [logs](Options::logs) that are elsewhere: one in a folder needs its checkpoints beside it.
    pub fn checkpoints_in(mut self, store: Arc<dyn CheckpointStore>) -> Options {
        self.store = Some(store);
        self
    }

    /// The sites, by their numbers: of a new database all, wherever they are; of a [node](crate::Node) its own.
    pub fn sites(mut self, sites: &[SiteId]) -> Options {
        self.sites = sites.to_vec();
        self.sites.sort();
        self
    }

    /// What a commit waits for. (In memory: nothing, whatever is set.)
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// If a log has lost commits that were durable, the database is opened without them, and
    /// [says so](Database::notes). Otherwise that is an error, and nothing is changed.
    pub fn accept_loss(mut self, accept_loss: bool) -> Options {
        self.accept_loss = accept_loss;
        self
    }

    /// The log of a site is on a disk that can be told to fail: for tests.
    pub fn disk_faults(mut self, site: SiteId, faults: Arc<DiskFaults>) -> Options {
        self.faults.insert(site, faults);
        self
    }

    /// A procedure that can be [called](Database::call) by name. As any transaction, it may be run again if
    /// a first run could not commit.
    pub fn procedure(
        mut self,
        name: &str,
        procedure: impl Fn(&mut Txn<'_>, &[u8]) -> Result<Vec<u8>, Abort> + Send + Sync + 'static,
    ) -> Options {
        self.procedures.add(name, procedure);
        self
    }

    /// The procedures that can be called by name, in place of those that were added before: where sites are in
    /// several processes, all have the same.
    pub fn procedures(mut self, procedures: Procedures) -> Options {
        self.procedures = procedures;
        self
    }

    /// The sites that the wire reaches are in other processes, at [nodes](crate::Node).
    pub fn elsewhere(mut self, wire: Arc<dyn Wire>) -> Options {
        self.wire = Some(wire);
        self
    }

    /// When checkpoints are made, and how fast. (In memory there are none.)
    pub fn checkpoints(mut self, checkpoints: Checkpointing) -> Options {
        self.checkpoints = checkpoints;
        self
    }

    /// How many bytes the rows and the index of each site may take; as many as there are if not set. A site that
    /// is full refuses what would make it grow: see [`MemoryLimit`](isomer_site::MemoryLimit).
    pub fn site_memory(mut self, bytes: usize) -> Options {
        self.site_memory = Some(bytes);
        self
    }

    /// Has `told` hear once a second how far the recovery is, while the database is being opened.
    pub fn while_recovering(
        mut self,
        told: impl Fn(Recovering) + Send + Sync + 'static,
    ) -> Options {
        self.told = Box::new(told);
        self
    }

    /// Refuses a store for checkpoints whose logs are in a folder, or nowhere.
    pub(crate) fn check_store(&self) -> Result<(), OpenDatabaseError> {
        match &self.store {
            Some(store) if self.logs.is_none() || self.folder.is_none() => {
                Err(OpenDatabaseError::OnlyCheckpointsElsewhere { place: store.place() })
            }
            _ => Ok(()),
        }
    }

    /// What decides where transactions run and what is changed for them. [`OnDemand`] if not set.
    pub fn strategy(mut self, strategy: impl Strategy + 'static) -> Options {
        self.strategy = Box::new(strategy);
        self
    }
}

/// A database of several sites in this process.
///
/// ```
/// use isomer_cluster::{Database, Options};
/// use isomer_design::{Column, ColumnType, Footprint, Key, Schema, SiteId, Value};
///
/// # fn main() -> Result<(), isomer_cluster::Error> {
/// let db = Database::open(Options::in_memory(2))?;
/// let columns = vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
/// let schema = Schema::new("accounts", columns, &["id"])?;
/// // Accounts below 100 begin at site 1, the others at site 2.
/// let accounts = db.create_table(schema.clone(), &[(Key::min(), SiteId(1)), (Key::int(100), SiteId(2))])?;
///
/// // A transfer over both sites: the design is rearranged so that one site can run it.
/// let mut session = db.session();
/// let (from, to) = (Key::int(7), Key::int(107));
/// let footprint = Footprint::new().write(accounts, from.clone()).write(accounts, to.clone());
/// let ran = db.run(&mut session, &footprint, |txn| {
///     let (_, row) = schema.encode_row(&[Value::Int64(7), Value::Int64(40)]).expect("it fits");
///     txn.put(accounts, &from, &row)?;
///     let (_, row) = schema.encode_row(&[Value::Int64(107), Value::Int64(60)]).expect("it fits");
///     txn.put(accounts, &to, &row)
/// })?;
/// assert!(ran.changes > 0, "a partition moved");
/// # Ok(())
/// # }
/// ```
pub struct Database {
    router: Arc<Router<Embedded>>,
    runtime: Arc<Runtime>,
    checkpointer: Arc<Checkpointer>,
    /// They carry out the plans that no transaction waits for, think of new ones, and make checkpoints.
    beside: Vec<JoinHandle<()>>,
    /// It looks whether the logs are still this process's, where others can take them.
    watcher: Option<JoinHandle<()>>,
    storage: Arc<dyn Storage>,
    catalog: Arc<Mutex<Catalog>>,
    sites: Arc<Sites>,
    /// The number given last: none is given twice while the process runs.
    last_table: AtomicU32,
    sessions: AtomicU64,
    notes: Vec<String>,
    failed_over: Arc<Mutex<Vec<FailedOver>>>,
}

impl Database {
    /// Opens a database, or makes one. What was under way when it stopped is completed.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(mut options: Options) -> Result<Database, Error> {
        // Whoever opens a log elsewhere has its site, whatever folders say.
        let can_be_taken = options.logs.is_some();
        options.check_store()?;
        let log = log_options(options.durability, &options.checkpoints);
        let (storage, catalog) = open_storage(&mut options, log)?;
        let procedures = std::mem::take(&mut options.procedures);
        let runtime = Arc::new(Runtime::new(procedures, options.wire.take()));
        runtime.memory.set(options.site_memory);
        let mut notes = Vec::new();
        let here: Vec<SiteId> =
            catalog.sites.iter().copied().filter(|site| runtime.hosts_site(*site)).collect();
        let opening = isomer_log::Options { accept_loss: options.accept_loss, ..log };
        let folder = storage.folder().filter(|_| !can_be_taken && !storage.is_new());
        if let Some(folder) = folder {
            check_places(folder, &runtime, &catalog.sites, options.accept_loss)?;
        }
        runtime.open(&*storage, opening, &here, &options.told, &mut notes)?;
        runtime.open_wire();
        if storage.is_new() {
            storage.write_catalog(&catalog)?;
        }
        let transport = Embedded::new(runtime.clone());
        let holdings: Vec<_> = match runtime.block_on(describe(&transport, &catalog.sites)) {
            Ok(holdings) => holdings,
            Err(refusal) => {
                runtime.stop_all();
                return Err(OpenDatabaseError::Change(refusal).into());
            }
        };
        let Assembled { mut design, repairs } = match assemble(&catalog.tables, &holdings) {
            Ok(assembled) => assembled,
            Err(what) => {
                runtime.stop_all();
                return Err(OpenDatabaseError::Design(what).into());
            }
        };
        for (table, backups) in &catalog.backups {
            design.set_backups(*table, *backups).map_err(Box::new)?;
        }
        let held = holdings.iter().flat_map(|(_, held)| held.iter().map(|holding| holding.table));
        let tables = catalog.tables.iter().map(|(table, _)| *table).chain(held);
        let last_table = tables.map(|table| table.0).max().unwrap_or(0);
        if let Some(memory) =
            storage.folder().and_then(|folder| folder.read_memory(options.strategy.name()))
        {
            notes.extend(options.strategy.recall(&memory).err());
        }
        let router = Arc::new(Router::new(transport, design, options.strategy));
        let checkpointer = Arc::new(Checkpointer::new(options.checkpoints));
        let failed_over = Arc::default();
        let failing = Arc::downgrade(&router);
        // It is set once, as this is the only database of the runtime.
        let _ = runtime.mailboxes.on_failure.set(Box::new(move |site| {
            if let Some(router) = failing.upgrade() {
                router.site_failed(site);
            }
        }));
        let returning = Arc::downgrade(&router);
        let _ = runtime.on_return.set(Box::new(move |site| {
            if let Some(router) = returning.upgrade() {
                router.site_returned(site);
            }
        }));
        let catalog = Arc::new(Mutex::new(catalog));
        let sites = Arc::new(Sites {
            router: router.clone(),
            runtime: runtime.clone(),
            storage: storage.clone(),
            catalog: catalog.clone(),
            log,
        });
        let mut beside = beside(&sites, &failed_over);
        if storage.folder().is_some() {
            let (checkpointer, runtime) = (checkpointer.clone(), runtime.clone());
            beside.push(start("isomer-checkpoint", move || checkpointer.work(&runtime)));
        }
        let watcher = can_be_taken.then(|| {
            let (runtime, storage) = (runtime.clone(), storage.clone());
            start("isomer-owners", move || runtime.watch_owners(|| storage.look_for_others()))
        });
        let database = Database {
            checkpointer,
            beside,
            watcher,
            router,
            runtime,
            storage,
            catalog,
            sites,
            last_table: AtomicU32::new(last_table),
            sessions: AtomicU64::new(0),
            notes,
            failed_over,
        };
        for (site, step) in repairs {
            database.ask(site, step).map_err(OpenDatabaseError::Change)?;
        }
        database.assure_backups()?;
        database.remember_from_time_to_time();
        Ok(database)
    }

    /// True if the database was made when it was opened.
    pub fn is_new(&self) -> bool {
        self.storage.is_new()
    }

    /// What there was to say about the state in which the database was found.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Creates a table. `placement` says where its partitions begin and which site masters each; the
    /// first begins at [`Key::min`].
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Invalid`]; nothing has changed then.
    pub fn create_table(
        &self,
        schema: Schema,
        placement: &[(Key, SiteId)],
    ) -> Result<TableId, Error> {
        let mut catalog = self.catalog.lock();
        if catalog.tables.iter().any(|(_, other)| other.name() == schema.name()) {
            return Err(Error::TableExists(schema.name().to_owned()));
        }
        let id = TableId(self.last_table.load(Ordering::SeqCst) + 1);
        let schema = Arc::new(schema);
        let partitions: Vec<(Key, Placement)> =
            placement.iter().map(|(start, site)| (start.clone(), Placement::at(*site))).collect();
        // A trial on a copy, so that a bad placement changes nothing.
        let mut trial = self.router.design();
        trial.create_table(id, schema.clone(), partitions.clone()).map_err(Box::new)?;
        let masters = placement.iter().map(|(_, site)| *site);
        masters.into_iter().try_for_each(|site| self.router.check_site(site))?;
        let mut entered = catalog.clone();
        entered.tables.push((id, schema.clone()));
        self.storage.write_catalog(&entered)?;
        *catalog = entered;
        self.last_table.store(id.0, Ordering::SeqCst);
        let mut by_site: BTreeMap<SiteId, Vec<KeyRange>> = BTreeMap::new();
        for (range, placement) in trial.partitions_in(id, &KeyRange::all()) {
            by_site.entry(placement.master).or_default().push(range);
        }
        for (site, ranges) in by_site {
            if let Err(refusal) = self.ask(site, Step::Create(id, ranges)) {
                // What other sites hold of it already, they forget at the next start.
                catalog.tables.retain(|(other, _)| *other != id);
                self.storage.write_catalog(&catalog)?;
                return Err(OpenDatabaseError::Change(refusal).into());
            }
        }
        self.router.enter_table(id, schema, partitions)?;
        Ok(id)
    }

    /// Lets a table have so many backups: a commit is acknowledged when so many other sites have it. When this is
    /// done, that is true of all that the table holds. Replicas that it lacks for that are added, and replaced
    /// when their sites fail. If the files of a site are lost, the database can be opened without them
    /// ([`Options::accept_loss`]) and has all that was acknowledged.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not as many sites; nothing has changed then, but replicas that were added
    /// stay.
    pub fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Error> {
        let mut catalog = self.catalog.lock();
        let before = catalog.clone();
        self.router.design().set_backups(table, backups).map_err(Box::new)?;
        catalog.set_backups(table, backups);
        self.storage.write_catalog(&catalog)?;
        let set = self.runtime.block_on(self.router.set_backups(table, backups));
        if set.is_err() {
            *catalog = before;
            self.storage.write_catalog(&catalog)?;
        }
        set
    }

    /// Removes a table with all its rows, at once. Who reads it meanwhile is told to start again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table.
    pub fn drop_table(&self, id: TableId) -> Result<(), Error> {
        let mut catalog = self.catalog.lock();
        self.router.design().table(id).map_err(Box::new)?;
        let mut left = catalog.clone();
        left.tables.retain(|(other, _)| *other != id);
        left.set_backups(id, Backups::NONE);
        // From here on the table is gone: what sites still hold of it, they forget at the next start.
        self.storage.write_catalog(&left)?;
        *catalog = left;
        self.runtime.block_on(self.router.drop_table(id))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<(TableId, Arc<Schema>), Error> {
        let catalog = self.catalog.lock();
        let found = catalog.tables.iter().find(|(_, schema)| schema.name() == name);
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = catalog.tables.iter().map(|(_, schema)| schema.name()).collect();
            Error::UnknownTable { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// A new session. Sessions are independent; within one, each transaction sees what the ones
    /// before it saw and did.
    pub fn session(&self) -> Session {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Runs a transaction: at one site, on one snapshot, all or nothing.
    ///
    /// The footprint says what it reads and writes. The procedure may be run again if a first run
    /// could not commit.
    ///
    /// # Errors
    /// [`Error`]; nothing was written then, unless [`Error::is_unknown`].
    pub fn run(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        self.runtime.block_on(self.router.run(session, footprint, &mut procedure))
    }

    /// As [`Database::run`], and serializable: with other such transactions, and with open ones that are
    /// [serializable](crate::Isolation::Serializable), it is as if each ran alone at the time of its commit.
    ///
    /// What it reads is locked as if it were written, at its masters, from before it runs until it has committed. One
    /// that only reads locks nothing, as any snapshot is a place in the order of commits.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn run_serializable(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        let locked = self.lock_all(session, footprint);
        let request = Request::new(&locked, Body::Here(&mut procedure)).serializable();
        let ran = self.runtime.block_on(self.router.serve(session, request, &mut |_| {}));
        ran.map(|(ran, _)| ran)
    }

    /// As [`Database::call`], and serializable as [`Database::run_serializable`].
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn call_serializable(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        name: &str,
        params: &[u8],
    ) -> Result<(Ran, Vec<u8>), Error> {
        let locked = self.lock_all(session, footprint);
        let request = Request::new(&locked, Body::Call { name, params }).serializable();
        self.runtime.block_on(self.router.serve(session, request, &mut |_| {}))
    }

    /// What a serializable transaction has to lock. Its commit is later than all that was told until now.
    fn lock_all(&self, session: &mut Session, footprint: &Footprint) -> Footprint {
        session.has_seen(self.router.present());
        match footprint.is_read_only() {
            true => footprint.clone(),
            false => footprint.clone().locked(),
        }
    }

    /// Calls a procedure that the database was [opened with](Options::procedure), as a transaction. Says
    /// how it ran, and what it gave.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn call(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        name: &str,
        params: &[u8],
    ) -> Result<(Ran, Vec<u8>), Error> {
        let request = Request::new(footprint, Body::Call { name, params });
        self.runtime.block_on(self.router.serve(session, request, &mut |_| {}))
    }

    /// Writes rows that must be what is expected of them, as a transaction. It is data, so the rows may be at any site.
    ///
    /// # Errors
    /// As [`Database::run`]; [`Abort::Changed`] if a row is another one.
    pub fn write(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        writes: &CheckedWrites,
    ) -> Result<Ran, Error> {
        let request = Request::new(footprint, Body::Writes(writes));
        let ran = self.runtime.block_on(self.router.serve(session, request, &mut |_| {}));
        ran.map(|(ran, _)| ran)
    }

    /// Runs a transaction whose footprint has to be found by reading. `explore` reads without a
    /// transaction and gives the footprint; if it turns out to be wrong (the procedure goes outside
    /// of it), both are run again.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn run_exploring(
        &self,
        session: &mut Session,
        mut explore: impl FnMut(&mut Explorer<'_>) -> Result<Footprint, Error>,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let footprint = explore(&mut Explorer { database: self, session })?;
            match self.run(session, &footprint, &mut procedure) {
                Err(Error::Abort(Abort::OutsideFootprint { .. })) if tries < EXPLORED_MAX => {}
                result => return result,
            }
        }
    }

    /// Makes a change of the design, while transactions run.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not fit the design, [`Error::Change`] if a site refuses; the old
    /// design is in force then.
    pub fn change(&self, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        self.sites.change(change, reason)
    }

    /// Makes the changes of a plan, independent ones at once.
    ///
    /// # Errors
    /// The first error.
    pub fn change_all(&self, plan: &Plan) -> Result<Vec<ChangeEvent>, Error> {
        self.runtime.block_on(self.router.change_all(plan))
    }

    /// Begins to carry out a plan beside the transactions, after trying it on the design as it is. Gives its number.
    /// Until it has ended, nobody else changes its tables, but for a transaction that could not run otherwise.
    ///
    /// # Errors
    /// [`Error::InvalidPlan`]; [`Error::Reconfiguration`] if it changes nothing, or what another one holds, or the sites
    /// of the database.
    pub fn reconfigure(&self, plan: Plan) -> Result<u64, Error> {
        self.router.reconfigure(plan)
    }

    /// Pauses, resumes or cancels a reconfiguration. One that is cancelled takes back what it has done.
    ///
    /// # Errors
    /// [`Error::Reconfiguration`] if there is none of this number, or it is too late.
    pub fn control_reconfiguration(&self, number: u64, control: Control) -> Result<(), Error> {
        self.router.control_reconfiguration(number, control)
    }

    /// Begins another reconfiguration, which takes back what one has done. Gives its number.
    ///
    /// # Errors
    /// As [`Database::reconfigure`]: the design may have gone on since.
    pub fn reverse_reconfiguration(&self, number: u64) -> Result<u64, Error> {
        self.router.reverse_reconfiguration(number)
    }

    /// The reconfigurations since the database was opened, the oldest first; of those that have ended, the last hundred.
    pub fn reconfigurations(&self) -> Vec<Reconfiguration> {
        self.router.reconfigurations()
    }

    /// The changes of the design that are being made, or wait until they are.
    pub fn jobs(&self) -> Vec<Job> {
        self.router.jobs()
    }

    /// The design as it is.
    pub fn design(&self) -> Design {
        self.router.design()
    }

    /// The strategy's name.
    pub fn strategy(&self) -> &'static str {
        self.router.strategy()
    }

    /// How many entries the routing table has, and how many bytes.
    pub fn routing_size(&self) -> (usize, usize) {
        let table = self.router.routing_table();
        (table.entries(), table.bytes())
    }

    /// Calls `watcher` for every change from now on, on the thread that made it.
    pub fn watch(&self, watcher: impl Fn(&ChangeEvent) + Send + Sync + 'static) {
        self.router.watch(watcher);
    }

    /// The sites of this process, as they are.
    pub fn sites(&self) -> Vec<SiteReport> {
        self.runtime.report(&self.checkpointer)
    }

    /// The sites of other processes, where they are and how they are, as far as that is known here.
    pub fn sites_elsewhere(&self) -> Vec<(SiteLoad, Option<Reach>)> {
        let transport = self.router.transport();
        let elsewhere = |site: &SiteId| !self.runtime.hosts_site(*site);
        let design = self.design();
        let sites = design.sites().iter().filter(elsewhere);
        sites.map(|site| (transport.load(site), transport.reach(site))).collect()
    }

    /// Why a site is passed by, wherever it is: its log has failed.
    pub fn failure(&self, site: SiteId) -> Option<LogError> {
        self.router.transport().failure(site)
    }

    /// The sites that are passed by because their logs have failed, and what became of their partitions.
    pub fn failed_over(&self) -> Vec<FailedOver> {
        self.failed_over.lock().clone()
    }

    /// Why nothing can be served any more, if so, and what would help: every partition is at a site whose log has failed,
    /// and has no copy that could take over; or another process has the database now, since it has taken a log.
    pub fn is_lost(&self) -> Option<String> {
        if let Some((site, fenced)) = self.runtime.fenced() {
            return Some(format!("another process has the database now: site {site}: {fenced}"));
        }
        if let Some(fenced) = self.storage.fenced() {
            return Some(format!("another process has the database now: its catalog: {fenced}"));
        }
        let passed_by = self.failed_over.lock();
        let passed_by = passed_by.iter().map(|done| done.site);
        // One at a node may have come back.
        let passed_by: Vec<SiteId> =
            passed_by.filter(|site| self.failure(*site).is_some()).collect();
        let failed = *passed_by.iter().min()?;
        let design = self.design();
        let mut masters = design.tables().flat_map(|(_, table)| table.partitions().iter());
        let is_served = masters.any(|(_, placement)| !passed_by.contains(&placement.master));
        let why = self.failure(failed).map_or_else(String::new, |failure| failure.to_string());
        (!is_served).then(|| {
            format!(
                "nothing can be served any more: site {failed}: {why}; mend what keeps its log, and start again"
            )
        })
    }

    /// How many bytes the rows and the index of each site may take; `None`: as many as there are.
    pub fn site_memory(&self) -> Option<usize> {
        self.runtime.memory.get()
    }

    /// From now on each site may take so many, until the database is closed. One that has more already is full.
    pub fn set_site_memory(&self, bytes: Option<usize>) {
        self.runtime.memory.set(bytes);
    }

    /// Lets a table grow even at a site that is full: one that must be written to for others to be dropped.
    pub fn spare(&self, table: TableId) {
        self.runtime.memory.spare(table);
    }

    /// Reads a range at one site, whatever its role there, with all that was committed until now: for checks that
    /// copies agree.
    ///
    /// # Errors
    /// [`Error::Failure`] if the site holds no copy.
    pub fn read_at(
        &self,
        site: SiteId,
        session: &Session,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let transport = self.router.transport();
        let span = ReadSpan::Range(range, Direction::Forward);
        let read = Read { table, span, limit: usize::MAX };
        let mut visit = |key: &[u8], value: &[u8], _: Time| {
            visit(key, value);
            ControlFlow::Continue(())
        };
        self.runtime.block_on(async {
            loop {
                let at = self.router.present().max(session.seen());
                match transport.read_at(site, read, at, None, &mut visit).await {
                    // Nobody keeps history for this read, so the site may have gone on: nothing was shown.
                    Err(Failure::Forgotten { .. }) => {}
                    // After a restart, a copy may go back only to a time that is still to come.
                    Err(Failure::NotHere { .. }) if self.is_held(site, table, range) => {
                        transport.retry(site).await;
                    }
                    seen => break transport.until_durable(site, seen?).await,
                }
            }
        })?;
        Ok(())
    }

    fn is_held(&self, site: SiteId, table: TableId, range: &KeyRange) -> bool {
        let design = self.design();
        let mut partitions = design.partitions_in(table, range).peekable();
        partitions.peek().is_some()
            && partitions.all(|(_, placement)| placement.holders().contains(site))
    }

    /// Makes a checkpoint of every site and cuts its log, beside those that are made when they are due
    /// ([`Options::checkpoints`]). A database in memory has none, and nothing is done.
    ///
    /// # Errors
    /// [`Error::Checkpoint`]; the checkpoints before stay in force.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.checkpoint_while(&|| true).map(drop)
    }

    /// As [`Database::checkpoint`], as long as `goes_on`; false if it does not to the end. The sites that have made
    /// theirs by then keep it, the others the one before.
    ///
    /// # Errors
    /// [`Error::Checkpoint`]; the checkpoints before stay in force.
    pub fn checkpoint_while(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, Error> {
        match self.storage.folder() {
            Some(_) => Ok(self.checkpointer.make_all(&self.runtime, goes_on)?),
            None => Ok(true),
        }
    }

    pub(crate) fn shared_router(&self) -> &Arc<Router<Embedded>> {
        &self.router
    }

    /// The time at its sites.
    pub fn now(&self) -> Time {
        self.runtime.clock.now()
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Its sites, as other processes reach them: those that are in this one.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.runtime.clone())
    }

    /// Has every site know how many backups each table is to have, and replaces those that were lost.
    fn assure_backups(&self) -> Result<(), Error> {
        let (design, catalog) = (self.router.design(), self.catalog.lock());
        for (table, backups) in &catalog.backups {
            for site in design.sites().iter() {
                self.runtime.block_on(self.router.tell_backups(site, *table, *backups))?;
            }
        }
        self.router.restore_backups();
        Ok(())
    }

    /// Writes what the strategy remembers after every so many changes of the design.
    fn remember_from_time_to_time(&self) {
        if self.storage.folder().is_none() {
            return;
        }
        let storage = self.storage.clone();
        let (router, changes) = (Arc::downgrade(&self.router), AtomicU64::new(0));
        self.router.watch(move |_| {
            if changes.fetch_add(1, Ordering::Relaxed) % REMEMBERED_EVERY == REMEMBERED_EVERY - 1
                && let Some(router) = router.upgrade()
                && let Some(memory) = router.memory()
                && let Some(folder) = storage.folder()
            {
                // It is written again soon.
                let _ = folder.write_memory(router.strategy(), &memory);
            }
        });
    }

    fn ask(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        self.runtime.block_on(protocol::ask(self.router.transport(), site, step))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.runtime.begin_to_close();
        self.router.close();
        self.checkpointer.stop();
        for thread in self.beside.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        if let (Some(folder), Some(memory)) = (self.storage.folder(), self.router.memory()) {
            // Without it the strategy begins anew, and nobody is left to be told.
            let _ = folder.write_memory(self.router.strategy(), &memory);
        }
        self.runtime.stop_all();
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // A thread that panicked has said so already.
            let _ = watcher.join();
        }
    }
}

/// Reads without a transaction, to find out what a transaction will touch.
pub struct Explorer<'d> {
    database: &'d Database,
    session: &'d mut Session,
}

impl Explorer<'_> {
    /// The value of a row.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn get(&mut self, table: TableId, key: &Key) -> Result<Option<Vec<u8>>, Error> {
        let mut found = None;
        let footprint = Footprint::new().read(table, key.clone());
        self.database.run(self.session, &footprint, |txn| {
            found = txn.get(table, key)?.map(<[u8]>::to_vec);
            Ok(())
        })?;
        Ok(found)
    }

    /// The rows of a range, at most `limit`.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        let mut rows = Vec::new();
        let footprint = Footprint::new().read_range(table, range.clone());
        self.database.run(self.session, &footprint, |txn| {
            rows.clear();
            txn.scan(table, range, |key, value| {
                rows.push((Key::from_bytes(key), value.to_vec()));
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        })?;
        Ok(rows)
    }
}

/// Opens what the database is kept in, and reads its catalog.
fn open_storage(
    options: &mut Options,
    log: isomer_log::Options,
) -> Result<(Arc<dyn Storage>, Catalog), OpenDatabaseError> {
    let log = isomer_log::Options { accept_loss: options.accept_loss, ..log };
    let sites = std::mem::take(&mut options.sites);
    let Some(path) = &options.folder else {
        return Ok((Arc::new(InMemory), Catalog::of(sites)));
    };
    if let Some(logs) = options.logs.take() {
        let (storage, catalog) = Beside::open(path, logs, options.store.take(), log, &sites)?;
        return Ok((Arc::new(storage), catalog));
    }
    let (folder, catalog) = Folder::open(path, &sites, Kind::Database)?;
    let faults = std::mem::take(&mut options.faults);
    Ok((Arc::new(InFolder { folder, options: log, faults }), catalog))
}

/// A log is cut by whole segments, so these are small beside what makes a checkpoint due.
pub(crate) fn log_options(
    durability: Durability,
    checkpoints: &Checkpointing,
) -> isomer_log::Options {
    let usual = isomer_log::Options::default();
    let segment_bytes = (checkpoints.log_bytes / 4).clamp(64 << 10, usual.segment_bytes);
    isomer_log::Options { segment_bytes, durability, ..usual }
}

/// Starts the threads that carry out what no transaction waits for, and think of it.
fn beside(sites: &Arc<Sites>, failed_over: &Arc<Mutex<Vec<FailedOver>>>) -> Vec<JoinHandle<()>> {
    let Sites { router, runtime, catalog, .. } = &**sites;
    let with = |name: &str, work: fn(&Router<Embedded>, &Runtime)| {
        let (router, runtime) = (router.clone(), runtime.clone());
        start(name, move || work(&router, &runtime))
    };
    vec![
        with("isomer-tend", |router, runtime| runtime.block_on(router.run_deferred())),
        start("isomer-sites", {
            let sites = sites.clone();
            move || sites.make_wanted()
        }),
        with("isomer-reflect", |router, runtime| runtime.block_on(router.plan_globally())),
        start("isomer-readmit", {
            let (router, runtime, catalog) = (router.clone(), runtime.clone(), catalog.clone());
            move || {
                while let Some(site) = runtime.block_on(router.next_returned()) {
                    // Tables come and go with this locked.
                    let catalog = catalog.lock();
                    let is_known = |table| catalog.tables.iter().any(|(known, _)| *known == table);
                    runtime.block_on(router.readmit_all(site, is_known));
                }
            }
        }),
        with("isomer-reconf", |router, runtime| runtime.block_on(router.run_reconfigurations())),
        start("isomer-failover", {
            let (router, runtime) = (router.clone(), runtime.clone());
            let failed_over = failed_over.clone();
            let told = move |done: &FailedOver| {
                eprintln!("{done}");
                failed_over.lock().push(done.clone());
            };
            move || runtime.block_on(router.fail_over(told))
        }),
    ]
}

/// Where there are nodes, each site that the database has is in its folder or at one, and not in both. What is lost
/// may be in neither.
fn check_places(
    folder: &Folder,
    runtime: &Runtime,
    sites: &[SiteId],
    accept_loss: bool,
) -> Result<(), OpenDatabaseError> {
    if !runtime.has_wire() {
        return Ok(());
    }
    for &site in sites {
        let path = folder.path().to_owned();
        match (runtime.hosts_site(site), folder.has_site(site)) {
            (true, false) if !accept_loss => return Err(OpenDatabaseError::NoSite { path, site }),
            (false, true) => return Err(OpenDatabaseError::TwoPlaces { path, site }),
            _ => {}
        }
    }
    Ok(())
}

/// What the sites hold.
async fn describe(
    transport: &Embedded,
    sites: &[SiteId],
) -> Result<Vec<(SiteId, Vec<Holding>)>, Refusal> {
    let mut holdings = Vec::new();
    for &site in sites {
        let Answer::Holdings(held) = protocol::ask(transport, site, Step::Describe).await? else {
            unreachable!("a description was asked for")
        };
        holdings.push((site, held));
    }
    Ok(holdings)
}
