//! A process that hosts sites, as other processes reach them.
//!
//! ```text
//!   process 1: Database                 process 2: Node
//!     router, open transactions            (none: it does what it is asked)
//!     sites 1, 2 ── Endpoint ◀── wire ──▶ Endpoint ── sites 3, 4
//! ```
//!
//! One process has the [`Database`](crate::Database), and with it the design, its changes and the row locks. The
//! others are nodes: they run transactions, take steps and take part in transactions over several sites, and their
//! sites talk with all others by themselves. Whoever has a network calls the [`Endpoint`] with what arrives.
//!
//! **A node comes back.** Its sites recover from its folder by themselves, as those of a database do, each as a new run
//! with a greater number. When it meets another process ([`Endpoint::meet`]), the sites on both sides greet each other
//! anew: replicas ask for what they lack, prepared transactions ask their coordinators. The process with the router
//! looks through what the sites that come back hold: what the design has given to others meanwhile, and tables that
//! were dropped, they let go ([`crate::Conductor::readmit`]).
//!
//! **The process with the router comes back** while nodes stay up: it asks all sites what they hold, and assembles the
//! design from that, wherever they are (`assemble`). What it had asked and not heard must have ended by then: who
//! carries requests ends those of a process that is gone ([`Endpoint::serve`]) before it lets its next run in.
//!
//! **Logs elsewhere.** Where each log says itself whose it is ([`Logs`](crate::Logs)), a node can start on another machine:
//! whoever opens the log of a site has the site, and the process that had it is [told so](Node::is_lost) by the log.
//!
//! **Left out.** What has no backups waits for a node that does not come back. Where logs are in folders, nothing stops two
//! processes from opening copies of one folder but that the wire lets no two of one name in. Whether a node's log has lost
//! what sites of other processes know of it is not compared.

use crate::catalog::Kind;
use crate::database::{Options, log_options};
use crate::embedded::{Checkpointer, Here, Runtime, start};
use crate::error::OpenDatabaseError;
use crate::folder::Folder;
use crate::folder::design_of;
use crate::open::CancelToken;
use crate::remote::serve;
use crate::storage::{Beside, InFolder, InMemory, Storage};
use isomer_design::SiteId;
use isomer_site::CheckpointError;
use isomer_site::wire::{BadMessage, read_message};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Sites of a database whose [router](crate::Database) is in another process.
pub struct Node {
    runtime: Arc<Runtime>,
    checkpointer: Arc<Checkpointer>,
    /// It makes checkpoints, where there is a folder for them.
    worker: Option<JoinHandle<()>>,
    /// It looks whether its logs are still its own, where others can take them.
    watcher: Option<JoinHandle<()>>,
    notes: Vec<String>,
    /// It keeps other processes from its folder.
    _storage: Box<dyn Storage>,
}

