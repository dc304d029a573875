//! A fourth process joins a running cluster of three, whose redo logs are at the nodes. It serves,
//! gets rows, may be killed, survives the loss of the process with the conductor, and leaves.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
mod run;

use cluster::up::{Ended, Up, client_at, clients_of, one, pid_of, try_one};
use cluster::wait_for;
use postgres::Client;
use run::isomer;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROWS: u64 = 1000;

fn client(port: u16) -> Client {
    let mut found = None;
    wait_for("it serves", || {
        found = client_at(port);
        found.is_some()
    });
    found.expect("it was waited for")
}

fn free_port() -> u16 {
    let listener = ports::free_port(ports::LOOPBACK).expect("a free port");
    listener.local_addr().expect("it has an address").port()
}

/// The address of a process for the others.
fn address_of(name: &str, config: &str) -> String {
    let text = std::fs::read_to_string(config).expect("it is there");
    let (_, part) = text.split_once(&format!("name = \"{name}\"")).expect("it is in the file");
    let (_, address) = part.split_once("address = \"").expect("it has one");
    address.split('"').next().expect("it ends").to_owned()
}

fn serve(folder: &Path, more: &[&str]) -> Child {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
    serve.args(["serve", "--trust", "loopback", "--data"]).arg(folder).args(more);
    serve.stdout(Stdio::null()).spawn().expect("the program starts")
}

/// The state of a process by `isomer cluster status`.
fn state_of(name: &str, config: &str) -> String {
    let status = isomer(&["cluster", "status", "--config", config]);
    let line = status.out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.to_owned()
}

