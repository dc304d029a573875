//! Where a partition is: the site of its master, and the sites of its replicas.

use crate::{SiteId, SiteSet};
use std::fmt;

/// The sites that hold a partition. It prints as `master s1 replicas s2 s3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The one site that may write the partition.
    pub master: SiteId,
    /// The sites that follow the master's log. The master is never one of them.
    pub replicas: SiteSet,
}

impl Placement {
    /// A master without replicas.
    pub fn at(master: SiteId) -> Placement {
        Placement { master, replicas: SiteSet::EMPTY }
    }

    /// A master with replicas.
    ///
    /// # Panics
    /// Like [`SiteSet::with`], if no site may have the number of a replica.
    pub fn new(master: SiteId, replicas: impl IntoIterator<Item = SiteId>) -> Placement {
        Placement { master, replicas: replicas.into_iter().collect() }
    }

    /// The sites that can serve reads: the master and the replicas.
    #[inline]
    pub fn holders(&self) -> SiteSet {
        self.replicas | SiteSet::of(self.master)
    }

    /// True if `site` can serve reads.
    pub fn holds(&self, site: SiteId) -> bool {
        self.holders().contains(site)
    }

    /// The placement with `to`, a replica until now, as the master; the old master follows it.
    #[must_use]
    pub fn remastered(&self, to: SiteId) -> Placement {
        let replicas = self.replicas.without(to) | SiteSet::of(self.master);
        Placement { master: to, replicas }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "master {}", self.master)?;
        if self.replicas.is_empty() { Ok(()) } else { write!(f, " replicas {}", self.replicas) }
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
