//! Storage of a database: its catalog, and the redo log and the checkpoints of each site.
//!
//! ```text
//!              catalog           a site's log         its checkpoints        locked by
//!   InMemory   –                 in memory            –                      –
//!   InFolder   file `catalog`    site-N/log/          site-N/                the folder's lock
//!   Beside     frames of a log   the [`Logs`]' place  site-N/, or in a       the last process to
//!              of its own                             [`CheckpointStore`]    open the log
//! ```
//!
//! **Logs elsewhere** ([`Logs`]) can be opened by any process. A log itself decides which process
//! owns it, and fails for the previous owner ([`LogError::Fenced`]). So a folder's lock proves
//! nothing about such logs, and the catalog must be fenced as well. It is therefore a log, too,
//! with the whole catalog and the changes since. A database can then be opened from a copy of its
//! folder on any machine. An empty folder suffices as long as its logs were never cut. The lock
//! only proves that the previous process of this folder has ended ([`claim`](crate::claim)).
//!
//! **The order** of ordered tables ([`crate::ordered`]) is one more log beside the catalog: in
//! memory, in the folder `order`, or where the other logs are. A log in Kafka does not hold it yet.
//!
//! Every record of such a log has the [number](DatabaseId) of its database, and so has the folder.
//! So a database never takes the logs of another database.
//!
//! **Checkpoints elsewhere** ([`CheckpointStore`]) need such logs. A database, or a site, can then
//! start anywhere at any time. A database whose checkpoints were in its folder before uses the
//! newest of both places, until there is a newer one in the store. The previous owner may make one
//! more checkpoint, and cut the log, while a site is being opened. So the checkpoints are looked up
//! again once the log is claimed. The process with the router leaves a mark in the store. A node
//! that does not find the mark is refused, because its store must be a different place. Its logs
//! would be cut for checkpoints that other processes cannot find.
//!
//! **A [node](crate::Node)'s folder** is the same. A node opens only the logs of its own sites. It
//! only reads the catalog, which belongs to the process with the router. Until that process [has
//! created the database](found_database), the owner of the logs is unknown, and a node waits. A
//! node that takes the router's place [takes](Storage::take_catalog) the catalog as well, and
//! begins a new term of it.

use crate::catalog::{self, Definition, Succession, Written};
use crate::claim::ClaimNote;
use crate::error::OpenDatabaseError;
use crate::folder::{Folder, database_of, design_of};
use crate::ids::DatabaseId;
use crate::joined::{Guests, Joined};
use isomer_design::{Design, SiteId, SiteSet};
use isomer_log::{
    CheckpointError, Checkpoints, DiskFaults, FileCheckpoints, FileLog, Log, LogError, MemoryLog,
    MemoryOptions, MovedCheckpoints, OpenError, Options, Position,
};
use isomer_site::TailCopy;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The bytes that a log in memory keeps for replicas that are behind.
const MEMORY_LOG_BYTES: u64 = 64 << 20;

/// The size of a segment of the order's log: batches are dropped by segments.
const ORDER_SEGMENT_BYTES: u64 = 16 << 20;

/// One of a database's logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogOf {
    /// The catalog's log.
    Catalog,
    /// A site's redo log.
    Site(SiteId),
    /// The order of commits to ordered tables.
    Order,
}

/// Logs that are not in files of the database's folder. See the [module documentation](self).
pub trait Logs: Send + Sync {
    /// Their place, in the form of the command line.
    fn place(&self) -> String;

    /// Finds the database whose logs are there. If there are none yet, returns a new number.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`OpenError`].
    fn find(&self) -> Result<FoundLogs, OpenError>;

    /// Opens a log, takes it from the process that had it, and returns notes about its state.
    /// Options about files are ignored.
    ///
    /// A log that begins after `needed` is refused, and keeps its owner, because the caller has no
    /// checkpoint for the removed part. `None`: only the end of the log matters. The `note` may
    /// prove that the previous owner has ended; otherwise this waits for its lease.
    ///
    /// # Errors
    /// [`OpenError`], also if the log does not exist though it [must](Options::must_exist).
    fn open(
        &self,
        database: DatabaseId,
        log: LogOf,
        needed: Option<Position>,
        note: Option<ClaimNote>,
        options: &Options,
    ) -> Result<(Arc<dyn Log>, Vec<String>), OpenError>;

