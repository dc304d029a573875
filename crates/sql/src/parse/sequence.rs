//! Statements about sequences and identity columns, whose options can come in any order:
//!
//! ```text
//!   CREATE [TEMP] SEQUENCE [IF NOT EXISTS] s ..      ALTER SEQUENCE [IF EXISTS] s ..
//!   DROP SEQUENCE [IF EXISTS] s, ..
//!   ALTER TABLE t ALTER c ADD GENERATED ALWAYS | BY DEFAULT AS IDENTITY [(..)]
//!   ALTER TABLE t ALTER c SET GENERATED .. | SET option | RESTART [WITH n] ..
//!   ALTER TABLE t ALTER c DROP IDENTITY
//!   AS type   INCREMENT [BY] n   [NO] MINVALUE [n]   [NO] MAXVALUE [n]
//!   START [WITH] n   RESTART [[WITH] n]   CACHE n   [NO] CYCLE   OWNED BY t.c | NONE
//! ```

use crate::bind::folded;
use crate::catalog::{Named, made_name};
use crate::error::SqlError;
use crate::sequence::SequenceOptions;
use crate::types::SqlType;
use sqlparser::ast::ObjectName;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// A statement about sequences.
#[derive(Clone, PartialEq, Debug)]
pub enum SequenceStatement {
    /// CREATE SEQUENCE.
    Create {
        /// Its name.
        name: Named,
        /// True if it is temporary.
        temporary: bool,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its options.
        options: SequenceOptions,
    },
    /// ALTER SEQUENCE.
    Alter {
        /// Its name.
        name: Named,
        /// IF EXISTS.
        if_exists: bool,
        /// The change.
        change: SequenceChange,
    },
    /// DROP SEQUENCE.
    Drop {
        /// Their names.
        names: Vec<Named>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: defaults that use them are dropped as well.
        cascade: bool,
    },
    /// ALTER TABLE .. ALTER COLUMN, of an identity.
    Identity {
        /// The table.
        table: Named,
        /// IF EXISTS.
        if_exists: bool,
        /// The column.
        column: String,
        /// The change.
        change: IdentityChange,
    },
}

/// A change by ALTER SEQUENCE.
#[derive(Clone, PartialEq, Debug)]
pub enum SequenceChange {
    /// New options.
    Options(Box<SequenceOptions>),
    /// A new name.
    Rename(String),
}

/// A change of an identity by ALTER COLUMN.
#[derive(Clone, PartialEq, Debug)]
pub enum IdentityChange {
    /// ADD GENERATED; true: ALWAYS.
    Add(bool, SequenceOptions),
    /// SET and RESTART; `Some(true)`: ALWAYS.
    Set(Option<bool>, SequenceOptions),
    /// DROP IDENTITY; true: IF EXISTS.
    Drop(bool),
}

fn expected(what: &str, parser: &Parser<'_>) -> ParserError {
    let found = parser.peek_token();
    ParserError::ParserError(format!("Expected: {what}, found: {found}{}", found.span.start))
}

