//! Synchronous backups: how many other sites must have a commit before it is acknowledged.
//!
//! ```text
//!   table accounts: backups 1 on disk
//!     accounts[]     master s1   replicas s2         a commit waits for s2
//!     accounts[10]   master s2   replicas s1 s3      a commit waits for s1 or s3, whichever has it first
//!     accounts[20]   master s3                       one is missing: it is replaced
//! ```
//!
//! A backup is a replica whose acknowledgement commits wait for. Any replica of a partition can
//! serve as backup, and a partition may have more replicas than its table has backups. They are in
//! other processes than the master while there are others, and in other zones ([`Domains`]).

use crate::{Change, Design, Domains, Invalid, KeyRange, Placement, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How many other sites must have a commit before it is acknowledged. It prints as `1 on disk`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Backups {
    /// The number of sites; 0: a commit is acknowledged by the master alone.
    pub count: u8,
    /// The sites must have the commit on disk; otherwise it is enough that they have applied it in
    /// memory.
    pub on_disk: bool,
}

impl Backups {
    /// None.
    pub const NONE: Backups = Backups { count: 0, on_disk: false };
}

impl fmt::Display for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.on_disk { "on disk" } else { "in memory" };
        write!(f, "{} {place}", self.count)
    }
}

impl Design {
    /// Sets the number of backups of a table's partitions. [`Design::lacking`] returns the missing
    /// ones.
    ///
    /// # Errors
    /// [`Invalid::UnknownTable`]; [`Invalid::Backups`] if there are fewer other sites.
    pub fn set_backups(&mut self, id: TableId, backups: Backups) -> Result<(), Invalid> {
        let table = self.table(id)?;
        let others = self.sites.len() - 1;
        if usize::from(backups.count) > others {
            let (table, count) = (table.name().to_owned(), backups.count);
            return Err(Invalid::Backups { table, count, others });
        }
        if let Some(table) = self.tables.get_mut(&id) {
            table.backups = backups;
        }
        Ok(())
    }

    /// The changes that give every partition the backups of its table. Replicas are added at the
    /// `usable` sites that hold the fewest, in other zones and processes than the master and each
    /// other as far as possible. Once they are there, replicas in the master's process or zone are
    /// removed in exchange. Backups without a usable site are left out.
    pub fn lacking(&self, domains: &Domains, usable: impl Fn(SiteId) -> bool) -> Vec<Change> {
        let mut replicas: BTreeMap<SiteId, usize> =
            self.sites.iter().filter(|site| usable(*site)).map(|site| (site, 0)).collect();
        let all = KeyRange::all();
        let placed = self.tables().flat_map(|(id, _)| self.partitions_in(id, &all));
        for site in placed.flat_map(|(_, placement)| placement.replicas.iter().collect::<Vec<_>>())
        {
            replicas.entry(site).and_modify(|count| *count += 1);
        }
        let mut changes = Vec::new();
        for (table, of) in self.tables() {
            for (range, placement) in self.partitions_in(table, &all) {
                let added = added(&mut replicas, &placement, of.backups.count, domains);
                let surplus = (placement.replicas.len() + added.len())
                    .saturating_sub(usize::from(of.backups.count));
                let closeness = |site: SiteId| domains.closeness(site, placement.master);
                // Others were added for readers, and it is not known which.
                let beside = placement.replicas.iter().filter(|site| closeness(*site) > 0);
                let mut removed: Vec<SiteId> = beside.collect();
                removed.sort_by_key(|site| std::cmp::Reverse(closeness(*site)));
                removed.truncate(surplus.min(added.len()));
                let start = range.start;
                changes.extend(added.into_iter().map(|site| {
                    let start = start.clone();
                    Change::AddReplica { table, start, site }
                }));
                changes.extend(removed.into_iter().map(|site| {
                    let start = start.clone();
                    Change::RemoveReplica { table, start, site }
                }));
            }
        }
        changes
    }
}

