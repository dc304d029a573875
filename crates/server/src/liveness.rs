//! Whether a client that says nothing is still there: what the system finds out, and when the server looks.
//!
//! ```text
//!   silence ────── idle ──────▶ probe ─ interval ─▶ probe ─ .. ─▶ the `count`th: the connection is dead
//!   sent    ────── user_timeout, and no receipt ────────────────▶ the connection is dead
//!   statement ── check interval ──▶ has it gone? ── check interval ──▶ has it gone?      (`limits`)
//! ```
//!
//! A process that ends says so, and its session ends with it. A machine that stops, or a network that is cut, says
//! nothing: without probes its session would keep locks and a place as long as the server runs. A session that waits
//! for its client hears of a dead connection at once. One at work does not look at its socket;
//! `client_connection_check_interval` has it looked at.
//!
//! | setting | unit | what |
//! | --- | --- | --- |
//! | `tcp_keepalives_idle` | s | silence before the first probe |
//! | `tcp_keepalives_interval` | s | from one probe to the next |
//! | `tcp_keepalives_count` | | probes without an answer |
//! | `tcp_user_timeout` | ms | for how long what was sent may be without a receipt |
//!
//! Zero is the server's own ([`USUAL`]), where the system can be told. They are about TCP: over a
//! Unix socket they are zero and have no effect, as the system knows there when a client ends.

use isomer_sql::SqlError;
use std::time::Duration;

/// Settings of one connection, in the order of [`NAMES`], each in its unit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct KeepAlive([u32; 4]);

/// The settings about TCP.
pub(crate) const NAMES: [&str; 4] =
    ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"];

/// A client whose machine stops is found out within a minute: probes after 15 s of silence, and a
/// receipt of all within 60 s.
pub(crate) const USUAL: KeepAlive = KeepAlive([15, 5, 4, 60_000]);

/// The largest that the system takes.
const MOST: [u32; 4] = [32_767, 32_767, 127, i32::MAX as u32];

/// Which of them has this name.
pub(crate) fn named(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

impl KeepAlive {
    /// The value of a setting.
    pub(crate) fn get(&self, at: usize) -> u32 {
        self.0[at]
    }

    /// Sets one of them.
    ///
    /// # Errors
    /// In words, what would be right.
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

    /// With what else holds in the place of zeros.
    pub(crate) fn or(&self, usual: &KeepAlive) -> KeepAlive {
        let or = |at: usize| if self.0[at] == 0 { usual.0[at] } else { self.0[at] };
        KeepAlive(std::array::from_fn(or))
    }
}

/// What a setting says that does not work over the connection.
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
        /// Has the system look after a connection; gives how it does where a client sets nothing.
        pub(crate) fn begin(socket: &impl AsFd) -> Result<KeepAlive> {
            sockopt::set_socket_keepalive(socket, true)?;
            USUAL.apply(socket)?;
            Ok(USUAL)
        }

        /// Tells the system.
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
        /// Has the system look after a connection, as it does.
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
