//! Where a database is kept: its catalog, and the redo log and the checkpoints of each site.
//!
//! ```text
//!                catalog                  a site's log            its checkpoints     locked by
//!   InMemory     –                        in memory               –                   –
//!   InFolder     file `catalog`           site-N/log/             site-N/            the folder's lock
//!   Beside       frames of a log        wherever [`Logs`]       site-N/, or in a   whoever has opened the log last
//!                of its own               keeps them              [`CheckpointStore`]
//! ```
//!
//! **Logs elsewhere** ([`Logs`]) are opened by whoever comes: a log says itself who owns it, and ends for the owner
//! before ([`LogError::Fenced`]). So the lock of a folder proves nothing there, and the catalog has
//! to be where it is fenced as well: it is a log, of the whole catalog and the changes since. A
//! database can then be opened from a copy of its folder on any machine, and from an empty one as
//! long as its logs were never cut. What the lock does prove is that the process has ended that had
//! this folder before ([`claim`](crate::claim)).
//!
//! Every record of such a log has the [number](DatabaseId) of its database, and the folder has it too, so that one
//! database never takes the logs of another.
//!
//! **Checkpoints elsewhere** ([`CheckpointStore`]) go with such logs: then a database, or a site, starts anywhere, at any time. One
//! that was kept in its folder before takes the newest of both, until there is a newer one in the store. The owner before may
//! make one more, and cut the log, while a site is opened: so it is looked once more what there is when the log is claimed.
//! The process with the router leaves a mark in the store, and a node without that mark in its own is refused: what all reach,
//! as they say, is something else there, and a log would be cut for checkpoints that nobody finds.
//!
//! **Of a [node](crate::Node)** the folder is the same. It opens the logs of its own sites and no others, and only reads the
//! catalog: the process with the router has that. Until that one [has made the database](found_database), nothing says
//! whose the logs are, and a node waits.

use crate::catalog::{self, Definition, Kind, Written};
use crate::claim::ClaimNote;
use crate::error::OpenDatabaseError;
use crate::folder::{Folder, database_of, design_of};
use crate::ids::DatabaseId;
use isomer_design::{Design, SiteId};
use isomer_log::{
    CheckpointError, Checkpoints, DiskFaults, FileCheckpoints, FileLog, Log, LogError, MemoryLog,
    MemoryOptions, MovedCheckpoints, OpenError, Options, Position,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A log in memory keeps this much for replicas that have to catch up.
const MEMORY_LOG_BYTES: u64 = 64 << 20;

/// One of a database's logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogOf {
    /// That of the catalog.
    Catalog,
    /// A site's redo log.
    Site(SiteId),
}

/// Logs that are not in files of the database's folder. See the [module documentation](self).
pub trait Logs: Send + Sync {
    /// Where they are, as a user writes it.
    fn place(&self) -> String;

    /// Whose logs are there: a database's, or nobody's yet, and then a new number. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError`].
    fn find(&self) -> Result<FoundLogs, OpenError>;

    /// Opens a log, which belongs to this process from then on, and no longer to the one that had it. Says what there
    /// is to say about how it was found. Of the options, what is about files counts for nothing.
    ///
    /// A log that begins after `needed` is refused, and stays whose it is: whoever opens it has no checkpoint for what
    /// was removed. `None`: all that counts is its end. The `note` may prove that the owner before has ended; without one
    /// its lease is waited for.
    ///
    /// # Errors
    /// [`OpenError`], also if it is not there though it [must be](Options::must_exist).
    fn open(
        &self,
        database: DatabaseId,
        log: LogOf,
        needed: Option<Position>,
        note: Option<ClaimNote>,
        options: &Options,
    ) -> Result<(Arc<dyn Log>, Vec<String>), OpenError>;

    /// For how long after a log was opened the process that had it before may still show what it
    /// had.
    fn stale_for(&self) -> Duration {
        Duration::ZERO
    }

    /// The last frame of a log, if it has any. It stays whose it is.
    ///
    /// # Errors
    /// [`OpenError`].
    fn last_frame(&self, database: DatabaseId, log: LogOf) -> Result<Option<Vec<u8>>, OpenError>;
}

/// Checkpoints that are not in the database's folder. See the [module documentation](self).
pub trait CheckpointStore: Send + Sync {
    /// Where they are, as a user writes it.
    fn place(&self) -> String;

