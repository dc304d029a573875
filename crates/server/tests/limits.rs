//! Limits on time, clients and sizes. Each has an error with its own code, and leaves the rest
//! unaffected.

mod fixture;

use fixture::{Fixture, code, options, wait_for};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use postgres::Client;
use postgres::error::SqlState;
use std::io::{Read, Write};
use std::net::TcpStream;

fn message(result: Result<impl Sized, postgres::Error>) -> String {
    let error = result.err().expect("an error");
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// The error with which the server ended a connection, which a client gets in answer to its next
/// statement.
fn last_words(mut client: Client) -> SqlState {
    let error = wait_for("the end of a connection", || client.simple_query("select 1").err());
    error.code().cloned().expect("words of the server")
}

#[test]
fn a_statement_ends_when_its_time_is_over() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("set statement_timeout = '30ms'").expect("a setting");
    for statement in [
        "select pg_sleep(60)",
        "select count(*) from generate_series(1, 1000000000)",
        "select count(*) from generate_series(1, 10000) a, generate_series(1, 1000000) b",
    ] {
        let error = message(client.batch_execute(statement));
        assert_eq!(error, "canceling statement due to statement timeout", "{statement}");
    }
    assert_eq!(code(client.query("select pg_sleep(60)", &[])), SqlState::QUERY_CANCELED);
    let mut patient = fixture.client();
    patient.batch_execute("set statement_timeout = '1h'; reset statement_timeout").expect("set");
    patient.batch_execute("select pg_sleep(0.05)").expect("no limit");
}

#[test]
fn a_wait_for_a_row_ends_when_its_time_is_over() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.batch_execute("create table t (id int primary key); insert into t values (1)")
        .expect("a table");
    one.batch_execute("begin; select * from t for update").expect("a lock");
    two.batch_execute("set lock_timeout = 20").expect("a setting");
    let refused = two.batch_execute("delete from t where id = 1");
    assert_eq!(code(refused), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(
        message(two.batch_execute("delete from t")),
        "canceling statement due to lock timeout"
    );
    one.batch_execute("rollback").expect("an end");
    two.batch_execute("delete from t where id = 1").expect("no transaction holds it");
}

#[test]
fn silence_ends_a_connection_and_its_transaction() {
    // The server's limit is for the last client; the others have none, or their own.
    let fixture = Fixture::with(&[("idle_session_timeout", "200ms")]);
    let with = |options: &str| {
        let options = format!("options='-c idle_session_timeout=0 {options}'");
        fixture.client_with(&options).expect("the server answers")
    };
    let mut other = with("");
    other.batch_execute("create table t (id int primary key)").expect("a table");
    let mut client = with("-c idle_in_transaction_session_timeout=40");
    client.batch_execute("begin; insert into t values (1)").expect("a row");
    // The row is locked until the idle client's session ends.
    other.batch_execute("insert into t values (1)").expect("the other has ended");
    assert_eq!(last_words(client), SqlState::from_code("25P03"));
    let idle = fixture.client();
    fixture.wait_for_clients(1);
    assert_eq!(last_words(idle), SqlState::from_code("57P05"));
}

#[test]
fn a_transaction_ends_when_its_time_is_over_silent_or_not() {
    let fixture = Fixture::new();
    let mut busy = fixture.client();
    busy.batch_execute("set transaction_timeout = '50ms'; begin").expect("a block");
    assert_eq!(code(busy.batch_execute("select pg_sleep(60)")), SqlState::from_code("25P04"));
    let mut silent = fixture.client();
    silent.batch_execute("set transaction_timeout = '50ms'; begin").expect("a block");
    fixture.wait_for_clients(0);
    assert_eq!(last_words(silent), SqlState::from_code("25P04"));
}

#[test]
fn settings_of_a_block_end_with_it() {
    let fixture = Fixture::with(&[("statement_timeout", "30s")]);
    let mut client = fixture.client();
    let mut shown = |before: &str| -> String {
        client.batch_execute(before).expect("settings");
        client.query_one("show statement_timeout", &[]).expect("one row").get(0)
    };
    assert_eq!(shown(""), "30s");
    assert_eq!(shown("begin; set local statement_timeout = 1000"), "1s");
    assert_eq!(shown("commit"), "30s");
    assert_eq!(shown("begin; set statement_timeout = '2min'; rollback"), "30s");
    assert_eq!(shown("begin; set statement_timeout = '2min'; commit"), "2min");
    assert_eq!(shown("reset statement_timeout"), "30s");
    assert_eq!(
        code(client.batch_execute("set statement_timeout = 'soon'")),
        SqlState::INVALID_PARAMETER_VALUE
    );
}

