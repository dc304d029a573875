//! A process as a member of a cluster: its flags, its place in the list, its connections.

use super::file::{ClusterFile, Limits, Process, read_member};
use super::joining::{Door, Lets, file_in, join, list_of, read_door, was_removed};
use super::nodes::{Kept, NODES};
use crate::clock;
use crate::failure::Failure;
use crate::kafka::LogArgs;
use crate::stop::{Stop, has_left};
use clap::Args;
use isomer_cluster::{
    CheckpointStore, DatabaseId, Joined, Logs, OpenDatabaseError, Wire, find_database,
    found_database, join_cluster, leave_if_empty, read_cluster, sites_of,
};
use isomer_design::SiteId;
use isomer_net::{Member, Net, NodeTls, PeerState, Role, ask_status};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The poll interval for a requested stop.
const LOOK: Duration = Duration::from_millis(50);
/// The interval at which brokers are asked for a database.
const ASKED_AGAIN: Duration = Duration::from_millis(250);
/// After this time without a node, the sessions that it forwards end, and their locks are released.
const AWAY_US: i64 = 1_000_000;
/// The time for an awaited process to answer which cluster it belongs to.
const STATUS: Duration = Duration::from_secs(1);
/// The longest wait for another process to take the conductor that this one has left.
const SUCCESSION_US: i64 = 30_000_000;
/// The time for all processes to start after a power cut, before others take over from the missing.
const GRACE_US: i64 = 20_000_000;
/// The interval of messages about awaited processes.
const TOLD_US: i64 = 2_000_000;

/// The other members of the cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct PeerArgs {
    /// The cluster's configuration file, the same for all processes; see docs/three-nodes.md
    #[arg(long, value_name = "FILE", conflicts_with = "peers")]
    pub(crate) config: Option<PathBuf>,
    /// Joins the running cluster of this process. A folder that has joined needs no such flags
    /// when its process starts again
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = read_door, conflicts_with_all = ["config", "peers"], requires_all = ["name", "node_listen"])]
    pub(crate) join: Option<Door>,
    /// With --join, the address at which the other processes reach this one [default: that of
    /// --node-listen]
    #[arg(long, value_name = "HOST:PORT", requires = "join")]
    pub(crate) node_address: Option<String>,
    /// With --join, the zone of this process, if the cluster has zones
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) zone: Option<String>,
    /// This process's name in the cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Instead of a file, another process: its name, address and sites; may be repeated
    #[arg(long = "peers", visible_alias = "nodes", value_name = "NAME=HOST:PORT/SITES", value_parser = read_member)]
    pub(crate) peers: Vec<Member>,
    /// Where to listen for the other processes, if not at the address in the file
    #[arg(long, value_name = "ADDR")]
    pub(crate) node_listen: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Lets other machines reach this process without encryption. Any program that reaches the
    /// address has full access to the database, so the network must be private
    #[arg(long)]
    pub(crate) trust_network: bool,
}

/// The certificates that processes show each other.
#[derive(Args, Clone, Default, PartialEq, Debug)]
pub struct TlsArgs {
    /// The certificate authority (PEM) of the cluster's processes: they encrypt, and accept no
    /// other peers
    #[arg(long = "node-tls-ca", value_name = "FILE", requires_all = ["cert", "key"])]
    pub(crate) ca: Option<PathBuf>,
    /// This process's certificate (PEM), with its name in the cluster as a DNS name
    #[arg(long = "node-tls-cert", value_name = "FILE", requires = "ca")]
    pub(crate) cert: Option<PathBuf>,
    /// The certificate's key (PEM), readable by its owner only
    #[arg(long = "node-tls-key", value_name = "FILE", requires = "ca")]
    pub(crate) key: Option<PathBuf>,
}

impl TlsArgs {
    /// The contents of the files for the process with this name; `None` without files.
    pub(crate) fn open(&self, name: &str) -> Result<Option<NodeTls>, Failure> {
        let (Some(ca), Some(cert), Some(key)) = (&self.ca, &self.cert, &self.key) else {
            return Ok(None);
        };
        let own = |path: &Path| PathBuf::from(path.to_string_lossy().replace("{name}", name));
        let (ca, cert, key) = (own(ca), own(cert), own(key));
        isomer_server::check_secret(&key).map_err(Failure::failed)?;
        NodeTls::open(&ca, &cert, &key, name).map(Some).map_err(Failure::failed)
    }
}

