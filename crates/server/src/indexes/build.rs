//! Builds an index while writers continue. A second [layout](isomer_sql::catalog) of a table's
//! rows, with its indexes, is built the same way: it is an index that holds the rows.
//!
//! ```text
//!   1  delete-only   writers remove entries and add none; the index is not read
//!   2  waited        transactions that wrote to the table before 1 have ended: all writers know it
//!   3  write-only    writers maintain it, and check it if it is unique
//!   4  waited        transactions from before 3 have ended: each row without an entry is visible
//!   5  filled        existing rows are copied in batches: lock, read, add an entry, unlock
//!   6  checked       if unique: transactions from before the end of 5 have ended; no duplicates
//!   7  public        readers use it; the stored catalog has it
//! ```
//!
//! **Invariants.** An entry is always true for its row. A writer of the entry holds the row's lock,
//! and no writer changes a row whose entry it does not know of. This takes steps 1 and 2, as
//! [`isomer_cluster::reorder`] explains. From the end of step 5 on, each row has its entry.
//!
//! **Unique.** In steps 3 to 6 a writer sees only the entries that exist. So two rows can become
//! equal: one without an entry yet, and one whose writer found none. That is why step 6 checks all
//! entries. A writer that finds a duplicate is refused before the index is complete, as it would be
//! afterwards.
//!
//! **Writers do not wait for the builder**, except for a row that it is copying. The builder waits
//! for a row only while it has locked no other, so it is in no deadlock.
//!
//! **No row is locked for long.** A writer waits for a row while a batch of the builder holds it,
//! so batches are small. While the table has no writers, it is locked as a whole and batches are
//! larger ([`isomer_cluster::reorder`]).
//!
//! A transaction with an older snapshot does not see the entries, so it is planned without the
//! index ([`Catalog::seen_at`](isomer_sql::catalog::Catalog::seen_at)).

use crate::backend::explain;
use crate::engine::{Engine, values_of};
use crate::indexes::Asker;
use crate::limits;
use isomer_cluster::reorder::{Batch, Between, Copied, Copying};
use isomer_cluster::{CancelReason, CancelToken, Isolation, LockMode, OpenTransaction, Owner};
use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use isomer_sql::catalog::{
    Copies, Immutable, Index, Table, copies, duplicated, entry_key, parts_of_entry, quoted,
};
use isomer_sql::datum::Datum;
use isomer_sql::{SqlError, code};
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The most attempts of an action whose rows move away.
const RUNS_MAX: usize = 10;
/// The poll interval of a paused builder.
const LOOK: Duration = Duration::from_millis(20);

/// The progress of a build, as other sessions see it.
pub(crate) struct Build {
    /// The statement that is executed.
    pub(crate) statement: String,
    pub(crate) begun: Time,
    /// The current activity, except for waits.
    doing: Mutex<&'static str>,
    rows: AtomicU64,
    /// The number of rows at the beginning, if it was counted.
    all_rows: Option<u64>,
    /// The current transaction.
    at_work: AtomicU64,
    /// The bytes written so far.
    bytes: AtomicU64,
    /// The time at which copying began.
    copying: Mutex<Option<Time>>,
    /// The table that gets a new layout; `None` for an index.
    reorders: Option<TableId>,
    pub(crate) pace: Pace,
    cancel: Arc<CancelToken>,
}

/// The speed of copying, as operators have set it.
#[derive(Default)]
pub(crate) struct Pace {
    is_paused: AtomicBool,
    /// True while it is paused.
    is_held: AtomicBool,
    /// The most rows per second; 0 for no limit.
    rows_s: AtomicU64,
}

