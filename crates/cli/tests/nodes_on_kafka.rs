//! A cluster of three processes with their logs at a real broker. Nodes restart on other machines,
//! and the last process that opens a site owns it.

#![cfg(feature = "kafka")]
#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

#[path = "../../kafka/tests/broker/process.rs"]
mod broker;
mod cluster;
mod run;

use broker::{Broker, ports};
use cluster::bank::{accounts, while_working};
use cluster::up::{Ended, Up, client_at, clients_of, pid_of};
use cluster::{Cluster, PROCESSES, wait_for};
use run::isomer;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Three processes with their logs at a broker, whose statements wait up to `node_wait_seconds` for
/// a missing node.
fn started(folder: &Path, broker: &Broker, topic: &str, node_wait_seconds: u32) -> Cluster {
    let log = broker.address(topic);
    let keys = format!("log = \"{log}\"\nnode_wait_seconds = {node_wait_seconds}");
    let cluster = Cluster::new(folder, &keys);
    // A node waits until there is a database.
    (0..3).rev().for_each(|at| cluster.start(at));
    accounts(&cluster);
    cluster.until_whole();
    cluster
}

fn status(cluster: &Cluster) -> String {
    isomer(&["cluster", "status", "--config", &cluster.config()]).out
}

/// An ordered table with a row at each process, and the number of commits that have changed all
/// rows. The order is in a topic of its own.
struct Counted<'c> {
    cluster: &'c Cluster,
    commits: i32,
}

impl Counted<'_> {
    fn begin(cluster: &Cluster) -> Counted<'_> {
        let made =
            "create table counted (id int primary key, v int not null) with (isolation = ordered);
                    insert into counted values (1, 0), (2, 0), (3, 0);
                    alter table counted split at (2);
                    alter table counted split at (3);
                    alter table counted remaster at (2) to site 2;
                    alter table counted remaster at (3) to site 3";
        cluster.client().batch_execute(made).expect("an ordered table at three sites");
        Counted { cluster, commits: 0 }
    }

    /// Commits once more, and checks that no commit was lost.
    fn more(&mut self) {
        let mut client = self.cluster.client();
        client.batch_execute("update counted set v = v + 1").expect("an ordered commit");
        self.commits += 1;
        let rows = client.query("select v from counted", &[]).expect("it is read");
        let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(found, [self.commits; 3]);
    }
}

#[test]
fn processes_that_are_killed_come_back_where_they_were_or_in_empty_folders() {
    let Some(broker) = Broker::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = started(folder.path(), &broker, "shop", 60);
    let shown = status(&cluster);
    for (name, site) in PROCESSES {
        let line = shown.lines().find(|line| line.starts_with(&format!("s{site} ")));
        let line = line.unwrap_or_else(|| panic!("site {site} is missing: {shown}"));
        assert!(line.contains(&format!("{name}, process ")), "{shown}");
    }
    let mut counted = Counted::begin(&cluster);
    while_working(&cluster, |more| {
        more(30);
        counted.more();
        cluster.kill(1);
        cluster.start(1);
        counted.more();
        more(30);
        cluster.kill(2);
        cluster.move_away(2);
        cluster.start(2);
        cluster.until_whole();
        more(30);
        counted.more();
        cluster.kill(0);
        cluster.move_away(0);
        cluster.start(0);
        more(30);
        counted.more();
        // All at once, and all in new folders except the one with the router.
        (0..3).for_each(|at| cluster.kill(at));
        (1..3).for_each(|at| cluster.move_away(at));
        (0..3).for_each(|at| cluster.start(at));
        more(30);
    });
    counted.more();
}

/// The first offset of each site's log; `None` if the brokers did not answer in time.
fn first_offsets(cluster: &Cluster) -> Vec<Option<u64>> {
    let shown = status(cluster);
    let of = |site: u16| {
        let line = shown.lines().find(|line| line.starts_with(&format!("s{site} ")));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
    };
    PROCESSES.iter().map(|(_, site)| of(*site)).collect()
}

