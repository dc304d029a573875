//! Queries of WITH that write, carried out: [`crate::plan::Writing`] says when.
//!
//! Foreign key actions and checks of all parts of a statement come once the last part has written.

use super::Exec;
use super::foreign::Noted;
use super::join::Shared;
use crate::error::SqlError;
use crate::plan::{Merge, Modify, Writing};
use std::rc::Rc;

/// A statement with these queries of WITH that write. All of its parts see rows as they are
/// now.
pub(crate) fn with_writing<'a>(exec: Exec<'a>, writing: &'a [Writing]) -> Exec<'a> {
    let exec = if writing.is_empty() { exec } else { of_parts(exec) };
    Exec { writing, ..exec }
}

/// A statement of several parts that write. All of them see rows as they are now.
pub(crate) fn of_parts(exec: Exec<'_>) -> Exec<'_> {
    exec.txn.borrow_mut().keep_view();
    Exec { has_parts: true, ..exec }
}

/// Carries out the changes of a MERGE; returns the number of changed rows.
pub(crate) fn merge<'a>(exec: &Exec<'a>, plan: &'a Merge) -> Result<u64, SqlError> {
    let mut count = 0;
    let sink = &mut |_: &[_]| Ok(());
    for action in &plan.actions {
        count += match action {
            Modify::Insert(plan) => exec.insert(plan, sink)?,
            Modify::Update(plan) | Modify::Delete(plan) => exec.change(plan, sink)?,
        };
    }
    Ok(count)
}

/// The rows that the query with this number returns or has found last. A query that writes runs
/// when its rows are first read.
pub(super) fn rows_found<'a>(
    exec: &Exec<'a>,
    number: usize,
) -> Result<Option<Rc<Shared<'a>>>, SqlError> {
    let found = exec.found.borrow().get(&number).cloned();
    match exec.writing.iter().find(|writing| writing.number == number) {
        Some(writing) if found.is_none() => write(exec, writing).map(Some),
        _ => Ok(found),
    }
}

fn write<'a>(exec: &Exec<'a>, writing: &'a Writing) -> Result<Rc<Shared<'a>>, SqlError> {
    let (mut rows, mut held) = (Vec::new(), exec.budget.held());
    let sink = &mut |values: &[_]| {
        held.add_row(values)?;
        rows.push(values.to_vec());
        Ok(())
    };
    match &writing.modify {
        Modify::Insert(plan) => exec.insert(plan, sink)?,
        Modify::Update(plan) | Modify::Delete(plan) => exec.change(plan, sink)?,
    };
    let shared = Rc::new(Shared::new(rows, held));
    exec.found.borrow_mut().insert(writing.number, shared.clone());
    Ok(shared)
}

/// The end of a part of the statement that writes: its foreign key actions and checks are
/// carried out now, or at the end of the last part.
pub(super) fn written<'a>(exec: &Exec<'a>, mut noted: Noted<'a>) -> Result<(), SqlError> {
    if !exec.has_parts {
        noted.act(exec)?;
        return exec.settle(&mut noted.checks);
    }
    exec.noted.borrow_mut().push(noted);
    Ok(())
}

/// The end of the statement: runs the queries that write and were not read, the last first, and
/// the foreign key actions and checks of all parts.
///
/// # Errors
/// Those of the parts. The transaction must be rolled back then.
pub(crate) fn finish(exec: &Exec<'_>) -> Result<(), SqlError> {
    for writing in exec.writing.iter().rev() {
        rows_found(exec, writing.number)?;
    }
    let mut noted = exec.noted.take();
    noted.iter_mut().try_for_each(|noted| noted.act(exec))?;
    noted.iter_mut().try_for_each(|noted| exec.settle(&mut noted.checks))
}
