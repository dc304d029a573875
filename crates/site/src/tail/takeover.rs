//! Computes the history of failed sites from the knowledge of the remaining ones: a pure function.

use super::{Fenced, FrameBytes, TailCopy, TailFrame, Unended, note_unended, note_versions};
use crate::frame::{FrameKind, TxnId};
use crate::place::Place;
use crate::record::FrameWriter;
use isomer_design::{SiteId, Time, Version};
use isomer_log::Position;
use std::collections::{BTreeMap, BTreeSet};

/// The work that lets other sites continue where a failed one has ended: see [`take_over`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// Where its log has ended; `None` if it masters no partition with backups.
    pub end: Option<Position>,
    /// Frames that followers may lack.
    pub frames: Vec<TailFrame>,
    /// The version of each partition to which these frames, and the stable ones before, lead.
    pub versions: BTreeMap<Place, Version>,
    /// Outcomes of transactions that it coordinated and that are in doubt elsewhere; `None`:
    /// aborted.
    pub outcomes: BTreeMap<TxnId, Option<Time>>,
    /// Transactions that it had decided to commit, and that not all participants have ended.
    pub decided: BTreeMap<TxnId, Time>,
    /// Partitions with a prepared write of its own whose coordinator cannot be asked.
    pub undecided: BTreeSet<Place>,
}

/// The knowledge that the remaining sites have of one that is down.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The knowledge of each remaining site.
    pub known: BTreeMap<SiteId, Fenced>,
    /// The site masters a partition with backups, so followers keep its tail. Otherwise any tail
    /// that a site still has is an old one.
    pub is_kept: bool,
    /// Its whole log, if the log outlives its process. Tails do not matter then.
    pub log: Option<TailCopy>,
}

impl Lost {
    /// The end of its log: what is left of the log itself, or the longest tail of its last run.
    /// `None` if it masters no partition with backups.
    fn tail(&self, site: SiteId) -> Result<Option<&TailCopy>, String> {
        if self.log.is_some() {
            return Ok(self.log.as_ref());
        }
        if !self.is_kept {
            return match self.known.values().find_map(|fenced| fenced.in_doubt.first()) {
                Some(txn) => Err(format!(
                    "no site has kept the end of the log of {site}, and {txn} is in doubt"
                )),
                None => Ok(None),
            };
        }
        // It may have had the only copy of a vote, also if the design no longer has its replicas.
        if let Some((other, _)) = self.known.iter().find(|(_, fenced)| fenced.has_lost_tail) {
            return Err(format!("{other} has lost the end of the log of {site} in a restart"));
        }
        let run = self.known.values().map(|fenced| fenced.run).max().unwrap_or(0);
        let tails = self.known.values().filter(|fenced| fenced.run == run);
        // A site that follows it no longer may keep an old tail. It counts beside a newer one only:
        // it may have been promoted a moment ago, in a takeover that was interrupted.
        let is_new = tails.clone().any(|fenced| fenced.follows && fenced.tail.is_some());
        let longest = tails.filter_map(|fenced| fenced.tail.as_ref()).max_by_key(|t| t.received);
        let none = || format!("no site that can be reached has the end of the log of {site}");
        longest.filter(|_| is_new).map(Some).ok_or_else(none)
    }

    /// The frames of the history that a follower may lack.
    fn lacking(&self, tail: &TailCopy) -> Vec<TailFrame> {
        let heard = self.known.values().filter_map(|fenced| fenced.heard).min();
        let from = heard.filter(|_| self.log.is_some()).unwrap_or(0);
        tail.frames.iter().filter(|frame| frame.position > from).cloned().collect()
    }
}

/// The transactions over several sites that a log has left open.
fn left_open(tail: &TailCopy) -> BTreeMap<TxnId, Unended> {
    let mut unended: BTreeMap<TxnId, Unended> = tail.before.unended.iter().cloned().collect();
    tail.frames.iter().for_each(|frame| note_unended(&mut unended, &frame.bytes.0));
    unended
}

