//! Reads the redo logs: every commit in the one order of time, and every term.
//!
//! A log is read from its beginning, as in recovery. Recovery builds partitions; this only tracks
//! the master of each partition. The site's own events (frames without an origin) show its
//! masterships; refreshes only show the bounds of its partitions. A commit over several sites is
//! assembled from their logs; it counts if the coordinator's log has the decision.

pub(crate) mod order;

use crate::history::{Commit, Copied, CopiedWhat, Term, Value, Written};
use crate::world::Void;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Log, MemoryLog};
use isomer_site::{Event, FrameHead, FrameKind, Record, TxnId, read_any_frame, read_frame};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Reads the logs of all sites.
pub(crate) fn read<'l>(
    logs: impl Iterator<Item = (SiteId, &'l MemoryLog)>,
    void: &[Void],
) -> (Vec<Commit>, Vec<Term>) {
    let (mut commits, mut terms, mut promoted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut across, mut batches) = (Distributed::default(), BTreeMap::<Time, Vec<_>>::new());
    for (site, log) in logs {
        let mut account = Account::of(site);
        let read = log.read(log.begin(), &mut |position, frame| {
            let (head, records) = read_frame(frame).expect("sites write frames");
            // `position` is the begin of the frame; a void range ends at the end of its last frame.
            let is_void =
                |void: &Void| void.site == site && (void.from..void.until).contains(&position);
            records.iter().for_each(|record| account.enter(&head, record));
            if void.iter().any(is_void) {
                return ControlFlow::Continue(());
            }
            let writes = writes_of(&records);
            match head.kind {
                FrameKind::Refresh { .. } | FrameKind::Hears(..) => {}
                FrameKind::Batch(_) => batches.entry(head.time).or_default().push((site, writes)),
                FrameKind::Commit if writes.is_empty() => {}
                FrameKind::Commit => commits.push(Commit::of(site, head.time, [(site, writes)])),
                FrameKind::Prepare(txn) => {
                    let (_, records) = read_any_frame(frame).expect("it was just read");
                    across.prepared.insert((txn, site), writes_of(&records));
                }
                FrameKind::Decide { txn, .. } => {
                    across.decided.insert(txn, (head.time, writes));
                }
                FrameKind::End(txn) => {
                    across.prepared.remove(&(txn, site));
                    across.ended.entry(txn).or_default().push((site, writes));
                }
            }
            ControlFlow::Continue(())
        });
        read.expect("a log in memory can be read from its beginning");
        promoted.append(&mut account.promoted);
        terms.extend(account.close());
    }
    cut_short(&mut terms, &promoted);
    commits.extend(across.commits());
    // The parts of a batch have one time, and no other frame of its partitions has.
    let parts =
        |(time, parts): (Time, Vec<(SiteId, Vec<Written>)>)| Commit::of(parts[0].0, time, parts);
    commits.extend(batches.into_iter().map(parts));
    commits.sort_by_key(|commit| commit.time);
    (commits, terms)
}

/// A site has taken over a partition from another that had failed, or had not reported its copy.
struct Promoted {
    site: SiteId,
    table: TableId,
    range: KeyRange,
    at: Time,
}

/// Ends each term at the time when another site takes the partition over, also if the old master
/// does not know of it. The old master may have split it differently since; that is not part of the
/// history.
fn cut_short(terms: &mut [Term], promoted: &[Promoted]) {
    for term in terms {
        let ends = |p: &&Promoted| {
            p.site != term.site
                && p.table == term.table
                && p.range.overlaps(&term.range)
                && p.at > term.from
        };
        let until = promoted.iter().filter(ends).map(|promoted| promoted.at).min();
        term.until = [until, term.until].into_iter().flatten().min();
    }
}

