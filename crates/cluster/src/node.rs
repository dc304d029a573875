//! A process that hosts sites, as other processes reach them.
//!
//! ```text
//!   process 1: Database                 process 2: Node
//!     router, open transactions            (neither: it serves requests)
//!     sites 1, 2 ── Endpoint ◀── wire ──▶ Endpoint ── sites 3, 4
//! ```
//!
//! One process has the [`Database`](crate::Database), and with it the design, its changes and the
//! row locks. The others are nodes. They run transactions, take steps of changes, and participate
//! in distributed transactions. Their sites exchange messages with all others directly. A network
//! calls the [`Endpoint`] with each request and message that arrives.
//!
//! **Restart of a node.** Its sites recover from its folder, as those of a database do, each as a
//! new run with a greater number. At the handshake with another process ([`Endpoint::meet`]), the
//! sites on both sides greet each other again. Replicas then ask for missing events, and
//! participants with prepared transactions ask their coordinators. The process with the router
//! checks the holdings of sites that rejoin. They drop partitions that the design has given to
//! others, and tables that were dropped ([`crate::Conductor::readmit`]).
//!
//! **Restart of the process with the router** while nodes stay up. It asks all sites for their
//! holdings, and assembles the design from these, wherever they are (`assemble`). Its earlier
//! requests must have ended by then. So the network ends the requests of a process that has failed
//! ([`Endpoint::serve`]) before it admits the next run of that process.
//!
//! **Logs elsewhere.** If each log decides which process owns it ([`Logs`](crate::Logs)), a node
//! can start on another machine. A process that opens the log of a site owns the site. The previous
//! process gets an error [from the log](Node::is_lost).
//!
//! **Left out.** Tables without backups wait for a node that does not restart. If logs are in
//! folders, two processes could open copies of one folder; only the wire prevents it, by admitting
//! one process of each name. A node's log is not compared with the positions that sites of other
//! processes have read.

use crate::catalog::Kind;
use crate::database::{Options, log_options};
use crate::embedded::{Checkpointer, Here, Runtime, start};
use crate::error::OpenDatabaseError;
use crate::folder::Folder;
use crate::folder::design_of;
use crate::open::CancelToken;
use crate::remote::{NO_GATEWAY, serve};
use crate::storage::{Beside, InFolder, InMemory, Storage};
use isomer_design::SiteId;
use isomer_site::wire::{self, Ask, BadMessage, ToGateway, read_message};
use isomer_site::{CheckpointError, OrderedSite};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Sites of a process, in memory or from a folder. The [router](crate::Database) is in another
/// process, or above them in this one.
pub struct Node {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) checkpointer: Arc<Checkpointer>,
    /// Its lock keeps other processes from the folder.
    pub(crate) storage: Arc<dyn Storage>,
    /// The options of the sites' logs.
    pub(crate) log: isomer_log::Options,
    /// Makes checkpoints, if there is a folder for them.
    worker: Option<JoinHandle<()>>,
    /// Checks whether this process still owns the logs, where another process can take them.
    watcher: Option<JoinHandle<()>>,
    pub(crate) notes: Vec<String>,
}

impl Node {
    /// Opens [sites](Options::sites), in memory or from a folder, which keeps its sites. If their
    /// [logs](Options::logs) are elsewhere, this process owns them from now on, each by itself. The
    /// [wire](Options::elsewhere) reaches all other sites of the database. Procedures must be the
    /// same everywhere. The strategy is not used.
    ///
    /// # Errors
    /// [`OpenDatabaseError`].
    pub fn open(mut options: Options) -> Result<Node, OpenDatabaseError> {
        options.check_store()?;
        let usual = log_options(options.durability, &options.checkpoints);
        let log = isomer_log::Options { accept_loss: options.accept_loss, ..usual };
        let storage: Arc<dyn Storage> = match (&options.folder, options.logs.take()) {
            (Some(path), Some(logs)) => {
                Arc::new(Beside::of_node(path, logs, options.store.take(), log)?)
            }
            (Some(path), None) => {
                let (folder, catalog) = Folder::open(path, &options.sites, Kind::Node)?;
                let has: Vec<SiteId> = catalog.sites().iter().collect();
                if has != options.sites {
                    let path = path.clone();
                    return Err(OpenDatabaseError::OtherSites { path, has, wanted: options.sites });
                }
                let faults = std::mem::take(&mut options.faults);
                Arc::new(InFolder { folder, options: log, faults })
            }
            (None, _) => Arc::new(InMemory),
        };
        let sites = options.sites.clone();
        let mut node = Node::before(storage, &mut options);
        node.recover(&sites, &options)?;
        if node.storage.is_new() {
            node.storage.write_catalog(&design_of(&sites)?)?;
        }
        node.start();
        Ok(node)
    }

    /// A process whose sites are not open yet.
    pub(crate) fn before(storage: Arc<dyn Storage>, options: &mut Options) -> Node {
        let procedures = std::mem::take(&mut options.procedures);
        let runtime = Arc::new(Runtime::new(procedures, options.wire.take()));
        runtime.memory.set(options.site_memory);
        let stale_for = storage.stale_for().as_nanos();
        runtime.stale_for.store(stale_for as u64, Ordering::Relaxed);
        Node {
            runtime,
            checkpointer: Arc::new(Checkpointer::new(options.checkpoints)),
            storage,
            log: log_options(options.durability, &options.checkpoints),
            worker: None,
            watcher: None,
            notes: Vec::new(),
        }
    }