/// Computes the history of failed sites from the knowledge of the remaining ones. A transaction
/// that was prepared at one failed site and coordinated by another ends as the coordinator's tail
/// says.
///
/// # Errors
/// A message, if no remaining site has a tail that is needed.
pub fn take_over(lost: &BTreeMap<SiteId, Lost>) -> Result<BTreeMap<SiteId, TakeOver>, String> {
    let mut tails = BTreeMap::new();
    for (site, of) in lost {
        tails.extend(of.tail(*site)?.map(|tail| (*site, (tail, left_open(tail)))));
    }
    // The outcome of a transaction, if its coordinator or the coordinator's tail can be asked.
    let outcome = |of: &Lost, txn: &TxnId| match (tails.get(&txn.coordinator), lost) {
        (Some((_, unended)), _) => Some(decided(unended).find(|(t, _)| t == txn)),
        (None, lost) if lost.contains_key(&txn.coordinator) => None,
        (None, _) => {
            let coordinator = of.known.get(&txn.coordinator)?;
            Some(coordinator.decided.iter().copied().find(|(t, _)| t == txn))
        }
    };
    let mut found = BTreeMap::new();
    for (site, of) in lost {
        let Some((tail, unended)) = tails.get(site) else {
            found.insert(*site, TakeOver::default());
            continue;
        };
        let (end, frames) = (Some(tail.received), of.lacking(tail));
        let mut over = TakeOver { end, frames, ..TakeOver::default() };
        for (txn, how) in unended {
            let Unended::Prepared(frame) = how else { continue };
            match outcome(of, txn) {
                Some(Some((_, at))) => {
                    // If no other site takes over, the failed site's own log continues there.
                    let (position, bytes) = (tail.received, ended(*txn, frame, at));
                    over.frames.push(TailFrame { position, bytes });
                }
                Some(None) => {}
                None => {
                    let (_, records) = frame.read();
                    over.undecided.extend(records.into_iter().map(|r| (r.table, r.start)));
                }
            }
        }
        over.versions = tail.before.versions.iter().cloned().collect();
        for frame in tail.frames.iter().chain(&over.frames) {
            note_versions(&mut over.versions, &frame.bytes.0);
        }
        let decided_here: BTreeMap<TxnId, Time> = decided(unended).collect();
        let in_doubt = of.known.values().flat_map(|fenced| &fenced.in_doubt);
        over.outcomes = in_doubt.map(|txn| (*txn, decided_here.get(txn).copied())).collect();
        over.decided = decided_here;
        found.insert(*site, over);
    }
    Ok(found)
}

/// The transactions that a coordinator has decided to commit, with their commit times.
fn decided(unended: &BTreeMap<TxnId, Unended>) -> impl Iterator<Item = (TxnId, Time)> {
    unended.iter().filter_map(|(txn, how)| match how {
        Unended::Decided(at) => Some((*txn, *at)),
        Unended::Prepared(_) => None,
    })
}

/// Builds the end frame of a transaction from its prepare frame.
fn ended(txn: TxnId, prepared: &FrameBytes, at: Time) -> FrameBytes {
    let (_, records) = prepared.read();
    let mut frame = FrameWriter::new(FrameKind::End(txn));
    records.iter().for_each(|record| frame.record(record));
    FrameBytes::of(frame.finish(at))
}

