//! Forms of ALTER that are not in the grammar:
//!
//! ```text
//!   ALTER TABLE t ALTER c DROP EXPRESSION [IF EXISTS]
//!   ALTER TABLE t ALTER CONSTRAINT name
//!         [NOT DEFERRABLE | DEFERRABLE] [INITIALLY DEFERRED | IMMEDIATE]
//!   ALTER TABLE | VIEW | SEQUENCE [IF EXISTS] t SET SCHEMA name
//!   ALTER VIEW [IF EXISTS] v RENAME TO name | RENAME [COLUMN] c TO name
//!   ALTER INDEX [IF EXISTS] i RENAME TO name | SET (..) | RESET (..)
//! ```

use super::sequence::{end, must, words};
use crate::bind::folded;
use sqlparser::ast::{ObjectName, Owner};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// One of these statements.
#[derive(Clone, PartialEq, Debug)]
pub struct AlterStatement {
    /// The object that is changed.
    pub name: ObjectName,
    /// True if it need not exist.
    pub if_exists: bool,
    /// The change.
    pub change: AlterChange,
}

/// A change by one of these statements.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterChange {
    /// The owner of a type.
    TypeOwner(Owner),
    /// A generated column becomes an ordinary one; true: IF EXISTS.
    DropExpression(String, bool),
    /// When a foreign key is checked; `None` leaves a property unchanged.
    Constraint {
        /// Its name.
        name: String,
        /// `[NOT] DEFERRABLE`.
        deferrable: Option<bool>,
        /// INITIALLY DEFERRED; false: INITIALLY IMMEDIATE.
        deferred: Option<bool>,
    },
    /// A new name for an index.
    RenameIndex(String),
    /// Parameters of an index, such as its fill factor.
    IndexParameters,
    /// A new schema, after the name of the statement.
    SetSchema(&'static str, String),
    /// A new name for a view.
    RenameView(String),
    /// A new name for a column of a view.
    RenameViewColumn(String, String),
}

/// Parses one of these statements, if it is one.
pub(super) fn statement(parser: &mut Parser<'_>) -> Result<Option<AlterStatement>, ParserError> {
    if words(parser, &["ALTER", "INDEX"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let name = parser.parse_object_name(false)?;
        let change = index(parser)?;
        return Ok(change.map(|change| AlterStatement { name, if_exists, change }));
    }
    if words(parser, &["ALTER", "VIEW"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let name = parser.parse_object_name(false)?;
        if words(parser, &["SET", "SCHEMA"]) {
            return set_schema(parser, (name, if_exists), "ALTER VIEW");
        }
        if !words(parser, &["RENAME"]) {
            return Ok(None);
        }
        let change = if words(parser, &["TO"]) {
            AlterChange::RenameView(folded(&parser.parse_identifier()?))
        } else {
            words(parser, &["COLUMN"]);
            let from = folded(&parser.parse_identifier()?);
            must(parser, &["TO"])?;
            AlterChange::RenameViewColumn(from, folded(&parser.parse_identifier()?))
        };
        end(parser)?;
        return Ok(Some(AlterStatement { name, if_exists, change }));
    }
    if words(parser, &["ALTER", "SEQUENCE"]) {
        let if_exists = words(parser, &["IF", "EXISTS"]);
        let name = parser.parse_object_name(false)?;
        return match words(parser, &["SET", "SCHEMA"]) {
            true => set_schema(parser, (name, if_exists), "ALTER SEQUENCE"),
            false => Ok(None),
        };
    }
    if words(parser, &["ALTER", "TYPE"]) {
        let name = parser.parse_object_name(false)?;
        if words(parser, &["SET", "SCHEMA"]) {
            return set_schema(parser, (name, false), "ALTER TYPE");
        }
        if !words(parser, &["OWNER", "TO"]) {
            return Ok(None);
        }
        let change = AlterChange::TypeOwner(parser.parse_owner()?);
        end(parser)?;
        return Ok(Some(AlterStatement { name, if_exists: false, change }));
    }
    must(parser, &["ALTER", "TABLE"])?;
    let if_exists = words(parser, &["IF", "EXISTS"]);
    words(parser, &["ONLY"]);
    let name = parser.parse_object_name(false)?;
    if words(parser, &["SET", "SCHEMA"]) {
        return set_schema(parser, (name, if_exists), "ALTER TABLE");
    }
    let Some(change) = table(parser)? else { return Ok(None) };
    end(parser)?;
    Ok(Some(AlterStatement { name, if_exists, change }))
}

fn set_schema(
    parser: &mut Parser<'_>,
    (name, if_exists): (ObjectName, bool),
    kind: &'static str,
) -> Result<Option<AlterStatement>, ParserError> {
    let to = folded(&parser.parse_identifier()?);
    end(parser)?;
    Ok(Some(AlterStatement { name, if_exists, change: AlterChange::SetSchema(kind, to) }))
}

fn index(parser: &mut Parser<'_>) -> Result<Option<AlterChange>, ParserError> {
    if words(parser, &["RENAME", "TO"]) {
        let to = folded(&parser.parse_identifier()?);
        end(parser)?;
        return Ok(Some(AlterChange::RenameIndex(to)));
    }
    if !words(parser, &["SET"]) && !words(parser, &["RESET"]) {
        return Ok(None);
    }
    if parser.peek_token().token != Token::LParen {
        return Ok(None);
    }
    parser.next_token();
    must(parser, &["FILLFACTOR"])?;
    if parser.consume_token(&Token::Eq) {
        super::sequence::number(parser)?;
    }
    parser.expect_token(&Token::RParen)?;
    end(parser)?;
    Ok(Some(AlterChange::IndexParameters))
}

fn table(parser: &mut Parser<'_>) -> Result<Option<AlterChange>, ParserError> {
    if words(parser, &["ALTER", "CONSTRAINT"]) {
        let name = folded(&parser.parse_identifier()?);
        let (mut deferrable, mut deferred) = (None, None);
        loop {
            if words(parser, &["NOT", "DEFERRABLE"]) {
                deferrable = Some(false);
            } else if words(parser, &["DEFERRABLE"]) {
                deferrable = Some(true);
            } else if words(parser, &["INITIALLY", "DEFERRED"]) {
                deferred = Some(true);
            } else if words(parser, &["INITIALLY", "IMMEDIATE"]) {
                deferred = Some(false);
            } else {
                return Ok(Some(AlterChange::Constraint { name, deferrable, deferred }));
            }
        }
    }
    if !words(parser, &["ALTER"]) {
        return Ok(None);
    }
    words(parser, &["COLUMN"]);
    let column = folded(&parser.parse_identifier()?);
    if !words(parser, &["DROP", "EXPRESSION"]) {
        return Ok(None);
    }
    Ok(Some(AlterChange::DropExpression(column, words(parser, &["IF", "EXISTS"]))))
}
