//! `isomer cluster drain`: moves everything away from the sites of a process, so that it can be
//! stopped without delays.
//!
//! The command is an SQL client. The server makes a plan and executes it online (`ALTER SYSTEM
//! DRAIN SITE`), where it can be watched, paused and cancelled. `--dry-run` makes a plan for the
//! rows of `isomer.partitions`. The server's plan has the database's own tables as well, and keeps
//! together what recent transactions used together.
//!
//! ```text
//!   accounts[]      s2, replica s1      add_replica accounts[] s3      keeps the number of copies
//!                                       remaster accounts[] s1         an existing replica is
//!                                       remove_replica accounts[] s2   promoted
//!                                       remove_replica accounts[] s2
//!   accounts[500]   s1, replica s2      add_replica accounts[500] s3
//!                                       remove_replica accounts[500] s2
//! ```

use super::file::{ClusterFile, Process};
use crate::failure::Failure;
use crate::out;
use crate::reconfigure::Server;
use isomer_design::SiteId;
use isomer_plan::drain::{Copies, Move};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Empties the sites of a process, so that it can be stopped without delays
///
/// Everything there moves to other reachable processes, with the same number of copies if there are
/// enough processes. Transactions continue meanwhile, and new tables are placed elsewhere. The
/// process stays in the cluster; after its restart new tables, the autopilot and `ALTER TABLE ..
/// REMASTER` may use it again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  isomer cluster drain b --config cluster.toml
  isomer cluster drain b --config cluster.toml --server 'host=/var/lib/isomer port=5433 user=isomer dbname=isomer'")]
pub(crate) struct DrainArgs {
    /// The process, as the file names it
    name: String,
    /// The cluster's configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The server, as a connection string of PostgreSQL's clients [default: the addresses for
    /// clients in the file]
    #[arg(long, value_name = "CONNECTION")]
    server: Option<String>,
    /// Only shows the plan
    #[arg(long)]
    dry_run: bool,
}

/// The time for a process to say which processes have joined.
const ANSWER: Duration = Duration::from_secs(5);
/// The number of plans to try, if the design changes during their execution.
const TRIES: u32 = 5;

/// The placement of a partition, as `isomer.partitions` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// In the notation of plans: `accounts[500]`.
    pub(super) partition: String,
    pub(super) master: SiteId,
    pub(super) replicas: BTreeSet<SiteId>,
}

/// Runs the command.
///
/// # Errors
/// If the server cannot be reached, or the plan was not completed.
pub(super) fn run(args: &DrainArgs) -> Result<(), Failure> {
    let (file, _) = ClusterFile::whole(&args.config, None, ANSWER)?;
    let server = args.server.clone().unwrap_or_else(|| connection(&file));
    if !args.dry_run {
        return drain(&file, &server, &args.name, true);
    }
    let (drained, others) = sides(&file, &args.name)?;
    let mut server = Server::connect(&server)?;
    let others = reached(&mut server, others)?;
    out::print(plan(&partitions(&mut server)?, &drained, &others).join("\n"));
    Ok(())
}

/// The addresses for clients in the file, each tried if those before it refuse: any process that
/// serves can be asked.
pub(super) fn connection(file: &ClusterFile) -> String {
    let first = &file.router().member.name;
    let given = |process: &Process| process.clients.clone();
    let others = file.processes.iter().filter(|process| process.member.name != *first);
    let first = given(file.router()).unwrap_or_else(|| "127.0.0.1:5433".to_owned());
    let all: Vec<String> = std::iter::once(first).chain(others.filter_map(given)).collect();
    let parts = all.iter().map(|clients| clients.rsplit_once(':').unwrap_or((clients, "5433")));
    let (hosts, ports): (Vec<&str>, Vec<&str>) = parts.unzip();
    format!("host={} port={} user=isomer dbname=isomer", hosts.join(","), ports.join(","))
}

