//! Assignments to parts of columns, `set a[1] = 7`, which are not in the grammar.
//!
//! The subscripts are removed before a statement is parsed, and attached to the names of their
//! columns afterwards. A name is identified by its position in the text.
//!
//! ```text
//!   update t set a[1] = 7     update t set a = 7; and separately: a[1], with its position
//! ```

use super::rewrite::is_word;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName,
    ObjectNamePart, ObjectNamePartFunction, OnConflictAction, OnInsert, SetExpr, Statement,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// The removed subscripts, each with the position of the column name.
pub(super) type Parts = Vec<(Location, Expr)>;

/// The current clause, with its depth of parentheses: it determines whether a name is an assignment
/// target.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Elsewhere,
    /// Behind SET, or a comma.
    Target(usize),
    /// Behind `=`.
    Value(usize),
    /// Behind INTO.
    Table,
    /// Among the columns of an INSERT.
    Columns(usize),
}

/// Removes the subscripts from an INSERT or UPDATE.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Parts, ParserError> {
    let mut parts = Parts::new();
    if !tokens.iter().any(|token| token.token == Token::LBracket) {
        return Ok(parts);
    }
    let all = std::mem::take(tokens);
    let signs: Vec<TokenWithSpan> =
        all.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let (mut at, mut depth, mut place) = (0, 0, Place::Elsewhere);
    while at < signs.len() {
        let sign = &signs[at];
        place = match (&sign.token, place) {
            (Token::Word(_), _) if is_word(sign, &["set"]) => Place::Target(depth),
            (Token::Word(_), _) if is_word(sign, &["into"]) => Place::Table,
            (Token::Word(_), Place::Table)
                if is_word(
                    sign,
                    &["values", "select", "with", "default", "table", "overriding"],
                ) =>
            {
                Place::Elsewhere
            }
            (Token::Word(_), Place::Value(of))
                if of == depth && is_word(sign, &["where", "from", "returning"]) =>
            {
                Place::Elsewhere
            }
            (Token::LParen, Place::Table) => Place::Columns(depth + 1),
            (Token::RParen, Place::Columns(of)) if of == depth => Place::Elsewhere,
            (Token::RParen, Place::Value(of)) if of == depth => Place::Elsewhere,
            (Token::Eq, Place::Target(of)) if of == depth => Place::Value(depth),
            (Token::Comma, Place::Value(of)) if of == depth => Place::Target(depth),
            (_, place) => place,
        };
        match sign.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_target = matches!(place, Place::Target(_) | Place::Columns(_));
        let length = if is_target { length(&signs[at..]) } else { 1 };
        if length > 1 {
            let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(super::DEPTH_MAX);
            let part = signs[at..at + length].to_vec();
            let part = parser.with_tokens_with_locations(part).parse_expr()?;
            parts.push((sign.span.start, part));
        }
        tokens.push(sign.clone());
        at += length;
    }
    Ok(parts)
}

/// The number of tokens of a name and the brackets behind it.
fn length(signs: &[TokenWithSpan]) -> usize {
    if !matches!(signs[0].token, Token::Word(_)) {
        return 1;
    }
    let (mut length, mut depth) = (1, 0);
    for (at, sign) in signs.iter().enumerate().skip(1) {
        match sign.token {
            Token::LBracket => depth += 1,
            Token::RBracket => depth -= 1,
            _ if depth == 0 => break,
            _ => {}
        }
        if depth == 0 {
            length = at + 1;
        }
    }
    length
}

/// Attaches the subscripts to the names of their columns; those without a matching name remain.
pub(super) fn put(statement: &mut Statement, parts: &mut Parts) {
    if parts.is_empty() {
        return;
    }
    match statement {
        Statement::Update(update) => put_assignments(&mut update.assignments, parts),
        Statement::Insert(insert) => {
            insert.columns.iter_mut().for_each(|name| put_name(name, parts));
            if let Some(OnInsert::OnConflict(on)) = &mut insert.on
                && let OnConflictAction::DoUpdate(update) = &mut on.action
            {
                put_assignments(&mut update.assignments, parts);
            }
        }
        Statement::Query(query) => {
            if let SetExpr::Insert(inner) | SetExpr::Update(inner) = &mut *query.body {
                put(inner, parts);
            }
        }
        Statement::Explain { statement, .. } => put(statement, parts),
        Statement::Prepare { statement, .. } => put(statement, parts),
        _ => {}
    }
}

fn put_assignments(assignments: &mut [Assignment], parts: &mut Parts) {
    for assignment in assignments {
        match &mut assignment.target {
            AssignmentTarget::ColumnName(name) => put_name(name, parts),
            AssignmentTarget::Tuple(names) => {
                names.iter_mut().for_each(|name| put_name(name, parts));
            }
        }
    }
}

fn put_name(name: &mut ObjectName, parts: &mut Parts) {
    let Some(ident) = name.0.last().and_then(ObjectNamePart::as_ident) else { return };
    let start = ident.span.start;
    let Some(at) = parts.iter().position(|(place, _)| *place == start) else { return };
    let (_, part) = parts.swap_remove(at);
    name.0.push(ObjectNamePart::Function(ObjectNamePartFunction {
        name: Ident::new("[]"),
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(part))],
    }));
}
