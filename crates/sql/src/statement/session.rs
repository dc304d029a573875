//! Statements that the session carries out itself: what SET, BEGIN, EXECUTE and COPY say, read off the grammar.

use super::{Action, Control, Copy, CopyDirection, Modes, Setting};
use crate::bind::Binder;
use crate::datum::Datum;
use crate::error::SqlError;
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
                modes.repeatable = Some(!matches!(
                    level,
                    TransactionIsolationLevel::ReadUncommitted
                        | TransactionIsolationLevel::ReadCommitted
                ));
            }
        }
    }
    Ok(modes)
}

pub(super) fn set_action(set: &Set) -> Result<Action, SqlError> {
    Ok(match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let local = matches!(scope, Some(ast::ContextModifier::Local));
            let value: Vec<String> = values.iter().map(setting_value).collect();
            let value = value.join(", ");
            let value = (!value.eq_ignore_ascii_case("default")).then_some(value);
            Action::Setting(Setting::Set(variable.to_string().to_lowercase(), value, local))
        }
        Set::SetTimeZone { local, value } => {
            let value = Some(setting_value(value));
            Action::Setting(Setting::Set("timezone".to_owned(), value, *local))
        }
        Set::SetNames { charset_name, .. } => {
            let value = Some(charset_name.value.clone());
            Action::Setting(Setting::Set("client_encoding".to_owned(), value, false))
        }
        Set::SetTransaction { modes: given, session, .. } => {
            Action::Control(Control::Set(modes(given)?, *session))
        }
        Set::SetRole { .. } | Set::SetSessionAuthorization(_) => Action::Nothing("SET"),
        other => return Err(SqlError::unsupported(other)),
    })
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
            ast::CopyOption::Freeze(_) | ast::CopyOption::Encoding(_) => {}
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