#[test]
fn with_checkpoints_in_an_object_store_a_process_goes_on_without_its_folder() {
    let Some(broker) = Broker::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    let (log, shared) = (broker.address("objects"), shared.display());
    let keys =
        format!("log = \"{log}\"\ncheckpoints = \"file://{shared}\"\nnode_wait_seconds = 60");
    // Frequent checkpoints, of short logs.
    let often = ["--checkpoint-log-mb", "1", "--checkpoint-seconds", "1"];
    let cluster = Cluster::new(folder.path(), &keys).with_flags(&often);
    (0..3).rev().for_each(|at| cluster.start(at));
    accounts(&cluster);
    cluster.until_whole();
    let mut client = cluster.client();
    client
        .batch_execute(
            "create table big (id int primary key, v text not null) with (backups = 0);
             insert into big select n, repeat('x', 1000) from generate_series(0, 2999) n;
             alter table big split at (1000);
             alter table big split at (2000);
             alter table big remaster at (1000) to site 2;
             alter table big remaster at (2000) to site 3;
             update big set v = repeat('y', 1000)",
        )
        .expect("rows at three sites");
    drop(client);
    wait_for("logs that were cut", || first_offsets(&cluster).iter().all(|first| *first > Some(0)));
    // Without the store, the logs begin too late.
    let alone = folder.path().join("alone.toml");
    let text = std::fs::read_to_string(cluster.config()).expect("it is there");
    let text = text.lines().filter(|line| !line.starts_with("checkpoints"));
    std::fs::write(&alone, text.collect::<Vec<_>>().join("\n")).expect("a file");
    let (alone, empty) = (alone.display().to_string(), folder.path().join("empty"));
    let node =
        ["node", "--config", &alone, "--name", "c", "--node-listen", "127.0.0.1:0", "--data"];
    let refused = isomer(&[&node[..], &[&empty.display().to_string()]].concat());
    assert!(refused.code != 0 && refused.err.contains("the object store"), "{}", refused.err);
    let lose = |at: usize| {
        cluster.kill(at);
        std::fs::remove_dir_all(cluster.data(at)).expect("its folder");
        cluster.move_away(at);
        cluster.start(at);
    };
    while_working(&cluster, |more| {
        for at in [2, 0, 1] {
            more(30);
            lose(at);
            cluster.until_whole();
        }
        more(30);
    });
    let counted = cluster.client().query_one("select count(*) from big where v like 'y%'", &[]);
    assert_eq!(counted.expect("all sites are there").get::<_, i64>(0), 3000);
}

/// A second process with a node's name, beside the first.
fn second(cluster: &Cluster, at: usize) -> Child {
    let (name, _) = PROCESSES[at];
    let mut node = Command::new(env!("CARGO_BIN_EXE_isomer"));
    node.args(["node", "--config", &cluster.config(), "--name", name]);
    node.args(["--node-listen", "127.0.0.1:0", "--data"]);
    node.arg(cluster.data(at).with_extension("second")).stderr(Stdio::piped());
    node.stdout(Stdio::null()).spawn().expect("the program starts")
}

#[test]
fn the_last_process_that_opens_a_log_stops_its_previous_owner_only() {
    let Some(broker) = Broker::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = started(folder.path(), &broker, "taken", 5);
    // One row is written continuously, so the autopilot would move it to another process.
    cluster.keep_design();
    let mut client = cluster.client();
    let mut write = |site: u16| {
        client.batch_execute(&format!("update stays set v = v + 1 where site = {site}"))
    };
    write(2).expect("node b is there");
    write(3).expect("node c is there");
    let taker = second(&cluster, 2);
    let mut written = 0;
    // A statement in flight waits for the node as long as any other.
    wait_for("a refusal", || match write(3) {
        Ok(()) => {
            written += 1;
            false
        }
        Err(_) => true,
    });
    let ended = cluster.ended(2);
    assert!(!ended.success(), "its sites are another process's: {ended}");
    write(2).expect("no process has taken over node b's sites");
    let owner = format!("c, process {} ", taker.id());
    assert!(status(&cluster).contains(&owner), "{}", status(&cluster));
    // A restart at the node's address takes the site back.
    cluster.start(2);
    cluster.until_whole();
    let said = stopped(taker);
    assert!(said.contains("another process has site s3 now"), "{said}");
    let mut client = cluster.client();
    let counted = client.query_one("select v from stays where site = 3", &[]);
    let counted: i32 = counted.expect("node c is there").get(0);
    // The refused write may have taken effect.
    assert!((1 + written..=2 + written).contains(&counted), "{counted}, and {written} were told");
}

