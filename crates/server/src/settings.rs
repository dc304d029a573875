//! Settings of a session: what clients set and ask for. Few have an effect; unknown ones are kept, as
//! clients set what their own server knows.
//!
//! ```text
//!   BEGIN        SET a = 1        SET LOCAL b = 2        COMMIT: a = 1, b as before
//!                                                        ROLLBACK: both as before
//! ```
//!
//! Defaults come from the server's options (`--set`), and over these from the client's start-up message.

use crate::limits::{self, Limits};
use crate::session::{Call, Session};
use crate::wire::Out;
use isomer_sql::statement::Setting;
use isomer_sql::system::SettingsView;
use isomer_sql::{SqlError, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) user: Arc<str>,
    pub(crate) database: Arc<str>,
    pub(crate) process: i32,
    pub(crate) limits: Limits,
    /// Transactions have one snapshot, unless they say otherwise.
    pub(crate) repeatable: bool,
    /// Transactions do not write, unless they say otherwise.
    pub(crate) read_only: bool,
    /// `synchronous_commit` is off: who commits is told before it is durable.
    hasty: bool,
    values: BTreeMap<String, String>,
    defaults: Arc<[(String, String)]>,
}

/// Settings as they will be after a block that has changed some.
pub(crate) struct Kept {
    commit: Arc<Settings>,
    rollback: Arc<Settings>,
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

const DEFAULTS: [(&str, &str); 17] = [
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
    ("max_index_keys", "32"),
    ("password_encryption", "scram-sha-256"),
];

impl Settings {
    /// Settings as the server's options have them.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn new(defaults: Arc<[(String, String)]>) -> Result<Settings, SqlError> {
        let mut settings = Settings {
            user: Arc::default(),
            database: Arc::default(),
            process: 0,
            limits: Limits::default(),
            repeatable: false,
            read_only: false,
            hasty: false,
            values: BTreeMap::new(),
            defaults,
        };
        settings.reset()?;
        Ok(settings)
    }

    /// Settings as a client asks for at its start. What is wrong with some of them is returned; those
    /// have their defaults.
    pub(crate) fn of_client(mut self, given: Vec<(String, String)>) -> (Settings, Vec<SqlError>) {
        let mut wrong = Vec::new();
        let mut defaults = self.defaults.to_vec();
        for (name, value) in given {
            match self.set(&name, Some(value.clone())) {
                Ok(()) => defaults.push((name, value)),
                Err(error) => wrong.push(error),
            }
        }
        self.defaults = defaults.into();
        (self, wrong)
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
            "session_authorization" | "role" => Some(self.user.to_string()),
            limit if Limits::default().named(limit).is_some() => {
                let mut limits = self.limits;
                limits.named(limit).map(|ms| limits::show_ms(*ms))
            }
            _ => {
                let default = || DEFAULTS.iter().find(|(known, _)| *known == name);
                let set = self.values.get(&name).cloned();
                set.or_else(|| default().map(|(_, value)| (*value).to_owned()))
            }
        }
    }

    /// True if who commits is told before it is durable.
    pub(crate) fn is_hasty(&self) -> bool {
        self.hasty
    }

    /// Sets a setting; `None`: to its default.
    ///
    /// # Errors
    /// 22023 for values that are not possible.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>) -> Result<(), SqlError> {
        let name = name.to_lowercase();
        let default = || self.defaults.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(&name));
        let value = value.or_else(|| default().map(|(_, value)| value.clone()));
        if let Some(limit) = self.limits.named(&name) {
            let text = value.unwrap_or_default();
            let ms = if text.is_empty() { Some(0) } else { limits::read_ms(&text) };
            let right =
                "Times are written as 500ms, 5s, 1min, 2h or 1d, or as a number of milliseconds.";
            *limit = ms.ok_or_else(|| not_possible(&name, &text, right))?;
            return Ok(());
        }
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
            ("synchronous_commit", level) => {
                self.hasty = match level.as_deref().unwrap_or("on").to_lowercase().as_str() {
                    "on" | "local" | "remote_write" | "remote_apply" | "true" | "yes" | "1" => {
                        false
                    }
                    "off" | "false" | "no" | "0" => true,
                    wrong => {
                        let right = "Available values: on, off; local, remote_write and remote_apply are as on.";
                        return Err(not_possible(&name, wrong, right));
                    }
                };
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

    /// Sets all to their defaults.
    ///
    /// # Errors
    /// As [`Settings::set`]; not if the defaults were set before.
    pub(crate) fn reset(&mut self) -> Result<(), SqlError> {
        self.values.clear();
        self.limits = Limits::default();
        self.repeatable = false;
        self.read_only = false;
        self.hasty = false;
        let defaults = self.defaults.clone();
        defaults.iter().try_for_each(|(name, value)| self.set(name, Some(value.clone())))
    }
}

