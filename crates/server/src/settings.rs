//! Settings of a session, as clients set and read them, and their effects.
//!
//! ```text
//!   BEGIN        SET a = 1        SET LOCAL b = 2        COMMIT: a = 1, b as before
//!                                                        ROLLBACK: both as before
//! ```
//!
//! Defaults come from the server's options (`--set`), and over these from the client's start-up
//! message.
//!
//! A setting either has its effect, or accepts only the values that describe the fixed behaviour
//! ([`ONLY`]): `DateStyle` is ISO. Settings of PostgreSQL that only affect speed are accepted with
//! a warning ([`is_about_speed`]). Names with a dot belong to applications. All others are unknown,
//! as in PostgreSQL.

pub(crate) mod sent;

use crate::limits::{self, Limits};
use crate::liveness::{self, KeepAlive};
use crate::session::{Call, Session};
use crate::socket::Socket;
use crate::system_settings::system_setting;
use crate::wire::Out;
use isomer_sql::dates::{Order, TimeStyle};
use isomer_sql::rights::{Identity, Role};
use isomer_sql::statement::{Level, Setting};
use isomer_sql::system::SettingsView;
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The user that has logged in.
    pub(crate) login: Arc<str>,
    /// The session user: the login, unless a superuser has changed it.
    pub(crate) user: Arc<str>,
    /// The role that was set by SET ROLE.
    pub(crate) role: Option<Arc<str>>,
    /// The oid of the role that the session acts as, after SET ROLE: a new role with the same name
    /// does not count.
    pub(crate) acts_as: Option<u32>,
    pub(crate) database: Arc<str>,
    pub(crate) process: i32,
    /// Whether that role was a superuser when it was set.
    pub(crate) superuser: bool,
    pub(crate) limits: Limits,
    /// The requested values, and the system's; `None` if they cannot be read.
    keep_alive: KeepAlive,
    system_keep_alive: Option<KeepAlive>,
    /// The default isolation level of transactions.
    pub(crate) level: Level,
    /// Transactions are read-only by default.
    pub(crate) read_only: bool,
    /// `synchronous_commit` is off: a commit is acknowledged before it is durable.
    hasty: bool,
    /// The duration in milliseconds from which on statements are logged.
    pub(crate) slow_ms: Option<u64>,
    /// Statements may run at the process that has their rows.
    pub(crate) ships: bool,
    times: TimeStyle,
    values: BTreeMap<String, String>,
    defaults: Arc<[(String, String)]>,
}

/// The settings after a block that has changed some.
pub(crate) struct Kept {
    commit: Arc<Settings>,
    rollback: Arc<Settings>,
}

/// The settings at a savepoint.
#[derive(Clone)]
pub(crate) struct SettingsMark {
    now: Arc<Settings>,
    /// The settings as they would be after the commit of the block.
    commit: Arc<Settings>,
}

/// The settings that are reported to clients at the start and when they change.
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
    ("application_name", ""),
    ("search_path", "\"$user\", public"),
    ("extra_float_digits", "1"),
    ("max_identifier_length", "63"),
    ("synchronous_commit", "on"),
    ("max_index_keys", "32"),
    ("password_encryption", "scram-sha-256"),
    ("log_connections", "off"),
    ("log_disconnections", "off"),
];

/// Read-only settings.
const FIXED: [&str; 7] = [
    "server_version",
    "server_version_num",
    "server_encoding",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "max_index_keys",
];

/// The setting for logging slow statements.
const SLOW: &str = "log_min_duration_statement";

/// The setting for statements that run at the process that has their rows.
const SHIPS: &str = "ship_statements";

/// The value of `role` without SET ROLE.
const NO_ROLE: &str = "none";

