//! A database's folder: its files, and who may use it.
//!
//! ```text
//!   shop.isomer/
//!     catalog        sites and tables; replaced as a whole, or appended to
//!     strategy-NAME  the state of a strategy, if it learns; replaced as a whole
//!     cluster        the number of the cluster, if sites are in several processes
//!     lock           locked by the process that has the database open
//!     claim          the claim on the catalog's log, if that is elsewhere ([`crate::claim`])
//!     order/         log of the order of ordered tables, once there are any
//!     quorum/        copies of all logs, if the nodes keep them for each other
//!     site-1/
//!       claim        the claim on the site's log, likewise
//!       run          the number of its last run; it grows, whatever the clock says
//!       log/         redo log: segments
//!       checkpoint.…
//!     site-2/ …
//! ```
//!
//! A database whose logs are [elsewhere](crate::Logs) has a file `logs` instead of the catalog,
//! which is with the logs. The file has the place of the logs and the number of their database.
//!
//! The folder of a [node](crate::Node) is the same without tables and strategy, and its catalog has
//! another title. If logs are elsewhere, a node's folder is like any other: the node may take sites
//! from another process, and lose them to one.
//!
//! The folder is accessible only to its owner (mode 0700), because its files contain the tables,
//! and the server's Unix socket may be in it. A new database sets this mode. An existing folder
//! that others may enter is refused unchanged.

use crate::catalog::{self, Kind, Written};
use crate::claim::ClaimNote;
use crate::conductor::Definition;
use crate::error::OpenDatabaseError;
use crate::ids::DatabaseId;
use isomer_design::{Design, SiteId};
use parking_lot::Mutex;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CATALOG: &str = "catalog";
const LOGS: &str = "logs";
/// The first line of that file.
const LOGS_TITLE: &str = "# An Isomer database whose logs are elsewhere, format 1";
const STRATEGY: &str = "strategy";
const LOCK: &str = "lock";
const CLUSTER: &str = "cluster";
const RUN: &str = "run";
/// The folder of the order's log.
const ORDER: &str = "order";
/// The folder of the copies of all logs, if the nodes keep them for each other.
const QUORUM: &str = "quorum";
/// The prefix of the names of the sites' folders.
const SITE: &str = "site-";
const JOINED: &str = "cluster.toml";

/// The configuration file of a cluster, in the folder of a process that has joined it.
pub fn joined_file(folder: &Path) -> PathBuf {
    folder.join(JOINED)
}

/// The folder, in a node's folder, for copies of the logs of all nodes.
pub fn quorum_folder(folder: &Path) -> PathBuf {
    folder.join(QUORUM)
}

/// The folder of an open database.
pub(crate) struct Folder {
    path: PathBuf,
    kind: Kind,
    /// True while the database is being created: it has no catalog yet.
    is_new: bool,
    /// The sites of the catalog that was found.
    sites: Vec<SiteId>,
    /// Locked while the folder or a note of it exists.
    lock: Arc<File>,
    /// The catalog's file, open for appending once this process has written the whole catalog.
    catalog: Mutex<Option<(File, Written)>>,
}

impl Folder {
    /// Opens a folder for this process; creates it if it is missing or empty. The caller of a new
    /// database [writes](Folder::write_catalog) its catalog once the logs of its sites exist: a
    /// site in the catalog has a log.
    pub(crate) fn open(
        path: &Path,
        sites: &[SiteId],
        kind: Kind,
    ) -> Result<(Folder, Design), OpenDatabaseError> {
        if let Some((place, _)) = read_logs(path)? {
            return Err(OpenDatabaseError::LogsElsewhere { path: path.to_owned(), place });
        }
        let mut folder = Folder::enter(path, CATALOG)?;
        folder.kind = kind;
        if folder.is_new {
            return Ok((folder, design_of(sites)?));
        }
        let catalog = read_catalog(path, kind)?;
        folder.sites = catalog.sites().iter().collect();
        Ok((folder, catalog))
    }

    /// Opens the folder of a database whose logs are elsewhere, and returns the number of its
    /// database. For a new folder the caller [writes](Folder::write_logs) it.
    pub(crate) fn open_beside(
        path: &Path,
    ) -> Result<(Folder, Option<DatabaseId>), OpenDatabaseError> {
        if path.join(CATALOG).exists() {
            return Err(OpenDatabaseError::LogsHere { path: path.to_owned() });
        }
        let folder = Folder::enter(path, LOGS)?;
        Ok((folder, read_logs(path)?.map(|(_, database)| database)))
    }