/// The messages of a process that ends by itself.
fn stopped(mut process: Child) -> String {
    assert!(!process.wait().expect("it can be waited for").success());
    let mut said = String::new();
    let heard = process.stderr.take().expect("it is piped").read_to_string(&mut said);
    heard.expect("it has said something");
    said
}

#[test]
fn mismatches_are_refused_by_name_and_take_over_no_log() {
    let Some(broker) = Broker::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = started(folder.path(), &broker, "named", 60);
    let config = cluster.config();
    let refused = |args: &[&str]| {
        let ended = isomer(args);
        assert_ne!(ended.code, 0, "{}", ended.out);
        ended.err
    };
    let empty = folder.path().join("empty").display().to_string();
    let node = ["node", "--config", &config, "--name", "c", "--data"];
    let listen = ["--node-listen", "127.0.0.1:0"];
    // The option is given twice.
    let log = ["--log", "kafka://127.0.0.1:1/other"];
    let said = refused(&[&node[..], &[&empty], &log].concat());
    assert!(said.contains("the file says that the logs are at kafka://"), "{said}");
    let checkpoints = ["--checkpoints", "gs://shop"];
    let said = refused(&[&node[..], &[&empty], &checkpoints].concat());
    assert!(said.contains("file:///shared/shop"), "{said}");
    let said = refused(&["serve", "--data", &empty, "--checkpoints", "file:///tmp"]);
    assert!(said.contains("nothing says where those are (--log)"), "{said}");
    // The folder of another running process of the cluster, and that of a database with its logs in
    // files.
    let of_b = cluster.data(1).display().to_string();
    let said = refused(&[&node[..], &[&of_b], &listen].concat());
    assert!(said.contains("in use"), "{said}");
    // A folder of another database.
    std::fs::create_dir(&empty).expect("a folder");
    let marker = "# An Isomer database whose logs are elsewhere, format 1\nplace kafka://x:1/y\ndatabase 7\n";
    std::fs::write(Path::new(&empty).join("logs"), marker).expect("a file");
    let said = refused(&[&node[..], &[&empty], &listen].concat());
    assert!(said.contains("belongs to database 00000000000000000000000000000007"), "{said}");
    // No broker answers.
    let away = folder.path().join("away.toml");
    let text = std::fs::read_to_string(&config).expect("it is there");
    let text = text.replace(&broker.address("named"), "kafka://127.0.0.1:1/named");
    std::fs::write(&away, text).expect("a file");
    let away = away.display().to_string();
    let said = refused(&["node", "--config", &away, "--name", "c", "--data", &of_b]);
    assert!(said.contains("no broker of 127.0.0.1:1 answers"), "{said}");
    // None of it affects the running processes.
    let mut client = cluster.client();
    client.batch_execute("update stays set v = v + 1").expect("all sites are there");
}

/// Runs a client program of PostgreSQL; `None` without one, which is reported.
fn client_of(program: &str, port: u16, args: &[&str]) -> Option<String> {
    let port = port.to_string();
    let mut client = Command::new(program);
    client.args(["-h", "127.0.0.1", "-p", &port, "-U", "isomer"]).args(args).arg("isomer");
    match client.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("there is no {program}: that part is passed over");
            None
        }
        ended => {
            let ended = ended.expect("the program starts");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{program} at port {port}: {said}");
            Some(String::from_utf8(ended.stdout).expect("it writes text"))
        }
    }
}

/// psql and pgbench, at each process.
fn clients_are_served_at_each_of(ports: &[u16]) {
    assert_eq!(ports.len(), 3);
    client_of("pgbench", ports[2], &["-i", "-q", "-s", "1"]);
    for port in ports {
        let counted = client_of("psql", *port, &["-Atc", "select count(*) from t"]);
        assert!(counted.is_none_or(|counted| counted == "3\n"));
        let ran = client_of("pgbench", *port, &["-n", "-c", "2", "-t", "20"]);
        assert!(ran.is_none_or(|ran| ran.contains("transactions actually processed: 40/40")));
    }
}

