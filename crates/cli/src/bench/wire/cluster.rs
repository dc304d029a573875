//! `isomer bench cluster`: three processes whose logs are in Kafka, beside one process with its logs in files.
//!
//! All are on this machine, with a broker of their own, and share its processors. pgbench connects to the process that serves.
//! Accounts begin at all three, a third each, without replicas; TPC-B's transactions have their masters moved to where
//! tellers and branches are, in both. Each figure that compares is the median of ratios of two runs that follow each other.
//!
//! | key | |
//! | --- | --- |
//! | `commit_vs_producer_p50` | a commit of one client in a process of its own, over what a bare producer takes for such a record |
//! | `commits_per_record` | commits that 32 clients share a record for |
//! | `tpcb_vs_embedded`, `select_vs_embedded` | pgbench's TPC-B-like and select-only, prepared: the cluster over one process |
//! | `remote_reads_per_s` | select-only of rows that are at another process than the one that serves |
//! | `failover_log_s`, `failover_log_read_s` | from `kill -9` of a process with a million rows, which is started again at once, until a row of it is written, and until one is read |

use super::clients::{Clients, pgbench_init};
use super::servers::{Server, Transport, needs};
use crate::bench::kafka;
use crate::clock;
use crate::cluster::{Running, UpArgs};
use crate::failure::Failure;
use crate::isolation::IsolationLevel;
use crate::{out, text};
use isomer_server::Trust;
use postgres::Client;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Accounts of pgbench for each of its scale.
const ACCOUNTS: u32 = 100_000;
/// The process that is killed, and its site.
const KILLED: (&str, u16) = ("node1", 2);

/// Three processes whose logs are in Kafka, beside one process with its logs in files
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Needs pgbench (Debian: postgresql-contrib), a Java runtime, and Maven, which fetches Kafka once.

Examples:
  isomer bench cluster --json
  isomer bench cluster --seconds 20 --rounds 5"
)]
pub(crate) struct ClusterArgs {
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Pairs of runs for each figure
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u16,
    /// pgbench's scale: hundred thousand accounts each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    commit_vs_producer_p50: f64,
    commits_per_record: f64,
    tpcb_vs_embedded: f64,
    select_vs_embedded: f64,
    remote_reads_per_s: f64,
    failover_log_s: f64,
    failover_log_read_s: f64,
    failover_rows: u32,
}

/// Measures.
///
/// # Errors
/// If something is missing that it needs, or a run fails.
pub(crate) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    needs("pgbench", "postgresql-contrib")?;
    let folder = std::env::temp_dir().join(format!("isomer-bench-cluster-{}", std::process::id()));
    let measured = measure(args, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let figures = measured?;
    match args.json {
        true => out::line(serde_json::to_string(&figures).map_err(Failure::failed)?),
        false => out::print(figures.to_text()),
    }
    Ok(())
}

