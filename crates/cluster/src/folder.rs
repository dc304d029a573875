//! A database's folder: what is where, who may use it, and the catalog.
//!
//! ```text
//!   shop.isomer/
//!     catalog        sites and tables, as text in the form of a design; replaced as a whole
//!     strategy       what the strategy has learned and decided, if it learns; replaced as a whole
//!     lock           locked by the process that has the database open
//!     site-1/
//!       log/         redo log: segments
//!       checkpoint.…
//!     site-2/ …
//! ```
//!
//! The catalog's first line has the number of its format. A newer program reads older ones (1 had
//! no number), and writes its own with the next change; a number that it does not know is refused
//! by name.
//!
//! The folder is its owner's alone (mode 0700), as whoever reads the files has read the tables, and
//! the server's Unix socket may be in it. A new database makes it so; of an existing one that
//! others may enter nothing is touched.

use crate::error::OpenDatabaseError;
use isomer_design::{Backups, Design, Placement, Schema, SiteId, TableId};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The format of the catalog that is written here, and the newest that is read.
const FORMAT: u32 = 2;
/// What a catalog begins with, and then its number.
const TITLE: &str = "# An Isomer database, format ";

const CATALOG: &str = "catalog";
const CATALOG_NEW: &str = "catalog.new";
const STRATEGY: &str = "strategy";
const STRATEGY_NEW: &str = "strategy.new";
const LOCK: &str = "lock";
/// What the names of the sites' folders begin with.
const SITE: &str = "site-";

/// The folder of an open database.
pub(crate) struct Folder {
    path: PathBuf,
    /// The database is being made: it has no catalog yet.
    is_new: bool,
    /// The sites of the catalog that was found.
    sites: Vec<SiteId>,
    /// Locked as long as this lives.
    _lock: File,
}

/// Sites and tables.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) sites: Vec<SiteId>,
    pub(crate) tables: Vec<(TableId, Arc<Schema>)>,
    /// Of the tables that ask for some.
    pub(crate) backups: BTreeMap<TableId, Backups>,
}

impl Folder {
    /// Opens a folder for this process; makes it if it is missing or empty. The catalog of a new database is
    /// yet to be [written](Folder::write_catalog), once the logs of its sites are there: a site that is in the
    /// catalog has a log.
    pub(crate) fn open(path: &Path, sites: u16) -> Result<(Folder, Catalog), OpenDatabaseError> {
        make_folder(path).map_err(failed(path))?;
        let is_new = !path.join(CATALOG).exists();
        if is_new {
            let mut entries = fs::read_dir(path).map_err(failed(path))?;
            // What a process leaves that was killed while it made the database.
            let is_begun = path.join(CATALOG_NEW).exists();
            let ours = |name: &std::ffi::OsStr| {
                let is_site = name.to_str().is_some_and(|name| name.starts_with(SITE));
                name == LOCK || name == CATALOG_NEW || (is_begun && is_site)
            };
            let foreign = entries.any(|entry| entry.is_ok_and(|entry| !ours(&entry.file_name())));
            if foreign {
                let path = path.to_owned();
                return Err(OpenDatabaseError::NotADatabase { path, expected: CATALOG });
            }
        }
        close_to_others(path, is_new)?;
        let _lock = lock(path)?;
        let mut folder = Folder { path: path.to_owned(), is_new, sites: Vec::new(), _lock };
        if is_new {
            let sites = (1..=sites).map(SiteId).collect();
            folder.begin_catalog().map_err(failed(&path.join(CATALOG_NEW)))?;
            return Ok((folder, Catalog::of(sites)));
        }
        let design = read_catalog(path)?;
        let tables = design.tables().map(|(id, table)| (id, table.schema().clone())).collect();
        folder.sites = design.sites().iter().collect();
        let backed = design.tables().filter(|(_, table)| table.backups() != Backups::NONE);
        let backups = backed.map(|(id, table)| (id, table.backups())).collect();
        Ok((folder, Catalog { sites: design.sites().iter().collect(), tables, backups }))
    }

    /// True if the database was made by this call to [`Folder::open`], or was never wholly made.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// True if the catalog that was found says that a site has a log.
    pub(crate) fn has_log(&self, site: SiteId) -> bool {
        self.sites.contains(&site)
    }

    /// Notes that what is found here without a catalog is what is left of the making of a database.
    fn begin_catalog(&self) -> std::io::Result<()> {
        create(&self.path.join(CATALOG_NEW))?.sync_all()?;
        File::open(&self.path)?.sync_all()
    }

