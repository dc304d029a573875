//! `isomer serve` as a process: the state that survives a restart, and access to its socket and
//! folder.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod run;

use postgres::{Client, Config, NoTls};
use run::isomer;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time limit of waits in tests: many times what a slow machine needs.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

fn now() -> Instant {
    Instant::now()
}

/// A server with its own port and folder.
struct Served {
    child: Child,
    port: u16,
    data: PathBuf,
}

impl Served {
    fn start(data: &Path, more: &[&str]) -> Served {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
        serve
            .args(["serve", "--listen", "127.0.0.1:0", "--no-sync", "--data"])
            .arg(data)
            .args(more);
        Served::of(serve, data)
    }

    fn of(mut serve: Command, data: &Path) -> Served {
        let mut child = serve.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).expect("it says where it listens");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(':').next());
        let port = port.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("it says another thing: {line:?}"));
        Served { child, port, data: data.to_owned() }
    }

    /// Connects over the Unix socket, as the server's user.
    fn client(&self) -> Client {
        let mut config = Config::new();
        config.host_path(&self.data).port(self.port).user("isomer").dbname("isomer");
        config.connect(NoTls).expect("the server's user may connect")
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").arg(&id).status().expect("kill is there");
        assert!(killed.success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each line of the log has its time. Without the settings, connections are of level debug.
#[test]
fn connections_are_logged_on_request_and_refused_passwords_always() {
    for (is_on, level) in [(true, "info"), (false, "info"), (false, "debug")] {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, log) = (folder.path().join("shop"), folder.path().join("log"));
        let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--no-sync", "--data"]).arg(&data);
        let on = if is_on { "on" } else { "off" };
        serve.args(["--log-level", level, "--set", &format!("log_connections={on}")]);
        serve.args(["--set", &format!("log_disconnections={on}")]);
        serve.stderr(std::fs::File::create(&log).expect("a file"));
        let served = Served::of(serve, &data);
        let mut client = served.client();
        client.batch_execute("create user ada password 'a'").expect("a user");
        let over_tcp = |password: &str| {
            let mut config = Config::new();
            config.host("127.0.0.1").port(served.port).user("ada").dbname("isomer");
            config.password(password).application_name("till").connect(NoTls)
        };
        let mut ada = over_tcp("a").expect("it is the right password");
        let process: i32 = ada.query_one("select pg_backend_pid()", &[]).expect("a row").get(0);
        assert!(over_tcp("b").is_err(), "it is a wrong password");
        drop(ada);
        served.stop();
        let said = std::fs::read_to_string(&log).expect("the log");
        let of = |what: &str| said.lines().find(|line| line.contains(what)).map(str::to_owned);
        let shown = if is_on { "INFO" } else { "DEBUG" };
        let of_ada = |event: &str| {
            let event = format!(" {shown} {event} ");
            let is_it = |line: &&str| line.contains(&event) && line.contains(" user=\"ada\"");
            said.lines().find(is_it).map(str::to_owned)
        };
        let (connected, gone) = (of_ada("connection authorized"), of_ada("disconnection"));
        let is_told = is_on || level == "debug";
        assert_eq!(said.contains("connection received from=\"127.0.0.1:"), is_told, "{said}");
        assert_eq!([connected.is_some(), gone.is_some()], [is_told; 2], "{said}");
        let process = format!(" process={process} ");
        for part in ["database=\"isomer\"", "from=\"127.0.0.1:", &process] {
            let lines = connected.iter().chain(&gone);
            assert!(lines.into_iter().all(|line| line.contains(part)), "{part}: {said}");
        }
        assert!(connected.iter().all(|line| line.contains("application=\"till\"")), "{said}");
        assert!(gone.iter().all(|line| line.contains(" duration_ms=")), "{said}");
        let refused = of(" WARN log-in was refused ").expect("it is logged");
        assert!(refused.contains("password authentication failed for user"), "{refused}");
        for line in connected.iter().chain(&gone).chain([&refused]) {
            let time = line.split(' ').next().expect("a word");
            assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        }
    }
}

/// Slow statements are logged by shape, with the sites of their commits. No line has a password or
/// a value.
#[test]
fn the_log_is_json_on_request_and_has_no_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, log) = (folder.path().join("shop"), folder.path().join("log"));
    let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
    serve.args(["serve", "--listen", "127.0.0.1:0", "--no-sync", "--sites", "2", "--data"]);
    serve.arg(&data).args(["--log-format", "json", "--set", "log_min_duration_statement=0"]);
    serve.args(["--set", "log_connections=on", "--http", "127.0.0.1:0"]);
    serve.stderr(std::fs::File::create(&log).expect("a file"));
    let served = Served::of(serve, &data);
    let mut client = served.client();
    client.batch_execute("create user ada password 'hidden1'").expect("a user");
    client.batch_execute("create table t (id int primary key, v text)").expect("a table");
    client.execute("insert into t values (1, 'hidden2')", &[]).expect("a row");
    client.execute("insert into t values (2, $1)", &[&"hidden3"]).expect("a row");
    client.batch_execute("begin; select 1; end").expect("a block");
    let mut config = Config::new();
    config.host("127.0.0.1").port(served.port).user("ada").dbname("isomer").password("hidden4");
    assert!(config.connect(NoTls).is_err(), "it is a wrong password");
    drop(client);
    served.stop();
    let said = std::fs::read_to_string(&log).expect("the log");
    assert!(!said.contains("hidden") && !said.contains("token="), "{said}");
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let lines: Vec<serde_json::Value> = said.lines().map(line).collect();
    for line in &lines {
        let time = line["time"].as_str().expect("a time");
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(line["message"].is_string() && line["fields"].is_object(), "{line}");
    }
    let of = |message: &str, field: &str, value: &str| {
        let is = |line: &&serde_json::Value| {
            line["message"] == message && line["fields"][field].as_str() == Some(value)
        };
        let found = lines.iter().find(is);
        found.unwrap_or_else(|| panic!("no line \"{message}\" with {field} = {value}: {said}"))
    };
    let refused = of("log-in was refused", "user", "ada");
    assert_eq!(
        (&refused["level"], &refused["fields"]["database"]),
        (&"WARN".into(), &"isomer".into())
    );
    let slow = of("slow statement", "statement", "insert into t values (?, ?)");
    let has_route = |line: &&serde_json::Value| {
        line["fields"]["statement"] == slow["fields"]["statement"]
            && line["fields"]["route"].is_string()
    };
    let slow = lines.iter().find(has_route).unwrap_or_else(|| panic!("no route: {said}"));
    assert_eq!((&slow["level"], &slow["fields"]["user"]), (&"INFO".into(), &"isomer".into()));
    assert!(slow["fields"]["duration_ms"].as_f64().expect("a duration") >= 0.0, "{slow}");
    let route = slow["fields"]["route"].as_str().expect("it has committed");
    assert!(route.starts_with("at s"), "{slow}");
    let reads = of("slow statement", "statement", "begin; select ?; end");
    assert!(reads["fields"]["route"].is_null(), "{reads}");
    of("connection authorized", "user", "isomer");
}