    /// True if there is a log of the [order](LogOf::Order), as far as this process knows.
    ///
    /// # Errors
    /// [`OpenError`].
    fn has_order(&self, database: DatabaseId) -> Result<bool, OpenError> {
        Ok(self.last_frame(database, LogOf::Order)?.is_some())
    }

    /// The time for which the previous owner of a log may still serve reads after the log was
    /// opened.
    fn stale_for(&self) -> Duration {
        Duration::ZERO
    }

    /// The last frame of a log, if it has any. The log keeps its owner.
    ///
    /// # Errors
    /// [`OpenError`].
    fn last_frame(&self, database: DatabaseId, log: LogOf) -> Result<Option<Vec<u8>>, OpenError>;
}

/// Checkpoints that are not in the database's folder. See the [module documentation](self).
pub trait CheckpointStore: Send + Sync {
    /// Their place, in the form of the command line.
    fn place(&self) -> String;

    /// The current checkpoints of a site. Other processes need not take note of this.
    ///
    /// # Errors
    /// [`CheckpointError`], also if the newest one is damaged.
    fn open(
        &self,
        database: DatabaseId,
        site: SiteId,
    ) -> Result<Arc<dyn Checkpoints>, CheckpointError>;

    /// Leaves the mark of a database, by which its other processes recognize the store.
    ///
    /// # Errors
    /// [`CheckpointError`].
    fn mark(&self, database: DatabaseId) -> Result<(), CheckpointError>;

    /// True if the mark of a database is there.
    ///
    /// # Errors
    /// [`CheckpointError`].
    fn has_mark(&self, database: DatabaseId) -> Result<bool, CheckpointError>;

    /// Checks that checkpoints of a site can be written.
    ///
    /// # Errors
    /// [`CheckpointError`], if not.
    fn try_to_write(&self, database: DatabaseId, site: SiteId) -> Result<(), CheckpointError>;
}

/// The result of [`Logs::find`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLogs {
    /// The database that they belong to.
    pub database: DatabaseId,
    /// True if there are none yet.
    pub is_new: bool,
}

/// The parts from which a site is opened, and notes about their state.
pub(crate) struct Stored {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) notes: Vec<String>,
}

/// The storage of a database. See the [module documentation](self).
pub(crate) trait Storage: Send + Sync {
    /// Opens the log and the checkpoints of a site; creates them if the site is new.
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError>;

    /// Opens the log of the order; creates it if there is none.
    fn order(&self) -> Result<Arc<dyn Log>, OpenDatabaseError>;

    /// True if there is an order, whose conductor may be in another process.
    fn has_order(&self) -> Result<bool, OpenDatabaseError> {
        Ok(false)
    }

    /// True if there was no catalog when this was opened.
    fn is_new(&self) -> bool;

    /// Replaces the catalog with that of a design, as a whole or not at all.
    fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError>;

    /// Writes a definition to the catalog, as a whole or not at all. `after` is the design with it.
    fn keep(&self, after: &Design, definition: Definition) -> Result<(), OpenDatabaseError>;

    /// True if another process can take the logs: they are elsewhere.
    fn can_be_taken(&self) -> bool {
        false
    }

    /// See [`Logs::stale_for`].
    fn stale_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Takes the catalog from the process that had it, and with it the conductor's part. Returns
    /// its content.
    fn take_catalog(&self) -> Result<Design, OpenDatabaseError> {
        Err(OpenDatabaseError::NotTaken)
    }

    /// Keeps the sites in whose place others act, where another process can take the catalog.
    fn keep_lost(&self, _design: &Design, _lost: &SiteSet) -> Result<(), OpenDatabaseError> {
        Ok(())
    }

    /// The sites in whose place others acted when the catalog was taken.
    fn lost(&self) -> SiteSet {
        SiteSet::EMPTY
    }