    /// Enters a folder in which the file `marker` shows that a database was completely created.
    fn enter(path: &Path, marker: &'static str) -> Result<Folder, OpenDatabaseError> {
        make_folder(path).map_err(failed(path))?;
        let is_new = !path.join(marker).exists();
        let begun = new(marker);
        if is_new {
            let mut entries = fs::read_dir(path).map_err(failed(path))?;
            // The files of a process that was killed while it created the database.
            let is_begun = path.join(&begun).exists();
            let ours = |name: &std::ffi::OsStr| {
                let is_site = name.to_str().is_some_and(|name| name.starts_with(SITE));
                let is_file = [LOCK, CLUSTER, QUORUM, JOINED, ClaimNote::name(), &begun]
                    .iter()
                    .any(|our| name == *our);
                is_file || (is_begun && is_site)
            };
            let foreign = entries.any(|entry| entry.is_ok_and(|entry| !ours(&entry.file_name())));
            if foreign {
                let path = path.to_owned();
                return Err(OpenDatabaseError::NotADatabase { path, expected: marker });
            }
        }
        close_to_others(path, is_new)?;
        let lock = Arc::new(lock(path)?);
        let (path, kind) = (path.to_owned(), Kind::Database);
        let (sites, catalog) = Default::default();
        let folder = Folder { path, kind, is_new, sites, lock, catalog };
        let path = &folder.path;
        if is_new {
            // Shows that files without the marker are those of an incomplete database.
            let note = || create(&path.join(&begun))?.sync_all();
            note().and_then(|()| folder.sync()).map_err(failed(&path.join(&begun)))?;
        }
        Ok(folder)
    }

    /// True if this call to [`Folder::open`] creates the database, or it was never completely
    /// created.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// True if the catalog that was found says that a site has a log.
    pub(crate) fn has_log(&self, site: SiteId) -> bool {
        self.sites.contains(&site)
    }

    /// The error for an incomplete database with a log that is not empty.
    pub(crate) fn without_catalog(&self) -> OpenDatabaseError {
        OpenDatabaseError::NotADatabase { path: self.path.clone(), expected: CATALOG }
    }

    /// Replaces the catalog with that of a design, as a whole or not at all.
    pub(crate) fn write_catalog(&self, design: &Design) -> Result<(), OpenDatabaseError> {
        let (mut file, text) = (self.catalog.lock(), catalog::whole(design, self.kind));
        *file = None;
        self.replace(CATALOG, &text)?;
        let path = self.path.join(CATALOG);
        let opened = File::options().append(true).open(&path).map_err(failed(&path))?;
        *file = Some((opened, Written::whole(text.len() as u64)));
        Ok(())
    }

    /// Appends a definition to the catalog; `after` is the design with it. Replaces the whole
    /// catalog if that is better.
    pub(crate) fn keep(
        &self,
        after: &Design,
        definition: Definition,
    ) -> Result<(), OpenDatabaseError> {
        let mut file = self.catalog.lock();
        // An append that fails halfway must be the last one of this file.
        let appendable = file.take().filter(|(_, written)| !written.is_long());
        let (Some((mut opened, mut written)), Some(text)) =
            (appendable, catalog::change(after, definition))
        else {
            drop(file);
            return self.write_catalog(after);
        };
        let text = catalog::framed(&text);
        let appended = opened.write_all(text.as_bytes()).and_then(|()| opened.sync_data());
        appended.map_err(failed(&self.path.join(CATALOG)))?;
        written.add(text.len() as u64);
        *file = Some((opened, written));
        Ok(())
    }

    /// Writes the place of the logs, and the number of their database.
    pub(crate) fn write_logs(
        &self,
        place: &str,
        database: DatabaseId,
    ) -> Result<(), OpenDatabaseError> {
        let text = format!("{LOGS_TITLE}\nplace {place}\ndatabase {database}\n");
        self.replace(LOGS, &text)
    }

    /// Replaces a file as a whole or not at all, and waits for the disk.
    fn replace(&self, name: &str, text: &str) -> Result<(), OpenDatabaseError> {
        replace(&self.path, name, text)
    }

    fn sync(&self) -> std::io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Replaces the saved state of a strategy. It does not wait for the disk, because only the
    /// strategy's start depends on it.
    pub(crate) fn write_memory(&self, strategy: &str, text: &str) -> std::io::Result<()> {
        let name = memory_of(strategy);
        let (path, new) = (self.path.join(&name), self.path.join(new(&name)));
        create(&new)?.write_all(text.as_bytes())?;
        fs::rename(&new, &path)
    }

