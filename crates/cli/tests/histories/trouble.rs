//! Disturbances that run beside the clients. Each of them waits for some commits between two steps.

use crate::Run;
use postgres::Client;
use std::time::Duration;

/// Splits and merges partitions, and moves masters and replicas, of all tables.
pub(crate) fn designs(run: &Run) {
    let mut chance = run.chance(200);
    let mut client = run.server.client();
    if chance.below(2) == 0 {
        ask(run, &mut client, "alter system set autopilot = auto");
    }
    while !run.is_over() {
        let (table, keys) =
            [("lists", 1000), ("accounts", 16), ("ledger", 2000)][chance.below(3) as usize];
        let (key, site) = (chance.below(keys), 1 + chance.below(4));
        let change = match chance.below(7) {
            0 => format!("split at ({key})"),
            1 => format!("merge at ({key})"),
            2 | 3 => format!("add replica at ({key}) on site {site}"),
            4 => format!("drop replica at ({key}) on site {site}"),
            _ => format!("remaster at ({key}) to site {site}"),
        };
        if ask(run, &mut client, &format!("alter table {table} {change}")) {
            run.happened("designs");
        }
        run.wait_for_commits(3);
    }
}

/// Creates and drops indexes and columns.
pub(crate) fn definitions(run: &Run) {
    let mut client = run.server.client();
    while !run.is_over() {
        for definition in [
            "create index lists_g on lists (g)",
            "create index lists_n on lists (n, k)",
            "alter table accounts add column note text default 'none'",
            "drop index lists_g",
            "alter table lists add column w int default 7",
            "create index ledger_src on ledger (src)",
            "drop index lists_n",
            "alter table lists drop column w",
            "alter table accounts drop column note",
            "drop index ledger_src",
        ] {
            client.batch_execute(definition).expect("a definition");
            run.happened("definitions");
            run.wait_for_commits(20);
        }
    }
}

/// Changes shard keys, and changes them back.
pub(crate) fn reshards(run: &Run) {
    let mut client = run.server.client();
    while !run.is_over() {
        for change in [
            "accounts shard by (balance) force",
            "lists shard by (g) force",
            "accounts shard by default keep old",
            "lists shard by (n, g) force",
            "accounts shard by (balance) force",
            "lists shard by default",
            "accounts shard by default",
        ] {
            if ask(run, &mut client, &format!("alter table {change}")) {
                run.happened("reshards");
            }
            run.wait_for_commits(10);
        }
    }
}

/// Kills the server by `kill -9` at a random moment, and restarts it.
#[allow(clippy::disallowed_methods, reason = "at a moment of chance")]
pub(crate) fn kills(run: &Run) {
    let mut chance = run.chance(300);
    loop {
        run.wait_for_commits(150);
        std::thread::sleep(Duration::from_millis(chance.below(30) as u64));
        if run.is_over() {
            return;
        }
        run.server.kill_and_restart();
        run.happened("kills");
    }
}

/// Disturbs machines of a cluster and its brokers: kills, pauses, partitions of the network, a full
/// disk.
#[allow(clippy::disallowed_methods, reason = "at a moment of chance")]
pub(crate) fn cluster_faults(run: &Run) {
    let mut chance = run.chance(500);
    loop {
        run.wait_for_commits(60);
        std::thread::sleep(Duration::from_millis(chance.below(30) as u64));
        if run.is_over() {
            return;
        }
        let what = match chance.below(12) {
            0..=4 => {
                run.server.kill_and_restart_process(&mut chance);
                "kills of processes"
            }
            5..=6 => {
                run.server.kill_and_restart_broker(&mut chance);
                "kills of brokers"
            }
            7..=8 => {
                run.server.stand_still(&mut chance);
                "pauses"
            }
            9..=10 if run.server.cut_off(&mut chance) => "partitions",
            11 if run.server.fill_a_disk(|| run.wait_for_commits(60)) => "full disks",
            // Not possible here; a message has said so.
            _ => continue,
        };
        run.happened(what);
        run.happened("faults");
    }
}

/// Stops the whole process for a while, as swapping or a migration of its machine would.
#[allow(clippy::disallowed_methods, reason = "it stands still for some time")]
pub(crate) fn stops(run: &Run) {
    let mut chance = run.chance(400);
    loop {
        run.wait_for_commits(150);
        if run.is_over() {
            return;
        }
        run.server.signal("STOP");
        std::thread::sleep(Duration::from_millis(100 + chance.below(700) as u64));
        run.server.signal("CONT");
        run.happened("stops");
    }
}

/// Asks for a change; true if it was made. The server may refuse it, or may have been killed.
fn ask(run: &Run, client: &mut Client, change: &str) -> bool {
    let Err(error) = client.batch_execute(change) else { return true };
    match error.code().map(|code| code.code().to_owned()) {
        // The change has been made already, or there is no such partition.
        Some(code) if code == "22023" => {}
        // A site is unreachable.
        Some(code) if code == "57P03" => {}
        None => *client = run.server.client(),
        Some(code) if code == "57P01" => *client = run.server.client(),
        Some(_) => panic!("{change}: {error:?}"),
    }
    false
}
