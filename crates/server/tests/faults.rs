//! Clients that disconnect, hang, or cancel: nothing is lost or half done, other clients are not
//! affected, memory stays bounded.

mod fixture;

use fixture::{Fixture, code, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use parking_lot::RwLock;
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bare socket that has logged in, and sends these messages.
fn socket(fixture: &Fixture, messages: &[(u8, &[u8])]) -> TcpStream {
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    for (tag, body) in messages {
        let length = (body.len() as i32 + 4).to_be_bytes();
        stream.write_all(&[&[*tag], &length[..], body].concat()).expect("it is read");
    }
    stream
}

fn count(client: &mut Client, query: &str) -> i64 {
    client.query_one(query, &[]).expect("one row").get(0)
}

/// The tests share one process: a test that measures its memory keeps others from filling it
/// meanwhile.
static WEIGHING: RwLock<()> = RwLock::new(());

/// The memory of this process, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}

#[test]
fn a_client_lost_in_a_transaction_or_a_copy_leaves_nothing_behind() {
    let _beside = WEIGHING.read();
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute("create table t (id int primary key, v int); insert into t values (1, 0)")
        .expect("a table");
    for messages in [
        &[(b'Q', &b"begin; update t set v = 1 where id = 1; insert into t values (2, 2)\0"[..])][..],
        &[(b'Q', b"copy t from stdin\0"), (b'd', b"3\t3\n4\t4\n"), (b'd', b"5\t")],
        &[(b'Q', b"begin\0"), (b'Q', b"copy t from stdin\0"), (b'd', b"6\t6\n"), (b'c', b"")],
        &[
            (b'P', b"\0insert into t values (7, 7)\0\0\0"),
            (b'B', b"\0\0\0\0\0\0\0\0"),
            (b'E', b"\0\0\0\0\0"),
        ],
    ] {
        let stream = socket(&fixture, messages);
        // By now the statement runs, unless the server was faster.
        client.batch_execute("select pg_sleep(0.02)").expect("time passes");
        drop(stream);
    }
    // Waits for the row until its writer has disconnected.
    client.batch_execute("update t set v = v + 10 where id = 1").expect("the row is free");
    fixture.wait_for_clients(1);
    assert_eq!(fixture.engine.gateway().locked_rows(), 0);
    assert_eq!(count(&mut client, "select sum(id * 100 + v) from t"), 110);
}

#[test]
fn a_thousand_idle_clients_cost_little() {
    const CLIENTS: usize = 1000;
    let _alone = WEIGHING.write();
    let many = ServerOptions { connections_max: CLIENTS + 10, ..options() };
    let fixture = Fixture::serve(Options::in_memory(2), many);
    let mut client = fixture.client();
    client.batch_execute("create table t (id int primary key)").expect("a table");
    let before = memory();
    let idle: Vec<TcpStream> =
        (0..CLIENTS).map(|_| socket(&fixture, &[(b'Q', b"begin; select * from t\0")])).collect();
    fixture.wait_for_clients(CLIENTS + 1);
    client.batch_execute("insert into t values (1)").expect("there is room to work");
    let each = memory().saturating_sub(before) / CLIENTS;
    eprintln!("an idle client takes {} KB", each >> 10);
    assert!(each < 256 << 10, "{each} bytes");
    drop(idle);
    fixture.wait_for_clients(1);
}

/// True if the next reading of the clock panics.
static FAULT: AtomicBool = AtomicBool::new(false);

fn faulty_clock() -> i64 {
    assert!(!FAULT.swap(false, Ordering::SeqCst), "a planted fault");
    1_700_000_000_000_000
}

/// A panic fails its statement: the session continues, the transaction is rolled back, its locks
/// are released.
#[test]
fn a_fault_costs_its_statement_and_nothing_else() {
    let _beside = WEIGHING.read();
    let faulty = ServerOptions { clock: faulty_clock, ..options() };
    let fixture = Fixture::serve(Options::in_memory(2), faulty);
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client
        .batch_execute("create table t (id int primary key, v int); insert into t values (1, 0)")
        .expect("a table");
    let fault = |client: &mut Client, text: &str| {
        FAULT.store(true, Ordering::SeqCst);
        code(client.batch_execute(text))
    };
    assert_eq!(fault(&mut client, "select 1"), SqlState::INTERNAL_ERROR);
    assert_eq!(count(&mut client, "select count(*) from t"), 1);
    client.batch_execute("begin; update t set v = 1 where id = 1").expect("a row");
    assert_eq!(fault(&mut client, "select 1"), SqlState::INTERNAL_ERROR);
    assert_eq!(fixture.engine.gateway().locked_rows(), 0);
    other.batch_execute("update t set v = 2 where id = 1").expect("no transaction holds it");
    assert_eq!(code(client.batch_execute("select 1")), SqlState::IN_FAILED_SQL_TRANSACTION);
    client.batch_execute("rollback").expect("an end");
    client.batch_execute("begin; savepoint s").expect("a block");
    assert_eq!(fault(&mut client, "select 1"), SqlState::INTERNAL_ERROR);
    client
        .batch_execute("rollback to s; update t set v = v + 1 where id = 1; commit")
        .expect("it goes on");
    let prepared = client.prepare("select v::bigint from t where id = $1").expect("a statement");
    FAULT.store(true, Ordering::SeqCst);
    assert_eq!(code(client.query(&prepared, &[&1])), SqlState::INTERNAL_ERROR);
    assert_eq!(client.query_one(&prepared, &[&1]).expect("a row").get::<_, i64>(0), 3);
    let mut copy = client.copy_in("copy t from stdin").expect("a copy");
    copy.write_all(b"7\t7\n").expect("it is read");
    copy.flush().expect("it is read");
    FAULT.store(true, Ordering::SeqCst);
    assert_eq!(code(copy.finish()), SqlState::INTERNAL_ERROR);
    assert_eq!(count(&mut client, "select count(*) from t"), 1);
}

/// A client that requests much and reads nothing: the answer is produced at the client's pace.
#[test]
fn a_client_that_does_not_read_fills_no_memory_and_blocks_no_other() {
    let _alone = WEIGHING.write();
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create table t (id int primary key)").expect("a table");
    let before = memory();
    let query = b"select repeat('x', 1000) from generate_series(1, 10000000)\0";
    let slow: Vec<TcpStream> = (0..4).map(|_| socket(&fixture, &[(b'Q', query)])).collect();
    for id in 0..100i32 {
        client.execute("insert into t values ($1)", &[&id]).expect("a row");
    }
    client.batch_execute("select pg_sleep(0.3)").expect("time passes");
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    // A client that reads at last gets its answer from the beginning.
    let mut start = [0; 4096];
    for mut stream in slow {
        stream.read_exact(&mut start).expect("an answer");
        assert_eq!(start[0], b'R');
    }
}

/// A cancel request can arrive at any time, also during a commit. The transaction then either
/// commits or fails, and the client gets the right answer.
#[test]
fn cancelled_commits_are_told_truly() {
    let _beside = WEIGHING.read();
    const ROUNDS: i64 = 300;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute("create table t (id int primary key, v int); insert into t values (1, 0)")
        .expect("a table");
    let token = client.cancel_token();
    let done = AtomicBool::new(false);
    let (mut committed, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = token.cancel_query(NoTls);
            }
        });
        for round in 0..ROUNDS {
            let change = "update t set v = v + 1 where id = 1";
            let result = if round % 2 == 0 {
                client.batch_execute(change)
            } else {
                client.batch_execute(&format!("begin; {change}; commit"))
            };
            match result {
                Ok(()) => committed += 1,
                Err(error) => {
                    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error:?}");
                    refused += 1;
                    let _ = client.batch_execute("rollback");
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(committed + refused, ROUNDS);
    let mut other = fixture.client();
    assert_eq!(count(&mut other, "select sum(v) from t"), committed);
}
