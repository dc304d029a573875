//! How a process takes part in a cluster: its flags, its place in the list, its connections.

use super::file::{ClusterFile, Limits, Process, read_member};
use crate::clock;
use crate::failure::Failure;
use clap::Args;
use isomer_cluster::{join_cluster, read_cluster, sites_of};
use isomer_design::SiteId;
use isomer_net::{Member, Net, PeerState, Role};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the command looks whether it was asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How often it says for whom it waits.
const TOLD_US: i64 = 2_000_000;

/// Who else is in the cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct PeerArgs {
    /// A file that says who is in the cluster, the same for all processes; see docs/three-nodes.md
    #[arg(long, value_name = "FILE", conflicts_with = "peers")]
    pub(crate) config: Option<PathBuf>,
    /// This process's name in the cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// In place of a file, another process: its name, where it listens, its sites; as often as there are others
    #[arg(long = "peers", visible_alias = "nodes", value_name = "NAME=HOST:PORT/SITES", value_parser = read_member)]
    pub(crate) peers: Vec<Member>,
    /// Where to listen for the other processes, if not at the address that the file says
    #[arg(long, value_name = "ADDR")]
    pub(crate) node_listen: Option<String>,
    /// Let other machines reach this process without encryption: whoever reaches the address can do anything with
    /// the database, so nobody else must
    #[arg(long)]
    pub(crate) trust_network: bool,
}

/// A place in a cluster.
pub(crate) struct Place {
    pub(crate) own: Process,
    others: Vec<Member>,
    limits: Limits,
    listen: String,
}

impl PeerArgs {
    /// This process's place in the cluster; `None` if it is in none. Without a file, its sites are those given.
    pub(crate) fn place(
        &self,
        role: Role,
        usual: &str,
        sites: &[SiteId],
    ) -> Result<Option<Place>, Failure> {
        let listen = |address: &str| self.node_listen.clone().unwrap_or_else(|| address.to_owned());
        if let Some(path) = &self.config {
            let file = ClusterFile::open(path).map_err(Failure::usage)?;
            let name = self.name.clone().unwrap_or_else(|| match role {
                Role::Router => file.router().member.name.clone(),
                Role::Node => usual.to_owned(),
            });
            let (own, others) = file.split(&name).map_err(Failure::usage)?;
            if own.role != role {
                let command = if own.role == Role::Router { "isomer serve" } else { "isomer node" };
                return Err(Failure::usage(format!(
                    "the file says that `{name}` is started by `{command}`"
                )));
            }
            let listen = listen(&own.member.address);
            return Ok(Some(Place { own, others, limits: file.limits, listen }));
        }
        if self.peers.is_empty() {
            return Ok(None);
        }
        let name = self.name.clone().unwrap_or_else(|| usual.to_owned());
        let listen = listen("127.0.0.1:7433");
        let sites = sites.iter().copied().collect();
        let member = Member { name, address: listen.clone(), sites };
        let own = Process { member, role };
        Ok(Some(Place { own, others: self.peers.clone(), limits: Limits::default(), listen }))
    }
}

impl Place {
    /// The sites of this process.
    pub(crate) fn own_sites(&self) -> Vec<SiteId> {
        self.own.member.sites.iter().copied().collect()
    }

    /// The sites of all processes.
    pub(crate) fn all_sites(&self) -> Vec<SiteId> {
        let others = self.others.iter().flat_map(|member| member.sites.iter().copied());
        self.own_sites().into_iter().chain(others).collect()
    }

    /// Takes part: listens, and gets ready to dial the others.
    pub(crate) fn join(
        self,
        folder: &Path,
        accept_loss: bool,
        trust_network: bool,
    ) -> Result<Arc<Net>, Failure> {
        let listener = bind(&self.listen, trust_network)?;
        let role = self.own.role;
        let mut cluster = read_cluster(folder).map_err(Failure::failed)?;
        if role == Role::Router && cluster.is_none() {
            let mut number = [0; 8];
            clock::random(&mut number);
            let number = u64::from_le_bytes(number);
            join_cluster(folder, number).map_err(Failure::failed)?;
            cluster = Some(number);
        }
        let known = match role {
            Role::Router if !accept_loss => sites_of(folder).map_err(Failure::failed)?,
            _ => Vec::new(),
        };
        let folder = folder.to_owned();
        let Limits { outage_wait, silence, queue_bytes, requests } = self.limits;
        let sites = self.own_sites();
        let options = isomer_net::Options {
            members: self.others,
            cluster,
            join: Box::new(move |number| {
                join_cluster(&folder, number).map_err(|error| error.to_string())
            }),
            known: known.into_iter().collect(),
            outage_wait,
            silence,
            queue_bytes,
            requests,
            ..isomer_net::Options::new(&self.own.member.name, role, &sites)
        };
        Net::start(listener, clock::now_us() as u64, options).map_err(Failure::usage)
    }
}

/// Listens; at addresses that other machines reach, only if that is asked for.
fn bind(address: &str, trust_network: bool) -> Result<TcpListener, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{address}: {error}"));
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    if let Some(open) = found.iter().find(|found| !found.ip().is_loopback() && !trust_network) {
        return Err(Failure::usage(format!(
            "other machines may reach {open}, and nothing is encrypted between nodes; --trust-network says that nobody \
             else reaches it"
        )));
    }
    TcpListener::bind(&found[..]).map_err(failed)
}

/// Waits until all others can be reached, and says now and then who is missing; `false` if it was asked to stop.
pub(crate) fn wait_for_all(net: &Net, stop: &AtomicBool) -> bool {
    net.dial();
    let (begun, mut told) = (clock::now_us(), 0);
    loop {
        let missing: Vec<PeerState> =
            net.peers().into_iter().filter(|peer| peer.reached.is_err()).collect();
        if missing.is_empty() {
            return true;
        }
        if stop.load(Ordering::SeqCst) {
            return false;
        }
        if clock::now_us() - begun.max(told) >= TOLD_US {
            told = clock::now_us();
            for PeerState { member, reached, .. } in &missing {
                let why = reached.as_ref().expect_err("it is missing");
                eprintln!("waiting for {} at {}: {why}", member.name, member.address);
            }
        }
        clock::sleep(LOOK);
    }
}

/// Says on standard error who comes and goes.
pub(crate) struct Watch {
    net: Arc<Net>,
    before: Vec<PeerState>,
}

impl Watch {
    pub(crate) fn new(net: Arc<Net>) -> Watch {
        let before = net.peers();
        Watch { net, before }
    }

    /// To be called now and then.
    pub(crate) fn look(&mut self) {
        let now = self.net.peers();
        for (before, now) in self.before.iter().zip(&now) {
            let Member { name, address, .. } = &now.member;
            match (&before.reached, &now.reached) {
                (Ok(_), Err(why)) => eprintln!("{name} at {address} is gone: {why}"),
                (Err(_), Ok(_)) => eprintln!("{name} at {address} is there"),
                _ => {}
            }
        }
        self.before = now;
    }
}
