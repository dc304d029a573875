//! Statements that the session carries out itself: what SET, BEGIN, EXECUTE and COPY say, read off the grammar.

use super::{Action, Control, Copy, CopyDirection, Level, Modes, Setting};
use crate::bind::Binder;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use sqlparser::ast::{
    self, CopySource, CopyTarget, Set, TransactionIsolationLevel, TransactionMode,
};

pub(super) fn literals(
    binder: &mut Binder<'_>,
    exprs: &[ast::Expr],
) -> Result<Vec<Datum>, SqlError> {
    let mut values = Vec::new();
    for expr in exprs {
        match binder.constant(expr)? {
            crate::expr::Expr::Const(value) => values.push(value),
            _ => return Err(SqlError::unsupported("EXECUTE with anything but literals")),
        }
    }
    Ok(values)
}

pub(super) fn modes(given: &[TransactionMode]) -> Result<Modes, SqlError> {
    let mut modes = Modes::default();
    for mode in given {
        match mode {
            TransactionMode::AccessMode(access) => {
                modes.read_only = Some(*access == ast::TransactionAccessMode::ReadOnly);
            }
            TransactionMode::IsolationLevel(level) => {
                use TransactionIsolationLevel as Given;
                modes.level = Some(match level {
                    Given::ReadUncommitted | Given::ReadCommitted => Level::ReadCommitted,
                    Given::RepeatableRead => Level::RepeatableRead,
                    Given::Serializable => Level::Serializable,
                    Given::Snapshot => {
                        return Err(SqlError::unsupported("ISOLATION LEVEL SNAPSHOT")
                            .hint("REPEATABLE READ is snapshot isolation."));
                    }
                });
            }
        }
    }
    Ok(modes)
}

/// An isolation level, as the settings have it.
fn isolation(level: &str) -> Result<Modes, SqlError> {
    let known = Level::named(level).ok_or_else(|| {
        let message = format!("invalid value for parameter \"transaction_isolation\": \"{level}\"");
        SqlError::new(code::INVALID_PARAMETER, message)
    })?;
    Ok(Modes { level: Some(known), read_only: None })
}

pub(super) fn set_action(set: &Set) -> Result<Action, SqlError> {
    Ok(match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let local = matches!(scope, Some(ast::ContextModifier::Local));
            let is_path = variable.to_string().eq_ignore_ascii_case("search_path");
            let value = values.iter().map(|value| match value {
                // Each is one name, whatever is in it.
                ast::Expr::Value(name) if is_path => match &name.value {
                    ast::Value::SingleQuotedString(name) if name.is_empty() => "\"\"".to_owned(),
                    ast::Value::SingleQuotedString(name) => crate::catalog::quoted(name),
                    _ => setting_value(value),
                },
                _ => setting_value(value),
            });
            let value = value.collect::<Vec<_>>().join(", ");
            // That of the transaction, not of the session.
            if variable.to_string().eq_ignore_ascii_case("transaction_isolation") {
                return isolation(&value).map(|modes| Action::Control(Control::Set(modes, false)));
            }
            let value = (!value.eq_ignore_ascii_case("default")).then_some(value);
            Action::Setting(Setting::Set(variable.to_string().to_lowercase(), value, local))
        }
        Set::SetTimeZone { local, value } => {
            let value = setting_value(value);
            let is_own = ["local", "default"].iter().any(|word| value.eq_ignore_ascii_case(word));
            let value = (!is_own).then_some(value);
            Action::Setting(Setting::Set("timezone".to_owned(), value, *local))
        }
        Set::SetNames { charset_name, .. } => {
            let value = Some(charset_name.value.clone());
            Action::Setting(Setting::Set("client_encoding".to_owned(), value, false))
        }
        Set::SetTransaction { snapshot: Some(_), .. } => {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        Set::SetTransaction { modes: given, session, .. } => {
            Action::Control(Control::Set(modes(given)?, *session))
        }
        // Everybody is who has logged in.
        Set::SetRole { role_name: None, .. } => Action::Nothing("SET"),
        Set::SetRole { .. } => return Err(another_user("SET ROLE")),
        Set::SetSessionAuthorization(given)
            if matches!(given.kind, ast::SetSessionAuthorizationParamKind::Default) =>
        {
            Action::Nothing("SET")
        }
        Set::SetSessionAuthorization(_) => return Err(another_user("SET SESSION AUTHORIZATION")),
        other => return Err(SqlError::unsupported(other)),
    })
}

fn another_user(what: &str) -> SqlError {
    let hint = "All users have the same rights to tables; connect as the other user.";
    SqlError::unsupported(what).hint(hint)
}

fn setting_value(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => {
            value.value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        other => other.to_string(),
    }
}

/// `SHOW ALL`.
pub(super) fn is_show_all(statement: &ast::Statement) -> bool {
    matches!(statement, ast::Statement::ShowVariable { variable } if setting_name(variable) == "all")
}

pub(super) fn setting_name(words: &[ast::Ident]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "timezone".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => words.join("."),
    }
}

pub(super) fn copy(
    binder: &mut Binder<'_>,
    source: &CopySource,
    to: bool,
    target: &CopyTarget,
    options: &[ast::CopyOption],
    legacy: &[ast::CopyLegacyOption],
) -> Result<Action, SqlError> {
    let (mut delimiter, mut null, mut header) = ('\t', "\\N".to_owned(), false);
    for option in options {
        match option {
            ast::CopyOption::Format(format) if format.value.eq_ignore_ascii_case("text") => {}
            ast::CopyOption::Format(format) => {
                return Err(SqlError::unsupported(format!("COPY in the format {format}")));
            }
            ast::CopyOption::Delimiter(sign) => delimiter = *sign,
            ast::CopyOption::Null(text) => null.clone_from(text),
            ast::CopyOption::Header(given) => header = *given,
            // Who has just made a table would have his rows seen by all at once, which they are at
            // the commit.
            ast::CopyOption::Freeze(_) => {}
            ast::CopyOption::Encoding(name)
                if name.replace('-', "").eq_ignore_ascii_case("utf8") => {}
            other => return Err(SqlError::unsupported(format!("the option {other} of COPY"))),
        }
    }
    for option in legacy {
        match option {
            ast::CopyLegacyOption::Delimiter(sign) => delimiter = *sign,
            ast::CopyLegacyOption::Null(text) => null.clone_from(text),
            other => return Err(SqlError::unsupported(format!("the option {other} of COPY"))),
        }
    }
    let direction = match (source, target) {
        (CopySource::Table { table_name, columns }, CopyTarget::Stdin) if !to => {
            CopyDirection::In(Box::new(binder.copy_in(table_name, columns)?))
        }
        (CopySource::Table { table_name, columns }, CopyTarget::Stdout) if to => {
            CopyDirection::Out(Box::new(binder.copy_out(table_name, columns)?))
        }
        (CopySource::Query(query), CopyTarget::Stdout) if to => {
            CopyDirection::Out(Box::new(binder.query(query)?))
        }
        _ => {
            let error = SqlError::unsupported("COPY of files and programs");
            return Err(error.hint("Use COPY .. FROM STDIN and TO STDOUT, or \\copy of psql."));
        }
    };
    Ok(Action::Copy(Copy { direction, delimiter, null, header }))
}