#[test]
fn one_command_starts_a_broker_and_three_processes_and_goes_on_with_them_later() {
    if !Broker::is_to_be_had() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let up = Up::start(folder.path(), &["--kafka", "--trust", "loopback"]);
    let mut client = up.client(folder.path());
    client
        .batch_execute(
            "create table t (a int primary key); insert into t values (1), (2), (3);
             alter table t split at (2); alter table t remaster at (2) to site 3",
        )
        .expect("rows at two processes");
    let config = folder.path().join("cluster.toml").display().to_string();
    let mut shown = String::new();
    wait_for("all reach all", || {
        let status = isomer(&["cluster", "status", "--config", &config]);
        shown = status.out;
        status.code == 0
    });
    let owners = ["1 broker", "serve, process ", "node1, process ", "node2, process "];
    assert!(owners.iter().all(|owner| shown.contains(owner)), "{shown}");
    drop(client);
    clients_are_served_at_each_of(&clients_of(&config));
    up.stop();

    let up = Up::start(folder.path(), &[]);
    let mut client = up.client(folder.path());
    let counted = client.query_one("select count(*) from t", &[]).expect("all sites are there");
    assert_eq!(counted.get::<_, i64>(0), 3);
    up.stop();
}

#[test]
fn when_the_serving_process_is_killed_another_one_serves_and_no_commit_is_lost() {
    if Broker::is_to_be_had() {
        kill_two_that_serve(&["--kafka"]);
    }
}

#[test]
fn so_it_is_with_logs_at_the_nodes() {
    kill_two_that_serve(&[]);
}

/// Kills the process that serves a cluster of three, twice; each comes back and stands by.
fn kill_two_that_serve(logs: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let more = ["--trust", "loopback", "--when-one-ends", "leave"];
    let up = Up::start(folder.path(), &[logs, &more].concat());
    let config = folder.path().join("cluster.toml").display().to_string();
    let ports = clients_of(&config);
    let mut client = client_at(ports[0]).expect("it serves");
    client
        .batch_execute(
            "create table safe (a int primary key, b int);
             create table alone (a int primary key) with (backups = 0); insert into alone values (1);
             insert into safe select g, 0 from generate_series(1, 100) g;
             alter table safe split at (50); alter table safe remaster at (50) to site 2",
        )
        .expect("rows at two processes");
    let (mut written, mut back) = (0, Vec::new());
    for name in ["serve", "node1"] {
        for _ in 0..20 {
            client.execute("update safe set b = b + 1 where a in (7, 70)", &[]).expect("an update");
            written += 1;
        }
        let killed = Command::new("kill").args(["-9", &pid_of(name, &config)]).status();
        assert!(killed.expect("kill is there").success());
        let sums = "select sum(b)::int, count(*)::int from safe";
        let mut found = None;
        wait_for("another process serves", || {
            let next = client_at(ports[2]);
            found = next.and_then(|mut next| Some((next.query_one(sums, &[]).ok()?, next)));
            found.is_some()
        });
        let (row, next) = found.expect("it was waited for");
        assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (2 * written, 100), "{name}");
        client = next;
        // The process comes back, stands by, and has what it alone has.
        let mut again = Command::new(env!("CARGO_BIN_EXE_isomer"));
        again.args(["serve", "--name", name, "--config", &config, "--trust", "loopback", "--data"]);
        let again = again.arg(folder.path().join(name)).stdout(Stdio::null()).spawn();
        back.push(Ended(again.expect("the program starts")));
        wait_for("it stands by", || {
            let status = isomer(&["cluster", "status", "--config", &config]);
            let line = status.out.lines().find(|line| line.starts_with(name));
            line.is_some_and(|line| line.contains("stands by") && line.trim().ends_with("ok"))
        });
        wait_for("its rows are there again", || client.query("select * from alone", &[]).is_ok());
        // So that the next one may be killed.
        wait_for("all rows have backups", || {
            let lacking = "select value from isomer.metrics where name = 'isomer_backups_missing'";
            client.query_one(lacking, &[]).is_ok_and(|row| row.get::<_, f64>(0) == 0.0)
        });
    }
    drop((back, up));
}
