//! Changes: the operators that turn one design into another, one partition or site at a time.
//!
//! They are those of MorphoSys (section 3.1), and two for the set of sites. Figure 2 of the paper,
//! where `accounts` holds the keys 0 to 19, step by step:
//!
//! ```text
//!                                   accounts[]      accounts[5]         accounts[10]
//!   at first                        s1 ───────────────────────          s2
//!   split accounts at 5             s1              s1                  s2
//!   add_replica accounts[5] s2      s1              s1, replica s2      s2
//!   remaster accounts[5] s2         s1              s2, replica s1      s2
//!   remove_replica accounts[5] s1   s1              s2                  s2
//!   merge accounts at 10            s1              s2 ───────────────────
//! ```
//!
//! A change is small so that it can be carried out like a transaction, and undone by an opposite
//! one: split and merge, add and remove, remaster and remaster back. [`Design::effect`] alone
//! computes its effect, and refuses a change that would break an invariant. So validation and
//! application of a change cannot disagree.

use crate::design::{Design, TableDesign, check_bound};
use crate::{Invalid, Key, Placement, SiteId, SiteSet, TableId};
use serde::{Deserialize, Serialize};

/// One step from a design to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Change {
    /// Makes two partitions of the one that holds `at`, the second starting there.
    Split {
        /// The table.
        table: TableId,
        /// Where the second partition starts.
        at: Key,
    },
    /// Makes one partition of the two that meet at `at`, if their placements are equal.
    Merge {
        /// The table.
        table: TableId,
        /// Where the second partition starts.
        at: Key,
    },
    /// Adds a replica of a partition.
    AddReplica {
        /// The table.
        table: TableId,
        /// The start of the partition.
        start: Key,
        /// Where the replica will be.
        site: SiteId,
    },
    /// Removes a replica of a partition.
    RemoveReplica {
        /// The table.
        table: TableId,
        /// The start of the partition.
        start: Key,
        /// Where the replica is.
        site: SiteId,
    },
    /// Makes a replica the master of a partition; the old master becomes a replica.
    Remaster {
        /// The table.
        table: TableId,
        /// The start of the partition.
        start: Key,
        /// The new master.
        to: SiteId,
    },
    /// Adds a site, which holds nothing yet.
    AddSite {
        /// The site.
        site: SiteId,
    },
    /// Removes a site that holds nothing.
    RemoveSite {
        /// The site.
        site: SiteId,
    },
}

/// The effect of a valid change on a design.
pub(crate) enum Effect {
    /// A partition starts here, with this placement.
    Place { table: TableId, start: Key, placement: Placement },
    /// No partition starts here any more: the previous one extends further.
    Join { table: TableId, start: Key },
    /// The new set of sites.
    Sites(SiteSet),
}

impl Change {
    /// True if it adds a site, or removes one.
    pub fn is_of_sites(&self) -> bool {
        matches!(self, Change::AddSite { .. } | Change::RemoveSite { .. })
    }

    /// The table that changes, unless it is a change of the sites.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Change::Split { table, .. }
            | Change::Merge { table, .. }
            | Change::AddReplica { table, .. }
            | Change::RemoveReplica { table, .. }
            | Change::Remaster { table, .. } => Some(*table),
            Change::AddSite { .. } | Change::RemoveSite { .. } => None,
        }
    }

    /// The first key of the partition that changes, or the key of a split or merge; `None` for a
    /// change of the sites.
    pub fn start(&self) -> Option<&Key> {
        match self {
            Change::Split { at, .. } | Change::Merge { at, .. } => Some(at),
            Change::AddReplica { start, .. }
            | Change::RemoveReplica { start, .. }
            | Change::Remaster { start, .. } => Some(start),
            Change::AddSite { .. } | Change::RemoveSite { .. } => None,
        }
    }

    /// The opposite change. `from` is the master of the partition before this change: the opposite
    /// of a remaster is a remaster to `from`.
    #[must_use]
    pub fn opposite(&self, from: SiteId) -> Change {
        match self.clone() {
            Change::Split { table, at } => Change::Merge { table, at },
            Change::Merge { table, at } => Change::Split { table, at },
            Change::AddReplica { table, start, site } => {
                Change::RemoveReplica { table, start, site }
            }
            Change::RemoveReplica { table, start, site } => {
                Change::AddReplica { table, start, site }
            }
            Change::Remaster { table, start, .. } => Change::Remaster { table, start, to: from },
            Change::AddSite { site } => Change::RemoveSite { site },
            Change::RemoveSite { site } => Change::AddSite { site },
        }
    }

    /// The names of all operators.
    pub const OPERATORS: [&str; 7] =
        ["split", "merge", "add_replica", "remove_replica", "remaster", "add_site", "remove_site"];

    /// The name of the operator, as the text form writes it.
    pub fn operator(&self) -> &'static str {
        match self {
            Change::Split { .. } => "split",
            Change::Merge { .. } => "merge",
            Change::AddReplica { .. } => "add_replica",
            Change::RemoveReplica { .. } => "remove_replica",
            Change::Remaster { .. } => "remaster",
            Change::AddSite { .. } => "add_site",
            Change::RemoveSite { .. } => "remove_site",
        }
    }
}

