//! A cluster of three processes: transfers continue while a node, or the process with the router,
//! is killed and restarts.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
mod run;

use cluster::bank::{accounts, while_working};
use cluster::{Cluster, PROCESSES, wait_for};
use postgres::Client;
use postgres::error::SqlState;
use run::isomer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_node_that_is_killed_comes_back_with_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "node_wait_seconds = 1");
    // The gateway starts first, and waits.
    cluster.start(0);
    let status = isomer(&["cluster", "status", "--config", &cluster.config(), "--wait", "1"]);
    assert_eq!(status.code, 1, "{}{}", status.out, status.err);
    assert!(status.out.contains("no answer"), "{}", status.out);
    cluster.start(1);
    cluster.start(2);
    cluster.keep_design();
    accounts(&cluster);
    cluster.until_whole();
    while_working(&cluster, |more| {
        for node in [1, 2] {
            more(30);
            cluster.kill(node);
            // Statements without the missing site continue.
            let mut client = cluster.client();
            let (site, other) = if node == 1 { (2, 3) } else { (3, 2) };
            client
                .batch_execute(&format!("update stays set v = v + 1 where site = {other}"))
                .expect("its site is at another node");
            let gone = format!("update stays set v = v + 1 where site = {site}");
            let refused = client.batch_execute(&gone).expect_err("its site is down");
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

/// A node runs no SQL, as the logs are in files. It forwards browsers like other clients.
#[test]
fn the_console_is_reached_through_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "node_wait_seconds = 1");
    let held = [(); 2].map(|()| ports::free_port(ports::LOOPBACK).expect("a free port"));
    let consoles = held.each_ref().map(|port| port.local_addr().expect("an address").to_string());
    let mut text = std::fs::read_to_string(cluster.config()).expect("a file");
    for (name, http) in ["a", "b"].iter().zip(&consoles) {
        let process = format!("name = \"{name}\"\n");
        text = text.replace(&process, &format!("{process}http = \"{http}\"\n"));
    }
    std::fs::write(cluster.config(), text).expect("it can be written");
    drop(held);
    cluster.start(1);
    let ready = || {
        let Ok(mut stream) = TcpStream::connect(&consoles[1]) else { return String::new() };
        let host = &consoles[1];
        let request = format!("GET /ready HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    wait_for("the node says that nothing serves", || ready().starts_with("HTTP/1.1 503"));
    cluster.start(0);
    cluster.start(2);
    wait_for("the console is ready", || ready().starts_with("HTTP/1.1 200"));
}

/// Tables with backups do not wait for a failed node: their rows are written elsewhere meanwhile.
#[test]
fn others_take_over_from_a_node_that_is_killed_and_it_becomes_a_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    // Statements wait longer than a takeover takes, so none is refused because of the failed node.
    let cluster = Cluster::new(folder.path(), "failover_seconds = 1\nnode_wait_seconds = 120");
    (0..3).for_each(|at| cluster.start(at));
    accounts(&cluster);
    let mut client = cluster.client();
    for table in ["accounts", "journal", "stays"] {
        client
            .batch_execute(&format!("alter table {table} set (backups = 1)"))
            .expect("there are sites for them");
    }
    let masters = |client: &mut Client, site: &str| -> i64 {
        let of = "select count(*) from isomer.partitions where master = $1";
        client.query_one(of, &[&site]).expect("the view is there").get(0)
    };
    let lacking = || -> i64 {
        let few = "select count(*) from isomer.partitions where replicas = '' and relation in ('accounts', 'journal', 'stays')";
        cluster.client().query_one(few, &[]).expect("the view is there").get(0)
    };
    while_working(&cluster, |more| {
        for node in [1, 2] {
            more(30);
            cluster.kill(node);
            let (_, site) = PROCESSES[node];
            client
                .batch_execute(&format!("update stays set v = v + 1 where site = {site}"))
                .expect("others take over");
            // The autopilot may have moved that row before.
            wait_for("others have taken over", || masters(&mut client, &format!("s{site}")) == 0);
            more(30);
            cluster.start(node);
            cluster.until_whole();
            wait_for("each partition has a backup again", || lacking() == 0);
            more(30);
        }
    });
}

/// Masters of a table at sites 1 to 6, two per process, each with the sites of its replicas.
fn placements(client: &mut Client) -> Vec<(u16, Vec<u16>)> {
    let of = "select master, replicas from isomer.partitions where relation = 'spread' order by first_key";
    let site = |name: &str| name.trim_start_matches('s').parse().expect("a site's name");
    let rows = client.query(of, &[]).expect("the view is there");
    let placed = rows.iter().map(|row| {
        let replicas: &str = row.get(1);
        (site(row.get(0)), replicas.split_whitespace().map(site).collect())
    });
    placed.collect()
}

/// The number of processes with a backup, without the master's.
fn processes_besides((master, replicas): &(u16, Vec<u16>)) -> usize {
    let process = |site: u16| (site - 1) / 2;
    let mut others: Vec<u16> = replicas.iter().map(|site| process(*site)).collect();
    others.retain(|other| *other != process(*master));
    others.sort_unstable();
    others.dedup();
    others.len()
}

/// Each process has two sites, as in docs/three-nodes.md and in the files of `isomer cluster up`.
#[test]
fn the_sites_of_a_process_and_of_two_are_taken_over_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = "failover_seconds = 1\nnode_wait_seconds = 120";
    let cluster = Cluster::with_sites(folder.path(), keys, 2);
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    let mut client = cluster.client();
    client
        .batch_execute(
            "create table spread (id int primary key, v int not null) with (backups = 0);
             insert into spread select n, 0 from generate_series(1, 6) n;",
        )
        .expect("a table");
    for site in 2..=6 {
        let split = format!(
            "alter table spread split at ({site}); alter table spread remaster at ({site}) to site {site}"
        );
        client.batch_execute(&split).expect("there is the site");
    }
    let are_backed = |client: &mut Client, count: usize| {
        let placed = placements(client);
        placed.len() == 6 && placed.iter().all(|placed| processes_besides(placed) >= count)
    };
    let mut written = 0;
    let cases: [(usize, &[usize]); 3] = [(1, &[1]), (1, &[2]), (2, &[1, 2])];
    for (backups, lost) in cases {
        // A site that has just come back is refused until it knows what it has missed.
        let alter = format!("alter table spread set (backups = {backups})");
        wait_for("there are sites for them", || client.batch_execute(&alter).is_ok());
        assert!(are_backed(&mut client, backups), "{:?}", placements(&mut client));
        lost.iter().for_each(|at| cluster.kill(*at));
        // An update at all sites waits until others have taken over from all failed ones.
        client.batch_execute("update spread set v = v + 1").expect("others take over");
        written += 1;
        let is_left = |site: &u16| lost.iter().all(|at| (usize::from(*site) - 1) / 2 != *at);
        wait_for("others have taken over", || {
            placements(&mut client).iter().all(|(master, _)| is_left(master))
        });
        lost.iter().for_each(|at| cluster.start(*at));
        cluster.until_whole();
        wait_for("backups are at other processes again", || are_backed(&mut client, backups));
        wait_for("all sites are members", || {
            let away = "select count(*) from isomer.sites where health not like 'ok%'";
            client.query_one(away, &[]).expect("sites").get::<_, i64>(0) == 0
        });
        let sum: i64 =
            client.query_one("select sum(v) from spread", &[]).expect("it is there").get(0);
        assert_eq!(sum, 6 * written);
    }
}

/// The rows are newer than the start of the gateway, which knows their sites all the same.
#[test]
fn a_node_that_lost_its_folder_is_let_in_once_others_have_all_that_it_had() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "failover_seconds = 1\nnode_wait_seconds = 1");
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    accounts(&cluster);
    let mut client = cluster.client();
    for statement in [
        "alter table accounts set (backups = 1)",
        "alter table stays set (backups = 1)",
        "create table alone (id int primary key) with (backups = 0)",
        "insert into alone select n from generate_series(1, 1000) n",
        "alter table alone split at (1)",
        "alter table alone remaster at (1) to site 2",
    ] {
        client.batch_execute(statement).expect("a table without backups at a node");
    }
    cluster.kill(1);
    std::fs::remove_dir_all(cluster.data(1)).expect("it was there");
    cluster.start(1);
    let health = |client: &mut Client| -> String {
        let of = "select health from isomer.sites where site = 's2'";
        client.query_one(of, &[]).expect("the view is there").get(0)
    };
    wait_for("the node is refused", || health(&mut client).contains("begins with nothing"));
    // Tables with backups continue.
    wait_for("others have taken over", || {
        client.batch_execute("update stays set v = v + 1").is_ok()
    });
    let lost = client.query_one("select count(*) from alone", &[]).expect_err("its rows are lost");
    assert_eq!(lost.code(), Some(&SqlState::CANNOT_CONNECT_NOW), "{lost}");
    client.batch_execute("drop table alone").expect("its site need not be there");
    cluster.until_whole();
    let backed = "select count(*) from isomer.partitions where replicas = '' and relation in ('accounts', 'stays')";
    wait_for("the node is a backup again", || {
        client.query_one(backed, &[]).expect("the view is there").get::<_, i64>(0) == 0
    });
    let sum: i64 = client.query_one("select sum(balance) from accounts", &[]).expect("all").get(0);
    assert_eq!(sum, 300 * 100);
}

