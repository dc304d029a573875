//! Index expressions and predicates: computed parts of entries, and the rows that have entries.
//!
//! ```text
//!   create unique index on users (lower(email)) where deleted is null
//!
//!   stored     both as texts, without the name of the table, and bound over the row
//!   a query    where lower(email) = $1 and deleted is null  can use the index
//!              where lower(email) = $1                      cannot: the row may have no entry
//!              where email = $1 and deleted is null         cannot: no condition on lower(email)
//! ```
//!
//! They must be immutable, like [generated columns](super::generated). The same expression in a
//! query is bound to an equal one, so the two can be compared.
//!
//! **Implication.** A query can use a partial index if a condition of the query implies each part
//! of the predicate. Such a condition is an equal one, a narrower one, an alternative of an OR, or
//! a comparison that implies IS NOT NULL. Values of parameters are not considered, because the plan
//! is for all of them.

use super::Binder;
use crate::budget::Budget;
use crate::catalog::{Catalog, Computed, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr, conjuncts};
use crate::types::{Family, SqlType};
use sqlparser::ast;
use std::sync::Arc;

/// The stored form of an index expression: with fully named types, and without the table's name.
pub(crate) fn written_computed(
    expr: &ast::Expr,
    table: &Table,
    catalog: &Catalog,
) -> Result<String, SqlError> {
    let mut inner = expr;
    while let ast::Expr::Nested(nested) = inner {
        inner = nested;
    }
    let text = super::generated::without_table(&inner.to_string(), &table.name)?;
    Ok(catalog.with_kept_types(&text))
}

impl Computed {
    /// An index expression or predicate from its stored text.
    ///
    /// # Errors
    /// 42P17 if it is not immutable, 0A000 for a subquery, and other errors of the expression.
    pub fn of(
        text: String,
        is_predicate: bool,
        table: &Arc<Table>,
        catalog: &Catalog,
    ) -> Result<Arc<Computed>, SqlError> {
        let budget = Budget::unlimited();
        let mut binder = Binder::new(catalog, "", &[], &budget);
        let ast = crate::parse::parse_expression(&text)?;
        let scope = binder.table_scope(table, &[&table.name])?;
        let bound = binder.within(scope, |binder| binder.computed(&ast, is_predicate));
        // Positions in this text are not positions in the statement.
        let ((value, ty), _) = bound.map_err(SqlError::nowhere)?;
        let place = if is_predicate { "index predicate" } else { "index expression" };
        check_immutable(&value, table, place)?;
        let mut columns = Vec::new();
        value.columns(&mut |at| columns.push(at));
        columns.sort_unstable();
        columns.dedup();
        Ok(Arc::new(Computed { text, value, ty, columns, is_predicate }))
    }

    /// The same expression with a new text.
    ///
    /// # Errors
    /// As [`Computed::of`].
    pub fn anew(
        &self,
        text: String,
        table: &Arc<Table>,
        catalog: &Catalog,
    ) -> Result<Arc<Computed>, SqlError> {
        Computed::of(text, self.is_predicate, table, catalog)
    }
}

impl Binder<'_> {
    fn computed(
        &mut self,
        ast: &ast::Expr,
        is_predicate: bool,
    ) -> Result<(Expr, SqlType), SqlError> {
        if is_predicate {
            return Ok((self.condition(ast)?, SqlType::Bool));
        }
        let value = self.expr(ast)?;
        match value.ty {
            SqlType::Unknown => Ok((self.coerce(value, SqlType::Text)?, SqlType::Text)),
            ty => Ok((value.expr, ty)),
        }
    }

    /// The expression that ON CONFLICT gives to select an index.
    pub(super) fn computed_target(
        &mut self,
        text: &str,
        is_predicate: bool,
        table: &Arc<Table>,
    ) -> Result<Expr, SqlError> {
        // Positions in this text are not positions in the statement.
        let ast = crate::parse::parse_expression(text).map_err(SqlError::nowhere)?;
        let scope = self.table_scope(table, &[&table.name])?;
        let bound = self.within(scope, |binder| binder.computed(&ast, is_predicate));
        Ok(bound.map_err(SqlError::nowhere)?.0.0)
    }
}

