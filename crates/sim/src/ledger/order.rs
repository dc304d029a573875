//! Reads the total order, and what the sites' logs have of its batches.
//!
//! ```text
//!   order      batch 43: a, b, c                        a, c applied at 930, says batch 44
//!   s1         frame of 43 at 930: 7 → stub s3            installed
//!   s3         frame of 43 at 930: (s3, t1, 7) → 12       installed
//!   clients    a wrote t1[7] = 12                         told
//! ```
//!
//! A commit names rows. Sites install them at their places: a fused row has a stub at its home.
//! A row that goes home keeps its value, and gets a version that no client has written
//! ([`Renewed`]).

use super::decode;
use crate::history::{Batch, Commit, History, Open, OpenStep, Value, Written};
use crate::world::Void;
use isomer_cluster::{fused_row, fused_site};
use isomer_design::{Key, SiteId, TableId, Time};
use isomer_log::{Log, MemoryLog};
use isomer_site::{
    Event, FrameKind, OrderedBatch, OrderedCommit, RowWrite, applied_writes, read_frame,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The order.
pub(crate) struct Ordered {
    pub(crate) batches: Vec<OrderedBatch>,
    /// The number of the fused table.
    pub(crate) fused: Option<TableId>,
    /// The times at which clients saw batches. In one process, sites may lose a batch that the
    /// order has. The batch is decided anew from the same rows: its outcome is the same, and its
    /// time is later.
    pub(crate) first: BTreeMap<u64, Time>,
}

/// The batches in the log of the order.
pub(crate) fn batches(log: &MemoryLog) -> Vec<OrderedBatch> {
    let mut batches = Vec::new();
    let read = log.read(log.begin(), &mut |_, frame| {
        batches.push(OrderedBatch::decode(frame).expect("the orderer writes batches"));
        ControlFlow::Continue(())
    });
    read.expect("a log in memory can be read from its beginning");
    batches
}

/// All that any log knows of each batch.
pub(crate) fn read(
    order: &[OrderedBatch],
    logs: &[(SiteId, Arc<MemoryLog>)],
    void: &[Void],
) -> Vec<Batch> {
    let mut all: BTreeMap<u64, Batch> = BTreeMap::new();
    for batch in order {
        of(&mut all, batch.number).commits = Some(batch.commits.len());
        for outcome in &batch.outcomes {
            let told = (History::NO_SITE, outcome.time, outcome.applied.clone());
            of(&mut all, outcome.number).outcomes.push(told);
        }
    }
    for (site, log) in logs {
        let read = log.read(log.begin(), &mut |position, frame| {
            let (head, records) = read_frame(frame).expect("sites write frames");
            let is_void =
                |void: &Void| void.site == *site && (void.from..void.until).contains(&position);
            let FrameKind::Batch(outcomes) = &head.kind else { return ControlFlow::Continue(()) };
            if void.iter().any(is_void) {
                return ControlFlow::Continue(());
            }
            for outcome in outcomes {
                let told = (*site, outcome.time, outcome.applied.clone());
                of(&mut all, outcome.number).outcomes.push(told);
            }
            let Some(own) = outcomes.last() else { return ControlFlow::Continue(()) };
            for record in &records {
                let Event::Write(rows) = &record.event else { continue };
                let table = record.table;
                of(&mut all, own.number).installed.extend(rows.iter().map(|row| {
                    let (key, value) = (Key::from_bytes(row.key), row.value.map(<[u8]>::to_vec));
                    (*site, RowWrite { table, key, value })
                }));
            }
            ControlFlow::Continue(())
        });
        read.expect("a log in memory can be read from its beginning");
    }
    for batch in order {
        let known = of(&mut all, batch.number);
        let commits: Vec<&OrderedCommit> = batch.commits.iter().collect();
        if let Some((_, _, applied)) = known.outcomes.first() {
            known.ordered = applied_writes(&commits, applied);
        }
    }
    copy(&mut all, logs);
    all.into_values().collect()
}

/// Adds what replicas have got of each batch. Batches are known by their times; two of them at
/// other sites may have the same.
fn copy(all: &mut BTreeMap<u64, Batch>, logs: &[(SiteId, Arc<MemoryLog>)]) {
    let mut numbers: BTreeMap<Time, Vec<u64>> = BTreeMap::new();
    for batch in all.values() {
        let times: BTreeSet<Time> = batch.outcomes.iter().map(|(_, time, _)| *time).collect();
        times.into_iter().for_each(|time| numbers.entry(time).or_default().push(batch.number));
    }
    for (site, log) in logs {
        let read = log.read(log.begin(), &mut |_, frame| {
            let (head, records) = read_frame(frame).expect("sites write frames");
            let numbers = numbers.get(&head.time).filter(|_| head.kind.origin().is_some());
            let Some(numbers) = numbers else { return ControlFlow::Continue(()) };
            for record in &records {
                let Event::Write(rows) = &record.event else { continue };
                for row in rows.iter() {
                    let (key, value) = (Key::from_bytes(row.key), row.value.map(<[u8]>::to_vec));
                    let row = RowWrite { table: record.table, key, value };
                    let is_of = |number: &&u64| {
                        let mut ordered = all[number].ordered.iter();
                        ordered.any(|it| (it.table, &it.key) == (row.table, &row.key))
                    };
                    let number = numbers.iter().find(is_of).unwrap_or(&numbers[0]);
                    of(all, *number).copied.push((*site, row));
                }
            }
            ControlFlow::Continue(())
        });
        read.expect("a log in memory can be read from its beginning");
    }
}

fn of(all: &mut BTreeMap<u64, Batch>, number: u64) -> &mut Batch {
    all.entry(number).or_insert_with(|| Batch {
        number,
        commits: None,
        outcomes: Vec::new(),
        ordered: Vec::new(),
        installed: Vec::new(),
        copied: Vec::new(),
    })
}

/// Versions of rows that were not written by a client, and those whose values they have.
#[derive(Default)]
pub(crate) struct Renewed(BTreeMap<(TableId, Key, Time), Time>);

impl Renewed {
    /// Puts the versions that clients wrote in place of those that moves made.
    pub(crate) fn normalise(&self, opens: &mut [Open]) {
        for step in opens.iter_mut().flat_map(|open| &mut open.steps) {
            if let OpenStep::Locked { table, key, base: Some(base), .. }
            | OpenStep::Write { table, key, base: Some(base), .. } = step
                && let Some(written) = self.0.get(&(*table, key.clone(), *base))
            {
                *base = *written;
            }
        }
    }
}

impl Renewed {
    /// The rows, and when they got these versions.
    pub(crate) fn places(self) -> Vec<(TableId, Key, Time)> {
        self.0.into_keys().collect()
    }
}

/// The commits as clients asked for them, with those that are not ordered, and the versions of rows
/// that were moved.
pub(crate) fn told(
    installed: &[Commit],
    order: &Ordered,
    batches: &[Batch],
) -> (Vec<Commit>, Renewed) {
    let known: BTreeMap<u64, &Batch> = batches.iter().map(|it| (it.number, it)).collect();
    let is_of_batch = |commit: &&Commit| {
        let mut outcomes = batches.iter().flat_map(|batch| &batch.outcomes);
        outcomes.any(|(_, time, _)| *time == commit.time)
    };
    let at: BTreeMap<Time, SiteId> =
        installed.iter().filter(is_of_batch).map(|commit| (commit.time, commit.site)).collect();
    let mut commits: Vec<Commit> =
        installed.iter().filter(|commit| !at.contains_key(&commit.time)).cloned().collect();
    // All others come before: their tables were filled before they were ordered.
    let mut rows = Rows::new();
    for commit in &commits {
        enter(&mut rows, &commit.writes, commit.time);
    }
    let mut renewed = Renewed::default();
    for batch in &order.batches {
        let outcome = known.get(&batch.number).and_then(|known| known.outcomes.first());
        let Some((_, installed, applied)) = outcome else { continue };
        let site = at.get(installed).copied().unwrap_or(History::NO_SITE);
        let time = order.first.get(&batch.number).copied().unwrap_or(*installed);
        for (commit, _) in batch.commits.iter().zip(applied).filter(|(_, applied)| **applied) {
            let writes = asked_for(commit, order.fused, *installed, (&rows, &mut renewed));
            if writes.is_empty() {
                continue;
            }
            enter(&mut rows, &writes, time);
            if time != *installed {
                let place = |write: &Written| (write.table, write.key.clone(), *installed);
                renewed.0.extend(writes.iter().map(|write| (place(write), time)));
            }
            commits.push(Commit { site, time, writes, parts: Vec::new() });
        }
    }
    commits.sort_by_key(|commit| commit.time);
    (commits, renewed)
}

/// The value of each row, and the time of its commit.
type Rows = BTreeMap<(TableId, Key), (Value, Time)>;

fn enter(rows: &mut Rows, writes: &[Written], time: Time) {
    for Written { table, key, value } in writes {
        match value {
            Some(value) => drop(rows.insert((*table, key.clone()), (*value, time))),
            None => drop(rows.remove(&(*table, key.clone()))),
        }
    }
}

/// The writes of a commit as its client asked for them, before they were placed.
fn asked_for(
    commit: &OrderedCommit,
    fused: Option<TableId>,
    time: Time,
    (rows, renewed): (&Rows, &mut Renewed),
) -> Vec<Written> {
    let mut asked = BTreeMap::new();
    for (&table, written) in &commit.writes {
        for (place, write) in written {
            let row = write.row.as_deref();
            if Some(table) != fused {
                if row.and_then(fused_site).is_none() {
                    asked.insert((table, place.clone()), row.map(decode));
                }
            } else if let (Some((_, table, key)), Some(row)) = (fused_row(place), row) {
                asked.insert((table, key), Some(decode(row)));
            }
        }
    }
    asked.retain(|place, value| {
        let there = rows.get(place).copied();
        match (there, *value) {
            (None, None) => false,
            (Some((before, since)), Some(value)) if before == value => {
                renewed.0.insert((place.0, place.1.clone(), time), since);
                false
            }
            _ => true,
        }
    });
    asked.into_iter().map(|((table, key), value)| Written { table, key, value }).collect()
}
