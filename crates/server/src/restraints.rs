//! Restraints in SQL: what strategies may do, by table, by time of the day, and by rate.
//!
//! ```text
//!   ALTER TABLE t SET (autopilot = approve)         off, recommend, approve or auto
//!   ALTER SYSTEM SET change_window = '22:00-06:00'  in UTC; 'always'
//!   ALTER SYSTEM SET changes_per_minute = 10        'unlimited'
//!   ALTER SYSTEM SET change_bytes_per_second = '10MB'   'unlimited'
//!   ALTER SYSTEM SET change_added_p99 = '5ms'       'unlimited'
//! ```
//!
//! They are settings of the database ([`isomer_plan::restraints`] explains them), and restrain
//! strategies only. The modes of tables are stored by oid, as one setting. Each published catalog
//! tells which store tables they are about.

use crate::engine::Engine;
use crate::engine::restraints::{
    ADDED_P99, ALWAYS, BYTES, MODES, RATE, UNLIMITED, WINDOW, added_p99, bytes, rate, window,
};
use crate::limits::show_us;
use crate::size::show_bytes;
use isomer_design::TableId;
use isomer_plan::learned::Mode;
use isomer_plan::restraints::Restraints;
use isomer_sql::catalog::Table;
use isomer_sql::parse::Restraint;
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

/// The budget of changes, as SHOW tells it.
pub(crate) fn shown_rate(engine: &Engine) -> String {
    let rate = engine.steering.restraints.lock().per_minute;
    rate.map_or_else(|| UNLIMITED.to_owned(), |rate| rate.to_string())
}

/// The budget of bytes, as SHOW tells it.
pub(crate) fn shown_bytes(engine: &Engine) -> String {
    let bytes = engine.steering.restraints.lock().bytes_per_second;
    bytes.map_or_else(|| UNLIMITED.to_owned(), |bytes| show_bytes(bytes as usize))
}

/// The limit on disturbance, as SHOW tells it.
pub(crate) fn shown_added_p99(engine: &Engine) -> String {
    let limit = engine.steering.restraints.lock().added_p99_us;
    limit.map_or_else(|| UNLIMITED.to_owned(), show_us)
}

/// Sets one of the restraints, also for later starts of the server.
///
/// # Errors
/// 22023 if it has no such value; errors of the database.
pub(crate) fn set(engine: &Engine, what: Restraint, text: &str) -> Result<(), SqlError> {
    let wrong = |name| move |right: String| invalid(name, text, right);
    let keep = |name| engine.keep(name, text.to_owned());
    let restraints = || engine.steering.restraints.lock();
    match what {
        Restraint::Window => {
            let window = window(text).map_err(wrong(WINDOW))?;
            keep(WINDOW)?;
            restraints().window = window;
        }
        Restraint::PerMinute => {
            let rate = rate(text).map_err(wrong(RATE))?;
            keep(RATE)?;
            engine.steering.limit_changes(rate);
        }
        Restraint::BytesPerSecond => {
            let rate = bytes(text).map_err(wrong(BYTES))?;
            keep(BYTES)?;
            restraints().set_bytes_per_second(rate);
        }
        Restraint::AddedP99 => {
            let limit = added_p99(text).map_err(wrong(ADDED_P99))?;
            keep(ADDED_P99)?;
            restraints().added_p99_us = limit;
        }
    }
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
