//! How a database is opened: what its sites hold says what its design is.
//!
//! ```text
//!   folder, or a topic ──▶ catalog: tables, sites
//!   redo logs, checkpoints ──▶ sites of this process;  others are asked over the wire
//!   what all of them hold ──▶ assemble ──▶ design, and repairs: steps that a crash has cut off
//!   design ──▶ router ──▶ background threads
//! ```
//!
//! So the design is kept nowhere but at the sites, and whoever opens the database after a crash sees how far each
//! change has come.

use super::background::Background;
use super::options::{Options, log_options};
use super::{Database, REMEMBERED_EVERY};
use crate::assemble::{Assembled, assemble};
use crate::catalog::{Catalog, Kind};
use crate::embedded::{Checkpointer, Embedded, Runtime};
use crate::error::{Error, OpenDatabaseError};
use crate::folder::{Folder, read_cluster};
use crate::protocol;
use crate::router::Router;
use crate::sites::Sites;
use crate::storage::{Beside, InFolder, InMemory, Storage};
use isomer_design::{Design, SiteId};
use isomer_site::{Answer, Holding, Refusal, Step};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What the sites tell of the design.
struct Found {
    design: Design,
    repairs: Vec<(SiteId, Step)>,
    /// The highest number of a table that any site knows.
    last_table: u32,
    /// Ranges of tables that no site has.
    lost: Vec<String>,
}

impl Database {
    /// Opens a database, or makes one. What was under way when it stopped is completed.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(mut options: Options) -> Result<Database, Error> {
        options.check_store()?;
        // Whoever opens a log elsewhere has its site, whatever folders say.
        let can_be_taken = options.logs.is_some();
        let stale_for = options.logs.as_ref().map_or(Duration::ZERO, |logs| logs.stale_for());
        let log = log_options(options.durability, &options.checkpoints);
        let (storage, catalog) = open_storage(&mut options, log)?;
        let procedures = std::mem::take(&mut options.procedures);
        let runtime = Arc::new(Runtime::new(procedures, options.wire.take()));
        runtime.memory.set(options.site_memory);
        runtime.stale_for.store(stale_for.as_nanos() as u64, Ordering::Relaxed);
        let mut notes = Vec::new();
        if !can_be_taken {
            check_places(&*storage, &runtime, &catalog.sites, options.accept_loss)?;
        }
        let here: Vec<SiteId> =
            catalog.sites.iter().copied().filter(|site| runtime.hosts_site(*site)).collect();
        let opening = isomer_log::Options { accept_loss: options.accept_loss, ..log };
        runtime.open(&*storage, opening, &here, &options.told, &mut notes)?;
        runtime.open_wire();
        if storage.is_new() {
            storage.write_catalog(&catalog)?;
        }
        let transport = Embedded::new(runtime.clone());
        let found = read_design(&runtime, &transport, &catalog, options.accept_loss);
        let found = found.inspect_err(|_| runtime.stop_all())?;
        let Found { design, repairs, last_table, lost } = found;
        if !lost.is_empty() {
            notes
                .push(format!("no site has the rows of {}: they begin anew, empty", listed(&lost)));
        }
        if let Some(memory) =
            storage.folder().and_then(|folder| folder.read_memory(options.strategy.name()))
        {
            notes.extend(options.strategy.recall(&memory).err());
        }
        let router = Arc::new(Router::new(transport, design, options.strategy));
        hear_of_sites(&runtime, &router);
        let catalog = Arc::new(Mutex::new(catalog));
        let sites = Arc::new(Sites {
            router: router.clone(),
            runtime: runtime.clone(),
            storage: storage.clone(),
            catalog: catalog.clone(),
            log,
        });
        let checkpointer = Arc::new(Checkpointer::new(options.checkpoints));
        let failed_over = Arc::default();
        let background = Background::start(&sites, &checkpointer, &failed_over, can_be_taken);
        let database = Database {
            router,
            runtime,
            checkpointer,
            background,
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

    /// Has every site know how many backups each table is to have, and replaces those that were lost.
    fn assure_backups(&self) -> Result<(), Error> {
        let (design, catalog) = (self.router.design(), self.catalog.lock());
        for (table, backups) in catalog.backed() {
            for site in design.sites().iter() {
                self.runtime.block_on(self.router.tell_backups(site, table, backups))?;
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

/// Where there are nodes, each site that the database has is in its folder or at one, and not in
/// both. What is lost may be in neither. A folder of a cluster is refused where no node can be
/// reached: its sites there are not lost.
fn check_places(
    storage: &dyn Storage,
    runtime: &Runtime,
    sites: &[SiteId],
    accept_loss: bool,
) -> Result<(), OpenDatabaseError> {
    let Some(folder) = storage.folder().filter(|_| !storage.is_new()) else { return Ok(()) };
    let is_of_cluster = !runtime.has_wire() && read_cluster(folder.path())?.is_some();
    for &site in sites {
        let path = folder.path().to_owned();
        match (runtime.hosts_site(site), folder.has_site(site)) {
            (_, false) if is_of_cluster => return Err(OpenDatabaseError::OfCluster { path, site }),
            _ if !runtime.has_wire() => {}
            (true, false) if !accept_loss => return Err(OpenDatabaseError::NoSite { path, site }),
            (false, true) => return Err(OpenDatabaseError::TwoPlaces { path, site }),
            _ => {}
        }
    }
    Ok(())
}

/// Asks the sites what they hold, and makes a design of it.
fn read_design(
    runtime: &Runtime,
    transport: &Embedded,
    catalog: &Catalog,
    accept_loss: bool,
) -> Result<Found, Error> {
    let holdings = runtime.block_on(describe(transport, &catalog.sites));
    let holdings = holdings.map_err(OpenDatabaseError::Change)?;
    let tables: Vec<_> = catalog.tables().map(|(id, schema)| (id, schema.clone())).collect();
    let assembled = assemble(&tables, &holdings).map_err(OpenDatabaseError::Design)?;
    let Assembled { mut design, repairs, lost } = assembled;
    if !lost.is_empty() && !accept_loss {
        return Err(OpenDatabaseError::LostRows { tables: listed(&lost) }.into());
    }
    for (table, backups) in catalog.backed() {
        design.set_backups(table, backups).map_err(Box::new)?;
    }
    let held = holdings.iter().flat_map(|(_, held)| held.iter().map(|holding| holding.table));
    let tables = tables.iter().map(|(table, _)| *table).chain(held);
    let last_table = tables.map(|table| table.0).max().unwrap_or(0);
    Ok(Found { design, repairs, last_table, lost })
}

/// The first few of some things, and how many more there are.
fn listed(things: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = things.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match things.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
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

/// Has a router hear of sites that fail, and of those that are back.
fn hear_of_sites(runtime: &Runtime, router: &Arc<Router<Embedded>>) {
    let (failing, returning) = (Arc::downgrade(router), Arc::downgrade(router));
    // Both are set once, as this is the only database of the runtime.
    let _ = runtime.mailboxes.on_failure.set(Box::new(move |site| {
        if let Some(router) = failing.upgrade() {
            router.site_failed(site);
        }
    }));
    let _ = runtime.on_return.set(Box::new(move |site| {
        if let Some(router) = returning.upgrade() {
            router.site_returned(site);
        }
    }));
}
