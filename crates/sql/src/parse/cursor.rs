//! Statements about cursors:
//!
//! ```text
//!   DECLARE c [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR
//!           [WITH | WITHOUT HOLD] FOR query
//!   FETCH | MOVE [NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | n | ALL
//!           | FORWARD .. | BACKWARD ..] [FROM | IN] c
//!   CLOSE c | ALL
//! ```

use super::sequence::{end, must, number, words};
use crate::bind::folded;
use sqlparser::ast::Query;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// A statement about a cursor.
#[derive(Clone, PartialEq, Debug)]
pub enum CursorStatement {
    /// DECLARE.
    Declare(Declare, Box<Query>),
    /// FETCH, or MOVE.
    Fetch(Fetch),
    /// CLOSE; `None`: CLOSE ALL.
    Close(Option<String>),
}

/// The options of DECLARE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declare {
    /// Its name.
    pub name: String,
    /// Its rows are returned in binary format.
    pub is_binary: bool,
    /// True for SCROLL, false for NO SCROLL.
    pub scrolls: Option<bool>,
    /// WITH HOLD: it remains after its transaction has committed.
    pub is_held: bool,
}

/// FETCH, or MOVE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The cursor.
    pub name: String,
    /// The rows to fetch.
    pub way: FetchWay,
    /// MOVE: the rows are not returned.
    pub is_move: bool,
}

/// Which rows of a cursor, relative to its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchWay {
    /// This many of the next rows, or of the previous ones if negative; 0 is the current row.
    Count(i64),
    /// All following rows.
    All,
    /// All previous rows, backward.
    BackwardAll,
    /// The row with this number; negative numbers count from the end.
    Absolute(i64),
    /// The row at this distance.
    Relative(i64),
}

/// Parses a statement about a cursor.
pub(super) fn statement(parser: &mut Parser<'_>) -> Result<CursorStatement, ParserError> {
    let found = if words(parser, &["DECLARE"]) {
        declare(parser)?
    } else if words(parser, &["CLOSE"]) {
        let is_all = words(parser, &["ALL"]);
        CursorStatement::Close(if is_all { None } else { Some(name(parser)?) })
    } else {
        let is_move = words(parser, &["MOVE"]);
        if !is_move {
            must(parser, &["FETCH"])?;
        }
        let way = way(parser)?;
        if !words(parser, &["FROM"]) {
            words(parser, &["IN"]);
        }
        CursorStatement::Fetch(Fetch { way, is_move, name: name(parser)? })
    };
    end(parser)?;
    Ok(found)
}

fn declare(parser: &mut Parser<'_>) -> Result<CursorStatement, ParserError> {
    let name = name(parser)?;
    let mut declare = Declare { name, is_binary: false, scrolls: None, is_held: false };
    loop {
        if words(parser, &["BINARY"]) {
            declare.is_binary = true;
        } else if words(parser, &["NO", "SCROLL"]) {
            declare.scrolls = Some(false);
        } else if words(parser, &["SCROLL"]) {
            declare.scrolls = Some(true);
        } else if !words(parser, &["INSENSITIVE"]) && !words(parser, &["ASENSITIVE"]) {
            break;
        }
    }
    must(parser, &["CURSOR"])?;
    declare.is_held = words(parser, &["WITH", "HOLD"]);
    if !declare.is_held {
        words(parser, &["WITHOUT", "HOLD"]);
    }
    must(parser, &["FOR"])?;
    Ok(CursorStatement::Declare(declare, parser.parse_query()?))
}

fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    Ok(folded(&parser.parse_identifier()?))
}

fn way(parser: &mut Parser<'_>) -> Result<FetchWay, ParserError> {
    // A cursor may be named like a direction.
    let is_last = matches!(parser.peek_nth_token(1).token, Token::EOF | Token::SemiColon);
    if is_last || words_ahead(parser) {
        return Ok(FetchWay::Count(1));
    }
    Ok(if words(parser, &["NEXT"]) {
        FetchWay::Count(1)
    } else if words(parser, &["PRIOR"]) {
        FetchWay::Count(-1)
    } else if words(parser, &["FIRST"]) {
        FetchWay::Absolute(1)
    } else if words(parser, &["LAST"]) {
        FetchWay::Absolute(-1)
    } else if words(parser, &["ABSOLUTE"]) {
        FetchWay::Absolute(number(parser)?)
    } else if words(parser, &["RELATIVE"]) {
        FetchWay::Relative(number(parser)?)
    } else if words(parser, &["ALL"]) || words(parser, &["FORWARD", "ALL"]) {
        FetchWay::All
    } else if words(parser, &["BACKWARD", "ALL"]) {
        FetchWay::BackwardAll
    } else if words(parser, &["FORWARD"]) {
        FetchWay::Count(count(parser)?)
    } else if words(parser, &["BACKWARD"]) {
        FetchWay::Count(count(parser)?.saturating_neg())
    } else {
        FetchWay::Count(count(parser)?)
    })
}

/// True if FROM or IN comes next.
fn words_ahead(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token().token, Token::Word(word)
        if word.quote_style.is_none()
            && (word.value.eq_ignore_ascii_case("from") || word.value.eq_ignore_ascii_case("in")))
}

/// A number, if there is one.
fn count(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    match parser.peek_token().token {
        Token::Number(..) | Token::Minus | Token::Plus => number(parser),
        _ => Ok(1),
    }
}
