//! Statements about rights, for which the grammar differs from PostgreSQL:
//!
//! ```text
//!   GRANT  right [(columns)], .. | ALL [PRIVILEGES]  ON object TO role | PUBLIC, ..
//!          [WITH GRANT OPTION]
//!   REVOKE [GRANT OPTION FOR] ..  ON object FROM .. [CASCADE | RESTRICT]
//!   object:  [TABLE] name, ..   SEQUENCE name, ..   SCHEMA name, ..
//!            ALL TABLES | SEQUENCES IN SCHEMA name, ..   PROCEDURE signature, ..
//!
//!   GRANT role, .. TO role, .. [WITH ADMIN OPTION]
//!   REVOKE [ADMIN OPTION FOR] role, .. FROM role, ..
//!   REASSIGN OWNED BY role, .. TO role               DROP OWNED BY role, .. [CASCADE | RESTRICT]
//! ```

use super::procedure::{Signature, signature};
use super::sequence::{end, must, words};
use crate::bind::folded;
use crate::error::{SqlError, code};
use crate::rights::Rights;
use sqlparser::ast::ObjectName;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// One of these statements.
#[derive(Clone, PartialEq, Debug)]
pub enum RightsStatement {
    /// GRANT or REVOKE of rights.
    Rights(Box<Grant>),
    /// GRANT or REVOKE of roles.
    Roles(Box<GrantRoles>),
    /// REASSIGN OWNED.
    Reassign(Vec<RoleName>, RoleName),
    /// DROP OWNED; true: CASCADE.
    DropOwned(Vec<RoleName>, bool),
}

/// Names of rights or roles; with columns, if they are restricted to these.
pub type NamedRights = Vec<(String, Vec<String>)>;

/// GRANT or REVOKE of rights.
#[derive(Clone, PartialEq, Debug)]
pub struct Grant {
    /// False: REVOKE.
    pub grants: bool,
    /// The rights; `None`: ALL.
    pub rights: Option<NamedRights>,
    /// The objects.
    pub target: Target,
    /// The grantees.
    pub roles: Vec<RoleName>,
    /// WITH GRANT OPTION; for REVOKE, GRANT OPTION FOR.
    pub option: bool,
    /// CASCADE.
    pub cascade: bool,
}

/// GRANT or REVOKE of roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantRoles {
    /// False: REVOKE.
    pub grants: bool,
    /// The roles.
    pub roles: Vec<String>,
    /// The new or removed members.
    pub members: Vec<RoleName>,
    /// WITH ADMIN OPTION; for REVOKE, ADMIN OPTION FOR.
    pub option: bool,
    /// GRANTED BY.
    pub grantor: Option<RoleName>,
}

/// The objects of a grant.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// Tables, views, and sequences.
    Relations(Vec<ObjectName>),
    /// Sequences.
    Sequences(Vec<ObjectName>),
    /// All tables and views in some schemas; true: all sequences.
    AllIn(Vec<String>, bool),
    /// Schemas.
    Schemas(Vec<String>),
    /// Procedures.
    Procedures(Vec<Signature>),
}

/// A role as a statement names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleName {
    /// By its name.
    Named(String),
    /// PUBLIC: every role.
    Public,
    /// CURRENT_USER, CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
}

type Read<T> = Result<T, ParserError>;

/// Parses one of these statements, if it is one.
pub(super) fn statement(parser: &mut Parser<'_>) -> Read<Result<RightsStatement, SqlError>> {
    if words(parser, &["REASSIGN", "OWNED", "BY"]) {
        let from = roles(parser)?;
        must(parser, &["TO"])?;
        let to = role(parser)?;
        end(parser)?;
        return Ok(Ok(RightsStatement::Reassign(from, to)));
    }
    if words(parser, &["DROP", "OWNED", "BY"]) {
        let from = roles(parser)?;
        let cascade = cascades(parser);
        end(parser)?;
        return Ok(Ok(RightsStatement::DropOwned(from, cascade)));
    }
    let grants = words(parser, &["GRANT"]);
    if !grants {
        must(parser, &["REVOKE"])?;
    }
    let options = [["GRANT", "OPTION", "FOR"], ["ADMIN", "OPTION", "FOR"]];
    let option = !grants && options.iter().any(|option| words(parser, option));
    let rights = rights(parser)?;
    match words(parser, &["ON"]) {
        true => of_rights(parser, (grants, option), rights),
        false => of_roles(parser, (grants, option), rights),
    }
}