impl Node {
    /// Opens [sites](Options::sites), in memory or from a folder, which keeps the sites that it has; where their
    /// [logs](Options::logs) are elsewhere, they are this process's from now on, each for itself. The
    /// [wire](Options::elsewhere) reaches all others of the database; procedures are the same everywhere. Of a
    /// strategy nothing is asked.
    ///
    /// # Errors
    /// [`OpenDatabaseError`].
    pub fn open(mut options: Options) -> Result<Node, OpenDatabaseError> {
        let can_be_taken = options.logs.is_some();
        options.check_store()?;
        let usual = log_options(options.durability, &options.checkpoints);
        let log = isomer_log::Options { accept_loss: options.accept_loss, ..usual };
        let storage: Box<dyn Storage> = match (&options.folder, options.logs.take()) {
            (Some(path), Some(logs)) => {
                Box::new(Beside::of_node(path, logs, options.store.take(), log)?)
            }
            (Some(path), None) => {
                let (folder, catalog) = Folder::open(path, &options.sites, Kind::Node)?;
                let has: Vec<SiteId> = catalog.sites().iter().collect();
                if has != options.sites {
                    let path = path.clone();
                    return Err(OpenDatabaseError::OtherSites { path, has, wanted: options.sites });
                }
                let faults = std::mem::take(&mut options.faults);
                Box::new(InFolder { folder, options: log, faults })
            }
            (None, _) => Box::new(InMemory),
        };
        let procedures = std::mem::take(&mut options.procedures);
        let runtime = Arc::new(Runtime::new(procedures, options.wire.take()));
        runtime.memory.set(options.site_memory);
        let mut notes = Vec::new();
        runtime.open(&*storage, log, &options.sites, &options.told, &mut notes)?;
        if storage.is_new() {
            storage.write_catalog(&design_of(&options.sites)?)?;
        }
        runtime.open_wire();
        let checkpointer = Arc::new(Checkpointer::new(options.checkpoints));
        let worker = storage.folder().map(|_| {
            let (checkpointer, runtime) = (checkpointer.clone(), runtime.clone());
            start("isomer-checkpoint", move || checkpointer.work(&runtime))
        });
        let watcher = can_be_taken.then(|| {
            let runtime = runtime.clone();
            start("isomer-owners", move || runtime.watch_owners(|| {}))
        });
        Ok(Node { runtime, checkpointer, worker, watcher, notes, _storage: storage })
    }

    /// What there was to say about the state in which its sites were found.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Why its sites are another process's now, if that has taken a log of theirs.
    pub fn is_lost(&self) -> Option<String> {
        let (site, fenced) = self.runtime.fenced()?;
        Some(format!("another process has site {site} now: {fenced}"))
    }

    /// Makes a checkpoint of every site and cuts its log; nothing is done in memory.
    ///
    /// # Errors
    /// The first error; the checkpoints before stay in force.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        match self.worker {
            Some(_) => self.checkpointer.make_all(&self.runtime, &|| true).map(drop),
            None => Ok(()),
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
        // A thread that panicked has said so already.
        let _ = self.worker.take().map(JoinHandle::join);
        self.runtime.stop_all();
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
    }
}

/// The sites of a process, as other processes reach them. Once it stops, they are not running.
#[derive(Clone)]
pub struct Endpoint {
    here: Arc<Here>,
}

impl Endpoint {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Endpoint {
        Endpoint { here: Arc::new(Here { runtime }) }
    }

    /// Carries out a request on this thread, which may wait for long, as a client's may; and gives the answer.
    /// `early` hears what is to be sent before it. Requests wait for each other, so each needs a thread of its own.
    ///
    /// `over` ends a request whose answer nobody can hear any more; then there is none. What waits has no effect from
    /// then on, and what has been carried out was.
    pub fn serve(
        &self,
        request: &[u8],
        over: &CancelToken,
        mut early: impl FnMut(Vec<u8>),
    ) -> Option<Vec<u8>> {
        let runtime = &self.here.runtime;
        let served = serve(&*self.here, &runtime.pins, request, &mut early);
        runtime.block_on_until(over, served).ok()
    }

    /// Takes a message from a site elsewhere to one that is here. Where too many wait for a site already, it is lost.
    ///
    /// # Errors
    /// [`BadMessage`]; it is as if it were lost.
    pub fn receive(&self, message: &[u8]) -> Result<(), BadMessage> {
        let (from, to, message) = read_message(message)?;
        self.here.runtime.deliver(from, to, message);
        Ok(())
    }

    /// The process of other sites can be reached, for the first time or again: what was sent there may be lost, so
    /// the sites here [greet](isomer_site::Site::meet) those there. If that is a new run of it (`is_new`), the process
    /// with the router looks through what they hold.
    pub fn meet(&self, others: &[SiteId], is_new: bool) {
        self.here.runtime.meet(others, is_new);
    }

    /// How many snapshots of clients elsewhere its sites keep history for, each counted at each site.
    pub fn pins(&self) -> usize {
        self.here.runtime.pins.len()
    }
}