/// Settings that accept only the values of the fixed behaviour, in lower case; `*` stands for all
/// values.
const ONLY: [(&str, &[&str]); 33] = [
    ("application_name", &["*"]),
    (
        "client_min_messages",
        &[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice",
            "warning", "error",
        ],
    ),
    ("client_encoding", &["utf8", "utf-8", "utf_8", "unicode", "sql_ascii"]),
    ("intervalstyle", &["postgres"]),
    ("standard_conforming_strings", &["on", "true", "yes", "1"]),
    ("backslash_quote", &["safe_encoding", "off", "false", "no", "0"]),
    ("escape_string_warning", &["*"]),
    ("array_nulls", &["on", "true", "yes", "1"]),
    ("transform_null_equals", &["off", "false", "no", "0"]),
    // Enough digits to read back the same number.
    ("extra_float_digits", &["1", "2", "3"]),
    ("bytea_output", &["hex"]),
    ("xmloption", &["*"]),
    ("password_encryption", &["scram-sha-256"]),
    // A deferrable transaction would wait for a safe snapshot; every snapshot is safe.
    ("default_transaction_deferrable", &["*"]),
    ("transaction_deferrable", &["*"]),
    ("check_function_bodies", &["on", "true", "yes", "1", "off", "false", "no", "0"]),
    // There are no policies, triggers and object identifiers that these could affect.
    ("row_security", &["*"]),
    ("session_replication_role", &["origin"]),
    ("default_with_oids", &["off", "false", "no", "0"]),
    ("default_tablespace", &["", "pg_default"]),
    ("temp_tablespaces", &[""]),
    ("default_table_access_method", &["heap"]),
    ("allow_system_table_mods", &["off", "false", "no", "0"]),
    ("quote_all_identifiers", &["*"]),
    ("lo_compat_privileges", &["*"]),
    ("lc_messages", &["", "c", "posix", "c.utf-8", "c.utf8", "en_us.utf-8", "en_us.utf8"]),
    ("lc_monetary", &["", "c", "posix", "c.utf-8", "c.utf8"]),
    ("lc_numeric", &["", "c", "posix", "c.utf-8", "c.utf8"]),
    ("lc_time", &["", "c", "posix", "c.utf-8", "c.utf8"]),
    ("zero_damaged_pages", &["off", "false", "no", "0"]),
    ("ignore_checksum_failure", &["off", "false", "no", "0"]),
    ("exit_on_error", &["off", "false", "no", "0"]),
    ("restart_after_crash", &["*"]),
];

/// Settings of PostgreSQL that change only how a result is computed.
fn is_about_speed(name: &str) -> bool {
    const STARTS: [&str; 18] = [
        "enable_",
        "geqo",
        "jit",
        "cpu_",
        "log_",
        "track_",
        "debug_",
        "vacuum_",
        "parallel_",
        "max_parallel_",
        "min_parallel_",
        "effective_",
        "gin_",
        "commit_",
        "autovacuum_",
        "maintenance_",
        "wal_",
        "stats_",
    ];
    const NAMES: [&str; 18] = [
        "work_mem",
        "temp_buffers",
        "temp_file_limit",
        "logical_decoding_work_mem",
        "hash_mem_multiplier",
        "random_page_cost",
        "seq_page_cost",
        "plan_cache_mode",
        "join_collapse_limit",
        "from_collapse_limit",
        "constraint_exclusion",
        "cursor_tuple_fraction",
        "default_statistics_target",
        "recursive_worktable_factor",
        "force_parallel_mode",
        "synchronize_seqscans",
        "deadlock_timeout",
        "update_process_title",
    ];
    STARTS.iter().any(|start| name.starts_with(start)) || NAMES.contains(&name)
}