#[test]
fn a_client_brings_settings_along() {
    let fixture = Fixture::new();
    let with = |options: &str| fixture.client_with(&format!("options='{options}'"));
    let mut client = with("-c statement_timeout=5s --lock-timeout=20").expect("settings");
    let mut shown = |name: &str| -> String {
        client.query_one(&format!("show {name}"), &[]).expect("one row").get(0)
    };
    assert_eq!([shown("statement_timeout"), shown("lock_timeout")], ["5s", "20ms"]);
    client.batch_execute("set statement_timeout = 1000; reset all").expect("settings");
    let reset: String = client.query_one("show statement_timeout", &[]).expect("one row").get(0);
    assert_eq!(reset, "5s");
    assert_eq!(code(with("-x")), SqlState::SYNTAX_ERROR);
}

#[test]
fn a_commit_need_not_wait_for_the_disk() {
    let fixture = Fixture::new();
    let mut hasty = fixture.client_with("options='-c synchronous_commit=off'").expect("a setting");
    hasty
        .batch_execute("create table t (id int primary key); insert into t values (1)")
        .expect("a row");
    hasty
        .batch_execute(
            "begin; set local synchronous_commit = local; insert into t values (2); commit",
        )
        .expect("another");
    let level: String = hasty.query_one("show synchronous_commit", &[]).expect("one row").get(0);
    assert_eq!(level, "off");
    let count: i64 =
        fixture.client().query_one("select count(*) from t", &[]).expect("a row").get(0);
    assert_eq!(count, 2);
    let refused = hasty.batch_execute("set synchronous_commit = sometimes");
    assert_eq!(code(refused), SqlState::INVALID_PARAMETER_VALUE);
}

#[test]
fn one_client_too_many_is_refused() {
    let limited = ServerOptions { connections_max: 2, ..options() };
    let fixture = Fixture::serve(Options::in_memory(1), limited);
    let (one, _two) = (fixture.client(), fixture.client());
    let refused = fixture.try_client();
    assert_eq!(code(refused), SqlState::TOO_MANY_CONNECTIONS);
    drop(one);
    wait_for("a place", || fixture.try_client().ok());
}

#[test]
fn sizes_are_limited_each_with_its_own_error() {
    let (message_bytes_max, statement_bytes_max) = (1 << 20, 16 << 20);
    let limited = ServerOptions { message_bytes_max, statement_bytes_max, ..options() };
    let fixture = Fixture::serve(Options::in_memory(1), limited);
    let mut client = fixture.client();
    let sorted = "select n from generate_series(1, 1000000) n order by n desc";
    assert_eq!(code(client.batch_execute(sorted)), SqlState::OUT_OF_MEMORY);
    for deep in [
        format!("select {}1{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("select {}1", "- ".repeat(20_000)),
        format!("select 1{}", " + 1".repeat(10_000)),
        format!("select {}", "case when true then ".repeat(5000)),
        format!("select {}", "array[".repeat(20_000)),
        format!("{}select 1", "select * from (".repeat(5_000)),
    ] {
        let shown = &deep[..40];
        let refused = code(client.batch_execute(&deep));
        let expected = [SqlState::STATEMENT_TOO_COMPLEX, SqlState::SYNTAX_ERROR];
        assert!(expected.contains(&refused), "{refused:?}: {shown}");
    }
    let mut stream = start(&fixture);
    send(&mut stream, b'Q', &[b'x'; 2 << 20]);
    let answer = answer(stream);
    assert!(answer.contains("08P01"), "{answer}");
    assert!(answer.contains("a length of 2097156 is not from 4 to 1048576"), "{answer}");
}

/// Two transactions hold a table, and each requests it exclusively: one of them is refused.
#[test]
fn deadlocks_over_tables_are_detected() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.batch_execute("create table t (id int primary key)").expect("a table");
    for client in [&mut one, &mut two] {
        client.batch_execute("begin; lock table t in row exclusive mode").expect("a lock");
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.batch_execute("lock table t in share row exclusive mode"));
        wait_for("a wait", || (fixture.engine.gateway().waiting() > 0).then_some(()));
        let refused = two.batch_execute("lock table t in share row exclusive mode");
        assert_eq!(code(refused), SqlState::T_R_DEADLOCK_DETECTED);
        two.batch_execute("rollback").expect("an end");
        waits.join().expect("no panic").expect("the other has ended");
    });
}

