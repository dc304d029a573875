//! Generated columns: what they are computed of.
//!
//! ```text
//!   create table lines (price int, count int, total int generated always as (price * count) stored)
//!
//!   kept       the expression, as the column's default
//!   a plan     columns that are computed, over the row as it is otherwise: of an UPDATE those that look at what is set
//! ```
//!
//! The value is computed once the others have their types, and before NULL and conditions are looked at. It must be the
//! same whenever it is computed, so what a session sets, or time, has no place in it; and no column is computed of one
//! that is.

use super::Binder;
use super::change::check_assignable;
use crate::budget::Budget;
use crate::catalog::{Catalog, Table};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use sqlparser::ast::Ident;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Span, Token, Tokenizer};
use std::sync::Arc;

impl Binder<'_> {
    /// What a column is computed of, over the row of its table, if it is.
    pub(super) fn generated(
        &mut self,
        table: &Arc<Table>,
        at: usize,
    ) -> Result<Option<Expr>, SqlError> {
        let column = &table.columns[at];
        let Some(text) = column.generated() else { return Ok(None) };
        self.budget.tick(text.len())?;
        let ast = crate::parse::parse_expression(text)?;
        let scope = self.table_scope(table, &[&table.name])?;
        let (value, _) = self.within(scope, |binder| {
            let value = binder.expr(&ast)?;
            check_assignable(column, value.ty)?;
            binder.coerce(value, column.ty)
        })?;
        Ok(Some(value))
    }
}

/// The columns that a condition on the rows of a table looks at, in their order.
pub(crate) fn checked_columns(
    table: &Arc<Table>,
    condition: &str,
    catalog: &Catalog,
) -> Vec<usize> {
    let budget = Budget::unlimited();
    let mut binder = Binder::new(catalog, "", &[], &budget);
    let mut bound = || -> Result<Expr, SqlError> {
        let ast = crate::parse::parse_expression(condition)?;
        let scope = binder.table_scope(table, &[&table.name])?;
        Ok(binder.within(scope, |binder| binder.condition(&ast))?.0)
    };
    let mut found = Vec::new();
    if let Ok(bound) = bound() {
        bound.columns(&mut |slot| found.push(slot));
    }
    found.retain(|slot| *slot < table.columns.len());
    found.sort_unstable();
    found.dedup();
    found
}

/// Refuses a generated column that is not the same whenever it is computed.
///
/// # Errors
/// 42P17, 0A000, and what is wrong with the expression.
pub fn check_generated(
    table: &Arc<Table>,
    at: usize,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<(), SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    let Some(value) = binder.generated(table, at)? else { return Ok(()) };
    let wrong = |message: String| SqlError::new(code::INVALID_OBJECT_DEFINITION, message);
    if value.has_query() {
        return Err(SqlError::new(
            code::FEATURE_NOT_SUPPORTED,
            "cannot use subquery in column generation expression",
        ));
    }
    let mut looked_at = Vec::new();
    value.columns(&mut |slot| looked_at.push(slot));
    let is_generated = |slot: &usize| table.columns.get(*slot).is_some_and(|c| c.is_generated);
    if let Some(other) = looked_at.into_iter().find(is_generated) {
        let name = &table.columns[other].name;
        let message =
            format!("cannot use generated column \"{name}\" in column generation expression");
        return Err(
            wrong(message).detail("A generated column cannot reference another generated column.")
        );
    }
    match value.is_mutable() {
        true => Err(wrong("generation expression is not immutable".to_owned())),
        false => Ok(()),
    }
}

/// The generated columns of a table that look at one of its columns.
///
/// # Errors
/// What is wrong with the expressions.
pub fn computed_of(
    table: &Arc<Table>,
    at: usize,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<Vec<usize>, SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    let mut found = Vec::new();
    for (other, column) in table.columns.iter().enumerate() {
        // Most expressions do not even have the word.
        let name = &table.columns[at].name;
        if column.generated().is_none_or(|text| !text.to_lowercase().contains(&name.to_lowercase()))
        {
            continue;
        }
        let mut looks_at = false;
        if let Some(value) = binder.generated(table, other)? {
            value.columns(&mut |slot| looks_at |= slot == at);
        }
        found.extend(looks_at.then_some(other));
    }
    Ok(found)
}

/// The table under another name, or with another name of a column: its conditions, and what its generated columns are
/// computed of, call it so.
///
/// # Errors
/// 0A000 where they would mean something else then.
pub fn renamed(
    table: &Arc<Table>,
    column: Option<usize>,
    to: &str,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<Table, SqlError> {
    let mut new = Table::clone(table);
    let from = match column {
        Some(at) => std::mem::replace(&mut new.columns[at].name, to.to_owned()),
        None => std::mem::replace(&mut new.name, to.to_owned()),
    };
    let again = |text: &str| rewritten(text, &from, to, column.is_none());
    for check in &mut new.checks {
        check.condition = again(&check.condition)?;
    }
    for column in new.columns.iter_mut().filter(|column| column.is_generated) {
        column.default = column.default.as_deref().map(again).transpose()?;
    }
    if new.checks == table.checks && new.columns.iter().all(|column| !column.is_generated) {
        return Ok(new);
    }
    let mut binder = Binder::new(catalog, "", &[], budget);
    let before = binder.rules(table)?;
    let new = Arc::new(new);
    match binder.rules(&new) {
        Ok(after) if after == before => Ok(Arc::unwrap_or_clone(new)),
        _ => {
            let what =
                format!("renaming \"{from}\", which a CHECK or a generated column mentions,");
            Err(SqlError::unsupported(what).hint("Drop what mentions it, and add it again."))
        }
    }
}

/// An expression with another name in the place of one: of a column, or of the table before a column.
fn rewritten(text: &str, from: &str, to: &str, is_table: bool) -> Result<String, SqlError> {
    // Texts stay as they are written, with their doubled quotes.
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).with_unescape(false).tokenize();
    let mut tokens = tokens.map_err(|error| SqlError::new(code::SYNTAX, error.to_string()))?;
    let is_blank = |token: &Token| matches!(token, Token::Whitespace(_));
    for at in 0..tokens.len() {
        let Token::Word(word) = &tokens[at] else { continue };
        let called =
            Ident { value: word.value.clone(), quote_style: word.quote_style, span: Span::empty() };
        if super::folded(&called) != from {
            continue;
        }
        let next = tokens[at + 1..].iter().find(|token| !is_blank(token));
        let before = tokens[..at].iter().rfind(|token| !is_blank(token));
        let is_meant = match is_table {
            true => next == Some(&Token::Period),
            false => next != Some(&Token::LParen) && before != Some(&Token::DoubleColon),
        };
        if is_meant {
            tokens[at] = Token::make_word(to, Some('"'));
        }
    }
    let written: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    Ok(crate::parse::parse_expression(&written.concat())?.to_string())
}
