//! The process log on standard error: a line for each event, as text or as JSON.
//!
//! ```text
//!   2026-03-01T12:30:00.123456Z WARN site s2 has failed: others have taken over from it
//!   {"time":"2026-03-01T12:30:00.123456Z","level":"WARN","message":"site s2 ..","fields":{}}
//! ```
//!
//! Events come from all crates by `tracing`. Lines have the time in UTC (ISO 8601), so that the
//! lines of several processes can be merged. Fields are what tools search for, such as `user` and
//! `duration_ms`. Events have no passwords and no values of statements.
//!
//! Left out: spans, which no crate uses; files and rotation, which the supervisor of the process
//! has.

use crate::clock;
use clap::{Args, ValueEnum};
use isomer_design::{ColumnType, Value};
use serde_json::Map;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How the process logs.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogStyle {
    /// The form of the log on standard error: text, or a JSON object in each line
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// The least important events that are logged: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
}

impl Default for LogStyle {
    fn default() -> LogStyle {
        LogStyle { log_format: LogFormat::Text, log_level: LogLevel::Info }
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum LogFormat {
    Text,
    Json,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Logs in this style from now on. The first call of a process counts.
pub(crate) fn begin(style: LogStyle) {
    let log = Log { format: style.log_format, level: style.log_level.filter() };
    // It fails if the process logs already.
    let _ = tracing::subscriber::set_global_default(log);
}

/// Writes events to standard error.
struct Log {
    format: LogFormat,
    level: LevelFilter,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_own = metadata.target().starts_with("isomer");
        is_own && metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let line = line(self.format, &now(), *event.metadata().level(), parts);
        // There is no place to report that standard error is closed.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn now() -> String {
    ColumnType::Timestamp.format(&Value::Timestamp(clock::now_us()))
}

/// The message and the fields of an event.
#[derive(Default)]
struct Parts {
    message: String,
    fields: Map<String, serde_json::Value>,
}

impl Parts {
    fn put(&mut self, field: &Field, value: impl Into<serde_json::Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.put(field, text),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.put(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}

/// The line of an event, with its end. A message or field with line breaks stays one line.
fn line(format: LogFormat, time: &str, level: Level, parts: Parts) -> String {
    let Parts { message, fields } = parts;
    match format {
        LogFormat::Json => {
            let line = serde_json::json!({
                "time": time, "level": level.as_str(), "message": message, "fields": fields
            });
            format!("{line}\n")
        }
        LogFormat::Text => {
            let mut line = format!("{time} {level} {}", message.replace('\n', " "));
            for (name, value) in fields {
                // Text is quoted as in JSON.
                let _ = write!(line, " {name}={value}");
            }
            line.push('\n');
            line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        let fields =
            [("user", serde_json::json!("a \"b\"\nc")), ("duration_ms", serde_json::json!(1.5))];
        Parts {
            message: "two\nlines".to_owned(),
            fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    #[test]
    fn an_event_is_one_line_in_both_forms() {
        let time = "2026-03-01T12:30:00Z";
        assert_eq!(
            line(LogFormat::Text, time, Level::WARN, parts()),
            "2026-03-01T12:30:00Z WARN two lines duration_ms=1.5 user=\"a \\\"b\\\"\\nc\"\n"
        );
        let json = line(LogFormat::Json, time, Level::INFO, parts());
        assert_eq!(json.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["time"], time);
        assert_eq!((&read["level"], &read["message"]), (&"INFO".into(), &"two\nlines".into()));
        assert_eq!(read["fields"]["user"], "a \"b\"\nc");
        assert_eq!(read["fields"]["duration_ms"], 1.5);
    }
}