/// A cluster's tables are in the catalog of the gateway process. Without that folder it reports an
/// error and ends.
#[test]
fn a_new_folder_for_the_process_that_serves_is_refused_where_nodes_belong_to_a_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    drop(cluster.client());
    cluster.kill(0);
    let (config, data) = (cluster.config(), folder.path().join("new").display().to_string());
    for flags in [&[][..], &["--accept-loss"]] {
        let serve = ["serve", "--config", &config, "--listen", "127.0.0.1:0", "--data", &data];
        let refused = isomer(&[&serve, flags].concat());
        assert_eq!(refused.code, 1, "{}", refused.out);
        assert!(refused.err.contains("belongs to the cluster"), "{}", refused.err);
        assert!(refused.err.contains("start it with the folder that it had"), "{}", refused.err);
    }
    cluster.start(0);
    drop(cluster.client());
}

#[test]
fn a_process_that_is_asked_to_end_waits_for_no_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    accounts(&cluster);
    // From now on it executes nothing, although its connections are open.
    cluster.signal(1, "STOP");
    let mut client = cluster.client();
    let plan = "alter system reconfigure 'add_replica accounts[] s2'";
    client.batch_execute(plan).expect("it is carried out beside the clients");
    cluster.signal(0, "TERM");
    assert!(cluster.ended(0).success());
    // The gateway waits for all nodes, and then for none.
    cluster.start(0);
    cluster.signal(0, "TERM");
    cluster.ended(0);
    cluster.signal(1, "CONT");
    cluster.start(0);
    cluster.until_whole();
    drop(cluster.client());
}