/// A process's place in a cluster.
pub(crate) struct Place {
    pub(crate) own: Process,
    others: Vec<Member>,
    limits: Limits,
    listen: String,
    /// The places of redo logs and checkpoints.
    pub(crate) log: LogArgs,
    /// The processes in the order of the file: the first one has the router at first.
    pub(crate) order: Vec<String>,
    /// The address of each process for clients, if a file has it.
    pub(crate) clients: BTreeMap<String, String>,
    /// The address of the console of each process, if a file has it.
    pub(crate) consoles: BTreeMap<String, String>,
    tls: TlsArgs,
    /// The names of the processes that keep the logs, if processes keep them for each other.
    keepers: Vec<String>,
    /// The means to let other processes join, if there is a file.
    lets: Option<Arc<Lets>>,
    /// The copies of all logs, if the processes keep them for each other, and the connections.
    kept: Option<(Kept, Arc<Net>)>,
}

impl PeerArgs {
    /// The configuration file: the given one, or that of a folder whose process has joined a
    /// cluster. Joins one if the flags ask for that.
    fn file(&self, folder: &Path, clients: Option<SocketAddr>) -> Result<Option<PathBuf>, Failure> {
        if self.config.is_some() || !self.peers.is_empty() {
            return Ok(self.config.clone());
        }
        let (found, Some(door)) = (file_in(folder), &self.join) else {
            return Ok(file_in(folder));
        };
        if found.is_some() {
            return Ok(found);
        }
        let (Some(name), Some(listen)) = (&self.name, &self.node_listen) else {
            return Err(Failure::usage("a process that joins has a --name and a --node-listen"));
        };
        let tls = self.tls.open(name)?;
        let joins = Joined {
            name: name.clone(),
            address: self.node_address.as_ref().unwrap_or(listen).clone(),
            sites: BTreeSet::new(),
            zone: self.zone.clone(),
            clients: clients.map(|clients| clients.to_string()),
        };
        join(door, &joins, tls.as_ref(), folder).map(Some)
    }

    /// This process's place in the cluster; `None` outside of a cluster. Without a file, its sites
    /// are the given ones. The file or the flag has the place of its logs. `clients` is the address
    /// for clients of a process that joins.
    pub(crate) fn place(
        &self,
        role: Role,
        usual: &str,
        sites: &[SiteId],
        log: &LogArgs,
        (folder, clients): (&Path, Option<SocketAddr>),
    ) -> Result<Option<Place>, Failure> {
        let listen = |address: &str| self.node_listen.clone().unwrap_or_else(|| address.to_owned());
        if let Some(path) = &self.file(folder, clients)? {
            let file = ClusterFile::open(path).map_err(Failure::usage)?;
            let text = std::fs::read_to_string(path).map_err(Failure::failed)?;
            let joined = file.processes.iter().find(|process| process.joined);
            let name = self.name.clone().or(joined.map(|process| process.member.name.clone()));
            let name = name.unwrap_or_else(|| match role {
                Role::Router => file.router().member.name.clone(),
                Role::Node | Role::Standby => usual.to_owned(),
            });
            let (mut own, others) = file.split(&name).map_err(Failure::usage)?;
            let listen = listen(&own.member.address);
            let log = file.log.clone().with_flags(log)?;
            own.role = match (own.role, role) {
                (of_file, of_command) if of_file == of_command => role,
                // Where logs survive their process, each process can have the router.
                (Role::Node, Role::Router) if log.log.is_some() => Role::Standby,
                (Role::Router, _) => return Err(started_by(&name, "isomer serve")),
                _ => return Err(started_by(&name, "isomer node")),
            };
            let (order, clients, consoles) = (file.order(), file.clients(), file.consoles());
            let limits = file.limits;
            let keepers = file.founders().map(str::to_owned).collect();
            let lets = Some(Arc::new(Lets::by(&text, &file)));
            let tls = if self.tls.ca.is_some() { self.tls.clone() } else { file.tls };
            let kept = None;
            let place = Place {
                own,
                others,
                limits,
                listen,
                log,
                order,
                clients,
                consoles,
                tls,
                keepers,
                lets,
                kept,
            };
            return Ok(Some(place));
        }
        if self.peers.is_empty() {
            return Ok(None);
        }
        let name = self.name.clone().unwrap_or_else(|| usual.to_owned());
        let listen = listen("127.0.0.1:7433");
        let sites = sites.iter().copied().collect();
        let member = Member { name, address: listen.clone(), sites, zone: None };
        let own = Process { member, role, clients: None, http: None, joined: false };
        let (others, limits, log) = (self.peers.clone(), Limits::default(), log.clone());
        let (order, clients, tls) = (Vec::new(), BTreeMap::new(), self.tls.clone());
        let consoles = BTreeMap::new();
        let keepers = others.iter().chain([&own.member]).map(|member| member.name.clone());
        let (keepers, lets, kept) = (keepers.collect(), None, None);
        let place = Place {
            own,
            others,
            limits,
            listen,
            log,
            order,
            clients,
            consoles,
            tls,
            keepers,
            lets,
            kept,
        };
        Ok(Some(place))
    }
}

