//! Lists of rows: `(a, b) in ((1, 2), (3, 4), ..)`.
//!
//! ```text
//!   (3, 4)      looked up among the rows without a NULL, which are hashed once per statement
//!   (3, NULL)   compared with one row after the other: unknown, or false if all rows differ
//! ```
//!
//! Rows of the list with a NULL are compared one by one as well.

use super::eval::LISTED_MIN;
use super::inner::Kind;
use super::select::Hasher;
use super::{Exec, Row};
use crate::budget::Held;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Expr, ListId, equality};
use std::collections::HashSet;
use std::rc::Rc;

/// The rows of a list that is the same for all rows of the statement.
pub(super) struct ListedRows<'b> {
    /// The rows without a NULL.
    whole: HashSet<Vec<Datum>, Hasher>,
    /// The places of the rows with a NULL.
    with_null: Vec<usize>,
    /// For each column, the kind of all its values. Values of other kinds are compared one by one,
    /// because their hashes differ.
    kinds: Vec<Option<Kind>>,
    _held: Held<'b>,
}

/// Whether a row of values is in a list of rows; `None`: unknown.
pub(super) fn is_row_listed(
    exec: &Exec<'_>,
    any: &Expr,
    id: &ListId,
    row: Row<'_>,
) -> Result<Option<bool>, SqlError> {
    let rows = any.alternatives().unwrap_or_default();
    let Some(number) = id.number().filter(|_| rows.len() >= LISTED_MIN) else {
        return exec.holds(any, row);
    };
    let known = exec.row_lists.borrow().get(&number).cloned();
    let listed = match known {
        Some(known) => known,
        None => {
            let gathered = Rc::new(gather_rows(exec, rows, row)?);
            exec.row_lists.borrow_mut().insert(number, gathered.clone());
            gathered
        }
    };
    let mut values = Vec::with_capacity(listed.kinds.len());
    for (both, kind) in equalities(&rows[0]).zip(&listed.kinds) {
        let value = exec.eval(&both[0], row)?;
        if value.is_null() || *kind != Some(Kind::of(&value)) {
            return exec.holds(any, row);
        }
        values.push(value);
    }
    if listed.whole.contains(&values) {
        return Ok(Some(true));
    }
    let mut result = Some(false);
    for at in &listed.with_null {
        exec.tick()?;
        match exec.holds(&rows[*at], row)? {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn gather_rows<'a>(
    exec: &Exec<'a>,
    rows: &[Expr],
    row: Row<'_>,
) -> Result<ListedRows<'a>, SqlError> {
    let mut held = exec.budget.held();
    let (mut whole, mut with_null) = (HashSet::<Vec<Datum>, Hasher>::default(), Vec::new());
    let columns = rows.first().map_or(0, |first| equalities(first).count());
    // The kind of the values so far, and whether there are others.
    let mut kinds: Vec<(Option<Kind>, bool)> = vec![(None, false); columns];
    for (at, one) in rows.iter().enumerate() {
        exec.tick()?;
        let values = equalities(one).map(|both| exec.eval(&both[1], row));
        let values = values.collect::<Result<Vec<Datum>, SqlError>>()?;
        for (value, (kind, is_mixed)) in values.iter().zip(&mut kinds) {
            if !value.is_null() {
                let own = Kind::of(value);
                *is_mixed |= *kind.get_or_insert(own) != own;
            }
        }
        if values.iter().any(Datum::is_null) {
            held.add(size_of::<usize>())?;
            with_null.push(at);
        } else if !whole.contains(&values) {
            held.place(whole.len(), whole.capacity(), size_of::<Vec<Datum>>())?;
            let bytes = values.iter().map(|value| size_of::<Datum>() + value.heap_bytes());
            held.add(bytes.sum())?;
            whole.insert(values);
        }
    }
    let kinds = kinds.into_iter().map(|(kind, is_mixed)| kind.filter(|_| !is_mixed));
    Ok(ListedRows { whole, with_null, kinds: kinds.collect(), _held: held })
}

/// The equalities of a row with the values on the left side.
fn equalities(row: &Expr) -> impl Iterator<Item = &[Expr; 2]> {
    let parts: &[Expr] = if let Expr::And(parts) = row { parts } else { &[] };
    parts.iter().filter_map(equality)
}