/// Takes the next words if they are these; true if they were.
pub(super) fn words(parser: &mut Parser<'_>, wanted: &[&str]) -> bool {
    let is_word = |(at, wanted): (usize, &&str)| {
        matches!(parser.peek_nth_token(at).token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let all = wanted.iter().enumerate().all(is_word);
    if all {
        wanted.iter().for_each(|_| drop(parser.next_token()));
    }
    all
}

pub(super) fn must(parser: &mut Parser<'_>, wanted: &[&str]) -> Result<(), ParserError> {
    if words(parser, wanted) { Ok(()) } else { Err(expected(&wanted.join(" "), parser)) }
}

pub(super) fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let minus = parser.consume_token(&Token::Minus);
    if !minus && parser.peek_token().token == Token::Plus {
        parser.next_token();
    }
    let Token::Number(digits, _) = parser.peek_token().token else {
        return Err(expected("a number", parser));
    };
    let value = format!("{}{digits}", if minus { "-" } else { "" }).parse();
    let value = value.map_err(|_| expected("a number of 64 bits", parser))?;
    parser.next_token();
    Ok(value)
}

/// Reads the options of a sequence. Unlike in the grammar, they may be in any order.
fn options(
    parser: &mut Parser<'_>,
    is_set: bool,
) -> Result<(Option<bool>, SequenceOptions), ParserError> {
    let (mut options, mut always) = (SequenceOptions::default(), None);
    loop {
        let set = is_set && words(parser, &["SET"]);
        if set && words(parser, &["GENERATED"]) {
            always = Some(generated(parser)?);
        } else if words(parser, &["AS"]) {
            let ty = parser.parse_data_type()?;
            let ty =
                SqlType::parse(&ty).map_err(|error| ParserError::ParserError(error.message))?;
            options.ty = Some(ty);
        } else if words(parser, &["INCREMENT"]) {
            words(parser, &["BY"]);
            options.increment = Some(number(parser)?);
        } else if words(parser, &["NO", "MINVALUE"]) {
            options.min = Some(None);
        } else if words(parser, &["MINVALUE"]) {
            options.min = Some(Some(number(parser)?));
        } else if words(parser, &["NO", "MAXVALUE"]) {
            options.max = Some(None);
        } else if words(parser, &["MAXVALUE"]) {
            options.max = Some(Some(number(parser)?));
        } else if words(parser, &["START"]) {
            words(parser, &["WITH"]);
            options.start = Some(number(parser)?);
        } else if words(parser, &["RESTART"]) {
            let with = words(parser, &["WITH"]);
            let is_number =
                matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
            let value = if with || is_number { Some(number(parser)?) } else { None };
            options.restart = Some(value);
        } else if words(parser, &["CACHE"]) {
            options.cache = Some(number(parser)?);
        } else if words(parser, &["NO", "CYCLE"]) {
            options.cycle = Some(false);
        } else if words(parser, &["CYCLE"]) {
            options.cycle = Some(true);
        } else if words(parser, &["OWNED", "BY", "NONE"]) {
            options.owned_by = Some(None);
        } else if words(parser, &["OWNED", "BY"]) {
            options.owned_by = Some(Some(column(parser)?));
        } else if words(parser, &["SEQUENCE", "NAME"]) {
            options.name = Some(relation(parser)?);
        } else {
            if set {
                parser.prev_token();
            }
            return Ok((always, options));
        }
    }
}

/// Reads the words behind GENERATED, up to AS; true: ALWAYS.
fn generated(parser: &mut Parser<'_>) -> Result<bool, ParserError> {
    if words(parser, &["ALWAYS"]) {
        return Ok(true);
    }
    must(parser, &["BY", "DEFAULT"]).map(|()| false)
}

fn relation(parser: &mut Parser<'_>) -> Result<Named, ParserError> {
    let name = parser.parse_object_name(false)?;
    Named::of(&name).map_err(|error| ParserError::ParserError(error.message))
}

/// A table and one of its columns.
fn column(parser: &mut Parser<'_>) -> Result<(Named, String), ParserError> {
    let mut name = parser.parse_object_name(false)?;
    let column = name.0.pop().and_then(|part| part.as_ident().map(folded));
    let (Some(column), false) = (column, name.0.is_empty()) else {
        return Err(ParserError::ParserError("invalid OWNED BY option".to_owned()));
    };
    let table = Named::of(&ObjectName(name.0));
    Ok((table.map_err(|error| ParserError::ParserError(error.message))?, column))
}

pub(super) fn end(parser: &Parser<'_>) -> Result<(), ParserError> {
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(()),
        _ => Err(expected("end of statement", parser)),
    }
}

