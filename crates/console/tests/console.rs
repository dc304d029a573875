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
        let asked = engine.clone();
        let options = ConsoleOptions {
            listen,
            tls: None,
            server: server.address(),
            socket: Some(folder.path().to_owned()),
            figures: Arc::new(move || engine.figures()),
            trouble: Arc::new(|| None),
            loads: Arc::new(move || asked.loads()),
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
        "settings",
        "proposals",
        "heat",
        "history?relation=x&key=1",
        "statements",
        "locks",
        "audit",
        "failovers",
        "rights",
        "advice",
        "shard_keys",
        "gateways",
        "logs",
    ];
    for name in names {
        let answer = fixture.get(&format!("/api/ask/{name}"), &owner);
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        assert!(answer.body.contains("\"columns\":[\""), "{name}: {}", answer.body);
    }
    assert_eq!(fixture.get("/api/ask/pg_authid", &owner).status, 404);
    let done = fixture.post("/api/act", &owner, r#"{"action":"autopilot","mode":"recommend"}"#);
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(fixture.get("/api/ask/settings", &owner).body.contains("recommend"));
    let missing = r#"{"action":"reconfiguration","control":"pause","number":99}"#;
    let missing = fixture.post("/api/act", &owner, missing);
    assert_eq!(missing.status, 400, "{}", missing.body);
    assert!(missing.body.contains("99"), "the server says what is wrong: {}", missing.body);
    let nobody = fixture.post("/api/act", &owner, r#"{"action":"end_session","pid":999999}"#);
    assert!(nobody.status == 400 && nobody.body.contains("no such session"), "{}", nobody.body);
    let made = fixture.post("/api/act", &owner, r#"{"action":"checkpoint"}"#);
    assert_eq!(made.status, 200, "{}", made.body);
    let mut other = client(&fixture);
    let end =
        format!("select pg_terminate_backend({})", value(&mut other, "select pg_backend_pid()"));
    client(&fixture).batch_execute(&end).expect("it is a superuser");
    let trail = fixture.get("/api/ask/audit", &owner).body;
    for action in ["set autopilot", "pg_terminate_backend", "checkpoint"] {
        assert!(trail.contains(action), "{action}: {trail}");
    }
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
    let plan = format!(r#"{{"action":"propose","plan":"{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(fixture.post("/api/act", &owner, &plan).status, 413);
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

/// The names of metrics in a text: `isomer_` and what follows.
fn names(text: &str) -> std::collections::BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let found = text.match_indices("isomer_").filter(|(at, _)| !text[..*at].ends_with(is_part));
    let name = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    };
    found.map(name).collect()
}

/// Reads the exposition format: each line is a description, a sample of a described family, or
/// the end.
fn check_exposition(text: &str) {
    let (mut family, mut kind, mut described) = ("", "", std::collections::BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert_eq!(lines.peek(), None, "the end is the last line");
            return;
        }
        if let Some(of) = line.strip_prefix("# HELP ") {
            let (name, help) = of.split_once(' ').expect("a name and a help");
            assert!(help.ends_with('.'), "{line}");
            assert!(described.insert(name), "{name} is described once");
            continue;
        }
        if let Some(of) = line.strip_prefix("# TYPE ") {
            (family, kind) = of.split_once(' ').expect("a name and a kind");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("labels end")),
            None => (series, ""),
        };
        let suffix =
            name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_sum", "_count", "_bucket"],
            other => panic!("{other} is no kind"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once('=').expect("a label");
            assert!(!name.is_empty() && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
    }
    panic!("the text has no end");
}

#[test]
fn the_dashboard_and_the_alert_rules_name_figures_that_exist() {
    let fixture = Fixture::new();
    let port = fixture.server.address().port();
    let mut config = Client::configure();
    config.host_path(fixture._folder.path()).port(port).user("isomer").dbname("isomer");
    let mut client = config.connect(NoTls).expect("the socket lets its owner in");
    client.batch_execute("create table t (id int primary key)").expect("a table");
    client.batch_execute("insert into t values (1)").expect("a row");
    for statement in [
        "alter table t split at (5)",
        "alter table t split at (5)",
        "alter system reconfigure 'split t at 7'",
        "alter system set site_memory = '64MB'",
        "alter table t add replica on site 2",
        "checkpoint",
    ] {
        // Some are refused, which is counted as well.
        let _ = client.batch_execute(statement);
    }
    // A refused change of a strategy is counted like those that are made.
    let _ = client.batch_execute("alter table t merge at (99)");
    let mut scraped = String::new();
    // The share of a processor is known once a site was measured twice.
    for _ in 0..300 {
        scraped = fixture.get("/metrics", "").body;
        if scraped.contains("isomer_site_busy_ratio{") {
            break;
        }
        client.batch_execute("select pg_sleep(0.1)").expect("a pause");
    }
    check_exposition(&scraped);
    let refused = r#"isomer_design_changes_refused_total{kind="split",reason="unfit"}"#;
    assert!(scraped.contains(refused), "{scraped}");
    let mut known = names(&scraped);
    // Known once transactions were measured beside changes and without them.
    known.insert("isomer_design_change_added_p99_seconds");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring");
    for file in ["grafana.json", "alerts.yml"] {
        let text = std::fs::read_to_string(format!("{docs}/{file}")).expect("a file");
        let unknown: Vec<_> =
            names(&text).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}; there are {known:?}");
    }
}

#[test]
fn pages_are_whole_and_small() {
    let fixture = Fixture::new();
    let mut bytes = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/web")).expect("a folder") {
        let name = file.expect("a file").file_name().into_string().expect("a name");
        if name != "vendor" {
            let answer = fixture.get(&format!("/{name}"), "");
            assert_eq!(answer.status, 200, "{name}");
            bytes += answer.body.len();
        }
    }
    bytes += fixture.get("/uplot.js", "").body.len();
    assert!(bytes < 300_000, "{bytes}");
    for path in
        ["/nothing.js", "/..%2fCargo.toml", "/%2e%2e%2fsrc%2flib.rs", "/vendor%2fuPlot.LICENSE.x"]
    {
        assert_eq!(fixture.get(path, "").status, 404, "{path}");
    }
}

