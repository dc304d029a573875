//! Recovery of a database's sites, several at a time, with progress reports.
//!
//! ```text
//!   1  each site: open its log (finds where it ends) and its checkpoints    total size is known
//!   2  each site: read the checkpoint, replay the log                       progress is reported
//! ```
//!
//! A site recovers independently, so there are up to as many threads as processors.

use super::runtime::Runtime;
use crate::error::OpenDatabaseError;
use crate::storage::{Storage, Stored};
use isomer_design::SiteId;
use isomer_site::{COPY_BYTES_MAX, RecoveryProgress, Site, SiteOptions, TimeSource};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The interval of progress reports.
const TOLD: Duration = Duration::from_secs(1);

/// The progress of a database's recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovering {
    /// Bytes of checkpoints and logs that were read.
    pub read: u64,
    /// The approximate number of bytes to read in total.
    pub total: u64,
}

/// Receives progress reports.
pub(crate) type Told = dyn Fn(Recovering) + Send + Sync;

impl Runtime {
    /// Recovers sites, and starts them. Only the durability and `accept_loss` of the log's
    /// `options` matter here. Adds notes about the state in which the sites were found.
    ///
    /// # Errors
    /// [`OpenDatabaseError`]; no site was started then.
    pub(crate) fn open(
        &self,
        storage: &dyn Storage,
        options: isomer_log::Options,
        ids: &[SiteId],
        told: &Told,
        notes: &mut Vec<String>,
    ) -> Result<(), OpenDatabaseError> {
        let sites = recover(self, storage, ids, told, notes)?;
        if let Err(error) = compare_logs(&sites) {
            if !options.accept_loss {
                return Err(error);
            }
            notes.push(error.to_string());
        }
        for site in &sites {
            storage.keep_run(site.id(), site.incarnation())?;
        }
        sites.into_iter().for_each(|site| self.add(site, options.durability));
        Ok(())
    }
}

fn recover(
    runtime: &Runtime,
    storage: &dyn Storage,
    ids: &[SiteId],
    told: &Told,
    notes: &mut Vec<String>,
) -> Result<Vec<Site>, OpenDatabaseError> {
    let found = side_by_side(ids.to_vec(), || {}, |id| runtime.find(storage, id));
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

/// Compares the logs with each other. A site that follows partitions of another knows up to which
/// position it has read the other's log, which was durable up to there.
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

impl Runtime {
    /// The options with which a site is opened, and notes about its state.
    fn find(
        &self,
        storage: &dyn Storage,
        id: SiteId,
    ) -> Result<(SiteOptions, Vec<String>), OpenDatabaseError> {
        let Stored { log, checkpoints, notes } = storage.site(id)?;
        let time: Arc<dyn TimeSource> = self.clock.clone();
        let (network, procedures) = (self.mailboxes.clone(), self.procedures.clone());
        let usual = SiteOptions::new(id, log, network, time);
        let (memory, incarnation) = (self.memory.clone(), storage.last_run(id)? + 1);
        let (domains, admission) = (self.domains(), self.admission.clone());
        let copy_bytes_max = if self.has_wire() { COPY_BYTES_MAX } else { usize::MAX };
        let usual = SiteOptions { domains, admission, copy_bytes_max, ..usual };
        Ok((SiteOptions { checkpoints, procedures, memory, incarnation, ..usual }, notes))
    }
}

/// Calls `work` for each item, on up to as many threads as there are processors. Calls `tell` once
/// a second in the meantime.
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
