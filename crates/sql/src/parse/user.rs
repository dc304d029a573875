//! Statements about users.

use super::grant::{GrantRoles, RoleName, names, roles};
use super::refused;
use crate::error::SqlError;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::TokenWithSpan;

/// A statement about a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserStatement {
    /// `CREATE USER`
    Create {
        /// Its name.
        name: String,
        /// Its attributes. Without a password it cannot connect where one is required.
        attributes: UserAttributes,
    },
    /// `ALTER USER`
    Alter {
        /// Its name.
        name: String,
        /// The attributes that change.
        attributes: UserAttributes,
    },
    /// `DROP USER`
    Drop {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
}

/// The attributes of a user in a statement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserAttributes {
    /// Its password; `Some(None)` removes it.
    pub password: Option<Option<String>>,
    /// True if it may manage other users and the server.
    pub superuser: Option<bool>,
    /// True if it may connect.
    pub login: Option<bool>,
    /// The roles that it is a member of from the start.
    pub is_in: Vec<String>,
    /// The initial members.
    pub members: Vec<RoleName>,
    /// The initial members with the ADMIN option.
    pub admins: Vec<RoleName>,
}

impl UserAttributes {
    /// True of a role that is no superuser, may not connect and has no password.
    pub fn are_plain(&self) -> bool {
        let is_said = self.superuser == Some(true) || self.login == Some(true);
        !is_said && !matches!(self.password, Some(Some(_)))
    }

    /// The grants of memberships for a new user.
    pub fn grants(&self, name: &str) -> Vec<GrantRoles> {
        let own = || vec![RoleName::Named(name.to_owned())];
        let grant = |roles: Vec<String>, members, option| GrantRoles {
            grants: true,
            roles,
            members,
            option,
            grantor: None,
        };
        let all = [
            grant(self.is_in.clone(), own(), false),
            grant(vec![name.to_owned()], self.members.clone(), false),
            grant(vec![name.to_owned()], self.admins.clone(), true),
        ];
        let is_said = |grant: &GrantRoles| !grant.roles.is_empty() && !grant.members.is_empty();
        all.into_iter().filter(is_said).collect()
    }
}

/// Attributes that every superuser has.
const OF_SUPERUSERS: [&str; 3] = ["CREATEDB", "CREATEROLE", "BYPASSRLS"];

/// Attributes without an argument that either hold for all users or for none.
const SAID_OF_ALL: [&str; 6] =
    ["INHERIT", "ENCRYPTED", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS"];

fn is_word(parser: &Parser<'_>, words: &[&str]) -> bool {
    let next = parser.peek_token().token.to_string();
    words.iter().any(|word| next.eq_ignore_ascii_case(word))
}

/// `CREATE | ALTER | DROP USER name ..`; ROLE and GROUP are synonyms, except that a role created by
/// them may not connect by default.
pub(super) fn user(tokens: &[TokenWithSpan], text: &str) -> Result<UserStatement, SqlError> {
    let wrong = |error| refused(error, text);
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens.to_vec());
    let verb = parser.next_token().token.to_string().to_uppercase();
    let is_user = parser.next_token().token.to_string().eq_ignore_ascii_case("user");
    let if_exists = verb == "DROP" && parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let ident = parser.parse_identifier().map_err(wrong)?;
    let name = if ident.quote_style.is_some() { ident.value } else { ident.value.to_lowercase() };
    let mut attributes = UserAttributes::default();
    let mut implied = None;
    loop {
        let word = parser.next_token();
        let upper = word.token.to_string().to_uppercase();
        match upper.as_str() {
            "EOF" => break,
            _ if verb == "DROP" => {
                let message =
                    format!("Expected: one name, found: {}{}", word.token, word.span.start);
                return Err(wrong(ParserError::ParserError(message)));
            }
            "PASSWORD" => {
                let null = parser.parse_keyword(Keyword::NULL);
                let given = if null { None } else { Some(parser.parse_literal_string()) };
                attributes.password = Some(given.transpose().map_err(wrong)?);
            }
            "SUPERUSER" => attributes.superuser = Some(true),
            "NOSUPERUSER" => attributes.superuser = Some(false),
            "LOGIN" => attributes.login = Some(true),
            "NOLOGIN" => attributes.login = Some(false),
            "WITH" => {}
            "IN" if verb == "CREATE" && is_word(&parser, &["ROLE", "GROUP"]) => {
                parser.next_token();
                attributes.is_in = names(&mut parser).map_err(wrong)?;
            }
            "ROLE" | "USER" if verb == "CREATE" => {
                attributes.members = roles(&mut parser).map_err(wrong)?;
            }
            "ADMIN" if verb == "CREATE" => attributes.admins = roles(&mut parser).map_err(wrong)?,
            word if SAID_OF_ALL.contains(&word) => {}
            word if OF_SUPERUSERS.contains(&word) => implied = Some(upper),
            _ => return Err(not_supported(&upper)),
        }
    }
    // pg_dumpall names them beside SUPERUSER.
    if let Some(attribute) = implied.filter(|_| attributes.superuser != Some(true)) {
        return Err(not_supported(&attribute));
    }
    Ok(match verb.as_str() {
        "CREATE" => {
            attributes.login.get_or_insert(is_user);
            UserStatement::Create { name, attributes }
        }
        "ALTER" => UserStatement::Alter { name, attributes },
        _ => UserStatement::Drop { name, if_exists },
    })
}

fn not_supported(attribute: &str) -> SqlError {
    let known = "PASSWORD, [NO]SUPERUSER and [NO]LOGIN are what can be said of a user; of a new one \
                 also IN ROLE, ROLE and ADMIN.";
    SqlError::unsupported(format!("the attribute {attribute} of a user")).hint(known)
}
