//! `isomer cluster`: shows the members of a cluster and their connections, empties and restarts
//! processes, and runs a cluster on this machine for trials.
//!
//! | module | contents |
//! | --- | --- |
//! | [`mod@file`] | the configuration file of a cluster |
//! | [`join`] | a process as a member: flags, place, connections |
//! | [`joining`] | a process that joins a running cluster, and those that let it in |
//! | [`mod@drain`] | empties the sites of a process |
//! | [`remove`] | lets a process that has joined leave |
//! | [`restart`] | restarts all processes, one after the other |
//! | [`up`] | several processes on this machine |
//! | [`broker`] | a Kafka broker on this machine |
//! | [`nodes`] | redo logs that the processes keep for each other |
//! | [`ports`] | free ports for them |

mod broker;
mod drain;
mod file;
mod join;
mod joining;
mod nodes;
mod ports;
mod remove;
mod restart;
mod up;

#[cfg(feature = "kafka")]
pub use drain::drain;
pub(crate) use file::read_sites;
pub(crate) use join::{Belongs, PeerArgs, Place, Watch, is_member, removed, wait_for_all};
pub(crate) use joining::Lets;
pub use nodes::Kept;
pub(crate) use nodes::NODES;
pub use up::{BROKER, LogsAt, Running, UpArgs, WhenOneEnds};

use crate::failure::Failure;
use crate::kafka::shown_logs;
use crate::reconfigure::Server;
use crate::{out, text};
use file::ClusterFile;
use isomer_design::SiteId;
use isomer_net::{Member, Role, Status, ask_status};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Shows the members of a cluster, empties, removes or restarts them, and starts a cluster here
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    Up(UpArgs),
    Status(StatusArgs),
    Drain(drain::DrainArgs),
    Remove(remove::RemoveArgs),
    Restart(restart::RestartArgs),
}

/// Shows the processes of a cluster, their sites, their connections, the owners of the logs, and
/// the load of each site
///
/// Each process is asked for itself. Logs in Kafka are read with their contents, which does not
/// change their owners. The server reports the load of sites in SQL, at the address of --server or
/// of the file. The exit code is 1 if a process does not answer, or does not reach another, or no
/// broker answers.
#[derive(clap::Args, Debug)]
pub(crate) struct StatusArgs {
    /// The cluster's configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The process whose certificate is used, if the processes have certificates [default: the one
    /// with the router]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The seconds that a process has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    wait: u64,
    /// The server to ask for the load of the sites, as a connection string of PostgreSQL's clients
    /// [default: the addresses for clients in the file]
    #[arg(long, value_name = "CONNECTION")]
    server: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Up(args) => up::run(args),
        ClusterCommand::Status(args) => status(args),
        ClusterCommand::Drain(args) => drain::run(args),
        ClusterCommand::Remove(args) => remove::run(args),
        ClusterCommand::Restart(args) => restart::run(args),
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let limit = Duration::from_secs(args.wait);
    let (file, tls) = ClusterFile::whole(&args.config, args.name.as_deref(), limit)?;
    let header = ["process", "address", "sites", "role", "release", "state"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let (mut is_whole, mut conductors) = (true, 0);
    for process in &file.processes {
        let Member { name, address, sites, .. } = &process.member;
        let answer = ask_status(name, address, tls.as_ref(), limit);
        let role = match answer.as_ref().map(|status| status.role) {
            Ok(Role::Router) => {
                conductors += 1;
                "router"
            }
            Ok(Role::Standby) if process.joined => "has joined",
            Ok(Role::Standby) => "stands by",
            Ok(Role::Node) => "node",
            Err(_) => "",
        };
        let (release, state) = state_of(name, sites, answer);
        is_whole &= state == "ok";
        rows.push(vec![name.clone(), address.clone(), shown(sites), role.into(), release, state]);
    }
    out::print(text::columns(&rows, 0));
    if conductors == 0 {
        eprintln!(
            "no process that answers has the conductor, so statements wait; another process takes its place where the \
             logs outlive theirs, or else start `{}`",
            file.router().member.name
        );
        is_whole = false;
    }
    if file.log.log.as_deref() == Some(NODES) {
        let (rows, troubles) = nodes::shown(&file, tls.as_ref(), Duration::from_secs(args.wait));
        out::print(format!("\nredo logs at the nodes\n{}", text::columns(&rows, 0)));
        for trouble in &troubles {
            eprintln!("the logs at {trouble}");
        }
        is_whole &= troubles.is_empty();
    } else if let Some((place, rows)) = shown_logs(&file.log)? {
        out::print(format!("\n{place}\n{}", text::columns(&rows, 0)));
    }
    if args.server.is_some() || file.router().clients.is_some() {
        let server = args.server.clone().unwrap_or_else(|| drain::connection(&file));
        match sites(&server) {
            Ok(rows) => out::print(format!("\n{}", text::columns(&rows, 0))),
            Err(Failure::Usage(why) | Failure::Failed(why)) => {
                eprintln!("what the sites have is not shown: {why}; --server says how to connect");
            }
            Err(Failure::Told) => {}
        }
    }
    if is_whole { Ok(()) } else { Err(Failure::Told) }
}

/// The content and the load of each site.
fn sites(server: &str) -> Result<Vec<Vec<String>>, Failure> {
    let question = "select site, masters, replicas, memory_bytes / 1e6::float8, busy, commits, coordinated, health \
                    from isomer.sites";
    let header = ["site", "masters", "replicas", "MB", "busy", "commits", "over several", "health"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for row in Server::connect(server)?.query(question)? {
        let number = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or_default().to_string();
        let busy: Option<f64> = row.get(4);
        rows.push(vec![
            row.get(0),
            number(1),
            number(2),
            format!("{:.1}", row.get::<_, f64>(3)),
            busy.map_or(String::new(), |busy| format!("{:.0} %", busy * 100.0)),
            number(5),
            number(6),
            row.get(7),
        ]);
    }
    Ok(rows)
}

/// A process's release, and `ok` or the problem.
fn state_of(
    name: &str,
    sites: &BTreeSet<SiteId>,
    answer: Result<Status, String>,
) -> (String, String) {
    let status = match answer {
        Ok(status) => status,
        Err(why) => return (String::new(), format!("no answer: {why}")),
    };
    let gone = status.peers.iter().filter_map(|(peer, why)| Some((peer, why.as_ref()?)));
    let gone: Vec<String> = gone.map(|(peer, why)| format!("{peer}: {why}")).collect();
    let state = match () {
        () if status.name != name => format!("`{}` is there, and not `{name}`", status.name),
        () if status.sites != *sites => format!("it has the sites {}", shown(&status.sites)),
        () if !status.is_open => "its sites are not running yet".to_owned(),
        () if !gone.is_empty() => format!("it does not reach {}", gone.join("; ")),
        () => "ok".to_owned(),
    };
    (status.release, state)
}

fn shown(sites: &BTreeSet<SiteId>) -> String {
    let sites: Vec<String> = sites.iter().map(ToString::to_string).collect();
    sites.join(" ")
}
