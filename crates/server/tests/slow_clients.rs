//! Clients that do not read, or disappear silently: each costs its own session only.

mod fixture;

use fixture::{Fixture, code, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use postgres::error::SqlState;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The server's write time-out. Nothing is measured: tests wait for its effect.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// More than all buffers between a server and its client.
const MUCH: &[u8] = b"select repeat('x', 1000) from generate_series(1, 10000000)\0";

fn impatient() -> Fixture {
    let options = ServerOptions { write_timeout: WRITE_TIMEOUT, ..options() };
    let fixture = Fixture::serve(Options::in_memory(1), options);
    fixture
        .client()
        .batch_execute("create table t (id int primary key); insert into t values (1)")
        .expect("a table");
    fixture.wait_for_clients(0);
    fixture
}

fn send(stream: &mut TcpStream, tag: u8, body: &[u8]) {
    let length = (body.len() as i32 + 4).to_be_bytes();
    stream.write_all(&[&[tag], &length[..], body].concat()).expect("it is read");
}

/// Reads until the client is in a block.
fn until_in_block(stream: &mut TcpStream) {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"Z\0\0\0\x05T") {
        stream.read_exact(&mut byte).expect("the server answers");
        said.extend(byte);
    }
}

/// A client with small buffers that holds a row and requests much.
fn greedy(fixture: &Fixture) -> TcpStream {
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).expect("a small buffer");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    send(&mut stream, b'Q', b"begin; delete from t where id = 1\0");
    until_in_block(&mut stream);
    send(&mut stream, b'Q', MUCH);
    stream
}

#[test]
fn a_client_that_does_not_read_holds_its_locks_and_its_place_for_a_time() {
    let fixture = impatient();
    let mut other = fixture.client();
    let _greedy = greedy(&fixture);
    // Waits until the other transaction is rolled back.
    assert_eq!(other.execute("delete from t where id = 1", &[]).expect("the row is free"), 1);
    fixture.wait_for_clients(1);
}

#[test]
fn the_system_is_told_how_to_look_after_clients_of_tcp() {
    let fixture = Fixture::with(&[("tcp_keepalives_idle", "300")]);
    let mut client = fixture.client();
    let mut shown = |statements: &str, name: &str| -> String {
        client.batch_execute(statements).expect("settings");
        client.query_one(&format!("show {name}"), &[]).expect("a row").get(0)
    };
    assert_eq!(shown("", "tcp_keepalives_idle"), "300");
    assert_eq!(shown("set tcp_keepalives_idle = '2min'", "tcp_keepalives_idle"), "120");
    assert_eq!(shown("begin; set tcp_keepalives_idle = 5; rollback", "tcp_keepalives_idle"), "120");
    assert_eq!(shown("reset all", "tcp_keepalives_idle"), "300");
    assert_eq!(shown("set tcp_user_timeout = '1min'", "tcp_user_timeout"), "60000");
    assert_ne!(shown("", "tcp_keepalives_count"), "0", "the server's own");
    assert_eq!(shown("", "client_connection_check_interval"), "0");
    for wrong in ["tcp_keepalives_count = 1000", "tcp_keepalives_interval = soon"] {
        let refused = client.batch_execute(&format!("set {wrong}"));
        assert_eq!(code(refused), SqlState::INVALID_PARAMETER_VALUE, "{wrong}");
    }
}

#[test]
fn settings_of_tcp_have_no_effect_over_a_unix_socket_and_say_so() {
    let mut fixture = Fixture::with(&[("tcp_keepalives_idle", "300")]);
    let folder = tempfile::tempdir().expect("a folder");
    fixture.server.listen_in(folder.path()).expect("nothing is there");
    let (sender, notices) = mpsc::channel();
    let mut config = postgres::Config::new();
    config.host_path(folder.path()).port(fixture.server.address().port()).user("isomer");
    config.dbname("test").notice_callback(move |notice| {
        let _ = sender.send(notice.code().clone());
    });
    let mut client = config.connect(postgres::NoTls).expect("the server answers");
    client.batch_execute("set tcp_keepalives_idle = 60").expect("it is taken");
    assert_eq!(notices.recv().expect("a warning"), SqlState::WARNING);
    let shown: String = client.query_one("show tcp_keepalives_idle", &[]).expect("a row").get(0);
    assert_eq!(shown, "0");
}

#[test]
#[cfg(target_os = "linux")]
fn a_statement_ends_when_its_client_has_gone_if_that_is_looked_at() {
    let fixture = impatient();
    let mut other = fixture.client();
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    let look =
        b"set client_connection_check_interval = '10ms'; begin; delete from t where id = 1\0";
    send(&mut stream, b'Q', look);
    until_in_block(&mut stream);
    // No test waits for the end of this statement.
    send(&mut stream, b'Q', b"select pg_sleep(100000)\0");
    drop(stream);
    assert_eq!(other.execute("delete from t where id = 1", &[]).expect("the row is free"), 1);
    fixture.wait_for_clients(1);
}

/// A client that is silent for longer than a session rests is served as before: after its silence,
/// when its message comes in pieces, and when its session has a time limit.
#[test]
fn a_session_whose_client_is_silent_gives_memory_back_and_goes_on() {
    static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
    let give_back = || {
        GIVEN_BACK.fetch_add(1, Ordering::SeqCst);
    };
    let until_given_back = |times: usize| {
        while GIVEN_BACK.load(Ordering::SeqCst) < times {
            std::thread::yield_now();
        }
    };
    let fixture = Fixture::serve(Options::in_memory(1), ServerOptions { give_back, ..options() });
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    let until = |stream: &mut TcpStream, end: &[u8]| {
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(end) {
            stream.read_exact(&mut byte).expect("the server answers");
            said.extend(byte);
        }
    };
    until(&mut stream, b"Z\0\0\0\x05I");
    for turn in 1..=2 {
        until_given_back(turn);
        send(&mut stream, b'Q', b"begin\0");
        until(&mut stream, b"Z\0\0\0\x05T");
        // The rest of the message comes after the session has rested, if it does not wait for it.
        stream.write_all(b"Q\0\0").expect("it is read");
        let mut other = fixture.client();
        other.batch_execute("select pg_sleep(1.5)").expect("time passes");
        stream.write_all(b"\0\x0drollback\0").expect("it is read");
        until(&mut stream, b"Z\0\0\0\x05I");
    }
    send(&mut stream, b'Q', b"set idle_session_timeout = 1500\0");
    until(&mut stream, b"Z\0\0\0\x05I");
    let mut last = String::new();
    stream.read_to_string(&mut last).expect("the session ends");
    assert!(last.contains("57P05"), "{last}");
}
