//! The state of the demo that is shown while it runs.

use super::changes::ChangeLog;
use super::series::Series;
use isomer_cluster::Database;

/// References to the state, for one update of the screen.
pub(super) struct View<'a> {
    pub(super) db: &'a Database,
    pub(super) series: &'a Series,
    pub(super) log: &'a ChangeLog,
    pub(super) seconds: u64,
}