impl Settings {
    /// The settings of the server's options.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn new(defaults: Arc<[(String, String)]>) -> Result<Settings, SqlError> {
        let mut settings = Settings {
            login: Arc::default(),
            user: Arc::default(),
            role: None,
            acts_as: None,
            database: Arc::default(),
            process: 0,
            superuser: false,
            limits: Limits::default(),
            keep_alive: KeepAlive::default(),
            system_keep_alive: None,
            level: Level::default(),
            read_only: false,
            hasty: false,
            slow_ms: None,
            ships: true,
            times: TimeStyle::default(),
            values: BTreeMap::new(),
            defaults,
        };
        settings.reset()?;
        Ok(settings)
    }

    /// The same for a connection.
    pub(crate) fn over(&self, socket: &Socket) -> Settings {
        Settings { system_keep_alive: socket.keep_alive(), ..self.clone() }
    }

    /// Applies the keepalive settings to the connection.
    ///
    /// # Errors
    /// 22023 with the message of the system, if it refuses them.
    pub(crate) fn keep_alive_over(&self, socket: &Socket) -> Result<(), SqlError> {
        socket.set_keep_alive(&self.keep_alive).map_err(|error| {
            let message = format!("the system refuses these settings of TCP: {error}");
            SqlError::new(code::INVALID_PARAMETER, message)
        })
    }

    /// Applies the settings of a startup message. Returns the errors of invalid ones, which keep
    /// their defaults.
    pub(crate) fn of_client(mut self, given: Vec<(String, String)>) -> (Settings, Vec<SqlError>) {
        let mut wrong = Vec::new();
        let mut defaults = self.defaults.to_vec();
        for (name, value) in given {
            if is_of_role(&name) {
                wrong.push(SqlError::unsupported(format!("{name} at the start of a session")));
                continue;
            }
            match self.set(&name, Some(value.clone())) {
                Ok(warning) => {
                    wrong.extend(warning);
                    defaults.push((name, value));
                }
                Err(error) => wrong.push(error),
            }
        }
        self.defaults = defaults.into();
        (self, wrong)
    }

    /// The value of a setting.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        match name.as_str() {
            "default_transaction_isolation" | "transaction_isolation" => {
                Some(self.level.name().to_owned())
            }
            "default_transaction_read_only" | "transaction_read_only" => {
                Some(if self.read_only { "on" } else { "off" }.to_owned())
            }
            "is_superuser" => Some(if self.superuser { "on" } else { "off" }.to_owned()),
            "session_authorization" => Some(self.user.to_string()),
            "role" => Some(self.role.as_deref().unwrap_or(NO_ROLE).to_owned()),
            SHIPS => Some(if self.ships { "on" } else { "off" }.to_owned()),
            SLOW => Some(self.slow_ms.map_or_else(|| "-1".to_owned(), limits::show_ms)),
            limit if Limits::default().named(limit).is_some() => {
                let mut limits = self.limits;
                limits.named(limit).map(|ms| limits::show_ms(*ms))
            }
            tcp if let Some(at) = liveness::named(tcp) => {
                let value = self.system_keep_alive.map_or(0, |it| self.keep_alive.or(&it).get(at));
                Some(value.to_string())
            }
            _ => {
                let default = || DEFAULTS.iter().find(|(known, _)| *known == name);
                let set = self.values.get(&name).cloned();
                set.or_else(|| default().map(|(_, value)| (*value).to_owned()))
            }
        }
    }

    /// True if a setting is a true Boolean.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default().to_lowercase();
        matches!(value.as_str(), "on" | "true" | "yes" | "1")
    }

    /// The `application_name`.
    pub(crate) fn application(&self) -> &str {
        self.values.get("application_name").map_or("", String::as_str)
    }

    /// The role whose rights it has: that of SET ROLE, or its user.
    pub(crate) fn current(&self) -> &Arc<str> {
        self.role.as_ref().unwrap_or(&self.user)
    }

    /// The severities of notices that the client does not want.
    pub(crate) fn keeps_quiet(&self) -> &'static [&'static str] {
        match self.values.get("client_min_messages").map(|least| least.to_lowercase()).as_deref() {
            Some("warning") => &["NOTICE"],
            Some("error") => &["NOTICE", "WARNING"],
            _ => &[],
        }
    }

    /// True if commits are acknowledged before they are durable.
    pub(crate) fn is_asynchronous(&self) -> bool {
        self.hasty
    }

    /// Sets a setting; `None` resets it to its default. Returns a warning if it has no effect.
    ///
    /// # Errors
    /// 22023 for invalid values, 0A000 for values that would have no effect, 42704, 55P02.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<String>,
    ) -> Result<Option<SqlError>, SqlError> {
        let name = name.to_lowercase();
        let default = || self.defaults.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(&name));
        let value = value.or_else(|| default().map(|(_, value)| value.clone()));
        if let Some(limit) = self.limits.named(&name) {
            let text = value.unwrap_or_default();
            let ms = if text.is_empty() { Some(0) } else { limits::read_ms(&text) };
            let right =
                "Times are written as 500ms, 5s, 1min, 2h or 1d, or as a number of milliseconds.";
            let ms = ms.ok_or_else(|| not_possible(&name, &text, right))?;
            if name == limits::CHECK && ms > 0 && !cfg!(target_os = "linux") {
                return Err(SqlError::unsupported(
                    "looking whether a client has gone, on this system",
                ));
            }
            *limit = ms;
            return Ok(None);
        }
        if let Some(at) = liveness::named(&name) {
            let text = value.unwrap_or_else(|| "0".to_owned());
            self.keep_alive.set(at, &text).map_err(|right| not_possible(&name, &text, &right))?;
            let is_idle = self.system_keep_alive.is_none() && self.keep_alive.get(at) > 0;
            return Ok(is_idle.then(|| liveness::no_effect(&name)));
        }
        if FIXED.contains(&name.as_str()) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new("55P02", message));
        }
        match name.as_str() {
            "default_transaction_isolation" | "transaction_isolation" => {
                self.set_isolation(&name, value.as_deref())?;
                return Ok(None);
            }
            "default_transaction_read_only" | "transaction_read_only" => {
                self.read_only = switch(&name, value.as_deref().unwrap_or("off"))?;
                return Ok(None);
            }
            "synchronous_commit" => {
                self.hasty = match value.as_deref().unwrap_or("on").to_lowercase().as_str() {
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
            SHIPS => {
                self.ships = switch(&name, value.as_deref().unwrap_or("on"))?;
                return Ok(None);
            }
            SLOW => {
                let text = value.unwrap_or_else(|| "-1".to_owned());
                let right = "-1 tells of none; times are written as 500ms, 5s or 1min.";
                self.slow_ms = match text.trim() {
                    "-1" => None,
                    time => {
                        let ms = limits::read_ms(time);
                        Some(ms.ok_or_else(|| not_possible(&name, &text, right))?)
                    }
                };
                return Ok(None);
            }
            "datestyle" => {
                self.times.order = match value.as_deref() {
                    Some(style) => order_of(style)?.unwrap_or(self.times.order),
                    None => Order::default(),
                };
                let order = match self.times.order {
                    Order::Mdy => "MDY",
                    Order::Dmy => "DMY",
                    Order::Ymd => "YMD",
                };
                self.values.insert(name, format!("ISO, {order}"));
                return Ok(None);
            }
            "timezone" => {
                self.times.zone = match value.as_deref() {
                    None => Zone::utc(),
                    Some(named) => Zone::named(named).ok_or_else(|| {
                        let right = "Zones are named as Europe/Berlin, UTC, EST5EDT or <+02>-02; or by hours east, \
                                     as 2.";
                        not_possible("TimeZone", named, right)
                    })?,
                };
                self.values.insert(name, self.times.zone.name().to_owned());
                return Ok(None);
            }
            // The session checks the membership.
            "role" => {
                self.role = value.filter(|role| role != NO_ROLE).map(Arc::from);
                return Ok(None);
            }
            "session_authorization" => {
                self.user = value.map_or_else(|| self.login.clone(), Arc::from);
                self.role = None;
                return Ok(None);
            }
            _ if is_own(&name) => return Err(unknown(&name)),
            _ => {}
        }
        let only = ONLY.iter().find(|(known, _)| *known == name).map(|(_, only)| *only);
        if let (Some(only), Some(value)) = (only, &value) {
            check_only(&name, value, only)?;
        }
        let is_known = only.is_some() || DEFAULTS.iter().any(|(known, _)| *known == name);
        let is_idle = !is_known && !name.contains('.') && is_about_speed(&name);
        if !is_known && !is_idle && !name.contains('.') {
            return Err(unknown(&name));
        }
        let warning = (is_idle && value.is_some()).then(|| {
            let message = format!("parameter \"{name}\" has no effect here");
            SqlError::new("01000", message)
        });
        match value {
            // Clients are told the name of the encoding only.
            Some(_) if name == "client_encoding" => None,
            Some(value) => self.values.insert(name, value),
            None => self.values.remove(&name),
        };
        Ok(warning)
    }

    fn set_isolation(&mut self, name: &str, level: Option<&str>) -> Result<(), SqlError> {
        let level = level.unwrap_or("read committed");
        self.level = Level::named(level).ok_or_else(|| {
            let right = "Available values: read committed, repeatable read, serializable.";
            not_possible(name, level, right)
        })?;
        Ok(())
    }

    /// The search path for names without a schema.
    pub(crate) fn path(&self) -> Arc<[String]> {
        let path = self.get("search_path").unwrap_or_default();
        let named = names_in(&path).into_iter().map(|name| match name.as_str() {
            "$user" => self.current().to_string(),
            _ => name,
        });
        named.filter(|name| !name.is_empty()).collect()
    }

    /// Resets all settings to their defaults.
    ///
    /// # Errors
    /// As [`Settings::set`], which cannot happen for defaults that were valid before.
    pub(crate) fn reset(&mut self) -> Result<(), SqlError> {
        self.values.clear();
        self.limits = Limits::default();
        self.keep_alive = KeepAlive::default();
        self.level = Level::default();
        self.read_only = false;
        self.hasty = false;
        self.ships = true;
        self.times = TimeStyle::default();
        let defaults = self.defaults.clone();
        defaults.iter().try_for_each(|(name, value)| self.set(name, Some(value.clone())).map(drop))
    }
}

