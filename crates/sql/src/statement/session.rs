//! Statements that the session carries out itself (SET, BEGIN, EXECUTE, COPY): converts their
//! syntax trees.

use super::{Action, Control, Copy, CopyDirection, CopyFormat, Level, Modes, Setting};
use crate::bind::{Binder, Typed, constant_value};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::fields::Fields;
use crate::interval::Interval;
use crate::types::SqlType;
use sqlparser::ast::{
    self, CopySource, CopyTarget, Set, TransactionIsolationLevel, TransactionMode,
};

pub(super) fn literals(
    binder: &mut Binder<'_>,
    exprs: &[ast::Expr],
) -> Result<Vec<(Datum, SqlType)>, SqlError> {
    let mut values = Vec::new();
    for expr in exprs {
        let Typed { expr, ty } = binder.constant(expr)?;
        if expr.has(&|part| matches!(part, crate::expr::Expr::Inner(_))) {
            let message = "cannot use subquery in EXECUTE parameter";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        match constant_value(&expr, binder.budget)? {
            Some(value) => values.push((value, ty)),
            None => {
                let what = "EXECUTE with an expression that is not constant";
                return Err(SqlError::unsupported(what));
            }
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

/// An isolation level from the value of a setting.
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
                // Each literal is one name, even if it contains commas.
                ast::Expr::Value(name) if is_path => match &name.value {
                    ast::Value::SingleQuotedString(name) if name.is_empty() => "\"\"".to_owned(),
                    ast::Value::SingleQuotedString(name) => crate::catalog::quoted(name),
                    _ => setting_value(value),
                },
                _ => setting_value(value),
            });
            let value = value.collect::<Vec<_>>().join(", ");
            // The level of the transaction, not of the session.
            if variable.to_string().eq_ignore_ascii_case("transaction_isolation") {
                return isolation(&value).map(|modes| Action::Control(Control::Set(modes, false)));
            }
            let value = (!value.eq_ignore_ascii_case("default")).then_some(value);
            Action::Setting(Setting::Set(variable.to_string().to_lowercase(), value, local))
        }
        Set::SetTimeZone { local, value } => {
            let value = match value {
                ast::Expr::Interval(span) => zone_of(span)?,
                value => setting_value(value),
            };
            let is_own = ["local", "default"].iter().any(|word| value.eq_ignore_ascii_case(word));
            let value = (!is_own).then_some(value);
            Action::Setting(Setting::Set("timezone".to_owned(), value, *local))
        }
        Set::SetNames { charset_name, .. } => {
            let value = Some(charset_name.value.clone());
            Action::Setting(Setting::Set("client_encoding".to_owned(), value, false))
        }
        Set::SetTransaction { snapshot: Some(name), .. } => match &name.value {
            ast::Value::SingleQuotedString(name) => {
                Action::Control(Control::Snapshot(name.clone()))
            }
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(SqlError::new(code::SYNTAX, message));
            }
        },
        Set::SetTransaction { modes: given, session, .. } => {
            Action::Control(Control::Set(modes(given)?, *session))
        }
        Set::SetRole { role_name, context_modifier } => {
            let local = matches!(context_modifier, Some(ast::ContextModifier::Local));
            let name = role_name.as_ref().map_or("none".to_owned(), crate::bind::folded);
            Action::Setting(Setting::Set("role".to_owned(), Some(name), local))
        }
        Set::SetSessionAuthorization(given) => {
            let local = matches!(given.scope, ast::ContextModifier::Local);
            let name = match &given.kind {
                ast::SetSessionAuthorizationParamKind::Default => "default".to_owned(),
                ast::SetSessionAuthorizationParamKind::User(name) => crate::bind::folded(name),
            };
            let setting = "session_authorization".to_owned();
            Action::Setting(Setting::Set(setting, Some(name), local))
        }
        other => return Err(SqlError::unsupported(other)),
    })
}

/// A time zone as hours east of Greenwich, in the form `INTERVAL '-08:30' HOUR TO MINUTE`.
fn zone_of(written: &ast::Interval) -> Result<String, SqlError> {
    let span = Interval::parse(&setting_value(&written.value), Some(Fields::Hour))?;
    let refused = |what: &str| {
        let message = format!("invalid value for parameter \"TimeZone\": \"{written}\"");
        let detail = format!("Cannot specify {what} in time zone interval.");
        SqlError::new(code::INVALID_PARAMETER, message).detail(detail)
    };
    match span {
        Interval { months: 1.. | ..=-1, .. } => Err(refused("months")),
        Interval { days: 1.. | ..=-1, .. } => Err(refused("days")),
        Interval { micros, .. } => Ok((micros as f64 / 3.6e9).to_string()),
    }
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
    let written = Written::of(options, legacy)?;
    let (format, delimiter, null) = written.checked()?;
    let header = written.header;
    let direction = match (source, target) {
        (CopySource::Table { table_name, columns }, CopyTarget::Stdin) if !to => {
            CopyDirection::In(Box::new(binder.copy_in(table_name, columns)?))
        }
        (CopySource::Table { table_name, columns }, CopyTarget::Stdout) if to => {
            CopyDirection::Out(Box::new(binder.copy_out(table_name, columns)?))
        }
        (CopySource::Query(query), CopyTarget::Stdout) if to => {
            CopyDirection::Out(Box::new(crate::bind::whole_query(binder, query)?))
        }
        _ => {
            let error = SqlError::unsupported("COPY of files and programs");
            return Err(error.hint("Use COPY .. FROM STDIN and TO STDOUT, or \\copy of psql."));
        }
    };
    Ok(Action::Copy(Copy { direction, format, delimiter, null, header }))
}

