//! FULL JOIN with USING: a column of both sides is the value of the side that has a row.
//!
//! ```text
//!   a full join b using (k)      a source with the slots of a and of b, and coalesce(a.k, b.k)
//! ```

use super::query::joined_rows;
use super::{Binder, ScopeColumn, Typed};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::optimize::Planning;
use crate::plan::{Source, Step};
use std::sync::Arc;

/// A column of both sides.
pub(super) struct Both {
    pub(super) name: String,
    pub(super) sides: [Typed; 2],
}

/// Replaces the sources so far, which end with a full join, by one that has the common columns as
/// well. They are the first that `*` shows.
pub(super) fn unite(
    binder: &mut Binder<'_>,
    common: Vec<Both>,
    steps: &mut Vec<Step>,
    conditions: &mut Vec<Expr>,
) -> Result<(), SqlError> {
    let width = binder.scope().used.len();
    let mut columns = Vec::with_capacity(common.len());
    let mut values = Vec::with_capacity(common.len());
    for (at, Both { name, sides }) in common.into_iter().enumerate() {
        let value = binder.call("coalesce", sides.into())?;
        values.push(value.expr);
        let (slot, alias) = (width + at, String::new());
        columns.push(ScopeColumn { alias, name, ty: value.ty, slot, origin: (0, 0), shown: true });
    }
    let used = vec![true; width];
    let planning = Planning::of(binder.catalog, binder.budget);
    let (own, filter) = (std::mem::take(steps), std::mem::take(conditions));
    let mut query = joined_rows(own, filter, &used, &planning)?;
    query.project.append(&mut values);
    let scope = binder.scope();
    scope.used.resize(width + columns.len(), false);
    columns.append(&mut scope.columns);
    scope.columns = columns;
    let width = scope.used.len();
    binder.budget.charge(size_of::<Step>() + width * size_of::<Expr>())?;
    steps.push(Step::of(Source::Query(Arc::new(query)), String::new(), 0, width));
    Ok(())
}