#[test]
fn a_process_joins_serves_fails_and_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    let up = Up::start(folder.path(), &["--trust", "loopback", "--when-one-ends", "leave"]);
    let config = folder.path().join("cluster.toml").display().to_string();
    let ports = clients_of(&config);
    let mut first = client(ports[0]);
    wait_for("the others have seats", || {
        one(&mut first, "select count(*) from isomer.gateways") == "3"
    });
    first
        .batch_execute(&format!(
            "create table t (id int primary key, v int);
             insert into t select g, g from generate_series(1, {ROWS}) g"
        ))
        .expect("a table");

    // A process whose name is in the file already is refused, and nothing is left of it.
    let data = folder.path().join("node3");
    let at = |name: &str| format!("{name}={}", address_of(name, &config));
    let [listen, clients] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let (door, data_text) = (at("node1"), data.display().to_string());
    let flags = ["--join", &door, "--node-listen", &listen, "--listen", &clients];
    let double = ["serve", "--data", &data_text, "--name", "node2"];
    let refused = isomer(&[&double[..], &flags[..]].concat());
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("`node2` is in the cluster's file already"), "{}", refused.err);
    assert!(!data.exists());

    let joined = serve(&data, &[&["--name", "node3"], &flags[..]].concat());
    let mut joined = Ended(joined);
    let port: u16 = clients.rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port");
    let mut fourth = client(port);
    wait_for("its site is in the design", || {
        one(&mut first, "select count(*) from isomer.sites where health like 'ok%'") == "4"
    });
    for each in ports.iter().chain([&port]) {
        let mut client = client(*each);
        wait_for("all have four gateways", || {
            one(&mut client, "select count(*) from isomer.gateways") == "4"
        });
        assert_eq!(one(&mut client, "select count(*) from t"), ROWS.to_string());
    }
    assert!(state_of("node3", &config).ends_with("ok"), "{}", state_of("node3", &config));

    // Rows move there, and definitions are made there.
    fourth
        .batch_execute(
            "alter table t split at (500); alter table t remaster at (500) to site 4;
             create table made_there (id int primary key); insert into made_there values (1)",
        )
        .expect("it takes part");
    let mastered = "select count(*) from isomer.partitions where master = 's4' and relation = 't'";
    assert_eq!(one(&mut first, mastered), "1");
    first.batch_execute("update t set v = v + 1 where id = 700").expect("a row at the new site");
    assert_eq!(one(&mut fourth, "select v from t where id = 700"), "701");
    assert_eq!(one(&mut first, "select count(*) from made_there"), "1");

    // It fails, others take over, and it comes back by its folder alone.
    wait_for("all rows have backups", || {
        let lacking = "select value::int from isomer.metrics where name = 'isomer_backups_missing'";
        one(&mut first, lacking) == "0"
    });
    joined.0.kill().expect("it runs");
    joined.0.wait().expect("it ends");
    wait_for("others take over", || {
        first.batch_execute("update t set v = v + 1 where id = 700").is_ok()
    });
    let before = one(&mut first, "select v from t where id = 700");
    joined = Ended(serve(&data, &[]));
    let mut fourth = client(port);
    wait_for("it is back", || state_of("node3", &config).ends_with("ok"));
    wait_for("it reads", || {
        try_one(&mut fourth, "select v from t where id = 700").is_ok_and(|v| v == before)
    });
    wait_for("it has a seat", || one(&mut first, "select count(*) from isomer.gateways") == "4");

    // The process with the conductor fails: the next one knows the fourth, too.
    drop(first);
    let killed = Command::new("kill").args(["-9", &pid_of("serve", &config)]).status();
    assert!(killed.expect("kill is there").success());
    let mut second = client(ports[1]);
    for client in [&mut fourth, &mut second] {
        wait_for("they write again", || {
            client.batch_execute("update t set v = v + 1 where id = 701").is_ok()
        });
    }
    let mut again = Command::new(env!("CARGO_BIN_EXE_isomer"));
    again.args(["serve", "--name", "serve", "--config", &config, "--trust", "loopback", "--data"]);
    let again = again.arg(folder.path().join("serve")).stdout(Stdio::null()).spawn();
    let _again = Ended(again.expect("the program starts"));
    wait_for("all are there", || {
        ["serve", "node1", "node2", "node3"].iter().all(|it| state_of(it, &config).ends_with("ok"))
    });
    wait_for("all have seats", || {
        try_one(&mut second, "select count(*) from isomer.gateways").is_ok_and(|it| it == "4")
    });

    // A founder cannot leave; the fourth does, and its rows stay.
    let founder = isomer(&["cluster", "remove", "node1", "--config", &config]);
    assert!(founder.err.contains("`node1` keeps redo logs for the others"), "{}", founder.err);
    let left = isomer(&["cluster", "remove", "node3", "--config", &config]);
    assert_eq!(left.code, 0, "{}{}", left.out, left.err);
    let ended = joined.0.wait().expect("it ends by itself");
    assert!(ended.success(), "{ended}");
    assert_eq!(one(&mut second, "select count(*) from isomer.sites"), "3");
    assert_eq!(one(&mut second, "select count(*) from t"), ROWS.to_string());
    assert_eq!(state_of("node3", &config), "");
    assert!(state_of("node1", &config).ends_with("ok"), "{}", state_of("node1", &config));
    // Its folder is of no use any more, and says so.
    let removed = isomer(&["serve", "--data", &data_text]);
    assert!(removed.err.contains("`node3` is not of this cluster any more"), "{}", removed.err);

    // With an empty folder it joins anew, gets another site, and fails for ever.
    std::fs::remove_dir_all(&data).expect("its folder");
    let door = at("serve");
    let flags = ["--join", &door, "--node-listen", &listen, "--listen", &clients];
    joined = Ended(serve(&data, &[&["--name", "node3"], &flags[..]].concat()));
    wait_for("its new site is in the design", || {
        one(&mut second, "select count(*) from isomer.sites where site = 's5'") == "1"
    });
    let mut fourth = client(port);
    fourth
        .batch_execute(
            "alter table t remaster at (500) to site 5; update t set v = 0 where id = 700",
        )
        .expect("it takes part");
    wait_for("all rows have backups", || {
        let lacking = "select value::int from isomer.metrics where name = 'isomer_backups_missing'";
        one(&mut fourth, lacking) == "0"
    });
    joined.0.kill().expect("it runs");
    let remove = ["cluster", "remove", "node3", "--config", &config];
    wait_for("others have taken over, and it is removed", || isomer(&remove).code == 0);
    assert_eq!(one(&mut second, "select count(*) from isomer.sites"), "3");
    assert_eq!(one(&mut second, "select v from t where id = 700"), "0");
    second.batch_execute("create table made_after (id int primary key)").expect("nothing waits");
    drop(up);
}