/// The options of a COPY, unchecked.
#[derive(Default)]
struct Written {
    format: String,
    delimiter: Option<char>,
    null: Option<String>,
    header: bool,
    quote: Option<char>,
    escape: Option<char>,
}

impl Written {
    fn of(
        options: &[ast::CopyOption],
        legacy: &[ast::CopyLegacyOption],
    ) -> Result<Written, SqlError> {
        use ast::{CopyLegacyCsvOption as Csv, CopyLegacyOption as Legacy, CopyOption};
        let mut written = Written { format: "text".to_owned(), ..Written::default() };
        let refused =
            |option: String| Err(SqlError::unsupported(format!("the option {option} of COPY")));
        for option in options {
            match option {
                CopyOption::Format(format) => written.format = format.value.to_lowercase(),
                CopyOption::Delimiter(sign) => written.delimiter = Some(*sign),
                CopyOption::Null(text) => written.null = Some(text.clone()),
                CopyOption::Header(given) => written.header = *given,
                CopyOption::Quote(sign) => written.quote = Some(*sign),
                CopyOption::Escape(sign) => written.escape = Some(*sign),
                // FREEZE would make the rows visible before the commit; it is ignored.
                CopyOption::Freeze(_) => {}
                CopyOption::Encoding(name)
                    if name.replace('-', "").eq_ignore_ascii_case("utf8") => {}
                other => return refused(other.to_string()),
            }
        }
        for option in legacy {
            match option {
                Legacy::Delimiter(sign) => written.delimiter = Some(*sign),
                Legacy::Null(text) => written.null = Some(text.clone()),
                Legacy::Binary => written.format = "binary".to_owned(),
                Legacy::Csv(more) => {
                    written.format = "csv".to_owned();
                    for option in more {
                        match option {
                            Csv::Header => written.header = true,
                            Csv::Quote(sign) => written.quote = Some(*sign),
                            Csv::Escape(sign) => written.escape = Some(*sign),
                            other => return refused(other.to_string()),
                        }
                    }
                }
                other => return refused(other.to_string()),
            }
        }
        Ok(written)
    }

    /// The format, the separator, and the text for NULL.
    fn checked(&self) -> Result<(CopyFormat, char, String), SqlError> {
        let one_byte = |given: Option<char>, what: &str| match given {
            Some(sign) if !sign.is_ascii() => {
                let message = format!("COPY {what} must be a single one-byte character");
                Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
            }
            _ => Ok(()),
        };
        one_byte(self.delimiter, "delimiter")?;
        one_byte(self.quote, "quote")?;
        one_byte(self.escape, "escape")?;
        let format = match &*self.format {
            "text" => CopyFormat::Text,
            "binary" => CopyFormat::Binary,
            "csv" => {
                let quote = self.quote.unwrap_or('"');
                CopyFormat::Csv { quote, escape: self.escape.unwrap_or(quote) }
            }
            other => {
                let message = format!("COPY format \"{other}\" not recognized");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
        };
        let is_csv = matches!(format, CopyFormat::Csv { .. });
        let delimiter = self.delimiter.unwrap_or(if is_csv { ',' } else { '\t' });
        let null = if is_csv { "" } else { "\\N" };
        let null = self.null.clone().unwrap_or(null.to_owned());
        if format == CopyFormat::Binary {
            if self.delimiter.is_some() {
                return Err(SqlError::new(code::SYNTAX, "cannot specify DELIMITER in BINARY mode"));
            }
            if self.null.is_some() {
                return Err(SqlError::new(code::SYNTAX, "cannot specify NULL in BINARY mode"));
            }
            if self.header {
                let message = "cannot specify HEADER in BINARY mode";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
        }
        for (given, what) in [(self.quote, "quote"), (self.escape, "escape")] {
            if given.is_some() && !is_csv {
                let message = format!("COPY {what} available only in CSV mode");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
        }
        if let CopyFormat::Csv { quote, .. } = format {
            if delimiter == quote {
                let message = "COPY delimiter and quote must be different";
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
            if null.contains(quote) {
                let message = "CSV quote character must not appear in the NULL specification";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
        }
        if null.contains(delimiter) {
            let message = "COPY delimiter must not appear in the NULL specification";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        Ok((format, delimiter, null))
    }
}
