//! `isomer cluster restart`: restarts all processes of a cluster, one after the other, while
//! clients of the others work.
//!
//! ```text
//!   for each process, the one with the conductor last:
//!     whole?      every process reaches every other, every site works, no backup is missing
//!     masters     partitions with a copy at another process are mastered there
//!     restart     it lets transactions end, ends idle sessions with 57P01, closes its database; if
//!                 it has the conductor, another process takes that at once; it begins anew
//!     whole?      waited for, before the next process
//! ```
//!
//! The processes restart themselves ([`isomer_net::ask_restart`]), as the program that is installed
//! then. So this command runs on any machine, and a supervisor notices nothing.
//!
//! Partitions without a copy elsewhere are not served until their process is back: statements on
//! them wait. With logs in files, nothing runs while the process with the router restarts.

use super::drain::{Placed, partitions, site_named};
use super::file::{ClusterFile, Process};
use super::state_of;
use crate::failure::Failure;
use crate::reconfigure::{Server, quoted};
use crate::{clock, out};
use isomer_design::SiteId;
use isomer_net::{NodeTls, Role, ask_restart, ask_run, ask_status};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Restarts all processes of a cluster, one after the other
///
/// Each process lets the transactions of its clients end, closes idle sessions with 57P01, and
/// begins anew as the program that is installed then. Its partitions are served by other processes
/// meanwhile, where they have backups. The next process follows once all sites work and no backup
/// is missing. A cluster in which something is missing already is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  isomer cluster restart --config cluster.toml
  isomer cluster restart --config cluster.toml --only b
  isomer cluster restart --config cluster.toml --server 'host=10.0.0.1,10.0.0.2 user=isomer dbname=isomer'")]
pub(crate) struct RestartArgs {
    /// The cluster's configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Restarts only this process
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The servers to ask, as a connection string of PostgreSQL's clients; may name several hosts
    /// [default: the addresses for clients in the file]
    #[arg(long, value_name = "CONNECTION")]
    server: Option<String>,
    /// The seconds that a process waits for the transactions of its clients; then they are rolled
    /// back
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    transactions: u64,
    /// The seconds that a process may take until it is back and has all that it lacks
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
    /// Prints one JSON object for each process, instead of lines of text
    #[arg(long)]
    json: bool,
}

/// The time for a process to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The interval of looks at a process that restarts.
const LOOK: Duration = Duration::from_millis(100);

/// The cluster, and how to ask it.
struct Cluster<'a> {
    file: &'a ClusterFile,
    tls: Option<NodeTls>,
    server: Option<&'a str>,
}

/// The restart of one process.
#[derive(serde::Serialize)]
struct Restarted<'a> {
    process: &'a str,
    /// Masterships that were moved away before.
    moved: usize,
    had_conductor: bool,
    /// From the request until it answered anew.
    back_seconds: f64,
    /// From the request until nothing was missing in the cluster.
    whole_seconds: f64,
}

/// Runs the command.
///
/// # Errors
/// If something is missing in the cluster, or a process does not come back.
pub(super) fn run(args: &RestartArgs) -> Result<(), Failure> {
    let (file, tls) = ClusterFile::whole(&args.config, None, ANSWER)?;
    if let Some(only) = &args.only {
        file.split(only).map_err(Failure::usage)?;
    }
    let cluster = Cluster { file: &file, tls, server: args.server.as_deref() };
    if let Some(missing) = cluster.missing(None) {
        return Err(Failure::failed(format!("nothing was restarted: {missing}")));
    }
    let is_asked =
        |process: &&Process| args.only.as_ref().is_none_or(|only| *only == process.member.name);
    let (last, mut order): (Vec<_>, Vec<_>) =
        file.processes.iter().filter(is_asked).partition(|process| cluster.has_conductor(process));
    order.extend(last);
    for process in order {
        let restarted = cluster.restart(process, args)?;
        if args.json {
            out::line(serde_json::to_string(&restarted).map_err(Failure::failed)?);
        } else {
            let Restarted { process, back_seconds, whole_seconds, .. } = restarted;
            out::line(format!(
                "{process}: back after {back_seconds:.1} s, nothing is missing after {whole_seconds:.1} s"
            ));
        }
    }
    Ok(())
}

