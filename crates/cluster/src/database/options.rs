//! The options of a database, or of a node.

use crate::embedded::{Checkpointing, Recovering, Told};
use crate::error::OpenDatabaseError;
use crate::remote::Wire;
use crate::storage::{CheckpointStore, Logs};
use isomer_design::SiteId;
use isomer_log::{DiskFaults, Durability};
use isomer_site::{Abort, Procedures, Txn};
use isomer_strategy::{OnDemand, Strategy};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How to open a database.
pub struct Options {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) logs: Option<Arc<dyn Logs>>,
    pub(crate) store: Option<Arc<dyn CheckpointStore>>,
    pub(crate) sites: Vec<SiteId>,
    pub(crate) durability: Durability,
    pub(super) strategy: Box<dyn Strategy>,
    pub(crate) accept_loss: bool,
    pub(crate) faults: BTreeMap<SiteId, Arc<DiskFaults>>,
    pub(crate) procedures: Procedures,
    pub(crate) checkpoints: Checkpointing,
    pub(crate) site_memory: Option<usize>,
    pub(crate) told: Box<Told>,
    pub(crate) wire: Option<Arc<dyn Wire>>,
}

impl Options {
    /// A database of `sites` sites in memory, which ends with the process.
    pub fn in_memory(sites: u16) -> Options {
        Options {
            folder: None,
            logs: None,
            store: None,
            sites: (1..=sites).map(SiteId).collect(),
            durability: Durability::None,
            strategy: Box::new(OnDemand::default()),
            procedures: Procedures::default(),
            accept_loss: false,
            faults: BTreeMap::new(),
            checkpoints: Checkpointing::default(),
            site_memory: None,
            told: Box::new(|_| {}),
            wire: None,
        }
    }

    /// A database in a folder. A missing or empty folder becomes a new database of `sites` sites.
    /// An existing database keeps its sites. Commits wait for the disk.
    pub fn in_folder(folder: impl Into<PathBuf>, sites: u16) -> Options {
        let durability = Durability::Commit;
        Options { folder: Some(folder.into()), durability, ..Options::in_memory(sites) }
    }

    /// Keeps the redo logs and the catalog of a database elsewhere than in its folder; or the redo
    /// logs of a [node](crate::Node)'s sites. The last process that has opened them owns them. The
    /// previous owner gets an error from its logs ([`Fenced`](isomer_log::LogError::Fenced)).
    pub fn logs(mut self, logs: Arc<dyn Logs>) -> Options {
        self.logs = Some(logs);
        self
    }

    /// Keeps checkpoints in a store that all machines reach, so that a site can start anywhere.
    /// Only with [logs](Options::logs) elsewhere: a log in a folder needs its checkpoints beside
    /// it.
    pub fn checkpoints_in(mut self, store: Arc<dyn CheckpointStore>) -> Options {
        self.store = Some(store);
        self
    }

    /// The numbers of the sites: all of a new database, wherever they are; a [node](crate::Node)'s
    /// own.
    pub fn sites(mut self, sites: &[SiteId]) -> Options {
        self.sites = sites.to_vec();
        self.sites.sort();
        self
    }

    /// The durability that a commit waits for. In memory there is none, whatever is set.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Opens the database even if a log has lost durable commits, and adds this to its
    /// [notes](crate::Database::notes). Otherwise that is an error, and nothing is changed.
    pub fn accept_loss(mut self, accept_loss: bool) -> Options {
        self.accept_loss = accept_loss;
        self
    }

    /// Puts the log of a site on a disk with injected faults, for tests.
    pub fn disk_faults(mut self, site: SiteId, faults: Arc<DiskFaults>) -> Options {
        self.faults.insert(site, faults);
        self
    }

    /// Adds a procedure that can be [called](crate::Database::call) by name. Like any transaction,
    /// it may run again if its first run could not commit.
    pub fn procedure(
        mut self,
        name: &str,
        procedure: impl Fn(&mut Txn<'_>, &[u8]) -> Result<Vec<u8>, Abort> + Send + Sync + 'static,
    ) -> Options {
        self.procedures.add(name, procedure);
        self
    }

    /// Replaces all procedures that can be called by name. If sites are in several processes, all
    /// need the same ones.
    pub fn procedures(mut self, procedures: Procedures) -> Options {
        self.procedures = procedures;
        self
    }

    /// Reaches the sites of other processes ([nodes](crate::Node)) over this wire.
    pub fn elsewhere(mut self, wire: Arc<dyn Wire>) -> Options {
        self.wire = Some(wire);
        self
    }

    /// When checkpoints are made, and how fast. In memory there are none.
    pub fn checkpoints(mut self, checkpoints: Checkpointing) -> Options {
        self.checkpoints = checkpoints;
        self
    }

    /// The memory limit for rows and index of each site, in bytes; none if not set. A full site
    /// refuses requests that would make it grow: see [`MemoryLimit`](isomer_site::MemoryLimit).
    pub fn site_memory(mut self, bytes: usize) -> Options {
        self.site_memory = Some(bytes);
        self
    }

    /// Calls `told` once a second with the progress of the recovery, while the database is being
    /// opened.
    pub fn while_recovering(
        mut self,
        told: impl Fn(Recovering) + Send + Sync + 'static,
    ) -> Options {
        self.told = Box::new(told);
        self
    }

    /// Refuses a store for checkpoints if the logs are in a folder or in memory.
    pub(crate) fn check_store(&self) -> Result<(), OpenDatabaseError> {
        match &self.store {
            Some(store) if self.logs.is_none() || self.folder.is_none() => {
                Err(OpenDatabaseError::OnlyCheckpointsElsewhere { place: store.place() })
            }
            _ => Ok(()),
        }
    }

    /// The strategy, which decides where transactions run and which changes are made. [`OnDemand`]
    /// if not set.
    pub fn strategy(mut self, strategy: impl Strategy + 'static) -> Options {
        self.strategy = Box::new(strategy);
        self
    }
}

/// A log is cut by whole segments, so a segment is small compared with the log that makes a
/// checkpoint due.
pub(crate) fn log_options(
    durability: Durability,
    checkpoints: &Checkpointing,
) -> isomer_log::Options {
    let usual = isomer_log::Options::default();
    let segment_bytes = (checkpoints.log_bytes / 4).clamp(64 << 10, usual.segment_bytes);
    isomer_log::Options { segment_bytes, durability, ..usual }
}