    /// The saved state of a strategy.
    pub(crate) fn read_memory(&self, strategy: &str) -> Option<String> {
        fs::read_to_string(self.path.join(memory_of(strategy))).ok()
    }

    /// The number of the last run of a site; 0 if it has had none here.
    pub(crate) fn last_run(&self, site: SiteId) -> Result<u64, OpenDatabaseError> {
        Ok(read_number(&self.site(site)?.join(RUN), 10)?.unwrap_or(0))
    }

    /// Stores the number of a run of a site, durably.
    pub(crate) fn keep_run(&self, site: SiteId, run: u64) -> Result<(), OpenDatabaseError> {
        replace(&self.site(site)?, RUN, &format!("{run}\n"))
    }

    /// The note of the claim by which this process owns the catalog's log, if that is elsewhere.
    pub(crate) fn note(&self) -> ClaimNote {
        ClaimNote::new(&self.path, self.lock.clone())
    }

    /// The note for a site's log.
    pub(crate) fn note_of(&self, site: SiteId) -> Result<ClaimNote, OpenDatabaseError> {
        Ok(ClaimNote::new(&self.site(site)?, self.lock.clone()))
    }

    /// True if the folder contains a site's folder.
    pub(crate) fn has_site(&self, site: SiteId) -> bool {
        self.path.join(format!("{SITE}{}", site.0)).exists()
    }

    /// The folder of the order's log, and whether it exists. Creates it if not.
    pub(crate) fn order(&self) -> Result<(PathBuf, bool), OpenDatabaseError> {
        let path = self.path.join(ORDER);
        let is_there = path.exists();
        if !is_there {
            make_folder(&path).map_err(failed(&path))?;
            self.sync().map_err(failed(&self.path))?;
        }
        Ok((path, is_there))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a site, created if it is missing.
    pub(crate) fn site(&self, site: SiteId) -> Result<PathBuf, OpenDatabaseError> {
        let path = self.path.join(format!("{SITE}{}", site.0));
        make_folder(&path).map_err(failed(&path))?;
        Ok(path)
    }
}

/// The number of the cluster that a folder belongs to, if any. The folder may be a database's or a
/// node's.
///
/// # Errors
/// [`OpenDatabaseError`] if it cannot be read.
pub fn read_cluster(folder: &Path) -> Result<Option<u64>, OpenDatabaseError> {
    read_number(&folder.join(CLUSTER), 16)
}

/// Removes a node's folder from its cluster if it has lost its sites, or never had any: it must not
/// be mistaken for a complete one.
///
/// # Errors
/// [`OpenDatabaseError`] if the file cannot be removed.
pub fn leave_if_empty(folder: &Path) -> Result<(), OpenDatabaseError> {
    let path = folder.join(CLUSTER);
    if folder.join(CATALOG).exists() || !path.exists() {
        return Ok(());
    }
    fs::remove_file(&path).map_err(failed(&path))
}

/// Adds a folder to a cluster, and creates the folder if it is missing.
///
/// # Errors
/// [`OpenDatabaseError`] if it cannot be written.
pub fn join_cluster(folder: &Path, number: u64) -> Result<(), OpenDatabaseError> {
    make_folder(folder).map_err(failed(folder))?;
    replace(folder, CLUSTER, &format!("{number:016x}\n"))
}

/// The sites of the database in a folder; none if there is no database yet.
///
/// # Errors
/// [`OpenDatabaseError`] if the folder is something else, or cannot be read.
pub fn sites_of(folder: &Path) -> Result<Vec<SiteId>, OpenDatabaseError> {
    match folder.join(CATALOG).exists() {
        true => Ok(read_catalog(folder, Kind::Database)?.sites().iter().collect()),
        false => Ok(Vec::new()),
    }
}

/// The tables of the database in a folder, each as one partition, and the saved state of a
/// strategy, if it has any. Another process may have the database open.
///
/// # Errors
/// [`OpenDatabaseError`], if there is no database.
pub fn look(path: &Path, strategy: &str) -> Result<(Design, Option<String>), OpenDatabaseError> {
    Ok((
        read_catalog(path, Kind::Database)?,
        fs::read_to_string(path.join(memory_of(strategy))).ok(),
    ))
}

/// The saved state of a strategy in a database's folder, wherever the redo logs are.
pub fn look_at_memory(path: &Path, strategy: &str) -> Option<String> {
    fs::read_to_string(path.join(memory_of(strategy))).ok()
}

/// The file with the saved state of a strategy. Each strategy has its own, so a change of
/// strategy loses nothing.
fn memory_of(strategy: &str) -> String {
    format!("{STRATEGY}-{strategy}")
}

/// The design of a new database: sites, and no tables.
///
/// # Errors
/// [`OpenDatabaseError::Design`] if the sites make none.
pub(crate) fn design_of(sites: &[SiteId]) -> Result<Design, OpenDatabaseError> {
    let design = Design::new(sites.iter().copied());
    design.map_err(|invalid| OpenDatabaseError::Design(invalid.to_string()))
}

fn read_catalog(folder: &Path, kind: Kind) -> Result<Design, OpenDatabaseError> {
    if let Some((place, _)) = read_logs(folder)? {
        return Err(OpenDatabaseError::LogsElsewhere { path: folder.to_owned(), place });
    }
    let path = folder.join(CATALOG);
    let text = fs::read_to_string(&path).map_err(failed(&path))?;
    let is = Kind::of(&text);
    if is != kind {
        let path = folder.to_owned();
        return Err(OpenDatabaseError::OtherKind { path, is: is.name(), wanted: kind.name() });
    }
    catalog::read(&text).map_err(|what| OpenDatabaseError::Catalog { place: show(&path), what })
}

/// Reads a file with a number. `None` if there is no file.
fn read_number(path: &Path, radix: u32) -> Result<Option<u64>, OpenDatabaseError> {
    let wrong = |error: std::num::ParseIntError| OpenDatabaseError::Catalog {
        place: show(path),
        what: format!("it should be a number: {error}"),
    };
    match fs::read_to_string(path) {
        Ok(text) => u64::from_str_radix(text.trim(), radix).map(Some).map_err(wrong),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path)(error)),
    }
}