impl Design {
    /// Checks that a change is possible, and says why if not.
    pub fn validate(&self, change: &Change) -> Result<(), Invalid> {
        self.effect(change).map(|_| ())
    }

    /// True if the design already is as this change would make it.
    pub fn is_so_already(&self, change: &Change) -> bool {
        let Err(why) = self.effect(change) else { return false };
        match change {
            Change::Merge { .. } => matches!(why, Invalid::NotAPartition { .. }),
            Change::Split { .. } => matches!(why, Invalid::SplitAtStart { .. }),
            Change::AddReplica { .. } => matches!(why, Invalid::ReplicaExists { .. }),
            Change::RemoveReplica { .. } => matches!(why, Invalid::NoReplica { .. }),
            Change::Remaster { .. } => matches!(why, Invalid::RemasterToMaster { .. }),
            Change::AddSite { .. } => matches!(why, Invalid::SiteExists { .. }),
            Change::RemoveSite { site } => !self.sites.contains(*site),
        }
    }

    /// Makes a change; the design is unchanged on error.
    pub fn apply(&mut self, change: &Change) -> Result<(), Invalid> {
        match self.effect(change)? {
            Effect::Sites(sites) => self.sites = sites,
            Effect::Place { table, start, placement } => {
                if let Some(table) = self.tables.get_mut(&table) {
                    table.partitions.set(start, placement);
                }
            }
            Effect::Join { table, start } => {
                if let Some(table) = self.tables.get_mut(&table) {
                    table.partitions.unset(&start);
                }
            }
        }
        Ok(())
    }

    /// Computes the effect of a change.
    pub(crate) fn effect(&self, change: &Change) -> Result<Effect, Invalid> {
        match change {
            Change::Split { table, at } => self.split(*table, at),
            Change::Merge { table, at } => self.merge(*table, at),
            Change::AddReplica { table, start, site } => self.add_replica(*table, start, *site),
            Change::RemoveReplica { table, start, site } => {
                self.remove_replica(*table, start, *site)
            }
            Change::Remaster { table, start, to } => self.remaster(*table, start, *to),
            Change::AddSite { site } => self.add_site(*site),
            Change::RemoveSite { site } => self.remove_site(*site),
        }
    }

    fn split(&self, id: TableId, at: &Key) -> Result<Effect, Invalid> {
        let table = self.table(id)?;
        check_bound(&table.schema, at)?;
        match table.partitions.get(at) {
            Some((start, placement)) if start != at => {
                Ok(Effect::Place { table: id, start: at.clone(), placement: placement.clone() })
            }
            _ => Err(Invalid::SplitAtStart { partition: table.schema.partition_name(at) }),
        }
    }

    fn merge(&self, id: TableId, at: &Key) -> Result<Effect, Invalid> {
        let table = self.table(id)?;
        let right = table.placement_at(at)?;
        let Some((left_start, left)) = table.partitions.before(at) else {
            return Err(Invalid::MergeAtFirst { partition: table.schema.partition_name(at) });
        };
        if *left != right {
            return Err(Invalid::MergePlacements {
                left: table.schema.partition_name(left_start),
                left_placement: left.to_string(),
                right: table.schema.partition_name(at),
                right_placement: right.to_string(),
            });
        }
        Ok(Effect::Join { table: id, start: at.clone() })
    }

    fn add_replica(&self, id: TableId, start: &Key, site: SiteId) -> Result<Effect, Invalid> {
        let (table, placement) = self.partition(id, start, site)?;
        let partition = || table.schema.partition_name(start);
        if placement.master == site {
            return Err(Invalid::ReplicaAtMaster { partition: partition(), site });
        }
        if placement.replicas.contains(site) {
            let placement = placement.to_string();
            return Err(Invalid::ReplicaExists { partition: partition(), site, placement });
        }
        let placement = Placement { replicas: placement.replicas.with(site), ..placement };
        Ok(Effect::Place { table: id, start: start.clone(), placement })
    }

    fn remove_replica(&self, id: TableId, start: &Key, site: SiteId) -> Result<Effect, Invalid> {
        let (table, placement) = self.partition(id, start, site)?;
        let partition = || table.schema.partition_name(start);
        if placement.master == site {
            return Err(Invalid::RemoveMaster { partition: partition(), site });
        }
        if !placement.replicas.contains(site) {
            let placement = placement.to_string();
            return Err(Invalid::NoReplica { partition: partition(), site, placement });
        }
        let placement = Placement { replicas: placement.replicas.without(site), ..placement };
        Ok(Effect::Place { table: id, start: start.clone(), placement })
    }