#[test]
fn tcp_requires_a_password_and_the_folder_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("shop");
    let served = Served::start(&data, &[]);
    let mut client = served.client();
    client.batch_execute("create user ada password 'a'").expect("a user");
    let over_tcp = |password: &str| {
        let port = served.port;
        let config =
            format!("host=127.0.0.1 port={port} user=ada password='{password}' dbname=isomer");
        Client::connect(&config, NoTls)
    };
    over_tcp("a").expect("it is the password");
    assert!(over_tcp("b").is_err());
    let mut folders = vec![data.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file = path.symlink_metadata().expect("it is there");
            assert_eq!(file.permissions().mode() & 0o077, 0, "{}", path.display());
            if file.is_dir() {
                folders.push(path);
            }
        }
    }
    drop(client);
    served.stop();

    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).expect("a mode");
    let data = data.display().to_string();
    let refused = isomer(&["serve", "--data", &data, "--listen", "127.0.0.1:0"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
    assert!(refused.err.contains(&format!("chmod -R go= {data}")), "{}", refused.err);
}

/// Decisions of the autopilot survive the server, and later ones continue their numbers.
#[test]
fn decisions_of_the_autopilot_survive_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("shop");
    let served = Served::start(&data, &["--sites", "2", "--autopilot", "auto"]);
    let mut client = served.client();
    client
        .batch_execute(
            "create table pairs (id int primary key, balance int default 0);
             insert into pairs select n, 100 from generate_series(1, 1000) n;
             alter table pairs split at (501);
             alter table pairs remaster at (501) to site 2",
        )
        .expect("a table of two parts");
    let done = AtomicBool::new(false);
    let decided = "select count(*) from isomer.decisions where outcome like 'made%'";
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (served, done) = (&served, &done);
            scope.spawn(move || {
                let mut client = served.client();
                for round in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let id = worker * 5 + round % 5 + 1;
                    // A change of the design may come between; then the next row is tried.
                    let _ = client.batch_execute(&format!(
                        "begin; update pairs set balance = balance - 1 where id = {id};
                         update pairs set balance = balance + 1 where id = {}; commit",
                        id + 500
                    ));
                }
            });
        }
        let begun = now();
        let mut count = || client.query_one(decided, &[]).map_or(0, |row| row.get::<_, i64>(0));
        while count() == 0 && begun.elapsed() < LIMIT {
            std::thread::sleep(LOOK);
        }
        done.store(true, Ordering::Relaxed);
        assert!(count() > 0, "the autopilot has not decided anything within {LIMIT:?}");
    });
    drop(client);
    served.stop();

    let why = |args: &[&str]| {
        let data = data.display().to_string();
        let ended = isomer(&[&["why"], args, &["--data", &data]].concat());
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.out
    };
    let model = why(&["model"]);
    assert!(!model.is_empty());
    let told = (1..=20).chain(501..=520).map(|id: i32| why(&["pairs", &id.to_string()]));
    let told: Vec<String> = told.collect();
    assert!(told.iter().any(|told| !told.contains("no decision")), "{told:?}");

    // A restarted server saves them again when it ends.
    Served::start(&data, &[]).stop();
    let told = (1..=20).chain(501..=520).map(|id: i32| why(&["pairs", &id.to_string()]));
    assert!(told.into_iter().any(|told| !told.contains("no decision")), "it was forgotten");

    // The learned costs are in the folder, wherever the redo logs are; the design is not.
    let logs =
        "# An Isomer database whose logs are elsewhere, format 1\nplace nodes\ndatabase 1f\n";
    std::fs::write(data.join("logs"), logs).expect("a file");
    assert!(!why(&["model"]).is_empty());
    let ended = isomer(&["why", "pairs", "1", "--data", &data.display().to_string()]);
    assert!(ended.code != 0 && ended.err.contains("isomer.decisions"), "{}", ended.err);
}

