//! Failure domains: the sites of one process fail together, and so may the processes of one zone: a
//! rack, a room, a data centre.
//!
//! A backup in its master's process does not survive a failure of that process. So backups are
//! placed in other processes while these have room ([`Design::lacking`](crate::Design::lacking)),
//! and commits wait for other processes before they count a site of their own. The same holds for
//! zones, where processes have one.

use crate::{SiteId, SiteSet};
use std::collections::BTreeMap;

/// The place of each site of other processes. All sites that are not named are in one process, that
/// of the caller.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Domains {
    /// The first site of the process of each site.
    processes: BTreeMap<SiteId, SiteId>,
    /// The first site of the zone of each site that has one.
    zones: BTreeMap<SiteId, SiteId>,
}

/// Names each group by its first site.
fn named(groups: impl IntoIterator<Item = SiteSet>) -> BTreeMap<SiteId, SiteId> {
    let named = |sites: SiteSet| {
        let first = sites.first();
        sites.iter().filter_map(move |site| Some((site, first?))).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(named).collect()
}

/// The sites of each of these processes; all others are in one more.
impl FromIterator<SiteSet> for Domains {
    fn from_iter<P: IntoIterator<Item = SiteSet>>(processes: P) -> Domains {
        Domains { processes: named(processes), zones: BTreeMap::new() }
    }
}

/// The number of groups that have some of these sites and do not have `site`.
fn beyond(groups: &BTreeMap<SiteId, SiteId>, site: SiteId, sites: &SiteSet) -> usize {
    if groups.is_empty() {
        return 0;
    }
    let own = groups.get(&site);
    let mut others: Vec<Option<&SiteId>> =
        sites.iter().map(|other| groups.get(&other)).filter(|other| *other != own).collect();
    others.sort_unstable();
    others.dedup();
    others.len()
}

impl Domains {
    /// These processes, with the sites of each zone, this process's own included. Sites without a
    /// zone are in one more.
    pub fn with_zones(self, zones: impl IntoIterator<Item = SiteSet>) -> Domains {
        Domains { zones: named(zones), ..self }
    }

    /// True if both sites are in one process.
    pub fn share(&self, one: SiteId, other: SiteId) -> bool {
        self.processes.get(&one) == self.processes.get(&other)
    }

    /// True if both sites are in one process, and a failure of that leaves other sites.
    pub fn fail_together(&self, one: SiteId, other: SiteId) -> bool {
        !self.processes.is_empty() && self.share(one, other)
    }

    /// The number of processes that have some of these sites and do not have `site`.
    pub fn beyond(&self, site: SiteId, sites: &SiteSet) -> usize {
        beyond(&self.processes, site, sites)
    }

    /// How well backups at these sites survive, up to what `count` need: the numbers of zones and
    /// of processes that have some of them and do not have `site`.
    pub fn spread(&self, count: usize, site: SiteId, sites: &SiteSet) -> (usize, usize) {
        let zones = beyond(&self.zones, site, sites);
        (zones.min(count), self.beyond(site, sites).min(count))
    }

    /// How close a site is: 2 in the same process, 1 in the same zone, 0 elsewhere.
    pub(crate) fn closeness(&self, one: SiteId, other: SiteId) -> u8 {
        let share_zone = !self.zones.is_empty() && self.zones.get(&one) == self.zones.get(&other);
        match self.share(one, other) {
            true => 2,
            false => u8::from(share_zone),
        }
    }

    /// True if `has`, some of the followers `all` of a master at `site`, are enough to be `count`
    /// backups: `count` sites at `count` other processes and zones, or as many of each as `all`
    /// has.
    pub fn suffice(&self, count: u8, site: SiteId, all: &SiteSet, has: &SiteSet) -> bool {
        let count = usize::from(count);
        let ((zones, processes), (all_zones, all_processes)) =
            (self.spread(count, site, has), self.spread(count, site, all));
        has.len() >= count.min(all.len()) && zones >= all_zones && processes >= all_processes
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

    #[test]
    fn a_backup_in_its_masters_zone_counts_only_where_there_are_no_others() {
        let processes: Domains = [2, 3, 4].map(|site| sites([site])).into_iter().collect();
        let domains = processes.with_zones([sites([1, 2]), sites([3, 4])]);
        let s1 = SiteId(1);
        assert!(domains.suffice(1, s1, &sites([2]), &sites([2])), "there is no other");
        assert!(!domains.suffice(1, s1, &sites([2, 3]), &sites([2])));
        assert!(domains.suffice(1, s1, &sites([2, 3]), &sites([3])));
        assert!(domains.suffice(2, s1, &sites([2, 3, 4]), &sites([2, 3])), "two zones");
        assert!(!domains.suffice(2, s1, &sites([2, 3, 4]), &sites([2])));
        let closeness = [2, 3].map(|other| domains.closeness(s1, SiteId(other)));
        assert_eq!(closeness, [1, 0]);
    }
}