    /// The catalog's part about processes that have joined the cluster.
    fn guests(&self) -> Guests {
        Guests::default()
    }

    /// Keeps that.
    ///
    /// # Errors
    /// [`OpenDatabaseError::NoCluster`] where no process can join.
    fn keep_guests(&self, _design: &Design, _guests: Guests) -> Result<(), OpenDatabaseError> {
        Err(OpenDatabaseError::NoCluster)
    }

    /// Takes over the log of a site of another process, and reads it; `None` where logs end with
    /// their processes.
    fn history(&self, _site: SiteId) -> Result<Option<TailCopy>, OpenDatabaseError> {
        Ok(None)
    }

    /// Begins the next term of the conductor, durably. Returns its number; 0 where no other process
    /// can take the catalog.
    fn begin_term(&self, _design: &Design) -> Result<u64, OpenDatabaseError> {
        Ok(0)
    }

    /// Checks whether another process has taken the catalog, where that is possible.
    /// [`Storage::fenced`] then returns the error.
    fn look_for_others(&self) {}

    /// The error of the catalog's log, if another process has taken it.
    fn fenced(&self) -> Option<LogError> {
        None
    }

    /// The folder, which has checkpoints, and the saved state of the strategy.
    fn folder(&self) -> Option<&Folder>;

    /// The number of the last run of a site, as far as this folder has it.
    fn last_run(&self, site: SiteId) -> Result<u64, OpenDatabaseError> {
        self.folder().map_or(Ok(0), |folder| folder.last_run(site))
    }

    /// Stores the number of a site's run, before the site sends any message.
    fn keep_run(&self, site: SiteId, run: u64) -> Result<(), OpenDatabaseError> {
        self.folder().map_or(Ok(()), |folder| folder.keep_run(site, run))
    }
}

/// A database that ends with its process.
pub(crate) struct InMemory;

impl Storage for InMemory {
    fn site(&self, _: SiteId) -> Result<Stored, OpenDatabaseError> {
        let keep_bytes = Some(MEMORY_LOG_BYTES);
        let options = MemoryOptions { keep_bytes, ..MemoryOptions::default() };
        Ok(Stored { log: Arc::new(MemoryLog::new(options)), checkpoints: None, notes: Vec::new() })
    }

    fn order(&self) -> Result<Arc<dyn Log>, OpenDatabaseError> {
        Ok(Arc::new(MemoryLog::new(MemoryOptions::default())))
    }

    fn is_new(&self) -> bool {
        true
    }

    fn write_catalog(&self, _: &Design) -> Result<(), OpenDatabaseError> {
        Ok(())
    }

    fn keep(&self, _: &Design, _: Definition) -> Result<(), OpenDatabaseError> {
        Ok(())
    }

    fn folder(&self) -> Option<&Folder> {
        None
    }
}

/// Logs and checkpoints in a folder.
pub(crate) struct InFolder {
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    /// Disks with injected faults.
    pub(crate) faults: BTreeMap<SiteId, Arc<DiskFaults>>,
}

impl Storage for InFolder {
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError> {
        let path = self.folder.site(site)?.join("log");
        let options = Options { must_exist: self.folder.has_log(site), ..self.options };
        let opened = match self.faults.get(&site) {
            Some(faults) => FileLog::open_on(faults, path, options),
            None => FileLog::open(path, options),
        };
        let (log, report) = opened.map_err(|error| OpenDatabaseError::Log { site, error })?;
        if self.folder.is_new() && report.end > 0 {
            return Err(self.folder.without_catalog());
        }
        let torn = report.torn.map(|torn| format!("site {site}: {torn}"));
        let lost = report.lost.map(|lost| format!("site {site}: {lost}; that was accepted"));
        let checkpoints = FileCheckpoints::open(self.folder.site(site)?).map_err(recover(site))?;
        Ok(Stored {
            log: Arc::new(log),
            checkpoints: Some(Arc::new(checkpoints)),
            notes: torn.into_iter().chain(lost).collect(),
        })
    }

