//! Serializability of SERIALIZABLE transactions: there is no dependency cycle, and the commit times
//! define a serial order.
//!
//! Values are never written twice, so the history is one of lists that [`isomer_check`] can judge.
//! Each version of a key, also a deletion, is a number that its commit appends. A reader of a
//! version reads the list up to it. A read of a range is a read of all keys that were ever in it.
//!
//! ```text
//!   commits     1: t1[5] = 7      2: t1[5] deleted      3: t1[6] = 9
//!   a reads t1[5..8) and finds nothing, at the time of 2           as lists: t1[5] [1 2], t1[6] []
//!   a commits as 4                                                 3 appends to t1[6] unseen by a: a, 3, not 3, a
//! ```
//!
//! Other transactions run at snapshot isolation: their reads and their commit have two different
//! times.

use crate::history::{Commit, History, Op, Open, OpenStep, Outcome, Value, Written};
use isomer_check::{self as check, Level};
use isomer_cluster::Isolation;
use isomer_design::{Key, KeyRange, TableId, Time};
use std::collections::{BTreeMap, BTreeSet};

type Place = (TableId, Key);

/// A version of a key: its commit time, its number, and its value.
type Version = (Time, i64, Option<Value>);

/// All versions of each key, in the order of time.
type Versions = BTreeMap<Place, Vec<Version>>;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the anomaly, and its story.
pub fn serializable(history: &History) -> Result<(), String> {
    let promised = |open: &&Open| open.isolation == Isolation::Serializable || history.is_ordered();
    let opens: Vec<(&Open, Option<usize>)> = history
        .opens
        .iter()
        .filter(promised)
        .filter_map(|open| Some((open, place_of(history, open)?)))
        .collect();
    if opens.is_empty() {
        return Ok(());
    }
    let versions = versions(history);
    if let Some(anomaly) = check::judge(&lists(history, &versions, &opens)).first() {
        return Err(anomaly.to_string());
    }
    let committed = opens.iter().filter_map(|(open, commit)| Some((open, (*commit)?)));
    let mut timed = committed.map(|(open, at)| (open, history.commits[at].time));
    timed.try_for_each(|(open, time)| holds_at(open, &versions, time))
}

/// The commit of an open transaction; `Some(None)` if it has only read, `None` if it is not known
/// to have committed.
fn place_of(history: &History, open: &Open) -> Option<Option<usize>> {
    match &open.outcome {
        Outcome::Committed { site, commit: Some(time), .. } => {
            if open.written().is_empty() && history.is_ordered() {
                return Some(None);
            }
            // A batch has several commits at one time.
            let mut at = history.at(*site, *time);
            let commit = at.find(|commit| wrote(open, commit));
            let commit = commit.or_else(|| history.at(*site, *time).next())?;
            history.commits.iter().position(|other| std::ptr::eq(other, commit)).map(Some)
        }
        Outcome::Committed { commit: None, .. } => Some(None),
        Outcome::Nothing(why) => (why == Open::ONLY_READ).then_some(None),
        Outcome::Unknown => {
            let left = open.left();
            let ((table, key), (value, _)) = left.iter().find(|(_, (value, _))| value.is_some())?;
            let time = history.written(*table, key, *value)?.time;
            let wrote = |commit: &Commit| {
                commit.time == time && commit.writes.iter().any(|write| write.value == *value)
            };
            history.commits.iter().position(wrote).map(Some)
        }
    }
}

/// True if a commit has the rows that a transaction wrote.
fn wrote(open: &Open, commit: &Commit) -> bool {
    let row = |write: &Written| Op::Write(write.table, write.key.clone(), write.value);
    commit.writes.iter().map(row).eq(open.written())
}

fn versions(history: &History) -> Versions {
    let mut versions = Versions::new();
    for (number, commit) in history.commits.iter().enumerate() {
        for write in &commit.writes {
            let place = (write.table, write.key.clone());
            versions.entry(place).or_default().push((commit.time, number as i64, write.value));
        }
    }
    versions
}

