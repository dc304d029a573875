//! The shard key of a table, which is not in the grammar:
//!
//! ```text
//!   CREATE TABLE t (..) [WITH (..)] SHARD BY (a, b)     read as  WITH (shard_by = 'a, b', ..)
//!   ALTER TABLE t SHARD BY (a, b) | DEFAULT [KEEP OLD] [BUDGET n] [FORCE] [DRY RUN]
//!   ALTER TABLE t PAUSE | RESUME [BUDGET n | NONE] | CANCEL SHARD BY     of a change under way
//! ```

use super::expect;
use crate::bind::folded;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// ALTER TABLE .. SHARD BY: a new row key for the rows of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Reshard {
    /// The table.
    pub table: ObjectName,
    /// The columns of the shard key; empty: by the primary key, or in the order of insertion.
    pub columns: Vec<String>,
    /// The old layout is kept as well.
    pub keeps_old: bool,
    /// The largest number of rows to copy per second.
    pub rows_s: Option<u64>,
    /// The columns may have fewer values than the table has partitions.
    pub is_forced: bool,
    /// The statement only reports the outcome.
    pub is_dry_run: bool,
}

/// Parses ALTER TABLE .. SHARD BY, if it is that.
pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Option<Reshard>, ParserError> {
    ["ALTER", "TABLE"].iter().try_for_each(|word| expect(parser, word))?;
    let table = parser.parse_object_name(false)?;
    if !is_word(&parser.next_token().token, "SHARD") {
        return Ok(None);
    }
    expect(parser, "BY")?;
    let mut named = Vec::new();
    if is_word(&parser.peek_token().token, "DEFAULT") {
        parser.next_token();
    } else {
        named = columns(parser)?.iter().map(folded).collect();
    }
    let keeps_old = is_next(parser, "KEEP");
    if keeps_old {
        expect(parser, "OLD")?;
    }
    let rows_s = if is_next(parser, "BUDGET") { Some(budget(parser)?) } else { None };
    let is_forced = is_next(parser, "FORCE");
    let is_dry_run = is_next(parser, "DRY");
    if is_dry_run {
        expect(parser, "RUN")?;
    }
    expect(parser, "EOF")?;
    Ok(Some(Reshard { table, columns: named, keeps_old, rows_s, is_forced, is_dry_run }))
}

/// A request about a change of the shard key that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardControl {
    /// Stop copying, and do not switch, until it is resumed.
    Pause,
    /// Continue: as before, or with a new limit of rows per second (`None`: no limit).
    Resume(Option<Option<u64>>),
    /// Cancel it, and undo its effects.
    Cancel,
}

/// Parses `PAUSE | RESUME [..] | CANCEL SHARD BY`, behind the first word.
pub(super) fn control(parser: &mut Parser<'_>, first: &str) -> Result<ShardControl, ParserError> {
    expect(parser, "BY")?;
    match first {
        "PAUSE" => Ok(ShardControl::Pause),
        "CANCEL" => Ok(ShardControl::Cancel),
        _ if !is_next(parser, "BUDGET") => Ok(ShardControl::Resume(None)),
        _ if is_next(parser, "NONE") => Ok(ShardControl::Resume(Some(None))),
        _ => budget(parser).map(|rows_s| ShardControl::Resume(Some(Some(rows_s)))),
    }
}

/// Parses a number of rows per second.
fn budget(parser: &mut Parser<'_>) -> Result<u64, ParserError> {
    let found = parser.next_token();
    match &found.token {
        Token::Number(digits, _) => digits.parse().ok().filter(|&rows_s| rows_s > 0),
        _ => None,
    }
    .ok_or_else(|| {
        let found = &found.token;
        ParserError::ParserError(format!("Expected: how many rows a second, found: {found}"))
    })
}

/// Takes the next word, if it is this one.
fn is_next(parser: &mut Parser<'_>, word: &str) -> bool {
    let is_it = is_word(&parser.peek_token().token, word);
    if is_it {
        parser.next_token();
    }
    is_it
}

/// Turns SHARD BY behind the columns of a table into a parameter of the table, which is in the
/// grammar.
pub(super) fn as_parameter(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let Some(at) = clause(tokens) else { return Ok(()) };
    let rest = tokens.split_off(at);
    let span = rest[0].span;
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(rest);
    ["SHARD", "BY"].iter().try_for_each(|word| expect(&mut parser, word))?;
    let names: Vec<String> = columns(&mut parser)?.iter().map(ToString::to_string).collect();
    expect(&mut parser, "EOF")?;
    let shard = vec![
        Token::make_word("shard_by", None),
        Token::Eq,
        Token::SingleQuotedString(names.join(", ").replace('\'', "''")),
    ];
    let put = |tokens: &mut Vec<TokenWithSpan>, at: usize, put: Vec<Token>| {
        let put = put.into_iter().map(|token| TokenWithSpan { token, span });
        drop(tokens.splice(at..at, put));
    };
    match parameters(tokens) {
        Some(behind) => put(tokens, behind, [shard, vec![Token::Comma]].concat()),
        None => {
            let (before, behind) =
                (vec![Token::make_keyword("WITH"), Token::LParen], vec![Token::RParen]);
            put(tokens, at, [before, shard, behind].concat());
        }
    }
    Ok(())
}

/// The columns in a text, in the form of the list in SHARD BY.
///
/// # Errors
/// The text is not a list of names.
pub fn column_list(text: &str) -> Result<Vec<Ident>, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?;
    let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
    expect(&mut parser, "EOF")?;
    Ok(columns)
}

pub(super) fn columns(parser: &mut Parser<'_>) -> Result<Vec<Ident>, ParserError> {
    expect(parser, "(")?;
    let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
    expect(parser, ")")?;
    Ok(columns)
}

/// The position of SHARD in front of BY, outside of all parentheses.
fn clause(tokens: &[TokenWithSpan]) -> Option<usize> {
    let outside = outside(tokens);
    let pairs = outside.windows(2);
    let mut found = pairs.filter(|pair| {
        is_word(&tokens[pair[0]].token, "SHARD") && is_word(&tokens[pair[1]].token, "BY")
    });
    found.next().map(|pair| pair[0])
}

/// The position behind the parenthesis of WITH (..), if there is one.
fn parameters(tokens: &[TokenWithSpan]) -> Option<usize> {
    let outside = outside(tokens);
    let with = outside.windows(2).find(|pair| {
        is_word(&tokens[pair[0]].token, "WITH") && tokens[pair[1]].token == Token::LParen
    });
    with.map(|pair| pair[1] + 1)
}

/// The positions of the words and symbols outside of parentheses, and of the parentheses
/// themselves.
fn outside(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let (mut depth, mut outside) = (0_usize, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::Whitespace(_) => continue,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            outside.push(at);
        }
        if token.token == Token::LParen {
            depth += 1;
        }
    }
    outside
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
