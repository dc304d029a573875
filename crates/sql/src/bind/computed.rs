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

use super::Binder;
use crate::budget::Budget;
use crate::catalog::{Catalog, Computed, Table};
use crate::error::{SqlError, code};
use crate::expr::Expr;
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
