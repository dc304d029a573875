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
use super::ordered::OrderThreads;
use super::{Database, REMEMBERED_EVERY};
use crate::assemble::{Assembled, assemble};
use crate::catalog::Kind;
use crate::conductor::{
    Around, Conductor, FailedOver, Home, Unheard, become_conductor, copy_of, has_not_heard,
    protocol,
};
use crate::embedded::{Embedded, Runtime};
use crate::error::{Error, OpenDatabaseError};
use crate::folder::{Folder, design_of, read_cluster};
use crate::gateways::link::Link;
use crate::gateways::samples::OfGateway;
use crate::node::Node;
use crate::router::Router;
use crate::storage::{Beside, InFolder, InMemory, Storage};
use crate::transport::Transport;
use isomer_design::{Design, SiteId, SiteSet, TableId};
use isomer_site::{Answer, Holding, Refusal, Step};
use isomer_strategy::Strategy;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The longest wait of a new conductor for takeovers, before it serves what there is.
const TAKEOVERS_NS: u64 = 30_000_000_000;

/// The pause between two looks whether a gateway should still wait for a seat.
const SEATED: Duration = Duration::from_millis(50);

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
        Database::conduct(Arc::new(node), &catalog, options.strategy, options.accept_loss)
    }

    /// Makes a node the place of the router and the conductor, after the process that had them has
    /// failed. The node takes the catalog from that process, begins a new term, asks all reachable
    /// sites for their holdings, and lets others take over from the sites that are
    /// [gone](crate::Wire::gone).
    ///
    /// # Errors
    /// [`Error::Open`]; the node's sites are closed then.
    pub fn succeed(node: Arc<Node>, strategy: impl Strategy + 'static) -> Result<Database, Error> {
        let catalog = node.storage.take_catalog()?;
        Database::conduct(node, &catalog, Box::new(strategy), false)
    }

    /// A gateway over the sites of a node and of others, while the conductor is in another process.
    /// Returns once that has given it a seat. The node's sites outlive the gateway.
    ///
    /// # Errors
    /// [`Error::NoSeat`] if there is no answer until `is_over`.
    pub fn follow(
        node: Arc<Node>,
        name: &str,
        is_over: impl Fn() -> bool,
    ) -> Result<Database, Error> {
        let runtime = node.runtime.clone();
        let sites = runtime.sites_here();
        let design = Design::new(sites.iter()).map_err(Box::new)?;
        let (transport, link) =
            (Embedded::new(runtime.clone()), Arc::new(Link::new(name, runtime.client)));
        let strategy = Box::new(OfGateway::new(link.clone()));
        let conductor = Arc::new(copy_of(transport, design, strategy, link.clone()));
        let background = Background::follow(&conductor, &runtime);
        let order = Arc::default();
        let database = Database::of(conductor, background, Arc::default(), node, order);
        let transport = database.conductor.transport();
        let now = || transport.now();
        while !link.is_seated(now()) {
            if is_over() {
                return Err(Error::NoSeat);
            }
            let _ = runtime.block_on_for(link.seated(now), SEATED);
        }
        Ok(database)
    }

    fn of(
        conductor: Arc<Conductor<Embedded>>,
        background: Background,
        failed_over: Arc<Mutex<Vec<FailedOver>>>,
        node: Arc<Node>,
        order: Arc<OrderThreads>,
    ) -> Database {
        let router = Arc::new(Router::new(conductor.clone()));
        let (sessions, desk) = (AtomicU64::new(0), OnceLock::new());
        let notes = node.notes().to_vec();
        Database { conductor, router, background, sessions, node, desk, failed_over, notes, order }
    }

    /// Makes this gateway's process the conductor, after the process that had it has failed: as
    /// [`Database::succeed`], while clients stay connected. Transactions that began before it fail,
    /// because their locks were lost.
    ///
    /// # Errors
    /// [`Error::Open`]; this process should end then.
    pub(crate) fn take_over(&self, strategy: impl Strategy + 'static) -> Result<(), Error> {
        let catalog = self.node.storage.take_catalog()?;
        let (assembly, _) = assemble_at(&self.node, &catalog, &strategy, false)?;
        let Assembly { found, gone, lost } = assembly;
        let home = home_of(&self.node, &self.order);
        let around = Around { strategy: Box::new(strategy), home };
        become_conductor(&self.conductor, found.design, found.last_table, around);
        has_not_heard(&self.conductor, found.unheard, lost);
        self.background.add_conductor(&self.conductor, &self.node.runtime, &self.failed_over);
        begin(self, found.repairs, &gone)
    }

    fn conduct(
        node: Arc<Node>,
        catalog: &Design,
        strategy: Box<dyn Strategy>,
        accept_loss: bool,
    ) -> Result<Database, Error> {
        let runtime = node.runtime.clone();
        let (assembly, notes) = assemble_at(&node, catalog, &*strategy, accept_loss)?;
        let Assembly { found, gone, lost } = assembly;
        let Found { design, repairs, last_table, unheard, .. } = found;
        let transport = Embedded::new(runtime.clone());
        let order = Arc::default();
        let home = home_of(&node, &order);
        let conductor = Conductor::new(transport, design, last_table, strategy, home);
        let conductor = Arc::new(conductor);
        has_not_heard(&conductor, unheard, lost);
        let failed_over = Arc::default();
        let background = Background::start(&conductor, &runtime, &failed_over);
        let mut database = Database::of(conductor, background, failed_over, node, order);
        database.notes.extend(notes);
        begin(&database, repairs, &gone)?;
        Ok(database)
    }
}

