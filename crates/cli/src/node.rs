//! `isomer node`: sites of a database whose router is in another process.

use crate::cluster::{PeerArgs, read_sites};
use crate::failure::Failure;
use crate::kafka::LogArgs;
use crate::logging::LogStyle;
use crate::serve::{CheckpointArgs, SiteMemory};
use crate::standby::{Hosting, host};
use crate::stop::Stop;
use clap::Args;
use isomer_cluster::Durability;
use isomer_design::SiteId;
use isomer_net::Role;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Hosts sites of a database that `isomer serve` serves from another process
///
/// A file (--config) or flags (--peers) tell all processes of each other; each has a folder of its
/// own. A node may start before the others or after them. With its logs in Kafka and its
/// checkpoints in an object store it may start in an empty folder. It then takes its sites over
/// from the process that has them. Without that store this works as long as its logs still reach
/// back to their beginning.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  isomer node --config cluster.toml --name b --data /var/lib/isomer/b
  isomer node --config cluster.toml --name b --data /var/lib/isomer/b --log kafka://broker1:9092/shop \
      --checkpoints file:///shared/shop
  isomer node --name b --sites 3,4 --node-listen 127.0.0.1:7434 --peers a=127.0.0.1:7433/1,2 --data b")]
pub(crate) struct NodeArgs {
    /// The node's folder; a missing or empty one becomes that of a new node
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its sites, if no file has them: numbers separated by commas
    #[arg(long, value_name = "SITES", value_parser = read_sites, required_unless_present = "config", conflicts_with = "config")]
    sites: Option<BTreeSet<SiteId>>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    peers: PeerArgs,
    /// Where PostgreSQL's clients may connect as well; their connections are forwarded to the
    /// gateway process [default: the address in the cluster's file, or none]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where browsers may open the console as well; their connections are forwarded to the console
    /// of the gateway process, whose address is in the cluster's file [default: that in the file]
    #[arg(long, value_name = "ADDR", requires = "config")]
    http: Option<SocketAddr>,
    /// The gateway's address for clients, if no file has it
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config")]
    serves_at: Option<String>,
    /// The most clients at a time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// The memory limit for the rows of each of its sites, such as 512MB or 4GB; 0: no limit
    #[arg(long, value_name = "SIZE", value_parser = isomer_server::read_site_memory, default_value = "0")]
    site_memory: SiteMemory,
    /// Do not wait for the disk at a commit: a crash may lose the last milliseconds
    #[arg(long)]
    no_sync: bool,
    /// Start even if a log has lost commits that were durable, and go on without them; only of logs
    /// in the folder
    #[arg(long, conflicts_with = "log")]
    accept_loss: bool,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
    #[command(flatten)]
    pub(crate) log_style: LogStyle,
}

/// Hosts sites until a stop is requested.
///
/// # Errors
/// If the folder or the address cannot be used, or the sites cannot be opened.
pub(crate) fn run(args: &NodeArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    isomer_server::use_small_pages();
    isomer_server::make_private_files();
    isomer_server::raise_limit();
    let sites: Vec<SiteId> = args.sites.iter().flatten().copied().collect();
    let name = args.peers.name.clone().ok_or_else(|| Failure::usage("a node has a --name"))?;
    let place =
        args.peers.place(Role::Node, &name, &sites, &args.log, (&args.data, args.listen))?;
    let place = place.ok_or_else(|| {
        Failure::usage("a node is told of the other processes, by --config FILE or by --peers")
    })?;
    if place.own_sites().is_empty() {
        return Err(Failure::usage(format!("the node `{name}` has no sites")));
    }
    let listen = place.clients(args.listen)?;
    let is_told = args.serves_at.is_some()
        || place.order.first().is_some_and(|first| place.clients.contains_key(first));
    if listen.is_some() && !is_told {
        return Err(Failure::usage(
            "who listens for clients is told where the process that serves does: by `clients` of that one in the file, \
             or by --serves-at",
        ));
    }
    let http = place.http(args.http)?;
    if http.is_some()
        && !place.order.first().is_some_and(|first| place.consoles.contains_key(first))
    {
        return Err(Failure::usage(
            "a node forwards browsers to the console of the process that serves: `http` of that one in the file tells where",
        ));
    }
    let hosting = Hosting {
        data: &args.data,
        durability: match args.no_sync {
            true => Durability::Interval(Duration::from_millis(10)),
            false => Durability::Commit,
        },
        accept_loss: args.accept_loss,
        checkpoints: args.checkpoints.policy(),
        site_memory: args.site_memory,
        listen,
        http,
        serves_at: args.serves_at.as_deref(),
        connections: args.connections as usize,
        trust_network: args.peers.trust_network,
    };
    // A plain node has no options for clients, so it never takes the router's place.
    match host(place, &hosting, &stop)? {
        Some(hosted) => {
            hosted.work(&stop)?;
            drop(hosted);
            stop.restart_if_asked(false)
        }
        None => Ok(()),
    }
}
