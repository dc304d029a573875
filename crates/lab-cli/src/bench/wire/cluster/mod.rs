//! `isomer-lab bench cluster`: three processes with their logs in Kafka, beside one process with
//! its logs in files; and the effect on clients when processes are killed, restarted, or too small.
//!
//! All processes and a broker run on this machine and share its processors. Clients connect to the
//! process with the router. The accounts begin at all three processes, a third each, without
//! replicas. The masters of TPC-B's rows then move to the tellers and branches, in both systems. A
//! comparing figure is the median of ratios of two runs that follow each other.
//!
//! * `commit_vs_producer_p50` (speed): a commit of one client in a process of its own, over the
//!   time in which a bare producer sends such a record.
//! * `commits_per_record` (speed): commits in a record that 32 clients share.
//! * `tpcb_vs_embedded`, `select_vs_embedded` (speed): pgbench's TPC-B-like and select-only,
//!   prepared: the cluster over one process.
//! * `remote_reads_per_s` (speed): select-only of rows at a process other than the one with the
//!   router.
//! * `failover_log_s`, `failover_log_read_s` (failover): `kill -9` of a process with a million
//!   rows, which restarts at once: the time until a row of it is written, and until one is read.
//! * `failover_replica_s` (failover): the same for rows with a backup, while the process stays
//!   down: the time until one is written at another site. `failover_seconds` is 0.5.
//! * `rolling_pause_s`, `rolling_failed` (failover): each process is drained, stopped and started
//!   in turn. The longest time in which one of four clients, which reconnect, completed no write;
//!   and the statements that were refused at connections that stayed open.
//! * `spread_speedup`, `spread_single_site` (spread): TPC-C that begins at one of three processes
//!   with a third of the machine each. Throughput after two minutes of the autopilot over that
//!   before; and the share of transactions with writes that commit at one site ([`spread`]).
//! * `kills`, `lost`, `anomalies` (kills): `kill -9` of processes and of the broker, in turn, while
//!   clients transfer money: acknowledged transfers without an effect, and all anomalies
//!   ([`kills`]).
//!
//! A figure that was not measured is null; standard error says why.

mod gone;
mod kills;
mod spread;
mod thirds;

use super::clients::{Clients, pgbench_init_with_keys};
use super::servers::{Server, Transport, needs};
use crate::bench::kafka;
use clap::ValueEnum;
use isomer::cluster::{Running, UpArgs, WhenOneEnds};
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use isomer::stop::Stop;
use isomer::{out, text};
use isomer_server::Trust;
use postgres::types::FromSqlOwned;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;

/// Accounts of pgbench for each unit of its scale.
const ACCOUNTS: u32 = 100_000;
/// The process that is killed, and its site.
const KILLED: (&str, u16) = ("node1", 2);

/// Three processes whose logs are in Kafka, beside one process with its logs in files
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Needs pgbench (Debian: postgresql-contrib), a Java runtime, and Maven, which fetches Kafka once.

Examples:
  isomer-lab bench cluster --json
  isomer-lab bench cluster --seconds 20 --rounds 5
  isomer-lab bench cluster --only failover,kills --kills 200"
)]
pub(crate) struct ClusterArgs {
    /// Measures only these parts; separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Pairs of runs for each figure
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u16,
    /// pgbench's scale, in units of 100,000 accounts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,
    /// Seconds in which the autopilot spreads TPC-C
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    spread_seconds: u64,
    /// Kills of processes and brokers
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// A part of the figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Commits, and pgbench beside one process
    Speed,
    /// A killed process, and a restart of all processes
    Failover,
    /// TPC-C that begins at one process
    Spread,
    /// Many kills, and a check of all transfers
    Kills,
}

/// The figures; `None` if not measured.
#[derive(Default, Serialize)]
struct Figures {
    bench: &'static str,
    commit_vs_producer_p50: Option<f64>,
    commits_per_record: Option<f64>,
    tpcb_vs_embedded: Option<f64>,
    select_vs_embedded: Option<f64>,
    remote_reads_per_s: Option<f64>,
    failover_log_s: Option<f64>,
    failover_log_read_s: Option<f64>,
    failover_replica_s: Option<f64>,
    failover_rows: u32,
    rolling_pause_s: Option<f64>,
    rolling_failed: Option<u64>,
    spread_speedup: Option<f64>,
    spread_single_site: Option<f64>,
    kills: Option<u64>,
    transfers: Option<u64>,
    lost: Option<u64>,
    anomalies: Option<u64>,
}

