//! The activity of sessions, for `pg_stat_activity` and the server's log.
//!
//! A session writes here when a statement begins and when it ends; other sessions read. The lock is
//! almost never contended: it is held while a text of at most [`TEXT_BYTES_MAX`] bytes is copied.

use crate::shapes::place;
use crate::socket::Socket;
use isomer_design::SiteId;
use isomer_sql::system::SessionShown;
use isomer_strategy::Place;
use parking_lot::Mutex;
use std::sync::Arc;

/// The bytes of a statement that are shown.
const TEXT_BYTES_MAX: usize = 1024;

/// See the [module documentation](self).
pub(crate) struct Activity {
    clock: fn() -> i64,
    process: i32,
    shown: Mutex<SessionShown>,
}

impl Activity {
    /// The activity of a new session. `is_encrypted` is `None` for a client of another process.
    pub(crate) fn new(
        clock: fn() -> i64,
        process: i32,
        (user, database): (&str, &str),
        socket: Option<&Socket>,
        is_encrypted: Option<bool>,
    ) -> Arc<Activity> {
        let now_us = clock();
        let peer = socket.and_then(Socket::peer);
        let shown = SessionShown {
            process,
            user: user.to_owned(),
            database: database.to_owned(),
            client_address: peer.map(|peer| peer.ip().to_string()),
            client_port: peer.map_or(-1, |peer| peer.port().into()),
            is_encrypted,
            begun_us: now_us,
            changed_us: now_us,
            state: "idle".into(),
            ..SessionShown::default()
        };
        Arc::new(Activity { clock, process, shown: Mutex::new(shown) })
    }

    /// The activity as `pg_stat_activity` shows it.
    pub(crate) fn shown(&self) -> SessionShown {
        self.shown.lock().clone()
    }

    /// Records the beginning of a statement; returns the time, in microseconds since 1970.
    pub(crate) fn begin(&self, text: &str) -> i64 {
        let now_us = (self.clock)();
        let mut shown = self.shown.lock();
        shown.text.clear();
        shown.text.push_str(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
        (shown.query_us, shown.changed_us, shown.state) = (Some(now_us), now_us, "active".into());
        now_us
    }

    /// Records the end of a statement that began at `begun_us`, and logs it if it took at least
    /// `slow_ms`: its shape, which has no values, and the sites where its transaction committed, or
    /// else those that it has read from so far.
    pub(crate) fn end(
        &self,
        begun_us: i64,
        slow_ms: Option<u64>,
        (shape, route, sites_read): (&str, Option<Place>, &dyn Fn() -> Vec<SiteId>),
    ) {
        let took_us = (self.clock)() - begun_us;
        if slow_ms.is_none_or(|slow| took_us < 1000 * i64::try_from(slow).unwrap_or(i64::MAX)) {
            return;
        }
        let shown = self.shown();
        let route = route.map(place).or_else(|| read_at(&sites_read()));
        tracing::info!(
            process = self.process,
            user = shown.user,
            database = shown.database,
            duration_ms = took_us as f64 / 1000.0,
            statement = shape,
            route,
            "slow statement"
        );
    }

    /// Records the beginning of a transaction.
    pub(crate) fn begin_transaction(&self, now_us: i64) {
        self.shown.lock().transaction_us = Some(now_us);
    }

    /// Records that the session waits for its client, with this status of ReadyForQuery.
    pub(crate) fn rest(&self, status: u8, is_in_transaction: bool, application: &str) {
        let mut shown = self.shown.lock();
        let state = match (status, is_in_transaction) {
            (b'E', _) => "idle in transaction (aborted)",
            (b'T', _) => "idle in transaction",
            _ => "idle",
        };
        if !is_in_transaction {
            shown.transaction_us = None;
        }
        if shown.application != application {
            application.clone_into(&mut shown.application);
        }
        if shown.state != state {
            (shown.state, shown.changed_us) = (state.into(), (self.clock)());
        }
    }
}

/// The sites of reads in words; none without any.
fn read_at(sites: &[SiteId]) -> Option<String> {
    let names: Vec<String> = sites.iter().map(SiteId::to_string).collect();
    (!names.is_empty()).then(|| format!("reads at {}", names.join(", ")))
}