    /// A folder in which a database was found half made, though a site's log holds something.
    pub(crate) fn without_catalog(&self) -> OpenDatabaseError {
        OpenDatabaseError::NotADatabase { path: self.path.clone(), expected: CATALOG }
    }

    /// Replaces the catalog, as a whole or not at all.
    pub(crate) fn write_catalog(&self, catalog: &Catalog) -> Result<(), OpenDatabaseError> {
        let (path, new) = (self.path.join(CATALOG), self.path.join(CATALOG_NEW));
        let text = format!(
            "{TITLE}{FORMAT}: its sites and tables. Where partitions are stands in the sites' logs.\n{}",
            catalog.to_text()
        );
        let write = || -> std::io::Result<()> {
            let mut file = create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(failed(&path))
    }

    /// Replaces what the strategy remembers. Nothing depends on it but how well it begins, so it does not wait
    /// for the disk.
    pub(crate) fn write_memory(&self, text: &str) -> std::io::Result<()> {
        let (path, new) = (self.path.join(STRATEGY), self.path.join(STRATEGY_NEW));
        create(&new)?.write_all(text.as_bytes())?;
        fs::rename(&new, &path)
    }

    /// What the strategy remembers.
    pub(crate) fn read_memory(&self) -> Option<String> {
        fs::read_to_string(self.path.join(STRATEGY)).ok()
    }

    /// The folder of a site, made if it is missing.
    pub(crate) fn site(&self, site: SiteId) -> Result<PathBuf, OpenDatabaseError> {
        let path = self.path.join(format!("{SITE}{}", site.0));
        make_folder(&path).map_err(failed(&path))?;
        Ok(path)
    }
}

impl Catalog {
    /// Sites, and no tables.
    pub(crate) fn of(sites: Vec<SiteId>) -> Catalog {
        Catalog { sites, tables: Vec::new(), backups: BTreeMap::new() }
    }

    /// How many backups a table is to have.
    pub(crate) fn backups(&self, table: TableId) -> Backups {
        self.backups.get(&table).copied().unwrap_or(Backups::NONE)
    }

    /// Says how many.
    pub(crate) fn set_backups(&mut self, table: TableId, backups: Backups) {
        self.backups.remove(&table);
        if backups != Backups::NONE {
            self.backups.insert(table, backups);
        }
    }

    /// As a design in which every table is one partition at the first site.
    fn to_text(&self) -> String {
        let mut design = Design::new(self.sites.iter().copied()).expect("sites were valid before");
        for (id, schema) in &self.tables {
            let everything = [(isomer_design::Key::min(), Placement::at(self.sites[0]))];
            design.create_table(*id, schema.clone(), everything).expect("tables were valid before");
            // There may be fewer sites by now: then a table asks for more than there can be.
            let others = self.sites.len().saturating_sub(1).min(usize::from(u8::MAX)) as u8;
            let backups = self.backups(*id);
            let backups = Backups { count: backups.count.min(others), ..backups };
            design.set_backups(*id, backups).expect("there are as many sites");
        }
        design.to_text()
    }
}

/// The tables of the database in a folder, each as one partition; and what its strategy remembers, if it
/// learns. The database may be open elsewhere.
///
/// # Errors
/// [`OpenDatabaseError`], if there is no database.
pub fn look(path: &Path) -> Result<(Design, Option<String>), OpenDatabaseError> {
    Ok((read_catalog(path)?, fs::read_to_string(path.join(STRATEGY)).ok()))
}

fn read_catalog(folder: &Path) -> Result<Design, OpenDatabaseError> {
    let path = folder.join(CATALOG);
    let text = fs::read_to_string(&path).map_err(failed(&path))?;
    let wrong = |what: String| OpenDatabaseError::Catalog { path: path.clone(), what };
    check_format(&text).map_err(wrong)?;
    Design::parse(&text).map_err(|error| wrong(error.to_string()))
}

fn check_format(catalog: &str) -> Result<(), String> {
    let Some(title) = catalog.strip_prefix(TITLE) else { return Ok(()) };
    let number = title.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or_default();
    match number.parse::<u32>() {
        Ok(1..=FORMAT) => Ok(()),
        Ok(_) => Err(format!(
            "it has format {number}, and this program knows those up to {FORMAT}; open it with a newer one"
        )),
        Err(_) => Err("its first line does not say which format it has".to_owned()),
    }
}

/// A new folder is its owner's alone.
fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Files that are made are their owner's alone.
fn own_file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true).mode(0o600);
    options
}

fn create(path: &Path) -> std::io::Result<File> {
    own_file().truncate(true).open(path)
}

/// Closes the folder of a new database to others; refuses that of an old one that is open to them,
/// as somebody may have been there.
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
