//! An index is built while writers go on; and so is another [order](isomer_sql::catalog) of a table's rows, with its
//! indexes, which is an index that holds the rows.
//!
//! ```text
//!   1  known       as being built: writers remove entries, and add none; nobody reads it
//!   2  outlived    who wrote to the table before 1 has ended, so nobody writes who does not know of it
//!   3  entered     writers maintain it, and keep to it if it is unique
//!   4  outlived    who began before 3 has ended, so each row without an entry can be seen
//!   5  filled      the rows that are there, some at a time: locked, looked at, entered, let go
//!   6  checked     if it is unique, and who began before the end of 5 has ended: no two entries are alike
//!   7  readable    entered once more, now also in the tables of the catalog
//! ```
//!
//! **Invariants.** What an entry says is true of its row: whoever enters or removes it has locked the row, and nobody
//! changes a row whose entry he does not know of ([`isomer_cluster::reorder`] says why that takes 1 and 2). From the end
//! of 5 on, each row has its entry.
//!
//! **Unique.** A writer sees in 3 to 6 only the entries that are there, so two rows can become alike: one without
//! an entry yet, and one whose writer has found none. That is why 6 looks at all of them. A writer that does find
//! one is refused before the index is whole, as it would be afterwards.
//!
//! **Nobody waits for the builder**, but for a row that it enters just now. It waits for a row only while it has
//! locked no other, so it is in no circle.
//!
//! **No row is held up for long.** A writer waits for a row while a batch of the builder has it, so batches are as large
//! as can be entered in a moment; while nobody writes to the table, it is locked as a whole and batches are larger
//! ([`isomer_cluster::reorder`]).
//!
//! A transaction that keeps its snapshot does not see entries younger than that: it is planned without the index
//! ([`Catalog::seen_at`](isomer_sql::catalog::Catalog::seen_at)).

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

/// What finds its rows moved away is done so often in all.
const RUNS_MAX: usize = 10;
/// Who is held up looks so often whether it is to go on.
const LOOK: Duration = Duration::from_millis(20);

/// How far a builder has come, for those who look on.
pub(crate) struct Build {
    /// What is made.
    pub(crate) statement: String,
    pub(crate) begun: Time,
    /// What it is doing, where it does not wait.
    doing: Mutex<&'static str>,
    rows: AtomicU64,
    /// How many rows there were at the beginning, if it has counted them.
    all_rows: Option<u64>,
    /// The transaction at work.
    at_work: AtomicU64,
    /// What is written for the rows, in bytes.
    bytes: AtomicU64,
    /// Since when rows are copied.
    copying: Mutex<Option<Time>>,
    /// The table whose order is to be another; none, if it is an index that is built.
    reorders: Option<TableId>,
    pub(crate) pace: Pace,
    cancel: Arc<CancelToken>,
}

/// How fast rows are copied, by the wish of operators.
#[derive(Default)]
pub(crate) struct Pace {
    is_paused: AtomicBool,
    /// It waits for leave to go on.
    is_held: AtomicBool,
    /// At most so many rows a second; zero: as many as can be.
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

    /// True while it waits until it may go on.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }
}

impl Build {
    /// True if it gives this table another order.
    pub(crate) fn reorders(&self, table: TableId) -> bool {
        self.reorders == Some(table)
    }

    /// Ends it for whoever asked for it.
    pub(crate) fn end(&self) {
        self.cancel.end(CancelReason::Asked);
    }

    /// What it is doing, in words.
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

    /// How many seconds the copying will take still, if it goes on as so far.
    fn left_s(&self, engine: &Engine, rows: u64) -> Option<f64> {
        let left = self.all_rows?.checked_sub(rows).filter(|&left| left > 0 && rows > 0)?;
        let begun = (*self.copying.lock())?;
        let took_s = engine.database().now().0.saturating_sub(begun.0) as f64 / 1e9;
        Some(took_s / rows as f64 * left as f64)
    }
}

/// What is filled with the rows of a table.
#[derive(Clone, Copy)]
pub(crate) enum Target<'e> {
    /// An index, with an entry for each.
    Index(&'e Index),
    /// The table in another order. So many rows there were when they were counted.
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

    /// What is entered for a row.
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
            // Who writes keeps to the constraints of the table as it is.
            _ => None,
        }
    }
}

/// The statement that keeps a table in an order.
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

/// Fills something from a table. See the [module documentation](self).
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

    /// Fills an index that all who begin maintain, so that it has each row of the table.
    pub(crate) fn build(&self) -> Result<(), SqlError> {
        self.outlive_writers()?;
        self.fill()?;
        if self.target.unique().is_some() {
            self.outlive_writers()?;
        }
        again(|| self.check(&mut self.begin()))
    }

    /// What is done from here on, for those who look on.
    pub(crate) fn now(&self, doing: &'static str) {
        *self.build.doing.lock() = doing;
    }

    /// How fast it is to be.
    pub(crate) fn pace(&self) -> &Pace {
        &self.build.pace
    }

    /// Waits until it may go on.
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

    /// Enters all rows that are there.
    fn fill(&self) -> Result<(), SqlError> {
        let mut copying = Copying::new(false);
        loop {
            let (copied, ns) = self.copy(copying.batch())?;
            if copying.came(&copied, ns) == Between::End {
                return Ok(());
            }
        }
    }

    /// Enters some rows; how many nanoseconds it took.
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

    /// What was copied, and how many bytes that takes.
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

    /// Refuses two entries that are alike, in an index that is unique and whole.
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

    /// Waits until those have ended who have written to the table until now.
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