impl SettingsView for Settings {
    fn times(&self) -> &TimeStyle {
        &self.times
    }

    fn checked(&self, name: &str, value: &str) -> Result<String, SqlError> {
        let mut changed = self.clone();
        changed.set(name, Some(value.to_owned()))?;
        Ok(changed.get(name).unwrap_or_default())
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.get(name)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let known = DEFAULTS.iter().map(|(name, _)| *name);
        let known = known.chain(limits::NAMES).chain(liveness::NAMES);
        let mut names: Vec<&str> = known.chain(self.values.keys().map(String::as_str)).collect();
        names.extend([
            "default_transaction_isolation",
            "default_transaction_read_only",
            "transaction_isolation",
            SHIPS,
        ]);
        names.sort_unstable();
        names.dedup();
        let value = |name: &str| Some((name.to_owned(), self.get(name)?));
        names.into_iter().filter_map(value).collect()
    }
}

/// True for the settings that decide the session's rights.
fn is_of_role(name: &str) -> bool {
    ["role", "session_authorization"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// True for Isomer's own settings.
fn is_own(name: &str) -> bool {
    name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("isomer."))
}

fn switch(name: &str, value: &str) -> Result<bool, SqlError> {
    match value.to_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(not_possible(name, value, "Available values: on, off.")),
    }
}