    fn order(&self) -> Result<Arc<dyn Log>, OpenDatabaseError> {
        let (path, is_there) = self.folder.order()?;
        let segment_bytes = self.options.segment_bytes.min(ORDER_SEGMENT_BYTES);
        let options = Options { must_exist: is_there, segment_bytes, ..self.options };
        let (log, _) = FileLog::open(path, options).map_err(OpenDatabaseError::OrderLog)?;
        Ok(Arc::new(log))
    }

    fn is_new(&self) -> bool {
        self.folder.is_new()
    }

    fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError> {
        self.folder.write_catalog(design)
    }

    fn keep(&self, after: &Design, definition: Definition) -> Result<(), OpenDatabaseError> {
        self.folder.keep(after, definition)
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }
}

/// Checkpoints in a folder, and logs elsewhere: of a database, or of a node.
pub(crate) struct Beside {
    folder: Folder,
    logs: Arc<dyn Logs>,
    /// The place of checkpoints, if not the folder.
    store: Option<Arc<dyn CheckpointStore>>,
    database: DatabaseId,
    options: Options,
    /// The catalog's log, once this process has taken it.
    catalog: OnceLock<Arc<dyn Log>>,
    /// The conductor's term and the lost sites, as the catalog has them.
    succession: Mutex<Succession>,
    /// The processes that have joined, as the catalog has them.
    guests: Mutex<Guests>,
    /// The length of the catalog's content, once this process has written it as a whole.
    written: Mutex<Option<Written>>,
    /// The sites of the catalog that was found; none if there was none.
    sites: Vec<SiteId>,
}

impl Beside {
    /// Opens the folder, takes over the catalog's log, and reads the catalog.
    pub(crate) fn open(
        path: &Path,
        logs: Arc<dyn Logs>,
        store: Option<Arc<dyn CheckpointStore>>,
        options: Options,
        sites: &[SiteId],
    ) -> Result<(Beside, Design), OpenDatabaseError> {
        let (folder, expected) = Folder::open_beside(path)?;
        let found = find(path, &*logs, expected)?;
        let database = found.database;
        mark(database, store.as_deref())?;
        let mut beside = Beside::new(folder, logs, store, options, database);
        let read = beside.claim_catalog(!found.is_new)?;
        if expected.is_none() {
            beside.folder.write_logs(&beside.logs.place(), database)?;
        }
        beside.sites = read.as_ref().map_or_else(Vec::new, |it| it.sites().iter().collect());
        Ok((beside, read.map_or_else(|| design_of(sites), Ok)?))
    }

    fn new(
        folder: Folder,
        logs: Arc<dyn Logs>,
        store: Option<Arc<dyn CheckpointStore>>,
        options: Options,
        database: DatabaseId,
    ) -> Beside {
        Beside {
            folder,
            logs,
            store,
            database,
            options,
            catalog: OnceLock::new(),
            succession: Mutex::default(),
            guests: Mutex::default(),
            written: Mutex::default(),
            sites: Vec::new(),
        }
    }

    /// Takes over the catalog's log, and reads the catalog; `None` if there is none.
    fn claim_catalog(&self, must_exist: bool) -> Result<Option<Design>, OpenDatabaseError> {
        let (of, note) = (LogOf::Catalog, Some(self.folder.note()));
        let options = Options { must_exist, ..self.options };
        let opened = self.logs.open(self.database, of, None, note, &options);
        let (log, _) = opened.map_err(OpenDatabaseError::CatalogLog)?;
        let frames = frames(&*log)?;
        let catalog = catalog::read_frames(&frames).map_err(wrong(&*self.logs))?;
        *self.succession.lock() = Succession::read(&frames);
        let guests = frames.last().map_or(Ok(Guests::default()), |frame| Guests::read(frame));
        *self.guests.lock() = guests.map_err(wrong(&*self.logs))?;
        self.catalog.set(log).map_err(|_| OpenDatabaseError::NotTaken)?;
        Ok(catalog)
    }

