//! Parameters of a table: `WITH (..)` of CREATE TABLE, `SET (..)` of ALTER TABLE.
//!
//! ```text
//!   CREATE TABLE accounts (id int PRIMARY KEY) WITH (backups = 1)
//!   ALTER TABLE accounts SET (backups = 2, backups_in = memory)
//!   CREATE TABLE accounts (id int PRIMARY KEY, branch int) WITH (shard_by = 'branch')
//! ```
//!
//! `shard_by` names the columns of the [shard key](crate::catalog). `backups` is the number of
//! other sites that must have a commit before it is acknowledged; they have it on disk, unless
//! `backups_in` is `memory`. With `isolation = ordered`, a total order serializes the transactions
//! on the table; with `snapshot`, which is the default, row locks and snapshots do. `autopilot` is
//! what a strategy may do with the table, if the mode of the server permits it: `off`, `recommend`,
//! `approve` or `auto`.

use crate::bind::folded;
use crate::error::{SqlError, code};
use crate::parse::column_list;
use crate::refuse;
use isomer_design::Backups;
use sqlparser::ast::{Expr, SqlOption};

/// The requested number of backups; `None` if it is not set.
///
/// # Errors
/// 22023 for an invalid number of backups, 0A000 for an unknown parameter.
pub fn backups(options: &[SqlOption]) -> Result<Option<Backups>, SqlError> {
    let (mut count, mut on_disk) = (None, None);
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(refuse::storage_parameter(option));
        };
        let word = word(value);
        match key.value.to_lowercase().as_str() {
            "backups" => {
                let wrong = || invalid("backups", &word, "a number from 0 to 255");
                count = Some(word.parse::<u8>().map_err(|_| wrong())?);
            }
            "backups_in" => {
                on_disk = Some(match word.as_str() {
                    "disk" => true,
                    "memory" => false,
                    _ => return Err(invalid("backups_in", &word, "disk or memory")),
                });
            }
            "shard_by" | "isolation" | "autopilot" => {}
            // They are about pages and garbage, which is freed by itself, and have no effect.
            "fillfactor"
            | "parallel_workers"
            | "toast_tuple_target"
            | "vacuum_index_cleanup"
            | "vacuum_truncate"
            | "log_autovacuum_min_duration" => {}
            name if name.starts_with("autovacuum_") => {}
            _ => return Err(refuse::storage_parameter(option)),
        }
    }
    match (count, on_disk) {
        (None, Some(_)) => {
            let message = "backups_in is given without backups";
            Err(SqlError::new(code::INVALID_PARAMETER, message)
                .hint("Say how many: WITH (backups = 1, backups_in = memory)."))
        }
        (None, None) => Ok(None),
        (Some(0), _) => Ok(Some(Backups::NONE)),
        (Some(count), on_disk) => Ok(Some(Backups { count, on_disk: on_disk.unwrap_or(true) })),
    }
}

/// Whether transactions on the table are ordered; `None` if it is not set.
///
/// # Errors
/// 22023 for an unknown isolation.
pub fn is_ordered(options: &[SqlOption]) -> Result<Option<bool>, SqlError> {
    let mut is_ordered = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else { continue };
        if !key.value.eq_ignore_ascii_case("isolation") {
            continue;
        }
        let word = word(value);
        is_ordered = Some(match word.as_str() {
            "ordered" => true,
            "snapshot" => false,
            _ => return Err(invalid("isolation", &word, "ordered or snapshot")),
        });
    }
    Ok(is_ordered)
}

/// The mode of the table for strategies, as a word; `None` if it is not set.
///
/// # Errors
/// 22023 for an unknown mode.
pub fn autopilot(options: &[SqlOption]) -> Result<Option<String>, SqlError> {
    let mut mode = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else { continue };
        if !key.value.eq_ignore_ascii_case("autopilot") {
            continue;
        }
        let word = word(value);
        if !["off", "recommend", "approve", "auto"].contains(&word.as_str()) {
            return Err(invalid("autopilot", &word, "off, recommend, approve or auto"));
        }
        mode = Some(word);
    }
    Ok(mode)
}

/// The columns of the shard key; empty if it is not set.
///
/// # Errors
/// 22023 for an invalid list of columns.
pub fn shard_by(options: &[SqlOption]) -> Result<Vec<String>, SqlError> {
    let mut names = Vec::new();
    for option in options {
        let SqlOption::KeyValue { key, value } = option else { continue };
        if !key.value.eq_ignore_ascii_case("shard_by") {
            continue;
        }
        let text = match value {
            Expr::Value(value) => value.value.clone().into_string().unwrap_or_default(),
            other => other.to_string(),
        };
        let columns = column_list(&text);
        let columns = columns.map_err(|_| invalid("shard_by", &text, "a list of columns"))?;
        names = columns.iter().map(folded).collect();
    }
    Ok(names)
}

/// A value as a word, in lower case.
fn word(value: &Expr) -> String {
    value.to_string().trim_matches(['\'', '"']).to_lowercase()
}

fn invalid(name: &str, value: &str, right: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(code::INVALID_PARAMETER, message).hint(format!("It is {right}."))
}
