//! Synchronous backups: how many other sites must have a commit before it is acknowledged.
//!
//! ```text
//!   table accounts: backups 1 on disk
//!     accounts[]     master s1   replicas s2         a commit waits for s2
//!     accounts[10]   master s2   replicas s1 s3      a commit waits for s1 or s3, whichever has it first
//!     accounts[20]   master s3                       one is missing: it is made anew
//! ```
//!
//! A backup is a replica like any other: what makes it a backup is that commits wait for its acknowledgement. So
//! any replicas of a partition can serve as its backups, and a partition may have more of them than its table asks
//! for.

use crate::{Change, Design, Invalid, KeyRange, Placement, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How many other sites must have a commit of a table before it is acknowledged. It prints as `1 on disk`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Backups {
    /// How many; 0: none, a commit is acknowledged by the master alone.
    pub count: u8,
    /// They have it on disk; otherwise they have applied it, in memory.
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
    /// Says how many backups the partitions of a table are to have. Those that it lacks are [`Design::lacking`].
    ///
    /// # Errors
    /// [`Invalid::UnknownTable`]; [`Invalid::Backups`] if there are not as many other sites.
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

    /// The replicas that have to be added so that every partition has as many as its table needs backups: at the
    /// sites of `usable` that hold the fewest replicas. What cannot be had is left out.
    pub fn lacking(&self, usable: impl Fn(SiteId) -> bool) -> Vec<Change> {
        let mut replicas: BTreeMap<SiteId, usize> =
            self.sites.iter().filter(|site| usable(*site)).map(|site| (site, 0)).collect();
        let all = KeyRange::all();
        let placed = self.tables().flat_map(|(id, _)| self.partitions_in(id, &all));
        for site in placed.flat_map(|(_, placement)| placement.replicas.iter().collect::<Vec<_>>())
        {
            replicas.entry(site).and_modify(|count| *count += 1);
        }
        let mut changes = Vec::new();
        for (id, table) in self.tables() {
            for (range, placement) in self.partitions_in(id, &all) {
                for site in nearest_to_empty(&mut replicas, &placement, table.backups.count) {
                    changes.push(Change::AddReplica {
                        table: id,
                        start: range.start.clone(),
                        site,
                    });
                }
            }
        }
        changes
    }
}

/// The sites that get the replicas that a partition lacks, one after the other.
fn nearest_to_empty(
    replicas: &mut BTreeMap<SiteId, usize>,
    placement: &Placement,
    count: u8,
) -> Vec<SiteId> {
    let lacks = usize::from(count).saturating_sub(placement.replicas.len());
    let mut free: Vec<(usize, SiteId)> = replicas
        .iter()
        .filter(|(site, _)| !placement.holds(**site))
        .map(|(site, count)| (*count, *site))
        .collect();
    free.sort_unstable();
    free.truncate(lacks);
    let sites: Vec<SiteId> = free.into_iter().map(|(_, site)| site).collect();
    sites.iter().for_each(|site| *replicas.entry(*site).or_default() += 1);
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

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
            design.lacking(usable).iter().map(|change| change.to_text(&design)).collect()
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
}
