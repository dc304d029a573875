//! Damaged statements and damaged messages: the server answers every input with an error that has a
//! code, and continues to serve. Findings are panics (XX000), connections that end without an
//! error, and a server that does not answer afterwards.
//!
//! ```text
//!   corpus/statements.sql ──▶ cut, double, swap words; extreme literals; flip bytes ──▶ server
//! ```
//!
//! `ISOMER_FUZZ_SECONDS` is the duration of each test (2), `ISOMER_SEED` the seed (1). A finding is
//! shown with its statement or bytes, which then belong into the corpus.

mod fixture;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use postgres::Client;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const CORPUS: &str = include_str!("corpus/statements.sql");

/// Literals and words at the edges of their types.
const EXTREMES: [&str; 24] = [
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999999999999999999999",
    "1e-400",
    "null",
    "''",
    "'\u{fffd}ü'",
    "'NaN'",
    "'{1,2'",
    "$1",
    "$65535",
    "*",
    "(",
    ")",
    ",",
    "::int",
    "::numeric(38,38)",
    "::char(1)",
    "between",
    "in (select 1)",
    "is null",
    "over ()",
];

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// A statement of the corpus, with a few foreign words.
    fn statement(&mut self) -> String {
        let corpus: Vec<&str> = CORPUS.lines().collect();
        let mut words: Vec<&str> = self.one(&corpus).split(' ').collect();
        for _ in 0..self.below(5) {
            let at = self.below(words.len());
            match self.below(6) {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at, words[at]),
                2 => words.insert(at, self.one(&EXTREMES)),
                3 => words[at] = self.one(&EXTREMES),
                4 => {
                    let other: Vec<&str> = self.one(&corpus).split(' ').collect();
                    let from = self.below(other.len());
                    let count = 1 + self.below(4);
                    words.splice(at..at, other.iter().skip(from).take(count).copied());
                }
                _ => {
                    let other = self.below(words.len());
                    words.swap(at, other);
                }
            }
        }
        let mut statement = words.join(" ");
        if self.below(4) == 0 {
            let mut bytes = statement.into_bytes();
            for _ in 0..=self.below(3) {
                let at = self.below(bytes.len());
                bytes[at] = 1 + self.below(127) as u8;
            }
            statement = String::from_utf8_lossy(&bytes).into_owned();
        }
        statement
    }

    /// A client's messages, with some changed bytes.
    fn messages(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..1 + self.below(6) {
            let (tag, body) = self.message();
            bytes.push(tag);
            let length = body.len() as i32 + 4;
            let length = if self.below(40) == 0 { self.below(1 << 31) as i32 - 8 } else { length };
            bytes.extend(length.to_be_bytes());
            bytes.extend(body);
        }
        for _ in 0..self.below(3) {
            let at = self.below(bytes.len());
            bytes[at] = self.below(256) as u8;
        }
        let end = if self.below(4) == 0 { self.below(bytes.len()) } else { bytes.len() };
        bytes.truncate(end);
        bytes
    }

    fn message(&mut self) -> (u8, Vec<u8>) {
        let name = self.one(&["", "a", "b"]);
        let text = |parts: &[&str]| {
            parts.iter().flat_map(|part| [part.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>()
        };
        match self.below(11) {
            0 | 1 => (b'Q', text(&[&self.statement()])),
            2 | 3 => {
                let mut body = text(&[name, &self.statement()]);
                let count = self.below(3);
                body.extend((count as i16).to_be_bytes());
                (0..count).for_each(|_| body.extend((self.below(2000) as i32).to_be_bytes()));
                (b'P', body)
            }
            4 => {
                let mut body = text(&[name, self.one(&["", "a", "b"])]);
                body.extend([0, 1, 0, self.below(2) as u8]);
                let count = self.below(3);
                body.extend((count as i16).to_be_bytes());
                for _ in 0..count {
                    let value = self.one(&["1", "-7", "x", "\0\0\0\x07", "{1,2}", ""]);
                    body.extend((value.len() as i32).to_be_bytes());
                    body.extend(value.as_bytes());
                }
                body.extend([0, 1, 0, self.below(2) as u8]);
                (b'B', body)
            }
            5 => {
                let mut body = text(&[name]);
                body.extend((self.below(3) as i32).to_be_bytes());
                (b'E', body)
            }
            6 => (
                b"DC"[self.below(2)],
                [b"SP"[self.below(2)], name.as_bytes().first().map_or(0, |b| *b), 0].to_vec(),
            ),
            7 => (b'S', Vec::new()),
            8 => (b'Q', text(&["copy t from stdin"])),
            9 => {
                (b'd', self.one(&["1\t2\tx\t3\n", "\\.\n", "1\t\\N", "x\n\n"]).as_bytes().to_vec())
            }
            _ => (b"cfHSX"[self.below(5)], Vec::new()),
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Counts down the time of the database's clock.
struct Time {
    client: Client,
    until: f64,
}

impl Time {
    fn begin(fixture: &Fixture) -> Time {
        let mut time = Time { client: fixture.client(), until: 0.0 };
        time.until = time.now() + setting("ISOMER_FUZZ_SECONDS", 2) as f64;
        time
    }

    fn now(&mut self) -> f64 {
        let row =
            self.client.query_one("select extract(epoch from clock_timestamp())::float8", &[]);
        row.expect("the server answers").get(0)
    }

    fn is_over(&mut self) -> bool {
        self.now() > self.until
    }
}

/// A server with a running clock, two tables, and short statement time-outs.
fn fixture() -> Fixture {
    #[allow(clippy::disallowed_methods, reason = "how long to go on")]
    fn clock() -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_micros() as i64)
    }
    let settings = vec![("statement_timeout".to_owned(), "300ms".to_owned())];
    let statement_bytes_max = 16 << 20;
    let limited = ServerOptions { settings, clock, statement_bytes_max, ..options() };
    let fixture = Fixture::serve(Options::in_memory(3), limited);
    tables(&mut fixture.client());
    fixture
}

fn tables(client: &mut Client) {
    client
        .batch_execute(
            "create schema if not exists public;
             create table if not exists t (id int primary key, v int, name text, n numeric(12, 2));
             create table if not exists u (id int primary key, v int);
             create index if not exists t_v on t (v, name)",
        )
        .expect("tables");
}

#[test]
fn damaged_statements_are_refused_with_a_code() {
    let fixture = fixture();
    let mut time = Time::begin(&fixture);
    let mut chance = Chance(setting("ISOMER_SEED", 1));
    let mut client = fixture.client();
    let mut count = 0u64;
    while !time.is_over() {
        for _ in 0..200 {
            count += 1;
            let statement = chance.statement();
            // COPY into a table waits for data, which this client does not send.
            let done = if statement.contains("copy") || statement.contains('\0') {
                continue;
            } else if chance.below(3) == 0 {
                client.prepare(&statement).map(drop)
            } else {
                client.batch_execute(&statement)
            };
            let Err(error) = done else { continue };
            let code = error.code().map(|code| code.code().to_owned());
            assert!(code.as_deref().is_some_and(|code| code != "XX000"), "{error:?}: {statement}");
        }
        // Ends an open transaction, and recreates dropped tables.
        client.batch_execute("rollback").expect("an end");
        client = fixture.client();
        tables(&mut client);
    }
    eprintln!("{count} statements");
}

#[test]
fn damaged_messages_end_their_own_connection_only() {
    let fixture = fixture();
    let mut time = Time::begin(&fixture);
    let mut chance = Chance(setting("ISOMER_SEED", 1));
    let mut count = 0u64;
    while !time.is_over() {
        for _ in 0..50 {
            count += 1;
            let bytes = chance.messages();
            let mut stream =
                TcpStream::connect(fixture.server.address()).expect("the server listens");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
            stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
            // The server may close before it has read everything.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            if let Err(error) = stream.read_to_end(&mut answer) {
                let is_late = error.kind() == std::io::ErrorKind::WouldBlock;
                assert!(!is_late, "no answer to {}", bytes.escape_ascii());
            }
            let fault = answer.windows(5).any(|part| part == b"XX000");
            assert!(!fault, "{}\nto {}", answer.escape_ascii(), bytes.escape_ascii());
        }
        tables(&mut fixture.client());
    }
    eprintln!("{count} connections");
}
