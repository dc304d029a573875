//! Failure domains: the sites of one process fail together.
//!
//! A backup in its master's process does not survive a failure of that process. So backups are
//! placed in other processes while these have room ([`Design::lacking`](crate::Design::lacking)),
//! and commits wait for other processes before they count a site of their own.

use crate::{SiteId, SiteSet};
use std::collections::BTreeMap;

/// The sites of each process. All sites that are not named are in one process, that of the caller.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Domains(BTreeMap<SiteId, SiteId>);

/// The sites of each of these processes; all others are in one more.
impl FromIterator<SiteSet> for Domains {
    fn from_iter<P: IntoIterator<Item = SiteSet>>(processes: P) -> Domains {
        let named = |sites: SiteSet| {
            let first = sites.first();
            sites.iter().filter_map(move |site| Some((site, first?))).collect::<Vec<_>>()
        };
        Domains(processes.into_iter().flat_map(named).collect())
    }
}

impl Domains {
    /// True if both sites are in one process.
    pub fn share(&self, one: SiteId, other: SiteId) -> bool {
        self.0.get(&one) == self.0.get(&other)
    }

    /// True if both sites are in one process, and a failure of that leaves other sites.
    pub fn fail_together(&self, one: SiteId, other: SiteId) -> bool {
        !self.0.is_empty() && self.share(one, other)
    }

    /// The number of processes that have some of these sites and do not have `site`.
    pub fn beyond(&self, site: SiteId, sites: &SiteSet) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let own = self.0.get(&site);
        let mut others: Vec<Option<&SiteId>> =
            sites.iter().map(|other| self.0.get(&other)).filter(|other| *other != own).collect();
        others.sort_unstable();
        others.dedup();
        others.len()
    }

    /// True if `has`, some of the followers `all` of a master at `site`, are enough to be `count`
    /// backups: `count` sites at `count` other processes, or as many of both as `all` has.
    pub fn suffice(&self, count: u8, site: SiteId, all: &SiteSet, has: &SiteSet) -> bool {
        let count = usize::from(count);
        has.len() >= count.min(all.len())
            && self.beyond(site, has) >= count.min(self.beyond(site, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(numbers: impl IntoIterator<Item = u16>) -> SiteSet {
        numbers.into_iter().map(SiteId).collect()
    }

    #[test]
    fn a_backup_beside_its_master_counts_only_where_there_are_no_others() {
        let domains: Domains = [sites([3, 4]), sites([5, 6])].into_iter().collect();
        let [s1, s2, s3] = [1, 2, 3].map(SiteId);
        assert!(domains.share(s1, s2) && !domains.share(s2, s3));
        assert!(domains.fail_together(s1, s2) && !domains.fail_together(s2, s3));
        let alone = Domains::default();
        assert!(alone.share(s1, s2) && !alone.fail_together(s1, s2), "no site would be left");
        assert_eq!(domains.beyond(s1, &sites([2, 3, 4, 5])), 2);
        let suffice = |count, all: &[u16], has: &[u16]| {
            let set = |of: &[u16]| sites(of.iter().copied());
            domains.suffice(count, s1, &set(all), &set(has))
        };
        assert!(suffice(1, &[2], &[2]), "there is no other");
        assert!(!suffice(1, &[2, 3], &[2]));
        assert!(suffice(1, &[2, 3], &[3]));
        assert!(!suffice(2, &[3, 4, 5], &[3, 4]), "both are lost with one process");
        assert!(suffice(2, &[3, 4, 5], &[4, 5]));
        assert!(suffice(2, &[3, 4], &[3, 4]), "there is one other process");
        assert!(!suffice(2, &[3, 4], &[3]));
        assert!(Domains::default().suffice(1, s1, &sites([2, 3]), &sites([2])));
    }
}
