//! Settings of a session: what clients set and ask for. Few have an effect; unknown ones are kept, as
//! clients set what their own server knows.

use crate::session::Session;
use crate::wire::{Formats, Out};
use isomer_sql::statement::{Compiled, Setting};
use isomer_sql::{SqlError, code};
use std::collections::BTreeMap;

/// The most memory a statement takes for sorting, grouping and joining.
const MEMORY_BYTES: usize = 256 << 20;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) process: i32,
    pub(crate) memory_bytes: usize,
    /// Transactions have one snapshot, unless they say otherwise.
    pub(crate) repeatable: bool,
    /// Transactions do not write, unless they say otherwise.
    pub(crate) read_only: bool,
    values: BTreeMap<String, String>,
}

/// What is told to clients when they start, and when it changes.
pub(crate) const REPORTED: [&str; 10] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "is_superuser",
];

const DEFAULTS: [(&str, &str); 18] = [
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
    ("application_name", ""),
    ("search_path", "\"$user\", public"),
    ("extra_float_digits", "1"),
    ("max_identifier_length", "63"),
    ("synchronous_commit", "on"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("max_index_keys", "32"),
];

impl Settings {
    pub(crate) fn new(user: &str, database: &str, process: i32) -> Settings {
        Settings {
            user: user.to_owned(),
            database: database.to_owned(),
            process,
            memory_bytes: MEMORY_BYTES,
            repeatable: false,
            read_only: false,
            values: BTreeMap::new(),
        }
    }

    /// The value of a setting.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let isolation = |repeatable: bool| {
            Some(if repeatable { "repeatable read" } else { "read committed" }.to_owned())
        };
        match name.as_str() {
            "default_transaction_isolation" | "transaction_isolation" => isolation(self.repeatable),
            "default_transaction_read_only" | "transaction_read_only" => {
                Some(if self.read_only { "on" } else { "off" }.to_owned())
            }
            "session_authorization" | "role" => Some(self.user.clone()),
            _ => {
                let default = || DEFAULTS.iter().find(|(known, _)| *known == name);
                let set = self.values.get(&name).cloned();
                set.or_else(|| default().map(|(_, value)| (*value).to_owned()))
            }
        }
    }

    /// Sets a setting; `None`: to its default.
    ///
    /// # Errors
    /// 22023 for values that are not possible.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>) -> Result<(), SqlError> {
        let name = name.to_lowercase();
        let is_on =
            |value: &str| matches!(value.to_lowercase().as_str(), "on" | "true" | "1" | "yes");
        match (name.as_str(), &value) {
            ("client_encoding", Some(encoding)) => {
                let plain = encoding.to_lowercase().replace(['-', '_', '\''], "");
                if !matches!(plain.as_str(), "utf8" | "unicode" | "sqlascii") {
                    return Err(not_possible(&name, encoding, "UTF8 is the one there is"));
                }
                return Ok(());
            }
            ("timezone", Some(zone)) => {
                // Times are shown in UTC, whatever a client's own zone is.
                self.values.insert(name, zone.clone());
                return Ok(());
            }
            ("default_transaction_isolation" | "transaction_isolation", value) => {
                let level = value.as_deref().unwrap_or("read committed").to_lowercase();
                self.repeatable = matches!(level.as_str(), "repeatable read" | "serializable");
                return Ok(());
            }
            ("default_transaction_read_only" | "transaction_read_only", value) => {
                self.read_only = value.as_deref().is_some_and(is_on);
                return Ok(());
            }
            ("server_version" | "integer_datetimes" | "server_encoding", _) => {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(SqlError::new("55P02", message));
            }
            _ => {}
        }
        match value {
            Some(value) => self.values.insert(name, value),
            None => self.values.remove(&name),
        };
        Ok(())
    }

    pub(crate) fn reset(&mut self) {
        self.values.clear();
        self.repeatable = false;
        self.read_only = false;
    }
}

fn not_possible(name: &str, value: &str, right: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(code::INVALID_PARAMETER, message).hint(right)
}

impl Session {
    pub(crate) fn setting(
        &mut self,
        setting: &Setting,
        compiled: &Compiled,
        formats: &Formats,
        describes: bool,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        match setting {
            Setting::Set(name, value, _) => {
                let is_reset = value.is_none();
                self.settings.set(name, value.clone())?;
                if let Some(reported) =
                    REPORTED.iter().find(|known| known.eq_ignore_ascii_case(name))
                {
                    out.parameter(reported, &self.settings.get(name).unwrap_or_default());
                }
                out.complete(if is_reset { "RESET" } else { "SET" });
            }
            Setting::ResetAll => {
                self.settings.reset();
                out.complete("RESET");
            }
            Setting::Show(name) => {
                let value = self.settings.get(name).ok_or_else(|| {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    SqlError::new(code::UNDEFINED_OBJECT, message)
                })?;
                self.show_lines(compiled, vec![value], formats, describes, out);
            }
        }
        Ok(())
    }
}