/// Parses a statement about sequences, if it is one.
pub(super) fn statement(
    parser: &mut Parser<'_>,
) -> Result<Option<Result<SequenceStatement, SqlError>>, ParserError> {
    let temporary = words(parser, &["CREATE", "TEMP", "SEQUENCE"])
        || words(parser, &["CREATE", "TEMPORARY", "SEQUENCE"]);
    let found = if temporary
        || words(parser, &["CREATE", "SEQUENCE"])
        || words(parser, &["CREATE", "UNLOGGED", "SEQUENCE"])
    {
        let if_not_exists = words(parser, &["IF", "NOT", "EXISTS"]);
        let name = relation(parser)?;
        let (_, options) = options(parser, false)?;
        SequenceStatement::Create { name, temporary, if_not_exists, options }
    } else if words(parser, &["ALTER", "SEQUENCE"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let name = relation(parser)?;
        let change = if words(parser, &["RENAME", "TO"]) {
            SequenceChange::Rename(folded(&parser.parse_identifier()?))
        } else {
            SequenceChange::Options(Box::new(options(parser, false)?.1))
        };
        SequenceStatement::Alter { name, if_exists, change }
    } else if words(parser, &["DROP", "SEQUENCE"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let names = parser.parse_comma_separated(relation)?;
        let cascade = words(parser, &["CASCADE"]);
        if !cascade {
            words(parser, &["RESTRICT"]);
        }
        SequenceStatement::Drop { names, if_exists, cascade }
    } else {
        return identity(parser);
    };
    end(parser)?;
    Ok(Some(Ok(found)))
}

/// ALTER TABLE .. ALTER COLUMN, of an identity.
fn identity(
    parser: &mut Parser<'_>,
) -> Result<Option<Result<SequenceStatement, SqlError>>, ParserError> {
    if !words(parser, &["ALTER", "TABLE"]) {
        return Ok(None);
    }
    let if_exists = words(parser, &["IF", "EXISTS"]);
    words(parser, &["ONLY"]);
    let Ok(table) = relation(parser) else { return Ok(None) };
    if !words(parser, &["ALTER"]) {
        return Ok(None);
    }
    words(parser, &["COLUMN"]);
    let column = folded(&parser.parse_identifier()?);
    let change = if words(parser, &["ADD", "GENERATED"]) {
        let always = generated(parser)?;
        must(parser, &["AS", "IDENTITY"])?;
        let mut given = SequenceOptions::default();
        if parser.consume_token(&Token::LParen) {
            given = options(parser, false)?.1;
            parser.expect_token(&Token::RParen)?;
        }
        IdentityChange::Add(always, given)
    } else if words(parser, &["DROP", "IDENTITY"]) {
        IdentityChange::Drop(words(parser, &["IF", "EXISTS"]))
    } else {
        let (always, given) = options(parser, true)?;
        if always.is_none() && given == SequenceOptions::default() {
            return Ok(None);
        }
        IdentityChange::Set(always, given)
    };
    if parser.peek_token().token == Token::Comma {
        let what = "another operation of ALTER TABLE beside one of an identity";
        return Ok(Some(Err(SqlError::unsupported(what).hint("Write two statements."))));
    }
    end(parser)?;
    Ok(Some(Ok(SequenceStatement::Identity { table, if_exists, column, change })))
}

/// Parses options without a statement.
///
/// # Errors
/// 42601.
pub fn sequence_options(text: &str) -> Result<SequenceOptions, SqlError> {
    let wrong = |error| super::refused(error, text);
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).map_err(wrong)?;
    let (_, options) = options(&mut parser, false).map_err(wrong)?;
    end(&parser).map_err(wrong)?;
    Ok(options)
}

/// Puts the options in the parentheses behind AS IDENTITY into the order that the grammar requires.
pub(super) fn put_in_order(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let word = |token: &TokenWithSpan, wanted: &str| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while let Some(identity) = tokens[at..].iter().position(|token| word(token, "IDENTITY")) {
        at += identity + 1;
        let open = at + tokens[at..].iter().take_while(|token| is_blank(token)).count();
        if tokens.get(open).is_none_or(|token| token.token != Token::LParen) {
            continue;
        }
        let close = tokens[open..].iter().position(|token| token.token == Token::RParen);
        let Some(close) = close.map(|close| open + close) else { return Ok(()) };
        let inner = tokens[open + 1..close].to_vec();
        let span = tokens[open].span;
        let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(inner);
        let (_, mut given) = options(&mut parser, false)?;
        // The default name may be stated explicitly.
        if let (Some(name), Some(own)) = (&given.name, own_name(&tokens[..open]))
            && name.name == own
        {
            given.name = None;
        }
        if parser.peek_token().token != Token::EOF {
            return Err(expected("an option of a sequence", &parser));
        }
        let ordered = in_order(&given)?;
        let ordered = Tokenizer::new(&PostgreSqlDialect {}, &ordered).tokenize()?;
        let ordered = ordered.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(open + 1..close, ordered);
    }
    Ok(())
}

/// The default name of an identity's sequence, from the names of its table and column, which are
/// among the tokens of the definition before it.
fn own_name(tokens: &[TokenWithSpan]) -> Option<String> {
    let signs: Vec<&Token> = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let is = |token: &Token, words: &[&str]| {
        matches!(token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|wanted| word.value.eq_ignore_ascii_case(wanted)))
    };
    let name = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => None,
    };
    let table = signs.iter().position(|token| is(token, &["TABLE"]))? + 1;
    let skipped = |token: &&&Token| is(token, &["IF", "NOT", "EXISTS", "ONLY"]);
    let mut at = table + signs[table..].iter().take_while(skipped).count();
    if signs.get(at + 1) == Some(&&Token::Period) {
        at += 2;
    }
    // The column is the first word behind the last comma or open parenthesis.
    let (mut depth, mut begin) = (0, signs.len());
    while begin > at + 1 {
        match signs[begin - 1] {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            Token::Comma if depth == 0 => break,
            token if depth == 0 && is(token, &["ADD", "COLUMN"]) => break,
            _ => {}
        }
        begin -= 1;
    }
    let begin = begin + signs[begin..].iter().take_while(skipped).count();
    Some(made_name(&name(signs.get(at)?)?, &name(signs.get(begin)?)?, "seq"))
}

fn in_order(options: &SequenceOptions) -> Result<String, ParserError> {
    if options.name.is_some() || options.restart.is_some() || options.ty.is_some() {
        let message = "Expected: an option of an identity's sequence but its name, found: (";
        return Err(ParserError::ParserError(message.to_owned()));
    }
    let mut words = Vec::new();
    let bound = |what: &str, bound: Option<i64>| match bound {
        Some(n) => format!("{what} {n}"),
        None => format!("NO {what}"),
    };
    words.extend(options.increment.map(|n| format!("INCREMENT BY {n}")));
    words.extend(options.min.map(|min| bound("MINVALUE", min)));
    words.extend(options.max.map(|max| bound("MAXVALUE", max)));
    words.extend(options.start.map(|n| format!("START WITH {n}")));
    words.extend(options.cache.map(|n| format!("CACHE {n}")));
    words.extend(options.cycle.map(|is| if is { "CYCLE" } else { "NO CYCLE" }.to_owned()));
    Ok(words.join(" "))
}
