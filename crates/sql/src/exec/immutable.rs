//! Evaluation of immutable expressions outside of statements: parts of index entries, while an
//! index is built.
//!
//! They do not depend on an environment: there are no rows, no settings, no clock. Expressions that
//! need one were refused when the index was defined ([`Expr::is_mutable`]).

use super::{Exec, Row};
use crate::budget::Budget;
use crate::catalog::Catalog;
use crate::dates::{Order, TimeStyle};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::foreign::Check;
use crate::rights::Identity;
use crate::sequence::Sequence;
use crate::system::{Counts, DesignView, LockRow, Sessions, SessionsView, SettingsView};
use crate::transaction::{Base, LockKind, LockedRow, Surroundings, Transaction, Visit};
use crate::zone::Zone;
use isomer_design::{Backups, Direction, Key, KeyRange, TableId};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Evaluates immutable expressions over a row.
pub(crate) trait Evaluate {
    /// Whether a condition holds; `None`: unknown.
    fn truth(&self, condition: &Expr, row: &[Datum]) -> Result<Option<bool>, SqlError>;

    /// Its value.
    fn value(&self, expr: &Expr, row: &[Datum]) -> Result<Datum, SqlError>;
}

impl Evaluate for Exec<'_> {
    fn value(&self, expr: &Expr, row: &[Datum]) -> Result<Datum, SqlError> {
        self.eval(expr, Row { values: row, given: &[] })
    }

    fn truth(&self, condition: &Expr, row: &[Datum]) -> Result<Option<bool>, SqlError> {
        let mark = self.budget.mark();
        let truth = self.holds(condition, Row { values: row, given: &[] })?;
        self.budget.back_to(mark);
        Ok(truth)
    }
}

/// Evaluates immutable expressions without a statement.
pub struct Immutable {
    around: Surroundings,
    catalog: Catalog,
}

impl Immutable {
    /// An evaluator that charges its memory to this budget.
    pub fn new(budget: Rc<Budget>) -> Immutable {
        let around = Surroundings {
            settings: Arc::new(Nowhere),
            begun_us: 0,
            now_us: 0,
            user: Arc::from(""),
            identity: Arc::new(Identity::system()),
            database: Arc::from(""),
            process: 0,
            budget,
            design: Arc::new(Nowhere),
            seed: 0,
            random: |bytes| bytes.fill(0),
            sessions: Arc::new(Nowhere),
            wanted: Rc::default(),
            warnings: Rc::default(),
            given: Rc::default(),
            cursors: Rc::default(),
            prepared: Rc::default(),
        };
        Immutable { around, catalog: Catalog::default() }
    }
}

impl Evaluate for Immutable {
    fn value(&self, expr: &Expr, row: &[Datum]) -> Result<Datum, SqlError> {
        let mark = self.around.budget.mark();
        let mut nowhere = Nowhere;
        let exec = Exec::new(&mut nowhere, &[], &self.around, &self.catalog);
        let value = exec.eval(expr, Row { values: row, given: &[] })?;
        self.around.budget.back_to(mark);
        Ok(value)
    }

    fn truth(&self, condition: &Expr, row: &[Datum]) -> Result<Option<bool>, SqlError> {
        Exec::new(&mut Nowhere, &[], &self.around, &self.catalog).truth(condition, row)
    }
}

/// The environment of an expression that does not depend on it.
pub(crate) struct Nowhere;

static PLAIN_TIMES: LazyLock<TimeStyle> =
    LazyLock::new(|| TimeStyle { zone: Zone::utc(), order: Order::default() });

/// Only an expression that should have been refused gets here.
fn nothing<T>() -> Result<T, SqlError> {
    let message = "an immutable expression asks for what is around it";
    Err(SqlError::new(code::INTERNAL, message))
}

impl Transaction for Nowhere {
    fn get(&mut self, _: TableId, _: &Key, _: &mut dyn FnMut(&[u8])) -> Result<bool, SqlError> {
        nothing()
    }

    fn scan(
        &mut self,
        _: TableId,
        _: &KeyRange,
        _: Direction,
        _: Visit<'_>,
    ) -> Result<(), SqlError> {
        nothing()
    }

    fn scan_newest(&mut self, _: TableId, _: &KeyRange, _: Visit<'_>) -> Result<(), SqlError> {
        nothing()
    }

    fn lock(&mut self, _: TableId, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        nothing()
    }

    fn lock_number(&mut self, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        nothing()
    }

    fn lock_number_for_session(&mut self, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        nothing()
    }

    fn unlock_number(&mut self, _: &Key, _: LockKind) -> bool {
        false
    }

    fn unlock_numbers(&mut self) {}

    fn export_snapshot(&mut self) -> Result<String, SqlError> {
        nothing()
    }

    fn wait_for_holders(&mut self, _: TableId, _: &Key, _: bool) -> Result<(), SqlError> {
        nothing()
    }

    fn unlock(&mut self, _: TableId, _: &[Key]) {}

    fn look_again(&mut self) {}

    fn keep_view(&mut self) {}

    fn is_written_in_view(&self, _: TableId, _: &Key) -> bool {
        false
    }

    fn get_locked(
        &mut self,
        _: TableId,
        _: &Key,
        _: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError> {
        nothing()
    }

    fn put(&mut self, _: TableId, _: Key, _: Base, _: Option<Vec<u8>>) -> Result<(), SqlError> {
        nothing()
    }

    fn hold(&mut self, _: TableId) -> Result<(), SqlError> {
        nothing()
    }

    fn put_off(&mut self, _: &Check) -> Result<bool, SqlError> {
        nothing()
    }

    fn next_value(&mut self, _: &str) -> Result<i64, SqlError> {
        nothing()
    }

    fn next_number(&mut self, _: &Sequence) -> Result<i64, SqlError> {
        nothing()
    }

    fn set_number(&mut self, _: &Sequence, _: i64, _: bool) -> Result<(), SqlError> {
        nothing()
    }

    fn check_cancel(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn pause(&self, _: Duration) -> Result<(), SqlError> {
        nothing()
    }
}

impl SettingsView for Nowhere {
    fn setting(&self, _: &str) -> Option<String> {
        None
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn times(&self) -> &TimeStyle {
        &PLAIN_TIMES
    }

    fn checked(&self, _: &str, _: &str) -> Result<String, SqlError> {
        nothing()
    }
}

impl DesignView for Nowhere {
    fn password(&self, _: &str) -> Option<String> {
        None
    }

    fn rows(&self, _: &str, _: &Catalog, _: &Budget) -> Result<Vec<Vec<Datum>>, SqlError> {
        nothing()
    }

    fn last_number(&self, _: &Sequence) -> Result<(i64, bool), SqlError> {
        nothing()
    }

    fn locks(&self) -> Vec<LockRow> {
        Vec::new()
    }

    fn blockers(&self, _: u64) -> Vec<u64> {
        Vec::new()
    }

    fn bytes(&self, _: TableId) -> u64 {
        0
    }

    fn backups(&self, _: TableId) -> Backups {
        Backups::NONE
    }

    fn default_backups(&self) -> Backups {
        Backups::NONE
    }

    fn is_ordered(&self, _: TableId) -> bool {
        false
    }

    fn autopilot(&self, _: TableId) -> Option<&'static str> {
        None
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl SessionsView for Nowhere {
    fn sessions(&self) -> Sessions {
        Sessions::default()
    }

    fn signal(&self, _: i32, _: bool) -> bool {
        false
    }
}
