//! The refusal of rows by a site without room for them.

use isomer_design::SiteId;
use serde::{Deserialize, Serialize};

/// The memory limit of a site is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error(
    "site {site} is full: its rows and index take {} kB of {} kB, and this would add {} kB; \
     delete rows, drop tables or replicas there, let another site master some of its partitions, or raise the limit",
    used.div_ceil(1024), limit / 1024, more.div_ceil(1024)
)]
pub struct Full {
    /// The site.
    pub site: SiteId,
    /// The limit, in bytes of rows and index.
    pub limit: usize,
    /// The bytes in use.
    pub used: usize,
    /// The bytes that would be added.
    pub more: usize,
}
