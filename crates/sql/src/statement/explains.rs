//! The options of EXPLAIN, as PostgreSQL has them.
//!
//! ```text
//!   EXPLAIN [ANALYZE] [VERBOSE] statement
//!   EXPLAIN (option [value], ..) statement
//!
//!   options   ANALYZE VERBOSE COSTS BUFFERS TIMING SUMMARY FORMAT
//! ```
//!
//! The time of each node is not measured, so TIMING is accepted and changes nothing.

use crate::bind::folded;
use crate::error::{SqlError, code};
use sqlparser::ast::{self, Statement};

/// The options of an EXPLAIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explains {
    /// ANALYZE: the statement runs, and its rows are counted.
    pub analyzes: bool,
    /// VERBOSE: the columns of each query's result, and the schemas of tables.
    pub is_verbose: bool,
    /// COSTS: estimates.
    pub has_estimates: bool,
    /// BUFFERS: for each source, the rows that came from other processes.
    pub has_shipped: bool,
    /// SUMMARY: how long planning and execution took.
    pub has_times: bool,
    /// FORMAT.
    pub format: PlanFormat,
}

/// The format of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PlanFormat {
    /// Lines, each in a row.
    #[default]
    Text,
    /// One JSON document, in one row.
    Json,
}

impl Explains {
    /// The options of a statement.
    ///
    /// # Errors
    /// 42601 for an option that does not exist or is no boolean, 22023 for another bad value, 0A000
    /// for an option or a format of PostgreSQL that is left out.
    pub(super) fn of(statement: &Statement) -> Result<Explains, SqlError> {
        let Statement::Explain { analyze, verbose, options, format, query_plan, estimate, .. } =
            statement
        else {
            unreachable!("an EXPLAIN")
        };
        if format.is_some() || *query_plan || *estimate {
            let message = "EXPLAIN takes its options in parentheses";
            let hint = "Write EXPLAIN (FORMAT JSON) and the statement.";
            return Err(SqlError::new(code::SYNTAX, message).hint(hint));
        }
        let mut explains = Explains {
            analyzes: *analyze,
            is_verbose: *verbose,
            has_estimates: true,
            has_shipped: false,
            has_times: false,
            format: PlanFormat::Text,
        };
        let (mut summary, mut timing) = (None, None);
        for option in options.iter().flatten() {
            let name = folded(&option.name);
            match name.as_str() {
                "analyze" => explains.analyzes = boolean(option)?,
                "verbose" => explains.is_verbose = boolean(option)?,
                "costs" => explains.has_estimates = boolean(option)?,
                "buffers" => explains.has_shipped = boolean(option)?,
                "summary" => summary = Some(boolean(option)?),
                "timing" => timing = Some(boolean(option)?),
                "format" => explains.format = plan_format(option)?,
                "settings" | "wal" => {
                    if boolean(option)? {
                        let what = format!("EXPLAIN ({})", name.to_uppercase());
                        return Err(SqlError::unsupported(what));
                    }
                }
                _ => {
                    let message = format!("unrecognized EXPLAIN option \"{name}\"");
                    return Err(SqlError::new(code::SYNTAX, message));
                }
            }
        }
        if timing == Some(true) && !explains.analyzes {
            let message = "EXPLAIN option TIMING requires ANALYZE";
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        explains.has_times = summary.unwrap_or(explains.analyzes);
        Ok(explains)
    }
}

/// The value of an option as a word; `None` without a value.
fn word(option: &ast::UtilityOption) -> Option<String> {
    match option.arg.as_ref()? {
        ast::Expr::Identifier(name) => Some(folded(name)),
        ast::Expr::Value(value) => match value.clone().value.into_string() {
            Some(text) => Some(text),
            None => Some(value.to_string().to_lowercase()),
        },
        other => Some(other.to_string()),
    }
}

fn boolean(option: &ast::UtilityOption) -> Result<bool, SqlError> {
    match word(option).map(|word| word.to_lowercase()).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => {
            let message = format!("{} requires a Boolean value", folded(&option.name));
            Err(SqlError::new(code::SYNTAX, message))
        }
    }
}

fn plan_format(option: &ast::UtilityOption) -> Result<PlanFormat, SqlError> {
    let Some(word) = word(option) else {
        return Err(SqlError::new(code::SYNTAX, "format requires a parameter"));
    };
    match word.as_str() {
        "text" => Ok(PlanFormat::Text),
        "json" => Ok(PlanFormat::Json),
        "xml" | "yaml" => {
            let what = format!("EXPLAIN (FORMAT {})", word.to_uppercase());
            Err(SqlError::unsupported(what).hint("The formats are TEXT and JSON."))
        }
        _ => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{word}\"");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}
