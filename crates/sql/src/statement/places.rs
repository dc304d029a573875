//! Where the rows of a statement are, before it runs: see [`crate::exec::Places`].

use super::{Action, Compiled};
use crate::catalog::Catalog;
use crate::datum::Datum;
use crate::exec::{Exec, Nowhere, Places, Unplaced, of_change, of_insert, of_query};
use crate::transaction::Surroundings;

/// The rows of a statement with these parameters.
///
/// # Errors
/// [`Unplaced`].
pub fn places(
    compiled: &Compiled,
    params: &[Datum],
    around: &Surroundings,
    catalog: &Catalog,
) -> Result<Places, Unplaced> {
    if !compiled.writing.is_empty() {
        return Err(Unplaced::Rows);
    }
    let (mut nowhere, mark) = (Nowhere, around.budget.mark());
    let exec = Exec::new(&mut nowhere, params, around, catalog);
    let found = match compiled.explained() {
        Action::Select(plan) => of_query(&exec, plan),
        Action::Insert(plan) => of_insert(&exec, plan),
        Action::Update(plan) | Action::Delete(plan) => of_change(&exec, plan),
        _ => Err(Unplaced::Kind),
    };
    around.budget.back_to(mark);
    found.and_then(|places| match places.spans.is_empty() {
        true => Err(Unplaced::Rows),
        false => Ok(places),
    })
}
