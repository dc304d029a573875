//! What is there to be shown while the demo runs.

use super::changes::ChangeLog;
use super::series::Series;
use isomer_cluster::Database;

/// What the loop shows from time to time.
pub(super) struct View<'a> {
    pub(super) db: &'a Database,
    pub(super) series: &'a Series,
    pub(super) log: &'a ChangeLog,
    pub(super) seconds: u64,
}
