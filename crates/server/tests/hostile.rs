//! Hostile clients: no statement, message or behaviour exceeds the server's memory limit or its own
//! time limit, or costs another client its connection.
//!
//! ```text
//!   case ──▶ its own session ──▶ an answer, or an error with a code; then `select 1` anywhere
//!            │ the process's peak before and after: at most the limit plus the case's own memory
//! ```
//!
//! The server has 64 MB for all statements together. [`cases`] makes the list: families of
//! statements, each in several sizes. `ISOMER_HOSTILE=all` runs all sizes with long time limits;
//! otherwise larger sizes are skipped and limits are shorter. Each past finding has a case here.

#[path = "hostile/cases.rs"]
mod cases;
mod fixture;
#[path = "hostile/wire.rs"]
mod wire;

use cases::{Act, Case};
use fixture::{Fixture, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use std::collections::BTreeMap;
use wire::{Outcome, Wire};

/// The memory limit of all statements.
const MEMORY_BYTES: usize = 64 << 20;
/// Further memory: buffers, the test's own, the allocator's reserve.
const SLACK_BYTES: usize = 48 << 20;

fn serve(timeout: &str) -> Fixture {
    let settings = vec![("statement_timeout".to_owned(), timeout.to_owned())];
    let options = ServerOptions {
        settings,
        statement_bytes_max: MEMORY_BYTES,
        transaction_bytes_max: MEMORY_BYTES,
        session_bytes_max: MEMORY_BYTES,
        memory_bytes_max: MEMORY_BYTES,
        ..options()
    };
    Fixture::serve(Options::in_memory(2), options)
}

/// The memory of the database: rows, and their log, which is in memory here. Growth of it is not
/// charged to a statement.
fn stored(fixture: &Fixture) -> usize {
    let sites = fixture.engine.gateway().database().sites();
    sites.iter().map(|site| site.memory_bytes + site.log.bytes as usize).sum()
}

/// A line of this process's status, in bytes.
fn memory(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap_or("0");
    line.split_whitespace().next().and_then(|kb| kb.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// The tables of the cases: rows to read, and a table to write to.
const TABLES: &str = "
    create table t (id int primary key, v text, n int);
    create table u (id int, w text);
    create table w (id int primary key);
    insert into t select n, 'v' || n, n % 10 from generate_series(1, 1000) n;
    insert into u select n, repeat('u', 100) from generate_series(1, 1000) n";

#[test]
fn no_client_takes_the_server_down() {
    let is_all = std::env::var("ISOMER_HOSTILE").is_ok_and(|how| how == "all");
    let only = std::env::var("ISOMER_HOSTILE_ONLY").unwrap_or_default();
    let fixture = serve(if is_all { "2s" } else { "100ms" });
    let address = fixture.server.address();
    let mut other = Wire::start(address);
    other.statement("set statement_timeout = 0");
    assert_eq!(other.statement(TABLES).code, None);
    let mut session = Wire::start(address);
    let (mut count, mut most, mut found) = (0, 0, Vec::new());
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let cases = cases::cases(is_all);
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        count += 1;
        // Resets the peak, so that it is that of the case.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (before, had) = (memory("VmRSS:"), stored(&fixture));
        let outcome = run(case, &mut session, address);
        let grown = memory("VmHWM:").saturating_sub(before);
        let own = 2 * case.act.bytes() + stored(&fixture).saturating_sub(had);
        most = most.max(grown.saturating_sub(own));
        let code = outcome.code.clone().unwrap_or_else(|| "an answer".to_owned());
        *outcomes.entry(code.clone()).or_default() += 1;
        let mut finding = |what: String| found.push(format!("{}: {what}", case.name));
        if grown > MEMORY_BYTES + SLACK_BYTES + own {
            finding(format!("took {} MB", grown >> 20));
        }
        if code == "XX000" {
            finding(format!("a fault: {}", outcome.message));
        }
        if outcome.ended && !case.act.may_end() {
            finding(format!("ended its session: {code} {}", outcome.message));
        }
        let silent = session.statement("rollback; select 1");
        if silent.code.is_some() || silent.ended {
            finding(format!("its session is of no use any more: {:?}", silent.code));
            session = Wire::start(address);
        }
        let beside = other.statement("select 1");
        assert!(beside.code.is_none() && !beside.ended, "{} ended another session", case.name);
    }
    eprintln!("{count} cases, {} MB at most; {outcomes:?}", most >> 20);
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    assert!(count >= 300 || !only.is_empty(), "{count} cases are too few");
    assert_eq!(fixture.engine.gateway().locked_rows(), 0);
}

fn run(case: &Case, session: &mut Wire, address: std::net::SocketAddr) -> Outcome {
    match &case.act {
        Act::Statement(text) => session.statement(text),
        Act::InBlock(before, text) => {
            session.statement(before);
            session.statement(text)
        }
        Act::Messages(messages) => {
            messages.iter().for_each(|(tag, body)| session.send(*tag, body));
            session.send(b'S', b"");
            session.outcome()
        }
        Act::Bytes(bytes) => {
            let mut own = Wire::start(address);
            own.bytes(bytes);
            own.bytes(b"S\0\0\0\x04");
            own.outcome()
        }
        Act::HalfSent { clients, length, sent } => {
            let mut all: Vec<Wire> = (0..*clients).map(|_| Wire::start(address)).collect();
            let piece = vec![b'x'; 1 << 20];
            for client in &mut all {
                client.bytes(b"Q");
                client.bytes(&(*length as i32).to_be_bytes());
            }
            for _ in 0..sent >> 20 {
                all.iter_mut().for_each(|client| client.bytes(&piece));
            }
            Outcome::default()
        }
        Act::CopyIn { statement, line, times } => {
            session.send(b'Q', format!("{statement}\0").as_bytes());
            (0..*times).for_each(|_| session.send(b'd', line));
            session.send(b'c', b"");
            session.outcome()
        }
    }
}

/// Four clients announce messages of 250 MB, send a part, and hang. Their memory is bounded. A
/// client that continues gets an error for lack of memory, and its session goes on.
#[test]
fn a_message_beyond_the_memory_is_refused_alone() {
    let fixture = serve("0");
    let address = fixture.server.address();
    let mut client = Wire::start(address);
    client.bytes(b"Q");
    client.bytes(&(100i32 << 20).to_be_bytes());
    let piece = vec![b' '; 1 << 20];
    (0..99).for_each(|_| client.bytes(&piece));
    client.bytes(&piece[..(1 << 20) - 5]);
    client.bytes(b"\0");
    let refused = client.outcome();
    assert_eq!(refused.code.as_deref(), Some("53200"), "{}", refused.message);
    assert!(refused.message.contains("may use 64 MB"), "{}", refused.message);
    assert_eq!(client.statement("select 1").code, None);
}
