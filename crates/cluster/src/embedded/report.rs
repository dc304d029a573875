//! The state of the sites of this process, for operators.

use super::checkpointer::Checkpointer;
use super::runtime::Runtime;
use isomer_design::SiteId;
use isomer_log::{Counters, LogError};
use isomer_site::{CheckpointReport, CopyReport, DurationsShown};
use std::sync::Arc;

/// The state of a site, for operators.
#[derive(Clone, Debug)]
pub struct SiteReport {
    /// The site.
    pub site: SiteId,
    /// Bytes of rows and index.
    pub memory_bytes: usize,
    /// The memory limit in bytes, if there is one.
    pub memory_max: Option<usize>,
    /// Its share of the time of all processors in the last second, 0 to 1. `None` in the first
    /// second.
    pub busy: Option<f64>,
    /// The same of its process, with SQL and routing.
    pub process_busy: Option<f64>,
    /// The counters of its log.
    pub log: Counters,
    /// The state of its checkpoints.
    pub checkpoint: CheckpointReport,
    /// Why the last checkpoint failed, if it did.
    pub checkpoint_error: Option<String>,
    /// The delays from commits at masters until replicas here have applied them.
    pub apply_delays: DurationsShown,
    /// The time since which a replica here may lack commits, in nanoseconds. `None` if no replica
    /// is here.
    pub lag_ns: Option<u64>,
    /// The failure of its log, if the site is unavailable because of that.
    pub failure: Option<LogError>,
}

impl Runtime {
    /// The copies at each site. Reads all rows.
    pub(crate) fn inventory(&self) -> Vec<(SiteId, CopyReport)> {
        let of = |host: &Arc<super::host::Host>| {
            let site = host.site.id();
            isomer_site::inventory(&host.site).into_iter().map(move |copy| (site, copy))
        };
        self.hosts().values().flat_map(of).collect()
    }

    /// The state of the sites.
    pub(crate) fn report(&self, checkpointer: &Checkpointer) -> Vec<SiteReport> {
        let report = |host: &super::host::Host| SiteReport {
            site: host.site.id(),
            memory_bytes: host.site.memory_bytes(),
            memory_max: host.site.memory_max(),
            busy: host.busy.share(),
            process_busy: self.processors.share(),
            log: host.site.log().counters(),
            checkpoint: host.site.checkpoints(),
            checkpoint_error: checkpointer.error(host.site.id()),
            apply_delays: isomer_site::apply_delays(&host.site),
            lag_ns: isomer_site::lag_ns(&host.site),
            failure: host.site.failure(),
        };
        self.hosts().values().map(|host| report(host)).collect()
    }
}