fn of_rights(
    parser: &mut Parser<'_>,
    (grants, option): (bool, bool),
    rights: Option<NamedRights>,
) -> Read<Result<RightsStatement, SqlError>> {
    for kind in OTHERS {
        if words(parser, &kind.split(' ').collect::<Vec<_>>()) {
            let verb = if grants { "GRANT" } else { "REVOKE" };
            let error = SqlError::unsupported(format!("{verb} .. ON {kind}"));
            return Ok(Err(
                error.hint("There are rights to tables, sequences, schemas and procedures.")
            ));
        }
    }
    let target = match words(parser, &["PROCEDURE"]) {
        false => target(parser)?,
        true => {
            let all = parser.parse_comma_separated(signature)?;
            match all.into_iter().collect::<Result<_, SqlError>>() {
                Ok(all) => Target::Procedures(all),
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let named = rights.iter().flatten().map(|(right, _)| right);
    if let Some(unknown) = named.clone().find(|right| Rights::named(right).is_none()) {
        let message = format!("unrecognized privilege type \"{}\"", unknown.to_lowercase());
        return Ok(Err(SqlError::new(code::SYNTAX, message)));
    }
    must(parser, &[if grants { "TO" } else { "FROM" }])?;
    let roles = roles(parser)?;
    let option = option || (grants && words(parser, &["WITH", "GRANT", "OPTION"]));
    if words(parser, &["GRANTED", "BY"]) {
        return Ok(Err(SqlError::unsupported("GRANTED BY")));
    }
    let cascade = !grants && cascades(parser);
    end(parser)?;
    let grant = Grant { grants, rights, target, roles, option, cascade };
    Ok(Ok(RightsStatement::Rights(Box::new(grant))))
}

/// Other kinds of objects that have rights in PostgreSQL.
const OTHERS: [&str; 13] = [
    "ALL FUNCTIONS",
    "ALL PROCEDURES",
    "ALL ROUTINES",
    "DATABASE",
    "DOMAIN",
    "FOREIGN",
    "FUNCTION",
    "LANGUAGE",
    "LARGE OBJECT",
    "PARAMETER",
    "ROUTINE",
    "TABLESPACE",
    "TYPE",
];

fn of_roles(
    parser: &mut Parser<'_>,
    (grants, option): (bool, bool),
    named: Option<NamedRights>,
) -> Read<Result<RightsStatement, SqlError>> {
    let has_columns = |named: &NamedRights| named.iter().any(|(_, of)| !of.is_empty());
    let Some(named) = named.filter(|named| !has_columns(named)) else {
        return must(parser, &["ON"]).map(|()| Err(SqlError::new(code::SYNTAX, "ON is expected")));
    };
    must(parser, &[if grants { "TO" } else { "FROM" }])?;
    let members = roles(parser)?;
    let option = option || (grants && words(parser, &["WITH", "ADMIN", "OPTION"]));
    let grantor = match words(parser, &["GRANTED", "BY"]) {
        true => Some(role(parser)?),
        false => None,
    };
    if !grants {
        // Nothing depends on a membership.
        cascades(parser);
    }
    end(parser)?;
    let roles = named.into_iter().map(|(role, _)| role).collect();
    let grant = GrantRoles { grants, roles, members, option, grantor };
    Ok(Ok(RightsStatement::Roles(Box::new(grant))))
}

/// Rights with their columns, or roles; `None`: ALL.
fn rights(parser: &mut Parser<'_>) -> Read<Option<NamedRights>> {
    if words(parser, &["ALL", "PRIVILEGES"]) || words(parser, &["ALL"]) {
        if parser.peek_token().token != Token::LParen {
            return Ok(None);
        }
        let columns = columns(parser)?;
        let all = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];
        return Ok(Some(all.map(|right| (right.to_owned(), columns.clone())).to_vec()));
    }
    let one = |parser: &mut Parser<'_>| {
        let name = folded(&parser.parse_identifier()?);
        let columns = match parser.peek_token().token {
            Token::LParen => columns(parser)?,
            _ => Vec::new(),
        };
        Ok((name, columns))
    };
    parser.parse_comma_separated(one).map(Some)
}

fn columns(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    parser.expect_token(&Token::LParen)?;
    let columns = names(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(columns)
}

fn target(parser: &mut Parser<'_>) -> Read<Target> {
    for (kind, sequences) in [("TABLES", false), ("SEQUENCES", true)] {
        if words(parser, &["ALL", kind, "IN", "SCHEMA"]) {
            return Ok(Target::AllIn(names(parser)?, sequences));
        }
    }
    if words(parser, &["SCHEMA"]) {
        return Ok(Target::Schemas(names(parser)?));
    }
    let sequences = words(parser, &["SEQUENCE"]);
    if !sequences {
        words(parser, &["TABLE"]);
    }
    let all = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    Ok(if sequences { Target::Sequences(all) } else { Target::Relations(all) })
}

pub(super) fn names(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    parser.parse_comma_separated(|parser| Ok(folded(&parser.parse_identifier()?)))
}

fn cascades(parser: &mut Parser<'_>) -> bool {
    let cascades = words(parser, &["CASCADE"]);
    if !cascades {
        words(parser, &["RESTRICT"]);
    }
    cascades
}

pub(super) fn roles(parser: &mut Parser<'_>) -> Read<Vec<RoleName>> {
    parser.parse_comma_separated(role)
}

/// A role; the optional word GROUP before it has no effect.
fn role(parser: &mut Parser<'_>) -> Read<RoleName> {
    words(parser, &["GROUP"]);
    let ident = parser.parse_identifier()?;
    Ok(match (ident.quote_style, ident.value.to_lowercase().as_str()) {
        (None, "public") => RoleName::Public,
        (None, "current_user" | "current_role") => RoleName::Current,
        (None, "session_user") => RoleName::Session,
        _ => RoleName::Named(folded(&ident)),
    })
}