/// Replaces a file of a folder as a whole or not at all, and waits for the disk.
fn replace(folder: &Path, name: &str, text: &str) -> Result<(), OpenDatabaseError> {
    let (path, new) = (folder.join(name), folder.join(new(name)));
    let write = || -> std::io::Result<()> {
        let mut file = create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(failed(&path))
}

/// The database that a folder belongs to, if its logs are elsewhere.
pub(crate) fn database_of(folder: &Path) -> Result<Option<DatabaseId>, OpenDatabaseError> {
    Ok(read_logs(folder)?.map(|(_, database)| database))
}

/// The place of the logs and their database, from the file of a database with logs elsewhere.
fn read_logs(folder: &Path) -> Result<Option<(String, DatabaseId)>, OpenDatabaseError> {
    let path = folder.join(LOGS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenDatabaseError::File { path, error }),
    };
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    match (value("place "), value("database ").and_then(DatabaseId::parse)) {
        (Some(place), Some(database)) if text.starts_with(LOGS_TITLE) => {
            Ok(Some((place.to_owned(), database)))
        }
        _ => {
            let what =
                format!("it should be `{LOGS_TITLE}`, and lines with a place and a database");
            Err(OpenDatabaseError::Catalog { place: show(&path), what })
        }
    }
}

/// The temporary name of a file before it replaces the old one.
fn new(name: &str) -> String {
    format!("{name}.new")
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// Creates a folder that only its owner can access.
fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options for files that only their owner can access.
fn own_file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true).mode(0o600);
    options
}

fn create(path: &Path) -> std::io::Result<File> {
    own_file().truncate(true).open(path)
}

/// Closes the folder of a new database to others. Refuses an old one that is open to them, because
/// they may have changed it.
fn close_to_others(path: &Path, is_new: bool) -> Result<(), OpenDatabaseError> {
    let mode = fs::metadata(path).map_err(failed(path))?.permissions().mode() & 0o777;
    match (mode & 0o077, is_new) {
        (0, _) => Ok(()),
        (_, true) => fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed(path)),
        (_, false) => Err(OpenDatabaseError::OpenToOthers { path: path.to_owned(), mode }),
    }
}

fn lock(path: &Path) -> Result<File, OpenDatabaseError> {
    let file = path.join(LOCK);
    let lock = own_file().truncate(false).open(&file);
    let lock = lock.map_err(failed(&file))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenDatabaseError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(OpenDatabaseError::File { path: file, error }),
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> OpenDatabaseError {
    let path = path.to_owned();
    move |error| OpenDatabaseError::File { path: path.clone(), error }
}