/// The items in replicas' logs that were committed at other sites.
pub(crate) fn copied<'l>(logs: impl Iterator<Item = (SiteId, &'l MemoryLog)>) -> Vec<Copied> {
    let mut copied = Vec::new();
    for (site, log) in logs {
        let read = log.read(log.begin(), &mut |position, frame| {
            let (head, records) = read_frame(frame).expect("sites write frames");
            for record in records.iter().filter(|_| head.kind.origin().is_some()) {
                let mut add = |what| {
                    copied.push(Copied { site, position, table: record.table, what });
                };
                match &record.event {
                    Event::Write(rows) => rows
                        .iter()
                        .for_each(|row| add(CopiedWhat::Row(Key::from_bytes(row.key), head.time))),
                    Event::Install(install) => {
                        add(CopiedWhat::Range(install.range.clone(), install.last));
                    }
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        });
        read.expect("a log in memory can be read from its beginning");
    }
    copied
}

/// Transactions over several sites, as the logs have them.
#[derive(Default)]
struct Distributed {
    decided: BTreeMap<TxnId, (Time, Vec<Written>)>,
    prepared: BTreeMap<(TxnId, SiteId), Vec<Written>>,
    ended: BTreeMap<TxnId, Vec<(SiteId, Vec<Written>)>>,
}

impl Distributed {
    /// Decided transactions are committed, whether their parts have ended or are still prepared.
    fn commits(mut self) -> impl Iterator<Item = Commit> {
        std::mem::take(&mut self.decided).into_iter().map(move |(txn, (time, writes))| {
            let own = (txn.coordinator, writes);
            let ended = self.ended.remove(&txn).unwrap_or_default();
            let prepared = self.prepared.iter().filter(|((of, _), _)| *of == txn);
            let prepared = prepared.map(|((_, site), writes)| (*site, writes.clone()));
            Commit::of(txn.coordinator, time, [own].into_iter().chain(ended).chain(prepared))
        })
    }
}

impl Commit {
    fn of(
        site: SiteId,
        time: Time,
        parts: impl IntoIterator<Item = (SiteId, Vec<Written>)>,
    ) -> Commit {
        let parts: Vec<_> = parts.into_iter().collect();
        let mut writes: Vec<Written> = parts.iter().flat_map(|(_, part)| part.clone()).collect();
        writes.sort();
        Commit { site, time, writes, parts }
    }
}

/// The writes of a frame's records.
fn writes_of(records: &[Record<'_>]) -> Vec<Written> {
    let mut writes = Vec::new();
    for record in records {
        let Event::Write(rows) = &record.event else { continue };
        writes.extend(rows.iter().map(|row| Written {
            table: record.table,
            key: Key::from_bytes(row.key),
            value: row.value.map(decode),
        }));
    }
    writes
}

/// The bytes of a value.
pub(crate) fn encode(value: Value) -> [u8; 8] {
    value.to_le_bytes()
}

/// The value in a row's bytes; of a stub, the site of the fused row below zero. Rows of another
/// length were not written by this simulation.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    if let Some(site) = isomer_cluster::fused_site(bytes) {
        return -Value::from(site.0);
    }
    bytes.try_into().map_or(Value::MIN, Value::from_le_bytes)
}

/// The partitions of one site, as its log has them.
struct Account {
    site: SiteId,
    /// By first key: the range, and since when the site is its master.
    held: BTreeMap<(TableId, Key), (KeyRange, Option<Time>)>,
    terms: Vec<Term>,
    promoted: Vec<Promoted>,
}

impl Account {
    fn of(site: SiteId) -> Account {
        Account { site, held: BTreeMap::new(), terms: Vec::new(), promoted: Vec::new() }
    }

    fn enter(&mut self, head: &FrameHead, record: &Record<'_>) {
        let place = (record.table, record.start.clone());
        let own = head.kind.origin().is_none();
        match &record.event {
            Event::Create { range, .. } => {
                self.held.insert(place, (range.clone(), Some(head.time)));
            }
            Event::Install(install) => {
                self.held.insert(place, (install.range.clone(), None));
            }
            // Not held before its install.
            Event::Copy { .. } => {}
            Event::Drop => {
                // Ends a term that others have taken over, too.
                self.end_term(place.clone(), head.time);
                self.held.remove(&place);
            }
            Event::Forget => self.held.retain(|(table, _), _| *table != record.table),
            Event::Split { at } => {
                let Some((range, since)) = self.held.remove(&place) else { return };
                let left = KeyRange::new(range.start, Some(at.clone()));
                let right = KeyRange::new(at.clone(), range.end);
                self.held.insert((record.table, at.clone()), (right, since));
                self.held.insert(place, (left, since));
            }
            Event::Merge { right, .. } => {
                let right = self.held.remove(&(record.table, right.clone()));
                let (Some((right, since)), Some(left)) = (right, self.held.get_mut(&place)) else {
                    return;
                };
                // Terms of different length are closed and begun again, so that none is lost.
                let (begun, range) = (left.1, left.0.clone());
                *left = (KeyRange::new(range.start.clone(), right.end.clone()), left.1);
                if begun != since {
                    left.1 = begun.map(|_| head.time);
                    self.term(record.table, range, begun, Some(head.time));
                    self.term(record.table, right, since, Some(head.time));
                }
            }
            Event::Release { .. } if own => self.end_term(place, head.time),
            Event::Acquire { .. } | Event::Promote { .. } if own => {
                if let Some((range, since)) = self.held.get_mut(&place) {
                    // A site that has acquired the partition may be promoted, if the router did not
                    // know.
                    since.get_or_insert(head.time);
                    if matches!(record.event, Event::Promote { .. }) {
                        let (site, table, range) = (self.site, record.table, range.clone());
                        self.promoted.push(Promoted { site, table, range, at: head.time });
                    }
                }
            }
            _ => {}
        }
    }

    fn end_term(&mut self, place: (TableId, Key), at: Time) {
        let Some((range, since)) = self.held.get_mut(&place) else { return };
        let (range, since) = (range.clone(), since.take());
        self.term(place.0, range, since, Some(at));
    }

    fn term(&mut self, table: TableId, range: KeyRange, from: Option<Time>, until: Option<Time>) {
        if let Some(from) = from {
            self.terms.push(Term { site: self.site, table, range, from, until });
        }
    }

    fn close(mut self) -> Vec<Term> {
        for ((table, _), (range, since)) in std::mem::take(&mut self.held) {
            self.term(table, range, since, None);
        }
        self.terms
    }
}
