//! Clients that do not read, or are gone without a word: each costs its own session only.

mod fixture;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long the server waits for a client. Nothing is measured: tests wait for what comes of it.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// More than all buffers between a server and its client together.
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

/// A client with room for little, that holds a row and asks for much.
fn greedy(fixture: &Fixture) -> TcpStream {
    let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).expect("a small buffer");
    stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
    send(&mut stream, b'Q', b"begin; delete from t where id = 1\0");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"Z\0\0\0\x05T") {
        stream.read_exact(&mut byte).expect("the row is deleted");
        said.extend(byte);
    }
    send(&mut stream, b'Q', MUCH);
    stream
}

#[test]
fn a_client_that_does_not_read_holds_its_locks_and_its_place_for_a_time() {
    let fixture = impatient();
    let mut other = fixture.client();
    let _greedy = greedy(&fixture);
    // Waits until the transaction of the other is rolled back.
    assert_eq!(other.execute("delete from t where id = 1", &[]).expect("it is let go"), 1);
    fixture.wait_for_clients(1);
}
