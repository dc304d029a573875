//! Open transactions: the results of their statements, at all levels of isolation.
//!
//! ```text
//!   commits of key 5      10 ───────── 20 ────────────── 40
//!   READ COMMITTED        read at 15: 10     read at 30: 20      a snapshot for each statement
//!   the other levels      read at 15: 10     read at 15: 10      one for all
//!   lock 5, base 20 ······························ commit 50     lost update: 40 is in between
//! ```
//!
//! A statement sees, of every key, the newest commit at or before its snapshot, under its
//! transaction's own writes. The snapshot includes every commit that any client was told of before
//! the statement began. The committed writes are those that were not rolled back to a savepoint
//! ([`super::no_lost_write`] compares them with the log). Each of them replaces the version that
//! was read under the row's lock. Open transactions alone never cause a write conflict, because row
//! locks keep them apart.

use super::snapshot_isolation::{read_one, scan};
use crate::history::{Commit, History, Op, Open, OpenStep, Outcome, Transaction, Value, Written};
use isomer_cluster::Isolation;
use isomer_design::{Key, SiteId, TableId, Time};
use std::collections::{BTreeMap, BTreeSet};

type Place = (TableId, Key);

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the anomaly, the transaction and the key.
pub fn open_transactions(history: &History) -> Result<(), String> {
    if let Some(conflict) = history.conflicts.first() {
        return Err(format!("two holders of a row lock: {conflict}"));
    }
    for open in &history.opens {
        let judged = reads(history, open).and_then(|()| writes(history, open));
        let (number, isolation) = (open.number, open.isolation);
        judged.map_err(|what| format!("{what}; open transaction {number}, {isolation:?}"))?;
    }
    Ok(())
}

fn reads(history: &History, open: &Open) -> Result<(), String> {
    let mut own: BTreeMap<Place, Option<Value>> = BTreeMap::new();
    let mut savepoints = Vec::new();
    let (mut told, mut fixed) = (Time::ZERO, None);
    for step in &open.steps {
        match step {
            OpenStep::Begin(acknowledged) => told = *acknowledged,
            OpenStep::Write { table, key, value, .. }
            | OpenStep::Entered { table, key, value, .. } => {
                own.insert((*table, key.clone()), *value);
            }
            OpenStep::Savepoint => savepoints.push(own.clone()),
            OpenStep::BackTo(number) => {
                savepoints.truncate(number + 1);
                own.clone_from(&savepoints[*number]);
            }
            OpenStep::Read(at, op) => {
                let is_first = fixed.is_none();
                if let Some(at) = *at {
                    let before = *fixed.get_or_insert(at);
                    let is_fixed = open.isolation != Isolation::ReadCommitted;
                    if is_fixed && before != at {
                        return Err(format!("the snapshot moved from {before} to {at}"));
                    }
                    if at < told && (is_first || !is_fixed) {
                        return Err(format!("stale snapshot {at}: a client was told of {told}"));
                    }
                }
                read(history, &own, *at, op)?;
            }
            OpenStep::Locked { table, key, value, base, snapshot, acknowledged } => {
                fixed = fixed.or(*snapshot);
                if open.isolation != Isolation::ReadCommitted && *base > fixed {
                    return Err(format!(
                        "{table}[{key}] of {base:?} is after its snapshot {fixed:?}"
                    ));
                }
                locked(history, &own, (*table, key), *value, *base, *acknowledged)?;
            }
        }
    }
    Ok(())
}

fn read(
    history: &History,
    own: &BTreeMap<Place, Option<Value>>,
    at: Option<Time>,
    op: &Op,
) -> Result<(), String> {
    match (op, at) {
        (Op::Read(table, key, value), at) => match (own.get(&(*table, key.clone())), at) {
            (Some(mine), _) if mine == value => Ok(()),
            (Some(_), _) => Err(format!("{table}[{key}]: it did not see its own write")),
            (None, Some(at)) => read_one(history, *table, key, *value, at),
            (None, None) => Err(format!("{table}[{key}]: read without a snapshot")),
        },
        (Op::Scan(table, range, rows), Some(at)) => scan(history, *table, range, rows, own, at),
        (op, _) => Err(format!("{op:?} is not a read in a snapshot")),
    }
}

