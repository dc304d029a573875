//! How a database is opened: the sites' holdings determine the design.
//!
//! ```text
//!   folder, or a topic ──▶ catalog: tables, sites
//!   redo logs, checkpoints ──▶ sites of this process; others are asked over the wire
//!   holdings of all sites ──▶ assemble ──▶ design, and repairs: steps that a crash cut off
//!   design ──▶ router ──▶ background threads
//! ```
//!
//! So the design is kept nowhere but at the sites. A process that opens the database after a crash
//! sees how far each change has come.
//!
//! **Succession.** A node that takes the place of a failed process ([`Database::succeed`]) does the
//! same from the second line on, with the sites that it runs already. The sites of the failed
//! process cannot be asked: [`assemble`] deduces their masterships, and others take over from them
//! as from any failed site.

use super::background::Background;
use super::home::Surroundings;
use super::options::{Options, log_options};
use super::{Database, REMEMBERED_EVERY};
use crate::assemble::{Assembled, assemble};
use crate::catalog::Kind;
use crate::conductor::{Conductor, Unheard, has_not_heard, protocol};
use crate::embedded::{Embedded, Runtime};
use crate::error::{Error, OpenDatabaseError};
use crate::folder::{Folder, design_of, read_cluster};
use crate::node::Node;
use crate::router::Router;
use crate::storage::{Beside, InFolder, InMemory, Storage};
use crate::transport::Transport;
use isomer_design::{Design, SiteId, SiteSet, TableId};
use isomer_site::{Answer, Holding, Refusal, Step};
use isomer_strategy::Strategy;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest wait of a new conductor for takeovers, before it serves what there is.
const TAKEOVERS_NS: u64 = 30_000_000_000;

/// The design as the sites' holdings show it.
struct Found {
    design: Design,
    repairs: Vec<(SiteId, Step)>,
    /// The highest table number that any site knows.
    last_table: TableId,
    /// Ranges of tables that no site has.
    lost_rows: Vec<String>,
    unheard: Unheard,
}

impl Database {
    /// Opens a database, or creates it. Completes the changes that were under way when it stopped.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open(mut options: Options) -> Result<Database, Error> {
        options.check_store()?;
        let log = log_options(options.durability, &options.checkpoints);
        let (storage, catalog) = open_storage(&mut options, log)?;
        let mut node = Node::before(storage, &mut options);
        // A process that opens a log elsewhere owns its site, whatever folders say.
        if !node.storage.can_be_taken() {
            let storage = &*node.storage;
            check_places(storage, &node.runtime, catalog.sites(), options.accept_loss)?;
        }
        let here: Vec<SiteId> =
            catalog.sites().iter().filter(|site| node.runtime.hosts_site(*site)).collect();
        node.recover(&here, &options)?;
        node.start();
        if node.storage.is_new() {
            node.storage.write_catalog(&catalog)?;
        }
        Database::conduct(node, &catalog, options.strategy, options.accept_loss)
    }

    /// Makes a node the place of the router and the conductor, after the process that had them has
    /// failed. The node takes the catalog from that process, begins a new term, asks all reachable
    /// sites for their holdings, and lets others take over from the sites that are
    /// [gone](crate::Wire::gone).
    ///
    /// # Errors
    /// [`Error::Open`]; the node's sites are closed then.
    pub fn succeed(node: Node, strategy: impl Strategy + 'static) -> Result<Database, Error> {
        let catalog = node.storage.take_catalog()?;
        Database::conduct(node, &catalog, Box::new(strategy), false)
    }

    fn conduct(
        mut node: Node,
        catalog: &Design,
        strategy: Box<dyn Strategy>,
        accept_loss: bool,
    ) -> Result<Database, Error> {
        let (runtime, storage) = (node.runtime.clone(), node.storage.clone());
        let term = storage.begin_term(catalog)?;
        runtime.conduct(term);
        let transport = Embedded::new(runtime.clone());
        let lost = storage.lost();
        let is_gone = |site: &SiteId| runtime.gone(*site).is_some();
        let gone: SiteSet = catalog.sites().iter().filter(is_gone).collect();
        let absent = &(&gone | &lost) & catalog.sites();
        let found = read_design(&runtime, &transport, catalog, &absent, accept_loss)?;
        let Found { design, repairs, last_table, lost_rows, unheard } = found;
        if !lost_rows.is_empty() {
            let lost = listed(&lost_rows);
            node.notes.push(format!("no site has the rows of {lost}: they begin anew, empty"));
        }
        if let Some(memory) = storage.folder().and_then(|it| it.read_memory(strategy.name())) {
            node.notes.extend(strategy.recall(&memory).err());
        }
        let home = Surroundings { runtime: runtime.clone(), storage, log: node.log };
        let conductor = Conductor::new(transport, design, last_table, strategy, Box::new(home));
        let conductor = Arc::new(conductor);
        has_not_heard(&conductor, unheard, lost);
        hear_of_sites(&runtime, &conductor);
        gone.iter().for_each(|site| runtime.look_whether_gone(site));
        let failed_over = Arc::default();
        let background = Background::start(&conductor, &runtime, &failed_over);
        let database = Database {
            router: Arc::new(Router::new(conductor.clone())),
            conductor,
            background,
            sessions: AtomicU64::new(0),
            failed_over,
            order: Mutex::default(),
            node,
        };
        for (site, step) in repairs {
            let transport = database.conductor.transport();
            let repaired = runtime.block_on(protocol::ask(transport, site, step));
            repaired.map_err(OpenDatabaseError::Change)?;
        }
        runtime.block_on(database.conductor.assure_backups())?;
        runtime.block_on(database.until_replaced(&gone));
        super::ordered::recover_order(&database)?;
        database.remember_from_time_to_time();
        Ok(database)
    }

    /// Ready when others have taken over from these sites, or that takes too long.
    async fn until_replaced(&self, sites: &SiteSet) {
        let transport = self.conductor.transport();
        let here = self.node.runtime.sites_here().first().or(sites.first());
        let until = transport.now().0 + TAKEOVERS_NS;
        let is_over = || {
            transport.now().0 > until
                || sites.iter().all(|site| {
                    self.conductor.membership().is_replaced(site)
                        || transport.failure(site).is_none()
                })
        };
        while let Some(here) = here.filter(|_| !is_over()) {
            transport.retry(here).await;
        }
    }

    /// Writes the strategy's state to disk after every [`REMEMBERED_EVERY`] design changes.
    fn remember_from_time_to_time(&self) {
        if self.node.storage.folder().is_none() {
            return;
        }
        let storage = self.node.storage.clone();
        let (conductor, changes) = (Arc::downgrade(&self.conductor), AtomicU64::new(0));
        self.conductor.watch(move |_| {
            if changes.fetch_add(1, Ordering::Relaxed) % REMEMBERED_EVERY == REMEMBERED_EVERY - 1
                && let Some(conductor) = conductor.upgrade()
                && let Some(memory) = conductor.memory()
                && let Some(folder) = storage.folder()
            {
                // A failure does not matter, because it is written again soon.
                let _ = folder.write_memory(conductor.strategy().name(), &memory);
            }
        });
    }
}