/// Completes what was under way, and takes over from sites that are gone.
fn begin(database: &Database, repairs: Vec<(SiteId, Step)>, gone: &SiteSet) -> Result<(), Error> {
    let runtime = &database.node.runtime;
    let order = super::ordered::open_order(database)?;
    hear_of_sites(runtime, &database.conductor);
    let transport = database.conductor.transport();
    // A gateway may have noticed failures before it had the conductor.
    let failed = database.design();
    let failed = failed.sites().iter().filter(|site| transport.failure(*site).is_some());
    failed.for_each(|site| database.conductor.site_failed(site));
    gone.iter().for_each(|site| runtime.look_whether_gone(site));
    for (site, step) in repairs {
        let repaired = runtime.block_on(protocol::ask(transport, site, step));
        repaired.map_err(OpenDatabaseError::Change)?;
    }
    runtime.block_on(database.conductor.assure_backups())?;
    runtime.block_on(until_replaced(database, gone));
    super::ordered::run_order(database, order)?;
    remember_from_time_to_time(database);
    Ok(())
}

/// Ready when others have taken over from these sites, or that takes too long.
async fn until_replaced(database: &Database, sites: &SiteSet) {
    let transport = database.conductor.transport();
    let here = database.node.runtime.sites_here().first().or(sites.first());
    let until = transport.now().0 + TAKEOVERS_NS;
    let is_over = || {
        transport.now().0 > until
            || sites.iter().all(|site| {
                database.conductor.membership().is_replaced(site)
                    || transport.failure(site).is_none()
            })
    };
    while let Some(here) = here.filter(|_| !is_over()) {
        transport.retry(here).await;
    }
}

/// Writes the strategy's state to disk after every [`REMEMBERED_EVERY`] design changes.
fn remember_from_time_to_time(database: &Database) {
    if database.node.storage.folder().is_none() {
        return;
    }
    let storage = database.node.storage.clone();
    let (conductor, changes) = (Arc::downgrade(&database.conductor), AtomicU64::new(0));
    database.conductor.watch(move |_| {
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

/// The design of a new conductor, and the sites that it cannot ask.
struct Assembly {
    found: Found,
    /// Sites that are declared dead.
    gone: SiteSet,
    /// Sites that the catalog has as lost.
    lost: SiteSet,
}

/// Begins a term with this catalog, and asks all sites for their holdings. Returns notes as well.
fn assemble_at(
    node: &Node,
    catalog: &Design,
    strategy: &dyn Strategy,
    accept_loss: bool,
) -> Result<(Assembly, Vec<String>), Error> {
    let (runtime, storage) = (&node.runtime, &node.storage);
    runtime.learn();
    let term = storage.begin_term(catalog)?;
    runtime.conduct(term);
    let transport = Embedded::new(runtime.clone());
    let lost = storage.lost();
    let is_gone = |site: &SiteId| runtime.gone(*site).is_some();
    let gone: SiteSet = catalog.sites().iter().filter(is_gone).collect();
    let absent = &(&gone | &lost) & catalog.sites();
    let found = read_design(runtime, &transport, catalog, &absent, accept_loss)?;
    let mut notes = Vec::new();
    if !found.lost_rows.is_empty() {
        let lost = listed(&found.lost_rows);
        notes.push(format!("no site has the rows of {lost}: they begin anew, empty"));
    }
    if let Some(memory) = storage.folder().and_then(|it| it.read_memory(strategy.name())) {
        notes.extend(strategy.recall(&memory).err());
    }
    Ok((Assembly { found, gone, lost }, notes))
}

/// The environment of a conductor at a node.
fn home_of(node: &Node, order: &Arc<OrderThreads>) -> Box<dyn Home> {
    let (runtime, storage) = (node.runtime.clone(), node.storage.clone());
    Box::new(Surroundings { runtime, storage, log: node.log, order: order.clone() })
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
            conductor.order.may_wait(site);
            conductor.site_returned(site);
        }
    }));
}
