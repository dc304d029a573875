//! FOR UPDATE in joins.
//!
//! ```text
//!   select .. from a join b on .. for update of a     1. run the query, to find rows of a
//!                                                     2. lock them, and take a new snapshot
//!                                                     3. run it again; if there are rows
//!                                                        that are not locked yet, back to 2
//! ```
//!
//! The returned rows were read after all of them were locked, at one time. So a row that was
//! changed while the statement waited is returned in its current version, or not at all. If the
//! isolation level does not allow a newer snapshot, a changed row is an error instead. With SKIP
//! LOCKED the query is run at most once more: rows whose locks were not free are left out.

use super::select::Emit;
use super::{Exec, key_bytes};
use crate::budget::Held;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::plan::{Busy, Lock, LockedSource, Select};
use isomer_design::{Key, TableId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The rows that are locked.
struct Locked<'b> {
    keys: BTreeSet<(TableId, Key)>,
    held: Held<'b>,
}

impl Exec<'_> {
    /// Returns the rows of a join, after locking the rows of some of its sources.
    pub(super) fn locked_join(&self, plan: &Select, emit: Emit<'_>) -> Result<(), SqlError> {
        let mut locked = Locked { keys: BTreeSet::new(), held: self.budget.held() };
        if plan.locked.iter().any(|source| source.lock.busy == Busy::Skip) {
            return self.free_joined(plan, &mut locked, emit);
        }
        loop {
            let (mut rows, mut held) = (Vec::new(), self.budget.held());
            self.rows(plan, &[], &mut |values| {
                held.add_row(values)?;
                rows.push(values.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
            let before = locked.keys.len();
            for values in &rows {
                self.lock_row(plan, values, &mut locked)?;
            }
            if locked.keys.len() == before {
                for values in &rows {
                    if emit(values)?.is_break() {
                        break;
                    }
                }
                return Ok(());
            }
            self.look_at(plan, &rows)?;
        }
    }

    /// SKIP LOCKED: up to the limit, rows whose locks were free, in their current version.
    fn free_joined(
        &self,
        plan: &Select,
        locked: &mut Locked<'_>,
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        let (mut skip, mut left) = self.limits(plan, &[])?;
        let (mut rows, mut held, wanted) =
            (Vec::new(), self.budget.held(), skip.saturating_add(left));
        self.ordered_rows(plan, &[], None, &mut |values| {
            if rows.len() as u64 == wanted {
                return Ok(ControlFlow::Break(()));
            }
            if self.lock_row(plan, values, locked)? {
                held.add_row(values)?;
                rows.push(values.to_vec());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.look_at(plan, &rows)?;
        self.ordered_rows(plan, &[], None, &mut |values| {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            for source in &plan.locked {
                if !locked.keys.contains(&(source.table.id, key_in(source, values)?)) {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            left -= 1;
            emit(values)
        })
    }

    /// Locks the sources of a row; false if a lock is busy, and the row has to be skipped.
    fn lock_row(
        &self,
        plan: &Select,
        values: &[Datum],
        locked: &mut Locked<'_>,
    ) -> Result<bool, SqlError> {
        for source in &plan.locked {
            self.tick()?;
            let (table, key) = (source.table.id, key_in(source, values)?);
            if locked.keys.contains(&(table, key.clone())) {
                continue;
            }
            let Lock { kind, busy } = source.lock;
            if !self.txn.borrow_mut().lock(table, &key, kind, busy == Busy::Wait)? {
                if busy == Busy::Skip {
                    return Ok(false);
                }
                let name = &source.table.name;
                let message = format!("could not obtain lock on row in relation \"{name}\"");
                return Err(SqlError::new(code::LOCK_NOT_AVAILABLE, message));
            }
            locked.held.add(key_bytes(&key))?;
            locked.keys.insert((table, key));
        }
        Ok(true)
    }

    /// Takes a new snapshot; an error if that is not allowed and a locked row has changed.
    fn look_at(&self, plan: &Select, rows: &[Vec<Datum>]) -> Result<(), SqlError> {
        self.txn.borrow_mut().look_again();
        for values in rows {
            for source in &plan.locked {
                self.tick()?;
                let key = key_in(source, values)?;
                let now = self.txn.borrow_mut().get_locked(source.table.id, &key, &mut |_| {})?;
                if !now.exists {
                    self.check_moved(&source.table, &key)?;
                }
            }
        }
        Ok(())
    }
}

/// The row key of a source, from the projected values.
fn key_in(source: &LockedSource, values: &[Datum]) -> Result<Key, SqlError> {
    super::write::key_of(&source.table, &values[source.key_at..])
}