/// Empties the sites of a process; prints progress if `says` is set.
///
/// # Errors
/// If the server cannot be reached, or the plan was not completed.
pub fn drain(file: &ClusterFile, server: &str, name: &str, says: bool) -> Result<(), Failure> {
    let (drained, others) = sides(file, name)?;
    let mut server = Server::connect(server)?;
    let others = reached(&mut server, others)?;
    if others.is_empty() {
        return Err(Failure::failed(format!(
            "no other process is reached that could take what {name} has"
        )));
    }
    // Repeats until nothing is left, because a transaction or the autopilot may bring more. A plan
    // that conflicts with such a change undoes its own changes.
    let sites: Vec<String> = drained.iter().map(SiteId::to_string).collect();
    let statement = format!("alter system drain site {}", sites.join(", "));
    let mut failed = None;
    for _ in 0..TRIES {
        match server.carry_out(&statement, says) {
            // There was nothing to move.
            Ok(0) => {
                if says {
                    out::line(format!("{name} has no partitions any more"));
                }
                return Ok(());
            }
            made => failed = made.err(),
        }
    }
    Err(failed.unwrap_or_else(|| {
        Failure::failed(format!(
            "{name} has got something again each time; if that is the autopilot, ALTER SYSTEM SET autopilot = off, and drain it \
             once more"
        ))
    }))
}

/// The sites of a process, and those of all others with the names of their processes.
fn sides(
    file: &ClusterFile,
    name: &str,
) -> Result<(BTreeSet<SiteId>, BTreeMap<SiteId, String>), Failure> {
    let (own, others) = file.split(name).map_err(Failure::usage)?;
    let named = |member: &isomer_net::Member| {
        let name = member.name.clone();
        member.sites.iter().map(|site| (*site, name.clone())).collect::<Vec<_>>()
    };
    Ok((own.member.sites, others.iter().flat_map(named).collect()))
}

/// The sites that the server can reach.
fn reached(
    server: &mut Server,
    sites: BTreeMap<SiteId, String>,
) -> Result<BTreeMap<SiteId, String>, Failure> {
    let rows = server.query("select site from isomer.sites where health like 'ok%'")?;
    let is_there: BTreeSet<SiteId> = rows.iter().filter_map(|row| site_named(row.get(0))).collect();
    Ok(sites.into_iter().filter(|(site, _)| is_there.contains(site)).collect())
}

/// The placement of all partitions of tables and indexes.
pub(super) fn partitions(server: &mut Server) -> Result<Vec<Placed>, Failure> {
    let rows =
        server.query("select relation, first_key, master, replicas from isomer.partitions")?;
    let placed = |row: &postgres::Row| {
        let (relation, key): (&str, Option<&str>) = (row.get(0), row.get(1));
        let replicas: Option<&str> = row.get(3);
        Some(Placed {
            partition: format!("{relation}[{}]", key.unwrap_or_default()),
            master: site_named(row.get(2))?,
            replicas: replicas.unwrap_or_default().split(' ').filter_map(site_named).collect(),
        })
    };
    Ok(rows.iter().filter_map(placed).collect())
}

/// Parses a site such as `s3`.
pub(super) fn site_named(text: &str) -> Option<SiteId> {
    text.strip_prefix('s')?.parse().ok().map(SiteId)
}

/// The changes that empty some sites, grouped by partition, so that a failure leaves other
/// partitions as they are.
fn plan(
    partitions: &[Placed],
    drained: &BTreeSet<SiteId>,
    others: &BTreeMap<SiteId, String>,
) -> Vec<String> {
    let copies = |placed: &Placed| {
        let (master, replicas) = (placed.master, placed.replicas.clone());
        Copies { master, replicas }
    };
    let copies: Vec<Copies> = partitions.iter().map(copies).collect();
    let moves = isomer_plan::drain::drain(&copies, drained, others, &[]);
    let line = |partition: &str, step: Move| match step {
        Move::AddReplica(site) => format!("add_replica {partition} {site}"),
        Move::Remaster(site) => format!("remaster {partition} {site}"),
        Move::RemoveReplica(site) => format!("remove_replica {partition} {site}"),
    };
    let lines = |(placed, moves): (&Placed, Vec<Move>)| -> Vec<String> {
        moves.into_iter().map(|step| line(&placed.partition, step)).collect()
    };
    partitions.iter().zip(moves).flat_map(lines).collect()
}
