//! Statements about procedures:
//!
//! ```text
//!   CREATE [OR REPLACE] PROCEDURE name ([[IN] [argument] type [DEFAULT e | = e]], ..) clause ..
//!   clause:     LANGUAGE SQL   AS 'statements'   [EXTERNAL] SECURITY INVOKER
//!               BEGIN ATOMIC statement; .. END
//!   DROP PROCEDURE [IF EXISTS] signature, .. [CASCADE | RESTRICT]
//!   ALTER PROCEDURE signature RENAME TO name | SET SCHEMA name | OWNER TO role
//!   COMMENT ON PROCEDURE signature IS 'text' | NULL
//!   signature:  name [([[IN] [argument] type], ..)]
//! ```
//!
//! The semicolons inside of BEGIN ATOMIC .. END do not end the statement ([`lengths`]). Its body is
//! the text between these words, so both forms of a body are texts.

use super::sequence::{end, must, words};
use crate::bind::folded;
use crate::catalog::procedures::ARGUMENTS_MAX;
use crate::error::{SqlError, code};
use sqlparser::ast::{DataType, Expr, ObjectName, Owner};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// A statement about procedures.
#[derive(Clone, PartialEq, Debug)]
pub enum ProcedureStatement {
    /// CREATE PROCEDURE.
    Create(NewProcedure),
    /// DROP PROCEDURE.
    Drop {
        /// The procedures.
        procedures: Vec<Signature>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER PROCEDURE.
    Alter(Signature, ProcedureChange),
    /// COMMENT ON PROCEDURE.
    Comment(Signature, Option<String>),
}

/// The parts of CREATE PROCEDURE.
#[derive(Clone, PartialEq, Debug)]
pub struct NewProcedure {
    /// Its name.
    pub name: ObjectName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// Its arguments.
    pub arguments: Vec<NewArgument>,
    /// The text of its statements.
    pub body: String,
    /// BEGIN ATOMIC.
    pub is_atomic: bool,
    /// The characters of the statement before the body, if the body is part of it as it is.
    pub before: Option<usize>,
}

/// An argument as a statement has it.
#[derive(Clone, PartialEq, Debug)]
pub struct NewArgument {
    /// Its name.
    pub name: Option<String>,
    /// Its type.
    pub ty: DataType,
    /// Its default.
    pub default: Option<Expr>,
}

/// A procedure as a statement names it.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// Its name.
    pub name: ObjectName,
    /// The types of its arguments, if they are given.
    pub types: Option<Vec<DataType>>,
}

/// A change by ALTER PROCEDURE.
#[derive(Clone, PartialEq, Debug)]
pub enum ProcedureChange {
    /// RENAME TO.
    Rename(String),
    /// SET SCHEMA.
    Schema(String),
    /// OWNER TO.
    Owner(Owner),
}

/// The result of parsing, or the reason why the statement is refused.
type Found<T> = Result<Result<T, SqlError>, ParserError>;

/// True for the first words of a statement about procedures.
pub(super) fn is_about([first, second, third, fourth]: [&str; 4]) -> bool {
    match (first, second) {
        ("CREATE", "OR") => (third, fourth) == ("REPLACE", "PROCEDURE"),
        ("COMMENT", "ON") => third == "PROCEDURE",
        ("CREATE" | "ALTER" | "DROP", second) => second == "PROCEDURE",
        _ => false,
    }
}

/// The numbers of tokens of the statements, which semicolons separate. Those in the body of a
/// procedure do not.
pub(super) fn lengths(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let (mut lengths, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    // The first words of the statement, and the word before.
    let (mut head, mut last) = (Vec::<String>::new(), String::new());
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::SemiColon if depth == 0 => {
                lengths.push(at - begin);
                begin = at + 1;
                head.clear();
            }
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() && word.value.len() <= 9 => {
                let word = word.value.to_ascii_uppercase();
                if head.len() < 4 {
                    head.push(word.clone());
                }
                match &*word {
                    "ATOMIC" if depth == 0 && last == "BEGIN" && creates(&head) => depth = 1,
                    "CASE" if depth > 0 => depth += 1,
                    "END" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                last = word;
                continue;
            }
            _ if head.len() < 4 => head.push(String::new()),
            _ => {}
        }
        last.clear();
    }
    lengths.push(tokens.len() - begin);
    lengths
}

fn creates(head: &[String]) -> bool {
    let word = |at: usize| head.get(at).map_or("", String::as_str);
    word(0) == "CREATE" && is_about([word(0), word(1), word(2), word(3)])
}

