//! A cluster of several processes on this machine, for trying out.

use crate::clock;
use crate::failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the command looks whether it was asked to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Starts a cluster on this machine, for trying out: one process that serves, and nodes
///
/// Its folder gets the file `cluster.toml` and a folder for each process; with the same folder it goes on. Ctrl-C ends
/// all of them.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  isomer cluster up --nodes 3 --data /tmp/three
  isomer cluster status --config /tmp/three/cluster.toml
  psql -h /tmp/three/serve -p 5433 -d isomer -U isomer")]
pub(crate) struct UpArgs {
    /// Nodes of a new cluster, beside the process that serves
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Sites of each process of a new cluster
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: u16,
    /// The cluster's folder
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    listen: String,
}

/// A process of the cluster; it is ended with this one.
struct Part {
    name: String,
    child: Child,
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has ended, or is to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a cluster until it is told to stop, or one of its processes ends.
///
/// # Errors
/// If a process cannot be started, or has ended.
pub(super) fn run(args: &UpArgs) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::failed)?;
    }
    isomer_server::make_private_files();
    std::fs::create_dir_all(&args.data).map_err(Failure::failed)?;
    let config = args.data.join("cluster.toml");
    if !config.exists() {
        std::fs::write(&config, file(args.nodes, args.sites)?).map_err(Failure::failed)?;
    }
    let file = super::ClusterFile::open(&config).map_err(Failure::failed)?;
    let mut parts = Vec::new();
    for process in &file.processes {
        parts.push(start(&process.member.name, process.role, &config, args)?);
    }
    while !stop.load(Ordering::SeqCst) {
        clock::sleep(LOOK);
        for part in &mut parts {
            if let Some(ended) = part.child.try_wait().map_err(Failure::failed)? {
                return Err(Failure::failed(format!(
                    "the process {} has ended: {ended}",
                    part.name
                )));
            }
        }
    }
    // The one that serves first: then nothing is under way at the nodes.
    for part in &mut parts {
        let asked = Command::new("kill").arg(part.child.id().to_string()).status();
        if asked.is_ok_and(|asked| asked.success()) {
            let _ = part.child.wait();
        }
    }
    Ok(())
}

fn start(
    name: &str,
    role: isomer_net::Role,
    config: &Path,
    args: &UpArgs,
) -> Result<Part, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut command = Command::new(program);
    command.arg(if role == isomer_net::Role::Router { "serve" } else { "node" });
    command.arg("--config").arg(config).args(["--name", name, "--data"]).arg(args.data.join(name));
    if role == isomer_net::Role::Router {
        command.args(["--listen", &args.listen]);
    }
    let child = command.spawn().map_err(Failure::failed)?;
    Ok(Part { name: name.to_owned(), child })
}

/// The file of a new cluster: ports that are free now.
fn file(nodes: u16, sites: u16) -> Result<String, Failure> {
    let listeners: Result<Vec<TcpListener>, std::io::Error> =
        (0..=nodes).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let mut text = "# A cluster of `isomer cluster up`: who is in it, and where.\n".to_owned();
    for (at, listener) in (0..).zip(listeners.map_err(Failure::failed)?) {
        let address = listener.local_addr().map_err(Failure::failed)?;
        let own: Vec<String> = (1..=sites).map(|site| (at * sites + site).to_string()).collect();
        let name = if at == 0 { "serve".to_owned() } else { format!("node{at}") };
        let router = if at == 0 { "router = true\n" } else { "" };
        write!(
            text,
            "\n[[process]]\nname = \"{name}\"\naddress = \"{address}\"\nsites = [{}]\n{router}",
            own.join(", ")
        )
        .expect("text can be written to");
    }
    Ok(text)
}