/// The sites that get the replicas that a partition lacks, one after the other.
fn added(
    replicas: &mut BTreeMap<SiteId, usize>,
    placement: &Placement,
    count: u8,
    domains: &Domains,
) -> Vec<SiteId> {
    let (count, master) = (usize::from(count), placement.master);
    let (mut backups, mut added) = (placement.replicas.clone(), Vec::new());
    loop {
        let spread = domains.spread(count, master, &backups);
        let is_free = |site: &SiteId| *site != master && !backups.contains(*site);
        let free = replicas.iter().filter(|(site, _)| is_free(site));
        let free = free.map(|(site, held)| {
            let with = domains.spread(count, master, &backups.clone().with(*site));
            (std::cmp::Reverse(with), *held, *site)
        });
        let Some((std::cmp::Reverse(with), _, site)) = free.min() else { break };
        if backups.len() >= count && with <= spread {
            break;
        }
        *replicas.entry(site).or_default() += 1;
        backups.insert(site);
        added.push(site);
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SiteSet;

    const DESIGN: &str = "
        sites s1 s2 s3
        table accounts t1
          column id int64
          key id
          backups 2 on disk
          partition [] master s1
          partition [10] master s2 replicas s1
          partition [20] master s3 replicas s1 s2
        table items t2
          column id int64
          key id
          partition [] master s1
        ";

    #[test]
    fn what_is_lacking_goes_where_there_is_least() {
        let design = Design::parse(DESIGN).unwrap();
        let changes = |usable: &dyn Fn(SiteId) -> bool| -> Vec<String> {
            let changes = design.lacking(&Domains::default(), usable);
            changes.iter().map(|change| change.to_text(&design)).collect()
        };
        assert_eq!(
            changes(&|_| true),
            [
                "add_replica accounts[] s3",
                "add_replica accounts[] s2",
                "add_replica accounts[10] s3"
            ]
        );
        assert!(changes(&|site| site == SiteId(1)).is_empty(), "it has all that it can have");
    }

    #[test]
    fn backups_go_to_other_zones_while_these_have_room() {
        let design = Design::parse(
            "
        sites s1 s2 s3
        table accounts t1
          column id int64
          key id
          backups 1 on disk
          partition [] master s1
          partition [10] master s1 replicas s2
          partition [20] master s3
        ",
        )
        .unwrap();
        let site = |site| SiteSet::of(SiteId(site));
        let processes: Domains = [site(2), site(3)].into_iter().collect();
        let zones = [[SiteId(1), SiteId(2)].into_iter().collect(), site(3)];
        let domains = processes.with_zones(zones);
        let changes = |usable: &dyn Fn(SiteId) -> bool| -> Vec<String> {
            let changes = design.lacking(&domains, usable);
            changes.iter().map(|change| change.to_text(&design)).collect()
        };
        assert_eq!(
            changes(&|_| true),
            [
                "add_replica accounts[] s3",
                "add_replica accounts[10] s3",
                "remove_replica accounts[10] s2",
                "add_replica accounts[20] s1",
            ]
        );
        assert_eq!(
            changes(&|site| site.0 < 3),
            ["add_replica accounts[] s2", "add_replica accounts[20] s1"]
        );
    }

    #[test]
    fn more_backups_than_there_are_other_sites_are_refused() {
        let mut design = Design::parse(DESIGN).unwrap();
        let refused = design.set_backups(TableId(1), Backups { count: 3, on_disk: true });
        assert_eq!(
            refused.unwrap_err().to_string(),
            "table accounts cannot have 3 backups of each partition: the number of other sites for them is 2"
        );
        let again = Design::parse(&design.to_text()).unwrap();
        assert_eq!(again, design);
        assert!(design.to_text().contains("  backups 2 on disk\n"));
    }

    #[test]
    fn backups_go_to_other_processes_while_these_have_room() {
        let design = Design::parse(
            "
        sites s1 s2 s3 s4
        table accounts t1
          column id int64
          key id
          backups 1 on disk
          partition [] master s1
          partition [10] master s1 replicas s2
          partition [20] master s1 replicas s2 s3
          partition [30] master s3 replicas s4
        ",
        )
        .unwrap();
        let process = |sites: [u16; 2]| sites.into_iter().map(SiteId).collect();
        let domains: Domains = [process([1, 2]), process([3, 4])].into_iter().collect();
        let changes = |usable: &dyn Fn(SiteId) -> bool| -> Vec<String> {
            let changes = design.lacking(&domains, usable);
            changes.iter().map(|change| change.to_text(&design)).collect()
        };
        assert_eq!(
            changes(&|_| true),
            [
                "add_replica accounts[] s3",
                "add_replica accounts[10] s4",
                "remove_replica accounts[10] s2",
                "add_replica accounts[30] s1",
                "remove_replica accounts[30] s4",
            ]
        );
        assert_eq!(
            changes(&|site| site.0 < 3),
            [
                "add_replica accounts[] s2",
                "add_replica accounts[30] s1",
                "remove_replica accounts[30] s4",
            ]
        );
    }
}