impl Cluster<'_> {
    fn restart<'p>(
        &self,
        process: &'p Process,
        args: &RestartArgs,
    ) -> Result<Restarted<'p>, Failure> {
        let (name, address) = (&*process.member.name, &*process.member.address);
        let tell = |what: std::fmt::Arguments<'_>| {
            if !args.json {
                out::line(format!("{name}: {what}"));
            }
        };
        let had_conductor = self.has_conductor(process);
        let moved = self.move_masters(process)?;
        tell(format_args!("{moved} partitions are mastered at other processes now"));
        if had_conductor {
            tell(format_args!("it has the conductor, which another process takes"));
        }
        let begun = clock::now_us();
        let seconds = || (clock::now_us() - begun) as f64 / 1e6;
        let longest = Duration::from_secs(args.transactions);
        let run = ask_restart(name, address, self.tls.as_ref(), ANSWER, longest);
        let run = run.map_err(|why| {
            Failure::failed(format!(
                "{name} was not restarted: {why}; the processes after it neither"
            ))
        })?;
        tell(format_args!("restarts once its transactions have ended"));
        let is_late = || seconds() > (args.transactions + args.wait) as f64;
        while ask_run(name, address, self.tls.as_ref(), ANSWER).is_ok_and(|now| now == run) {
            if is_late() {
                return Err(Failure::failed(format!("{name} does not stop")));
            }
            clock::sleep(LOOK);
        }
        while ask_run(name, address, self.tls.as_ref(), ANSWER).is_err() {
            if is_late() {
                return Err(Failure::failed(format!("{name} has stopped and does not come back")));
            }
            clock::sleep(LOOK);
        }
        let back_seconds = seconds();
        while let Some(missing) = self.missing(Some(name)) {
            if is_late() {
                return Err(Failure::failed(format!(
                    "{name} is back, and the processes after it were not restarted: {missing}"
                )));
            }
            clock::sleep(LOOK);
        }
        let whole_seconds = seconds();
        Ok(Restarted { process: name, moved, had_conductor, back_seconds, whole_seconds })
    }

    fn has_conductor(&self, process: &Process) -> bool {
        let (name, address) = (&process.member.name, &process.member.address);
        let status = ask_status(name, address, self.tls.as_ref(), ANSWER);
        status.is_ok_and(|status| status.role == Role::Router)
    }

    /// The first thing that is missing in the cluster, if there is one. `back` is a process that
    /// has just restarted.
    fn missing(&self, back: Option<&str>) -> Option<String> {
        for process in &self.file.processes {
            let (name, address) = (&process.member.name, &process.member.address);
            let answer = ask_status(name, address, self.tls.as_ref(), ANSWER);
            let (_, state) = state_of(name, &process.member.sites, answer);
            if state != "ok" {
                return Some(format!("process {name}: {state}"));
            }
        }
        match self.missing_in_sql(back) {
            Ok(missing) => missing,
            Err(Failure::Usage(why) | Failure::Failed(why)) => {
                Some(format!("{why}; --server says how to connect"))
            }
            Err(Failure::Told) => Some("the server does not answer".to_owned()),
        }
    }

    fn missing_in_sql(&self, back: Option<&str>) -> Result<Option<String>, Failure> {
        let mut server = self.connect(back)?;
        let ill = "select site, health from isomer.sites where health not like 'ok%' limit 1";
        if let Some(row) = server.query(ill)?.first() {
            let (site, health): (&str, &str) = (row.get(0), row.get(1));
            return Ok(Some(format!("site {site}: {health}")));
        }
        let lacking = "select value from isomer.metrics where name = 'isomer_backups_missing'";
        let lacking = server.query(lacking)?.first().map_or(0.0, |row| row.get::<_, f64>(0));
        if lacking > 0.0 {
            return Ok(Some(format!("{lacking} backups of partitions are missing")));
        }
        // A process that serves clients has a seat, and its own clients can connect.
        let back = self.file.processes.iter().find(|process| Some(&*process.member.name) == back);
        if let Some(own) = back.filter(|_| self.file.log.log.is_some()).and_then(own_server) {
            let seats = "select count(*) from isomer.gateways";
            let seats: i64 = server.query(seats)?.first().map_or(0, |row| row.get(0));
            let serving = self.file.processes.iter().filter(|at| at.clients.is_some()).count();
            if seats < serving as i64 {
                return Ok(Some(format!("{own} does not serve clients yet")));
            }
        }
        Ok(None)
    }

    /// A connection to a process, if possible not to `besides`.
    fn connect(&self, besides: Option<&str>) -> Result<Server, Failure> {
        if let Some(server) = self.server {
            return Server::connect(server);
        }
        let (own, others): (Vec<&Process>, Vec<&Process>) =
            self.file.processes.iter().partition(|at| Some(&*at.member.name) == besides);
        let mut failed = Failure::failed("the file has no addresses for clients");
        for connection in others.into_iter().chain(own).filter_map(own_server) {
            match Server::connect(&connection) {
                Ok(server) => return Ok(server),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Makes other processes the masters of the process's partitions, where they have copies.
    /// Returns the number of partitions.
    fn move_masters(&self, process: &Process) -> Result<usize, Failure> {
        let mut server = self.connect(Some(&process.member.name))?;
        let rows = server.query("select site from isomer.sites where health like 'ok%'")?;
        let others: BTreeSet<SiteId> =
            rows.iter().filter_map(|row| site_named(row.get(0))).collect();
        let others = &others - &process.member.sites;
        let plan = moves(&partitions(&mut server)?, &process.member.sites, &others);
        if !plan.is_empty() {
            let plan = quoted(&plan.join("\n"));
            server.carry_out(&format!("alter system reconfigure {plan}"), false)?;
        }
        Ok(plan.len())
    }
}

/// The connection string of a process, if it has an address for clients.
fn own_server(process: &Process) -> Option<String> {
    let clients = process.clients.as_deref()?;
    let (host, port) = clients.rsplit_once(':')?;
    Some(format!("host={host} port={port} user=isomer dbname=isomer connect_timeout=5"))
}

/// The changes that make sites among `others` masters of what sites among `own` master.
fn moves(partitions: &[Placed], own: &BTreeSet<SiteId>, others: &BTreeSet<SiteId>) -> Vec<String> {
    let next = |placed: &Placed| {
        let mut copies = placed.replicas.intersection(others);
        copies.next().map(|site| format!("remaster {} {site}", placed.partition))
    };
    partitions.iter().filter(|placed| own.contains(&placed.master)).filter_map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_move_to_copies_at_other_processes() {
        let sites = |numbers: &[u16]| numbers.iter().copied().map(SiteId).collect();
        let placed = |partition: &str, master: u16, replicas: &[u16]| Placed {
            partition: partition.to_owned(),
            master: SiteId(master),
            replicas: sites(replicas),
        };
        let partitions = [
            placed("accounts[]", 1, &[2, 5]),
            placed("accounts[500]", 3, &[1]),
            placed("alone[]", 1, &[]),
            placed("beside[]", 2, &[1]),
        ];
        let moves = moves(&partitions, &sites(&[1, 2]), &sites(&[3, 4, 5, 6]));
        assert_eq!(moves, ["remaster accounts[] s5"]);
    }
}
