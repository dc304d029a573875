//! `isomer cluster`: who is in a cluster and who is reached; a cluster on this machine, for trying out.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`mod@file`] | the file that says who is in a cluster |
//! | [`join`] | how a process takes part: flags, place, connections |
//! | [`up`] | several processes on this machine |
//! | [`broker`] | a Kafka broker on this machine |

mod broker;
mod file;
mod join;
mod up;

pub(crate) use file::read_sites;
pub(crate) use join::{Belongs, PeerArgs, Place, Watch, wait_for_all};
#[cfg(feature = "kafka")]
pub(crate) use up::Running;
pub(crate) use up::UpArgs;

use crate::failure::Failure;
use crate::kafka::shown_logs;
use crate::{out, text};
use file::ClusterFile;
use isomer_design::SiteId;
use isomer_net::{Member, Role, Status, ask_status};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Shows who is in a cluster, and starts one on this machine
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    Up(UpArgs),
    Status(StatusArgs),
}

/// Shows the processes of a cluster, their sites, who reaches whom, and whose the logs are
///
/// Each process is asked for itself. Logs in Kafka are read, whatever they have; that changes nothing of whose they are. The
/// exit code is 1 if a process does not answer, or does not reach another, or no broker answers.
#[derive(clap::Args, Debug)]
pub(crate) struct StatusArgs {
    /// The file that says who is in the cluster
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// By whose certificate to ask, where the processes have them [default: that of the one with the router]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many seconds a process has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    wait: u64,
}

/// Runs a command.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Up(args) => up::run(args),
        ClusterCommand::Status(args) => status(args),
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let file = ClusterFile::open(&args.config).map_err(Failure::usage)?;
    let whose = args.name.as_ref().unwrap_or(&file.router().member.name);
    let tls = file.tls.open(whose)?;
    let header = ["process", "address", "sites", "role", "release", "state"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut is_whole = true;
    for process in &file.processes {
        let Member { name, address, sites } = &process.member;
        let limit = Duration::from_secs(args.wait);
        let answer = ask_status(name, address, tls.as_ref(), limit);
        let (release, state) = state_of(name, sites, answer);
        is_whole &= state == "ok";
        let role = if process.role == Role::Router { "router" } else { "node" };
        rows.push(vec![name.clone(), address.clone(), shown(sites), role.into(), release, state]);
    }
    out::print(text::columns(&rows, 0));
    if let Some((place, rows)) = shown_logs(&file.log)? {
        out::print(format!("\n{place}\n{}", text::columns(&rows, 0)));
    }
    if is_whole { Ok(()) } else { Err(Failure::Told) }
}

/// A process's release, and `ok` or what is wrong.
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
