//! Deferred checks of foreign keys: until commit, or until SET CONSTRAINTS .. IMMEDIATE.
//!
//! ```text
//!   insert into orders ..      the customer does not exist yet       the check is deferred
//!   insert into customers ..                                         the referenced row follows
//!   commit                                                           the check is made
//! ```
//!
//! A check is a condition on the rows at the time of the check. Checks that SET CONSTRAINTS has
//! made stay in the list; only the modes say that they are not repeated. A rollback to a savepoint
//! truncates the list and restores the modes.

use crate::backend::Backend;
use isomer_sql::catalog::Table;
use isomer_sql::foreign::{Check, Checks, ForeignKey};
use isomer_sql::parse::ConstraintsStatement;
use isomer_sql::statement::verify;
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, code};
use std::collections::BTreeMap;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Deferred {
    checks: Vec<Check>,
    modes: Modes,
}

/// The modes that the transaction has set for its constraints.
#[derive(Clone, Default)]
struct Modes {
    /// The mode for all, and later exceptions by the oids of keys; true means deferred.
    all: Option<bool>,
    some: BTreeMap<u32, bool>,
}

/// The state at a savepoint.
#[derive(Clone)]
pub(crate) struct DeferredMark {
    checks: usize,
    modes: Modes,
}

impl Modes {
    fn is_deferred(&self, key: &ForeignKey) -> bool {
        let said = self.some.get(&key.oid).copied().or(self.all);
        key.deferrable && said.unwrap_or(key.deferred)
    }
}

impl Deferred {
    pub(crate) fn mark(&self) -> DeferredMark {
        DeferredMark { checks: self.checks.len(), modes: self.modes.clone() }
    }

    pub(crate) fn back_to(&mut self, mark: &DeferredMark) {
        self.checks.truncate(mark.checks);
        self.modes = mark.modes.clone();
    }

    /// True if a check of this table is pending.
    pub(crate) fn is_about(&self, table: u32) -> bool {
        let is_its =
            |check: &&Check| [check.link.child.oid, check.link.parent.oid].contains(&table);
        self.checks.iter().filter(is_its).any(|check| self.modes.is_deferred(&check.link.key))
    }
}

impl Backend {
    /// Defers a check if its key is deferred now; returns false otherwise.
    pub(crate) fn defer(&mut self, check: &Check) -> Result<bool, SqlError> {
        if !self.deferred.modes.is_deferred(&check.link.key) {
            return Ok(false);
        }
        self.written.more(check.bytes())?;
        self.deferred.checks.push(check.clone());
        Ok(true)
    }

    /// Refuses to alter, drop or truncate a table with pending checks.
    pub(crate) fn check_no_deferred(&self, table: &Table) -> Result<(), SqlError> {
        if !self.deferred.is_about(table.oid) {
            return Ok(());
        }
        let what = "cannot alter, drop or truncate table";
        let message =
            format!("{what} \"{}\" because checks of its foreign keys are put off", table.name);
        Err(SqlError::new(code::OBJECT_IN_USE, message)
            .hint("SET CONSTRAINTS ALL IMMEDIATE before."))
    }

    /// Makes the checks that were deferred to the end of the transaction.
    pub(crate) fn check_deferred(&mut self, around: &Surroundings) -> Result<(), SqlError> {
        let modes = self.deferred.modes.clone();
        self.check_if(around, &|key| modes.is_deferred(key))
    }

    fn check_if(
        &mut self,
        around: &Surroundings,
        is_due: &dyn Fn(&ForeignKey) -> bool,
    ) -> Result<(), SqlError> {
        let mut due = Checks::default();
        let mut held = around.budget.held();
        for check in self.deferred.checks.iter().filter(|check| is_due(&check.link.key)) {
            held.add(check.bytes())?;
            due.add(check.clone());
        }
        let due = due.take();
        let Some(version) = due.iter().map(|check| check.link.version).min() else {
            return Ok(());
        };
        self.planned_for = version;
        self.txn.next_statement();
        let catalog = self.catalog();
        due.iter().try_for_each(|check| verify(check, self, around, &catalog))
    }

    /// Executes SET CONSTRAINTS.
    pub(crate) fn set_constraints(
        &mut self,
        statement: &ConstraintsStatement,
        around: &Surroundings,
    ) -> Result<(), SqlError> {
        let (catalog, before) = (self.catalog(), self.deferred.modes.clone());
        if statement.names.is_none() {
            self.deferred.modes = Modes { all: Some(statement.deferred), some: BTreeMap::new() };
        }
        for name in statement.names.iter().flatten() {
            let keys = || catalog.tables.values().flat_map(|table| &table.foreign_keys);
            let named = || keys().filter(|key| key.name == *name);
            let is_other = || catalog.tables.values().any(|table| table.has_constraint(name));
            if named().next().is_none() && !is_other() {
                let message = format!("constraint \"{name}\" does not exist");
                return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
            }
            if statement.deferred && !named().any(|key| key.deferrable) {
                let message = format!("constraint \"{name}\" is not deferrable");
                return Err(SqlError::new(code::WRONG_OBJECT, message));
            }
            let oids = named().map(|key| (key.oid, statement.deferred));
            self.deferred.modes.some.extend(oids);
        }
        let now = self.deferred.modes.clone();
        self.check_if(around, &|key| before.is_deferred(key) && !now.is_deferred(key))
    }
}
