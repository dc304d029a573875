//! Statements about domains:
//!
//! ```text
//!   CREATE DOMAIN d [AS] type [DEFAULT e] [NOT NULL | NULL] [[CONSTRAINT c] CHECK (e)] ..
//!   ALTER DOMAIN d SET DEFAULT e | DROP DEFAULT | SET NOT NULL | DROP NOT NULL
//!   ALTER DOMAIN d ADD [CONSTRAINT c] CHECK (e) | DROP CONSTRAINT [IF EXISTS] c
//!   ALTER DOMAIN d VALIDATE CONSTRAINT c
//!   ALTER DOMAIN d RENAME TO name | RENAME CONSTRAINT c TO name | SET SCHEMA name | OWNER TO role
//!   DROP DOMAIN [IF EXISTS] d, .. [CASCADE | RESTRICT]
//! ```

use super::sequence::{end, must, words};
use crate::bind::folded;
use crate::error::{SqlError, code};
use sqlparser::ast::{DataType, Expr, ObjectName, Owner};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// A statement about domains.
#[derive(Clone, PartialEq, Debug)]
pub enum DomainStatement {
    /// CREATE DOMAIN.
    Create {
        /// Its name.
        name: ObjectName,
        /// Its base type.
        ty: DataType,
        /// Its options.
        options: Vec<DomainOption>,
    },
    /// ALTER DOMAIN.
    Alter {
        /// Its name.
        name: ObjectName,
        /// The change.
        change: Box<DomainChange>,
    },
    /// DROP DOMAIN.
    Drop {
        /// Their names.
        names: Vec<ObjectName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
}

/// An option of CREATE DOMAIN.
#[derive(Clone, PartialEq, Debug)]
pub enum DomainOption {
    /// DEFAULT.
    Default(Expr),
    /// NOT NULL; false: NULL.
    NotNull(bool),
    /// CHECK, with an optional name.
    Check(Option<String>, Expr),
}

/// A change by ALTER DOMAIN.
#[derive(Clone, PartialEq, Debug)]
pub enum DomainChange {
    /// SET DEFAULT; `None`: DROP DEFAULT.
    Default(Option<Expr>),
    /// SET NOT NULL; false: DROP NOT NULL.
    NotNull(bool),
    /// ADD CHECK, with an optional name.
    Add(Option<String>, Expr),
    /// DROP CONSTRAINT; true: IF EXISTS.
    Drop(String, bool),
    /// VALIDATE CONSTRAINT.
    Validate(String),
    /// RENAME TO.
    Rename(String),
    /// RENAME CONSTRAINT.
    RenameCheck(String, String),
    /// SET SCHEMA.
    Schema(String),
    /// OWNER TO.
    Owner(Owner),
}

/// The result of parsing, or the reason why the statement is refused.
type Found<T> = Result<Result<T, SqlError>, ParserError>;

/// Parses a statement about domains.
pub(super) fn statement(parser: &mut Parser<'_>) -> Found<DomainStatement> {
    let found = if words(parser, &["CREATE", "DOMAIN"]) {
        create(parser)?
    } else if words(parser, &["ALTER", "DOMAIN"]) {
        let name = parser.parse_object_name(false)?;
        change(parser)?.map(|change| DomainStatement::Alter { name, change: Box::new(change) })
    } else {
        must(parser, &["DROP", "DOMAIN"])?;
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        let cascade = words(parser, &["CASCADE"]);
        if !cascade {
            words(parser, &["RESTRICT"]);
        }
        Ok(DomainStatement::Drop { names, if_exists, cascade })
    };
    if found.is_ok() {
        end(parser)?;
    }
    Ok(found)
}

fn create(parser: &mut Parser<'_>) -> Found<DomainStatement> {
    let name = parser.parse_object_name(false)?;
    words(parser, &["AS"]);
    let ty = parser.parse_data_type()?;
    let mut options = Vec::new();
    while !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        match option(parser)? {
            Ok(option) => options.push(option),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(DomainStatement::Create { name, ty, options }))
}

fn option(parser: &mut Parser<'_>) -> Found<DomainOption> {
    let name = match words(parser, &["CONSTRAINT"]) {
        true => Some(folded(&parser.parse_identifier()?)),
        false => None,
    };
    if name.is_none() && words(parser, &["DEFAULT"]) {
        return Ok(Ok(DomainOption::Default(default(parser)?)));
    }
    if words(parser, &["NOT", "NULL"]) {
        return Ok(Ok(DomainOption::NotNull(true)));
    }
    if words(parser, &["NULL"]) {
        return Ok(Ok(DomainOption::NotNull(false)));
    }
    Ok(check(parser)?.map(|condition| DomainOption::Check(name, condition)))
}

/// An expression that ends before NOT NULL.
fn default(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.parse_subexpr(PostgreSqlDialect {}.prec_value(Precedence::Is))
}

/// A condition, after its name.
fn check(parser: &mut Parser<'_>) -> Found<Expr> {
    for (word, kind) in [
        (&["UNIQUE"][..], "unique"),
        (&["PRIMARY", "KEY"], "primary key"),
        (&["EXCLUDE"], "exclusion"),
        (&["REFERENCES"], "foreign key"),
        (&["FOREIGN", "KEY"], "foreign key"),
    ] {
        if words(parser, word) {
            let message = format!("{kind} constraints not possible for domains");
            return Ok(Err(SqlError::new(code::SYNTAX, message)));
        }
    }
    if words(parser, &["COLLATE"]) {
        return Ok(Err(SqlError::unsupported("COLLATE of a domain")));
    }
    must(parser, &["CHECK"])?;
    parser.expect_token(&Token::LParen)?;
    let condition = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    if words(parser, &["NO", "INHERIT"]) {
        let message = "check constraints for domains cannot be marked NO INHERIT";
        return Ok(Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message)));
    }
    if words(parser, &["DEFERRABLE"]) || words(parser, &["INITIALLY"]) {
        let what = "specifying constraint deferrability not supported for domains";
        return Ok(Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what)));
    }
    Ok(Ok(condition))
}

