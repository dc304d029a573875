//! The settings of a session, as they travel with its statement to another process.
//!
//! A zone whose name is not read keeps the statement at home. Time limits stay: the session
//! enforces them, and cancels the statement there. A limit of waits for locks travels, because it
//! begins with each wait.

use super::Settings;
use crate::limits::Limits;
use isomer_sql::dates::{Order, TimeStyle};
use isomer_sql::statement::Level;
use isomer_sql::zone::Zone;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
struct Sent {
    login: String,
    user: String,
    role: Option<String>,
    acts_as: Option<u32>,
    database: String,
    process: i32,
    superuser: bool,
    lock_ms: u64,
    level: String,
    read_only: bool,
    hasty: bool,
    /// 0: MDY, 1: DMY, 2: YMD.
    order: u8,
    zone: String,
    values: BTreeMap<String, String>,
}

/// The settings as bytes.
pub(crate) fn written(settings: &Settings) -> Vec<u8> {
    let sent = Sent {
        login: settings.login.to_string(),
        user: settings.user.to_string(),
        role: settings.role.as_deref().map(str::to_owned),
        acts_as: settings.acts_as,
        database: settings.database.to_string(),
        process: settings.process,
        superuser: settings.superuser,
        lock_ms: settings.limits.lock,
        level: settings.level.name().to_owned(),
        read_only: settings.read_only,
        hasty: settings.hasty,
        order: match settings.times.order {
            Order::Mdy => 0,
            Order::Dmy => 1,
            Order::Ymd => 2,
        },
        zone: settings.times.zone.name().to_owned(),
        values: settings.values.clone(),
    };
    postcard::to_allocvec(&sent).expect("values without rules of their own can always be written")
}

/// The settings that bytes mean. `None` if they mean nothing here.
pub(crate) fn read(bytes: &[u8]) -> Option<Settings> {
    let sent: Sent = postcard::from_bytes(bytes).ok()?;
    let mut settings = Settings::new(Arc::default()).ok()?;
    settings.login = sent.login.into();
    settings.user = sent.user.into();
    settings.role = sent.role.map(Arc::from);
    settings.acts_as = sent.acts_as;
    settings.database = sent.database.into();
    settings.process = sent.process;
    settings.superuser = sent.superuser;
    settings.limits = Limits { lock: sent.lock_ms, ..Limits::default() };
    settings.level = Level::named(&sent.level)?;
    settings.read_only = sent.read_only;
    settings.hasty = sent.hasty;
    let order = match sent.order {
        0 => Order::Mdy,
        1 => Order::Dmy,
        2 => Order::Ymd,
        _ => return None,
    };
    settings.times = TimeStyle { zone: Zone::named(&sent.zone)?, order };
    settings.values = sent.values;
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_arrive_as_they_were_sent() {
        let mut settings = Settings::new(Arc::default()).expect("the defaults");
        for (name, value) in [
            ("TimeZone", "europe/berlin"),
            ("DateStyle", "ISO, DMY"),
            ("search_path", "app, public"),
            ("app.user", "7"),
            ("lock_timeout", "5s"),
            ("statement_timeout", "9s"),
            ("default_transaction_isolation", "serializable"),
            ("synchronous_commit", "off"),
            ("client_min_messages", "warning"),
        ] {
            settings.set(name, Some(value.to_owned())).expect("a setting");
        }
        let there = read(&written(&settings)).expect("settings");
        for (name, value) in isomer_sql::system::SettingsView::settings(&settings) {
            // It is kept here.
            if name != "statement_timeout" {
                assert_eq!(there.get(&name).as_deref(), Some(&*value), "{name}");
            }
        }
        assert!(there.hasty && there.get("statement_timeout").as_deref() == Some("0"));
        assert_eq!(there.keeps_quiet(), settings.keeps_quiet());
        assert!(read(b"no settings").is_none());
    }

    #[test]
    fn zones_arrive_or_their_statements_stay() {
        for zone in ["UTC", "EST5EDT", "<+02>-02", "2", "-3.5", "Europe/Berlin"] {
            let mut settings = Settings::new(Arc::default()).expect("the defaults");
            settings.set("TimeZone", Some(zone.to_owned())).expect("a zone");
            let there = read(&written(&settings));
            // The name of an offset with minutes is not read.
            assert_eq!(there.is_none(), zone == "-3.5", "{zone}");
            if let Some(there) = there {
                assert_eq!(there.times.zone.name(), settings.times.zone.name());
            }
        }
    }
}
