//! A database that begins at one of three processes spreads while that process is pressed, and what
//! is used together stays together.
//!
//! ```text
//!   serve    a processor of its own     all rows of twelve tenants at first
//!   node1    ┐
//!   node2    ┘ share one                clients of all three read the rows of a tenant at once
//! ```

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
#[allow(dead_code, reason = "this test reads no output")]
mod run;

use cluster::up::{Up, client_at, clients_of, one, pid_of};
use cluster::wait_for;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TENANTS: u64 = 12;
/// Looks at the masters, before the test gives up if no process was pressed in half of them.
const LOOKS: u32 = 2000;

/// Gives a process one processor.
fn pin(process: &str, processor: &str) {
    let args = ["--all-tasks", "--cpu-list", "--pid", processor, process];
    let done = Command::new("taskset").args(args).output().expect("taskset is there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Reads all rows of a tenant, over and over, until `is_over`. Every hundredth time it writes one.
fn load(port: u16, first: u64, is_over: &AtomicBool, written: &AtomicU64) {
    let mut client = client_at(port).expect("it serves");
    let sum = client.prepare("select sum(v) from orders where tenant = $1").expect("a query");
    let update = "update orders set v = v + 1 where tenant = $1 and id = $2";
    let update = client.prepare(update).expect("a statement");
    for round in first.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let tenant = (round % TENANTS) as i32;
        let done = match round % 100 {
            0 => client.execute(&update, &[&tenant, &((round / 100 % 100) as i32)]),
            _ => client.query(&sum, &[&tenant]).map(|_| 0),
        };
        match done {
            Ok(rows) => drop(written.fetch_add(rows, Ordering::SeqCst)),
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert!(code.is_some_and(|code| code.starts_with("40")), "{error:?}");
            }
        }
    }
}

#[test]
fn a_database_that_begins_at_one_process_spreads() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: two processors are needed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let _up = Up::start(folder.path(), &["--trust", "loopback"]);
    let config = folder.path().join("cluster.toml").display().to_string();
    let ports = clients_of(&config);
    for (name, processor) in [("serve", "0"), ("node1", "1"), ("node2", "1")] {
        pin(&pid_of(name, &config), processor);
    }
    let mut client = client_at(ports[0]).expect("it serves");
    wait_for("the others have seats", || {
        one(&mut client, "select count(*) from isomer.gateways where not has_conductor") == "2"
    });
    client
        .batch_execute(&format!(
            "create table orders (tenant int, id int, v bigint, primary key (tenant, id));
             insert into orders select t, i, 0 from generate_series(0, {TENANTS} - 1) t,
                 generate_series(0, 99) i"
        ))
        .expect("a table");
    let masters = "select count(distinct master) from isomer.partitions where relation = 'orders'";
    assert_eq!(one(&mut client, masters), "1");
    let mut has_spread = false;
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for at in 0..12 {
            let (is_over, written, port) = (&is_over, &written, ports[at % 3]);
            scope.spawn(move || load(port, 7 * at as u64, is_over, written));
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let pressed = "select coalesce(max(value), 0) >= 0.8 from isomer.metrics
                           where name = 'isomer_process_busy_ratio'";
            let (mut looks, mut pressed_looks) = (0, 0);
            wait_for("masters are at several processes", || {
                // On a machine that others keep busy no process gets that much of a processor.
                looks += 1;
                pressed_looks += u32::from(one(&mut client, pressed) == "t");
                has_spread = one(&mut client, masters) != "1";
                has_spread || looks > LOOKS && pressed_looks < looks / 2
            });
        }));
        is_over.store(true, Ordering::SeqCst);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    if !has_spread {
        return println!("SKIPPED: this machine is too busy for a process to be pressed");
    }
    let why = "select count(*) > 0 from isomer.changes
               where relation = 'orders' and reason like '%by a global plan%'";
    assert_eq!(one(&mut client, why), "t", "a plan has spread it");
    let sum = one(&mut client, "select sum(v) from orders");
    assert_eq!(sum, written.load(Ordering::SeqCst).to_string(), "each commit counts");
}