fn started_by(name: &str, command: &str) -> Failure {
    Failure::usage(format!("the file says that `{name}` is started by `{command}`"))
}

/// A process's knowledge of its cluster before it joins.
pub(crate) struct Belongs {
    /// The cluster's number; a node with its logs in its folder may not know it yet.
    cluster: Option<u64>,
    /// Sites at which the database has had rows; known only to the process with the router.
    known: Vec<SiteId>,
}

impl Belongs {
    /// True if the database exists, as far as this process knows.
    pub(crate) fn is_founded(&self) -> bool {
        !self.known.is_empty()
    }

    /// The knowledge in the folder. The process with the router may draw a new number.
    pub(crate) fn by_folder(
        folder: &Path,
        role: Role,
        accept_loss: bool,
    ) -> Result<Belongs, Failure> {
        if role != Role::Router {
            leave_if_empty(folder).map_err(Failure::failed)?;
        }
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
        Ok(Belongs { cluster, known })
    }

    /// The knowledge in logs outside of the folder. The process with the router creates them if
    /// there are none; a node waits for that, and reports it periodically. `None` if a stop was
    /// requested.
    pub(crate) fn by_logs(
        folder: &Path,
        role: Role,
        logs: &dyn Logs,
        store: Option<&dyn CheckpointStore>,
        stop: &Stop,
    ) -> Result<Option<Belongs>, Failure> {
        if role == Role::Router {
            let founded = found_database(folder, logs, store).map_err(Failure::failed)?;
            let (database, known) = founded;
            return Ok(Some(Belongs { cluster: Some(database.cluster()), known }));
        }
        let mut told = None;
        while !stop.is_asked() {
            let lacking = match find_database(folder, logs).map_err(Failure::failed)? {
                None => format!("there is no database at {} yet", logs.place()),
                Some(database) => match lacking_mark(store, database)? {
                    None => {
                        let cluster = Some(database.cluster());
                        return Ok(Some(Belongs { cluster, known: Vec::new() }));
                    }
                    Some(lacking) => lacking,
                },
            };
            if told.is_none_or(|told| clock::now_us() - told >= TOLD_US) {
                told = Some(clock::now_us());
                tracing::info!("waiting for the process with the conductor: {lacking}");
            }
            clock::sleep(ASKED_AGAIN);
        }
        Ok(None)
    }
}

/// The message if the process with the router has left no mark.
fn lacking_mark(
    store: Option<&dyn CheckpointStore>,
    database: DatabaseId,
) -> Result<Option<String>, Failure> {
    let Some(store) = store else { return Ok(None) };
    let has_mark = store.has_mark(database).map_err(Failure::failed)?;
    Ok((!has_mark)
        .then(|| OpenDatabaseError::NoMark { place: store.place(), database }.to_string()))
}

/// The address of a flag, or else that of a file.
fn address(flag: Option<SocketAddr>, of_file: Option<&str>) -> Result<Option<SocketAddr>, Failure> {
    let Some(of_file) = of_file.filter(|_| flag.is_none()) else { return Ok(flag) };
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("{of_file}: {why}"));
    let mut found = of_file.to_socket_addrs().map_err(|error| failed(&error))?;
    found.next().map(Some).ok_or_else(|| failed(&"the name has no address"))
}

impl Place {
    /// The address for PostgreSQL's clients: that of the flag, or of the file; `None` without
    /// either.
    pub(crate) fn clients(&self, flag: Option<SocketAddr>) -> Result<Option<SocketAddr>, Failure> {
        address(flag, self.own.clients.as_deref())
    }

    /// The address of the console: that of the flag, or of the file; `None` without either.
    pub(crate) fn http(&self, flag: Option<SocketAddr>) -> Result<Option<SocketAddr>, Failure> {
        address(flag, self.own.http.as_deref())
    }

