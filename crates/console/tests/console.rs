//! The console over HTTP, against a server with two sites: log-in, pages and actions, by rights.

use isomer_cluster::Options;
use isomer_console::{Console, ConsoleOptions};
use isomer_server::{Decider, Engine, Server, ServerOptions, Trust};
use postgres::{Client, NoTls};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tempfile::TempDir;

fn clock() -> i64 {
    1_700_000_000_000_000
}

/// Different bytes at each call, so that secrets differ.
fn random(bytes: &mut [u8]) {
    use std::sync::atomic::{AtomicU8, Ordering};
    static NEXT: AtomicU8 = AtomicU8::new(1);
    bytes.fill(NEXT.fetch_add(1, Ordering::Relaxed));
}

struct Fixture {
    console: Console,
    server: Server,
    _folder: TempDir,
}

/// The status, the headers in lower case, and the body of an answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn cookie(&self) -> Option<String> {
        let line = self.head.lines().find(|line| line.starts_with("set-cookie: "))?;
        line["set-cookie: ".len()..].split(';').next().map(str::to_owned)
    }
}

impl Fixture {
    fn new() -> Fixture {
        let folder = TempDir::new().expect("a folder");
        let options = Options::in_folder(folder.path(), 2);
        let engine = Engine::open(options, Decider::default(), None).expect("a catalog");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let options =
            ServerOptions { trust: Trust::Owner, ..ServerOptions::new(listen, clock, random) };
        let mut server = Server::start(engine.clone(), options).expect("a free port");
        server.listen_in(folder.path()).expect("a socket");
        let options = ConsoleOptions {
            listen,
            server: server.address(),
            socket: Some(folder.path().to_owned()),
            figures: Arc::new(move || engine.figures()),
            clock,
            random,
        };
        let console = Console::start(options).expect("a free port");
        Fixture { console, server, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.console.address()).expect("the console listens")
    }

    /// Sends a request; `more` are further headers, each with its line end.
    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let host = self.console.address();
        let host =
            if more.contains("host: ") { String::new() } else { format!("host: {host}\r\n") };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}{more}content-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str, cookie: &str) -> Answer {
        self.send("GET", path, &format!("cookie: {cookie}\r\n"), "")
    }

    fn post(&self, path: &str, cookie: &str, body: &str) -> Answer {
        self.send("POST", path, &format!("cookie: {cookie}\r\n"), body)
    }

    /// Follows the link of the start; returns the cookie of the owner's session.
    fn owner(&self) -> String {
        let link = self.console.link();
        let path = &link[link.find("/?").expect("a token")..];
        let entered = self.get(path, "");
        assert_eq!(entered.status, 303, "{}", entered.body);
        assert!(entered.head.contains("httponly; samesite=strict"), "{}", entered.head);
        entered.cookie().expect("a session")
    }
}

