//! Bringing the sites of a database back, several at a time, and telling whoever waits how far it is.
//!
//! ```text
//!   1  each site: open its log (finds where it ends) and its checkpoints     now it is known how much
//!   2  each site: read the checkpoint, replay the log                        there is to read
//! ```
//!
//! A site recovers by itself, so there are as many threads as processors.

use super::runtime::Runtime;
use crate::error::OpenDatabaseError;
use crate::folder::Folder;
use isomer_design::SiteId;
use isomer_log::{
    Checkpoints, DiskFaults, FileCheckpoints, FileLog, Log, MemoryLog, MemoryOptions,
};
use isomer_site::{RecoveryProgress, Site, SiteOptions, TimeSource};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A log in memory keeps this much for replicas that have to catch up.
const MEMORY_LOG_BYTES: u64 = 64 << 20;
/// How often it is told how far the recovery has come.
const TOLD: Duration = Duration::from_secs(1);

/// How far the recovery of a database has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovering {
    /// Bytes of checkpoints and logs that were read.
    pub read: u64,
    /// Bytes that are to be read altogether, about.
    pub total: u64,
}

/// Hears how far the recovery has come.
pub(crate) type Told = dyn Fn(Recovering) + Send + Sync;

/// Where the sites' logs are, and how they are opened.
pub(crate) struct Logs<'f> {
    /// `None`: in memory.
    pub(crate) folder: Option<&'f Folder>,
    pub(crate) options: isomer_log::Options,
    /// Disks that can be told to fail.
    pub(crate) faults: BTreeMap<SiteId, Arc<DiskFaults>>,
}

impl Runtime {
    /// Brings sites back, and starts them. `notes` gets what there is to say about how they were found.
    ///
    /// # Errors
    /// [`OpenDatabaseError`]; no site was started then.
    pub(crate) fn open(
        &self,
        logs: &Logs<'_>,
        ids: &[SiteId],
        told: &Told,
        notes: &mut Vec<String>,
    ) -> Result<(), OpenDatabaseError> {
        let sites = recover(self, logs, ids, told, notes)?;
        if let Err(error) = compare_logs(&sites) {
            if !logs.options.accept_loss {
                return Err(error);
            }
            notes.push(error.to_string());
        }
        sites.into_iter().for_each(|site| self.add(site, logs.options.durability));
        Ok(())
    }
}

fn recover(
    runtime: &Runtime,
    logs: &Logs<'_>,
    ids: &[SiteId],
    told: &Told,
    notes: &mut Vec<String>,
) -> Result<Vec<Site>, OpenDatabaseError> {
    let found = side_by_side(ids.to_vec(), || {}, |id| logs.find(runtime, id));
    let mut options = Vec::new();
    for found in found {
        let (site, more) = found?;
        notes.extend(more);
        options.push(site);
    }
    let progress: Vec<Arc<RecoveryProgress>> =
        options.iter().map(|site| site.progress.clone()).collect();
    let total = options.iter().map(SiteOptions::bytes_to_recover).sum();
    let tell = || {
        let read = progress.iter().map(|progress| progress.bytes()).sum();
        told(Recovering { read, total });
    };
    let recover = |options: SiteOptions| {
        let id = options.id;
        Site::open(options).map_err(|error| OpenDatabaseError::Recover { site: id, error })
    };
    side_by_side(options, tell, recover).into_iter().collect()
}

/// Compares the logs with each other: a site that follows partitions of another knows how far it has read the
/// other's log, which was durable so far.
fn compare_logs(sites: &[Site]) -> Result<(), OpenDatabaseError> {
    for witness in sites {
        for (site, proven) in witness.read_of_others() {
            let log = sites.iter().find(|other| other.id() == site).map(|other| other.log());
            if let Some(end) = log.map(|log| log.end()).filter(|end| *end < proven) {
                let witness = witness.id();
                return Err(OpenDatabaseError::Lost { site, end, proven, witness });
            }
        }
    }
    Ok(())
}

impl Logs<'_> {
    /// A site's log and checkpoints, which is all that it is opened with, and what there is to say
    /// of them.
    fn find(
        &self,
        runtime: &Runtime,
        id: SiteId,
    ) -> Result<(SiteOptions, Vec<String>), OpenDatabaseError> {
        let time: Arc<dyn TimeSource> = runtime.clock.clone();
        let (network, procedures) = (runtime.mailboxes.clone(), runtime.procedures.clone());
        let mut notes = Vec::new();
        let (log, checkpoints): (Arc<dyn Log>, Option<Arc<dyn Checkpoints>>) = match self.folder {
            None => {
                let keep_bytes = Some(MEMORY_LOG_BYTES);
                let options = MemoryOptions { keep_bytes, ..MemoryOptions::default() };
                (Arc::new(MemoryLog::new(options)), None)
            }
            Some(folder) => {
                let path = folder.site(id)?;
                let log = self.log(folder, id, &path.join("log"), &mut notes)?;
                let checkpoints = FileCheckpoints::open(path).map_err(|error| {
                    OpenDatabaseError::Recover { site: id, error: error.into() }
                })?;
                (log, Some(Arc::new(checkpoints)))
            }
        };
        let usual = SiteOptions::new(id, log, network, time);
        let memory = runtime.memory.clone();
        Ok((SiteOptions { checkpoints, procedures, memory, ..usual }, notes))
    }

    fn log(
        &self,
        folder: &Folder,
        site: SiteId,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Arc<dyn Log>, OpenDatabaseError> {
        let options = isomer_log::Options { must_exist: folder.has_log(site), ..self.options };
        let opened = match self.faults.get(&site) {
            Some(faults) => FileLog::open_on(faults, path, options),
            None => FileLog::open(path, options),
        };
        let (log, report) = opened.map_err(|error| OpenDatabaseError::Log { site, error })?;
        if folder.is_new() && report.end > 0 {
            return Err(folder.without_catalog());
        }
        notes.extend(report.torn.map(|torn| format!("site {site}: {torn}")));
        notes.extend(report.lost.map(|lost| format!("site {site}: {lost}; that was accepted")));
        Ok(Arc::new(log))
    }
}

/// Does something with each of some things, on as many threads as there are processors. Calls `tell`
/// now and then meanwhile.
#[allow(clippy::disallowed_methods, reason = "the edge: threads for as long as the call takes")]
fn side_by_side<T: Send, R: Send>(
    things: Vec<T>,
    tell: impl Fn(),
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let left = AtomicUsize::new(things.len());
    let results: Vec<Mutex<Option<R>>> = things.iter().map(|_| Mutex::new(None)).collect();
    let things: Vec<Mutex<Option<T>>> = things.into_iter().map(|t| Mutex::new(Some(t))).collect();
    let next = AtomicUsize::new(0);
    let waits = std::thread::current();
    std::thread::scope(|scope| {
        let go = || {
            while let Some(at) = Some(next.fetch_add(1, Ordering::SeqCst))
                && let Some(thing) = things.get(at)
            {
                let thing = thing.lock().take().expect("each is taken once");
                *results[at].lock() = Some(work(thing));
                left.fetch_sub(1, Ordering::SeqCst);
            }
            waits.unpark();
        };
        let workers: Vec<_> = (0..processors.min(things.len())).map(|_| scope.spawn(go)).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::park_timeout(TOLD);
            if left.load(Ordering::SeqCst) > 0 {
                tell();
            }
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("each was worked on")).collect()
}
