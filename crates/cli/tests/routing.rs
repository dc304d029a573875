//! Statements on ordered tables are routed in batches before they run: those about the same rows
//! run at one process, one after the other, and the rows stay there. The process that runs them is
//! killed, and then the one that routes.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
#[allow(dead_code, reason = "this test reads no output")]
mod run;

use cluster::up::{Up, client_at, code, one, pid_of, three};
use cluster::wait_for;
use postgres::{Client, SimpleQueryMessage};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// Groups of three rows, each at home in another process.
const GROUPS: i64 = 6;
const CLIENTS: usize = 9;

/// The value of a metric of this process.
fn metric(port: u16, name: &str) -> f64 {
    let query = format!("select coalesce(sum(value), 0) from isomer.metrics where name = '{name}'");
    one(&mut client_at(port).expect("it serves"), &query).parse().expect("a number")
}

/// Clients of all processes move amounts between the rows of a group, until `trouble` has ended.
/// Returns the number of transfers, and of errors by their codes.
fn while_paying(
    ports: &[u16],
    is_tolerated: impl Fn(&str) -> bool + Sync,
    trouble: impl FnOnce(&AtomicI64),
) -> i64 {
    let (is_over, paid) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (is_over, paid, is_tolerated) = (&is_over, &paid, &is_tolerated);
            let port = ports[number % ports.len()];
            scope.spawn(move || {
                let mut client = client_at(port).expect("it serves");
                for round in number as i64.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let (group, turn) = (round % GROUPS, round / GROUPS % 3);
                    let (from, to) = (group + 10 * turn, group + 10 * ((turn + 1) % 3));
                    match client.batch_execute(&format!("call pay({from}, {to})")) {
                        Ok(()) => drop(paid.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert!(is_tolerated(&code(&error)), "{error:?}"),
                    }
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trouble(&paid)));
        is_over.store(true, Ordering::SeqCst);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    paid.into_inner()
}

/// The sum of all rows and the number of transfers that they have, at each process.
fn check_sums(ports: &[u16]) -> i64 {
    let mut all = ports.iter().map(|port| {
        let mut client = client_at(*port).expect("it serves");
        assert_eq!(one(&mut client, "select sum(v) from accounts"), "0");
        one(&mut client, "select sum(times) from accounts").parse().expect("a number")
    });
    let first: i64 = all.next().expect("one");
    assert!(all.all(|other| other == first));
    first
}

/// Two hundred updates of one row by clients of all processes: none meets another.
fn a_hot_row_has_a_queue(ports: &[u16]) {
    std::thread::scope(|scope| {
        for number in 0..20 {
            let port = ports[number % ports.len()];
            scope.spawn(move || {
                let mut client = client_at(port).expect("it serves");
                for _ in 0..10 {
                    let update = "update hot set v = v + 1 where id = 1";
                    client.batch_execute(update).expect("no other writes it meanwhile");
                }
            });
        }
    });
    assert_eq!(one(&mut client_at(ports[0]).expect("it"), "select v from hot"), "200");
}

/// A statement that fails, is canceled or waits in vain gives its turn to the next one.
fn a_turn_ends_with_its_statement(ports: &[u16]) {
    let [mut a, mut b, mut c] = [0, 1, 2].map(|at| client_at(ports[at]).expect("it serves"));
    let error = b.batch_execute("update hot set v = v / 0 where id = 1").expect_err("by zero");
    assert_eq!(code(&error), "22012");
    a.batch_execute("update hot set v = v + 1 where id = 1").expect("it is free");
    // The one that sleeps has its turn, the other waits for it.
    let sleeper = "update hot set v = v + length(pg_sleep(2)::text) where id = 1";
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| b.batch_execute(sleeper));
        std::thread::sleep(Duration::from_millis(500));
        c.batch_execute("set statement_timeout = '300ms'").expect("a setting");
        let waits = "update hot set v = v + 1 where id = 1";
        assert_eq!(code(&c.batch_execute(waits).expect_err("it waits")), "57014");
        c.batch_execute("reset statement_timeout").expect("a setting");
        c.batch_execute(waits).expect("its turn comes");
        sleeping.join().expect("it ends").expect("it has run");
    });
    assert_eq!(one(&mut a, "select v from hot"), "202");
}