/// Measures the parts and prints the figures.
///
/// # Errors
/// If a program is missing. A part that fails is reported on standard error, and the others are
/// measured.
pub(crate) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    needs("pgbench", "postgresql-contrib")?;
    let mut figures =
        Figures { bench: "cluster", failover_rows: args.scale * ACCOUNTS, ..Figures::default() };
    for part in Part::value_variants() {
        let name = part.to_possible_value().expect("none is hidden").get_name().to_owned();
        if !args.only.is_empty() && !args.only.contains(part) {
            eprintln!("{name} is not measured: --only leaves it out");
            continue;
        }
        let folder =
            std::env::temp_dir().join(format!("isomer-bench-{}-{name}", std::process::id()));
        let measured = measure(args, *part, &folder, &mut figures);
        let _ = std::fs::remove_dir_all(&folder);
        if let Err(Failure::Usage(why) | Failure::Failed(why)) = measured {
            eprintln!("{name}: what is null was not measured: {why}");
        }
    }
    match args.json {
        true => out::line(serde_json::to_string(&figures).map_err(Failure::failed)?),
        false => out::print(figures.to_text()),
    }
    Ok(())
}

/// Measures a part, at a cluster of its own.
fn measure(
    args: &ClusterArgs,
    part: Part,
    folder: &Path,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let up = UpArgs {
        nodes: 3,
        kafka: true,
        logs: None,
        sites: 1,
        data: folder.to_owned(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        when_one_ends: WhenOneEnds::Leave,
        trust: Trust::Loopback,
        http: None,
        keys: "failover_seconds = 0.5\nnode_wait_seconds = 60\n".to_owned(),
    };
    let running = Running::start(&up, false, &Stop::default())?;
    let mut running = running.expect("there is no signal to stop");
    let port = running.file.router().clients.as_ref().and_then(|at| at.parse::<SocketAddr>().ok());
    let cluster = Server::at(port.expect("it is an address").port(), folder.to_owned())?;
    gone::until_whole(&cluster)?;
    ask(&cluster, "alter system set autopilot = off")?;
    // Figures of earlier releases are of tables without backups; parts that need one ask for it.
    ask(&cluster, "alter system set default_backups = 0")?;
    match part {
        Part::Speed => speed(args, &running, &cluster, folder, figures)?,
        Part::Failover => {
            let rows = figures.failover_rows;
            load_accounts(&cluster, args.scale)?;
            gone::killed(&mut running, &cluster, rows, figures)?;
            let (pause, failed) = gone::restarted(&mut running, &cluster, rows)?;
            figures.rolling_pause_s = Some(pause);
            figures.rolling_failed = Some(failed);
        }
        Part::Spread => {
            let spread = spread::spread(&running, &cluster, args.spread_seconds)?;
            figures.spread_speedup = Some(spread.speedup);
            figures.spread_single_site = Some(spread.single_site);
        }
        Part::Kills => {
            let judged = kills::killed(&mut running, &cluster, args.kills)?;
            figures.kills = Some(args.kills.into());
            figures.transfers = Some(judged.transfers);
            figures.lost = Some(judged.lost);
            figures.anomalies = Some(judged.anomalies);
        }
    }
    running.stop();
    Ok(())
}

/// Compares the cluster with one process with its logs in files, and its commits with a bare
/// producer.
fn speed(
    args: &ClusterArgs,
    running: &Running,
    cluster: &Server,
    folder: &Path,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let log = running.file.log.log.clone().expect("its logs are in Kafka");
    let (commit, shared) = kafka::commits(format!("{log}-commits"), args.seconds)?;
    figures.commit_vs_producer_p50 = Some(commit);
    figures.commits_per_record = Some(shared);
    let embedded = Server::isomer(3, true, Transport::Tcp, IsolationLevel::ReadCommitted)?;
    for server in [cluster, &embedded] {
        load_accounts(server, args.scale)?;
    }
    let clients = Clients { seconds: args.seconds, clients: args.clients, threads: 2, seed: 1 };
    let rows = args.scale * ACCOUNTS;
    figures.remote_reads_per_s = Some(remote_reads(&clients, cluster, rows, folder)?);
    let compare = |more: &[&str]| {
        let mut ratios = Vec::new();
        for _ in 0..args.rounds {
            let alone = clients.pgbench(&embedded, more)?;
            ratios.push(clients.pgbench(cluster, more)? / alone);
        }
        Ok::<f64, Failure>(median(ratios))
    };
    figures.select_vs_embedded = Some(compare(&["-S"])?);
    figures.tpcb_vs_embedded = Some(compare(&[])?);
    Ok(())
}

/// Creates pgbench's tables, with a third of the accounts at each process.
fn load_accounts(server: &Server, scale: u32) -> Result<(), Failure> {
    pgbench_init_with_keys(server, scale)?;
    let rows = scale * ACCOUNTS;
    for at in thirds(rows).into_iter().skip(1) {
        ask(server, &format!("alter table pgbench_accounts split at ({at})"))?;
    }
    place_accounts(server, rows, [1, 2, 3])
}

/// The first account of each third.
fn thirds(rows: u32) -> [u32; 3] {
    [1, rows / 3, rows / 3 * 2]
}

/// Places each third of the accounts at one site, without replicas.
fn place_accounts(server: &Server, rows: u32, sites: [u16; 3]) -> Result<(), Failure> {
    thirds(rows).into_iter().zip(sites).try_for_each(|(at, site)| place(server, at, site))
}

/// The single value that a query returns.
fn asked<T: FromSqlOwned>(server: &Server, what: &str) -> Result<T, Failure> {
    let answer = server.connect()?.query_one(what, &[]);
    let answer = answer.and_then(|row| row.try_get(0));
    answer.map_err(|error| Failure::of_server(what, &error))
}

fn ask(server: &Server, what: &str) -> Result<(), Failure> {
    server.connect()?.batch_execute(what).map_err(|error| Failure::of_server(what, &error))
}

/// Places the partition of account `at` at one site, without replicas.
fn place(server: &Server, at: u32, site: u16) -> Result<(), Failure> {
    let mut client = server.connect()?;
    let mut alter = |change: String| {
        let changed = client.batch_execute(&format!("alter table pgbench_accounts {change}"));
        // 22023: the partition is there already.
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

/// Measures reads of rows in the second third, which are at a process without the router.
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Figures {
    fn to_text(&self) -> String {
        let number = |value: Option<f64>| match value {
            Some(value) => format!("{value:.2}"),
            None => "not measured".to_owned(),
        };
        let count = |value: Option<u64>| value.map_or("not measured".to_owned(), text::count);
        let rows = text::count(u64::from(self.failover_rows));
        [
            ("a commit, in times of a bare producer's record", number(self.commit_vs_producer_p50)),
            ("commits of 32 clients in a record", number(self.commits_per_record)),
            ("TPC-B-like, over one process with files", number(self.tpcb_vs_embedded)),
            ("select-only, over one process", number(self.select_vs_embedded)),
            (
                "reads a second of rows at another process",
                count(self.remote_reads_per_s.map(|reads| reads as u64)),
            ),
            (
                &format!("kill -9 of a process with {rows} rows: read after s"),
                number(self.failover_log_read_s),
            ),
            ("  written after s", number(self.failover_log_s)),
            (
                "  written elsewhere, where they have a backup, after s",
                number(self.failover_replica_s),
            ),
            ("each process restarted: the longest pause, s", number(self.rolling_pause_s)),
            ("  statements refused meanwhile", count(self.rolling_failed)),
            ("TPC-C spread over three small processes, over one", number(self.spread_speedup)),
            ("  committed at one site", number(self.spread_single_site)),
            ("kills of processes and the broker", count(self.kills)),
            ("  transfers", count(self.transfers)),
            ("  of them lost", count(self.lost)),
            ("  anomalies", count(self.anomalies)),
        ]
        .map(|(what, figure)| format!("{what:<56} {figure}\n"))
        .concat()
    }
}
