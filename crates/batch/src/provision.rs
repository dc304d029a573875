//! Provisions: adding and removing sites, and moving ranges to another home (Hermes, section 3.3).
//!
//! A provision has a place in the order like a request, so all planners apply it at the same point:
//!
//! ```text
//!   add s4                   transactions are routed to s4 from this batch on; hot records follow
//!   move t1[0..1000) to s4   moves one chunk of cold records in one step; one chunk per batch
//!   remove s1                needs an s1 that is home to no range; fused records move home
//! ```
//!
//! *Hot* records need no provision: the router prefers a site without load, and fusion moves them
//! there. *Cold* records move in chunks. The step of a chunk locks its range at the old and the new
//! home, so chunks should be small; the appender decides how fast they follow each other. Records
//! fused elsewhere stay there unlocked, so a chunk conflicts with few transactions.
//!
//! If an append may have failed, the provision can be appended again. The second copy has no effect
//! or is refused.

use crate::rows::Rows;
use isomer_design::{KeyRange, SiteId, TableId};
use std::fmt;
use thiserror::Error;

/// A change of the sites or of the homes of ranges.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Provision {
    /// Adds a site, to which transactions are routed from then on.
    AddSite(SiteId),
    /// Removes a site, to which no more transactions are routed.
    RemoveSite(SiteId),
    /// Moves a range to another home.
    MoveRange {
        /// The table.
        table: TableId,
        /// The keys.
        range: KeyRange,
        /// The new home.
        to: SiteId,
    },
}

/// Why a provision was refused. A refused provision has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The site exists.
    #[error("{0} is there already")]
    IsThere(SiteId),
    /// The site does not exist.
    #[error("{0} is not there: add it first")]
    IsNotThere(SiteId),
    /// The number exceeds the largest allowed site id.
    #[error("no site can be called {0}")]
    NoSite(SiteId),
    /// The site is the home of a range.
    #[error("{site} is home to {table}{range}: move that elsewhere first")]
    IsHome {
        /// The site.
        site: SiteId,
        /// The table.
        table: TableId,
        /// The first such range of the table.
        range: KeyRange,
    },
    /// It is the only site.
    #[error("{0} is the only site")]
    IsLast(SiteId),
    /// There is no such table.
    #[error("table {0} does not exist")]
    NoTable(TableId),
    /// The range is empty.
    #[error("the range {0} has no keys")]
    NoKeys(KeyRange),
}

/// The rest of a range that moves to another home in chunks. A client that saves this value can
/// resume the migration from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The table.
    pub table: TableId,
    /// The keys still to be moved; `None` if every chunk has been appended.
    pub rest: Option<KeyRange>,
    /// The new home.
    pub to: SiteId,
}

impl Migration {
    /// Returns the next chunk: the keys before the row of `rows` (the rows of the old home) with
    /// index `rows_max`, so at most `rows_max` rows. The boundary need not be exact, because the
    /// order records the chunk itself.
    pub fn next_chunk(&mut self, rows: &dyn Rows, rows_max: usize) -> Option<Provision> {
        let rest = self.rest.take()?;
        let cut = rows.scan(self.table, &rest).into_iter().nth(rows_max.max(1));
        let range = match cut {
            Some((key, _)) => {
                self.rest = Some(KeyRange::new(key.clone(), rest.end));
                KeyRange::new(rest.start, Some(key))
            }
            None => rest,
        };
        Some(Provision::MoveRange { table: self.table, range, to: self.to })
    }
}

impl fmt::Display for Provision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provision::AddSite(site) => write!(f, "add {site}"),
            Provision::RemoveSite(site) => write!(f, "remove {site}"),
            Provision::MoveRange { table, range, to } => write!(f, "move {table}{range} to {to}"),
        }
    }
}