    /// Those of a site, as they are now: nobody else need know that they are looked at.
    ///
    /// # Errors
    /// [`CheckpointError`], also if the newest one is damaged.
    fn open(
        &self,
        database: DatabaseId,
        site: SiteId,
    ) -> Result<Arc<dyn Checkpoints>, CheckpointError>;

    /// Leaves the mark of a database, by which its other processes know the store.
    ///
    /// # Errors
    /// [`CheckpointError`].
    fn mark(&self, database: DatabaseId) -> Result<(), CheckpointError>;

    /// Whether the mark of a database is there.
    ///
    /// # Errors
    /// [`CheckpointError`].
    fn has_mark(&self, database: DatabaseId) -> Result<bool, CheckpointError>;

    /// Tries whether those of a site could be written.
    ///
    /// # Errors
    /// [`CheckpointError`], if not.
    fn try_to_write(&self, database: DatabaseId, site: SiteId) -> Result<(), CheckpointError>;
}

/// What [`Logs::find`] has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLogs {
    /// Whose they are.
    pub database: DatabaseId,
    /// There are none yet.
    pub is_new: bool,
}

/// What a site is opened from, and what there is to say of it.
pub(crate) struct Stored {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) notes: Vec<String>,
}

/// Where a database is kept. See the [module documentation](self).
pub(crate) trait Storage: Send + Sync {
    /// Opens what a site is made of; makes it if the site is new.
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError>;

    /// True if there was no catalog when this was opened.
    fn is_new(&self) -> bool;

    /// Replaces the catalog by that of a design, as a whole or not at all.
    fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError>;

    /// Writes a definition to the catalog, of which `after` is the design: as a whole or not at all.
    fn keep(&self, after: &Design, definition: Definition) -> Result<(), OpenDatabaseError>;

    /// Looks whether another process has taken the catalog, where that is possible; [`Storage::fenced`] says so then.
    fn look_for_others(&self) {}

    /// What the catalog's log says, if another process has taken it.
    fn fenced(&self) -> Option<LogError> {
        None
    }

    /// The folder, which has checkpoints, and what the strategy remembers.
    fn folder(&self) -> Option<&Folder>;

    /// The number of the last run of a site, as far as is known here.
    fn last_run(&self, site: SiteId) -> Result<u64, OpenDatabaseError> {
        self.folder().map_or(Ok(0), |folder| folder.last_run(site))
    }

    /// Keeps the number of a site's run, before anybody else hears of it.
    fn keep_run(&self, site: SiteId, run: u64) -> Result<(), OpenDatabaseError> {
        self.folder().map_or(Ok(()), |folder| folder.keep_run(site, run))
    }
}

/// A database that goes with its process.
pub(crate) struct InMemory;

impl Storage for InMemory {
    fn site(&self, _: SiteId) -> Result<Stored, OpenDatabaseError> {
        let keep_bytes = Some(MEMORY_LOG_BYTES);
        let options = MemoryOptions { keep_bytes, ..MemoryOptions::default() };
        Ok(Stored { log: Arc::new(MemoryLog::new(options)), checkpoints: None, notes: Vec::new() })
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
    /// Disks that can be told to fail.
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
    /// Where checkpoints are made, if not in the folder.
    store: Option<Arc<dyn CheckpointStore>>,
    database: DatabaseId,
    options: Options,
    /// The catalog's log; a node does not have it.
    catalog: Option<Arc<dyn Log>>,
    /// How long what is in it is, once this process has written the whole.
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
        let must_exist = Options { must_exist: !found.is_new, ..options };
        let opened = logs.open(database, LogOf::Catalog, None, Some(folder.note()), &must_exist);
        let (log, _) = opened.map_err(OpenDatabaseError::CatalogLog)?;
        let catalog = catalog::read_frames(&frames(&*log)?).map_err(wrong(&*logs))?;
        if expected.is_none() {
            folder.write_logs(&logs.place(), database)?;
        }
        let known = catalog.as_ref().map_or_else(Vec::new, |it| it.sites().iter().collect());
        let (catalog, read, written) = (Some(log), catalog, Mutex::default());
        let beside =
            Beside { folder, logs, store, database, options, catalog, written, sites: known };
        Ok((beside, read.map_or_else(|| design_of(sites), Ok)?))
    }