#[cfg(test)]
mod tests {
    use super::super::{Settled, Tail};
    use super::*;
    use isomer_design::{Key, SiteSet, TableId};

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);
    const S3: SiteId = SiteId(3);
    const T: TableId = TableId(1);

    fn txn(coordinator: SiteId, number: u64) -> TxnId {
        TxnId { coordinator, incarnation: 7, number }
    }

    /// A frame that writes to partitions, each of them from the given version.
    fn frame(position: Position, kind: FrameKind, writes: &[(i64, Version)]) -> TailFrame {
        let mut frame = FrameWriter::new(kind);
        for (start, previous) in writes {
            frame.open_write(T, &Key::int(*start), *previous);
            frame.row(&Key::int(*start), Some(b"row"));
            frame.close_write();
        }
        TailFrame { position, bytes: FrameBytes::of(frame.finish(Time(position))) }
    }

    fn tail(frames: Vec<TailFrame>) -> Option<TailCopy> {
        let received = frames.last().map_or(0, |frame| frame.position);
        Some(TailCopy { received, frames, before: Settled::default() })
    }

    fn follower(run: u64, tail: Option<TailCopy>) -> Fenced {
        Fenced { run, tail, follows: true, ..Fenced::default() }
    }

    fn known(fenced: [(SiteId, Fenced); 2]) -> BTreeMap<SiteId, Fenced> {
        BTreeMap::from(fenced)
    }

    /// The history of s1 alone.
    fn take_over_s1(known: BTreeMap<SiteId, Fenced>) -> Result<TakeOver, String> {
        let found = take_over(&BTreeMap::from([(S1, Lost { known, is_kept: true, log: None })]));
        found.map(|mut found| found.remove(&S1).expect("it was asked for"))
    }

    fn versions(found: &TakeOver) -> Vec<(i64, Version)> {
        let start = |key: &Key| (0..100).find(|at| Key::int(*at) == *key).expect("a small one");
        found.versions.iter().map(|((_, key), version)| (start(key), *version)).collect()
    }

    #[test]
    fn the_longest_tail_of_the_last_run_is_history() {
        let (first, second) = (
            frame(10, FrameKind::Commit, &[(5, 4)]),
            frame(20, FrameKind::Commit, &[(0, 7), (5, 5)]),
        );
        let short = follower(3, tail(vec![first.clone()]));
        let long = follower(3, tail(vec![first.clone(), second]));
        let found =
            take_over_s1(known([(S2, short.clone()), (S3, long)])).expect("there is a tail");
        assert_eq!(versions(&found), [(0, 8), (5, 6)]);

        let lines = vec![first, frame(90, FrameKind::Commit, &[(5, 5)])];
        let old = follower(2, tail(lines));
        let found = take_over_s1(known([(S2, short), (S3, old.clone())])).expect("there is a tail");
        assert_eq!(versions(&found), [(5, 5)], "what an earlier run had in doubt is not");

        let heard = follower(3, None);
        let refused = take_over_s1(known([(S2, heard), (S3, old)])).expect_err("of this run");
        assert!(refused.contains("the end of the log of s1"), "{refused}");
    }

    #[test]
    fn the_tail_of_a_site_that_follows_no_longer_may_be_an_old_one() {
        let frames = vec![frame(10, FrameKind::Commit, &[(5, 4)])];
        let left = Fenced { follows: false, ..follower(3, tail(frames.clone())) };
        // A new follower has not received the tail yet, and s1 may have decided since.
        let refused = take_over_s1(known([(S2, left.clone()), (S3, follower(3, None))]));
        let refused = refused.expect_err("an old tail");
        assert!(refused.contains("the end of the log of s1"), "{refused}");
        // It was promoted a moment ago, and has received more than a site that still follows.
        let found = take_over_s1(known([(S2, left), (S3, follower(3, tail(vec![])))]));
        assert_eq!(versions(&found.expect("there is a tail")), [(5, 5)]);
    }

    #[test]
    fn what_it_was_prepared_for_ends_as_the_coordinator_says() {
        let [committed, aborted, lost] = [txn(S2, 1), txn(S2, 2), txn(SiteId(9), 3)];
        let frames = vec![
            frame(10, FrameKind::Prepare(committed), &[(5, 4)]),
            frame(20, FrameKind::Prepare(aborted), &[(6, 4)]),
            frame(30, FrameKind::Prepare(lost), &[(7, 4)]),
            frame(40, FrameKind::Prepare(txn(S2, 4)), &[(8, 4)]),
            frame(50, FrameKind::End(txn(S2, 4)), &[(8, 4)]),
        ];
        let coordinator = Fenced { decided: vec![(committed, Time(77))], ..Fenced::default() };
        let backup = follower(1, tail(frames));
        let found =
            take_over_s1(known([(S2, coordinator), (S3, backup)])).expect("there is a tail");
        assert_eq!(versions(&found), [(5, 5), (8, 5)]);
        assert_eq!(found.undecided, BTreeSet::from([(T, Key::int(7))]));
        let last = found.frames.last().expect("the end of what was prepared");
        let (head, records) = last.bytes.read();
        assert_eq!((head.time, head.kind, records.len()), (Time(77), FrameKind::End(committed), 1));
    }

    #[test]
    fn what_it_had_decided_is_committed_and_all_else_that_it_coordinated_was_aborted() {
        let [decided, earlier, not] = [txn(S1, 1), txn(S1, 2), txn(S1, 3)];
        let kind = FrameKind::Decide { txn: decided, others: SiteSet::of(S2) };
        let mut kept = tail(vec![frame(10, kind, &[(0, 7)])]).expect("it is one");
        kept.before.unended = vec![(earlier, Unended::Decided(Time(5)))];
        let backup = follower(1, Some(kept));
        let doubtful = Fenced { in_doubt: vec![decided, earlier, not], ..Fenced::default() };
        let found = take_over_s1(known([(S2, doubtful), (S3, backup)])).expect("there is a tail");
        let expected = [(decided, Some(Time(10))), (earlier, Some(Time(5))), (not, None)];
        assert_eq!(found.outcomes, BTreeMap::from(expected));
    }

    #[test]
    fn sites_that_are_lost_together_say_of_each_other_what_became_of_a_transaction() {
        let [decided, not] = [txn(S1, 1), txn(S1, 2)];
        let kind = FrameKind::Decide { txn: decided, others: SiteSet::of(S2) };
        let of_s1 = tail(vec![frame(10, kind, &[(0, 7)])]);
        let of_s2 = tail(vec![
            frame(10, FrameKind::Prepare(decided), &[(5, 4)]),
            frame(20, FrameKind::Prepare(not), &[(6, 4)]),
        ]);
        let lost = |tail: Option<TailCopy>| {
            let is_kept = tail.is_some();
            let known = BTreeMap::from([(S3, follower(1, tail))]);
            Lost { known, is_kept, log: None }
        };
        let both = BTreeMap::from([(S1, lost(of_s1)), (S2, lost(of_s2.clone()))]);
        let found = take_over(&both).expect("there are both tails");
        assert_eq!(versions(&found[&S1]), [(0, 8)]);
        assert_eq!(versions(&found[&S2]), [(5, 5)]);
        assert!(found.values().all(|found| found.undecided.is_empty()));

        // Without the coordinator's tail, its decisions are unknown.
        let both = BTreeMap::from([(S1, lost(None)), (S2, lost(of_s2))]);
        let found = take_over(&both).expect("s1 masters nothing for others");
        let undecided = [5, 6].map(|start| (T, Key::int(start)));
        assert_eq!(found[&S2].undecided, BTreeSet::from(undecided));
    }

    #[test]
    fn a_tail_keeps_what_is_not_settled_and_what_that_has_left_open() {
        let mut kept = Tail::default();
        let push = |kept: &mut Tail, frame: TailFrame| kept.push(frame.position, &frame.bytes.0);
        let (open, over) = (txn(S2, 1), txn(S2, 2));
        push(&mut kept, frame(10, FrameKind::Prepare(open), &[(5, 4)]));
        push(&mut kept, frame(20, FrameKind::Prepare(over), &[(6, 4)]));
        push(&mut kept, frame(30, FrameKind::End(over), &[(6, 4)]));
        push(&mut kept, frame(40, FrameKind::Commit, &[(0, 1)]));
        kept.settle(30);
        assert_eq!(kept.frames.keys().copied().collect::<Vec<_>>(), [40]);
        assert_eq!(kept.unended.keys().copied().collect::<Vec<_>>(), [open]);
        // A stable frame that arrives late is not kept.
        push(&mut kept, frame(20, FrameKind::Prepare(over), &[(6, 4)]));
        assert_eq!((kept.frames.len(), kept.received), (1, 40));
        kept.settle(40);
        assert_eq!((kept.frames.len(), kept.bytes), (0, 0));
    }
}