fn change(parser: &mut Parser<'_>) -> Found<DomainChange> {
    let change = if words(parser, &["SET", "DEFAULT"]) {
        DomainChange::Default(Some(parser.parse_expr()?))
    } else if words(parser, &["DROP", "DEFAULT"]) {
        DomainChange::Default(None)
    } else if words(parser, &["SET", "NOT", "NULL"]) {
        DomainChange::NotNull(true)
    } else if words(parser, &["DROP", "NOT", "NULL"]) {
        DomainChange::NotNull(false)
    } else if words(parser, &["SET", "SCHEMA"]) {
        DomainChange::Schema(folded(&parser.parse_identifier()?))
    } else if words(parser, &["OWNER", "TO"]) {
        DomainChange::Owner(parser.parse_owner()?)
    } else if words(parser, &["RENAME", "CONSTRAINT"]) {
        let from = folded(&parser.parse_identifier()?);
        must(parser, &["TO"])?;
        DomainChange::RenameCheck(from, folded(&parser.parse_identifier()?))
    } else if words(parser, &["RENAME", "TO"]) {
        DomainChange::Rename(folded(&parser.parse_identifier()?))
    } else if words(parser, &["VALIDATE", "CONSTRAINT"]) {
        DomainChange::Validate(folded(&parser.parse_identifier()?))
    } else if words(parser, &["DROP", "CONSTRAINT"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let name = folded(&parser.parse_identifier()?);
        // Nothing depends on a condition.
        if !words(parser, &["CASCADE"]) {
            words(parser, &["RESTRICT"]);
        }
        DomainChange::Drop(name, if_exists)
    } else {
        must(parser, &["ADD"])?;
        let name = match words(parser, &["CONSTRAINT"]) {
            true => Some(folded(&parser.parse_identifier()?)),
            false => None,
        };
        let condition = match check(parser)? {
            Ok(condition) => condition,
            Err(error) => return Ok(Err(error)),
        };
        if words(parser, &["NOT", "VALID"]) {
            return Ok(Err(SqlError::unsupported("NOT VALID of a domain's constraint")
                .hint("Mend the rows, and add it without NOT VALID.")));
        }
        DomainChange::Add(name, condition)
    };
    Ok(Ok(change))
}
