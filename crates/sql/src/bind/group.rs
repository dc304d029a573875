//! Grouping: rewrites expressions over rows to expressions over groups.
//!
//! ```text
//!   select w + 1, sum(v) from t group by w       rows: w at 0, v at 1
//!                                                groups: w at 0, sum(v) at 1
//!   slot 0 + 1, aggregate 0               ──▶    slot 0 + 1, slot 1
//! ```

use super::Binder;
use super::convert::bare;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{Aggregate, AggregateKind, Source, Step};
use crate::types::SqlType;

/// Rewrites expressions over rows to expressions over groups.
pub(crate) struct Grouped<'g> {
    pub(crate) steps: &'g [Step],
    pub(crate) keys: &'g mut Vec<Expr>,
    pub(crate) aggregates: Vec<Aggregate>,
}

impl Grouped<'_> {
    pub(crate) fn over_groups(
        &mut self,
        expr: &mut Expr,
        binder: &mut Binder<'_>,
    ) -> Result<(), SqlError> {
        binder.budget.deeper()?;
        binder.budget.tick(self.keys.len())?;
        if let Some(at) = self.keys.iter().position(|key| key == expr) {
            *expr = Expr::Column(at);
            return Ok(());
        }
        match expr {
            Expr::Aggregate(at) => {
                *expr = Expr::Column(self.keys.len() + *at);
                return Ok(());
            }
            Expr::Column(slot) => {
                let slot = *slot;
                let known = binder.scope().columns.len();
                binder.budget.tick(self.steps.len() + known)?;
                binder.budget.charge(size_of::<Aggregate>())?;
                if !self.decided_by_keys(slot) {
                    let found = binder.scope().columns.iter().find(|column| column.slot == slot);
                    let name = found.map_or(String::new(), |c| format!("{}.{}", c.alias, c.name));
                    let message = format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an \
                         aggregate function"
                    );
                    return Err(SqlError::new(code::GROUPING, message));
                }
                let found = binder.scope().columns.iter().find(|column| column.slot == slot);
                let ty = found.map_or(SqlType::Text, |column| bare(column.ty));
                let of = Some(Expr::Column(slot));
                let (kind, filter) = (AggregateKind::First, None);
                self.aggregates.push(Aggregate {
                    kind,
                    of,
                    distinct: false,
                    filter,
                    order: Vec::new(),
                    ty,
                });
                *expr = Expr::Column(self.keys.len() + self.aggregates.len() - 1);
                return Ok(());
            }
            _ => {}
        }
        let mut result = Ok(());
        expr.children_mut(&mut |child| {
            if result.is_ok() {
                result = self.over_groups(child, binder);
            }
        });
        result
    }

    /// True if the group keys contain the whole primary key of the column's table.
    fn decided_by_keys(&self, slot: usize) -> bool {
        let step = self.steps.iter().find(|s| (s.offset..s.offset + s.width).contains(&slot));
        let Some(Step { source: Source::Table(table), offset, .. }) = step else { return false };
        let has = |at: &usize| self.keys.contains(&Expr::Column(offset + at));
        table.has_key() && table.key.iter().all(has)
    }
}
