//! What the redo logs say: every commit in the one order of time, and every term.
//!
//! A log is read from its beginning, as recovery would; but where recovery builds partitions, this
//! only keeps account of who was master of what. Own events (frames without an origin) speak for the
//! site as master, refreshes only tell where the borders of its partitions are. A commit over several
//! sites is put together from their logs, with the coordinator's decision as its one witness.

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
    let mut across = Distributed::default();
    for (site, log) in logs {
        let mut account = Account::of(site);
        let read = log.read(log.begin(), &mut |position, frame| {
            let (head, records) = read_frame(frame).expect("sites write frames");
            // The position is that of the frame; the tail of a log is told by what is behind it.
            let is_void =
                |void: &Void| void.site == site && (void.from..void.until).contains(&position);
            records.iter().for_each(|record| account.enter(&head, record));
            if void.iter().any(is_void) {
                return ControlFlow::Continue(());
            }
            let writes = writes_of(&records);
            match head.kind {
                FrameKind::Refresh { .. } | FrameKind::Hears(..) => {}
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
    commits.sort_by_key(|commit| commit.time);
    (commits, terms)
}

/// That a site has taken a partition from another that was gone, or had not said that it has it.
struct Promoted {
    site: SiteId,
    table: TableId,
    range: KeyRange,
    at: Time,
}

/// A reign ends when another site takes the partition, whether or not its master knows. That may have cut it otherwise
/// meanwhile, which is no part of the history.
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

/// What replicas' logs hold of what was committed elsewhere.
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

/// Transactions over several sites: what the logs say of each.
#[derive(Default)]
struct Distributed {
    decided: BTreeMap<TxnId, (Time, Vec<Written>)>,
    prepared: BTreeMap<(TxnId, SiteId), Vec<Written>>,
    ended: BTreeMap<TxnId, Vec<(SiteId, Vec<Written>)>>,
}

impl Distributed {
    /// What was decided is committed, wherever it has ended already, or is still prepared.
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

/// What the records of a frame write.
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

/// A value from its bytes. Rows of another length are none of ours.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    bytes.try_into().map_or(Value::MIN, Value::from_le_bytes)
}

/// What one site holds, as its log tells it.
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
                // Of a mastership that others have taken, too.
                self.end_reign(place.clone(), head.time);
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
                // Reigns of different length are closed and begun anew, so that none is lost.
                let (begun, range) = (left.1, left.0.clone());
                *left = (KeyRange::new(range.start.clone(), right.end.clone()), left.1);
                if begun != since {
                    left.1 = begun.map(|_| head.time);
                    self.term(record.table, range, begun, Some(head.time));
                    self.term(record.table, right, since, Some(head.time));
                }
            }
            Event::Release { .. } if own => self.end_reign(place, head.time),
            Event::Acquire { .. } | Event::Promote { .. } if own => {
                if let Some((range, since)) = self.held.get_mut(&place) {
                    // Who has acquired it may be promoted: whoever asks had not heard.
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

    fn end_reign(&mut self, place: (TableId, Key), at: Time) {
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