    /// The redo logs, if they are not in the folder. If the processes keep them for each other, it
    /// starts to listen.
    pub(crate) fn logs(
        &mut self,
        folder: &Path,
        trust_network: bool,
    ) -> Result<Option<Arc<dyn Logs>>, Failure> {
        let own = &self.own.member.name;
        let removed_by = |tls: Option<NodeTls>| was_removed(own, &self.others, tls.as_ref());
        if self.own.joined && removed_by(self.tls.open(own)?) {
            return Err(removed(own));
        }
        if self.log.log.as_deref() != Some(NODES) {
            return self.log.logs(Some((own, self.limits.lease())));
        }
        let nothing = Belongs { cluster: None, known: Vec::new() };
        let net = self.start(folder, nothing, trust_network)?;
        let kept = Kept::start(&net, folder, own, self.keepers.clone())?;
        let logs = kept.logs(self.limits.lease());
        self.kept = Some((kept, net));
        Ok(Some(logs))
    }

    /// Waits until the logs can be used; `false` if a stop was requested.
    pub(crate) fn wait_for_logs(&self, stop: &Stop) -> Result<bool, Failure> {
        self.kept.as_ref().map_or(Ok(true), |(kept, _)| kept.wait(stop))
    }

    /// The store of checkpoints, if it is not the folder.
    pub(crate) fn store(&self) -> Result<Option<Arc<dyn CheckpointStore>>, Failure> {
        self.log.store()
    }

    /// Stands by instead of having the router, if another process has taken that over meanwhile, or
    /// is about to.
    pub(crate) fn give_way(&mut self, stop: &Stop) -> Result<(), Failure> {
        if self.own.role != Role::Router || self.log.log.is_none() {
            return Ok(());
        }
        let tls = self.tls.open(&self.own.member.name)?;
        let serves = |other: &&Member| {
            let status = ask_status(&other.name, &other.address, tls.as_ref(), STATUS);
            // A process that does not answer may not run.
            status.is_ok_and(|status| status.role == Role::Router)
        };
        let until = clock::now_us() + if has_left() { SUCCESSION_US } else { 0 };
        loop {
            if let Some(other) = self.others.iter().find(serves) {
                tracing::info!("{} serves now; this process stands by", other.name);
                self.own.role = Role::Standby;
                return Ok(());
            }
            if clock::now_us() >= until || stop.is_asked() {
                return Ok(());
            }
            clock::sleep(LOOK);
        }
    }

    /// The sites of this process.
    pub(crate) fn own_sites(&self) -> Vec<SiteId> {
        self.own.member.sites.iter().copied().collect()
    }

    /// The sites of all processes.
    pub(crate) fn all_sites(&self) -> Vec<SiteId> {
        let others = self.others.iter().flat_map(|member| member.sites.iter().copied());
        self.own_sites().into_iter().chain(others).collect()
    }

    /// The means to let other processes join, if there is a file.
    pub(crate) fn lets(&self) -> Option<Arc<Lets>> {
        self.lets.clone()
    }

    /// Takes part: listens, and prepares connections to the others, those that have joined by the
    /// logs included.
    pub(crate) fn join(
        self,
        folder: &Path,
        belongs: Belongs,
        logs: Option<Arc<dyn Logs>>,
        trust_network: bool,
    ) -> Result<Arc<Net>, Failure> {
        let (name, joined) = (self.own.member.name.clone(), self.own.joined);
        let net = match &self.kept {
            Some((_, net)) => {
                net.belongs_to(belongs.cluster, belongs.known.into_iter().collect());
                net.clone()
            }
            None => self.start(folder, belongs, trust_network)?,
        };
        if let Some(logs) = logs {
            net.set_list(list_of(logs));
            net.learn();
        }
        match joined && !is_member(&net, &name) {
            true => Err(removed(&name)),
            false => Ok(net),
        }
    }

    fn start(
        &self,
        folder: &Path,
        belongs: Belongs,
        trust_network: bool,
    ) -> Result<Arc<Net>, Failure> {
        let tls = self.tls.open(&self.own.member.name)?;
        let listener = bind(&self.listen, trust_network || tls.is_some())?;
        let role = self.own.role;
        let Belongs { cluster, known } = belongs;
        let folder = folder.to_owned();
        let Limits { outage_wait, failover_after, silence, queue_bytes, requests } = self.limits;
        let sites = self.own_sites();
        let options = isomer_net::Options {
            members: self.others.clone(),
            zone: self.own.member.zone.clone(),
            cluster,
            join: Box::new(move |number| {
                join_cluster(&folder, number).map_err(|error| error.to_string())
            }),
            known: known.into_iter().collect(),
            outage_wait,
            failover_after,
            silence,
            queue_bytes,
            requests,
            tls,
            ..isomer_net::Options::new(&self.own.member.name, role, &sites)
        };
        Net::start(listener, clock::now_us() as u64, options).map_err(Failure::usage)
    }
}

