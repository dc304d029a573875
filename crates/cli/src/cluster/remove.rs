//! `isomer cluster remove`: lets a process that has joined the cluster leave it.

use super::drain::{connection, drain};
use super::file::ClusterFile;
use crate::failure::Failure;
use crate::out;
use crate::reconfigure::Server;
use std::path::PathBuf;
use std::time::Duration;

/// The time for a process to say which processes have joined.
const ANSWER: Duration = Duration::from_secs(5);

/// Removes a process that has joined the cluster, after emptying it
///
/// Everything at its sites moves to other processes first, while transactions continue. Then its
/// sites leave the database, and the process ends. The processes in the cluster's file keep the
/// redo logs, and stay.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  isomer cluster remove d --config cluster.toml")]
pub(crate) struct RemoveArgs {
    /// The process
    name: String,
    /// The cluster's configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The server, as a connection string of PostgreSQL's clients [default: the addresses for
    /// clients in the file]
    #[arg(long, value_name = "CONNECTION")]
    server: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If the server cannot be reached, or the process is one of the file, or cannot be emptied.
pub(super) fn run(args: &RemoveArgs) -> Result<(), Failure> {
    let (file, _) = ClusterFile::whole(&args.config, None, ANSWER)?;
    let (own, _) = file.split(&args.name).map_err(Failure::usage)?;
    let name = &args.name;
    if !own.joined {
        return Err(Failure::usage(format!(
            "`{name}` keeps redo logs for the others, as all processes in the file do, and cannot leave them: only \
             processes that have joined can. `isomer cluster drain` empties it"
        )));
    }
    let server = args.server.clone().unwrap_or_else(|| connection(&file));
    drain(&file, &server, name, true)?;
    let quoted = name.replace('\'', "''");
    Server::connect(&server)?.query(&format!("alter system remove node '{quoted}'"))?;
    out::line(format!("{name} has left the cluster"));
    Ok(())
}
