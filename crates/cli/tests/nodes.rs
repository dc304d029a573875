//! A cluster of three processes: transfers go on while a node is killed and starts again, and the process with the
//! router is.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod run;

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use run::isomer;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what has to come: many times what a slow machine needs.
const LIMIT: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(20);

const ACCOUNTS: i64 = 300;
const START: i64 = 100;

/// The processes: the one that serves has site 1, each node one of the others.
const PROCESSES: [(&str, u16); 3] = [("a", 1), ("b", 2), ("c", 3)];

struct Cluster {
    folder: PathBuf,
    processes: Mutex<Vec<Option<Child>>>,
}

#[track_caller]
fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(LOOK);
    }
}

impl Cluster {
    /// A cluster whose file has these keys, besides its processes. None of them runs yet.
    fn new(folder: &Path, keys: &str) -> Cluster {
        let listeners = PROCESSES.map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let mut text = format!("{keys}\n");
        for ((name, site), listener) in PROCESSES.iter().zip(&listeners) {
            let address = listener.local_addr().expect("it has an address");
            let router = *site == 1;
            text += &format!(
                "[[process]]\nname = \"{name}\"\naddress = \"{address}\"\nsites = [{site}]\nrouter = {router}\n"
            );
        }
        std::fs::write(folder.join("cluster.toml"), text).expect("a file");
        let processes = Mutex::new(PROCESSES.map(|_| None).into());
        Cluster { folder: folder.to_owned(), processes }
    }

    fn config(&self) -> String {
        self.folder.join("cluster.toml").display().to_string()
    }

    /// Starts a process; does not wait until it is there.
    fn start(&self, at: usize) {
        let (name, _) = PROCESSES[at];
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command.arg(if at == 0 { "serve" } else { "node" });
        command.args(["--config", &self.config(), "--name", name, "--data"]);
        command.arg(self.folder.join(name));
        if at == 0 {
            command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        } else {
            command.stdout(Stdio::null());
        }
        let mut child = command.spawn().expect("the program starts");
        if let Some(said) = child.stdout.take() {
            self.hear(said);
        }
        self.processes.lock().expect("nobody panics with it")[at] = Some(child);
    }