/// True if a process that has joined is in the list still.
pub(crate) fn is_member(net: &Net, name: &str) -> bool {
    net.joined().iter().any(|joined| joined.name == name)
}

/// A process that has left the cluster cannot run.
pub(crate) fn removed(name: &str) -> Failure {
    Failure::failed(format!(
        "`{name}` is not of this cluster any more: it was removed; to let it join anew, give it an empty folder"
    ))
}

/// Listens. Addresses that other machines reach require certificates, or an explicit permission.
fn bind(address: &str, may_be_open: bool) -> Result<TcpListener, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{address}: {error}"));
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    if let Some(open) = found.iter().find(|found| !found.ip().is_loopback() && !may_be_open) {
        return Err(Failure::usage(format!(
            "other machines may reach {open}, and nothing is encrypted between nodes without certificates: give \
             node_tls_ca, node_tls_cert and node_tls_key; or say by --trust-network that nobody else reaches it"
        )));
    }
    TcpListener::bind(&found[..]).map_err(failed)
}

/// Waits until all other processes can be reached, and reports missing ones periodically; `false`
/// if a stop was requested. If others `may_be_gone`, those that are declared dead are not waited
/// for after [`GRACE_US`]: the logs say what they had.
///
/// # Errors
/// If a process belongs to another cluster and will therefore never be reached.
pub(crate) fn wait_for_all(net: &Net, stop: &Stop, may_be_gone: bool) -> Result<bool, Failure> {
    net.dial();
    let (begun, mut told) = (clock::now_us(), 0);
    loop {
        let is_late = may_be_gone && clock::now_us() - begun >= GRACE_US;
        let is_missing = |peer: &PeerState| {
            peer.reached.is_err() && !(is_late && net.is_gone(&peer.member.name))
        };
        let missing: Vec<PeerState> = net.peers().into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        if stop.is_asked() {
            return Ok(false);
        }
        if clock::now_us() - begun.max(told) >= TOLD_US {
            told = clock::now_us();
            for PeerState { member, reached, .. } in &missing {
                let why = reached.as_ref().expect_err("it is missing");
                tracing::info!("waiting for {} at {}: {why}", member.name, member.address);
                check_other(net, member)?;
            }
        }
        clock::sleep(LOOK);
    }
}

/// Refuses a process of another cluster, and gives way to one that serves.
fn check_other(net: &Net, member: &Member) -> Result<(), Failure> {
    // A process that does not answer may not run yet.
    let Ok(status) = net.ask_status(member, STATUS) else { return Ok(()) };
    if status.role == Role::Router && status.is_open {
        return Err(Failure::failed(format!(
            "`{}` serves now; started again, this process stands by",
            member.name
        )));
    }
    let (Some(theirs), Some(ours)) = (status.cluster, net.cluster()) else { return Ok(()) };
    if theirs == ours {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "`{}` belongs to the cluster {theirs:016x}, and the folder of this process to {ours:016x}. A cluster's tables are \
         in the catalog of the process that serves, and nowhere else: start it with the folder that it had, or with a copy \
         of that folder and those of the nodes from the same time. Without them the nodes' rows cannot be read, and \
         --accept-loss does not help. To begin a new cluster, give the nodes empty folders as well",
        member.name
    )))
}

/// Reports connected and lost processes on standard error.
pub(crate) struct Watch {
    net: Arc<Net>,
    before: Vec<PeerState>,
    /// The recently lost processes, and the times of their loss.
    went: Vec<(String, i64)>,
}

impl Watch {
    pub(crate) fn new(net: Arc<Net>) -> Watch {
        let before = net.peers();
        Watch { net, before, went: Vec::new() }
    }

    /// Must be called periodically. Returns the processes that have now been away for [`AWAY_US`].
    pub(crate) fn look(&mut self) -> Vec<String> {
        let (now, time) = (self.net.peers(), clock::now_us());
        for (before, now) in self.before.iter().zip(&now) {
            let Member { name, address, .. } = &now.member;
            match (&before.reached, &now.reached) {
                (Ok(_), Err(why)) => {
                    tracing::warn!("{name} at {address} is gone: {why}");
                    self.went.push((name.clone(), time));
                }
                (Err(_), Ok(_)) => {
                    tracing::info!("{name} at {address} is there");
                    self.went.retain(|(other, _)| other != name);
                }
                _ => {}
            }
        }
        self.before = now;
        let is_due = |(_, went): &mut (String, i64)| time - *went >= AWAY_US;
        self.went.extract_if(.., is_due).map(|(name, _)| name).collect()
    }
}