#[test]
fn the_link_of_the_start_works_once_and_other_visitors_need_a_password() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/api/ask/sites", "").status, 401);
    assert_eq!(fixture.get("/api/live", "").status, 401);
    let owner = fixture.owner();
    assert!(fixture.get("/api/me", &owner).body.contains("\"isomer\""));
    let link = fixture.console.link();
    let again = fixture.get(&link[link.find("/?").expect("a token")..], "");
    assert_eq!((again.status, again.cookie()), (303, None), "the token is spent");

    let port = fixture.server.address().port();
    let mut config = Client::configure();
    config.host_path(fixture._folder.path()).port(port).user("isomer").dbname("isomer");
    let mut client = config.connect(NoTls).expect("the socket lets its owner in");
    client.batch_execute("create user ann password 'a good one'").expect("a user");
    let wrong = fixture.post("/api/login", "", r#"{"user":"ann","password":"guessed"}"#);
    assert_eq!((wrong.status, wrong.cookie()), (401, None), "{}", wrong.body);
    let right = fixture.post("/api/login", "", r#"{"user":"ann","password":"a good one"}"#);
    let ann = right.cookie().expect("a session");
    assert_eq!(fixture.get("/api/ask/sites", &ann).status, 200);
    let refused = fixture.post("/api/act", &ann, r#"{"action":"autopilot","mode":"auto"}"#);
    assert_eq!(refused.status, 403, "the server's rights hold: {}", refused.body);
    fixture.post("/api/logout", &ann, "{}");
    assert_eq!(fixture.get("/api/me", &ann).status, 401);
}

#[test]
fn questions_are_answered_and_actions_are_carried_out() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let names = [
        "sites",
        "checkpoints",
        "tables",
        "placements",
        "partitions?relation=x",
        "decisions",
        "benefit",
        "changes",
        "jobs",
        "reconfigurations",
        "sessions",
        "metrics",
        "autopilot",
    ];
    for name in names {
        let answer = fixture.get(&format!("/api/ask/{name}"), &owner);
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        assert!(answer.body.contains("\"columns\":[\""), "{name}: {}", answer.body);
    }
    assert_eq!(fixture.get("/api/ask/pg_authid", &owner).status, 404);
    let done = fixture.post("/api/act", &owner, r#"{"action":"autopilot","mode":"recommend"}"#);
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(fixture.get("/api/ask/autopilot", &owner).body.contains("recommend"));
    let missing = r#"{"action":"reconfiguration","control":"pause","number":99}"#;
    let missing = fixture.post("/api/act", &owner, missing);
    assert_eq!(missing.status, 400, "{}", missing.body);
    assert!(missing.body.contains("99"), "the server says what is wrong: {}", missing.body);
    assert_eq!(fixture.post("/api/act", &owner, r#"{"action":"drop"}"#).status, 422);
}

#[test]
fn requests_of_other_origins_and_for_other_hosts_are_refused() {
    let fixture = Fixture::new();
    let elsewhere = fixture.send("GET", "/", "host: evil.example\r\n", "");
    assert_eq!(elsewhere.status, 421, "{}", elsewhere.body);
    let owner = fixture.owner();
    let headers = format!("cookie: {owner}\r\norigin: http://evil.example\r\n");
    let body = r#"{"action":"checkpoint"}"#;
    assert_eq!(fixture.send("POST", "/api/act", &headers, body).status, 403);
    let page = fixture.get("/", "");
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{}", page.head);
    assert!(page.body.contains("<title>Isomer</title>"));
    let long = format!(r#"{{"user":"{}","password":""}}"#, "x".repeat(20_000));
    assert_eq!(fixture.post("/api/login", "", &long).status, 413);
}

#[test]
fn metrics_and_health_need_no_log_in() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    fixture.get("/api/ask/sites", &owner);
    let scraped = fixture.get("/metrics", "");
    assert!(scraped.head.contains("application/openmetrics-text"), "{}", scraped.head);
    for line in [
        "# TYPE isomer_commits counter",
        "isomer_commits_total{site=\"s1\",kind=\"local\"} ",
        "isomer_site_up{site=\"s2\"} 1",
        "# TYPE isomer_statement_duration_seconds histogram",
    ] {
        assert!(scraped.body.contains(line), "{line} is missing in {}", scraped.body);
    }
    assert!(scraped.body.trim_end().ends_with("# EOF"), "{}", scraped.body);
    assert_eq!(fixture.get("/health", "").status, 200);
    assert_eq!(fixture.get("/ready", "").status, 200);
}

#[test]
fn a_page_gets_the_last_hour_first_and_then_samples() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let mut stream = fixture.connect();
    let host = fixture.console.address();
    let request = format!("GET /api/live HTTP/1.1\r\nhost: {host}\r\ncookie: {owner}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut seen = String::new();
    let mut part = [0; 4096];
    while !seen.contains("event: sample") {
        let read = stream.read(&mut part).expect("a stream");
        assert!(read > 0, "it ended: {seen}");
        seen += &String::from_utf8_lossy(&part[..read]);
    }
    let history = seen.find("event: history").expect("the history");
    assert!(history < seen.find("event: sample").expect("a sample"), "{seen}");
}

#[test]
fn addresses_that_other_machines_reach_are_refused() {
    let fixture = Fixture::new();
    let options = ConsoleOptions {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        server: fixture.server.address(),
        socket: None,
        figures: Arc::new(Vec::new),
        clock,
        random,
    };
    let Err(refused) = Console::start(options) else { panic!("other machines would reach it") };
    let refused = refused.to_string();
    assert!(refused.contains("0.0.0.0:0") && refused.contains("127.0.0.1"), "{refused}");
}