    fn remaster(&self, id: TableId, start: &Key, to: SiteId) -> Result<Effect, Invalid> {
        let (table, placement) = self.partition(id, start, to)?;
        let partition = || table.schema.partition_name(start);
        if placement.master == to {
            return Err(Invalid::RemasterToMaster { partition: partition(), site: to });
        }
        if !placement.replicas.contains(to) {
            return Err(Invalid::RemasterToStranger { partition: partition(), site: to });
        }
        let placement = placement.remastered(to);
        Ok(Effect::Place { table: id, start: start.clone(), placement })
    }

    fn add_site(&self, site: SiteId) -> Result<Effect, Invalid> {
        if !SiteSet::can_hold(site) {
            return Err(Invalid::SiteNumber { site });
        }
        if self.sites.contains(site) {
            return Err(Invalid::SiteExists { site, sites: self.sites.clone() });
        }
        Ok(Effect::Sites(self.sites.clone().with(site)))
    }

    fn remove_site(&self, site: SiteId) -> Result<Effect, Invalid> {
        self.known_site(site)?;
        let (mut masters, mut replicas, mut example) = (0, 0, None);
        for table in self.tables.values() {
            for (start, placement) in table.partitions.iter().filter(|(_, p)| p.holds(site)) {
                masters += usize::from(placement.master == site);
                replicas += usize::from(placement.master != site);
                example.get_or_insert_with(|| table.schema.partition_name(start));
            }
        }
        if let Some(example) = example {
            return Err(Invalid::SiteInUse { site, masters, replicas, example });
        }
        if self.sites.len() == 1 {
            return Err(Invalid::LastSite { site });
        }
        Ok(Effect::Sites(self.sites.without(site)))
    }

    /// A partition by its start, to be changed at a site that exists.
    fn partition(
        &self,
        table: TableId,
        start: &Key,
        site: SiteId,
    ) -> Result<(&TableDesign, Placement), Invalid> {
        let table = self.table(table)?;
        let placement = table.placement_at(start)?;
        self.known_site(site)?;
        Ok((table, placement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text form cannot name what does not exist; a caller with numbers can.
    #[test]
    fn tables_and_sites_that_do_not_exist_are_refused() {
        let mut design = Design::new([SiteId(1)]).unwrap();
        let (table, start) = (TableId(9), Key::int(5));
        for (change, error) in [
            (
                Change::Split { table, at: start.clone() },
                "there is no table t9: tables are none yet",
            ),
            (
                Change::Remaster { table, start, to: SiteId(1) },
                "there is no table t9: tables are none yet",
            ),
            (Change::AddSite { site: SiteId(0) }, "s0 cannot be a site: sites are s1 to s1024"),
            (
                Change::AddSite { site: SiteId(1025) },
                "s1025 cannot be a site: sites are s1 to s1024",
            ),
            (Change::RemoveSite { site: SiteId(70) }, "there is no site s70: sites are s1"),
        ] {
            assert_eq!(design.apply(&change).unwrap_err().to_string(), error);
        }
        assert_eq!(design, Design::new([SiteId(1)]).unwrap());
    }

    #[test]
    fn a_change_that_was_made_is_so_already_and_none_before() {
        let text = "sites s1 s2\ntable t\ncolumn k int64\nkey k\npartition [] master s1";
        let mut design = Design::parse(text).unwrap();
        let (table, site, start) = (TableId(1), SiteId(2), Key::int(5));
        for change in [
            Change::Split { table, at: start.clone() },
            Change::AddReplica { table, start: start.clone(), site },
            Change::Remaster { table, start: start.clone(), to: site },
            Change::Remaster { table, start: start.clone(), to: SiteId(1) },
            Change::RemoveReplica { table, start: start.clone(), site },
            Change::Merge { table, at: start },
            Change::AddSite { site: SiteId(3) },
            Change::RemoveSite { site: SiteId(3) },
        ] {
            assert!(!design.is_so_already(&change), "{change:?}");
            design.apply(&change).unwrap();
            assert!(design.is_so_already(&change), "{change:?}");
        }
    }

    #[test]
    fn a_bound_beyond_all_keys_is_refused() {
        let schema = "sites s1\ntable t\ncolumn k text\nkey k\npartition [] master s1";
        let design = Design::parse(schema).unwrap();
        let split =
            |bytes| Change::Split { table: TableId(1), at: Key::from_bytes(&vec![7; bytes]) };
        assert_eq!(design.validate(&split(crate::KEY_BYTES_MAX + 1)), Ok(()));
        let error = design.validate(&split(crate::KEY_BYTES_MAX + 2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a partition of t cannot start at a bound of 1026 bytes: keys are shorter"
        );
    }
}