    /// Opens the folder of a node, and reads the sites of the database.
    pub(crate) fn of_node(
        path: &Path,
        logs: Arc<dyn Logs>,
        store: Option<Arc<dyn CheckpointStore>>,
        options: Options,
    ) -> Result<Beside, OpenDatabaseError> {
        let (folder, expected) = Folder::open_beside(path)?;
        let FoundLogs { database, is_new } = find(path, &*logs, expected)?;
        if is_new {
            return Err(OpenDatabaseError::NoDatabase { place: logs.place() });
        }
        if let Some(store) = &store
            && !store.has_mark(database).map_err(OpenDatabaseError::Store)?
        {
            return Err(OpenDatabaseError::NoMark { place: store.place(), database });
        }
        let sites = sites_by_catalog(&*logs, database)?;
        if expected.is_none() {
            folder.write_logs(&logs.place(), database)?;
        }
        Ok(Beside { sites, ..Beside::new(folder, logs, store, options, database) })
    }

    /// Appends a frame to the catalog's log, durably. Returns its position.
    fn append(&self, text: &str) -> Result<Position, OpenDatabaseError> {
        let log = self.catalog.get().expect("only the process with the router writes it");
        let text = format!("{text}{}", self.guests.lock().lines());
        let begin = log.end();
        let end = log.append(text.as_bytes())?;
        while log.sync()? < end {}
        Ok(begin)
    }

    /// Writes the conductor's part of the catalog.
    fn keep_succession(&self, design: &Design) -> Result<(), OpenDatabaseError> {
        let mut written = self.written.lock();
        let succession = self.succession.lock().clone();
        match written.as_mut().filter(|written| !written.is_long()) {
            Some(so_far) => {
                let text = succession.change(design);
                self.append(&text)?;
                so_far.add(text.len() as u64);
                Ok(())
            }
            None => {
                drop(written);
                self.write_catalog(design)
            }
        }
    }

    /// The current checkpoints of a site.
    fn checkpoints(&self, site: SiteId) -> Result<Arc<dyn Checkpoints>, OpenDatabaseError> {
        let failed = recover(site);
        let here = FileCheckpoints::open(self.folder.site(site)?).map_err(&failed)?;
        let Some(store) = &self.store else { return Ok(Arc::new(here)) };
        let there = store.open(self.database, site).map_err(&failed)?;
        if here.newest().is_some() && position(&here) > position(&*there) {
            return Ok(Arc::new(MovedCheckpoints::new(Arc::new(here), there)));
        }
        // Files that cannot be removed now are removed at the next start.
        let _ = here.remove_all();
        Ok(there)
    }
}

/// The position from which on the log is needed.
fn position(checkpoints: &dyn Checkpoints) -> Position {
    checkpoints.newest().map_or(0, |newest| newest.position)
}

/// Finds the database of the logs. The folder may belong to one already.
fn find(
    path: &Path,
    logs: &dyn Logs,
    expected: Option<DatabaseId>,
) -> Result<FoundLogs, OpenDatabaseError> {
    let (place, found) = (logs.place(), logs.find().map_err(OpenDatabaseError::CatalogLog)?);
    match expected {
        Some(expected) if found.is_new => {
            let what = format!(
                "there are no logs, and {} has checkpoints of database {expected}: its logs are lost, or elsewhere",
                path.display()
            );
            Err(OpenDatabaseError::CatalogLog(OpenError::Elsewhere { place, what }))
        }
        Some(expected) if expected != found.database => {
            let (found, path) = (found.database, path.to_owned());
            Err(OpenDatabaseError::OtherDatabase { place, found, path, expected })
        }
        _ => Ok(found),
    }
}

fn mark(
    database: DatabaseId,
    store: Option<&dyn CheckpointStore>,
) -> Result<(), OpenDatabaseError> {
    let Some(store) = store else { return Ok(()) };
    match store.has_mark(database).map_err(OpenDatabaseError::Store)? {
        true => Ok(()),
        false => store.mark(database).map_err(OpenDatabaseError::Store),
    }
}

