//! What was history at a site that is gone, from what those that are left know of it.

use super::{Fenced, FrameBytes, TailFrame, Unended, note_unended, note_versions};
use crate::backup::Place;
use crate::frame::{FrameKind, TxnId};
use crate::record::FrameWriter;
use isomer_design::{SiteId, Time, Version};
use isomer_log::Position;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be done so that others go on where a site has ended. See [`take_over`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// Where its log has ended; `None`: it masters nothing of what others would have kept that.
    pub end: Option<Position>,
    /// What followers may lack.
    pub frames: Vec<TailFrame>,
    /// The version of each partition that these frames, and those before them, lead to.
    pub versions: BTreeMap<Place, Version>,
    /// What became of the transactions that it coordinated, and somebody is in doubt of; `None`: they were aborted.
    pub outcomes: BTreeMap<TxnId, Option<Time>>,
    /// Partitions that it was prepared to write for a coordinator that cannot be asked.
    pub undecided: BTreeSet<Place>,
}

/// Works out what was history at a site that is gone, from what the sites that are left know of it. `is_kept`: it
/// masters something with backups, so whoever follows that keeps its tail; without, a tail that somebody has is an old one.
///
/// # Errors
/// In words, if nobody has its tail, and that is needed.
pub fn take_over(known: &BTreeMap<SiteId, Fenced>, is_kept: bool) -> Result<TakeOver, String> {
    if !is_kept {
        return match known.values().find_map(|fenced| fenced.in_doubt.first()) {
            Some(txn) => Err(format!("nobody has kept the end of its log, and {txn} is in doubt")),
            None => Ok(TakeOver::default()),
        };
    }
    let run = known.values().map(|fenced| fenced.run).max().unwrap_or(0);
    let tails = known.values().filter(|fenced| fenced.run == run);
    let tail = tails.filter_map(|fenced| fenced.tail.as_ref()).max_by_key(|tail| tail.received);
    let tail = tail.ok_or("no site that can be reached has the end of its log")?;
    let mut unended: BTreeMap<TxnId, Unended> = tail.before.unended.iter().cloned().collect();
    tail.frames.iter().for_each(|frame| note_unended(&mut unended, &frame.bytes.0));

    let (end, frames) = (Some(tail.received), tail.frames.clone());
    let mut found = TakeOver { end, frames, ..TakeOver::default() };
    let mut decided_here = BTreeMap::new();
    for (txn, how) in unended {
        match (how, known.get(&txn.coordinator)) {
            (Unended::Decided(at), _) => drop(decided_here.insert(txn, at)),
            (Unended::Prepared(frame), Some(coordinator)) => {
                let at = coordinator.decided.iter().find(|(other, _)| *other == txn);
                if let Some((_, at)) = at {
                    // Its own log goes on from there, should nobody take over.
                    let (position, bytes) = (tail.received, ended(txn, &frame, *at));
                    found.frames.push(TailFrame { position, bytes });
                }
            }
            (Unended::Prepared(frame), None) => {
                let (_, records) = frame.read();
                found.undecided.extend(records.into_iter().map(|r| (r.table, r.start)));
            }
        }
    }
    found.versions = tail.before.versions.iter().cloned().collect();
    for frame in &found.frames {
        note_versions(&mut found.versions, &frame.bytes.0);
    }
    let in_doubt = known.values().flat_map(|fenced| &fenced.in_doubt);
    found.outcomes = in_doubt.map(|txn| (*txn, decided_here.get(txn).copied())).collect();
    Ok(found)
}

/// The end of what is prepared in a frame.
fn ended(txn: TxnId, prepared: &FrameBytes, at: Time) -> FrameBytes {
    let (_, records) = prepared.read();
    let mut frame = FrameWriter::new(FrameKind::End(txn));
    records.iter().for_each(|record| frame.record(record));
    FrameBytes::of(frame.finish(at))
}

#[cfg(test)]
mod tests {
    use super::super::{Settled, Tail, TailCopy};
    use super::*;
    use isomer_design::{Key, SiteSet, TableId};

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);
    const S3: SiteId = SiteId(3);
    const T: TableId = TableId(1);

    fn txn(coordinator: SiteId, number: u64) -> TxnId {
        TxnId { coordinator, incarnation: 7, number }
    }

    /// A frame that writes to partitions, each from a version.
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

    fn known(fenced: [(SiteId, Fenced); 2]) -> BTreeMap<SiteId, Fenced> {
        BTreeMap::from(fenced)
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
        let short = Fenced { run: 3, tail: tail(vec![first.clone()]), ..Fenced::default() };
        let long = Fenced { run: 3, tail: tail(vec![first.clone(), second]), ..Fenced::default() };
        let found =
            take_over(&known([(S2, short.clone()), (S3, long)]), true).expect("there is a tail");
        assert_eq!(versions(&found), [(0, 8), (5, 6)]);

        let lines = vec![first, frame(90, FrameKind::Commit, &[(5, 5)])];
        let old = Fenced { run: 2, tail: tail(lines), ..Fenced::default() };
        let found =
            take_over(&known([(S2, short), (S3, old.clone())]), true).expect("there is a tail");
        assert_eq!(versions(&found), [(5, 5)], "what an earlier run had in doubt is not");

        let heard = Fenced { run: 3, tail: None, ..Fenced::default() };
        let refused = take_over(&known([(S2, heard), (S3, old)]), true).expect_err("of this run");
        assert!(refused.contains("the end of its log"), "{refused}");
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
        let backup = Fenced { run: 1, tail: tail(frames), ..Fenced::default() };
        let found =
            take_over(&known([(S2, coordinator), (S3, backup)]), true).expect("there is a tail");
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
        let backup = Fenced { run: 1, tail: Some(kept), ..Fenced::default() };
        let doubtful = Fenced { in_doubt: vec![decided, earlier, not], ..Fenced::default() };
        let found =
            take_over(&known([(S2, doubtful), (S3, backup)]), true).expect("there is a tail");
        let expected = [(decided, Some(Time(10))), (earlier, Some(Time(5))), (not, None)];
        assert_eq!(found.outcomes, BTreeMap::from(expected));
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
        // What comes late is settled as well.
        push(&mut kept, frame(20, FrameKind::Prepare(over), &[(6, 4)]));
        assert_eq!((kept.frames.len(), kept.received), (1, 40));
        kept.settle(40);
        assert_eq!((kept.frames.len(), kept.bytes), (0, 0));
    }
}
