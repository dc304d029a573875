//! Followers that may have acknowledged more of a failed site's log than any site still has.

use isomer_design::{KeyRange, SiteId, TableId, Version};
use isomer_site::Fenced;
use std::collections::BTreeMap;
use std::fmt;

/// A partition with backups in memory, whose release the new master has not received. The failed
/// site `from` had released it, after the new master had acknowledged all earlier events.
pub(super) struct Released {
    pub(super) table: TableId,
    pub(super) range: KeyRange,
    pub(super) from: SiteId,
    pub(super) to: SiteId,
}

impl Released {
    /// True if the new master has restarted since, and may have lost events. `known` is the
    /// knowledge that the remaining sites have of the failed one.
    pub(super) fn is_forgotten(&self, known: &BTreeMap<SiteId, Fenced>) -> bool {
        known.get(&self.to).is_some_and(|fenced| fenced.has_lost_tail)
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Released { table, range, from, to } = self;
        write!(
            f,
            "{to} may have lost in a restart what it had of {table}{range}, which {from} has released to it"
        )
    }
}

/// Returns a follower without a tail that may have applied events past the longest tail. Promoting
/// any site then could expose half of a transaction.
///
/// A follower has no tail if it has begun to follow only now, or has restarted. If it had a tail
/// before the restart, others may have relied on the end of that. If it had none, it is beyond if
/// it has come further than the followers with a tail, which have applied all of it. The position
/// of a backup in memory is unknown, so it is always beyond.
pub(super) fn may_be_beyond(
    known: &BTreeMap<SiteId, Fenced>,
    standings: &[(Version, SiteId)],
    tailed: Version,
    on_disk: bool,
) -> Option<SiteId> {
    let run = known.values().map(|fenced| fenced.run).max();
    let has_tail = |site: &SiteId| Some(known[site].run) == run && known[site].tail.is_some();
    let (with, without): (Vec<_>, Vec<_>) =
        standings.iter().copied().partition(|(_, site)| has_tail(site));
    let reached = with.into_iter().map(|(version, _)| version).fold(tailed, Version::max);
    let is_beyond = |(version, site): &(Version, SiteId)| {
        known[site].has_lost_tail || !on_disk || *version > reached
    };
    without.into_iter().find(is_beyond).map(|(_, site)| site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_tail_is_no_further_than_those_who_have_it() {
        let [s1, s3] = [SiteId(1), SiteId(3)];
        let tail = Fenced { run: 7, tail: Some(Default::default()), ..Fenced::default() };
        let none = |run| Fenced { run, ..Fenced::default() };
        let beyond = |version, run, tailed, on_disk| {
            let known = BTreeMap::from([(s1, tail.clone()), (s3, none(run))]);
            may_be_beyond(&known, &[(4, s1), (version, s3)], tailed, on_disk)
        };
        // It was the master of the partition, and has just become a follower.
        assert_eq!(beyond(4, 7, 0, true), None);
        assert_eq!(beyond(3, 0, 0, true), None);
        // The tail goes further than the applied version of the follower that has it.
        assert_eq!(beyond(6, 7, 6, true), None);
        assert_eq!(beyond(5, 7, 0, true), Some(s3));
        // It may have acknowledged 5 and lost it.
        assert_eq!(beyond(4, 7, 0, false), Some(s3));
        // It may have had the tail before it restarted.
        let known =
            BTreeMap::from([(s1, tail.clone()), (s3, Fenced { has_lost_tail: true, ..none(7) })]);
        assert_eq!(may_be_beyond(&known, &[(4, s1), (4, s3)], 0, true), Some(s3));
        // A tail of an earlier run does not count.
        let old = Fenced { run: 6, ..tail.clone() };
        let known = BTreeMap::from([(s1, tail.clone()), (s3, old)]);
        assert_eq!(may_be_beyond(&known, &[(4, s1), (5, s3)], 0, true), Some(s3));
    }
}