/// The number of the database of these logs, and its sites, for the process with the router, whose
/// folder may exist already. If the logs are new, creates the database, so that
/// [nodes](crate::Node) can open their logs; they find its mark in the store.
///
/// # Errors
/// [`OpenDatabaseError`], also if the folder belongs to another database.
pub fn found_database(
    folder: &Path,
    logs: &dyn Logs,
    store: Option<&dyn CheckpointStore>,
) -> Result<(DatabaseId, Vec<SiteId>), OpenDatabaseError> {
    let FoundLogs { database, is_new } = find(folder, logs, database_of(folder)?)?;
    mark(database, store)?;
    if is_new {
        // The first record has the number of the database. The process that opens the database
        // claims the log once more, with the folder locked.
        let opened = logs.open(database, LogOf::Catalog, None, None, &Options::default());
        opened.map_err(OpenDatabaseError::CatalogLog)?;
    }
    Ok((database, sites_by_catalog(logs, database)?))
}

fn sites_by_catalog(
    logs: &dyn Logs,
    database: DatabaseId,
) -> Result<Vec<SiteId>, OpenDatabaseError> {
    let text = logs.last_frame(database, LogOf::Catalog);
    let text = text.map_err(OpenDatabaseError::CatalogLog)?;
    text.map_or(Ok(Vec::new()), |text| catalog::sites_of_frame(&text).map_err(wrong(logs)))
}

/// The number of the database of these logs, for a node, whose folder may exist already. `None` if
/// the process with the router has not created it yet.
///
/// # Errors
/// [`OpenDatabaseError`], also if the folder belongs to another database.
pub fn find_database(
    folder: &Path,
    logs: &dyn Logs,
) -> Result<Option<DatabaseId>, OpenDatabaseError> {
    let found = find(folder, logs, database_of(folder)?)?;
    Ok((!found.is_new).then_some(found.database))
}

/// The processes that have joined the cluster of the database with these logs; `None` if there is
/// no database yet. Any process may ask.
///
/// # Errors
/// [`OpenError`], if the logs cannot be read now.
pub fn joined(logs: &dyn Logs) -> Result<Option<Vec<Joined>>, OpenError> {
    let found = logs.find()?;
    if found.is_new {
        return Ok(None);
    }
    let Some(frame) = logs.last_frame(found.database, LogOf::Catalog)? else { return Ok(None) };
    let damaged = |what| OpenError::Elsewhere { place: logs.place(), what };
    Guests::read(&frame).map(|guests| Some(guests.joined)).map_err(damaged)
}

/// The error of a catalog that cannot be read.
fn wrong(logs: &dyn Logs) -> impl Fn(String) -> OpenDatabaseError {
    let place = logs.place();
    move |what| OpenDatabaseError::Catalog { place: place.clone(), what }
}

impl Storage for Beside {
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError> {
        let options = Options { must_exist: self.sites.contains(&site), ..self.options };
        // Starts with the checkpoints that exist now. If the log begins after them, the log keeps
        // its owner.
        let mut needed = position(&*self.checkpoints(site)?);
        let (log, mut notes) = loop {
            let (of, note) = (LogOf::Site(site), Some(self.folder.note_of(site)?));
            match self.logs.open(self.database, of, Some(needed), note, &options) {
                Ok(opened) => break opened,
                Err(error) => {
                    // The log's owner may have made another checkpoint since, and cut the log.
                    let now = position(&*self.checkpoints(site)?);
                    if now <= needed {
                        return Err(OpenDatabaseError::Log { site, error });
                    }
                    needed = now;
                }
            }
        };
        let checkpoints = Some(self.checkpoints(site)?);
        if let Some(Err(error)) =
            self.store.as_ref().map(|store| store.try_to_write(self.database, site))
        {
            notes.push(format!(
                "site {site}: its log grows until there can be checkpoints: {error}"
            ));
        }
        Ok(Stored { log, checkpoints, notes })
    }

    fn order(&self) -> Result<Arc<dyn Log>, OpenDatabaseError> {
        let note = Some(self.folder.note());
        let opened = self.logs.open(self.database, LogOf::Order, None, note, &self.options);
        let (log, _) = opened.map_err(OpenDatabaseError::OrderLog)?;
        Ok(log)
    }

    fn has_order(&self) -> Result<bool, OpenDatabaseError> {
        self.logs.has_order(self.database).map_err(OpenDatabaseError::OrderLog)
    }