impl Pace {
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    pub(crate) fn set_rows_s(&self, rows_s: Option<u64>) {
        self.rows_s.store(rows_s.unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn rows_s(&self) -> Option<u64> {
        Some(self.rows_s.load(Ordering::Relaxed)).filter(|&rows_s| rows_s > 0)
    }

    /// True while it is paused.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }
}

impl Build {
    /// True if it builds a new layout of this table.
    pub(crate) fn reorders(&self, table: TableId) -> bool {
        self.reorders == Some(table)
    }

    /// Cancels the build.
    pub(crate) fn end(&self) {
        self.cancel.end(CancelReason::Asked);
    }

    /// The current activity in words.
    pub(crate) fn state(&self, engine: &Engine) -> String {
        let waits = engine.gateway().is_waiting(self.at_work.load(Ordering::Relaxed));
        let is_held = self.pace.is_held();
        let doing = match (waits, is_held) {
            (true, _) => "waits for transactions",
            (false, true) => "paused",
            (false, false) => *self.doing.lock(),
        };
        let rows = self.rows.load(Ordering::Relaxed);
        let of = self.all_rows.map_or(String::new(), |rows| format!(" of {rows}"));
        let mut state = format!("{doing}, {rows}{of} rows entered");
        let megabytes = self.bytes.load(Ordering::Relaxed) as f64 / 1e6;
        if megabytes >= 0.1 {
            let _ = write!(state, ", {megabytes:.1} MB");
        }
        if let Some(rows_s) = self.pace.rows_s() {
            let _ = write!(state, ", at most {rows_s} rows/s");
        }
        if let (Some(left), false, false) = (self.left_s(engine, rows), waits, is_held) {
            let _ = write!(state, ", about {left:.0} s left");
        }
        state
    }

    /// The estimated remaining seconds of copying, at the speed so far.
    fn left_s(&self, engine: &Engine, rows: u64) -> Option<f64> {
        let left = self.all_rows?.checked_sub(rows).filter(|&left| left > 0 && rows > 0)?;
        let begun = (*self.copying.lock())?;
        let took_s = engine.database().now().0.saturating_sub(begun.0) as f64 / 1e9;
        Some(took_s / rows as f64 * left as f64)
    }
}

/// The target that is filled with the rows of a table.
#[derive(Clone, Copy)]
pub(crate) enum Target<'e> {
    /// An index, with one entry per row.
    Index(&'e Index),
    /// A new layout of the table, with the number of rows at the time of counting.
    Layout(&'e Table, u64),
}

impl Target<'_> {
    fn statement(&self, table: &Table) -> String {
        match self {
            Target::Index(index) => index.definition(table),
            Target::Layout(layout, _) if layout.key != table.key => adding_key(layout),
            Target::Layout(layout, _) => sharding(layout),
        }
    }

    /// The entries for a row.
    fn copies(&self, table: &Table, values: &[Datum], by: &Immutable) -> Result<Copies, SqlError> {
        match self {
            Target::Index(index) => {
                let entry = entry_key(table, index, values, by)?;
                Ok(entry.into_iter().map(|key| (index.id, key, Vec::new())).collect())
            }
            Target::Layout(layout, _) => copies(layout, values, by),
        }
    }

    fn unique(&self) -> Option<&Index> {
        match self {
            Target::Index(index) if index.unique => Some(index),
            // Writers check the constraints of the current layout.
            _ => None,
        }
    }
}

/// The statement that gives a table this layout.
pub(crate) fn sharding(layout: &Table) -> String {
    let by = layout.shard_by().map_or("DEFAULT".to_owned(), |columns| format!("({columns})"));
    format!("ALTER TABLE {} SHARD BY {by}", quoted(&layout.name))
}

/// The statement that gives a table its primary key.
fn adding_key(layout: &Table) -> String {
    let names = layout.key.iter().map(|&at| quoted(&layout.columns[at].name));
    let names = names.collect::<Vec<_>>().join(", ");
    format!("ALTER TABLE {} ADD PRIMARY KEY ({names})", quoted(&layout.name))
}

/// Fills an index or layout from a table. See the [module documentation](self).
pub(crate) struct Builder<'e> {
    engine: &'e Arc<Engine>,
    table: &'e Table,
    target: Target<'e>,
    cancel: &'e Arc<CancelToken>,
    by: Immutable,
    build: Arc<Build>,
}

impl<'e> Builder<'e> {
    pub(crate) fn new(
        engine: &'e Arc<Engine>,
        table: &'e Table,
        target: Target<'e>,
        (cancel, budget): Asker<'e>,
    ) -> Builder<'e> {
        let all_rows = match target {
            Target::Index(_) => None,
            Target::Layout(_, rows) => Some(rows),
        };
        let reorders = match target {
            Target::Index(_) => None,
            Target::Layout(..) => Some(table.id),
        };
        let build = Arc::new(Build {
            statement: target.statement(table),
            begun: engine.database().now(),
            doing: Mutex::new("under way"),
            rows: AtomicU64::new(0),
            all_rows,
            at_work: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            copying: Mutex::default(),
            reorders,
            pace: Pace::default(),
            cancel: cancel.clone(),
        });
        engine.builds.lock().push(build.clone());
        let by = Immutable::new(budget.clone());
        Builder { engine, table, target, cancel, by, build }
    }

