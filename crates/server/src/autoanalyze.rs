//! ANALYZE by itself: tables whose rows have changed enough are analyzed in the background, as
//! PostgreSQL's autovacuum does.
//!
//! ```text
//!   counts of changed rows ──▶ Due: 50 and a fifth of the rows since the last ANALYZE?
//!                                      │ yes
//!                                      ▼
//!   a connection of this process to itself ── ANALYZE t ──▶ a session like those of clients
//! ```
//!
//! The connection is a pair of sockets, so that ANALYZE needs no second way to run. It shows itself
//! in `pg_stat_activity` as [`APPLICATION`].
//!
//! **Cost.** ANALYZE reads all rows of a table. After each round there is a pause of nine times its
//! duration, so at most a tenth of one processor's time goes to it.
//!
//! **Left out.** Each gateway counts the rows that its own clients change. So rows that are changed
//! at three gateways count for three thresholds.

use isomer_design::TableId;
use isomer_sql::catalog::{Catalog, TEMPORARY};
use isomer_sql::statistics::TableStatistics;
use isomer_sql::system::Counts;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The name of the connection.
pub(crate) const APPLICATION: &str = "isomer analyze";
/// That of a connection which runs the statement of an approved proposal.
const APPROVED: &str = "isomer approved";
/// The changed rows for which a small table is analyzed.
const LEAST: u64 = 50;
/// The changed rows for which a large table is analyzed, as a share of its rows.
const SHARE: f64 = 0.2;
/// The version of PostgreSQL's protocol: 3.0.
const PROTOCOL: u32 = 3 << 16;

/// The tables at the last look. See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Due(BTreeMap<TableId, Analyzed>);

/// The last statistics of a table, and its changed rows at that time.
struct Analyzed {
    statistics: Option<Arc<TableStatistics>>,
    changed: u64,
    /// It was due, so statistics that are new since are those of that time.
    was_due: bool,
}

impl Due {
    /// The names of the tables that are to be analyzed now. Statistics that are new, by this or by
    /// a client, begin a new count.
    pub(crate) fn now(&mut self, counts: &Counts, catalog: &Catalog) -> Vec<String> {
        let mut due = Vec::new();
        let tables = catalog.tables.values().filter(|table| table.schema_name != TEMPORARY);
        let mut seen = BTreeMap::new();
        for table in tables {
            let counted = counts.tables.get(&table.id).map_or(0, |of| of.changed.iter().sum());
            let statistics = catalog.statistics.get(&table.oid).cloned();
            let before = self.0.remove(&table.id);
            let changed = match before {
                Some(before) if before.was_due || before.statistics == statistics => before.changed,
                // Without statistics all rows of this process's time count.
                None if statistics.is_none() => 0,
                _ => counted,
            };
            let rows = statistics.as_ref().map_or(0.0, |known| known.rows);
            let is_due = counted.saturating_sub(changed) >= LEAST + (SHARE * rows) as u64;
            let changed = if is_due { counted } else { changed };
            due.extend(is_due.then(|| table.full_name().written()));
            seen.insert(table.id, Analyzed { statistics, changed, was_due: is_due });
        }
        self.0 = seen;
        due
    }
}

/// Analyzes tables over a connection as a user. A table that was dropped meanwhile is skipped.
///
/// # Errors
/// The connection ends, or the user may not log in.
pub(crate) fn analyze(mut server: UnixStream, user: &str, tables: &[String]) -> io::Result<()> {
    log_in(&mut server, user, APPLICATION)?;
    for table in tables {
        ask(&mut server, &format!("ANALYZE {table}"))?;
    }
    server.write_all(&framed(Some(b'X'), &[]))
}

/// Runs a statement over a connection as a user.
///
/// # Errors
/// In words: that of the statement, or that the connection ends, or that the user may not log in.
pub(crate) fn run(mut server: UnixStream, user: &str, statement: &str) -> Result<(), String> {
    let lost = |error: io::Error| match error.kind() {
        ErrorKind::PermissionDenied => {
            "the server lets its owner in only with a password, so run the statement yourself"
                .to_owned()
        }
        _ => format!("the server has stopped: {error}"),
    };
    log_in(&mut server, user, APPROVED).map_err(lost)?;
    let refused = ask(&mut server, statement).map_err(lost)?;
    let _ = server.write_all(&framed(Some(b'X'), &[]));
    refused.map_or(Ok(()), Err)
}

fn log_in(server: &mut UnixStream, user: &str, application: &str) -> io::Result<()> {
    let mut startup = PROTOCOL.to_be_bytes().to_vec();
    for text in ["user", user, "database", user, "application_name", application] {
        startup.extend(text.bytes().chain([0]));
    }
    startup.push(0);
    server.write_all(&framed(None, &startup))?;
    until_ready(server).map(drop)
}

/// Sends a statement, and returns its error.
fn ask(server: &mut UnixStream, statement: &str) -> io::Result<Option<String>> {
    let mut statement = statement.as_bytes().to_vec();
    statement.push(0);
    server.write_all(&framed(Some(b'Q'), &statement))?;
    until_ready(server)
}

/// The message in the fields of an error.
fn message_of(body: &[u8]) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"))?;
    Some(String::from_utf8_lossy(message).into_owned())
}

fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 4) as u32;
    kind.into_iter().chain(length.to_be_bytes()).chain(body.iter().copied()).collect()
}

/// Reads messages until the server waits for the next statement. Returns the last error.
fn until_ready(server: &mut UnixStream) -> io::Result<Option<String>> {
    let mut error = None;
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        server.read_exact(&mut body)?;
        match head[0] {
            b'Z' => return Ok(error),
            b'E' => error = message_of(&body),
            // It asks for a password.
            b'R' if body != [0; 4] => return Err(ErrorKind::PermissionDenied.into()),
            _ => {}
        }
    }
}
