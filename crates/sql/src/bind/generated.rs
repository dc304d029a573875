//! Generated columns and their expressions.
//!
//! ```text
//!   create table lines (price int, count int,
//!                       total int generated always as (price * count) stored)
//!
//!   stored     the expression, as the column's default
//!   a plan     computed columns, over the other columns of the row; in an UPDATE those
//!              that depend on assigned columns
//! ```
//!
//! The value is computed after the other columns are converted, and before NOT NULL and checks. The
//! expression must be immutable, so it cannot use settings of the session or the time, and it
//! cannot use other generated columns.

use super::{Binder, Typed};
use crate::budget::Budget;
use crate::catalog::{Catalog, Table, quoted};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use sqlparser::ast::{Ident, Value};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, Tokenizer};
use std::sync::Arc;

impl Binder<'_> {
    /// The expression of a generated column over the row of its table; `None` for other columns.
    pub(super) fn generated(
        &mut self,
        table: &Arc<Table>,
        at: usize,
    ) -> Result<Option<Expr>, SqlError> {
        let column = &table.columns[at];
        let Some(value) = generation(self, table, at)? else { return Ok(None) };
        self.stored(value, column).map(Some)
    }
}

/// The same before its conversion to the type of the column.
fn generation(
    binder: &mut Binder<'_>,
    table: &Arc<Table>,
    at: usize,
) -> Result<Option<Typed>, SqlError> {
    let Some(text) = table.columns[at].generated() else { return Ok(None) };
    binder.budget.tick(text.len())?;
    let ast = crate::parse::parse_expression(text)?;
    let scope = binder.table_scope(table, &[&table.name])?;
    Ok(Some(binder.within(scope, |binder| binder.expr(&ast))?.0))
}

/// The columns that a check constraint of a table reads, in order.
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

/// Refuses a generated column with an expression that is not immutable.
///
/// # Errors
/// 42P17, 0A000, and other errors of the expression.
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
    // The conversion may depend on the session, as that of a date to a text.
    let before = generation(&mut binder, table, at)?;
    match before.is_some_and(|value| value.expr.is_mutable()) {
        true => Err(wrong("generation expression is not immutable".to_owned())),
        false => Ok(()),
    }
}

/// Refuses check constraints that are not conditions on one row.
///
/// # Errors
/// 0A000 for a subquery, 42P02 for a parameter, and other errors of the condition.
pub fn check_conditions(
    table: &Arc<Table>,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<(), SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    for check in &table.checks {
        let ast = crate::parse::parse_expression(&check.condition)?;
        let scope = binder.table_scope(table, &[&table.name])?;
        let bound = binder.within(scope, |binder| binder.condition(&ast));
        // Positions in this text are not positions in the statement.
        super::domain::check_condition(&bound.map_err(SqlError::nowhere)?.0)?;
    }
    Ok(())
}

/// The generated columns of a table that depend on one of its columns.
///
/// # Errors
/// The errors of the expressions.
pub fn computed_of(
    table: &Arc<Table>,
    at: usize,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<Vec<usize>, SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    let mut found = Vec::new();
    for (other, column) in table.columns.iter().enumerate() {
        // Most expressions do not even contain the name.
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

/// The table after it, or one of its columns, was renamed. The new name is in its conditions, the
/// predicates of its indexes, and the expressions of generated columns.
///
/// # Errors
/// 0A000 if an expression would change its meaning.
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
    let refused = || {
        let what =
            format!("renaming \"{from}\", which a CHECK, a generated column or an index mentions,");
        SqlError::unsupported(what).hint("Drop what mentions it, and add it again.")
    };
    if column.is_some() {
        let changed = Arc::new(new.clone());
        for index in new.indexes.iter_mut().filter(|index| index.computed().next().is_some()) {
            *index = Arc::new(index.with_computed(|before| {
                let after = before.anew(again(&before.text)?, &changed, catalog);
                let after = after.ok().filter(|after| after.value == before.value);
                after.ok_or_else(refused)
            })?);
        }
    }
    if new.checks == table.checks && new.columns.iter().all(|column| !column.is_generated) {
        return Ok(new);
    }
    let mut binder = Binder::new(catalog, "", &[], budget);
    let before = binder.rules(table)?;
    let new = Arc::new(new);
    match binder.rules(&new) {
        Ok(after) if after == before => Ok(Arc::unwrap_or_clone(new)),
        _ => Err(refused()),
    }
}

/// Removes the table's name, and its schema, before columns in an expression.
pub(super) fn without_table(text: &str, table: &str) -> Result<String, SqlError> {
    let mut tokens = tokens_of(text)?;
    while let Some(at) =
        (1..tokens.len()).find(|&at| tokens[at] == Token::Period && is_name(&tokens[at - 1], table))
    {
        let has_schema = at > 2 && tokens[at - 2] == Token::Period;
        tokens.drain(if has_schema { at - 3 } else { at - 1 }..=at);
    }
    text_of(&tokens)
}

fn tokens_of(text: &str) -> Result<Vec<Token>, SqlError> {
    // Texts keep their notation, with doubled quotes.
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).with_unescape(false).tokenize();
    tokens.map_err(|error| SqlError::new(code::SYNTAX, error.to_string()))
}

fn text_of(tokens: &[Token]) -> Result<String, SqlError> {
    // The token of E'..' is its value.
    let written = |token: &Token| match token {
        Token::EscapedStringLiteral(text) => Value::EscapedStringLiteral(text.clone()).to_string(),
        token => token.to_string(),
    };
    let written: Vec<String> = tokens.iter().map(written).collect();
    Ok(crate::parse::parse_expression(&written.concat())?.to_string())
}

/// True if a token is this name.
fn is_name(token: &Token, name: &str) -> bool {
    let Token::Word(word) = token else { return false };
    let called =
        Ident { value: word.value.clone(), quote_style: word.quote_style, span: Span::empty() };
    super::folded(&called) == name
}

/// Replaces a name in an expression: of a column, or of the table before a column.
fn rewritten(text: &str, from: &str, to: &str, is_table: bool) -> Result<String, SqlError> {
    let mut tokens = tokens_of(text)?;
    let is_blank = |token: &Token| matches!(token, Token::Whitespace(_));
    for at in 0..tokens.len() {
        if !is_name(&tokens[at], from) {
            continue;
        }
        let next = tokens[at + 1..].iter().find(|token| !is_blank(token));
        let before = tokens[..at].iter().rfind(|token| !is_blank(token));
        let is_meant = match is_table {
            true => next == Some(&Token::Period),
            false => next != Some(&Token::LParen) && before != Some(&Token::DoubleColon),
        };
        if is_meant {
            let plain = Token::make_word(to, None);
            let is_plain = matches!(&plain, Token::Word(word) if word.keyword == Keyword::NoKeyword)
                && quoted(to) == to;
            tokens[at] = if is_plain { plain } else { Token::make_word(to, Some('"')) };
        }
    }
    text_of(&tokens)
}
