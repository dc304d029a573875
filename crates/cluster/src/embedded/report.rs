//! What the sites of this process look like from outside.

use super::checkpointer::Checkpointer;
use super::runtime::Runtime;
use isomer_design::SiteId;
use isomer_log::{Counters, LogError};
use isomer_site::CheckpointReport;

/// What a site looks like from outside.
#[derive(Clone, Debug)]
pub struct SiteReport {
    /// The site.
    pub site: SiteId,
    /// Bytes of rows and index.
    pub memory_bytes: usize,
    /// How many there may be.
    pub memory_max: Option<usize>,
    /// Of the time of all processors in the last second, its share, 0 to 1; `None` in the first one.
    pub busy: Option<f64>,
    /// What its log has done.
    pub log: Counters,
    /// What there is to say of its checkpoints.
    pub checkpoint: CheckpointReport,
    /// Why the last checkpoint was not made, if it was not.
    pub checkpoint_error: Option<String>,
    /// Why it is passed by: its log has failed.
    pub failure: Option<LogError>,
}

impl Runtime {
    /// The sites as they are.
    pub(crate) fn report(&self, checkpointer: &Checkpointer) -> Vec<SiteReport> {
        let report = |host: &super::host::Host| SiteReport {
            site: host.site.id(),
            memory_bytes: host.site.memory_bytes(),
            memory_max: host.site.memory_max(),
            busy: host.busy.share(),
            log: host.site.log().counters(),
            checkpoint: host.site.checkpoints(),
            checkpoint_error: checkpointer.error(host.site.id()),
            failure: host.site.failure(),
        };
        self.hosts().values().map(|host| report(host)).collect()
    }
}