    /// It says where it listens once all are there.
    fn hear(&self, said: std::process::ChildStdout) {
        let file = self.folder.join("port");
        let _ = std::fs::remove_file(&file);
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(said).read_line(&mut line);
            let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(':').next());
            let _ = port.map(|port| std::fs::write(file, port));
        });
    }

    fn kill(&self, at: usize) {
        let child = self.processes.lock().expect("nobody panics with it")[at].take();
        let mut child = child.expect("it runs");
        child.kill().expect("it runs until it is killed");
        child.wait().expect("it was killed");
    }

    /// Waits until all processes reach each other.
    fn until_whole(&self) {
        wait_for("all reach all", || {
            isomer(&["cluster", "status", "--config", &self.config()]).code == 0
        });
    }

    /// A connection, as soon as there is one.
    fn client(&self) -> Client {
        let mut client = None;
        wait_for("a connection", || {
            client = self.try_client();
            client.is_some()
        });
        client.expect("it was waited for")
    }

    fn try_client(&self) -> Option<Client> {
        let port = std::fs::read_to_string(self.folder.join("port")).ok()?.parse().ok()?;
        let mut config = Config::new();
        config.host_path(self.folder.join("a")).port(port).user("isomer").dbname("isomer");
        config.connect(NoTls).ok()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.processes.lock().expect("nobody panicked with it").iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A hundred accounts at each site, which transfers move; and for each node a row that stays there.
fn accounts(cluster: &Cluster) {
    let mut client = cluster.client();
    client
        .batch_execute(&format!(
            "create table accounts (id int primary key, balance int not null);
             create table journal (id bigint generated by default as identity primary key, client int, amount int);
             insert into accounts select n, {START} from generate_series(0, {}) n;
             alter table accounts split at (100);
             alter table accounts split at (200);
             alter table accounts remaster at (100) to site 2;
             alter table accounts remaster at (200) to site 3;
             create table stays (site int primary key, v int not null);
             insert into stays values (2, 0), (3, 0);
             alter table stays split at (3);
             alter table stays remaster at (2) to site 2;
             alter table stays remaster at (3) to site 3",
            ACCOUNTS - 1
        ))
        .expect("a table at three sites");
}

/// What became of a transfer.
enum Became {
    Committed,
    /// The error says that nothing was written.
    Refused,
    Unknown,
}

fn transfer(client: &mut Client, name: i32, from: i64, to: i64, amount: i32) -> Became {
    let done = client.batch_execute(&format!(
        "begin; update accounts set balance = balance - {amount} where id = {from};
         update accounts set balance = balance + {amount} where id = {to};
         insert into journal (client, amount) values ({name}, {amount}); commit"
    ));
    let Err(error) = done else { return Became::Committed };
    let code = error.code().cloned();
    let _ = client.batch_execute("rollback");
    match code {
        Some(code) if code == SqlState::TRANSACTION_RESOLUTION_UNKNOWN => Became::Unknown,
        Some(code)
            // Two transfers the other way round may wait for each other.
            if [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::CANNOT_CONNECT_NOW,
            ]
            .contains(&code) =>
        {
            Became::Refused
        }
        // The process that serves was killed.
        None => Became::Unknown,
        Some(code) if code == SqlState::ADMIN_SHUTDOWN => Became::Unknown,
        Some(code) => panic!("{from} to {to}: {code:?}: {error}"),
    }
}

/// Transfers go on at three sites until it is told to stop. Says what each client knows to have committed.
fn work(cluster: &Cluster, name: i32, stop: &AtomicBool, commits: &AtomicU64) -> (i64, i64) {
    let (mut client, mut at, mut committed, mut unknown) = (cluster.client(), name, 0, 0);
    while !stop.load(Ordering::SeqCst) {
        at = at.wrapping_mul(48_271).rem_euclid(i32::MAX);
        let from = i64::from(at) % ACCOUNTS;
        let to = (from + 1 + i64::from(at / 1000) % (ACCOUNTS - 1)) % ACCOUNTS;
        match transfer(&mut client, name, from, to, at % 10) {
            Became::Committed => {
                committed += 1;
                commits.fetch_add(1, Ordering::SeqCst);
            }
            Became::Refused => {}
            Became::Unknown => unknown += 1,
        }
        if client.is_closed() {
            let mut again = None;
            wait_for("a connection", || {
                again = cluster.try_client();
                again.is_some() || stop.load(Ordering::SeqCst)
            });
            let Some(again) = again else { break };
            client = again;
        }
    }
    (committed, unknown)
}

/// All money is there, and each acknowledged transfer is in the journal.
fn check(cluster: &Cluster, worked: &[(i32, (i64, i64))]) {
    let mut client = cluster.client();
    let sum = client.query_one("select sum(balance), count(*) from accounts", &[]);
    let sum = sum.expect("all sites are there");
    assert_eq!((sum.get::<_, i64>(0), sum.get::<_, i64>(1)), (ACCOUNTS * START, ACCOUNTS));
    for (name, (committed, unknown)) in worked {
        let counted = client.query_one("select count(*) from journal where client = $1", &[name]);
        let counted: i64 = counted.expect("all sites are there").get(0);
        let possible = *committed..=committed + unknown;
        assert!(possible.contains(&counted), "client {name}: {counted}, not one of {possible:?}");
    }
}

/// Clients work while something happens to processes.
fn while_working(cluster: &Cluster, trouble: impl FnOnce(&dyn Fn(u64))) {
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let worked: Vec<(i32, (i64, i64))> = std::thread::scope(|scope| {
        struct End<'s>(&'s AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (stop, commits) = (&stop, &commits);
        let end = End(stop);
        let clients: Vec<_> = (1..=3)
            .map(|name| (name, scope.spawn(move || work(cluster, name, stop, commits))))
            .collect();
        let more = |more: u64| {
            let goal = commits.load(Ordering::SeqCst) + more;
            wait_for("commits", || commits.load(Ordering::SeqCst) >= goal);
        };
        trouble(&more);
        drop(end);
        clients.into_iter().map(|(name, client)| (name, client.join().expect("no panic"))).collect()
    });
    eprintln!("{worked:?}");
    check(cluster, &worked);
}

#[test]
fn a_node_that_is_killed_comes_back_with_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "node_wait_seconds = 1");
    // The one that serves comes first, and waits.
    cluster.start(0);
    let status = isomer(&["cluster", "status", "--config", &cluster.config(), "--wait", "1"]);
    assert_eq!(status.code, 1, "{}{}", status.out, status.err);
    assert!(status.out.contains("no answer"), "{}", status.out);
    cluster.start(1);
    cluster.start(2);
    accounts(&cluster);
    cluster.until_whole();
    while_working(&cluster, |more| {
        for node in [1, 2] {
            more(30);
            cluster.kill(node);
            // What is not there goes on.
            let mut client = cluster.client();
            let (site, other) = if node == 1 { (2, 3) } else { (3, 2) };
            client
                .batch_execute(&format!("update stays set v = v + 1 where site = {other}"))
                .expect("its site is at another node");
            let gone = format!("update stays set v = v + 1 where site = {site}");
            let refused = client.batch_execute(&gone).expect_err("its site is gone");
            assert_eq!(refused.code(), Some(&SqlState::CANNOT_CONNECT_NOW), "{refused}");
            let refused = refused.as_db_error().expect("it is the server's");
            let (name, _) = PROCESSES[node];
            assert!(refused.message().contains(&format!("node {name} at 127.0.0.1:")), "{refused}");
            let shown =
                client.query("select site from isomer.sites where health like 'unreach%'", &[]);
            assert_eq!(shown.expect("the view is there").len(), 1);
            cluster.start(node);
            cluster.until_whole();
            more(30);
        }
    });
}