/// A read under a lock returns the newest version, or at least one that no client has seen
/// replaced.
fn locked(
    history: &History,
    own: &BTreeMap<Place, Option<Value>>,
    (table, key): (TableId, &Key),
    value: Option<Value>,
    base: Option<Time>,
    acknowledged: Time,
) -> Result<(), String> {
    if let Some(mine) = own.get(&(table, key.clone())) {
        let what = || format!("{table}[{key}]: it did not see its own write when it locked it");
        return if *mine == value { Ok(()) } else { Err(what()) };
    }
    if let Some(base) = base {
        let there = history.newest(table, key, base).filter(|(time, _)| *time == base);
        if there.map(|(_, value)| value) != Some(value) {
            return Err(format!(
                "dirty read of {table}[{key}] under its lock: {value:?} of {base}"
            ));
        }
    }
    match history.newest(table, key, acknowledged) {
        Some((time, Some(_))) if base.is_none_or(|base| base < time) => {
            // It may have been deleted since.
            let is_gone = base.is_none() && is_deleted_after(history, table, key, time);
            let what = format!("stale read of {table}[{key}] under its lock: {time} is missing");
            if is_gone { Ok(()) } else { Err(what) }
        }
        _ => Ok(()),
    }
}

fn is_deleted_after(history: &History, table: TableId, key: &Key, after: Time) -> bool {
    let deletes =
        |write: &Written| write.table == table && write.key == *key && write.value.is_none();
    let mut later = history.commits.iter().filter(|commit| commit.time > after);
    later.any(|commit| commit.writes.iter().any(deletes))
}

fn writes(history: &History, open: &Open) -> Result<(), String> {
    match &open.outcome {
        Outcome::Committed { commit: Some(commit), .. } => lost_update(history, open, *commit),
        Outcome::Nothing(why)
            if why == Open::CHANGED && open.isolation == Isolation::ReadCommitted =>
        {
            needless_conflict(history, open)
        }
        _ => Ok(()),
    }
}

fn lost_update(history: &History, open: &Open, commit: Time) -> Result<(), String> {
    let is_entered = |place: &Place| {
        let is_it = |step: &OpenStep| matches!(step, OpenStep::Entered { table, key, .. } if (*table, key) == (place.0, &place.1));
        open.steps.iter().any(is_it)
    };
    // A row without a lock of its own is checked with the row that has the lock.
    for ((table, key), (_, base)) in open.left().into_iter().filter(|(place, _)| !is_entered(place))
    {
        let newest = history.newest(table, &key, Time(commit.0 - 1));
        let there = newest.and_then(|(time, value)| value.map(|_| time));
        if there != base {
            return Err(format!(
                "lost update of {table}[{key}]: {commit} is in place of {base:?}, but {there:?} was there"
            ));
        }
    }
    Ok(())
}

/// Accepts a conflict if a writer without row locks has written one of the rows, or a transaction
/// with an unknown outcome.
fn needless_conflict(history: &History, open: &Open) -> Result<(), String> {
    // Two sites may have assigned the same time.
    let told = |other: &Open| match other.outcome {
        Outcome::Committed { site, commit, .. } => Some((site, commit?)),
        _ => None,
    };
    // Ordered tables have no row locks. There, a conflict is needless only without another writer.
    let locking = history.opens.iter().filter(|_| !history.is_ordered());
    let by_lock: BTreeSet<(SiteId, Time)> = locking.filter_map(told).collect();
    let committed = |write: &Written| {
        write.value.is_some() && history.written(write.table, &write.key, write.value).is_some()
    };
    let excused = open.left().into_iter().any(|((table, key), (_, base))| {
        let since = base.unwrap_or(Time::ZERO);
        let is_row = |write: &Written| write.table == table && write.key == key;
        let is_by_another = |commit: &Commit| {
            commit.time > since
                && !by_lock.contains(&(commit.site, commit.time))
                && commit.writes.iter().any(is_row)
        };
        // A crash may have undone the write: then it is in no log.
        let is_undone = |other: &Transaction| {
            let may_be = match &other.outcome {
                Outcome::Unknown => true,
                Outcome::Nothing(why) => why == Open::UNDONE,
                Outcome::Committed { .. } => false,
            };
            may_be && other.writes().iter().any(|write| is_row(write) && !committed(write))
        };
        let has_moved =
            |(of, row, at): &(TableId, Key, Time)| (*of, row) == (table, &key) && *at > since;
        history.commits.iter().any(is_by_another)
            || history.moves.iter().any(has_moved)
            || history.transactions.iter().any(is_undone)
    });
    let rows = || {
        let row = |((table, key), (_, base)): (Place, (Option<Value>, Option<Time>))| {
            let newest = history.newest(table, &key, Time::MAX).map(|(time, _)| time);
            format!("{table}[{key}] of {base:?}, newest {newest:?}")
        };
        open.left().into_iter().map(row).collect::<Vec<_>>().join("; ")
    };
    let what = "a conflict between open transactions, which row locks should have kept apart";
    if excused { Ok(()) } else { Err(format!("{what}: {}", rows())) }
}
