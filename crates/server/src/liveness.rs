//! Detects clients that are no longer there: keepalive probes by the system, and checks by the
//! server.
//!
//! ```text
//!   idle ──── keepalives_idle ───▶ probe ─ interval ─▶ probe ─ .. ─▶ the `count`th: it is dead
//!   sent ──── user_timeout without acknowledgement ────────────────▶ the connection is dead
//!   statement ── check interval ──▶ still there? ── check interval ──▶ still there?   (`limits`)
//! ```
//!
//! A process that ends closes its connection, and its session ends. A machine that fails, or a
//! network that is cut, closes no connection. Without probes the session would keep its locks and
//! its place until the server stops. A session that waits for its client learns of a dead
//! connection at once. A session with a running statement does not read its socket;
//! `client_connection_check_interval` makes the server check it.
//!
//! | setting | unit | meaning |
//! | --- | --- | --- |
//! | `tcp_keepalives_idle` | s | idle time before the first probe |
//! | `tcp_keepalives_interval` | s | time between probes |
//! | `tcp_keepalives_count` | | probes without an answer |
//! | `tcp_user_timeout` | ms | the longest time without acknowledgement of sent data |
//!
//! 0 stands for the server's default ([`USUAL`]), if the system supports the setting. All are about
//! TCP. Over a Unix socket they are 0 and have no effect, because the system knows when a local
//! client ends.

use isomer_sql::SqlError;
use std::time::Duration;

/// The settings of one connection, in the order of [`NAMES`], each in its unit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct KeepAlive([u32; 4]);

/// The settings about TCP.
pub(crate) const NAMES: [&str; 4] =
    ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"];

/// Detects a failed client machine within a minute: probes after 15 s of silence, and
/// acknowledgement of all data within 60 s.
pub(crate) const USUAL: KeepAlive = KeepAlive([15, 5, 4, 60_000]);

/// The largest values that the system accepts.
const MOST: [u32; 4] = [32_767, 32_767, 127, i32::MAX as u32];

/// The index of the setting with this name.
pub(crate) fn named(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

impl KeepAlive {
    /// The value of a setting.
    pub(crate) fn get(&self, at: usize) -> u32 {
        self.0[at]
    }

    /// Sets one value.
    ///
    /// # Errors
    /// The right values, in words.
    pub(crate) fn set(&mut self, at: usize, text: &str) -> Result<(), String> {
        let value = match NAMES[at] {
            "tcp_keepalives_count" => text.trim().parse().ok(),
            "tcp_user_timeout" => crate::limits::read_ms(text),
            _ => text.trim().parse().ok().or_else(|| Some(crate::limits::read_ms(text)? / 1000)),
        };
        let value = value.filter(|value: &u64| *value <= MOST[at].into());
        let unit = ["seconds", "seconds", "probes", "milliseconds"][at];
        let right =
            || format!("It is a number of {unit} from 0 to {}; 0 is the server's own.", MOST[at]);
        self.0[at] = value.ok_or_else(right)? as u32;
        Ok(())
    }

    /// Replaces zeros by the values of `usual`.
    pub(crate) fn or(&self, usual: &KeepAlive) -> KeepAlive {
        let or = |at: usize| if self.0[at] == 0 { usual.0[at] } else { self.0[at] };
        KeepAlive(std::array::from_fn(or))
    }
}

/// The error of a setting that has no effect over this kind of connection.
pub(crate) fn no_effect(name: &str) -> SqlError {
    SqlError::new(
        "01000",
        format!("parameter \"{name}\" has no effect: this connection is not one of TCP on Linux"),
    )
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Duration, KeepAlive, USUAL};
    use rustix::fd::AsFd;
    use rustix::io::Result;
    use rustix::net::sockopt;

    impl KeepAlive {
        /// Enables keepalive on a connection; returns the values for settings of 0.
        pub(crate) fn begin(socket: &impl AsFd) -> Result<KeepAlive> {
            sockopt::set_socket_keepalive(socket, true)?;
            USUAL.apply(socket)?;
            Ok(USUAL)
        }

        /// Applies the settings to a connection.
        pub(crate) fn apply(&self, socket: &impl AsFd) -> Result<()> {
            let KeepAlive([idle, interval, count, user_timeout]) = *self;
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle.into()))?;
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval.into()))?;
            sockopt::set_tcp_keepcnt(socket, count)?;
            sockopt::set_tcp_user_timeout(socket, user_timeout)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::KeepAlive;
    use rustix::fd::AsFd;
    use rustix::io::{Errno, Result};
    use rustix::net::sockopt;

    impl KeepAlive {
        /// Enables keepalive with the system's own values.
        pub(crate) fn begin(socket: &impl AsFd) -> Result<KeepAlive> {
            sockopt::set_socket_keepalive(socket, true)?;
            Err(Errno::NOTSUP)
        }

        pub(crate) fn apply(&self, _socket: &impl AsFd) -> Result<()> {
            Err(Errno::NOTSUP)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_units_and_limits_of_their_own() {
        let set = |name, text| {
            let (mut keep_alive, at) = (KeepAlive::default(), named(name).expect("it is one"));
            keep_alive.set(at, text).map(|()| keep_alive.get(at))
        };
        assert_eq!(set("tcp_keepalives_idle", "60"), Ok(60));
        assert_eq!(set("tcp_keepalives_interval", "2min"), Ok(120));
        assert_eq!(set("tcp_keepalives_count", "127"), Ok(127));
        assert_eq!(set("tcp_user_timeout", "30s"), Ok(30_000));
        assert_eq!(set("tcp_user_timeout", "30"), Ok(30));
        for (name, wrong) in [
            ("tcp_keepalives_idle", "1d"),
            ("tcp_keepalives_count", "128"),
            ("tcp_keepalives_count", "3s"),
            ("tcp_user_timeout", "-1"),
        ] {
            assert!(set(name, wrong).is_err(), "{name} = {wrong}");
        }
        assert_eq!(KeepAlive([0, 5, 0, 7]).or(&KeepAlive([1, 2, 3, 0])), KeepAlive([1, 5, 3, 7]));
    }
}
