//! Drains sites: moves what they have to other sites, so that their process can be stopped.
//!
//! ```text
//!   accounts   master s3, replica s1     s3 drained:  add_replica s5   remaster s1   remove_replica s3
//!              process  b           a                 (process c)
//! ```
//!
//! A partition keeps as many copies as there are other processes for: a process needs no second
//! copy. A site that has a copy already is preferred as the next master, and the site with the
//! fewest copies for a new one.

use isomer_design::SiteId;
use std::collections::{BTreeMap, BTreeSet};

/// The copies of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copies {
    /// The site that takes writes.
    pub master: SiteId,
    /// The sites with replicas.
    pub replicas: BTreeSet<SiteId>,
}

impl Copies {
    fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.replicas.iter().copied().chain([self.master])
    }
}

/// A change of the copies of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are changes of the design")]
pub enum Move {
    AddReplica(SiteId),
    Remaster(SiteId),
    RemoveReplica(SiteId),
}

/// The changes that drain some sites, for each of the partitions in their order. `others` are the
/// sites that may take copies, with the names of their processes.
pub fn drain(
    partitions: &[Copies],
    drained: &BTreeSet<SiteId>,
    others: &BTreeMap<SiteId, String>,
) -> Vec<Vec<Move>> {
    let mut held: BTreeMap<SiteId, usize> = others.keys().map(|site| (*site, 0)).collect();
    for site in partitions.iter().flat_map(Copies::sites) {
        held.entry(site).and_modify(|held| *held += 1);
    }
    let of_partition = |copies: &Copies| {
        let (leave, mut stay): (BTreeSet<SiteId>, BTreeSet<SiteId>) =
            copies.sites().partition(|site| drained.contains(site));
        let mut moves = Vec::new();
        for _ in 0..leave.len() {
            let has_copy = |process: &String| stay.iter().any(|at| others.get(at) == Some(process));
            let free = others.iter().filter(|(_, process)| !has_copy(process));
            let Some((site, _)) = free.min_by_key(|(site, _)| held[site]) else { break };
            *held.get_mut(site).expect("it is one of the others") += 1;
            moves.push(Move::AddReplica(*site));
            stay.insert(*site);
        }
        if leave.contains(&copies.master) {
            // An existing replica is preferred.
            let next = copies.replicas.intersection(&stay).chain(&stay).next();
            moves.extend(next.map(|next| Move::Remaster(*next)));
        }
        moves.extend(leave.iter().map(|site| Move::RemoveReplica(*site)));
        moves
    };
    partitions.iter().map(of_partition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(master: u16, replicas: &[u16]) -> Copies {
        let replicas = replicas.iter().copied().map(SiteId).collect();
        Copies { master: SiteId(master), replicas }
    }

    #[test]
    fn drained_sites_have_nothing_and_partitions_as_many_copies_as_there_are_processes_for() {
        let others = [(1, "a"), (2, "a"), (5, "c"), (6, "c")];
        let others = others.map(|(site, name)| (SiteId(site), name.to_owned())).into();
        let partitions =
            [copies(3, &[1]), copies(1, &[4]), copies(4, &[]), copies(3, &[1, 5]), copies(2, &[])];
        let moves = drain(&partitions, &[SiteId(3), SiteId(4)].into(), &others);
        let shown: Vec<String> = moves.iter().map(|moves| format!("{moves:?}")).collect();
        assert_eq!(
            shown,
            [
                "[AddReplica(SiteId(6)), Remaster(SiteId(1)), RemoveReplica(SiteId(3))]",
                "[AddReplica(SiteId(5)), RemoveReplica(SiteId(4))]",
                "[AddReplica(SiteId(2)), Remaster(SiteId(2)), RemoveReplica(SiteId(4))]",
                "[Remaster(SiteId(1)), RemoveReplica(SiteId(3))]",
                "[]"
            ]
        );
    }
}
