//! `isomer node`: sites of a database whose router is in another process.

use crate::clock;
use crate::cluster::{Belongs, PeerArgs, Place, Watch, read_sites};
use crate::failure::Failure;
use crate::kafka::LogArgs;
use crate::serve::{CheckpointArgs, LOOK, SiteMemory, progress};
use crate::stop::Stop;
use clap::Args;
use isomer_cluster::{Durability, Node, Options, log_line};
use isomer_design::SiteId;
use isomer_net::Role;
use isomer_server::{Passage, PassageOptions};
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
}

/// Listens for clients, if configured.
fn passage(args: &NodeArgs, place: &Place) -> Result<Option<Passage>, Failure> {
    let Some(listen) = place.clients(args.listen)? else { return Ok(None) };
    let to = place.serves_at.as_ref().or(args.serves_at.as_ref()).cloned().ok_or_else(|| {
        Failure::usage(
            "who listens for clients is told where the process that serves does: by `clients` of that one in the file, \
             or by --serves-at",
        )
    })?;
    let connections_max = args.connections as usize;
    let node = place.own.member.name.clone();
    let passage = Passage::start(PassageOptions { listen, to, node, connections_max });
    passage.map(Some).map_err(|error| Failure::failed(format!("{listen}: {error}")))
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
    let (role, usual) = (Role::Node, args.peers.name.clone());
    let usual = usual.ok_or_else(|| Failure::usage("a node has a --name"))?;
    let place = args.peers.place(role, &usual, &sites, &args.log)?;
    let mut place = place.ok_or_else(|| {
        Failure::usage("a node is told of the other processes, by --config FILE or by --peers")
    })?;
    let (name, sites) = (place.own.member.name.clone(), place.own_sites());
    if sites.is_empty() {
        return Err(Failure::usage(format!("the node `{name}` has no sites")));
    }
    let passage = passage(args, &place)?;
    let logs = place.logs(&args.data, args.peers.trust_network)?;
    let store = place.store()?;
    if !place.wait_for_logs(&stop)? {
        return Ok(());
    }
    let belongs = match &logs {
        Some(logs) => Belongs::by_logs(&args.data, role, &**logs, store.as_deref(), &stop)?,
        None => Some(Belongs::by_folder(&args.data, role, args.accept_loss)?),
    };
    // A stop was requested before there was a database.
    let Some(belongs) = belongs else { return Ok(()) };
    let net = place.join(&args.data, belongs, args.peers.trust_network)?;
    let durability = match args.no_sync {
        true => Durability::Interval(Duration::from_millis(10)),
        false => Durability::Commit,
    };
    let options = Options::in_folder(&args.data, 0)
        .sites(&sites)
        .durability(durability)
        .accept_loss(args.accept_loss)
        .checkpoints(args.checkpoints.policy())
        .while_recovering(progress())
        .elsewhere(net.clone());
    let options = match logs {
        Some(logs) => options.logs(logs),
        None => options,
    };
    let options = match store {
        Some(store) => options.checkpoints_in(store),
        None => options,
    };
    let options = match args.site_memory {
        Some(bytes) => options.site_memory(bytes),
        None => options,
    };
    let node = stop.while_opening(|| Node::open(options)).map_err(Failure::failed)?;
    node.notes().iter().for_each(log_line);
    let shown: Vec<String> = sites.iter().map(ToString::to_string).collect();
    println!(
        "isomer node {name} at {}: sites {} in {}",
        net.address(),
        shown.join(" "),
        args.data.display()
    );
    if let Some(passage) = &passage {
        println!("clients at {} are passed on to the process that serves", passage.address());
    }
    let (mut lost, mut watch) = (None, Watch::new(net));
    while !stop.is_asked() && lost.is_none() {
        clock::sleep(LOOK);
        // Forwarded sessions end at the gateway, so there is nothing to do here.
        let _ = watch.look();
        lost = node.is_lost();
    }
    stop.begin_to_stop();
    log_line("stopping");
    if let Some(why) = lost {
        return Err(Failure::failed(why));
    }
    node.checkpoint().map_err(Failure::failed)?;
    drop(node);
    log_line("stopped");
    Ok(())
}
