//! What clients see of a process that is killed, and of all processes that are stopped and started in turn.

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
/// How long something may take until the benchmark is given up.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(10);
/// Clients that work while processes are stopped and started.
const CLIENTS: u64 = 4;
/// For so long they work at least between two processes.
const BETWEEN: Duration = Duration::from_millis(500);

/// The process that has all accounts is killed: first it is started again at once, then others take over from it.
pub(super) fn killed(
    running: &mut Running,
    cluster: &Server,
    rows: u32,
    figures: &mut Figures,
) -> Result<(), Failure> {
    // All accounts at one process, so that it has as many rows as the figure says.
    place_accounts(cluster, rows, [KILLED.1; 3])?;
    let mut client = cluster.connect()?;
    // It is in use until it is killed.
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

/// Each process is emptied, stopped and started in turn: the longest time that a client had no statement answered, and how
/// many were refused at connections that went on.
#[allow(clippy::disallowed_methods, reason = "a benchmark of clients starts threads")]
pub(super) fn restarted(
    running: &mut Running,
    cluster: &Server,
    rows: u32,
) -> Result<(f64, u64), Failure> {
    place_accounts(cluster, rows, [1, 2, 3])?;
    let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
    // Since the process before.
    let pause_ms = AtomicU64::new(0);
    let names: Vec<String> =
        running.file.processes.iter().map(|process| process.member.name.clone()).collect();
    let connection = cluster.connection();
    std::thread::scope(|scope| {
        let (stop, failed, pause_ms) = (&stop, &failed, &pause_ms);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(cluster, rows, number, stop, failed, pause_ms)))
            .collect();
        // Nodes first: their rows go to others that stay.
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

/// Writes rows of all processes, connects anew whenever the connection has ended, and gives the longest time between two
/// answers.
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
            // Whose connection ends with the process that serves connects anew.
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

/// Waits until all sites are reached by the process that serves.
pub(super) fn until_whole(cluster: &Server) -> Result<(), Failure> {
    until(cluster, "select count(*) = 3 from isomer.sites where health like 'ok%'")
}

/// Waits until a question is answered with true; the server may be away meanwhile.
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

/// Repeats a statement until it is not refused. (It waits by itself; it may be refused while the old process goes.)
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