/// The rights of each kind of role at the console. The server decides.
#[test]
fn a_table_of_what_roles_may_do() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let port = fixture.server.address().port();
    let mut config = Client::configure();
    config.host_path(fixture._folder.path()).port(port).user("isomer").dbname("isomer");
    let mut client = config.connect(NoTls).expect("the socket lets its owner in");
    client
        .batch_execute(
            "create user steers password 'steers'; grant isomer_design to steers; create user looks password 'looks'; create table of_owner (id int primary key)",
        )
        .expect("users");
    let log_in = |name: &str| {
        let body = format!(r#"{{"user":"{name}","password":"{name}"}}"#);
        fixture.post("/api/login", "", &body).cookie().expect("a session")
    };
    let (steers, looks) = (log_in("steers"), log_in("looks"));
    // 200: done. 400: permitted, but there is nothing of this number. 403: not permitted.
    // Without a session all are 401.
    let table = [
        (r#"{"action":"autopilot","mode":"approve"}"#, [200, 200, 403]),
        (r#"{"action":"design_changes","on":false}"#, [200, 200, 403]),
        (r#"{"action":"design_changes","on":true}"#, [200, 200, 403]),
        (r#"{"action":"limit","name":"changes_per_minute","value":"7"}"#, [200, 200, 403]),
        (r#"{"action":"limit","name":"changes_per_minute","value":"few"}"#, [400, 400, 403]),
        (r#"{"action":"table_mode","relation":"of_owner","mode":"off"}"#, [200, 200, 403]),
        (r#"{"action":"table_mode","relation":"nothing","mode":"off"}"#, [400, 400, 400]),
        (r#"{"action":"approve","number":9}"#, [400, 400, 403]),
        (r#"{"action":"reject","number":9,"because":"it's late"}"#, [400, 400, 403]),
        (r#"{"action":"reconfiguration","control":"pause","number":9}"#, [400, 400, 403]),
        (r#"{"action":"reconfiguration","control":"resume","number":9}"#, [400, 400, 403]),
        (r#"{"action":"reconfiguration","control":"cancel","number":9}"#, [400, 400, 403]),
        (r#"{"action":"reconfiguration","control":"reverse","number":9}"#, [400, 400, 403]),
        (r#"{"action":"propose","plan":"split t at five"}"#, [400, 400, 403]),
        // The design does not permit it.
        (r#"{"action":"propose","plan":"merge of_owner at 5"}"#, [400, 400, 403]),
        (r#"{"action":"propose_shard_key","relation":"t","column":"x"}"#, [400, 400, 403]),
        // The server of this test cannot restart itself.
        (r#"{"action":"restart"}"#, [400, 403, 403]),
        (r#"{"action":"restart","process":"b"}"#, [400, 403, 403]),
        (r#"{"action":"drain","site":99}"#, [400, 400, 403]),
        (r#"{"action":"checkpoint"}"#, [200, 403, 403]),
        (r#"{"action":"cancel_statement","pid":999999}"#, [400, 400, 400]),
        (r#"{"action":"end_session","pid":999999}"#, [400, 400, 400]),
    ];
    for (body, wanted) in table {
        let found = [&owner, &steers, &looks].map(|who| fixture.post("/api/act", who, body).status);
        assert_eq!(found, wanted, "{body}");
        assert_eq!(fixture.post("/api/act", "", body).status, 401, "{body}");
    }
    let rows = |who: &str, name: &str| {
        let body = fixture.get(&format!("/api/ask/{name}"), who).body;
        !body.contains("\"rows\":[]")
    };
    for (name, wanted) in [
        ("sites", [true, true, true]),
        ("tables", [true, true, true]),
        ("sessions", [true, true, true]),
        ("metrics", [true, true, true]),
        ("statements", [true, true, false]),
        ("audit", [true, true, false]),
        ("processes", [true, true, true]),
    ] {
        assert_eq!([&owner, &steers, &looks].map(|who| rows(who, name)), wanted, "{name}");
    }
    // A session of another role can be ended only with the rights of that role.
    let other =
        client.query_one("select pg_backend_pid()", &[]).expect("a number").get::<_, i32>(0);
    let end = format!(r#"{{"action":"end_session","pid":{other}}}"#);
    assert_eq!(fixture.post("/api/act", &looks, &end).status, 403);
    assert_eq!(fixture.post("/api/act", &steers, &end).status, 403);
    let audit = fixture.get("/api/ask/audit", &owner).body;
    assert!(
        audit.contains("create user steers password ?") && !audit.contains("'steers'"),
        "{audit}"
    );
}

#[test]
fn hostile_requests_are_answered_with_an_error() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let long = "x".repeat(4000);
    for path in [
        "/api/ask/history?relation=%27%3B%20drop%20table%20t%3B--&key=%00".to_owned(),
        format!("/api/ask/partitions?relation={long}"),
        "/api/ask/decisions?limit=-1".to_owned(),
        "/api/ask/decisions?limit=99999999999999999999".to_owned(),
        "/api/ask/%2e%2e%2fact".to_owned(),
    ] {
        let status = fixture.get(&path, &owner).status;
        assert!((200..500).contains(&status), "{path}: {status}");
    }
    let name = owner.split('=').next().unwrap_or_default();
    let odd = ["", "../../x"].map(|value| format!("{name}={value}"));
    for cookie in [&*odd[0], &*odd[1], ";;;=;", long.as_str()] {
        assert_eq!(fixture.get("/api/ask/sites", cookie).status, 401, "{cookie}");
    }
    assert_eq!(fixture.get("/api/me", &owner).status, 200, "the session lives on");
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
fn viewers_beyond_the_limit_are_refused_and_those_that_stop_reading_hold_up_no_other() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let host = fixture.console.address();
    let request = format!("GET /api/live HTTP/1.1\r\nhost: {host}\r\ncookie: {owner}\r\n\r\n");
    let mut refused = 0;
    isomer_server::raise_limit();
    // None of them reads more than the status.
    let viewers: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = fixture.connect();
            stream.write_all(request.as_bytes()).expect("it is read");
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("a status");
            refused += usize::from(status.ends_with(b"503"));
            stream
        })
        .collect();
    assert_eq!(refused, 1000 - 256);
    assert_eq!(fixture.get("/api/ask/sites", &owner).status, 200);
    drop(viewers);
}

#[test]
fn addresses_that_other_machines_reach_are_refused() {
    let fixture = Fixture::new();
    let options = ConsoleOptions {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        tls: None,
        server: fixture.server.address(),
        socket: None,
        figures: Arc::new(Vec::new),
        trouble: Arc::new(|| None),
        loads: Arc::new(Vec::new),
        clock,
        random,
    };
    let Err(refused) = Console::start(options) else { panic!("other machines would reach it") };
    let refused = refused.to_string();
    assert!(refused.contains("0.0.0.0:0") && refused.contains("127.0.0.1"), "{refused}");
}

/// A connection to the server as the owner.
fn client(fixture: &Fixture) -> Client {
    let port = fixture.server.address().port();
    let mut config = Client::configure();
    config.host_path(fixture._folder.path()).port(port).user("isomer").dbname("isomer");
    config.connect(NoTls).expect("the socket lets its owner in")
}

/// The first value of a query.
fn value(client: &mut Client, sql: &str) -> String {
    let messages = client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = messages.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_default()
}

/// Asks until the first value of a query is the wanted one.
fn until(client: &mut Client, sql: &str, wanted: &str) {
    for _ in 0..600 {
        if value(client, sql) == wanted {
            return;
        }
        client.batch_execute("select pg_sleep(0.1)").expect("a pause");
    }
    panic!("{sql} is {} and not {wanted}", value(client, sql));
}

#[test]
fn advice_becomes_a_proposal_that_says_what_it_brought() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let mut client = client(&fixture);
    client
        .batch_execute(
            "create table pairs (id int primary key, owner int not null, v int); \
             insert into pairs select n, n % 1000, 0 from generate_series(1, 2000) n",
        )
        .expect("a table");
    client.batch_execute("alter table pairs split at (1001)").expect("a split");
    client.batch_execute("alter table pairs remaster at (1001) to site 2").expect("a move");
    let advice = fixture.get("/api/ask/advice", &owner).body;
    assert!(advice.contains("\"rows\":[]"), "little is no ground: {advice}");
    let run = |client: &mut Client, times: u32| {
        for at in 0..times {
            let (one, other) = (at % 40 + 1, at % 40 + 1001);
            let both = format!(
                "begin; update pairs set v = v + 1 where id = {one}; \
                 update pairs set v = v + 1 where id = {other}; end"
            );
            client.batch_execute(&both).expect("it commits");
        }
    };
    run(&mut client, 400);
    let across = "select round(across_percent) from isomer.advice limit 1";
    assert_eq!(value(&mut client, across), "100");
    // Both rows of a pair have the same owner, which would be a better key than the id.
    let best = "select \"column\" from isomer.shard_keys where relation = 'pairs' limit 1";
    assert_eq!(value(&mut client, best), "owner");
    let keys = fixture.get("/api/ask/shard_keys", &owner).body;
    assert!(keys.contains("SHARD BY (owner)"), "{keys}");

    let of_metis = "from isomer.advice where planner = 'metis'";
    let after = value(&mut client, &format!("select across_percent_after {of_metis}"));
    assert!(after.parse::<f64>().is_ok_and(|percent| percent < 20.0), "{after}");
    let plan = value(&mut client, &format!("select plan {of_metis}"));
    let quoted = plan.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let propose = format!(r#"{{"action":"propose","plan":"{quoted}","because":"it's advice"}}"#);
    let proposed = fixture.post("/api/act", &owner, &propose);
    assert_eq!(proposed.status, 200, "{}", proposed.body);
    let twice = fixture.post("/api/act", &owner, &propose);
    assert!(twice.status == 400 && twice.body.contains("proposal 1"), "{}", twice.body);
    let by = "select proposed_by || ': ' || state from isomer.proposals";
    assert_eq!(value(&mut client, by), "isomer: proposed");
    let none = "select count(*) from isomer.changes where reason like '%metis%'";
    assert_eq!(value(&mut client, none), "0", "nothing moves before it is approved");
    // A second is measured when it is over.
    run(&mut client, 400);
    client.batch_execute("select pg_sleep(1.1)").expect("a pause");
    let approve = r#"{"action":"approve","number":1}"#;
    let approved = fixture.post("/api/act", &owner, approve);
    assert_eq!(approved.status, 200, "{}", approved.body);
    until(&mut client, "select state from isomer.proposals where number = 1", "done");
    // The second of the last change belongs to neither side.
    client.batch_execute("select pg_sleep(1.1)").expect("a pause");
    let brought = "select before_at_one_site_percent < 50 and after_at_one_site_percent > 80 \
         and after_transactions > 20 and after_mean_us > 0 from isomer.proposals where number = 1";
    // A loaded machine samples fewer transactions.
    let has_brought = (0..200).any(|_| {
        run(&mut client, 100);
        client.batch_execute("select pg_sleep(0.1)").expect("a pause");
        value(&mut client, brought) == "t"
    });
    assert!(has_brought, "{}", fixture.get("/api/ask/proposals", &owner).body);

    // Another shard key waits for approval as well, and is then a job of the server.
    let propose = r#"{"action":"propose_shard_key","relation":"pairs","column":"owner"}"#;
    let proposed = fixture.post("/api/act", &owner, propose);
    assert_eq!(proposed.status, 200, "{}", proposed.body);
    let shard_by = "select coalesce(shard_by, '') from isomer.tables where name = 'pairs'";
    assert_eq!(value(&mut client, shard_by), "");
    let approve = r#"{"action":"approve","number":2}"#;
    assert_eq!(fixture.post("/api/act", &owner, approve).status, 200);
    until(&mut client, "select state from isomer.proposals where number = 2", "done");
    assert_eq!(value(&mut client, shard_by), "owner");
    let again = fixture.post("/api/act", &owner, propose);
    assert!(again.status == 400 && again.body.contains("already"), "{}", again.body);
    run(&mut client, 10);
}

#[test]
fn a_proposal_is_refused_when_the_design_has_changed_meanwhile() {
    let fixture = Fixture::new();
    let owner = fixture.owner();
    let mut client = client(&fixture);
    client.batch_execute("create table t (id int primary key)").expect("a table");
    let propose = r#"{"action":"propose","plan":"split t at 5","because":"it grows"}"#;
    assert_eq!(fixture.post("/api/act", &owner, propose).status, 200);
    client.batch_execute("alter table t split at (5)").expect("a split");
    let approved = fixture.post("/api/act", &owner, r#"{"action":"approve","number":1}"#);
    assert_eq!(approved.status, 400, "{}", approved.body);
    assert!(approved.body.contains("on the design as it is"), "{}", approved.body);
    let shown = fixture.get("/api/ask/proposals", &owner).body;
    assert!(shown.contains("refused"), "{shown}");
}

#[test]
fn statements_over_several_sites_name_the_rows_because_of_which() {
    let fixture = Fixture::new();
    let mut client = client(&fixture);
    client.batch_execute("create table t (id int primary key, v int)").expect("a table");
    client.batch_execute("insert into t values (1, 0), (900, 0)").expect("rows");
    client.batch_execute("alter table t split at (500)").expect("a split");
    client.batch_execute("alter table t remaster at (500) to site 2").expect("a move");
    client.batch_execute("update t set v = 1").expect("it commits");
    client.batch_execute("update t set v = 2 where id = 1").expect("it commits");
    let across = "select across from isomer.all_statements where query = 'update t set v = ?'";
    assert_eq!(value(&mut client, across), "t[1] at s1, t[900] at s2");
    let alone = "select coalesce(across, 'none') from isomer.all_statements \
                 where query = 'update t set v = ? where id = ?'";
    assert_eq!(value(&mut client, alone), "none");
}

/// Accepts the certificate of the test.
fn tls_client(certificate: rustls::pki_types::CertificateDer<'static>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[test]
fn at_other_addresses_the_console_is_encrypted() {
    let fixture = Fixture::new();
    let folder = TempDir::new().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["shop.example".to_owned()]).expect("a certificate");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&cert, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let private = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&key, private).expect("a mode");
    let options = ConsoleOptions {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        tls: Some(isomer_server::Tls::open(&cert, &key).expect("a certificate")),
        server: fixture.server.address(),
        socket: Some(fixture._folder.path().to_owned()),
        figures: Arc::new(Vec::new),
        trouble: Arc::new(|| None),
        loads: Arc::new(Vec::new),
        clock,
        random,
    };
    let console = Console::start(options).expect("a free port");
    let link = console.link();
    assert!(link.starts_with("https://127.0.0.1:"), "{link}");
    let port = console.address().port();
    let tls = Arc::new(tls_client(made.cert.der().clone()));
    let send = |request: &str| {
        let name = "shop.example".try_into().expect("a name");
        let mut session = rustls::ClientConnection::new(tls.clone(), name).expect("a client");
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut answer = Vec::new();
        // The server may close the socket without a last word of TLS.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("a text")
    };
    // A client that says nothing delays no other.
    let silent = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let path = &link[link.find("/?").expect("a token")..];
    let entered = send(&format!(
        "GET {path} HTTP/1.1\r\nhost: shop.example:{port}\r\nconnection: close\r\n\r\n"
    ));
    assert!(entered.starts_with("HTTP/1.1 303"), "{entered}");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.expect("a session");
    assert!(cookie.contains("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a name");
    let act = |origin: &str| {
        let body = r#"{"action":"checkpoint"}"#;
        send(&format!(
            "POST /api/act HTTP/1.1\r\nhost: shop.example:{port}\r\ncookie: {cookie}\r\norigin: {origin}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    };
    let done = act(&format!("https://shop.example:{port}"));
    assert!(done.starts_with("HTTP/1.1 200"), "{done}");
    for origin in [format!("http://shop.example:{port}"), "https://evil.example".to_owned()] {
        assert!(act(&origin).starts_with("HTTP/1.1 403"), "{origin}");
    }
    // Without encryption there is no answer.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer);
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    drop(silent);
}
