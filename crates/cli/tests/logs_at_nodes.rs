//! A cluster of three processes that keep each other's redo logs: any one may be killed, commits
//! wait without a majority, and a process that has lost its folder is refused.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
mod run;

use cluster::bank::{accounts, while_working};
use cluster::{Cluster, PROCESSES, wait_for};
use run::isomer;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KEYS: &str = "log = \"nodes\"\nnode_wait_seconds = 1";

/// The table of logs in `isomer cluster status`: each log, and the processes that are behind.
fn logs(cluster: &Cluster) -> Vec<(String, String)> {
    let status = isomer(&["cluster", "status", "--config", &cluster.config()]);
    let (_, table) = status.out.split_once("redo logs at the nodes\n").unwrap_or_default();
    let rows = table.lines().skip(1).take_while(|line| !line.trim().is_empty());
    rows.map(|row| {
        let log = row.split_whitespace().next().unwrap_or_default().to_owned();
        let behind = row.split("  ").last().unwrap_or_default().trim().to_owned();
        (log, behind)
    })
    .collect()
}

/// Waits until every process has every entry of every log.
fn until_level(cluster: &Cluster) {
    cluster.until_whole();
    wait_for("all have all logs", || {
        let logs = logs(cluster);
        let names: Vec<&str> = logs.iter().map(|(log, _)| &**log).collect();
        names == ["catalog", "s1", "s2", "s3"] && logs.iter().all(|(_, behind)| behind == "none")
    });
}

#[test]
fn any_process_is_killed_and_catches_up_while_the_others_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), KEYS);
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    accounts(&cluster);
    until_level(&cluster);
    while_working(&cluster, |more| {
        for node in [1, 2] {
            more(30);
            cluster.kill(node);
            // Commits at the other sites have a majority.
            let mut client = cluster.client();
            let other = if node == 1 { 3 } else { 2 };
            for _ in 0..20 {
                client
                    .batch_execute(&format!("update stays set v = v + 1 where site = {other}"))
                    .expect("two processes are a majority");
            }
            cluster.start(node);
            until_level(&cluster);
            more(30);
        }
        // Without the router nothing runs. Afterwards all that was acknowledged is there.
        cluster.kill(0);
        cluster.start(0);
        cluster.until_whole();
        more(30);
    });
    // All at once, as in a power cut.
    cluster.kill_all();
    (0..3).for_each(|at| cluster.start(at));
    let mut client = cluster.client();
    let sum: i64 = client.query_one("select sum(v) from stays", &[]).expect("it is there").get(0);
    assert_eq!(sum, 40);
}

#[test]
fn the_cluster_starts_without_one_of_its_machines() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), &format!("failover_seconds = 2\n{KEYS}"));
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    let mut client = cluster.client();
    client
        .batch_execute(
            "create table t (id int primary key); insert into t select generate_series(1, 300);
             alter table t split at (100); alter table t split at (200);
             alter table t remaster at (100) to site 2;
             alter table t remaster at (200) to site 3",
        )
        .expect("a table with a backup");
    drop(client);
    until_level(&cluster);
    // All machines lose their power, and one does not come back.
    cluster.kill_all();
    [0, 1].iter().for_each(|at| cluster.start(*at));
    let mut client = cluster.client();
    let count = "select count(*) from t";
    wait_for("others have taken over", || {
        client.query_one(count, &[]).is_ok_and(|row| row.get::<_, i64>(0) == 300)
    });
    client.batch_execute("insert into t values (301)").expect("two processes are a majority");
    cluster.start(2);
    cluster.until_whole();
    wait_for("it is readmitted", || {
        let ill = "select count(*) from isomer.sites where health not like 'ok%'";
        client.query_one(ill, &[]).is_ok_and(|row| row.get::<_, i64>(0) == 0)
    });
    assert_eq!(client.query_one(count, &[]).expect("rows").get::<_, i64>(0), 301);
}

