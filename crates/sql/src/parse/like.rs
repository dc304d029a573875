//! `CREATE TABLE t (a int, LIKE other INCLUDING ALL, ..)`; the grammar accepts LIKE only as the
//! single item of the list.
//!
//! ```text
//!   LIKE other [INCLUDING | EXCLUDING part] ..     part: ALL COMMENTS COMPRESSION CONSTRAINTS
//!                                                  DEFAULTS GENERATED IDENTITY INDEXES
//!                                                  STATISTICS STORAGE
//! ```
//!
//! The LIKE items are taken out of the list of columns, each with the number of columns before it.

use super::sequence::{must, words};
use sqlparser::ast::ObjectName;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// LIKE in the columns of a new table.
#[derive(Clone, PartialEq, Debug)]
pub struct Like {
    /// How many columns precede it, without copied ones.
    pub at: usize,
    /// The table whose columns are copied.
    pub name: ObjectName,
    /// Further properties to copy.
    pub including: Including,
}

/// The properties of a table that are copied besides its columns, their types and NOT NULL.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "they are the words of the statement")]
pub struct Including {
    pub comments: bool,
    pub constraints: bool,
    pub defaults: bool,
    pub generated: bool,
    pub identity: bool,
    pub indexes: bool,
}

/// The first words of list items that are not columns.
const CONSTRAINTS: [&str; 6] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"];

/// Takes LIKE out of the list of columns of a CREATE TABLE.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Like>, ParserError> {
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else {
        return Ok(Vec::new());
    };
    let items = items(tokens, open);
    let first_word = |from: usize, to: usize| {
        let token = tokens[from..to].iter().find(|t| !matches!(t.token, Token::Whitespace(_)));
        token.map_or(String::new(), |token| token.token.to_string().to_uppercase())
    };
    let (mut likes, mut gone, mut columns) = (Vec::new(), Vec::new(), 0);
    for &(from, to) in &items {
        match first_word(from, to).as_str() {
            "LIKE" => {
                likes.push(like(tokens[from..to].to_vec(), columns)?);
                gone.push((from, to));
            }
            word => columns += usize::from(!CONSTRAINTS.contains(&word)),
        }
    }
    let close = items.last().map_or(open + 1, |(_, to)| *to);
    for (from, to) in gone.into_iter().rev() {
        // Together with the comma behind it; for the last item, with the one before.
        let is_comma = |at: usize| tokens.get(at).is_some_and(|t| t.token == Token::Comma);
        match (to < close && is_comma(to), is_comma(from - 1)) {
            (true, _) => drop(tokens.drain(from..=to)),
            (_, true) => drop(tokens.drain(from - 1..to)),
            _ => drop(tokens.drain(from..to)),
        }
    }
    Ok(likes)
}

/// The start and end of each list item inside a parenthesis.
fn items(tokens: &[TokenWithSpan], open: usize) -> Vec<(usize, usize)> {
    let (mut items, mut from, mut depth) = (Vec::new(), open + 1, 1_usize);
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && token.token == Token::Comma) {
            items.push((from, at));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    items
}

fn like(tokens: Vec<TokenWithSpan>, at: usize) -> Result<Like, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
    must(&mut parser, &["LIKE"])?;
    let name = parser.parse_object_name(false)?;
    let mut including = Including::default();
    loop {
        let is_in = match (words(&mut parser, &["INCLUDING"]), words(&mut parser, &["EXCLUDING"])) {
            (false, false) => break,
            (is_in, _) => is_in,
        };
        let word = parser.next_token().token.to_string().to_uppercase();
        let Including { comments, constraints, defaults, generated, identity, indexes } =
            &mut including;
        match word.as_str() {
            "ALL" => {
                let all = [comments, constraints, defaults, generated, identity, indexes];
                all.into_iter().for_each(|one| *one = is_in);
            }
            "COMMENTS" => *comments = is_in,
            "CONSTRAINTS" => *constraints = is_in,
            "DEFAULTS" => *defaults = is_in,
            "GENERATED" => *generated = is_in,
            "IDENTITY" => *identity = is_in,
            "INDEXES" => *indexes = is_in,
            // These have no effect, so there is nothing to copy.
            "COMPRESSION" | "STATISTICS" | "STORAGE" => {}
            other => {
                let message = format!("Expected: what is copied of the table, found: {other}");
                return Err(ParserError::ParserError(message));
            }
        }
    }
    super::sequence::end(&parser)?;
    Ok(Like { at, name, including })
}
