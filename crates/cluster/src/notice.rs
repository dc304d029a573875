//! The process log: lines on standard error for the operator, each with the time.
//!
//! ```text
//!   2026-03-01T12:30:00.123456Z site s2 has failed: others have taken over from it
//! ```
//!
//! All processes of a database write through this, so that the lines of several can be merged by
//! time (UTC, ISO 8601).

use isomer_design::{ColumnType, Value};
use std::fmt::Display;
use std::time::SystemTime;

/// Writes a line.
#[allow(clippy::disallowed_methods, reason = "the edge: each line has the time")]
pub fn log_line(what: impl Display) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Value::Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    eprintln!("{} {what}", ColumnType::Timestamp.format(&now));
}