#[test]
fn without_a_majority_a_commit_waits_and_goes_on_when_one_returns() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), KEYS);
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    let mut client = cluster.client();
    client
        .batch_execute(
            "create table t (id int primary key) with (backups = 0); insert into t values (1)",
        )
        .expect("a table");
    cluster.kill(1);
    cluster.kill(2);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, mut client) = (&is_done, client);
        let commit = scope.spawn(move || {
            let committed = client.batch_execute("insert into t values (2)");
            done.store(true, Ordering::SeqCst);
            committed
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            assert!(!is_done.load(Ordering::SeqCst), "it was answered by a minority");
            std::thread::sleep(Duration::from_millis(50));
        }
        let status = isomer(&["cluster", "status", "--config", &cluster.config(), "--wait", "1"]);
        assert_eq!(status.code, 1);
        assert!(status.err.contains("the logs at b: no answer"), "{}", status.err);
        cluster.start(1);
        commit.join().expect("no panic").expect("two processes are a majority again");
    });
    cluster.start(2);
    cluster.until_whole();
    let rows = cluster.client().query("select id from t order by id", &[]).expect("it is there");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 2]);
}

#[test]
fn a_process_that_has_lost_its_folder_is_refused_and_the_others_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::new(folder.path(), KEYS);
    (0..3).for_each(|at| cluster.start(at));
    cluster.keep_design();
    accounts(&cluster);
    cluster.kill(1);
    let kept = folder.path().join("kept");
    std::fs::rename(cluster.data(1), &kept).expect("its folder");
    let (name, _) = PROCESSES[1];
    let data = cluster.data(1).display().to_string();
    let refused = isomer(&["node", "--config", &cluster.config(), "--name", name, "--data", &data]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    let says = "`b` begins without the logs that it has kept for the others";
    assert!(refused.err.contains(says), "{}", refused.err);
    let update = "update stays set v = v + 1 where site = 3";
    cluster.client().batch_execute(update).expect("two processes are a majority");
    // With its folder it is admitted.
    std::fs::remove_dir_all(cluster.data(1)).expect("the new folder");
    std::fs::rename(&kept, cluster.data(1)).expect("its folder");
    cluster.start(1);
    until_level(&cluster);
}

#[test]
fn lists_and_commands_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    let alone = isomer(&["serve", "--data", &data, "--log", "nodes"]);
    assert!(
        alone.err.contains("redo logs at the nodes are for the processes of a cluster"),
        "{}",
        alone.err
    );
    let two = isomer(&[
        "node",
        "--name",
        "b",
        "--sites",
        "2",
        "--node-listen",
        "127.0.0.1:0",
        "--peers",
        "a=127.0.0.1:1/1",
        "--data",
        &data,
        "--log",
        "nodes",
    ]);
    assert!(two.err.contains("need 3 processes at least"), "{}", two.err);
}

/// The default of `isomer cluster up` with three processes.
#[test]
fn a_cluster_of_three_on_this_machine_keeps_its_logs_at_its_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut up = Command::new(env!("CARGO_BIN_EXE_isomer"));
    up.args(["cluster", "up", "--nodes", "3", "--sites", "1", "--listen", "127.0.0.1:0", "--data"]);
    let mut up = up.arg(folder.path()).stdout(Stdio::null()).spawn().expect("it starts");
    let config = folder.path().join("cluster.toml").display().to_string();
    wait_for("all are there", || {
        let status = isomer(&["cluster", "status", "--config", &config, "--wait", "1"]);
        status.code == 0 && status.out.contains("redo logs at the nodes")
    });
    let asked = Command::new("kill").arg(up.id().to_string()).status();
    assert!(asked.expect("there is a kill").success());
    assert!(up.wait().expect("it ends").success());
    let text = std::fs::read_to_string(&config).expect("a file");
    assert!(text.contains("\nlog = \"nodes\"\n"), "{text}");
}
