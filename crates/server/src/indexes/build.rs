//! An index is built while writers go on.
//!
//! ```text
//!   1  entered     as being built: writers maintain it, and keep to it if it is unique; nobody reads it
//!   2  outlived    who wrote to the table before 1 has ended, so each row without an entry can be seen
//!   3  filled      the rows that are there, some at a time: locked, looked at, entered, let go
//!   4  checked     if it is unique, and who began before the end of 3 has ended: no two entries are alike
//!   5  readable    entered once more, now also in the tables of the catalog
//! ```
//!
//! **Invariants.** From 1 on, what an entry says is true of its row: whoever enters or removes it has locked the
//! row. From the end of 3 on, each row has its entry.
//!
//! **Unique.** A writer sees in 1 to 4 only the entries that are there, so two rows can become alike: one without
//! an entry yet, and one whose writer has found none. That is why 4 looks at all of them. A writer that does find
//! one is refused before the index is whole, as it would be afterwards.
//!
//! **Nobody waits for the builder**, but for a row that it enters just now. It waits for a row only while it has
//! locked no other, so it is in no circle.
//!
//! A transaction that keeps its snapshot does not see entries younger than that: it is planned without the index
//! ([`Catalog::seen_at`](isomer_sql::catalog::Catalog::seen_at)).

use crate::backend::explain;
use crate::engine::{Engine, values_of};
use crate::limits;
use isomer_cluster::{CancelToken, Expect, Isolation, LockMode, OpenError, OpenTransaction, Owner};
use isomer_design::{Direction, Key, KeyRange, Time};
use isomer_sql::catalog::{Index, Table, duplicated, entry_key, parts_of_entry};
use isomer_sql::{SqlError, code};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows are entered so many at a time.
const BATCH_ROWS: usize = 1000;
/// What finds its rows moved away is done so often in all.
const RUNS_MAX: usize = 10;

/// How far a builder has come, for those who look on.
pub(crate) struct Build {
    /// What is made.
    pub(crate) statement: String,
    pub(crate) begun: Time,
    rows: AtomicU64,
    /// The transaction at work.
    at_work: AtomicU64,
}

impl Build {
    /// What it is doing, in words.
    pub(crate) fn state(&self, engine: &Engine) -> String {
        let waits = engine.gateway().is_waiting(self.at_work.load(Ordering::Relaxed));
        let doing = if waits { "waits for transactions" } else { "under way" };
        format!("{doing}, {} rows entered", self.rows.load(Ordering::Relaxed))
    }
}

/// Fills an index from its table. See the [module documentation](self).
pub(crate) struct Builder<'e> {
    engine: &'e Arc<Engine>,
    table: &'e Table,
    index: &'e Index,
    cancel: &'e Arc<CancelToken>,
    build: Arc<Build>,
}

