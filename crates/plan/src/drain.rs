//! Drains sites: moves what they have to other sites, so that their process can be stopped.
//!
//! ```text
//!   accounts   master s3, replica s1     s3 drained:  add_replica s5   remaster s1   remove_replica s3
//!              process  b           a                 (process c)
//! ```
//!
//! A partition keeps as many copies as there are other processes for: a process needs no second
//! copy. A site that has a copy already is preferred as the next master.
//!
//! Rows that transactions use together stay together. A master goes to the site with which recent
//! transactions of its partition shared most accesses, unless that site would have more than
//! [`CROWDED`] times the mean number of copies. Otherwise a copy goes to the site with the fewest.

use isomer_design::SiteId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A site with this many times the mean number of copies gets no further one for company.
pub const CROWDED: usize = 2;

/// An access of a recent transaction: to a drained partition, by its number, or at another site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the type says it")]
pub enum Used {
    Partition(usize),
    At(SiteId),
}

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
/// sites that may take copies, with the names of their processes; `recent` are transactions.
pub fn drain(
    partitions: &[Copies],
    drained: &BTreeSet<SiteId>,
    others: &BTreeMap<SiteId, String>,
    recent: &[BTreeSet<Used>],
) -> Vec<Vec<Move>> {
    let mut held: BTreeMap<SiteId, usize> = others.keys().map(|site| (*site, 0)).collect();
    for site in partitions.iter().flat_map(Copies::sites) {
        held.entry(site).and_modify(|held| *held += 1);
    }
    let copies: usize = partitions.iter().map(|it| it.sites().count()).sum();
    let full = CROWDED * copies.div_ceil(others.len().max(1));
    let mut company = Company::new(partitions.len(), recent);
    let of_partition = |(number, copies): (usize, &Copies)| {
        let (leave, mut stay): (BTreeSet<SiteId>, BTreeSet<SiteId>) =
            copies.sites().partition(|site| drained.contains(site));
        let is_master = leave.contains(&copies.master);
        let mut moves = Vec::new();
        for _ in 0..leave.len() {
            let has_copy = |process: &String| stay.iter().any(|at| others.get(at) == Some(process));
            let free = others.iter().filter(|(_, process)| !has_copy(process));
            let becomes_master = is_master && stay.is_empty();
            let rank = |site: &SiteId| {
                let wanted = becomes_master && held[site] < full;
                let shared = if wanted { company.of(number, *site) } else { 0 };
                (Reverse(shared), held[site])
            };
            let Some((site, _)) = free.min_by_key(|(site, _)| rank(site)) else { break };
            *held.get_mut(site).expect("it is one of the others") += 1;
            moves.push(Move::AddReplica(*site));
            stay.insert(*site);
        }
        if is_master {
            // An existing replica is preferred.
            let replicas = copies.replicas.intersection(&stay);
            let most = |sites: Vec<SiteId>| {
                sites.into_iter().min_by_key(|site| Reverse(company.of(number, *site)))
            };
            let next = most(replicas.copied().collect()).or_else(|| stay.first().copied());
            if let Some(next) = next {
                moves.push(Move::Remaster(next));
                company.goes(number, next);
            }
        }
        moves.extend(leave.iter().map(|site| Move::RemoveReplica(*site)));
        moves
    };
    partitions.iter().enumerate().map(of_partition).collect()
}

/// How often each drained partition was used together with what is, or will be, at each site.
struct Company {
    at: BTreeMap<(usize, SiteId), usize>,
    /// The transactions that two drained partitions share.
    shared: Vec<BTreeMap<usize, usize>>,
}

impl Company {
    fn new(partitions: usize, recent: &[BTreeSet<Used>]) -> Company {
        let mut all = Company { at: BTreeMap::new(), shared: vec![BTreeMap::new(); partitions] };
        for used in recent {
            for one in used {
                let Used::Partition(number) = *one else { continue };
                for other in used.iter().filter(|other| *other != one) {
                    match *other {
                        Used::At(site) => *all.at.entry((number, site)).or_default() += 1,
                        Used::Partition(other) => {
                            *all.shared[number].entry(other).or_default() += 1;
                        }
                    }
                }
            }
        }
        all
    }

    /// The number of transactions that a partition shares with a site.
    fn of(&self, number: usize, site: SiteId) -> usize {
        self.at.get(&(number, site)).copied().unwrap_or_default()
    }

    /// The master of a partition will be at a site.
    fn goes(&mut self, number: usize, site: SiteId) {
        for (other, shared) in &self.shared[number] {
            *self.at.entry((*other, site)).or_default() += shared;
        }
    }
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
        let moves = drain(&partitions, &[SiteId(3), SiteId(4)].into(), &others, &[]);
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
    #[test]
    fn what_is_used_together_stays_together_unless_its_site_is_crowded() {
        let others = [1, 2, 3].map(|site| (SiteId(site), site.to_string())).into();
        let goes = |count: usize, recent: &[BTreeSet<Used>]| {
            let moves = drain(&vec![copies(4, &[]); count], &[SiteId(4)].into(), &others, recent);
            let to = |moves: &Vec<Move>| match moves[0] {
                Move::AddReplica(site) => site.0,
                _ => panic!("{moves:?}"),
            };
            moves.iter().map(to).collect::<Vec<u16>>()
        };
        assert_eq!(goes(4, &[]), [1, 2, 3, 1]);
        let pair = |one, other| BTreeSet::from([one, other]);
        let with = |number, other| pair(Used::Partition(number), other);
        let recent = [with(0, Used::At(SiteId(3))), with(1, Used::Partition(3))];
        assert_eq!(goes(4, &recent), [3, 1, 2, 1], "0 joins site 3, and 3 follows 1");
        let all: Vec<_> = (0..9).map(|number| with(number, Used::At(SiteId(2)))).collect();
        assert_eq!(goes(9, &all), [2, 2, 2, 2, 2, 2, 1, 3, 1], "twice the mean of three");
    }
}