    /// Recovers the sites.
    pub(crate) fn recover(
        &mut self,
        sites: &[SiteId],
        options: &Options,
    ) -> Result<(), OpenDatabaseError> {
        let log = isomer_log::Options { accept_loss: options.accept_loss, ..self.log };
        self.runtime.open(&*self.storage, log, sites, &options.told, &mut self.notes)?;
        // Others may have gone on, and the order may have what a crash has taken.
        let has_order = self.storage.has_order()?;
        for site in self.runtime.sites().iter().filter(|_| self.storage.can_be_taken()) {
            if has_order || OrderedSite(site).has_batches() {
                OrderedSite(site).wait_for_order();
            }
        }
        Ok(())
    }

    /// Lets other processes reach the sites, and starts the threads that work for all of them.
    pub(crate) fn start(&mut self) {
        self.runtime.open_wire();
        self.worker = self.storage.folder().map(|_| {
            let (checkpointer, runtime) = (self.checkpointer.clone(), self.runtime.clone());
            start("isomer-checkpoint", move || checkpointer.work(&runtime))
        });
        self.watcher = self.storage.can_be_taken().then(|| {
            let (runtime, storage) = (self.runtime.clone(), self.storage.clone());
            start("isomer-owners", move || runtime.watch_owners(|| storage.look_for_others()))
        });
    }

    /// Notes about the state in which its sites were found.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Why another process owns the sites now, if it has taken one of their logs.
    pub fn is_lost(&self) -> Option<String> {
        let (site, fenced) = self.runtime.fenced()?;
        Some(format!("another process has site {site} now: {fenced}"))
    }

    /// Makes a checkpoint of every site and cuts its log. Does nothing in memory.
    ///
    /// # Errors
    /// The first error; the previous checkpoints stay in force.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        self.checkpoint_while(&|| true).map(drop)
    }

    /// Like [`Node::checkpoint`], while `goes_on` returns true. Returns false if it was stopped.
    pub(crate) fn checkpoint_while(
        &self,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, CheckpointError> {
        match self.worker {
            Some(_) => self.checkpointer.make_all(&self.runtime, goes_on),
            None => Ok(true),
        }
    }

    /// Its sites, as other processes reach them.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.runtime.clone())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.checkpointer.stop();
        // A thread that panicked has reported it already.
        let _ = self.worker.take().map(JoinHandle::join);
        self.runtime.stop_all();
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
    }
}

/// The sites of a process, as other processes reach them. After the process has stopped them, they
/// answer that they are not running.
#[derive(Clone)]
pub struct Endpoint {
    here: Arc<Here>,
}

impl Endpoint {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Endpoint {
        Endpoint { here: Arc::new(Here { runtime }) }
    }

    /// Carries out a request on this thread and returns the answer. It may wait as long as a client
    /// may. `early` receives what must be sent before the answer. Requests wait for each other, so
    /// each needs a thread of its own.
    ///
    /// `over` ends a request whose answer no client can receive any more; the result is then
    /// `None`. A request that still waits has no effect from then on. One that was carried out
    /// keeps its effect.
    pub fn serve(
        &self,
        request: &[u8],
        over: &CancelToken,
        mut early: impl FnMut(Vec<u8>),
    ) -> Option<Vec<u8>> {
        let runtime = &self.here.runtime;
        let desk = runtime.desk.lock().clone();
        let served = serve(&*self.here, &runtime.pins, desk.as_deref(), request, &mut early);
        runtime.block_on_until(over, served).ok()
    }

    /// Has the gateway of this process run a statement ([`ToGateway`]), on this thread, and returns
    /// the answer. `over` and `early` as for [`Endpoint::serve`]. Expressions use the stack of the
    /// thread, which needs 8 MiB.
    pub fn run(
        &self,
        request: &[u8],
        over: &Arc<CancelToken>,
        early: impl Fn(Vec<u8>) + Send + Sync + 'static,
    ) -> Vec<u8> {
        let runs = self.here.runtime.runs.lock().clone();
        match (wire::read_ask(request), runs) {
            (Ok((_, Ask::ToGateway(ToGateway(request)))), Some(runs)) => {
                let sealed = Arc::new(move |bytes: Vec<u8>| early(wire::early(&bytes)));
                wire::answer::<ToGateway>(&runs.run(&request, over, sealed))
            }
            (Ok(_), _) => wire::not_understood(NO_GATEWAY),
            (Err(bad), _) => wire::not_understood(&bad.to_string()),
        }
    }

    /// Delivers a message from a site elsewhere to one that is here. It is lost if too many
    /// messages wait for that site already.
    ///
    /// # Errors
    /// [`BadMessage`]; the effect is that of a lost message.
    pub fn receive(&self, message: &[u8]) -> Result<(), BadMessage> {
        let (from, to, message) = read_message(message)?;
        self.here.runtime.deliver(from, to, message);
        Ok(())
    }

    /// The process of other sites can be reached, for the first time or again. Messages to it may
    /// have been lost, so the sites here [greet](isomer_site::Site::meet) those there. If the
    /// process has restarted (`is_new`), the process with the router checks the holdings of its
    /// sites.
    pub fn meet(&self, others: &[SiteId], is_new: bool) {
        self.here.runtime.meet(others, is_new);
    }

    /// The number of pins that its sites hold for snapshots of clients elsewhere, counted at each
    /// site.
    pub fn pins(&self) -> usize {
        self.here.runtime.pins.len()
    }
}
