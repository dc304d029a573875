//! VACUUM and ANALYZE. VACUUM has nothing to do, because garbage is freed automatically. ANALYZE
//! gathers the [statistics](crate::statistics) of tables.

use sqlparser::ast::{Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A VACUUM or an ANALYZE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Maintenance {
    /// True for VACUUM, which cannot run inside a transaction block.
    pub vacuums: bool,
    /// True for ANALYZE, including VACUUM ANALYZE.
    pub analyzes: bool,
    /// The tables, each with its named columns; an empty list means all.
    pub tables: Vec<(ObjectName, Vec<Ident>)>,
}

impl Maintenance {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        if self.vacuums { "VACUUM" } else { "ANALYZE" }
    }
}

/// The options of VACUUM alone. None has an effect here.
const OF_VACUUM: &[&str] = &[
    "disable_page_skipping",
    "freeze",
    "full",
    "index_cleanup",
    "parallel",
    "process_toast",
    "truncate",
];

/// Parses one of these statements.
pub(super) fn statement(tokens: Vec<TokenWithSpan>) -> Result<Maintenance, ParserError> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
    let vacuums = parser.next_token().token.to_string().eq_ignore_ascii_case("vacuum");
    let mut analyzes = !vacuums;
    if parser.consume_token(&Token::LParen) {
        loop {
            let option = parser.parse_identifier()?.value.to_lowercase();
            let of_both = ["analyze", "analyse", "verbose", "skip_locked"];
            let known = if vacuums { OF_VACUUM } else { &[] };
            if !of_both.contains(&&*option) && !known.contains(&&*option) {
                let tag = if vacuums { "VACUUM" } else { "ANALYZE" };
                let what = format!("unrecognized {tag} option \"{option}\"");
                return Err(ParserError::ParserError(what));
            }
            let value = match parser.peek_token().token {
                Token::Comma | Token::RParen => "true".to_owned(),
                _ => parser.next_token().token.to_string().to_lowercase(),
            };
            let is_on = !matches!(value.as_str(), "false" | "off" | "0");
            analyzes |= is_on && matches!(option.as_str(), "analyze" | "analyse");
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else {
        while let Token::Word(word) = parser.peek_token().token {
            match (word.value.to_lowercase().as_str(), word.quote_style) {
                ("analyze" | "analyse", None) => analyzes = true,
                ("full" | "freeze", None) if vacuums => {}
                ("verbose", None) => {}
                _ => break,
            }
            parser.next_token();
        }
    }
    let mut tables = Vec::new();
    if !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        tables = parser.parse_comma_separated(|parser| {
            let _ = parser.parse_keyword(Keyword::ONLY);
            let name = parser.parse_object_name(false)?;
            let mut columns = Vec::new();
            if parser.consume_token(&Token::LParen) {
                columns = parser.parse_comma_separated(Parser::parse_identifier)?;
                parser.expect_token(&Token::RParen)?;
            }
            Ok((name, columns))
        })?;
    }
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(Maintenance { vacuums, analyzes, tables }),
        _ => parser.expected("the end of the statement", parser.peek_token()),
    }
}