#[test]
fn the_process_that_serves_is_killed_and_finds_the_design_at_the_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    accounts(&cluster);
    while_working(&cluster, |more| {
        for _ in 0..2 {
            more(30);
            cluster.kill(0);
            cluster.start(0);
            more(30);
        }
        // All at once.
        (0..3).for_each(|at| cluster.kill(at));
        (0..3).rev().for_each(|at| cluster.start(at));
        more(30);
    });
    let mut client = cluster.client();
    let masters = client.query(
        "select master from isomer.partitions where relation = 'stays' order by first_key",
        &[],
    );
    let masters = masters.expect("the view is there");
    let masters: Vec<&str> = masters.iter().map(|row| row.get(0)).collect();
    assert_eq!(masters, ["s2", "s3"]);
}

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    drop(cluster.client());
    // A node's folder is no database, and a database that has lost its folder does not take the nodes.
    cluster.kill(1);
    let node = folder.path().join("b").display().to_string();
    let refused = isomer(&["serve", "--data", &node, "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(
        refused.err.contains("is the folder of a node, and not of a database"),
        "{}",
        refused.err
    );
    let config = cluster.config();
    let unknown = isomer(&["node", "--config", &config, "--name", "d", "--data", &node]);
    assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.contains("there is no process named `d` in the file, but: a, b, c"));
    let router = isomer(&["node", "--config", &config, "--name", "a", "--data", &node]);
    assert!(router.err.contains("the file says that `a` is started by `isomer serve`"));
    let open = ["--node-listen", "0.0.0.0:0"];
    let open = isomer(
        &[&["node", "--config", &config, "--name", "b", "--data", &node], &open[..]].concat(),
    );
    assert!(open.err.contains("--trust-network"), "{}", open.err);
    // A node that begins with nothing where the database has had rows.
    std::fs::remove_dir_all(&node).expect("it is there");
    cluster.start(1);
    let why = "begins with nothing, and the database has had rows at its sites s2";
    cluster.kill(0);
    let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
    serve.args(["serve", "--config", &config, "--listen", "127.0.0.1:0", "--data"]);
    let mut serve =
        serve.arg(folder.path().join("a")).stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(serve.stderr.take().expect("it is piped"));
    let found = said.lines().map_while(Result::ok).find(|line| line.contains(why));
    let _ = serve.kill();
    let _ = serve.wait();
    assert!(found.is_some());
}
