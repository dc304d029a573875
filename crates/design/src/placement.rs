//! Where a partition is: the site of its master, and the sites of its replicas.

use crate::{RangeMap, SiteId, SiteSet};
use std::fmt;

/// The sites that hold a partition. It prints as `master s1 replicas s2 s3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// As [`SiteSet::insert`], if no site may have the number of a replica.
    pub fn new(master: SiteId, replicas: impl IntoIterator<Item = SiteId>) -> Placement {
        Placement { master, replicas: replicas.into_iter().collect() }
    }

    /// The sites that can serve reads: the master and the replicas.
    #[inline]
    pub fn holders(&self) -> SiteSet {
        self.replicas.clone().with(self.master)
    }

    /// True if `site` can serve reads.
    #[inline]
    pub fn holds(&self, site: SiteId) -> bool {
        site == self.master || self.replicas.contains(site)
    }

    /// Keeps those of some sites that can serve reads.
    #[inline]
    pub(crate) fn retain_holders(&self, sites: &mut SiteSet) {
        sites.retain(&self.replicas, self.master);
    }

    /// The placement with `to`, a replica until now, as the master; the old master follows it.
    #[must_use]
    pub fn remastered(&self, to: SiteId) -> Placement {
        Placement { master: to, replicas: self.replicas.without(to).with(self.master) }
    }
}

impl RangeMap<Placement> {
    /// The memory held, in bytes.
    pub fn bytes(&self) -> usize {
        let replicas = self.iter().map(|(_, placement)| placement.replicas.heap_bytes());
        self.heap_bytes() + replicas.sum::<usize>()
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