/// A transaction for each commit, and for each that has only read; the last one reads all keys.
fn lists(
    history: &History,
    versions: &Versions,
    opens: &[(&Open, Option<usize>)],
) -> check::History {
    let mut transactions: Vec<check::Transaction> = Vec::new();
    for (number, commit) in history.commits.iter().enumerate() {
        let append = |write: &Written| {
            check::Op::Append(name(&(write.table, write.key.clone())), number as i64)
        };
        transactions.push(check::Transaction {
            name: format!("commit@{}", commit.time),
            level: Level::Snapshot,
            statements: vec![commit.writes.iter().map(append).collect()],
            ..check::Transaction::default()
        });
    }
    for (open, commit) in opens {
        let reads = seen(open, versions, commit.map(|at| history.commits[at].time));
        let ops = reads.into_iter().map(|(place, numbers)| check::Op::Read(name(place), numbers));
        let (level, name) = (Level::Serializable, format!("open{}", open.number));
        match commit {
            Some(at) => {
                let transaction = &mut transactions[*at];
                (transaction.level, transaction.name) = (level, name);
                transaction.statements[0].splice(0..0, ops);
            }
            None => transactions.push(check::Transaction {
                name,
                level,
                statements: vec![ops.collect()],
                ..check::Transaction::default()
            }),
        }
    }
    let all = |(place, versions): (&Place, &Vec<Version>)| {
        check::Op::Read(name(place), versions.iter().map(|(_, number, _)| *number).collect())
    };
    transactions.push(check::Transaction {
        name: "the end".to_owned(),
        statements: vec![versions.iter().map(all).collect()],
        ..check::Transaction::default()
    });
    check::History { transactions }
}

fn name((table, key): &Place) -> String {
    format!("{table}[{key}]")
}

/// The versions of other transactions that a transaction has seen: for each key that it has read,
/// all versions up to the one that was there. A row that was inserted and deleted between its reads
/// and its commit does not count.
fn seen<'v>(
    open: &Open,
    versions: &'v Versions,
    commit: Option<Time>,
) -> BTreeMap<&'v Place, Vec<i64>> {
    let mut seen = BTreeMap::new();
    let mut own: BTreeSet<Place> = BTreeSet::new();
    let mut see = |own: &BTreeSet<Place>, place: &Place, value: Option<Value>, at: Time| {
        if own.contains(place) {
            return;
        }
        if let Some((place, all)) = versions.get_key_value(place) {
            let written = |version: &Version| version.2 == value;
            // The value identifies the version, unless the row is missing.
            let count = match value.and_then(|_| all.iter().position(written)) {
                Some(found) => found + 1,
                None => missing(all, at, commit),
            };
            seen.insert(place, all[..count].iter().map(|(_, number, _)| *number).collect());
        }
    };
    for step in &open.steps {
        match step {
            OpenStep::Read(Some(at), Op::Read(table, key, value)) => {
                see(&own, &(*table, key.clone()), *value, *at);
            }
            OpenStep::Read(Some(at), Op::Scan(table, range, rows)) => {
                let found: BTreeMap<&Key, Value> = rows.iter().map(|(key, v)| (key, *v)).collect();
                for place in keys_in(versions, *table, range) {
                    see(&own, place, found.get(&place.1).copied(), *at);
                }
            }
            // Of a row of an ordered table, which nothing locks, its newest version was read. The
            // time at which a row was missing is not known then.
            OpenStep::Locked { value: None, snapshot: None, .. } if commit.is_none() => {}
            OpenStep::Locked { table, key, value, snapshot, acknowledged, .. } => {
                see(&own, &(*table, key.clone()), *value, snapshot.unwrap_or(*acknowledged));
            }
            OpenStep::Write { table, key, .. } => {
                // Its earlier reads are recorded. Later reads may return this write, even if it is
                // rolled back.
                own.insert((*table, key.clone()));
            }
            _ => {}
        }
    }
    seen
}

/// The number of versions of a missing key: at the commit, if it is still missing then, or else in
/// the snapshot.
fn missing(all: &[Version], at: Time, commit: Option<Time>) -> usize {
    let then = commit.map(|commit| all.partition_point(|(time, ..)| *time < commit));
    let is_missing = |count: &usize| *count == 0 || all[count - 1].2.is_none();
    then.filter(is_missing).unwrap_or_else(|| all.partition_point(|(time, ..)| *time <= at))
}

fn keys_in<'v>(
    versions: &'v Versions,
    table: TableId,
    range: &KeyRange,
) -> impl Iterator<Item = &'v Place> {
    let from = (table, range.start.clone());
    let inside = move |(place, _): &(&Place, _)| place.0 == table && range.is_below_end(&place.1);
    let keys: Vec<&Place> =
        versions.range(from..).take_while(inside).map(|(place, _)| place).collect();
    keys.into_iter()
}

/// Checks that the reads of a transaction are unchanged at its commit.
fn holds_at(open: &Open, versions: &Versions, commit: Time) -> Result<(), String> {
    for (place, numbers) in seen(open, versions, Some(commit)) {
        let before = versions[place].partition_point(|(time, ..)| *time < commit);
        if before != numbers.len() {
            return Err(format!(
                "open transaction {} committed at {commit}, and has read {} as it was {} commits of that key before",
                open.number,
                name(place),
                before.abs_diff(numbers.len())
            ));
        }
    }
    Ok(())
}
