//! Connections in the server's log: when a client came, who it is, and when it went.
//!
//! ```text
//!   INFO connection received from="127.0.0.1:40712"
//!   INFO connection authorized process=7 user="ada" database="isomer" application="psql" from=..
//!   INFO disconnection process=7 user="ada" database="isomer" from=.. duration_ms=1234.5
//! ```
//!
//! With `log_connections` and `log_disconnections` these are of level info, without them of level
//! debug.

use crate::settings::Settings;
use crate::socket::Socket;
use std::sync::Arc;

/// An event of level info, or else debug.
macro_rules! tell {
    ($is_info:expr, $($event:tt)*) => {
        if $is_info { tracing::info!($($event)*) } else { tracing::debug!($($event)*) }
    };
}

/// Where a client is, as the log says it.
pub(crate) fn from(socket: &Socket) -> String {
    socket.peer().map_or_else(|| "a Unix socket".to_owned(), |peer| peer.to_string())
}

/// A client is there, and has said nothing yet.
pub(crate) fn received(server: &Settings, socket: &Socket) {
    tell!(server.is_on("log_connections"), from = from(socket), "connection received");
}

/// A client that has logged in.
pub(crate) struct Visit {
    process: i32,
    user: Arc<str>,
    database: Arc<str>,
    from: String,
    begun_us: i64,
    /// Whether its end is of level info.
    tells_end: bool,
}

impl Visit {
    /// A client has logged in, with these settings.
    pub(crate) fn begin(
        server: &Settings,
        settings: &Settings,
        socket: &Socket,
        now_us: i64,
    ) -> Visit {
        let visit = Visit {
            process: settings.process,
            user: settings.user.clone(),
            database: settings.database.clone(),
            from: from(socket),
            begun_us: now_us,
            tells_end: server.is_on("log_disconnections"),
        };
        let (user, database, from) = (&*visit.user, &*visit.database, &*visit.from);
        let (process, application) = (visit.process, settings.application());
        let is_info = server.is_on("log_connections");
        tell!(is_info, process, user, database, application, from, "connection authorized");
        visit
    }

    /// The client has gone.
    pub(crate) fn end(self, now_us: i64) {
        let (user, database, from) = (&*self.user, &*self.database, &*self.from);
        let (process, duration_ms) = (self.process, (now_us - self.begun_us) as f64 / 1000.0);
        tell!(self.tells_end, process, user, database, from, duration_ms, "disconnection");
    }
}