/// Parses a statement about procedures.
pub(super) fn statement(parser: &mut Parser<'_>, text: &str) -> Found<ProcedureStatement> {
    let or_replace = words(parser, &["CREATE", "OR", "REPLACE", "PROCEDURE"]);
    let found = if or_replace || words(parser, &["CREATE", "PROCEDURE"]) {
        create(parser, or_replace, text)?.map(ProcedureStatement::Create)
    } else if words(parser, &["ALTER", "PROCEDURE"]) {
        match signature(parser)? {
            Err(error) => Err(error),
            Ok(of) => change(parser)?.map(|change| ProcedureStatement::Alter(of, change)),
        }
    } else if words(parser, &["COMMENT", "ON", "PROCEDURE"]) {
        let of = signature(parser)?;
        must(parser, &["IS"])?;
        let said = match words(parser, &["NULL"]) {
            true => None,
            false => Some(literal(parser)?),
        };
        of.map(|of| ProcedureStatement::Comment(of, said))
    } else {
        must(parser, &["DROP", "PROCEDURE"])?;
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let procedures = parser.parse_comma_separated(signature)?;
        // Nothing depends on a procedure.
        if !words(parser, &["CASCADE"]) {
            words(parser, &["RESTRICT"]);
        }
        let procedures = procedures.into_iter().collect::<Result<_, _>>();
        procedures.map(|procedures| ProcedureStatement::Drop { procedures, if_exists })
    };
    if found.is_ok() {
        end(parser)?;
    }
    Ok(found)
}

fn change(parser: &mut Parser<'_>) -> Found<ProcedureChange> {
    Ok(Ok(if words(parser, &["RENAME", "TO"]) {
        ProcedureChange::Rename(folded(&parser.parse_identifier()?))
    } else if words(parser, &["SET", "SCHEMA"]) {
        ProcedureChange::Schema(folded(&parser.parse_identifier()?))
    } else if words(parser, &["OWNER", "TO"]) {
        ProcedureChange::Owner(parser.parse_owner()?)
    } else {
        return clause(parser).map(Err);
    }))
}

/// A name, perhaps with argument types.
pub(super) fn signature(parser: &mut Parser<'_>) -> Found<Signature> {
    let name = parser.parse_object_name(false)?;
    if parser.peek_token().token != Token::LParen {
        return Ok(Ok(Signature { name, types: None }));
    }
    let arguments = arguments(parser)?;
    Ok(arguments.map(|arguments| {
        let types = arguments.into_iter().map(|argument| argument.ty).collect();
        Signature { name, types: Some(types) }
    }))
}

fn create(parser: &mut Parser<'_>, or_replace: bool, text: &str) -> Found<NewProcedure> {
    let name = parser.parse_object_name(false)?;
    let arguments = match arguments(parser)? {
        Ok(arguments) => arguments,
        Err(error) => return Ok(Err(error)),
    };
    let (mut language, mut body, mut security, mut before) = (None, None, false, None);
    while !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        let is_twice = if words(parser, &["LANGUAGE"]) {
            let name = match parser.peek_token().token {
                Token::SingleQuotedString(_) => literal(parser)?,
                _ => folded(&parser.parse_identifier()?),
            };
            language.replace(name).is_some()
        } else if words(parser, &["AS"]) {
            let begin = parser.peek_token().span.start;
            let own = literal(parser)?;
            before = place(text, begin, &own);
            if parser.peek_token().token == Token::Comma {
                let message = "only one AS item needed for language \"sql\"";
                return Ok(Err(SqlError::new("42P13", message)));
            }
            body.replace((own, false)).is_some()
        } else if words(parser, &["BEGIN", "ATOMIC"]) {
            let begin = parser.peek_token().span.start;
            let own = atomic(parser, text)?;
            before = place(text, begin, &own);
            body.replace((own, true)).is_some()
        } else if words(parser, &["SECURITY", "INVOKER"])
            || words(parser, &["EXTERNAL", "SECURITY", "INVOKER"])
        {
            std::mem::replace(&mut security, true)
        } else {
            return clause(parser).map(Err);
        };
        if is_twice {
            return Ok(Err(SqlError::new(code::SYNTAX, "conflicting or redundant options")));
        }
    }
    let wrong = |message: &str| Ok(Err(SqlError::new("42P13", message)));
    match language.as_deref() {
        Some(name) if !name.eq_ignore_ascii_case("sql") => {
            let error = SqlError::unsupported(format!("a procedure of LANGUAGE {name}"));
            return Ok(Err(error.hint("LANGUAGE SQL has statements of SQL as its body.")));
        }
        None if body.as_ref().is_none_or(|(_, is_atomic)| !is_atomic) => {
            return wrong("no language specified");
        }
        _ => {}
    }
    let Some((body, is_atomic)) = body else { return wrong("no function body specified") };
    Ok(Ok(NewProcedure { name, or_replace, arguments, body, is_atomic, before }))
}

/// A text in any quotes.
fn literal(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text) => Ok(text),
        Token::DollarQuotedString(text) => Ok(text.value),
        _ => parser.expected("a quoted text", token),
    }
}