/// Opens the storage of the database, and reads its catalog.
fn open_storage(
    options: &mut Options,
    log: isomer_log::Options,
) -> Result<(Arc<dyn Storage>, Design), OpenDatabaseError> {
    let log = isomer_log::Options { accept_loss: options.accept_loss, ..log };
    let sites = std::mem::take(&mut options.sites);
    let Some(path) = &options.folder else {
        return Ok((Arc::new(InMemory), design_of(&sites)?));
    };
    if let Some(logs) = options.logs.take() {
        let (storage, catalog) = Beside::open(path, logs, options.store.take(), log, &sites)?;
        return Ok((Arc::new(storage), catalog));
    }
    let (folder, catalog) = Folder::open(path, &sites, Kind::Database)?;
    let faults = std::mem::take(&mut options.faults);
    Ok((Arc::new(InFolder { folder, options: log, faults }), catalog))
}

/// Where there are nodes, each site of the database must be in its folder or at a node, and not in
/// both. A lost site may be in neither. The folder of a cluster is refused if there is no wire to
/// its nodes: the sites there are not lost.
fn check_places(
    storage: &dyn Storage,
    runtime: &Runtime,
    sites: &SiteSet,
    accept_loss: bool,
) -> Result<(), OpenDatabaseError> {
    let Some(folder) = storage.folder().filter(|_| !storage.is_new()) else { return Ok(()) };
    let is_of_cluster = !runtime.has_wire() && read_cluster(folder.path())?.is_some();
    for site in sites.iter() {
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

/// Asks the sites for their holdings, and assembles a design from them.
fn read_design(
    runtime: &Runtime,
    transport: &Embedded,
    catalog: &Design,
    absent: &SiteSet,
    accept_loss: bool,
) -> Result<Found, Error> {
    let holdings = runtime.block_on(describe(transport, &(catalog.sites() - absent)));
    let holdings = holdings.map_err(OpenDatabaseError::Change)?;
    let tables: Vec<_> = catalog.tables().map(|(id, table)| (id, table.schema().clone())).collect();
    let assembled = assemble(&tables, &holdings, absent).map_err(OpenDatabaseError::Design)?;
    let Assembled { mut design, repairs, lost, unheard } = assembled;
    if !lost.is_empty() && !accept_loss {
        return Err(OpenDatabaseError::LostRows { tables: listed(&lost) }.into());
    }
    for (table, kept) in catalog.tables() {
        design.set_backups(table, kept.backups()).map_err(Box::new)?;
        design.set_pins(table, kept.pins().clone()).map_err(Box::new)?;
        design.set_ordered(table, kept.is_ordered()).map_err(Box::new)?;
    }
    let held = holdings.iter().flat_map(|(_, held)| held.iter().map(|holding| holding.table));
    let tables = tables.iter().map(|(table, _)| *table).chain(held);
    let last_table = tables.max().unwrap_or(TableId(0));
    let unheard = Unheard { sites: absent.clone(), ranges: unheard };
    Ok(Found { design, repairs, last_table, lost_rows: lost, unheard })
}

/// The first names of a list, and the number of the others.
fn listed(things: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = things.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match things.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The holdings of the sites.
async fn describe(
    transport: &Embedded,
    sites: &SiteSet,
) -> Result<Vec<(SiteId, Vec<Holding>)>, Refusal> {
    let mut holdings = Vec::new();
    for site in sites.iter() {
        let Answer::Holdings(held) = protocol::ask(transport, site, Step::Describe).await? else {
            unreachable!("a description was asked for")
        };
        holdings.push((site, held));
    }
    Ok(holdings)
}

/// Connects the conductor to the events of sites that fail or return.
fn hear_of_sites(runtime: &Runtime, conductor: &Arc<Conductor<Embedded>>) {
    let (failing, returning) = (Arc::downgrade(conductor), Arc::downgrade(conductor));
    // Both are set once, because this is the only database of the runtime.
    let _ = runtime.mailboxes.on_failure.set(Box::new(move |site| {
        if let Some(conductor) = failing.upgrade() {
            conductor.site_failed(site);
        }
    }));
    let _ = runtime.on_return.set(Box::new(move |site| {
        if let Some(conductor) = returning.upgrade() {
            conductor.site_returned(site);
        }
    }));
}