/// A bare socket that has logged in.
fn start(fixture: &Fixture) -> TcpStream {
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    stream
}

fn send(stream: &mut TcpStream, tag: u8, body: &[u8]) {
    let length = (body.len() as i32 + 4).to_be_bytes();
    stream.write_all(&[&[tag], &length[..], body].concat()).expect("it is read");
}

/// All that the server says until it ends the connection.
fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("all is answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A client in the middle of a COPY sends nothing, holds a row, and is cancelled by another client.
#[test]
fn a_silent_copy_is_canceled() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    other.batch_execute("create table t (id int primary key)").expect("a table");
    client.batch_execute("begin; insert into t values (1)").expect("a row");
    let token = client.cancel_token();
    let writer = client.copy_in("copy t from stdin").expect("a copy");
    token.cancel_query(postgres::NoTls).expect("the server listens");
    // Waits for the row until the COPY and its transaction have ended.
    other.batch_execute("set lock_timeout = '1min'; insert into t values (1)").expect("a row");
    assert_eq!(code(writer.finish()), SqlState::QUERY_CANCELED);
}

/// The messages of a COPY that pauses in the middle, and then continues.
#[test]
fn a_copy_that_stops_ends_with_its_time_and_later_messages_are_ignored() {
    let fixture = Fixture::new();
    fixture.client().batch_execute("create table t (id int primary key)").expect("a table");
    let mut stream = start(&fixture);
    // The limit applies to the COPY alone: other statements have none.
    send(&mut stream, b'Q', b"begin; set local statement_timeout = 50; copy t from stdin\0");
    send(&mut stream, b'd', b"1\n");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"statement timeout") {
        stream.read_exact(&mut byte).expect("the server ends it by itself");
        said.extend(byte);
    }
    assert_eq!(fixture.engine.gateway().locked_rows(), 0);
    send(&mut stream, b'd', b"2\n");
    send(&mut stream, b'c', b"");
    send(&mut stream, b'Q', b"rollback; select count(*) from t\0");
    send(&mut stream, b'X', b"");
    let answer = answer(stream);
    assert!(answer.contains("SELECT 1"), "{answer}");
    assert!(!answer.contains("COPY"), "{answer}");
}

/// Rows that move to another site during a statement are not available in its snapshot there. The
/// statement is repeated, in a block as well, and the client sees the rows once.
#[test]
fn a_statement_whose_rows_move_away_begins_again() {
    let fixture = Fixture::new();
    let (mut client, mut operator) = (fixture.client(), fixture.client());
    operator
        .batch_execute(
            "create table t (id int primary key, v int);
             insert into t select n, 0 from generate_series(1, 2000) n;
             alter table t split at (1000); alter table t remaster at (1000) to site 1",
        )
        .expect("a table of two parts");
    client.batch_execute("begin; update t set v = 1 where id = 1").expect("a row");
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            // The first row takes long; the last ones are read after they have moved.
            let statement = "select case when id = 1 then pg_sleep(0.5) end, v from t";
            client.query(statement, &[]).expect("all rows")
        });
        operator.batch_execute("select pg_sleep(0.1)").expect("the statement is at work");
        for statement in [
            "alter table t remaster to site 2",
            "alter table t drop replica on site 1",
            "alter table t drop replica on site 3",
        ] {
            operator.batch_execute(statement).expect("a change");
        }
        let rows = reads.join().expect("no panic");
        assert_eq!(rows.len(), 2000);
        assert_eq!(rows[0].get::<_, i32>(1), 1);
    });
    client.batch_execute("commit").expect("an end");
    let sum: i64 = client.query_one("select sum(v) from t", &[]).expect("one row").get(0);
    assert_eq!(sum, 1);
}