/// The names in a list, some of them quoted.
fn names_in(list: &str) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    for sign in list.chars() {
        match sign {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(std::mem::take(&mut name)),
            sign if is_quoted => name.push(sign),
            sign if sign.is_whitespace() => {}
            sign => name.extend(sign.to_lowercase()),
        }
    }
    names.push(name);
    names
}

/// The order of day, month and year of a style; output is always ISO 8601.
fn order_of(style: &str) -> Result<Option<Order>, SqlError> {
    let mut order = None;
    for word in style.split(',').map(|word| word.trim().trim_matches('\'').to_lowercase()) {
        match word.as_str() {
            "iso" => {}
            "mdy" | "us" | "noneuro" | "noneuropean" => order = Some(Order::Mdy),
            "dmy" | "euro" | "european" => order = Some(Order::Dmy),
            "ymd" => order = Some(Order::Ymd),
            "default" => order = Some(Order::default()),
            "sql" | "postgres" | "german" => {
                return Err(SqlError::unsupported(format!("the style {word} of DateStyle"))
                    .hint("Dates are written as ISO 8601 has them."));
            }
            _ => {
                return Err(not_possible(
                    "DateStyle",
                    style,
                    "Available values: ISO, and MDY, DMY or YMD.",
                ));
            }
        }
    }
    Ok(order)
}

fn check_only(name: &str, value: &str, only: &[&str]) -> Result<(), SqlError> {
    let plain = value.trim().trim_matches('\'').to_lowercase();
    if only.iter().any(|allowed| *allowed == "*" || *allowed == plain) {
        return Ok(());
    }
    let hint = format!("Available values: {}.", only.join(", "));
    Err(SqlError::unsupported(format!("the value \"{value}\" of the parameter \"{name}\""))
        .hint(hint))
}

