//! Snapshot isolation: a transaction reads, of every key, the newest commit at or before its
//! snapshot (and its own writes). Between its snapshot and its commit no other transaction commits
//! a write of a key that it writes.
//!
//! ```text
//!   commits of key 5      10 ───────── 20 ─────────────── 40
//!   transaction                 snapshot 25 ··· commit 50      lost update: 40 is in between
//!                               reads 10                       stale: 20 is missing
//!                               reads 40                       read skew: 40 is later
//! ```
//!
//! Violations are reported under the names that the literature uses.

use crate::history::{History, Op, Outcome, Transaction, Value};
use isomer_design::{Key, KeyRange, TableId, Time};
use std::collections::BTreeMap;

type Place = (TableId, Key);

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the anomaly, the transaction and the key.
pub fn snapshot_isolation(history: &History) -> Result<(), String> {
    for transaction in &history.transactions {
        let Outcome::Committed { site, snapshot, commit } = &transaction.outcome else { continue };
        let wrong = reads(history, transaction, *snapshot)
            .and_then(|()| writes(history, transaction, *snapshot, *commit));
        wrong.map_err(|what| {
            let session = transaction.session;
            format!("{what}; session {session} at {site} with snapshot {snapshot}")
        })?;
    }
    Ok(())
}

fn reads(history: &History, transaction: &Transaction, snapshot: Time) -> Result<(), String> {
    let mut own: BTreeMap<Place, Option<Value>> = BTreeMap::new();
    let mut read: BTreeMap<Place, Option<Value>> = BTreeMap::new();
    for op in &transaction.ops {
        match op {
            Op::Write(table, key, value) => {
                own.insert((*table, key.clone()), *value);
            }
            Op::Read(table, key, value) => {
                let place = (*table, key.clone());
                if let Some(mine) = own.get(&place) {
                    if mine != value {
                        return Err(format!("{table}[{key}]: it did not see its own write"));
                    }
                    continue;
                }
                if read.insert(place, *value).is_some_and(|before| before != *value) {
                    return Err(format!("non-repeatable read of {table}[{key}]"));
                }
                read_one(history, *table, key, *value, snapshot)?;
            }
            Op::Scan(table, range, rows) => scan(history, *table, range, rows, &own, snapshot)?,
        }
    }
    Ok(())
}

pub(super) fn read_one(
    history: &History,
    table: TableId,
    key: &Key,
    value: Option<Value>,
    snapshot: Time,
) -> Result<(), String> {
    let newest = history.newest(table, key, snapshot);
    if newest.and_then(|(_, value)| value) == value {
        return Ok(());
    }
    let what = format!("{table}[{key}]: read {}", shown(value));
    let Some(writer) = history.written(table, key, value).filter(|_| value.is_some()) else {
        if value.is_some() {
            return Err(format!("dirty read of {what}, which nobody has committed"));
        }
        return Err(missed(history, table, key, Time::ZERO, newest) + &format!(" ({what})"));
    };
    if writer.time > snapshot {
        return Err(format!("read skew on {what}, committed {} after the snapshot", writer.time));
    }
    Err(missed(history, table, key, writer.time, newest) + &format!(" ({what})"))
}

/// The snapshot lacks a commit. If another transaction has seen that commit, and lacks one that is
/// in this snapshot, the two have seen different histories.
fn missed(
    history: &History,
    table: TableId,
    key: &Key,
    seen: Time,
    newest: Option<(Time, Option<Value>)>,
) -> String {
    let Some((time, value)) = newest else {
        return format!("dirty read of {table}[{key}], which has never been written");
    };
    let saw_it = |transaction: &&Transaction| {
        let Outcome::Committed { .. } = transaction.outcome else { return false };
        transaction.ops.contains(&Op::Read(table, key.clone(), value))
    };
    match history.transactions.iter().find(saw_it) {
        Some(other) => format!(
            "long fork: {table}[{key}] of {time} is missing, which session {} has seen",
            other.session
        ),
        None => format!("stale read: {table}[{key}] of {time} is missing, after {seen}"),
    }
}

pub(super) fn scan(
    history: &History,
    table: TableId,
    range: &KeyRange,
    rows: &[(Key, Value)],
    own: &BTreeMap<Place, Option<Value>>,
    snapshot: Time,
) -> Result<(), String> {
    let mut expected: BTreeMap<Key, Option<Value>> = BTreeMap::new();
    let inside =
        |written: &&crate::history::Written| written.table == table && range.contains(&written.key);
    for commit in history.commits.iter().take_while(|commit| commit.time <= snapshot) {
        let writes = commit.writes.iter().filter(inside);
        expected.extend(writes.map(|w| (w.key.clone(), w.value)));
    }
    let mine = own.iter().filter(|((t, key), _)| *t == table && range.contains(key));
    expected.extend(mine.map(|((_, key), value)| (key.clone(), *value)));
    let expected: Vec<(Key, Value)> =
        expected.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    if expected == rows {
        return Ok(());
    }
    let strange = rows.iter().find(|row| !expected.contains(row));
    let lacking = expected.iter().find(|row| !rows.contains(row));
    Err(match (strange, lacking) {
        (Some((key, value)), _) => {
            format!("phantom read: a scan of {table}{range} at {snapshot} found {key} = {value}")
        }
        (None, Some((key, value))) => {
            let of = history.written(table, key, Some(*value)).map(|commit| commit.time);
            format!(
                "phantom read: a scan of {table}{range} at {snapshot} lacks {key} = {value} of {of:?}"
            )
        }
        (None, None) => format!("a scan of {table}{range} is out of order: {rows:?}"),
    })
}

fn writes(
    history: &History,
    transaction: &Transaction,
    snapshot: Time,
    commit: Option<Time>,
) -> Result<(), String> {
    let Some(commit) = commit else { return Ok(()) };
    for write in transaction.writes() {
        let (table, key) = (write.table, write.key);
        let before = Time(commit.0 - 1);
        let between = history.newest(table, &key, before).filter(|(time, _)| *time > snapshot);
        if let Some((time, value)) = between {
            return Err(format!(
                "lost update of {table}[{key}]: {} was written {time}, between the snapshot and the \
                 commit {commit}",
                shown(value)
            ));
        }
    }
    Ok(())
}

fn shown(value: Option<Value>) -> String {
    value.map_or("nothing".into(), |value| value.to_string())
}
