//! Where a database is kept: its catalog, and the redo log and the checkpoints of each site.
//!
//! ```text
//!                catalog                  a site's log            its checkpoints     locked by
//!   InMemory     –                        in memory               –                   –
//!   InFolder     file `catalog`           site-N/log/             site-N/            the folder's lock
//!   Beside       last frame of a log      wherever [`Logs`]       site-N/            whoever has opened the log last
//!                of its own               keeps them
//! ```
//!
//! **Logs elsewhere** ([`Logs`]) are opened by whoever comes: a log says itself who owns it, and ends for the owner
//! before ([`LogError::Fenced`](isomer_log::LogError)). So the lock of a folder proves nothing there, and the catalog has
//! to be where it is fenced as well: it is a log, and the last frame is the catalog. A database can then be opened from
//! a copy of its folder on any machine, and from an empty one as long as its logs were never cut.
//!
//! Every record of such a log has the [number](DatabaseId) of its database, and the folder has it too, so that one
//! database never takes the logs of another.

use crate::catalog::{self, Catalog, Kind};
use crate::error::OpenDatabaseError;
use crate::folder::Folder;
use isomer_design::SiteId;
use isomer_log::{
    Checkpoints, DiskFaults, FileCheckpoints, FileLog, Log, MemoryLog, MemoryOptions, OpenError,
    Options,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A log in memory keeps this much for replicas that have to catch up.
const MEMORY_LOG_BYTES: u64 = 64 << 20;

/// A database's number, drawn when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatabaseId(pub u128);

impl DatabaseId {
    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<DatabaseId> {
        u128::from_str_radix(text, 16).ok().map(DatabaseId)
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

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
    /// # Errors
    /// [`OpenError`], also if it is not there though it [must be](Options::must_exist).
    fn open(
        &self,
        database: DatabaseId,
        log: LogOf,
        options: &Options,
    ) -> Result<(Arc<dyn Log>, Vec<String>), OpenError>;
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

    /// Replaces the catalog, as a whole or not at all.
    fn write_catalog(&self, catalog: &Catalog) -> Result<(), OpenDatabaseError>;

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

    fn write_catalog(&self, _: &Catalog) -> Result<(), OpenDatabaseError> {
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
        let checkpoints = Some(checkpoints(&self.folder, site)?);
        Ok(Stored {
            log: Arc::new(log),
            checkpoints,
            notes: torn.into_iter().chain(lost).collect(),
        })
    }

    fn is_new(&self) -> bool {
        self.folder.is_new()
    }

    fn write_catalog(&self, catalog: &Catalog) -> Result<(), OpenDatabaseError> {
        self.folder.write_catalog(catalog)
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }
}

/// Checkpoints in a folder, and logs elsewhere.
pub(crate) struct Beside {
    folder: Folder,
    logs: Arc<dyn Logs>,
    database: DatabaseId,
    options: Options,
    catalog: Arc<dyn Log>,
    /// The sites of the catalog that was found; none if there was none.
    sites: Vec<SiteId>,
}

impl Beside {
    /// Opens the folder, takes over the catalog's log, and reads the catalog.
    pub(crate) fn open(
        path: &Path,
        logs: Arc<dyn Logs>,
        options: Options,
        sites: &[SiteId],
    ) -> Result<(Beside, Catalog), OpenDatabaseError> {
        let (folder, expected) = Folder::open_beside(path)?;
        let (place, found) = (logs.place(), logs.find().map_err(OpenDatabaseError::CatalogLog)?);
        let database = found.database;
        match expected {
            Some(expected) if found.is_new => {
                let what = format!(
                    "there are no logs, and {} has checkpoints of database {expected}: its logs are lost, or elsewhere",
                    path.display()
                );
                return Err(OpenDatabaseError::CatalogLog(OpenError::Elsewhere { place, what }));
            }
            Some(expected) if expected != database => {
                let (found, path) = (database, path.to_owned());
                return Err(OpenDatabaseError::OtherDatabase { place, found, path, expected });
            }
            _ => {}
        }
        let must_exist = Options { must_exist: !found.is_new, ..options };
        let opened = logs.open(database, LogOf::Catalog, &must_exist);
        let (catalog_log, _) = opened.map_err(OpenDatabaseError::CatalogLog)?;
        let catalog = match last_frame(&*catalog_log)? {
            Some(text) => {
                let read = std::str::from_utf8(&text).map_err(|error| error.to_string());
                let design = read.and_then(catalog::read);
                let wrong = |what| OpenDatabaseError::Catalog { place: place.clone(), what };
                Some(Catalog::from_design(&design.map_err(wrong)?))
            }
            None => None,
        };
        if expected.is_none() {
            folder.write_logs(&place, database)?;
        }
        let known = catalog.as_ref().map_or_else(Vec::new, |catalog| catalog.sites.clone());
        let beside = Beside { folder, logs, database, options, catalog: catalog_log, sites: known };
        Ok((beside, catalog.unwrap_or_else(|| Catalog::of(sites.to_vec()))))
    }
}

impl Storage for Beside {
    fn site(&self, site: SiteId) -> Result<Stored, OpenDatabaseError> {
        let options = Options { must_exist: self.sites.contains(&site), ..self.options };
        let opened = self.logs.open(self.database, LogOf::Site(site), &options);
        let (log, notes) = opened.map_err(|error| OpenDatabaseError::Log { site, error })?;
        let checkpoints = Some(checkpoints(&self.folder, site)?);
        Ok(Stored { log, checkpoints, notes })
    }

    fn is_new(&self) -> bool {
        self.sites.is_empty()
    }

    fn write_catalog(&self, catalog: &Catalog) -> Result<(), OpenDatabaseError> {
        let begin = self.catalog.end();
        let end = self.catalog.append(catalog.to_text(Kind::Database).as_bytes())?;
        while self.catalog.sync()? < end {}
        // The older ones count for nothing. What cannot be removed now is removed with the next.
        let _ = self.catalog.truncate_before(begin);
        Ok(())
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }
}

fn checkpoints(folder: &Folder, site: SiteId) -> Result<Arc<dyn Checkpoints>, OpenDatabaseError> {
    let checkpoints = FileCheckpoints::open(folder.site(site)?)
        .map_err(|error| OpenDatabaseError::Recover { site, error: error.into() })?;
    Ok(Arc::new(checkpoints))
}

fn last_frame(log: &dyn Log) -> Result<Option<Vec<u8>>, OpenDatabaseError> {
    let mut last = None;
    log.read(log.begin(), &mut |_, frame| {
        last = Some(frame.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(last)
}
