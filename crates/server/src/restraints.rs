//! Restraints in SQL: what strategies may do, by table, by time of the day, and by rate.
//!
//! ```text
//!   ALTER TABLE t SET (autopilot = approve)         off, recommend, approve or auto
//!   ALTER SYSTEM SET change_window = '22:00-06:00'  in UTC; 'always'
//!   ALTER SYSTEM SET changes_per_minute = 10        'unlimited'
//! ```
//!
//! They are settings of the database ([`isomer_plan::restraints`] explains them), and restrain
//! strategies only. The modes of tables are stored by oid, as one setting. Each published catalog
//! tells which store tables they are about.

use crate::engine::Engine;
use crate::engine::restraints::{ALWAYS, MODES, RATE, UNLIMITED, WINDOW, rate, window};
use isomer_design::TableId;
use isomer_plan::learned::Mode;
use isomer_plan::restraints::Restraints;
use isomer_sql::catalog::Table;
use isomer_sql::{SqlError, code};

fn invalid(name: &str, value: &str, hint: impl Into<String>) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(code::INVALID_PARAMETER, message).hint(hint)
}

/// The window, as SHOW tells it.
pub(crate) fn shown_window(engine: &Engine) -> String {
    let window = engine.steering.restraints.lock().window;
    window.map_or_else(|| ALWAYS.to_owned(), |window| window.to_string())
}

/// The budget, as SHOW tells it.
pub(crate) fn shown_rate(engine: &Engine) -> String {
    let rate = engine.steering.restraints.lock().per_minute;
    rate.map_or_else(|| UNLIMITED.to_owned(), |rate| rate.to_string())
}

/// Sets the window in which strategies may begin changes, also for later starts of the server.
///
/// # Errors
/// 22023 if it is no window; errors of the database.
pub(crate) fn set_window(engine: &Engine, text: &str) -> Result<(), SqlError> {
    let window = window(text).map_err(|right| invalid(WINDOW, text, right))?;
    engine.keep(WINDOW, text.to_owned())?;
    engine.steering.restraints.lock().window = window;
    Ok(())
}

/// Sets the most changes that strategies begin in a minute, also for later starts of the server.
///
/// # Errors
/// 22023 if it is no number; errors of the database.
pub(crate) fn set_rate(engine: &Engine, text: &str) -> Result<(), SqlError> {
    let rate = rate(text).map_err(|right| invalid(RATE, text, right))?;
    engine.keep(RATE, text.to_owned())?;
    engine.steering.restraints.lock().per_minute = rate;
    Ok(())
}

/// Sets the mode of a table, also for later starts of the server. `auto` is no restriction.
///
/// # Errors
/// Errors of the database.
pub(crate) fn set_mode(engine: &Engine, table: &Table, mode: &str) -> Result<(), SqlError> {
    let mode: Mode = mode.parse().map_err(|right: String| invalid("autopilot", mode, right))?;
    engine.table_modes.set(table.oid, mode);
    engine.keep(MODES, engine.table_modes.text())?;
    engine.steering.restraints.lock().modes = engine.table_modes.parts(&engine.catalog());
    Ok(())
}

/// The mode of a table, if it has one.
pub(crate) fn mode_of(restraints: &Restraints, table: TableId) -> Option<&'static str> {
    restraints.modes.get(&table).map(|mode| mode.name())
}
