//! A strategy changes only what operators permit, under a load for which changes pay.
//!
//! ```text
//!   free   s1 [1, 1001)   s2 [1001, )       each transaction writes a row of both partitions
//!   kept   s1 [1, 1001)   s2 [1001, )       the same, with autopilot = off
//! ```

mod fixture;

use fixture::options;
use isomer_cluster::Options;
use isomer_plan::learned::Mode;
use isomer_server::{Decider, Engine, Server};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A window of changes that is closed now: it begins in two hours.
#[allow(clippy::disallowed_methods, reason = "the window is one of the real day")]
fn closed_window() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    let hour = since.as_secs() / 3600;
    format!("{:02}:00-{:02}:00", (hour + 2) % 24, (hour + 3) % 24)
}

/// The longest wait for a decision.
const WAIT: Duration = Duration::from_secs(300);
/// The longest wait for a change after the window has opened. Where distributed commits cost hardly
/// more than others, as with a fast disk, a strategy may see no gain any more.
const PAYS: Duration = Duration::from_secs(45);

fn client(server: &Server) -> Client {
    let port = server.address().port();
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
    Client::connect(&config, NoTls).expect("the server answers")
}

fn one(client: &mut Client, query: &str) -> String {
    let rows = client.simple_query(query).expect("a query");
    let row = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_default()
}

fn load(server: &Server, ended: &AtomicBool, first: i64) {
    let mut client = client(server);
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let (low, high) = (1 + (first + number) % 40, 1001 + (first + number) % 40);
        for table in ["free", "kept"] {
            let update = |id| format!("update {table} set v = v + 1 where id = {id}");
            // A conflict with another client ends with an error, and the load goes on.
            let text = format!("begin; {}; {}; commit", update(low), update(high));
            if client.batch_execute(&text).is_err() {
                let _ = client.batch_execute("rollback");
            }
        }
    }
}

/// True once something is so, within a time.
#[allow(clippy::disallowed_methods, reason = "the load runs beside the test")]
fn happens(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the load has threads of its own")]
fn a_strategy_leaves_tables_alone_whose_mode_is_off_and_waits_for_its_window() {
    // A distributed commit waits for the disk twice, so it pays to avoid it.
    let folder = tempfile::tempdir().expect("a folder");
    let database = Options::in_folder(folder.path(), 2);
    let engine = Engine::open(database, Decider::default(), Some(Mode::Off));
    let engine = engine.expect("a catalog");
    let server = Server::start(engine, options()).expect("a free port");
    let mut client = client(&server);
    for table in ["free", "kept"] {
        client
            .batch_execute(&format!(
                "create table {table} (id int primary key, v int);
                 insert into {table} select n, 0 from generate_series(1, 2000) n;"
            ))
            .expect("a table");
        for change in ["split at (1001)", "remaster at (1001) to site 2"] {
            client.batch_execute(&format!("alter table {table} {change}")).expect("a change");
        }
    }
    let window = closed_window();
    client.batch_execute("alter table kept set (autopilot = off)").expect("a mode");
    client
        .batch_execute(&format!("alter system set change_window = '{window}'"))
        .expect("a window");
    client.batch_execute("alter system set autopilot = auto").expect("a mode");
    let withheld = |client: &mut Client, reason: &str| {
        let query = format!(
            "select value > 0 from isomer.metrics where name = 'isomer_design_changes_withheld_total'
             and labels = 'reason=\"{reason}\"'"
        );
        one(client, &query) == "t"
    };
    let changed = "select count(*) > 0 from isomer.changes where relation = 'free' and reason not like '%in SQL%'";
    let design =
        "select string_agg(relation || first_key || master || replicas, ',' order by first_key)
         from isomer.partitions where relation = 'kept'";
    let before = one(&mut client, design);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn({
                let (server, ended) = (&server, &ended);
                move || load(server, ended, 10 * first)
            });
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert!(happens(WAIT, || withheld(&mut client, "window")), "nothing waits for it");
            assert_eq!(one(&mut client, changed), "f", "the window is closed");
            client.batch_execute("alter system set change_window = 'always'").expect("no window");
            if happens(PAYS, || one(&mut client, changed) == "t") {
                assert!(happens(WAIT, || withheld(&mut client, "mode")), "its mode is off");
            } else {
                println!("SKIPPED: no change pays on this machine");
            }
        }));
        ended.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    assert_eq!(one(&mut client, design), before, "its mode is off");
}