#[test]
fn the_process_that_serves_is_killed_and_finds_the_design_at_the_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
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
fn mismatches_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), "");
    (0..3).for_each(|at| cluster.start(at));
    drop(cluster.client());
    // A node's folder is no database, and a database that has lost its folder does not accept the
    // nodes.
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
    // A node with an empty folder, at a site where the database has had rows.
    std::fs::remove_dir_all(&node).expect("it is there");
    cluster.start(1);
    let why = "begins with nothing, and the database has rows at its sites s2";
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

/// `isomer cluster up` continues when one of its processes ends, and restarts it.
#[test]
fn a_cluster_of_one_command_goes_on_when_a_process_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut up = Command::new(env!("CARGO_BIN_EXE_isomer"));
    up.args(["cluster", "up", "--nodes", "2", "--sites", "1", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut up = up.spawn().expect("the program starts");
    let mut said = BufReader::new(up.stdout.take().expect("it is piped")).lines();
    let serves = said.by_ref().map_while(Result::ok).any(|line| line.starts_with("isomer serves"));
    assert!(serves);
    std::thread::spawn(move || said.map_while(Result::ok).for_each(drop));
    let config = folder.path().join("cluster.toml").display().to_string();
    let is_whole = || isomer(&["cluster", "status", "--config", &config, "--wait", "1"]).code == 0;
    wait_for("both are there", is_whole);
    let node = format!("--name node1 --config {config}");
    let killed = Command::new("pkill").args(["-9", "-f", "--", &node]).status();
    assert!(killed.expect("there is a pkill").success());
    let mut errors = BufReader::new(up.stderr.take().expect("it is piped")).lines();
    let ended = errors.by_ref().map_while(Result::ok).find(|line| line.contains("node1 has ended"));
    assert!(ended.is_some_and(|line| line.contains("it starts again in 1 s")));
    std::thread::spawn(move || errors.map_while(Result::ok).for_each(drop));
    assert!(up.try_wait().expect("it can be asked").is_none(), "it goes on");
    wait_for("both are there again", is_whole);
    let asked = Command::new("kill").arg(up.id().to_string()).status();
    assert!(asked.expect("there is a kill").success());
    assert!(up.wait().expect("it ends").success());
}

/// A certificate authority, and certificates of it for the three processes, made as in
/// docs/three-nodes.md; `false` without openssl, which is reported.
fn certificates(folder: &Path, authority: &str) -> bool {
    let script = r#"
        set -e
        cd "$1"
        ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        openssl req -x509 $ec -days 3650 -subj "/CN=$2" -keyout ca.key -out ca.pem
        for name in a b c; do
            openssl req $ec -subj "/CN=$name" -keyout $name.key -out $name.csr
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -days 365 -out $name.pem \
                -extfile <(echo "subjectAltName=DNS:$name")
        done"#;
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!(
            "there is no openssl (Debian: openssl), and this test passes without having looked"
        );
        return false;
    }
    std::fs::create_dir_all(folder).expect("a folder");
    let made =
        Command::new("bash").args(["-c", script, "bash"]).arg(folder).arg(authority).output();
    let made = made.expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

#[test]
fn processes_show_each_other_certificates_of_one_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    if !certificates(&ours, "ours") || !certificates(&theirs, "theirs") {
        return;
    }
    let place = ours.display();
    let cluster = Cluster::new(
        folder.path(),
        &format!(
            "node_tls_ca = \"{place}/ca.pem\"\nnode_tls_cert = \"{place}/{{name}}.pem\"\n\
             node_tls_key = \"{place}/{{name}}.key\""
        ),
    );
    (0..3).for_each(|at| cluster.start(at));
    accounts(&cluster);
    cluster.until_whole();
    while_working(&cluster, |more| more(100));
    // A certificate of another authority is refused, and so is that of another process.
    cluster.kill(1);
    let (config, data) = (cluster.config(), cluster.data(1).display().to_string());
    let with = |from: &Path, name: &str| {
        let [ca, cert, key] = [
            ours.join("ca.pem"),
            from.join(format!("{name}.pem")),
            from.join(format!("{name}.key")),
        ]
        .map(|file| file.display().to_string());
        let refused = isomer(&[
            "node",
            "--config",
            &config,
            "--name",
            "b",
            "--data",
            &data,
            "--node-tls-ca",
            &ca,
            "--node-tls-cert",
            &cert,
            "--node-tls-key",
            &key,
        ]);
        assert_eq!(refused.code, 1, "{}", refused.out);
        refused.err
    };
    assert!(with(&theirs, "b").contains("it has to be one of"));
    assert!(with(&ours, "c").contains("with the name `b`"));
    cluster.start(1);
    cluster.until_whole();
}