    /// Fills an index that all new transactions maintain, so that it has an entry for each row.
    pub(crate) fn build(&self) -> Result<(), SqlError> {
        self.outlive_writers()?;
        self.fill()?;
        if self.target.unique().is_some() {
            self.outlive_writers()?;
        }
        again(|| self.check(&mut self.begin()))
    }

    /// Sets the current activity.
    pub(crate) fn now(&self, doing: &'static str) {
        *self.build.doing.lock() = doing;
    }

    /// The speed of copying.
    pub(crate) fn pace(&self) -> &Pace {
        &self.build.pace
    }

    /// Waits while paused.
    pub(crate) fn await_leave(&self) -> Result<(), SqlError> {
        let pace = &self.build.pace;
        let mut waited = Ok(());
        while pace.is_paused.load(Ordering::Relaxed) && waited.is_ok() {
            pace.is_held.store(true, Ordering::Relaxed);
            waited = self.engine.gateway().pause(self.cancel, LOOK).map_err(explain);
        }
        pace.is_held.store(false, Ordering::Relaxed);
        waited
    }

    /// Copies all rows.
    fn fill(&self) -> Result<(), SqlError> {
        let mut copying = Copying::new(false);
        loop {
            let (copied, ns) = self.copy(copying.batch())?;
            if copying.came(&copied, ns) == Between::End {
                return Ok(());
            }
        }
    }

    /// Copies a batch of rows; also returns its duration in nanoseconds.
    pub(crate) fn copy(&self, batch: &Batch) -> Result<(Copied, u64), SqlError> {
        self.cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))?;
        let begun = limits::now();
        self.build.copying.lock().get_or_insert_with(|| self.engine.database().now());
        let (copied, bytes) = again(|| self.copy_once(batch))?;
        self.build.rows.fetch_add(copied.rows, Ordering::Relaxed);
        self.build.bytes.fetch_add(bytes, Ordering::Relaxed);
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok((copied, ns))
    }

    /// Copies a batch once; also returns the bytes written.
    fn copy_once(&self, batch: &Batch) -> Result<(Copied, u64), SqlError> {
        let mut txn = self.begin();
        if let Some(key) = &batch.waits_for {
            txn.lock(self.table.id, key, LockMode::Shared, true).map_err(explain)?;
        }
        let (mut wrong, mut bytes) = (None, 0);
        let entries = |key: &[u8], row: &[u8]| {
            let values = values_of(self.table, key, row);
            let entries =
                values.and_then(|values| self.target.copies(self.table, &values, &self.by));
            let size = |(_, key, row): &(_, Key, Vec<u8>)| key.as_bytes().len() + row.len();
            bytes += entries.iter().flatten().map(size).sum::<usize>() as u64;
            entries.map_err(|error| wrong = Some(error)).ok()
        };
        let copied = txn.copy_rows(self.table.id, batch, entries).map_err(explain)?;
        wrong.map_or(Ok(()), Err)?;
        txn.commit().map_err(explain)?;
        Ok((copied, bytes))
    }

    /// Refuses duplicate entries in a complete unique index.
    pub(crate) fn check(&self, txn: &mut OpenTransaction) -> Result<(), SqlError> {
        let Some(index) = self.target.unique() else { return Ok(()) };
        let (mut before, mut found) = (None, Ok(None));
        let all = KeyRange::all();
        let scanned = txn.scan(index.id, &all, Direction::Forward, |entry, _| {
            let entry = Key::from_bytes(entry);
            match parts_of_entry(self.table, index, &entry) {
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
        let message = format!("could not create unique index \"{}\"", index.name);
        let detail = duplicated(self.table, index, &values?, &self.by);
        Err(SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail))
    }

    /// Waits for all transactions that have written to the table until now.
    pub(crate) fn outlive_writers(&self) -> Result<(), SqlError> {
        self.begin().wait_for_holders(self.table.id, &Key::min()).map_err(explain)
    }

    fn begin(&self) -> OpenTransaction {
        let txn = self.engine.gateway().begin(Isolation::ReadCommitted, self.cancel.clone());
        let owner: Owner = txn.owner();
        self.build.at_work.store(owner, Ordering::Relaxed);
        txn
    }
}

/// Repeats an action whose rows have moved away, up to `RUNS_MAX` times.
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
