//! Sites that come and go, and ranges that get another home (Hermes, section 3.3).
//!
//! A provision has a place in the order like a request, so all planners change at the same point:
//!
//! ```text
//!   add s4                       from this batch on, transactions are routed there too: hot records flow to it
//!   move t1[0..1000) to s4       a chunk of cold records, in one step; then the next chunk, in another batch
//!   remove s1                    nothing is at home there any more; what is fused there goes home
//! ```
//!
//! *Hot* records need no provision: the router sees a site without load, and fusion brings them. *Cold* ones go
//! chunk by chunk. A chunk's step locks its range where it is and where it goes, so chunks are small, and how
//! fast one follows the other is up to who appends them. What is fused elsewhere stays there, and is not
//! locked: the chunk meets few transactions.
//!
//! A provision may be appended twice, if nobody knows whether it was: the second one has nothing to do, or is
//! refused.

use crate::rows::Rows;
use isomer_design::{KeyRange, SiteId, TableId};
use std::fmt;
use thiserror::Error;

/// A change of sites or homes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Provision {
    /// Routes transactions to one more site.
    AddSite(SiteId),
    /// Routes no more transactions to a site.
    RemoveSite(SiteId),
    /// Gives a range another home.
    MoveRange {
        /// The table.
        table: TableId,
        /// The keys.
        range: KeyRange,
        /// The new home.
        to: SiteId,
    },
}

/// Why a provision changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The site is there.
    #[error("{0} is there already")]
    IsThere(SiteId),
    /// The site is not there.
    #[error("{0} is not there: add it first")]
    IsNotThere(SiteId),
    /// No site may have this number.
    #[error("no site can be called {0}")]
    NoSite(SiteId),
    /// Rows are at home there.
    #[error("{site} is home to {table}{range}: move that elsewhere first")]
    IsHome {
        /// The site.
        site: SiteId,
        /// The table.
        table: TableId,
        /// The first such range.
        range: KeyRange,
    },
    /// It is the only site.
    #[error("{0} is the only site")]
    IsLast(SiteId),
    /// There is no such table.
    #[error("table {0} does not exist")]
    NoTable(TableId),
    /// The range has no keys.
    #[error("the range {0} has no keys")]
    NoKeys(KeyRange),
}

/// A range on its way to another home, chunk by chunk. What is left is a value: whoever keeps it goes on
/// from there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The table.
    pub table: TableId,
    /// The keys that are left; `None` if all are on their way.
    pub rest: Option<KeyRange>,
    /// The new home.
    pub to: SiteId,
}

impl Migration {
    /// The next chunk: the keys up to the `rows_max`-th of these rows, which are those of the old home.
    /// Where a chunk ends is a guess that no site has to agree with: it is part of what is ordered.
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
