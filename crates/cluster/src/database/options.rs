//! How a database is opened, or a node.

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
    /// A database of `sites` sites that lives in memory, and goes with the process.
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

    /// A database in a folder. A missing or empty folder becomes a new database of `sites` sites; an
    /// existing database keeps the sites it has. Commits wait for the disk.
    pub fn in_folder(folder: impl Into<PathBuf>, sites: u16) -> Options {
        let durability = Durability::Commit;
        Options { folder: Some(folder.into()), durability, ..Options::in_memory(sites) }
    }

    /// The redo logs, and the catalog, of a database in a folder are not there but elsewhere; or the redo logs of a
    /// [node](crate::Node)'s sites. Whoever opens them last has them: the process that had them before is told so by its
    /// logs ([`Fenced`](isomer_log::LogError::Fenced)).
    pub fn logs(mut self, logs: Arc<dyn Logs>) -> Options {
        self.logs = Some(logs);
        self
    }

    /// Checkpoints are not in the folder either, but in a store that all machines reach: then a site starts anywhere. Only
    /// with [logs](Options::logs) that are elsewhere: one in a folder needs its checkpoints beside it.
    pub fn checkpoints_in(mut self, store: Arc<dyn CheckpointStore>) -> Options {
        self.store = Some(store);
        self
    }

    /// The sites, by their numbers: of a new database all, wherever they are; of a [node](crate::Node) its own.
    pub fn sites(mut self, sites: &[SiteId]) -> Options {
        self.sites = sites.to_vec();
        self.sites.sort();
        self
    }

    /// What a commit waits for. (In memory: nothing, whatever is set.)
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// If a log has lost commits that were durable, the database is opened without them, and
    /// [says so](crate::Database::notes). Otherwise that is an error, and nothing is changed.
    pub fn accept_loss(mut self, accept_loss: bool) -> Options {
        self.accept_loss = accept_loss;
        self
    }

    /// The log of a site is on a disk that can be told to fail: for tests.
    pub fn disk_faults(mut self, site: SiteId, faults: Arc<DiskFaults>) -> Options {
        self.faults.insert(site, faults);
        self
    }

    /// A procedure that can be [called](crate::Database::call) by name. As any transaction, it may be run again if
    /// a first run could not commit.
    pub fn procedure(
        mut self,
        name: &str,
        procedure: impl Fn(&mut Txn<'_>, &[u8]) -> Result<Vec<u8>, Abort> + Send + Sync + 'static,
    ) -> Options {
        self.procedures.add(name, procedure);
        self
    }

    /// The procedures that can be called by name, in place of those that were added before: where sites are in
    /// several processes, all have the same.
    pub fn procedures(mut self, procedures: Procedures) -> Options {
        self.procedures = procedures;
        self
    }

    /// The sites that the wire reaches are in other processes, at [nodes](crate::Node).
    pub fn elsewhere(mut self, wire: Arc<dyn Wire>) -> Options {
        self.wire = Some(wire);
        self
    }

    /// When checkpoints are made, and how fast. (In memory there are none.)
    pub fn checkpoints(mut self, checkpoints: Checkpointing) -> Options {
        self.checkpoints = checkpoints;
        self
    }

    /// How many bytes the rows and the index of each site may take; as many as there are if not set. A site that
    /// is full refuses what would make it grow: see [`MemoryLimit`](isomer_site::MemoryLimit).
    pub fn site_memory(mut self, bytes: usize) -> Options {
        self.site_memory = Some(bytes);
        self
    }

    /// Has `told` hear once a second how far the recovery is, while the database is being opened.
    pub fn while_recovering(
        mut self,
        told: impl Fn(Recovering) + Send + Sync + 'static,
    ) -> Options {
        self.told = Box::new(told);
        self
    }

    /// Refuses a store for checkpoints whose logs are in a folder, or nowhere.
    pub(crate) fn check_store(&self) -> Result<(), OpenDatabaseError> {
        match &self.store {
            Some(store) if self.logs.is_none() || self.folder.is_none() => {
                Err(OpenDatabaseError::OnlyCheckpointsElsewhere { place: store.place() })
            }
            _ => Ok(()),
        }
    }

    /// What decides where transactions run and what is changed for them. [`OnDemand`] if not set.
    pub fn strategy(mut self, strategy: impl Strategy + 'static) -> Options {
        self.strategy = Box::new(strategy);
        self
    }
}

/// A log is cut by whole segments, so these are small beside what makes a checkpoint due.
pub(crate) fn log_options(
    durability: Durability,
    checkpoints: &Checkpointing,
) -> isomer_log::Options {
    let usual = isomer_log::Options::default();
    let segment_bytes = (checkpoints.log_bytes / 4).clamp(64 << 10, usual.segment_bytes);
    isomer_log::Options { segment_bytes, durability, ..usual }
}
