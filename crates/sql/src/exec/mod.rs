//! Running compiled statements.
//!
//! Rows are pushed: a source calls what comes after it with one row at a time, so a query that only
//! looks up and shows holds one page of rows and no more. Sorting, grouping, hashing and inner queries
//! keep rows; what they keep is counted, and a statement that keeps too much ends with 53200.

mod aggregate;
mod change;
mod eval;
mod find;
mod insert;
mod join;
mod select;
mod write;

pub(crate) use eval::arith;
pub(crate) use write::{entry_key, parts_of_entry, row_of};

use crate::catalog::Catalog;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::plan::{Change, Insert, Select};
use crate::transaction::{Sink, Surroundings, Transaction};
use std::cell::{Cell, RefCell};

/// A statement looks up once for so many rows.
const TICKS: u32 = 512;

/// A statement that runs.
pub(crate) struct Exec<'a> {
    txn: RefCell<&'a mut dyn Transaction>,
    params: &'a [Datum],
    around: &'a Surroundings,
    catalog: &'a Catalog,
    kept_bytes: Cell<usize>,
    calls: Cell<u64>,
    ticks: Cell<u32>,
}

/// A row, and the row of the query around.
#[derive(Clone, Copy)]
pub(crate) struct Row<'r> {
    values: &'r [Datum],
    outer: Option<&'r Row<'r>>,
}

impl<'a> Exec<'a> {
    /// A statement with these values for its parameters.
    pub(crate) fn new(
        txn: &'a mut dyn Transaction,
        params: &'a [Datum],
        around: &'a Surroundings,
        catalog: &'a Catalog,
    ) -> Exec<'a> {
        let (kept_bytes, calls, ticks) = (Cell::new(0), Cell::new(0), Cell::new(0));
        Exec { txn: RefCell::new(txn), params, around, catalog, kept_bytes, calls, ticks }
    }

    /// Runs a query; returns how many rows it has.
    ///
    /// # Errors
    /// Whatever goes wrong; rows may have been shown.
    pub(crate) fn select(&self, plan: &Select, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        let mut rows = 0;
        let width = plan.output.len();
        let show = &mut |values: &[Datum]| {
            rows += 1;
            sink.row(&values[..width])?;
            Ok(std::ops::ControlFlow::Continue(()))
        };
        match plan.lock {
            None => self.rows(plan, None, show)?,
            Some(lock) => self.locked_rows(plan, lock, show)?,
        }
        Ok(rows)
    }

    /// Runs an INSERT; returns how many rows were inserted or changed.
    ///
    /// # Errors
    /// Whatever goes wrong; the transaction must be rolled back then.
    pub(crate) fn insert(&self, plan: &Insert, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        insert::insert(self, plan, sink)
    }

    /// Inserts rows that are there already; returns how many.
    ///
    /// # Errors
    /// As [`Exec::insert`].
    pub(crate) fn copy(&self, plan: &Insert, rows: Vec<Vec<Datum>>) -> Result<u64, SqlError> {
        insert::copy(self, plan, rows)
    }

    /// Runs an UPDATE or a DELETE; returns how many rows were changed.
    ///
    /// # Errors
    /// Whatever goes wrong; the transaction must be rolled back then.
    pub(crate) fn change(&self, plan: &Change, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        change::change(self, plan, sink)
    }

    /// Called for each row that is looked at: a statement that is at work for long learns in time that
    /// nobody waits for it any more.
    fn tick(&self) -> Result<(), SqlError> {
        self.ticks.set(self.ticks.get().wrapping_add(1));
        if self.ticks.get().is_multiple_of(TICKS) {
            self.txn.borrow().check_cancel()
        } else {
            Ok(())
        }
    }

    /// Counts memory that is kept until the statement ends.
    fn keep(&self, bytes: usize) -> Result<(), SqlError> {
        let kept = self.kept_bytes.get() + bytes;
        self.kept_bytes.set(kept);
        if kept <= self.around.memory_bytes {
            return Ok(());
        }
        let message = format!(
            "the statement needs more than {} MB to sort, group or join",
            self.around.memory_bytes >> 20
        );
        Err(SqlError::new(code::OUT_OF_MEMORY, message).hint("Ask for fewer rows."))
    }

    fn keep_row(&self, row: &[Datum]) -> Result<(), SqlError> {
        self.keep(row_bytes(row))
    }

    /// A row is kept no longer.
    fn forget_row(&self, row: &[Datum]) {
        self.kept_bytes.set(self.kept_bytes.get() - row_bytes(row));
    }
}

fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(Datum::bytes).sum::<usize>() + size_of::<Vec<Datum>>()
}