    /// Opens the folder of a node, and looks which sites the database has.
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
        let (catalog, written) = (None, Mutex::default());
        Ok(Beside { folder, logs, store, database, options, catalog, written, sites })
    }

    /// Appends a frame to the catalog's log, durably. Gives where it begins.
    fn append(&self, text: &str) -> Result<Position, OpenDatabaseError> {
        let log = self.catalog.as_ref().expect("only the process with the router writes it");
        let begin = log.end();
        let end = log.append(text.as_bytes())?;
        while log.sync()? < end {}
        Ok(begin)
    }

    /// The checkpoints of a site, as they are now.
    fn checkpoints(&self, site: SiteId) -> Result<Arc<dyn Checkpoints>, OpenDatabaseError> {
        let failed = recover(site);
        let here = FileCheckpoints::open(self.folder.site(site)?).map_err(&failed)?;
        let Some(store) = &self.store else { return Ok(Arc::new(here)) };
        let there = store.open(self.database, site).map_err(&failed)?;
        if here.newest().is_some() && position(&here) > position(&*there) {
            return Ok(Arc::new(MovedCheckpoints::new(Arc::new(here), there)));
        }
        // What cannot be removed now is removed at the next start.
        let _ = here.remove_all();
        Ok(there)
    }
}

/// From where on the log is needed.
fn position(checkpoints: &dyn Checkpoints) -> Position {
    checkpoints.newest().map_or(0, |newest| newest.position)
}

/// Whose the logs are, which a folder may belong to already.
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

/// The number of the database whose logs these are, and its sites, for the process with the router, which may have a folder
/// already. If there are none yet they are that one's from now on, and [nodes](crate::Node) can open theirs; they find its mark
/// in the store.
///
/// # Errors
/// [`OpenDatabaseError`], also if the folder is another database's.
pub fn found_database(
    folder: &Path,
    logs: &dyn Logs,
    store: Option<&dyn CheckpointStore>,
) -> Result<(DatabaseId, Vec<SiteId>), OpenDatabaseError> {
    let FoundLogs { database, is_new } = find(folder, logs, database_of(folder)?)?;
    mark(database, store)?;
    if is_new {
        // The first record says whose they are. Whoever opens the database claims the log once more, and has the folder locked.
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

/// The number of the database whose logs these are, for a node, which may have a folder already; `None` if the process with
/// the router has not been there yet.
///
/// # Errors
/// [`OpenDatabaseError`], also if the folder is another database's.
pub fn find_database(
    folder: &Path,
    logs: &dyn Logs,
) -> Result<Option<DatabaseId>, OpenDatabaseError> {
    let found = find(folder, logs, database_of(folder)?)?;
    Ok((!found.is_new).then_some(found.database))
}

/// A catalog that cannot be read.
fn wrong(logs: &dyn Logs) -> impl Fn(String) -> OpenDatabaseError {
    let place = logs.place();
    move |what| OpenDatabaseError::Catalog { place: place.clone(), what }
}

impl Storage for Beside {
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError> {
        let options = Options { must_exist: self.sites.contains(&site), ..self.options };
        // First what is here: where that does not reach the log's beginning, the log stays whose it is.
        let mut needed = position(&*self.checkpoints(site)?);
        let (log, mut notes) = loop {
            let (of, note) = (LogOf::Site(site), Some(self.folder.note_of(site)?));
            match self.logs.open(self.database, of, Some(needed), note, &options) {
                Ok(opened) => break opened,
                Err(error) => {
                    // Its owner may have made another one since, and cut the log.
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

    fn is_new(&self) -> bool {
        self.catalog.is_some() && self.sites.is_empty()
    }

    fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError> {
        let mut written = self.written.lock();
        *written = None;
        let text = catalog::whole(design, Kind::Database);
        let begin = self.append(&text)?;
        *written = Some(Written::whole(text.len() as u64));
        // The older ones count for nothing. What cannot be removed now is removed with the next.
        let log = self.catalog.as_ref().expect("it was just written to");
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
        if let Some(log) = &self.catalog {
            log.look_for_others();
            // It has nobody who drives it. What goes wrong, the log keeps.
            let _ = log.sync();
        }
    }

    fn fenced(&self) -> Option<LogError> {
        let failure = self.catalog.as_ref()?.failure()?;
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