/// The error of another clause.
fn clause(parser: &mut Parser<'_>) -> Result<SqlError, ParserError> {
    for (clause, what, hint) in [
        (
            &["SECURITY", "DEFINER"][..],
            "SECURITY DEFINER",
            "A procedure has the rights of the role that calls it: SECURITY INVOKER.",
        ),
        (
            &["EXTERNAL", "SECURITY", "DEFINER"],
            "SECURITY DEFINER",
            "A procedure has the rights of the role that calls it: SECURITY INVOKER.",
        ),
        (&["SET"], "SET of a procedure", "SET LOCAL before the CALL, in its block."),
        (&["TRANSFORM"], "TRANSFORM of a procedure", "LANGUAGE SQL needs none."),
        (&["RETURN"], "RETURN of a procedure", "Write its statements into BEGIN ATOMIC .. END."),
    ] {
        if words(parser, clause) {
            return Ok(SqlError::unsupported(what).hint(hint));
        }
    }
    let functions = [
        "CALLED",
        "COST",
        "IMMUTABLE",
        "LEAKPROOF",
        "NOT",
        "PARALLEL",
        "RETURNS",
        "ROWS",
        "STABLE",
        "STRICT",
        "SUPPORT",
        "VOLATILE",
        "WINDOW",
    ];
    if functions.iter().any(|word| words(parser, &[word])) {
        return Ok(SqlError::new("42P13", "invalid attribute in procedure definition"));
    }
    parser.expected("a clause of CREATE PROCEDURE", parser.peek_token())
}

/// The text up to the END of BEGIN ATOMIC, which it takes too.
fn atomic(parser: &mut Parser<'_>, text: &str) -> Result<String, ParserError> {
    let (begin, mut depth) = (parser.peek_token().span.start, 1);
    loop {
        let token = parser.next_token();
        match &token.token {
            Token::EOF => return parser.expected("END", token),
            Token::Word(word) if word.quote_style.is_none() => {
                let is = |other: &str| word.value.eq_ignore_ascii_case(other);
                depth += usize::from(is("CASE"));
                depth -= usize::from(is("END"));
            }
            _ => {}
        }
        if depth == 0 {
            return Ok(between(text, begin, token.span.start).trim().to_owned());
        }
    }
}

/// The characters before a body that begins near a location, if it has no escapes there.
fn place(text: &str, begin: Location, body: &str) -> Option<usize> {
    let begin = super::position(text, begin.line, begin.column)? - 1;
    let rest = &text[text.char_indices().nth(begin)?.0..];
    let head = rest.find(body)?;
    let is_near = rest[..head].starts_with(['\'', '$']) || head == 0;
    is_near.then(|| begin + rest[..head].chars().count())
}

/// The text from one location to another.
fn between(text: &str, begin: Location, end: Location) -> String {
    let at = |place: Location| super::position(text, place.line, place.column).unwrap_or(1) - 1;
    let (begin, end) = (at(begin), at(end));
    text.chars().skip(begin).take(end.saturating_sub(begin)).collect()
}

fn arguments(parser: &mut Parser<'_>) -> Found<Vec<NewArgument>> {
    parser.expect_token(&Token::LParen)?;
    let mut all: Vec<NewArgument> = Vec::new();
    if parser.consume_token(&Token::RParen) {
        return Ok(Ok(all));
    }
    loop {
        match argument(parser)? {
            Ok(argument) => all.push(argument),
            Err(error) => return Ok(Err(error)),
        }
        if all.len() > ARGUMENTS_MAX {
            let message = format!("procedures cannot have more than {ARGUMENTS_MAX} arguments");
            return Ok(Err(SqlError::new("54023", message)));
        }
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RParen)?;
            return Ok(Ok(all));
        }
    }
}

/// The error of an argument that is not IN, if the next words begin one.
fn other_mode(parser: &mut Parser<'_>) -> Option<SqlError> {
    let mode = ["OUT", "INOUT", "VARIADIC"].into_iter().find(|mode| words(parser, &[mode]))?;
    let error = SqlError::unsupported(format!("an {mode} argument of a procedure"));
    let error = if mode == "VARIADIC" {
        SqlError::unsupported("a VARIADIC argument of a procedure").hint("Take an array.")
    } else {
        error.hint("Write results into a table, and SELECT them after the CALL.")
    };
    Some(error)
}

fn argument(parser: &mut Parser<'_>) -> Found<NewArgument> {
    if let Some(error) = other_mode(parser) {
        return Ok(Err(error));
    }
    words(parser, &["IN"]);
    // The first word is a name if no type ends here.
    let alone = parser.maybe_parse(|parser| {
        let ty = parser.parse_data_type()?;
        match parser.peek_token().token {
            Token::Comma | Token::RParen | Token::Eq => Ok(ty),
            Token::Word(word) if word.value.eq_ignore_ascii_case("default") => Ok(ty),
            _ => parser.expected("a type", parser.peek_token()),
        }
    })?;
    let (name, ty) = match alone {
        Some(ty) => (None, ty),
        None => {
            let name = folded(&parser.parse_identifier()?);
            if let Some(error) = other_mode(parser) {
                return Ok(Err(error));
            }
            words(parser, &["IN"]);
            (Some(name), parser.parse_data_type()?)
        }
    };
    let has_default = words(parser, &["DEFAULT"]) || parser.consume_token(&Token::Eq);
    let default = if has_default { Some(parser.parse_expr()?) } else { None };
    Ok(Ok(NewArgument { name, ty, default }))
}