/// The memory of a process that is no file, in kB.
#[cfg(target_os = "linux")]
fn memory_kb(child: &Child) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("Linux");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// An idle session has less than 200 kB, and gives it back at its end.
#[test]
#[cfg(target_os = "linux")]
fn idle_sessions_give_their_memory_back() {
    const SESSIONS: i64 = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(&folder.path().join("shop"), &["--autopilot", "off"]);
    let mut first = served.client();
    first
        .batch_execute(
            "create table t (id int primary key, n int); insert into t select g, 0 from generate_series(0, 99) g",
        )
        .expect("a table");
    let update = "update t set n = n + 1 where id = $1";
    first.execute(update, &[&0]).expect("a row");
    let until = |limit: i64| {
        let late = now() + LIMIT;
        while memory_kb(&served.child) > limit {
            assert!(now() < late, "{} kB, more than {limit}", memory_kb(&served.child));
            std::thread::sleep(LOOK);
        }
    };
    // The first session rests as the others do.
    std::thread::sleep(Duration::from_secs(2));
    let before = memory_kb(&served.child);
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| served.client()).collect();
    for (session, id) in sessions.iter_mut().zip(0_i32..) {
        assert_eq!(session.execute(update, &[&id]).expect("a row"), 1);
    }
    until(before + 200 * SESSIONS);
    for (session, id) in sessions.iter_mut().zip(0_i32..) {
        assert_eq!(session.execute(update, &[&id]).expect("a row"), 1);
    }
    drop(sessions);
    until(before + 80 * SESSIONS);
}
