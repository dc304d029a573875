//! Deadlocks, as clients and the log are told of them.
//!
//! ```text
//!   ERROR:    deadlock detected
//!   DETAIL:   Process 7 waits for ShareLock on transaction 36; blocked by process 8.
//!             Process 8 waits for ShareLock on transaction 35; blocked by process 7.
//!   CONTEXT:  while locking row (1) in relation "accounts"
//! ```
//!
//! As at PostgreSQL, a row lock is waited for by the transaction that has it. The statements of the
//! processes are in the log alone: a client may see those of its own role only.

use crate::numbers::NUMBERS;
use crate::shapes::shape_of;
use isomer_cluster::{LockMode, LockShown};
use isomer_design::{Key, TableId};
use isomer_sql::catalog::{Catalog, Handle};
use isomer_sql::system::SessionsView;
use isomer_sql::{SqlError, code};

/// A lock that a transaction waits for.
pub(crate) struct Waited<'k> {
    pub(crate) table: TableId,
    pub(crate) key: &'k Key,
    pub(crate) mode: LockMode,
}

/// 40P01 for a circle of transactions, each of which waits for the next. The first, which is also
/// the last, waits for this lock.
pub(crate) fn deadlock(
    circle: &[u64],
    wanted: &Waited<'_>,
    (catalog, locks): (&Catalog, &[LockShown]),
    sessions: &dyn SessionsView,
) -> SqlError {
    let sessions = sessions.sessions();
    let process = |owner: u64| sessions.with(owner).map_or(0, |session| session.process);
    let line = |pair: &[u64]| {
        let (waiting, blocker) = (pair[0], pair[1]);
        let lock = locks.iter().find(|lock| lock.owner == waiting && !lock.is_granted);
        let what = match lock {
            _ if waiting == circle[0] => what(wanted, blocker, catalog),
            Some(lock) => {
                let waited = Waited { table: lock.table, key: &lock.key, mode: lock.mode };
                what(&waited, blocker, catalog)
            }
            // It has gone on since.
            None => format!("ShareLock on transaction {blocker}"),
        };
        let (waiting, blocker) = (process(waiting), process(blocker));
        format!("Process {waiting} waits for {what}; blocked by process {blocker}.")
    };
    let detail: Vec<String> = circle.windows(2).map(line).collect();
    let detail = detail.join("\n");
    let statements = circle[1..].iter().filter_map(|owner| {
        let session = sessions.with(*owner)?;
        Some(format!(" Process {}: {}", session.process, shape_of(&session.text)))
    });
    let statements: String = statements.collect();
    tracing::warn!("deadlock detected: {}{statements}", detail.replace('\n', " "));
    let error = SqlError::new(code::DEADLOCK, "deadlock detected").detail(detail);
    let error = error.hint("See server log for query details.");
    match context(wanted, catalog) {
        Some(context) => error.context(context),
        None => error,
    }
}

fn what(wanted: &Waited<'_>, blocker: u64, catalog: &Catalog) -> String {
    let mode = lock_name(wanted.mode);
    if wanted.table == NUMBERS {
        let numbers = wanted.key.to_ints().unwrap_or_default();
        let shown: Vec<String> = numbers.iter().skip(1).map(ToString::to_string).collect();
        return format!("{mode} on advisory lock [{}]", shown.join(","));
    }
    if *wanted.key != Key::min() {
        return format!("ShareLock on transaction {blocker}");
    }
    let oid = catalog.tables.with(Handle::Part(wanted.table)).next().map_or(0, |table| table.oid);
    format!("{mode} on relation {oid}")
}

/// The row or index entry of the lock.
fn context(wanted: &Waited<'_>, catalog: &Catalog) -> Option<String> {
    let table = catalog.tables.with(Handle::Part(wanted.table)).next()?;
    if let Some(index) = table.indexes.iter().find(|index| index.id == wanted.table) {
        return Some(format!("while inserting index entry in relation \"{}\"", index.name));
    }
    (*wanted.key != Key::min()).then(|| {
        let key = table.schema.format_key(wanted.key);
        format!("while locking row ({key}) in relation \"{}\"", table.name)
    })
}

/// PostgreSQL's name of a row lock with this mode: see `Backend::lock`.
pub(crate) fn row_lock_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare | LockMode::RowShare => "AccessShareLock",
        LockMode::Shared => "RowShareLock",
        LockMode::ShareUpdateExclusive => "ExclusiveLock",
        _ => "AccessExclusiveLock",
    }
}

/// PostgreSQL's name of a lock mode.
pub(crate) fn lock_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare => "AccessShareLock",
        LockMode::RowShare => "RowShareLock",
        LockMode::RowExclusive => "RowExclusiveLock",
        LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        LockMode::Shared => "ShareLock",
        LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
        LockMode::AllButReads => "ExclusiveLock",
        LockMode::Exclusive => "AccessExclusiveLock",
    }
}