fn measure(args: &ClusterArgs, folder: &Path) -> Result<Figures, Failure> {
    let up = UpArgs {
        nodes: 3,
        kafka: true,
        sites: 1,
        data: folder.to_owned(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        trust: Trust::Loopback,
    };
    let running = Running::start(&up, false, &AtomicBool::new(false))?;
    let mut running = running.expect("nobody has told it to stop");
    let log = running.file.log.log.clone().expect("its logs are in Kafka");
    let (commit_vs_producer_p50, commits_per_record) =
        kafka::commits(format!("{log}-commits"), args.seconds)?;
    let port = running.file.router().clients.as_ref().and_then(|at| at.parse::<SocketAddr>().ok());
    let cluster = Server::at(port.expect("it is an address").port(), folder.to_owned())?;
    let embedded = Server::isomer(3, true, Transport::Tcp, IsolationLevel::ReadCommitted)?;
    for server in [&cluster, &embedded] {
        ask(server, "alter system set autopilot = off")?;
        pgbench_init(server, args.scale)?;
    }
    let rows = args.scale * ACCOUNTS;
    let thirds = [1, rows / 3, rows / 3 * 2];
    for server in [&cluster, &embedded] {
        for (at, site) in thirds.into_iter().zip(1..) {
            if at > 1 {
                ask(server, &format!("alter table pgbench_accounts split at ({at})"))?;
            }
            place(server, at, site)?;
        }
    }
    let clients = Clients { seconds: args.seconds, clients: args.clients, threads: 2, seed: 1 };
    let remote_reads_per_s = remote_reads(&clients, &cluster, rows, folder)?;
    let compare = |more: &[&str]| {
        let mut ratios = Vec::new();
        for _ in 0..args.rounds {
            let alone = clients.pgbench(&embedded, more)?;
            ratios.push(clients.pgbench(&cluster, more)? / alone);
        }
        Ok::<f64, Failure>(median(ratios))
    };
    let (select_vs_embedded, tpcb_vs_embedded) = (compare(&["-S"])?, compare(&[])?);
    drop(embedded);
    // All accounts to one process, so that it has as many rows as the figure says.
    for at in thirds {
        place(&cluster, at, KILLED.1)?;
    }
    let (failover_log_read_s, failover_log_s) = failover(&mut running, &cluster)?;
    running.stop();
    Ok(Figures {
        bench: "cluster",
        commit_vs_producer_p50,
        commits_per_record,
        tpcb_vs_embedded,
        select_vs_embedded,
        remote_reads_per_s,
        failover_log_s,
        failover_log_read_s,
        failover_rows: rows,
    })
}

fn ask(server: &Server, what: &str) -> Result<(), Failure> {
    server.connect()?.batch_execute(what).map_err(|error| Failure::of_server(what, &error))
}

/// Has accounts at one site only: those of the partition of an account.
fn place(server: &Server, at: u32, site: u16) -> Result<(), Failure> {
    let mut client = server.connect()?;
    let mut alter = |change: String| {
        let changed = client.batch_execute(&format!("alter table pgbench_accounts {change}"));
        // It is as it should be already.
        let is_so =
            |error: &postgres::Error| error.code().is_some_and(|code| code.code() == "22023");
        match changed {
            Err(error) if !is_so(&error) => Err(Failure::of_server(&change, &error)),
            _ => Ok(()),
        }
    };
    alter(format!("remaster at ({at}) to site {site}"))?;
    let others = (1..=3).filter(|other| *other != site);
    others
        .into_iter()
        .try_for_each(|other| alter(format!("drop replica at ({at}) on site {other}")))
}

/// Reads of rows in the second third.
fn remote_reads(
    clients: &Clients,
    cluster: &Server,
    rows: u32,
    folder: &Path,
) -> Result<f64, Failure> {
    let (first, last) = (rows / 3, rows / 3 * 2 - 1);
    let script = folder.join("remote.sql");
    let text = format!(
        "\\set aid random({first}, {last})\nselect abalance from pgbench_accounts where aid = :aid;\n"
    );
    std::fs::write(&script, text).map_err(Failure::failed)?;
    let read = clients.pgbench(cluster, &["-f", &script.display().to_string()])?;
    let placed = "select master || coalesce(replicas, '') from isomer.partitions where relation = 'pgbench_accounts' \
                  order by first_key nulls first limit 1 offset 1";
    let placed = cluster.connect()?.query_one(placed, &[]);
    let placed: String = placed.map_err(|error| Failure::of_server("partitions", &error))?.get(0);
    match placed.trim() {
        "s2" => Ok(read),
        placed => Err(Failure::failed(format!("the rows were to be at s2, and are at {placed}"))),
    }
}

/// Seconds from the kill until a row was read, and until one was written.
fn failover(running: &mut Running, cluster: &Server) -> Result<(f64, f64), Failure> {
    let mut client = cluster.connect()?;
    let read = "select abalance from pgbench_accounts where aid = 1";
    let write = "update pgbench_accounts set abalance = abalance + 1 where aid = 1";
    // It is in use until it is killed.
    client.batch_execute(write).map_err(|error| Failure::of_server(write, &error))?;
    let begun = clock::now();
    running.kill_and_restart(KILLED.0)?;
    until_done(&mut client, read);
    let read_s = begun.elapsed().as_secs_f64();
    until_done(&mut client, write);
    Ok((read_s, begun.elapsed().as_secs_f64()))
}

/// Repeats a statement until it is not refused. (It waits by itself; it may be refused while the old process goes.)
fn until_done(client: &mut Client, what: &str) {
    while client.batch_execute(what).is_err() {
        clock::sleep(Duration::from_millis(10));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Figures {
    fn to_text(&self) -> String {
        format!(
            "a commit, over a bare producer's record       {:.2} times as long, at the median\n\
             commits of 32 clients                         {:.1} in a record\n\
             TPC-B-like, over one process with files       {:.2}\n\
             select-only, over one process                 {:.2}\n\
             reads of rows at another process              {} a second\n\
             kill -9 of a process with {} rows      read after {:.1} s, written after {:.1} s\n",
            self.commit_vs_producer_p50,
            self.commits_per_record,
            self.tpcb_vs_embedded,
            self.select_vs_embedded,
            text::count(self.remote_reads_per_s as u64),
            text::count(u64::from(self.failover_rows)),
            self.failover_log_read_s,
            self.failover_log_s,
        )
    }
}