impl<'e> Builder<'e> {
    pub(crate) fn new(
        engine: &'e Arc<Engine>,
        table: &'e Table,
        index: &'e Index,
        cancel: &'e Arc<CancelToken>,
    ) -> Builder<'e> {
        let build = Arc::new(Build {
            statement: index.definition(table),
            begun: engine.database().now(),
            rows: AtomicU64::new(0),
            at_work: AtomicU64::new(0),
        });
        engine.builds.lock().push(build.clone());
        Builder { engine, table, index, cancel, build }
    }

    /// Fills an index that writers maintain, so that each row of the table has its entry.
    pub(crate) fn build(&self) -> Result<(), SqlError> {
        self.outlive_writers()?;
        self.fill()?;
        if self.index.unique {
            self.outlive_writers()?;
        }
        again(|| self.check(&mut self.begin()))
    }

    /// Enters all rows that are there.
    fn fill(&self) -> Result<(), SqlError> {
        let (mut rest, mut busy) = (KeyRange::all(), None);
        loop {
            self.cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))?;
            let batch = again(|| self.batch(&rest, busy.as_ref()))?;
            if let Some(last) = batch.last {
                rest = rest.after(&last, Direction::Forward);
            }
            if batch.is_end {
                return Ok(());
            }
            busy = batch.busy;
        }
    }

    /// Enters the first rows of a range, up to one that somebody else has locked. One is waited for at first, as
    /// long as nothing else is locked.
    fn batch(&self, rest: &KeyRange, waits_for: Option<&Key>) -> Result<Batch, SqlError> {
        let mut txn = self.begin();
        if let Some(key) = waits_for {
            txn.lock(self.table.id, key, LockMode::Shared, true).map_err(explain)?;
        }
        let mut keys = self.page(&mut txn, rest)?;
        let is_last = keys.len() < BATCH_ROWS;
        let busy = self.first_busy(&mut txn, &keys)?.and_then(|at| keys.drain(at..).next());
        let last = keys.last().cloned();
        if last.is_some() {
            let entered = self.enter(&mut txn, rest, &keys)?;
            txn.commit().map_err(explain)?;
            self.build.rows.fetch_add(entered, Ordering::Relaxed);
        }
        Ok(Batch { last, is_end: is_last && busy.is_none(), busy })
    }

    /// Locks rows, up to the first that somebody else has.
    fn first_busy(
        &self,
        txn: &mut OpenTransaction,
        keys: &[Key],
    ) -> Result<Option<usize>, SqlError> {
        for (at, key) in keys.iter().enumerate() {
            match txn.lock(self.table.id, key, LockMode::Shared, false) {
                Ok(()) => {}
                Err(OpenError::Locked) => return Ok(Some(at)),
                Err(error) => return Err(explain(error)),
            }
        }
        Ok(None)
    }

    /// The first keys of a range.
    fn page(&self, txn: &mut OpenTransaction, range: &KeyRange) -> Result<Vec<Key>, SqlError> {
        let mut keys = Vec::new();
        let scanned = txn.scan(self.table.id, range, Direction::Forward, |key, _| {
            keys.push(Key::from_bytes(key));
            if keys.len() < BATCH_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(explain)?;
        Ok(keys)
    }

    /// Enters rows that are locked, as they are now. Returns how many there are.
    fn enter(
        &self,
        txn: &mut OpenTransaction,
        rest: &KeyRange,
        locked: &[Key],
    ) -> Result<u64, SqlError> {
        let (mut entries, mut wrong) = (Vec::with_capacity(locked.len()), None);
        let end = locked.last().map(Key::successor);
        let range = KeyRange::new(rest.start.clone(), end);
        txn.look_again();
        let scanned = txn.scan(self.table.id, &range, Direction::Forward, |key, row| {
            // What is new since the keys were looked for is not locked; its writers have entered it.
            if locked.binary_search_by(|locked| locked.as_bytes().cmp(key)).is_err() {
                return ControlFlow::Continue(());
            }
            let entry = values_of(self.table, key, row)
                .and_then(|values| entry_key(self.table, self.index, &values));
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => wrong = Some(error),
            }
            if wrong.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(explain)?;
        wrong.map_or(Ok(()), Err)?;
        let count = entries.len() as u64;
        for entry in entries {
            let put = txn.put(self.index.id, entry, Expect::Anything, Some(Vec::new()));
            put.map_err(explain)?;
        }
        Ok(count)
    }

    /// Refuses two entries that are alike, in an index that is unique and whole.
    pub(crate) fn check(&self, txn: &mut OpenTransaction) -> Result<(), SqlError> {
        if !self.index.unique {
            return Ok(());
        }
        let (mut before, mut found) = (None, Ok(None));
        let all = KeyRange::all();
        let scanned = txn.scan(self.index.id, &all, Direction::Forward, |entry, _| {
            let entry = Key::from_bytes(entry);
            match parts_of_entry(self.table, self.index, &entry) {
                Ok((common, row)) => {
                    if common.is_some() && common == before {
                        found = Ok(Some(row));
                    }
                    before = common;
                }
                Err(error) => found = Err(error),
            }
            if matches!(found, Ok(None)) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        scanned.map_err(explain)?;
        let Some(row) = found? else { return Ok(()) };
        let mut values = Ok(Vec::new());
        txn.get(self.table.id, &row, |bytes| values = values_of(self.table, row.as_bytes(), bytes))
            .map_err(explain)?;
        let message = format!("could not create unique index \"{}\"", self.index.name);
        let detail = duplicated(self.table, self.index, &values?);
        Err(SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail))
    }

    /// Waits until those have ended who have written to the table until now.
    fn outlive_writers(&self) -> Result<(), SqlError> {
        self.begin().wait_for_holders(self.table.id, &Key::min()).map_err(explain)
    }

    fn begin(&self) -> OpenTransaction {
        let txn = self.engine.gateway().begin(Isolation::ReadCommitted, self.cancel.clone());
        let owner: Owner = txn.owner();
        self.build.at_work.store(owner, Ordering::Relaxed);
        txn
    }
}

/// What came of a batch.
struct Batch {
    /// The last row that was entered.
    last: Option<Key>,
    /// The first that somebody else has locked.
    busy: Option<Key>,
    /// True if there are no more.
    is_end: bool,
}

/// Does something again whose rows have moved away meanwhile.
fn again<T>(act: impl Fn() -> Result<T, SqlError>) -> Result<T, SqlError> {
    let mut done = act();
    for _ in 1..RUNS_MAX {
        match &done {
            Err(error) if error.code == code::SERIALIZATION => done = act(),
            _ => break,
        }
    }
    done
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        self.engine.builds.lock().retain(|build| !Arc::ptr_eq(build, &self.build));
    }
}