/// The views and EXPLAIN show the rows that have moved. All copies have run the same batches.
fn operators_see_what_has_moved(client: &mut Client) {
    let moved = "select count(*) from isomer.fused where relation = 'accounts'";
    let sum = "select sum(rows_moved) from isomer.partitions where relation = 'accounts'";
    let count = one(client, moved);
    assert_ne!(count, "0");
    assert_eq!(one(client, sum), count);
    let row = "select key || ' of accounts, from ' || home || ' to ' || site from isomer.fused
               where relation = 'accounts' order by key limit 1";
    let row = one(client, row);
    let key = row.split(' ').next().expect("a key");
    for statement in ["select * from accounts", "update accounts set v = v"] {
        let explain = format!("explain {statement} where id = {key}");
        let lines = client.simple_query(&explain).expect("a plan");
        let is_line = |line: &SimpleQueryMessage| match line {
            SimpleQueryMessage::Row(line) => line.get(0) == Some(&*format!("Moved: row {row}")),
            _ => false,
        };
        assert!(lines.iter().any(is_line), "{lines:?}");
    }
    let copies = "select count(*) > count(distinct relation || first_key) and
                  bool_or(relation = 'isomer_fused' and rows > 0) from isomer.order_hashes";
    assert_eq!(one(client, copies), "t", "replicas, and rows that have moved");
    // A copy that is behind for long has no hash.
    let unasked = "select count(*) from isomer.order_hashes where hash is null";
    wait_for("all copies can be asked", || one(client, unasked) == "0");
    let different = "select coalesce(string_agg(copies, '; '), 'none') from (
        select relation || ' ' || coalesce(first_key, '') || ': ' || string_agg(
            concat_ws(' ', site, rows, hash), ', ' order by site) as copies
        from isomer.order_hashes
        group by relation, first_key having count(distinct hash) > 1) parts";
    assert_eq!(one(client, different), "none", "partitions whose copies differ");
}

/// A cluster with ordered tables and a router.
fn cluster(folder: &Path) -> (Up, String, Vec<u16>) {
    let (up, config, ports, mut first) = three(folder);
    first
        .batch_execute(
            "alter system set autopilot = off;
             create table accounts (id int primary key, v bigint not null, times int not null)
                 with (isolation = ordered);
             insert into accounts select g, 0, 0 from generate_series(0, 29) g;
             alter table accounts split at (10);
             alter table accounts split at (20);
             alter table accounts remaster at (10) to site 2;
             alter table accounts remaster at (20) to site 3;
             create table hot (id int primary key, v bigint) with (isolation = ordered);
             insert into hot values (1, 0);
             create procedure pay(payer int, payee int) language sql as
                 'update accounts set v = v - 1 where id = payer;
                  update accounts set v = v + 1, times = times + 1 where id = payee'",
        )
        .expect("tables");
    let wrong = first.batch_execute("alter system set order_router = 'nearest'").expect_err("none");
    assert_eq!(code(&wrong), "22023");
    first
        .batch_execute("alter system set fused_rows = 1000; alter system set order_router = hermes")
        .expect("a router");
    for port in &ports {
        let mut client = client_at(*port).expect("it serves");
        wait_for("it knows the router", || one(&mut client, "show order_router") == "hermes");
    }
    (up, config, ports)
}

/// A process is killed while clients of the others pay.
fn others_take_over(name: &str, left: &[u16], config: &str) {
    let is_passing = |code: &str| matches!(code, "40001" | "08007" | "57P03");
    let paid = while_paying(left, is_passing, |paid| {
        std::thread::sleep(Duration::from_millis(500));
        let killed = Command::new("kill").args(["-9", &pid_of(name, config)]).status();
        assert!(killed.expect("kill is there").success());
        std::thread::sleep(Duration::from_millis(200));
        let before = paid.load(Ordering::SeqCst);
        wait_for("others take over", || paid.load(Ordering::SeqCst) > before + 100);
    });
    println!("{paid} transfers while {name} was killed; {} in the table", check_sums(left));
}

#[test]
fn statements_are_routed_before_they_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (up, config, ports) = cluster(folder.path());
    a_hot_row_has_a_queue(&ports);
    a_turn_ends_with_its_statement(&ports);
    let routed = metric(ports[0], "isomer_statements_routed_total");
    assert!(routed > 200.0, "{routed}");

    // No transfer meets another, and the rows of a group gather at one process.
    let paid = while_paying(&ports, |_| false, |_| std::thread::sleep(Duration::from_secs(3)));
    assert_eq!(check_sums(&ports), paid);
    let mut first = client_at(ports[0]).expect("it serves");
    let apart = "select count(*) from (
            select a.id % 10 from accounts a
                left join isomer.fused f on f.key = a.id::text and f.relation = 'accounts'
            where a.id % 10 < 6
            group by a.id % 10 having count(distinct coalesce(f.site, 's' || (a.id / 10 + 1))) > 1
        ) g";
    println!("{paid} transfers");
    assert_eq!(one(&mut first, apart), "0", "groups whose rows are at several processes");

    operators_see_what_has_moved(&mut first);

    others_take_over("node2", &ports[..2], &config);
    first.batch_execute("alter system set order_router = off").expect("it can be turned off");
    assert_eq!(one(&mut first, "show order_router"), "off");
    while_paying(
        &ports[..2],
        |code| code == "40001",
        |_| {
            std::thread::sleep(Duration::from_millis(500));
        },
    );
    drop(up);
}

#[test]
fn the_process_that_routes_may_be_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (up, config, ports) = cluster(folder.path());
    others_take_over("serve", &ports[1..], &config);
    drop(up);
}
