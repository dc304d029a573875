//! The effect on clients of a killed process, and of a restart of all processes in turn.

use super::{Figures, KILLED, ask, asked, place_accounts};
use crate::bench::wire::servers::Server;
use isomer::clock;
use isomer::cluster::{Running, drain};
use isomer::failure::Failure;
use isomer_workload::random;
use postgres::Client;
use postgres::error::SqlState;
use rand::RngExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const READ: &str = "select abalance from pgbench_accounts where aid = 1";
const WRITE: &str = "update pgbench_accounts set abalance = abalance + 1 where aid = 1";
/// The benchmark fails if a step takes longer than this.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(10);
/// Clients that work while processes restart.
const CLIENTS: u64 = 4;
/// Time that clients work, at least, between two restarts.
const BETWEEN: Duration = Duration::from_millis(500);

/// Kills the process with all accounts: first it restarts at once, then it stays down and its
/// backups take over.
pub(super) fn killed(
    running: &mut Running,
    cluster: &Server,
    rows: u32,
    figures: &mut Figures,
) -> Result<(), Failure> {
    // All accounts are at one process, so that it has `rows` rows.
    place_accounts(cluster, rows, [KILLED.1; 3])?;
    let mut client = cluster.connect()?;
    // The process is in use until it is killed.
    client.batch_execute(WRITE).map_err(|error| Failure::of_server(WRITE, &error))?;
    running.kill(KILLED.0);
    let begun = clock::now();
    running.start_again(KILLED.0)?;
    until_done(&mut client, READ)?;
    figures.failover_log_read_s = Some(begun.elapsed().as_secs_f64());
    until_done(&mut client, WRITE)?;
    figures.failover_log_s = Some(begun.elapsed().as_secs_f64());

    ask(cluster, "alter table pgbench_accounts set (backups = 1)")?;
    until(
        cluster,
        "select count(*) = 0 from isomer.partitions where relation like 'pgbench_accounts%' and replicas = ''",
    )?;
    client.batch_execute(WRITE).map_err(|error| Failure::of_server(WRITE, &error))?;
    running.kill(KILLED.0);
    let begun = clock::now();
    until_done(&mut client, WRITE)?;
    figures.failover_replica_s = Some(begun.elapsed().as_secs_f64());
    let master = "select master from isomer.partitions where relation = 'pgbench_accounts' order by first_key limit 1";
    let master: String = asked(cluster, master)?;
    if master == format!("s{}", KILLED.1) {
        return Err(Failure::failed("the rows are still at the process that was killed"));
    }
    running.start_again(KILLED.0)?;
    until_whole(cluster)?;
    ask(cluster, "alter table pgbench_accounts set (backups = 0)")
}

/// Drains, stops and starts each process in turn. Returns the longest time in which a client
/// completed no statement, and the number of statements that were refused at connections that
/// stayed open.
#[allow(clippy::disallowed_methods, reason = "a benchmark of clients starts threads")]
pub(super) fn restarted(
    running: &mut Running,
    cluster: &Server,
    rows: u32,
) -> Result<(f64, u64), Failure> {
    place_accounts(cluster, rows, [1, 2, 3])?;
    let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
    // The longest pause since the restart of the process before.
    let pause_ms = AtomicU64::new(0);
    let names: Vec<String> =
        running.file.processes.iter().map(|process| process.member.name.clone()).collect();
    let connection = cluster.connection();
    std::thread::scope(|scope| {
        let (stop, failed, pause_ms) = (&stop, &failed, &pause_ms);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(cluster, rows, number, stop, failed, pause_ms)))
            .collect();
        // Nodes come first: their rows go to processes that keep running.
        let rolled = names.iter().rev().try_for_each(|name| {
            drain(&running.file, &connection, name, false)?;
            running.end(name);
            running.start_again(name)?;
            until_whole(cluster)?;
            clock::sleep(BETWEEN);
            let pause = pause_ms.swap(0, Ordering::SeqCst);
            eprintln!("{name} was emptied, stopped and started: the longest pause was {pause} ms");
            Ok(())
        });
        stop.store(true, Ordering::SeqCst);
        let pauses: Vec<Duration> =
            clients.into_iter().map(|client| client.join().expect("no client panics")).collect();
        rolled.map(|()| {
            let longest = pauses.into_iter().max().unwrap_or_default();
            (longest.as_secs_f64(), failed.load(Ordering::SeqCst))
        })
    })
}

/// Writes rows of all processes, and reconnects when the connection has ended. Returns the longest
/// time between two completed writes.
fn work(
    cluster: &Server,
    rows: u32,
    number: u64,
    stop: &AtomicBool,
    failed: &AtomicU64,
    pause_ms: &AtomicU64,
) -> Duration {
    let (mut rng, mut client) = (random(number), cluster.connect().ok());
    let (mut last, mut longest) = (clock::now(), Duration::ZERO);
    while !stop.load(Ordering::SeqCst) {
        let Some(connected) = client.as_mut().filter(|client| !client.is_closed()) else {
            clock::sleep(LOOK);
            client = cluster.connect().ok();
            continue;
        };
        let aid = rng.random_range(1..=rows);
        let write =
            format!("update pgbench_accounts set abalance = abalance + 1 where aid = {aid}");
        match connected.batch_execute(&write) {
            Ok(()) => {
                let pause = last.elapsed();
                longest = longest.max(pause);
                pause_ms.fetch_max(pause.as_millis() as u64, Ordering::SeqCst);
                last = clock::now();
            }
            // The router's process closes its connections when it stops; the client reconnects.
            Err(error) if ends_connection(&error) => {}
            Err(error) => {
                eprintln!(
                    "refused: {}",
                    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
                );
                failed.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    longest.max(last.elapsed())
}

fn ends_connection(error: &postgres::Error) -> bool {
    error.code().is_none_or(|code| *code == SqlState::ADMIN_SHUTDOWN)
}

/// Waits until the router reaches all sites.
pub(super) fn until_whole(cluster: &Server) -> Result<(), Failure> {
    until(cluster, "select count(*) = 3 from isomer.sites where health like 'ok%'")
}

/// Waits until a query returns true. The server may be down meanwhile.
pub(super) fn until(cluster: &Server, question: &str) -> Result<(), Failure> {
    let begun = clock::now();
    loop {
        let is_so = asked::<bool>(cluster, question);
        match is_so {
            Ok(true) => return Ok(()),
            Err(error) if begun.elapsed() > LIMIT => return Err(error),
            Ok(false) if begun.elapsed() > LIMIT => {
                return Err(Failure::failed(format!(
                    "not so after {} s: {question}",
                    LIMIT.as_secs()
                )));
            }
            _ => clock::sleep(LOOK),
        }
    }
}

/// Repeats a statement until it succeeds. The server waits for a site by itself, but may refuse
/// statements while the old process ends.
fn until_done(client: &mut Client, what: &str) -> Result<(), Failure> {
    let begun = clock::now();
    while let Err(error) = client.batch_execute(what) {
        if begun.elapsed() > LIMIT || client.is_closed() {
            return Err(Failure::of_server(what, &error));
        }
        clock::sleep(LOOK);
    }
    Ok(())
}
