//! Clients whose connections another process forwards.

mod fixture;

use fixture::{Fixture, cancel_a_wait, code};
use isomer_server::{Passage, PassageOptions, Traffic};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

fn passage(to: String, connections_max: usize) -> Passage {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let traffic = Traffic::Clients { node: "b".to_owned() };
    let to = Arc::new(move || Ok(to.clone()));
    Passage::start(PassageOptions { listen, to, traffic, connections_max }).expect("a free port")
}

fn connect(passage: &Passage) -> Result<Client, postgres::Error> {
    let port = passage.address().port();
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
    Client::connect(&config, NoTls)
}

#[test]
fn a_client_is_served_and_cancels_as_if_it_had_come_by_itself() {
    let fixture = Fixture::new();
    let passage = passage(fixture.server.address().to_string(), 10);
    let mut client = connect(&passage).expect("it is passed on");
    let text = "x".repeat(3_000_000);
    let back = client.query_one("select $1::text", &[&text]).expect("long messages pass");
    assert!(back.get::<_, String>(0) == text);
    drop(client);
    cancel_a_wait(connect(&passage).expect("one"), connect(&passage).expect("two"));
    // A client that disconnects leaves the server, too.
    fixture.wait_for_clients(0);
}

#[test]
fn clients_of_a_node_that_falls_silent_give_up_their_locks() {
    let fixture = Fixture::new();
    let passage = passage(fixture.server.address().to_string(), 10);
    let mut other = fixture.client();
    other
        .batch_execute("create table t (a int primary key, b int); insert into t values (1, 1)")
        .expect("a row");
    let mut client = connect(&passage).expect("it is passed on");
    client.batch_execute("begin; update t set b = 2").expect("it locks the row");
    // A node of another name has no clients here.
    fixture.server.end_passed_by("c");
    client.batch_execute("update t set b = 3").expect("it goes on");
    fixture.server.end_passed_by("b");
    other.batch_execute("update t set b = b + 10").expect("the lock is free");
    let left: i32 = other.query_one("select b from t", &[]).expect("it is there").get(0);
    assert_eq!(left, 11);
    client.batch_execute("commit").expect_err("its connection has ended");
    // A direct connection does not belong to the node.
    other.batch_execute("select 1").expect("it goes on");
}

#[test]
fn a_browser_is_passed_on_or_told_why_not() {
    let console = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = console.local_addr().expect("an address").to_string();
    let listen = "127.0.0.1:0".parse().expect("an address");
    let to: Arc<dyn Fn() -> Result<String, String> + Send + Sync> =
        Arc::new(move || Ok(to.clone()));
    let options = PassageOptions { listen, to, traffic: Traffic::Pages, connections_max: 10 };
    let passage = Passage::start(options).expect("a free port");
    let ask = || {
        let mut browser = TcpStream::connect(passage.address()).expect("it listens");
        browser.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is read");
        browser
    };
    let answer = |mut browser: TcpStream| {
        let mut answer = String::new();
        browser.read_to_string(&mut answer).expect("an answer, and the end");
        answer
    };
    let browser = ask();
    let (mut page, _) = console.accept().expect("it is passed on");
    let mut asked = [0; 18];
    page.read_exact(&mut asked).expect("nothing comes before the request");
    assert_eq!(&asked, b"GET / HTTP/1.1\r\n\r\n");
    page.write_all(b"HTTP/1.1 200 OK\r\n\r\na page").expect("it is read");
    drop(page);
    assert!(answer(browser).ends_with("a page"));
    drop(console);
    let refused = answer(ask());
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("the process that serves at 127.0.0.1:"), "{refused}");
}

#[test]
fn a_client_is_told_why_it_is_not_served() {
    let fixture = Fixture::new();
    let to = fixture.server.address().to_string();
    let passage = passage(to.clone(), 1);
    let mut client = connect(&passage).expect("it is passed on");
    assert_eq!(code(connect(&passage)), SqlState::TOO_MANY_CONNECTIONS);
    drop(fixture);
    client
        .simple_query("select 1")
        .expect_err("the server has stopped, and the connection with it");
    drop(client);
    let refused = fixture::wait_for("the place of the first", || {
        connect(&passage)
            .err()
            .filter(|error| error.code() != Some(&SqlState::TOO_MANY_CONNECTIONS))
    });
    let refused = refused.as_db_error().expect("it is an error of the protocol");
    assert_eq!(*refused.code(), SqlState::CANNOT_CONNECT_NOW);
    let said = format!("{} {}", refused.message(), refused.hint().unwrap_or_default());
    assert!(said.contains(&to) && said.contains("try again"), "{said}");
    // A client that requests encryption first gets a refusal of it, and then the error. The
    // previous client may still be connected.
    fixture::wait_for("the place of the one before", || {
        let mut socket = TcpStream::connect(passage.address()).expect("it listens");
        socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).expect("it is heard");
        let mut answer = [0];
        socket.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *b"N");
        socket.write_all(b"\0\0\0\x10\0\x03\0\0user\0a\0\0").expect("it is heard");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("all is answered");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("57P03") || answer.contains("53300"), "{answer}");
        answer.contains("57P03").then_some(())
    });
}