fn unknown(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(code::UNDEFINED_OBJECT, message)
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
                if *is_local && !self.keeps_settings() {
                    let message = "SET LOCAL can only be used in transaction blocks";
                    out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
                } else {
                    if let Some(warning) = self.set(name, value.clone(), *is_local, out)? {
                        out.notice("WARNING", &warning);
                    }
                }
                out.complete(if value.is_none() { "RESET" } else { "SET" });
            }
            Setting::ResetAll => {
                self.change_settings(false, out, Settings::reset)?;
                out.complete("RESET");
            }
            Setting::Show(name) => {
                let value = self.shown(name).ok_or_else(|| unknown(name))?;
                self.show_value(call, value, out);
            }
        }
        Ok(())
    }

    /// Sets a setting, if the session may. Returns a warning if it has no effect.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<String>,
        is_local: bool,
        out: &mut Out,
    ) -> Result<Option<SqlError>, SqlError> {
        if !is_of_role(name) {
            let set = |settings: &mut Settings| settings.set(name, value.clone());
            return self.change_settings(is_local, out, set);
        }
        let value = value.filter(|value| !value.eq_ignore_ascii_case("default"));
        let value = value.filter(|value| value != NO_ROLE || !name.eq_ignore_ascii_case("role"));
        let roles = self.engine.roles();
        let found = value.as_deref().map(|value| roles.named(value)).transpose();
        let found = found.map_err(|error| SqlError { code: code::INVALID_PARAMETER, ..error })?;
        if let Some(wanted) = found {
            self.check_taking_on(&name.to_lowercase(), wanted)?;
        }
        let set = |settings: &mut Settings| {
            let done = settings.set(name, value.clone())?;
            let role = roles.named(settings.current());
            settings.superuser = role.as_ref().is_ok_and(|role| role.superuser);
            settings.acts_as = role.ok().map(|role| role.oid as u32);
            Ok(done)
        };
        self.change_settings(is_local, out, set)
    }

    /// A session can set roles of which its user is a member; that of a superuser can set any role.
    fn check_taking_on(&self, setting: &str, wanted: &Role) -> Result<(), SqlError> {
        let (roles, catalog) = (self.engine.roles(), self.catalog());
        let of = |name: &str| Identity::of(name, &roles, &catalog.members);
        let (may, what) = match setting {
            "role" => (of(&self.settings.user).acts_as(wanted.oid as u32), "role"),
            _ => {
                let login = of(&self.settings.login);
                (login.is_superuser || *login.name == *wanted.name, "session authorization")
            }
        };
        if may {
            return Ok(());
        }
        let message = format!("permission denied to set {what} \"{}\"", wanted.name);
        Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The value of a setting, or of a pseudo-setting of SHOW.
    fn shown(&self, name: &str) -> Option<String> {
        match name {
            "last_commit" => Some(self.last_commit()),
            "transaction_isolation" if self.is_in_block() && self.level().is_some() => {
                self.level().map(|level| level.name().to_owned())
            }
            "transaction_read_only" if self.is_in_block() && self.is_read_only().is_some() => {
                self.is_read_only().map(|is| if is { "on" } else { "off" }.to_owned())
            }
            _ => system_setting(&self.engine, name).or_else(|| self.settings.get(name)),
        }
    }

    /// Applies the search path of the settings.
    pub(crate) fn look_in_path(&mut self) {
        let (path, role) = (self.settings.path(), self.settings.current().clone());
        if self.temporaries.told() == (path.clone(), role.clone()) {
            return;
        }
        self.temporaries.set_path(path, role);
        if let Some(draft) = self.txn.as_mut().and_then(|backend| backend.draft.as_mut()) {
            draft.look_in_path();
        }
    }

    /// Changes settings. In a block or a query of several statements, the end of the transaction
    /// restores them if necessary.
    pub(crate) fn change_settings<T>(
        &mut self,
        is_local: bool,
        out: &mut Out,
        change: impl Fn(&mut Settings) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let before = self.settings.clone();
        let changed = change(Arc::make_mut(&mut self.settings))?;
        if self.settings.keep_alive != before.keep_alive
            && let Some(socket) = &self.socket
            && let Err(error) = self.settings.keep_alive_over(socket)
        {
            self.settings = before;
            return Err(error);
        }
        if self.keeps_settings() {
            let kept = self
                .kept_settings
                .get_or_insert_with(|| Kept { commit: before.clone(), rollback: before.clone() });
            if !is_local {
                change(Arc::make_mut(&mut kept.commit))?;
            }
        }
        self.settings_changed(&before, out);
        Ok(changed)
    }

    /// Restores the settings at the end of a block.
    pub(crate) fn end_settings(&mut self, commits: bool, out: &mut Out) {
        if let Some(kept) = self.kept_settings.take() {
            let after = if commits { kept.commit } else { kept.rollback };
            let before = std::mem::replace(&mut self.settings, after);
            self.settings_changed(&before, out);
        }
    }

    /// True if the transaction contains more than this statement.
    fn keeps_settings(&self) -> bool {
        self.is_in_block() || self.is_one_of_many
    }

    /// Restores settings at the end of a message with several statements outside of a block, which
    /// are one transaction.
    pub(crate) fn end_settings_of_message(&mut self, commits: bool, out: &mut Out) {
        if !self.is_in_block() {
            self.end_settings(commits, out);
        }
    }

    /// The settings as they are at a savepoint.
    pub(crate) fn settings_mark(&self) -> SettingsMark {
        let now = self.settings.clone();
        let commit = self.kept_settings.as_ref().map_or(&now, |kept| &kept.commit).clone();
        SettingsMark { now, commit }
    }

    /// Restores the settings of a savepoint.
    pub(crate) fn settings_back_to(&mut self, mark: SettingsMark, out: &mut Out) {
        if let Some(kept) = &mut self.kept_settings {
            kept.commit = mark.commit;
            let before = std::mem::replace(&mut self.settings, mark.now);
            self.settings_changed(&before, out);
        }
    }

    fn settings_changed(&mut self, before: &Settings, out: &mut Out) {
        self.look_in_path();
        if let Some(socket) = &self.socket
            && self.settings.keep_alive != before.keep_alive
        {
            // The system has accepted them before.
            let _ = self.settings.keep_alive_over(socket);
        }
        self.cancel.set_lock_limit(self.settings.limits.lock);
        out.keep_to_itself(self.settings.keeps_quiet());
        for name in REPORTED {
            let value = self.settings.get(name);
            if value != before.get(name) {
                out.parameter(name, &value.unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(Arc::default()).expect("the defaults")
    }

    fn outcome(settings: &mut Settings, name: &str, value: &str) -> &'static str {
        match settings.set(name, Some(value.to_owned())) {
            Ok(None) => "set",
            Ok(Some(warning)) => warning.code,
            Err(error) => error.code,
        }
    }

    #[test]
    fn a_setting_has_its_effect_or_is_how_things_are_or_is_refused() {
        let mut settings = settings();
        for (name, value, expected) in [
            ("TimeZone", "UTC", "set"),
            ("TimeZone", "Etc/UTC", "set"),
            ("TimeZone", "europe/berlin", "set"),
            ("TimeZone", "Nowhere", "22023"),
            ("DateStyle", "ISO, DMY", "set"),
            ("DateStyle", "German", "0A000"),
            ("client_encoding", "'utf-8'", "set"),
            ("client_encoding", "latin1", "0A000"),
            ("extra_float_digits", "3", "set"),
            ("extra_float_digits", "0", "0A000"),
            ("standard_conforming_strings", "off", "0A000"),
            ("search_path", "app, public", "set"),
            ("search_path", "app", "set"),
            ("search_path", "", "set"),
            ("work_mem", "1GB", "01000"),
            ("enable_seqscan", "off", "01000"),
            ("app.user", "7", "set"),
            ("isomer.unheard_of", "7", "42704"),
            ("unheard_of", "7", "42704"),
            ("server_version", "16", "55P02"),
            ("is_superuser", "on", "55P02"),
            ("default_transaction_isolation", "chaos", "22023"),
            ("default_transaction_isolation", "serializable", "set"),
            ("default_transaction_deferrable", "on", "set"),
            ("isomer.serializable", "repeatable read", "42704"),
        ] {
            assert_eq!(outcome(&mut settings, name, value), expected, "{name} = {value}");
        }
        assert_eq!(settings.get("app.user").as_deref(), Some("7"));
        assert_eq!(settings.get("transaction_isolation").as_deref(), Some("serializable"));
        assert_eq!(settings.get("TimeZone").as_deref(), Some("Europe/Berlin"));
    }
}
