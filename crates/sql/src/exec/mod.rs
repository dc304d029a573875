//! Execution of compiled statements.
//!
//! Rows are pushed: a source calls the following step with one row at a time. So a simple query
//! keeps one page of rows and no more. Sorting, grouping, hashing and subqueries keep rows. Their
//! memory, and that of evaluated values, is charged to the statement's [budget](crate::budget)
//! before it is allocated.

mod aggregate;
mod change;
mod counts;
mod eval;
mod find;
mod foreign;
mod immutable;
mod inner;
mod insert;
mod join;
mod listed_rows;
mod locked;
mod numbers;
mod ordered;
mod places;
mod select;
mod sets;
mod spread;
mod window;
mod write;
mod writing;

pub use counts::NodeCounts;
pub(crate) use eval::arith;
pub(crate) use immutable::Evaluate;
pub use immutable::Immutable;
pub(crate) use immutable::Nowhere;
pub use inner::Cost;
pub(crate) use join::{counting, node_counts};
pub use places::{Places, Unplaced};
pub(crate) use places::{check_place, of_change, of_insert, of_query};
pub(crate) use select::Hasher;
pub(crate) use spread::pair;
pub(crate) use write::{copies, entry_key, parts_of_entry, row_of, shown_key};
pub(crate) use writing::{finish, merge, of_parts, with_writing};

use crate::budget::{Budget, Held, ROW_WORK};
use crate::catalog::Catalog;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::foreign::Checks;
use crate::plan::{Change, Insert, Select, Writing};
use crate::transaction::{Sink, Surroundings, Transaction};
use inner::Memory;
use isomer_design::Key;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A statement in execution.
pub(crate) struct Exec<'a> {
    txn: RefCell<&'a mut dyn Transaction>,
    params: &'a [Datum],
    around: &'a Surroundings,
    catalog: &'a Catalog,
    budget: &'a Budget,
    calls: Cell<u64>,
    /// The answers of subqueries, by the number of the subquery.
    answers: RefCell<BTreeMap<usize, Memory<'a>>>,
    /// The values of lists that are the same for all rows, by their numbers.
    lists: RefCell<BTreeMap<usize, Rc<inner::Listed<'a>>>>,
    /// The same of lists of rows.
    row_lists: RefCell<BTreeMap<usize, Rc<listed_rows::ListedRows<'a>>>>,
    /// The rows of queries in WITH that are referred to more than once.
    shared: RefCell<BTreeMap<usize, Rc<join::Shared<'a>>>>,
    /// The rows that recursive queries have found last and queries that write have returned, by the
    /// number of the query.
    found: RefCell<BTreeMap<usize, Rc<join::Shared<'a>>>>,
    /// Queries of WITH that write.
    writing: &'a [Writing],
    /// True if several parts of the statement write: their checks come once the last has written.
    has_parts: bool,
    /// The foreign key actions and checks of the parts of the statement that have written, where
    /// there are several.
    noted: RefCell<Vec<foreign::Noted<'a>>>,
    /// Rows are read in their latest version, independently of the transaction's snapshot.
    sees_newest: Cell<bool>,
    /// The counts of an EXPLAIN ANALYZE.
    counts: Option<counts::Counting>,
    /// How many rows of the next range are read at first: the limit, where a limit ends the search.
    first_page: Cell<usize>,
}

/// A row, and the correlated values from the outer query.
#[derive(Clone, Copy)]
pub(crate) struct Row<'r> {
    values: &'r [Datum],
    given: &'r [Datum],
}

impl<'a> Exec<'a> {
    /// A statement with these values for its parameters.
    pub(crate) fn new(
        txn: &'a mut dyn Transaction,
        params: &'a [Datum],
        around: &'a Surroundings,
        catalog: &'a Catalog,
    ) -> Exec<'a> {
        let (txn, budget, calls) = (RefCell::new(txn), &*around.budget, Cell::new(0));
        let (answers, lists, row_lists, shared) = Default::default();
        let (found, sees_newest) = (RefCell::default(), Cell::new(false));
        let first_page = Cell::new(find::FIRST_PAGE_ROWS);
        Exec {
            txn,
            params,
            around,
            catalog,
            budget,
            calls,
            answers,
            lists,
            row_lists,
            shared,
            found,
            counts: None,
            writing: &[],
            has_parts: false,
            noted: RefCell::default(),
            sees_newest,
            first_page,
        }
    }

    /// Runs a query; returns its number of rows.
    ///
    /// # Errors
    /// Any error; some rows may have been returned before.
    pub(crate) fn select(&self, plan: &Select, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        let mut rows = 0;
        let width = plan.output.len();
        let show = &mut |values: &[Datum]| {
            rows += 1;
            sink.row(&values[..width])?;
            Ok(std::ops::ControlFlow::Continue(()))
        };
        match plan.lock {
            None => self.rows(plan, &[], show)?,
            Some(lock) => self.locked_rows(plan, lock, show)?,
        }
        Ok(rows)
    }

    /// Runs an INSERT; returns the number of rows inserted or changed.
    ///
    /// # Errors
    /// Any error; the transaction must then be rolled back.
    pub(crate) fn insert(&self, plan: &'a Insert, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        insert::insert(self, plan, sink)
    }

    /// Inserts rows; returns their number. The checks for foreign keys are added to `checks`.
    ///
    /// # Errors
    /// As [`Exec::insert`].
    pub(crate) fn copy(
        &self,
        plan: &'a Insert,
        rows: Vec<Vec<Datum>>,
        checks: &mut Checks,
    ) -> Result<u64, SqlError> {
        insert::copy(self, plan, rows, checks)
    }

    /// Runs an UPDATE or a DELETE; returns the number of changed rows.
    ///
    /// # Errors
    /// Any error; the transaction must then be rolled back.
    pub(crate) fn change(&self, plan: &'a Change, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        change::change(self, plan, sink)
    }

    /// Called for each processed row, so that a long statement notices when it is cancelled.
    fn tick(&self) -> Result<(), SqlError> {
        self.budget.tick(ROW_WORK)
    }

    /// A copy of a value.
    fn cloned(&self, value: &Datum) -> Result<Datum, SqlError> {
        let bytes = value.heap_bytes();
        if bytes > 0 {
            self.budget.charge(bytes)?;
        }
        Ok(value.clone())
    }
}

/// The value of an expression without columns.
pub(crate) fn value_of(exec: &Exec<'_>, expr: &crate::expr::Expr) -> Result<Datum, SqlError> {
    exec.eval(expr, Row { values: &[], given: &[] })
}

/// Rows that are held.
impl Held<'_> {
    fn add_row(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        self.add(row_bytes(row))
    }

    fn less_row(&mut self, row: &[Datum]) {
        self.less(row_bytes(row));
    }
}

/// The memory for remembering a row by its key.
fn key_bytes(key: &Key) -> usize {
    key.as_bytes().len() + 64
}

/// The memory of a row's values, including two words for the allocation.
fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(Datum::bytes).sum::<usize>() + 2 * size_of::<Vec<Datum>>()
}