/// Refuses an expression that is not immutable.
fn check_immutable(expr: &Expr, table: &Table, place: &str) -> Result<(), SqlError> {
    if expr.has_query() {
        let message = format!("cannot use subquery in {place}");
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    if expr.has(&|part| matches!(part, Expr::Param(_))) {
        return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    if expr.has(&|part| matches!(part, Expr::Domain(..))) {
        let error = SqlError::unsupported(format!("a cast to a domain in an {place}"));
        return Err(error.hint("Cast to its base type."));
    }
    if expr.is_mutable() || expr.has(&|part| reads_time(part, table)) {
        let message = format!("functions in {place} must be marked IMMUTABLE");
        return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
    }
    Ok(())
}

/// True if a text may be parsed as a time, which depends on the session: any value that is not
/// already a time.
fn reads_time(expr: &Expr, table: &Table) -> bool {
    let is_time =
        |family: Family| matches!(family, Family::Time | Family::Clock | Family::Interval);
    match expr {
        Expr::Cast(inner, ty) if is_time(ty.family()) => match &**inner {
            Expr::Const(_) => false,
            Expr::Column(at) => !is_time(table.slot_type(*at).family()),
            Expr::Cast(_, from) => !is_time(from.family()),
            _ => true,
        },
        _ => false,
    }
}

/// True if rows that fulfil these conditions also fulfil a predicate. The table's slots begin at
/// `offset`.
pub(super) fn is_implied(
    predicate: &Computed,
    offset: usize,
    conditions: &[&Expr],
    budget: &Budget,
) -> Result<bool, SqlError> {
    let asked: usize = conditions.iter().map(|condition| condition.size()).sum();
    budget.tick(asked.saturating_mul(predicate.value.size()))?;
    let mut parts = Vec::new();
    conjuncts(predicate.value.clone(), &mut parts);
    Ok(parts.iter().all(|part| {
        let part = part.moved(offset);
        conditions.iter().any(|condition| implies(condition, &part))
    }))
}

/// True if the condition implies this part of a predicate.
fn implies(condition: &Expr, part: &Expr) -> bool {
    if condition == part {
        return true;
    }
    match (condition, part) {
        (Expr::And(all), part) => all.iter().any(|one| implies(one, part)),
        (Expr::Or(arms), part) => arms.iter().all(|arm| implies(arm, part)),
        (condition, Expr::Or(arms)) => arms.iter().any(|arm| implies(condition, arm)),
        (Expr::In(value, some, _), Expr::In(of, list, _)) => {
            value == of && some.iter().all(|one| list.contains(one))
        }
        (Expr::Compare(Compare::Eq, both), Expr::In(of, list, _)) => {
            let [a, b] = &**both;
            (a == &**of && list.contains(b)) || (b == &**of && list.contains(a))
        }
        (Expr::In(value, some, _), Expr::Compare(..)) => some.iter().all(|one| {
            let both = Box::new([Expr::clone(value), one.clone()]);
            is_narrower(&Expr::Compare(Compare::Eq, both), part)
        }),
        (Expr::Compare(..), Expr::Compare(..)) => is_narrower(condition, part),
        (condition, Expr::Not(not)) => match &**not {
            Expr::IsNull(value) => needs(condition, value),
            _ => false,
        },
        _ => false,
    }
}

/// A comparison with a constant, on its right.
fn compared(expr: &Expr) -> Option<(Compare, &Expr, &Datum)> {
    let Expr::Compare(compare, both) = expr else { return None };
    match &**both {
        [value, Expr::Const(with)] if !with.is_null() => Some((*compare, value, with)),
        [Expr::Const(with), value] if !with.is_null() => Some((compare.flipped(), value, with)),
        _ => None,
    }
}

/// True if both compare the same value with constants, and the first implies the second.
fn is_narrower(condition: &Expr, part: &Expr) -> bool {
    use Compare::{Eq, Ge, Gt, Le, Lt, Ne};
    let (Some((narrow, a, with)), Some((wide, b, than))) = (compared(condition), compared(part))
    else {
        return false;
    };
    let order = with.compare(than);
    a == b
        && match (narrow, wide) {
            (Eq, wide) => wide.holds(order),
            (Gt, Gt | Ge | Ne) | (Ge, Ge) => order.is_ge(),
            (Ge, Gt | Ne) => order.is_gt(),
            (Lt, Lt | Le | Ne) | (Le, Le) => order.is_le(),
            (Le, Lt | Ne) => order.is_lt(),
            _ => false,
        }
}

/// True if a condition can be true only if a value is not NULL.
fn needs(condition: &Expr, value: &Expr) -> bool {
    match condition {
        Expr::Compare(_, both) | Expr::Like { both, .. } | Expr::Matches { both, .. } => {
            both.contains(value)
        }
        Expr::Elements { both, all: false, .. } => both[0] == *value,
        Expr::In(of, ..) => **of == *value,
        Expr::IsTruth(of, _) => **of == *value,
        // A comparison that is known to be false had non-NULL arguments, too.
        Expr::Not(not) => match &**not {
            known @ (Expr::Compare(..)
            | Expr::Like { .. }
            | Expr::Matches { .. }
            | Expr::In(..)) => needs(known, value),
            not => not == value,
        },
        condition => condition == value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Source;
    use crate::statement::{Action, compile};

    /// The condition, bound in a query of one column.
    fn bound(condition: &str) -> Expr {
        let text = format!("select 1 from (values (1, true, 't')) v (a, b, c) where {condition}");
        let parsed = crate::parse::parse(&text).expect("a query").pop().expect("one");
        let (catalog, budget) = (Catalog::default(), Budget::unlimited());
        let compiled = compile(&parsed, &text, &catalog, &[], &budget).expect(&text);
        let Action::Select(select) = compiled.action else { panic!("a query") };
        assert!(matches!(select.steps[0].source, Source::Query(_) | Source::Values(_)));
        let mut all: Vec<Expr> = select.steps[0].on.iter().chain(&select.filter).cloned().collect();
        if all.len() == 1 { all.remove(0) } else { Expr::And(all) }
    }

    #[test]
    fn a_stronger_condition_implies_a_weaker_one() {
        for (condition, part, wanted) in [
            ("a = 5", "a = 5", true),
            ("a = 5", "a = 6", false),
            ("a = 5 and b", "a = 5", true),
            ("a = 5", "a = 5 or c = 'x'", true),
            ("a = 5 or c = 'x'", "a = 5", false),
            ("a = 5 or a = 6", "a = 6 or a = 5", true),
            ("a = 5", "a in (4, 5)", true),
            ("a in (5, 4)", "a in (4, 5, 6)", true),
            ("a in (5, 7)", "a in (4, 5, 6)", false),
            ("a in (5, 7)", "a > 4", true),
            ("a in (5, 7)", "a > 5", false),
            ("a > 5", "a > 4", true),
            ("a > 5", "a >= 5", true),
            ("a >= 5", "a > 5", false),
            ("a >= 5", "a <> 4", true),
            ("a > 5", "a <> 5", true),
            ("a >= 5", "a <> 5", false),
            ("5 > a", "a < 6", true),
            ("a <= 5", "6 > a", true),
            ("a < 5", "a < 4", false),
            ("a < 5", "a > 4", false),
            ("a > $1", "a > 4", false),
            ("a > $1", "a > $1", true),
            ("a > $1", "a is not null", true),
            ("a <> 5", "a is not null", true),
            ("not (a = 5)", "a is not null", true),
            ("a not in (5, 6)", "a is not null", true),
            ("c like 'x%'", "c is not null", true),
            ("a is null", "a is not null", false),
            ("b", "b is not null", true),
            ("not b", "b is not null", true),
            ("b is true", "b is not null", true),
            ("b is not true", "b is not null", false),
            ("coalesce(a, 5) = 5", "a is not null", false),
            ("a = 5 or b", "a is not null", false),
            ("b", "not b", false),
        ] {
            assert_eq!(implies(&bound(condition), &bound(part)), wanted, "{condition} => {part}");
        }
    }
}