impl SettingsView for Settings {
    fn setting(&self, name: &str) -> Option<String> {
        self.get(name)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let known = DEFAULTS.iter().map(|(name, _)| *name).chain(limits::NAMES);
        let mut names: Vec<&str> = known.chain(self.values.keys().map(String::as_str)).collect();
        names.extend(["default_transaction_read_only", "transaction_isolation"]);
        names.sort_unstable();
        names.dedup();
        let value = |name: &str| Some((name.to_owned(), self.get(name)?));
        names.into_iter().filter_map(value).collect()
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
        call: Call<'_>,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        match setting {
            Setting::Set(name, value, is_local) => {
                if *is_local && !self.is_in_block() {
                    let message = "SET LOCAL can only be used in transaction blocks";
                    out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
                } else {
                    self.change_settings(*is_local, out, |settings| {
                        settings.set(name, value.clone())
                    })?;
                }
                out.complete(if value.is_none() { "RESET" } else { "SET" });
            }
            Setting::ResetAll => {
                self.change_settings(false, out, Settings::reset)?;
                out.complete("RESET");
            }
            Setting::Show(name) => {
                let value = self.shown(name).ok_or_else(|| {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    SqlError::new(code::UNDEFINED_OBJECT, message)
                })?;
                self.show_lines(call, vec![value], out);
            }
        }
        Ok(())
    }

    /// The value of a setting; or of what is none but can be asked for as if it were.
    fn shown(&self, name: &str) -> Option<String> {
        match name {
            "autopilot" => Some(self.engine.autopilot().mode().to_string()),
            "last_commit" => Some(self.last_commit()),
            _ => self.settings.get(name),
        }
    }

    /// Changes settings, in a block so that its end can take them back.
    pub(crate) fn change_settings(
        &mut self,
        is_local: bool,
        out: &mut Out,
        change: impl Fn(&mut Settings) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let before = self.settings.clone();
        change(Arc::make_mut(&mut self.settings))?;
        if self.is_in_block() {
            let kept = self
                .kept_settings
                .get_or_insert_with(|| Kept { commit: before.clone(), rollback: before.clone() });
            if !is_local {
                change(Arc::make_mut(&mut kept.commit))?;
            }
        }
        self.settings_changed(&before, out);
        Ok(())
    }

    /// Gives the settings back what a block has changed for itself.
    pub(crate) fn end_settings(&mut self, commits: bool, out: &mut Out) {
        if let Some(kept) = self.kept_settings.take() {
            let after = if commits { kept.commit } else { kept.rollback };
            let before = std::mem::replace(&mut self.settings, after);
            self.settings_changed(&before, out);
        }
    }

    fn settings_changed(&self, before: &Settings, out: &mut Out) {
        self.patience.set_lock_limit(self.settings.limits.lock);
        for name in REPORTED {
            let value = self.settings.get(name);
            if value != before.get(name) {
                out.parameter(name, &value.unwrap_or_default());
            }
        }
    }
}