    fn is_new(&self) -> bool {
        self.catalog.get().is_some() && self.sites.is_empty()
    }

    fn can_be_taken(&self) -> bool {
        true
    }

    fn stale_for(&self) -> Duration {
        self.logs.stale_for()
    }

    fn take_catalog(&self) -> Result<Design, OpenDatabaseError> {
        let found = self.claim_catalog(true)?;
        found.ok_or_else(|| wrong(&*self.logs)("it is empty".to_owned()))
    }

    fn begin_term(&self, design: &Design) -> Result<u64, OpenDatabaseError> {
        let term = {
            let mut succession = self.succession.lock();
            succession.term += 1;
            succession.term
        };
        self.write_catalog(design)?;
        Ok(term)
    }

    fn history(&self, site: SiteId) -> Result<Option<TailCopy>, OpenDatabaseError> {
        let failed = |error| OpenDatabaseError::Log { site, error };
        let options = Options { must_exist: true, ..self.options };
        let opened = self.logs.open(self.database, LogOf::Site(site), None, None, &options);
        let (log, _) = opened.map_err(failed)?;
        let (mut frames, mut before) = (Vec::new(), None);
        let end = log.read(log.begin(), &mut |position, frame| {
            // Each frame ends where the next one begins.
            frames.extend(before.replace(frame.to_vec()).map(|frame| (position, frame)));
            ControlFlow::Continue(())
        })?;
        frames.extend(before.map(|frame| (end, frame)));
        let bad =
            |what| OpenDatabaseError::Catalog { place: format!("the log of site {site}"), what };
        TailCopy::of_log(frames).map(Some).map_err(bad)
    }

    fn keep_lost(&self, design: &Design, lost: &SiteSet) -> Result<(), OpenDatabaseError> {
        self.succession.lock().lost = lost.clone();
        self.keep_succession(design)
    }

    fn guests(&self) -> Guests {
        self.guests.lock().clone()
    }

    fn keep_guests(&self, design: &Design, guests: Guests) -> Result<(), OpenDatabaseError> {
        let before = std::mem::replace(&mut *self.guests.lock(), guests);
        self.keep_succession(design).inspect_err(|_| *self.guests.lock() = before)
    }

    fn lost(&self) -> SiteSet {
        self.succession.lock().lost.clone()
    }

    fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError> {
        let mut written = self.written.lock();
        *written = None;
        let text = self.succession.lock().whole(design);
        let begin = self.append(&text)?;
        *written = Some(Written::whole(text.len() as u64));
        // Earlier frames are not needed any more. If they cannot be removed now, the next rewrite
        // removes them.
        let log = self.catalog.get().expect("it was just written to");
        let _ = log.truncate_before(begin);
        Ok(())
    }

    fn keep(&self, after: &Design, definition: Definition) -> Result<(), OpenDatabaseError> {
        let mut written = self.written.lock();
        let appendable = written.as_mut().filter(|written| !written.is_long());
        let (Some(so_far), Some(text)) = (appendable, catalog::change(after, definition)) else {
            drop(written);
            return self.write_catalog(after);
        };
        self.append(&text)?;
        so_far.add(text.len() as u64);
        Ok(())
    }

    fn look_for_others(&self) {
        if let Some(log) = self.catalog.get() {
            log.look_for_others();
            // No other thread syncs this log. The log keeps the error, if any.
            let _ = log.sync();
        }
    }

    fn fenced(&self) -> Option<LogError> {
        let failure = self.catalog.get()?.failure()?;
        matches!(failure, LogError::Fenced { .. }).then_some(failure)
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }
}

fn recover(site: SiteId) -> impl Fn(CheckpointError) -> OpenDatabaseError {
    move |error| OpenDatabaseError::Recover { site, error: error.into() }
}

fn frames(log: &dyn Log) -> Result<Vec<Vec<u8>>, OpenDatabaseError> {
    let mut frames = Vec::new();
    log.read(log.begin(), &mut |_, frame| {
        frames.push(frame.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(frames)
}
