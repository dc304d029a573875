//! `isomer serve`: serves a database to PostgreSQL's clients. Its redo logs are in its folder or in
//! Kafka, and some of its sites may be at nodes.

use crate::clock;
use crate::cluster::{Belongs, Lets, PeerArgs, Place, Watch, wait_for_all};
use crate::failure::Failure;
use crate::isolation::IsolationLevel;
use crate::kafka::LogArgs;
use crate::logging::LogStyle;
use crate::memory;
use crate::out;
use crate::standby::{Hosted, Hosting, Next, host};
use crate::stop::Stop;
use clap::Args;
use isomer_cluster::{Checkpointing, Durability, Options, Recovering};
#[cfg(feature = "console")]
use isomer_console::{Console, ConsoleOptions};
use isomer_design::{Backups, SiteId};
use isomer_net::{Net, Role};
use isomer_plan::elastic::{Fleet, Options as Elasticity};
use isomer_plan::learned::{Mode, Tuning};
use isomer_server::{
    Decider, Engine, Historian, Restarts, Server, ServerOptions, Source, Tls, Trust, let_restart,
    take_over,
};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes; `None` is no limit.
pub(crate) type SiteMemory = Option<usize>;

/// The default address.
const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5433));
/// The most sites of a process.
const SITES_MAX_HERE: usize = 64;
/// The time between two writes of the strategy's memory, in microseconds.
const KEEP_US: i64 = 30_000_000;
/// The pause between two looks whether a gateway is open.
const LOOKS: Duration = Duration::from_millis(5);
/// The longest wait for a seat at the conductor, in microseconds.
const SEAT_US: i64 = 5_000_000;
/// The time for a process to answer that it restarts.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest wait of a process that restarts for the transactions of its clients.
const TRANSACTIONS: Duration = Duration::from_secs(10);
/// The poll interval for a requested stop.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Serves a database to psql and every other client of PostgreSQL
///
/// In a cluster whose logs outlive their processes (at the nodes, or in Kafka), every process is
/// started like this, with its --name, and serves clients. One of them has the conductor, which
/// keeps the locks and changes the design; the others stand by to take its place.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The database's folder; a missing or empty one becomes a new database
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    log: LogArgs,
    /// Sites of a new database in this process; sites at nodes have other numbers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: u16,
    /// Where to listen; other addresses than loopback require a certificate and a user with a
    /// password [default: the address in the cluster's file, or 127.0.0.1:5433]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// A folder for a Unix socket, which only clients of the server's user can use, without a
    /// password: `psql -h DIR`; it avoids the cost of TCP [default: the database's folder]
    #[arg(long, value_name = "DIR")]
    socket: Option<PathBuf>,
    /// Serve the console, and metrics for Prometheus at /metrics, at this loopback address, such as
    /// 127.0.0.1:8080
    #[cfg(feature = "console")]
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// A certificate (PEM) for encryption, which is mandatory for clients of other machines
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM), readable by its owner only
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The local clients that need no password: `nobody`; `owner`, the server's user over the Unix
    /// socket; or `loopback`, every user with an account on this machine
    #[arg(long, value_name = "WHO", default_value_t = Trust::Owner)]
    trust: Trust,
    /// The most clients at a time; the last three places are for superusers
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// The seconds that the server waits for a client to read; then its session ends, and its
    /// transaction is rolled back
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    write_timeout: u32,
    /// The longest message of a client, in MB: a statement with its parameters, a line of COPY
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1024))]
    message_mb: u16,
    /// The memory limit of a statement, in MB: rows that it sorts, groups and joins, computed
    /// values
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    statement_mb: u32,
    /// The memory limit of a transaction, in MB: its statement and its writes
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    transaction_mb: u32,
    /// The memory limit of a session, in MB: its transaction, prepared statements, messages
    #[arg(long, value_name = "MB", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    session_mb: u32,
    /// The memory limit of all sessions together, in MB
    #[arg(long, value_name = "MB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    memory_mb: u32,
    /// The memory limit for the rows of each site during this run, such as 512MB or 4GB; 0: no
    /// limit. A full site refuses new rows and replicas until some are deleted [default: the last
    /// value of ALTER SYSTEM SET site_memory]
    #[arg(long, value_name = "SIZE", value_parser = isomer_server::read_site_memory)]
    site_memory: Option<SiteMemory>,
    /// An initial setting of sessions, such as statement_timeout=30s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// The default isolation level of transactions
    #[arg(long, value_name = "LEVEL", default_value = "read-committed")]
    isolation: IsolationLevel,
    /// The strategy that changes the design: learned (changes that pay off for each transaction, by
    /// learned costs), or, once a site is overloaded, clay (moves co-accessed data), estore (moves
    /// hot data) or drtmb (promotes backups to masters)
    #[arg(long, value_name = "NAME", default_value = "learned", value_parser = clap::builder::PossibleValuesParser::new(Decider::NAMES))]
    strategy: String,
    /// With clay, estore or drtmb: adds a site when no move helps against busy processors or long
    /// latencies, and removes one that the others can replace, within these limits, such as 2..8.
    /// These are sites of this process
    #[arg(long, value_name = "MIN..MAX", value_parser = fleet, conflicts_with_all = ["peers", "config", "join"])]
    scale: Option<Fleet>,
    /// With clay, estore or drtmb: the limit for the 99th percentile of latencies, above which a
    /// site counts as overloaded
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    p99_ms: Option<u32>,
    /// Whether the database searches for a better design during this run: off, recommend (shows the
    /// changes), approve (proposes plans to an operator) or auto (makes the changes) [default: the
    /// last value of ALTER SYSTEM SET autopilot; auto in a new database]
    #[arg(long, value_name = "MODE")]
    autopilot: Option<Mode>,
    /// The pause between two looks for tables of which a fifth of the rows has changed, which are
    /// then analyzed; with 0, tables are analyzed only by ANALYZE
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    analyze_every: u32,
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
    cluster: PeerArgs,
    #[command(flatten)]
    pub(crate) log_style: LogStyle,
}

/// When checkpoints are made, and how fast.
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    /// A site makes a checkpoint and truncates its log when the log has grown by this many MB, or
    /// by half of the site's rows if that is more; a restart has no more than that to replay
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_log_mb: u32,
    /// The longest time between checkpoints in seconds, unless the log has hardly grown
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_seconds: u32,
    /// The speed at which a checkpoint is written, in MB per second; faster if the log grows fast
    #[arg(long, value_name = "MB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_mb_a_second: u32,
}

impl CheckpointArgs {
    pub(crate) fn policy(&self) -> Checkpointing {
        Checkpointing {
            log_bytes: u64::from(self.checkpoint_log_mb) << 20,
            every: Duration::from_secs(self.checkpoint_seconds.into()),
            bytes_per_second: u64::from(self.checkpoint_mb_a_second) << 20,
        }
    }
}

/// Serves until a stop is requested. Where another process serves the database already, hosts the
/// sites of this one, and serves once that process has failed.
///
/// # Errors
/// If the folder, the address or the socket's folder cannot be used.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    isomer_server::use_small_pages();
    isomer_server::make_private_files();
    let descriptors = isomer_server::raise_limit();
    let mut place = place(args)?;
    let listen = match &place {
        Some(place) => place.clients(args.listen)?,
        None => args.listen,
    };
    #[cfg(feature = "console")]
    let http = match &place {
        Some(place) => place.http(args.http)?,
        None => args.http,
    };
    #[cfg(not(feature = "console"))]
    let http = None;
    let listen = Listen { clients: listen.unwrap_or(LISTEN), http };
    if let Some(place) = &mut place {
        place.give_way(&stop)?;
    }
    let survives = place.as_ref().is_some_and(|place| place.log.log.is_some());
    let lets = place.as_ref().and_then(Place::lets).filter(|_| survives);
    let is_successor = place.as_ref().is_some_and(|place| place.own.role == Role::Standby);
    let (engine, net) = match place {
        Some(place) if place.own.role == Role::Standby => {
            let Some(hosted) = host(place, &hosting(args, listen.clients), &stop)? else {
                return Ok(());
            };
            match serve_beside(args, &hosted, lets.clone(), listen, descriptors, &stop)? {
                Beside::Successor => {}
                Beside::Stopped { had_conductor } => {
                    let net = hosted.net.clone();
                    drop(hosted);
                    return end(Some(net), had_conductor, &stop);
                }
            }
            tracing::warn!("this process takes the place of the one that had the conductor");
            let (node, net) = (hosted.node.clone(), hosted.net.clone());
            drop(hosted);
            let decider = decider(args)?;
            let engine = stop.while_opening(|| Engine::open(node, decider, args.autopilot));
            (engine.map_err(|error| Failure::of_engine(&error))?, Some(net))
        }
        place => match open(args, place, &stop)? {
            Some(opened) => opened,
            // A stop was requested before all processes were reached.
            None => return Ok(()),
        },
    };
    let of_cluster = OfCluster {
        net: net.clone(),
        lets,
        survive: survives,
        is_successor,
        is_due: &|| false,
        is_removed: &|| false,
    };
    serve(args, &engine, of_cluster, listen, descriptors, &stop)?;
    let had_conductor = survives && !engine.database().is_gateway_only();
    drop(engine);
    end(net, had_conductor, &stop)
}

/// Ends the process whose database is closed, or begins it anew if it is to restart. Then
/// the others need not wait until this one is declared dead.
fn end(net: Option<Arc<Net>>, had_conductor: bool, stop: &Stop) -> Result<(), Failure> {
    let leaves = net.filter(|_| had_conductor && stop.restarts().is_some());
    if let Some(net) = &leaves {
        net.leave();
    }
    stop.restart_if_asked(leaves.is_some())
}

/// The end of a process's time beside the one with the conductor.
enum Beside {
    /// It has stopped; it may have had the conductor last.
    Stopped { had_conductor: bool },
    /// It takes the place of the process with the conductor, before it has served.
    Successor,
}

/// The addresses at which a process listens: for clients, and of the console.
#[derive(Clone, Copy)]
struct Listen {
    clients: SocketAddr,
    #[cfg_attr(not(feature = "console"), allow(dead_code))]
    http: Option<SocketAddr>,
}

/// The cluster of a process that serves.
struct OfCluster<'a> {
    net: Option<Arc<Net>>,
    /// Lets other processes join.
    lets: Option<Arc<Lets>>,
    /// Logs outlive their processes, so another process can take the place of this one.
    survive: bool,
    /// The database existed before this process conducts it.
    is_successor: bool,
    /// True once this process is to take the place of the one with the conductor.
    is_due: &'a dyn Fn() -> bool,
    /// True once this process has left the cluster.
    is_removed: &'a dyn Fn() -> bool,
}

/// Hosts sites, and serves clients once another process has the conductor. Returns once a stop is
/// requested, or if this process is to take the place of the one with the conductor before it has
/// served.
fn serve_beside(
    args: &ServeArgs,
    hosted: &Hosted,
    lets: Option<Arc<Lets>>,
    listen: Listen,
    descriptors: u64,
    stop: &Arc<Stop>,
) -> Result<Beside, Failure> {
    loop {
        match hosted.work(stop)? {
            Next::Gateway => {}
            Next::Stopped => return Ok(Beside::Stopped { had_conductor: false }),
            Next::Successor => return Ok(Beside::Successor),
        }
        let (node, name, decider) = (hosted.node.clone(), hosted.name.clone(), decider(args)?);
        // It reads the catalog at another process, which may stop at the same time as this one.
        let opening = std::thread::Builder::new().name("isomer-opening".to_owned());
        let opening = opening.spawn(move || {
            let until = clock::now_us() + SEAT_US;
            let is_over = Box::new(move || clock::now_us() > until);
            Engine::open(Source::Gateway(node, name, is_over), decider, None)
        });
        let opening = opening.map_err(Failure::failed)?;
        while !opening.is_finished() {
            if stop.is_asked() {
                return Ok(Beside::Stopped { had_conductor: false });
            }
            std::thread::park_timeout(LOOKS);
        }
        let engine = match opening.join().expect("a panic was reported") {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!("no seat at the conductor: {}", error.message);
                continue;
            }
        };
        let (net, is_due) = (Some(hosted.net.clone()), || hosted.is_due());
        let is_removed = || hosted.is_removed();
        let lets = lets.clone();
        let of_cluster = OfCluster {
            net,
            lets,
            survive: true,
            is_successor: true,
            is_due: &is_due,
            is_removed: &is_removed,
        };
        serve(args, &engine, of_cluster, listen, descriptors, stop)?;
        return Ok(Beside::Stopped { had_conductor: !engine.database().is_gateway_only() });
    }
}

/// Serves clients until a stop is requested, or another process has the database. Takes the place
/// of the process with the conductor when this one [is due](OfCluster::is_due).
fn serve(
    args: &ServeArgs,
    engine: &Arc<Engine>,
    OfCluster { net, lets, survive, is_successor, is_due, is_removed }: OfCluster<'_>,
    listen: Listen,
    descriptors: u64,
    stop: &Arc<Stop>,
) -> Result<(), Failure> {
    if let Some(max) = args.site_memory {
        engine.database().set_site_memory(max);
    }
    for note in engine.database().notes() {
        tracing::info!("{note}");
    }
    if !engine.database().is_gateway_only() {
        begin_to_conduct(engine, net.as_ref(), survive);
        let is_new = engine.database().is_new() && !is_successor;
        if is_new && args.autopilot.is_none() {
            let auto = Mode::Auto.to_string();
            engine.set_autopilot(&auto).map_err(|error| Failure::of_engine(&error))?;
        }
    }
    let here = engine.database().sites().len();
    let sites = here + engine.database().sites_elsewhere().len();
    #[cfg(feature = "console")]
    let of_pages = listen.http.map_or(0, |_| isomer_console::DESCRIPTORS_MAX);
    #[cfg(not(feature = "console"))]
    let of_pages = 0;
    let connections_max = connections_max(args, (descriptors, of_pages), here)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls::open(certificate, key).map_err(Failure::failed)?)
        }
        _ => None,
    };
    #[cfg(feature = "console")]
    let of_console = tls.clone();
    let server = ServerOptions {
        tls,
        trust: args.trust,
        connections_max,
        logins_max: connections_max,
        write_timeout: Duration::from_secs(args.write_timeout.into()),
        message_bytes_max: usize::from(args.message_mb) << 20,
        statement_bytes_max: (args.statement_mb as usize) << 20,
        transaction_bytes_max: (args.transaction_mb as usize) << 20,
        session_bytes_max: (args.session_mb as usize) << 20,
        memory_bytes_max: (args.memory_mb as usize) << 20,
        settings: settings(args),
        give_back: memory::give_back,
        analyze_every: Some(args.analyze_every)
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds.into())),
        ..ServerOptions::new(listen.clients, clock::now_us, clock::random)
    };
    let mut server = Server::start(engine.clone(), server)
        .map_err(|error| Failure::failed(format!("{}: {error}", listen.clients)))?;
    let socket = listen_in_folder(&mut server, args)?;
    if args.trust != Trust::Loopback && socket.is_none() && !engine.has_passwords() {
        return Err(Failure::failed(
            "nobody could connect: there is no Unix socket, and no user has a password; --socket DIR names a folder \
             for one",
        ));
    }
    let address = server.address();
    let ways = ways(&server, args.trust, socket.as_deref());
    if engine.database().is_gateway_only() {
        out::tell(format_args!(
            "clients at {address} are served here, while another process has the conductor; psql {ways}"
        ));
    } else {
        out::tell(format_args!(
            "isomer serves {} at {address}: {sites} sites, {} tables; psql {ways}",
            args.data.display(),
            engine.catalog().tables.len(),
        ));
    }
    if !engine.database().is_gateway_only() {
        tracing::info!("{}", autopilot(engine.autopilot()));
    }
    let_restart(engine, restarts(net.as_ref(), stop));
    let historian = Historian::start(engine).map_err(Failure::failed)?;
    let mut kept = clock::now_us();
    #[cfg(feature = "console")]
    let _console = console((args, listen.http), engine, (address, socket.as_deref()), of_console)?;
    let cluster = net.clone();
    if let (Some(net), Some(lets)) = (&net, lets) {
        lets.open(net, engine);
    }
    let (mut lost, mut watch) = (None, net.map(Watch::new));
    while !stop.is_asked() && lost.is_none() && !is_removed() {
        clock::sleep(LOOK);
        if engine.database().is_gateway_only() && is_due() {
            tracing::warn!("this process takes the place of the one that had the conductor");
            take_over(engine).map_err(|error| Failure::of_engine(&error))?;
            tracing::info!("this process has the conductor");
            begin_to_conduct(engine, cluster.as_ref(), survive);
        }
        for node in watch.iter_mut().flat_map(Watch::look) {
            server.end_passed_by(&node);
        }
        lost = engine.database().is_lost();
        if clock::now_us() - kept > KEEP_US {
            // A failed write is repeated later.
            let _ = engine.database().remember();
            kept = clock::now_us();
        }
    }
    stop.begin_to_stop();
    tracing::info!(clients = server.connected(), "stopping");
    if let Some(longest) = stop.restarts() {
        let left = server.drain(longest);
        if left > 0 {
            tracing::warn!("{left} clients are in transactions still, which are rolled back");
        }
    }
    server.stop();
    drop((server, historian));
    if let Some(why) = lost {
        return Err(Failure::failed(why));
    }
    if is_removed() {
        tracing::info!("this process was removed from the cluster, and ends");
        return Ok(());
    }
    engine.database().checkpoint().map_err(Failure::failed)?;
    tracing::info!("stopped");
    Ok(())
}

/// Does what only the process with the conductor does.
fn begin_to_conduct(engine: &Arc<Engine>, net: Option<&Arc<Net>>, survive: bool) {
    if let Some(net) = net {
        let of = Arc::downgrade(engine);
        net.set_known(move || {
            of.upgrade().map_or_else(BTreeSet::new, |engine| engine.database().sites_with_rows())
        });
    }
    if net.is_some() && survive {
        let least = Backups { count: 1, on_disk: true };
        if let Err(error) = engine.keep_definitions(least) {
            tracing::warn!("definitions have no backup: {error}");
        }
    }
}

/// The process's place in a cluster, if it is in one.
fn place(args: &ServeArgs) -> Result<Option<Place>, Failure> {
    let own: Vec<SiteId> = (1..=args.sites).map(SiteId).collect();
    args.cluster.place(Role::Router, "serve", &own, &args.log, (&args.data, args.listen))
}

fn decider(args: &ServeArgs) -> Result<Decider, Failure> {
    let p99_us_max = args.p99_ms.map(|ms| f64::from(ms) * 1000.0);
    let elasticity = Elasticity { fleet: args.scale.clone(), p99_us_max, ..Elasticity::default() };
    Decider::named(&args.strategy, elasticity).map_err(Failure::usage)
}

fn durability(args: &ServeArgs) -> Durability {
    match args.no_sync {
        true => Durability::Interval(Duration::from_millis(10)),
        false => Durability::Commit,
    }
}

/// The way in which this process hosts its sites while another process serves.
fn hosting(args: &ServeArgs, listen: SocketAddr) -> Hosting<'_> {
    Hosting {
        data: &args.data,
        durability: durability(args),
        accept_loss: args.accept_loss,
        checkpoints: args.checkpoints.policy(),
        site_memory: args.site_memory.flatten(),
        listen: Some(listen),
        http: None,
        serves_at: None,
        connections: args.connections as usize,
        trust_network: args.cluster.trust_network,
    }
}

/// The database, and the connections to the other processes of its cluster.
type Opened = (Arc<Engine>, Option<Arc<Net>>);

/// Opens the database, with its sites at nodes if it is in a cluster; `None` if a stop was
/// requested before all processes were reached.
fn open(
    args: &ServeArgs,
    mut place: Option<Place>,
    stop: &Arc<Stop>,
) -> Result<Option<Opened>, Failure> {
    let options = Options::in_folder(&args.data, args.sites)
        .durability(durability(args))
        .accept_loss(args.accept_loss)
        .checkpoints(args.checkpoints.policy())
        .while_recovering(progress());
    let logs = match &mut place {
        Some(place) => place.logs(&args.data, args.cluster.trust_network)?,
        None => args.log.logs(None)?,
    };
    if !place.as_ref().map_or(Ok(true), |place| place.wait_for_logs(stop))? {
        return Ok(None);
    }
    let store = place.as_ref().map_or_else(|| args.log.store(), Place::store)?;
    let (mut options, mut joined) = (options, None);
    if let Some(place) = place {
        let belongs = match &logs {
            Some(logs) => {
                Belongs::by_logs(&args.data, Role::Router, &**logs, store.as_deref(), stop)?
            }
            None => Some(Belongs::by_folder(&args.data, Role::Router, args.accept_loss)?),
        };
        let Some(belongs) = belongs else { return Ok(None) };
        let sites = place.all_sites();
        let may_be_gone = logs.is_some() && belongs.is_founded();
        let net = place.join(&args.data, belongs, logs.clone(), args.cluster.trust_network)?;
        can_restart(&net, stop);
        if !wait_for_all(&net, stop, may_be_gone)? {
            return Ok(None);
        }
        options = options.sites(&sites).elsewhere(net.clone());
        joined = Some(net);
    }
    let options = logs.into_iter().fold(options, Options::logs);
    let options = store.into_iter().fold(options, Options::checkpoints_in);
    let decider = decider(args)?;
    let engine = stop.while_opening(|| Engine::open(options, decider, args.autopilot));
    Ok(Some((engine.map_err(|error| Failure::of_engine(&error))?, joined)))
}

/// Lets SQL restart this process and others of the cluster.
fn restarts(net: Option<&Arc<Net>>, stop: &Arc<Stop>) -> Restarts {
    let (stop, of_others) = (stop.clone(), net.cloned());
    let known = of_others.clone();
    Restarts {
        name: net.map(|net| net.own_name().to_owned()),
        others: Box::new(move || {
            let peers = known.iter().flat_map(|net| net.peers());
            peers.map(|peer| peer.member.name).collect()
        }),
        ask: Box::new(move |name| match (name, &of_others) {
            (Some(name), Some(net)) => net.ask_restart(name, ANSWER, TRANSACTIONS),
            _ => {
                stop.ask_restart(TRANSACTIONS);
                Ok(())
            }
        }),
    }
}

/// Lets other programs restart this process.
pub(crate) fn can_restart(net: &Net, stop: &Arc<Stop>) {
    let stop = stop.clone();
    net.set_restart(move |longest| stop.ask_restart(longest));
}

/// Reports the progress of a recovery that takes longer than two seconds in the log.
pub(crate) fn progress() -> impl Fn(Recovering) + Send + Sync {
    let begun = clock::now_us();
    move |Recovering { read, total }| {
        if total >> 20 > 0 && clock::now_us() - begun >= 2_000_000 {
            tracing::info!("recovering: {} of {} MB are read", read >> 20, total >> 20);
        }
    }
}

/// The number of clients for which there are file descriptors; reports it if it is below the
/// requested one.
fn connections_max(
    args: &ServeArgs,
    (descriptors, of_console): (u64, u64),
    sites: usize,
) -> Result<usize, Failure> {
    let (wanted, left) = (args.connections as usize, descriptors.saturating_sub(of_console));
    let console = match of_console {
        0 => String::new(),
        of_console => format!(", of which the console may take {of_console}"),
    };
    let too_few = |why| Failure::failed(format!("{why}{console}"));
    let places = isomer_server::places(left, sites, wanted).map_err(too_few)?;
    if places < wanted {
        tracing::warn!(
            "at most {places} clients at a time, not {wanted}: the system lets this process have {descriptors} \
             descriptors (ulimit -n){console}"
        );
    }
    Ok(places)
}

/// Starts the console if requested, and prints its link for a browser.
#[cfg(feature = "console")]
fn console(
    (args, http): (&ServeArgs, Option<SocketAddr>),
    engine: &Arc<Engine>,
    (server, socket): (SocketAddr, Option<&Path>),
    tls: Option<Tls>,
) -> Result<Option<Console>, Failure> {
    let Some(listen) = http else { return Ok(None) };
    let is_open = !listen.ip().is_loopback();
    if is_open && args.trust == Trust::Loopback {
        return Err(Failure::usage(format!(
            "--http {listen}: with --trust loopback the console lets in any user without a password, and other machines \
             can reach it; use --trust owner, or listen at 127.0.0.1"
        )));
    }
    let [engine, asked, troubled] = [(); 3].map(|()| engine.clone());
    let server = match server.ip().is_unspecified() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())),
        false => server,
    };
    let trusts_socket = args.trust != Trust::Nobody;
    let options = ConsoleOptions {
        listen,
        tls: tls.filter(|_| is_open),
        server,
        socket: socket.filter(|_| trusts_socket).map(Path::to_owned),
        figures: Arc::new(move || engine.figures()),
        trouble: Arc::new(move || isomer_server::trouble(&troubled)),
        loads: Arc::new(move || asked.loads()),
        clock: clock::now_us,
        random: clock::random,
    };
    let console = Console::start(options);
    let console = console.map_err(|error| Failure::failed(format!("--http {listen}: {error}")))?;
    // The link logs a browser in, so it is not for the log.
    out::tell(format!("console: {}", console.link()));
    Ok(Some(console))
}

/// The mode of the autopilot, and the statement that changes it.
fn autopilot(decider: &Decider) -> String {
    let Tuning { horizon_ns, changes_per_second, .. } = Tuning::default();
    match (decider.mode(), decider) {
        (Mode::Auto, Decider::Elastic(_)) => {
            "the autopilot is auto: when a site is overloaded, it moves what overloads it; isomer.decisions tells; \
                            ALTER SYSTEM SET autopilot = off leaves the design as it is"
                .to_owned()
        }
        (Mode::Auto, Decider::Learned(_)) => format!(
            "the autopilot is auto: it changes the design where that pays within {} s, at most {} times a second; \
             ALTER SYSTEM SET autopilot = off leaves the design as it is",
            horizon_ns / 1_000_000_000,
            changes_per_second,
        ),
        (Mode::Recommend, _) => {
            "the autopilot is recommend: isomer.decisions has what it would change; \
                            ALTER SYSTEM SET autopilot = auto lets it"
                .to_owned()
        }
        (Mode::Approve, _) => {
            "the autopilot is approve: isomer.proposals has what waits for an operator; \
                      ALTER SYSTEM APPROVE PROPOSAL 1 carries one out"
                .to_owned()
        }
        (Mode::Off, _) => {
            "the autopilot is off: only an operator changes placement; \
                      ALTER SYSTEM SET autopilot = auto lets it be changed"
                .to_owned()
        }
    }
}

/// The initial settings of sessions. Settings by name override the other options.
fn settings(args: &ServeArgs) -> Vec<(String, String)> {
    let isolation =
        ("default_transaction_isolation".to_owned(), args.isolation.setting().to_owned());
    std::iter::once(isolation).chain(args.settings.iter().cloned()).collect()
}

/// The psql commands that connect to the server.
fn ways(server: &Server, trust: Trust, socket: Option<&Path>) -> String {
    let address = server.address();
    let port = address.port();
    let rest = format!("-p {port} -d isomer -U isomer");
    match (trust, socket) {
        (Trust::Owner, Some(folder)) => {
            format!("-h {} {rest}; over TCP with a password", folder.display())
        }
        (Trust::Loopback, socket) => {
            let folder = socket.map(|folder| format!(", or -h {}", folder.display()));
            let all = "; everybody on this machine may connect as any user";
            format!("-h {} {rest}{}{all}", address.ip(), folder.unwrap_or_default())
        }
        (Trust::Nobody | Trust::Owner, _) => {
            format!("-h {} -p {port} -d isomer, with a user and its password", address.ip())
        }
    }
}

/// Listens on the Unix socket. The default folder may be unusable for a socket because its path is
/// too long.
fn listen_in_folder(server: &mut Server, args: &ServeArgs) -> Result<Option<PathBuf>, Failure> {
    let folder = args.socket.as_ref().unwrap_or(&args.data);
    match server.listen_in(folder) {
        Ok(socket) => Ok(socket.parent().map(Path::to_owned)),
        Err(error) if args.socket.is_none() => {
            tracing::warn!(
                "{error}. Clients connect over TCP, with a password; --socket DIR names another folder"
            );
            Ok(None)
        }
        Err(error) => Err(Failure::failed(error)),
    }
}

/// Parses `2..8`.
fn fleet(text: &str) -> Result<Fleet, String> {
    let number =
        |text: &str| text.parse().ok().filter(|sites| (1..=SITES_MAX_HERE).contains(sites));
    let ends =
        text.split_once("..").map(|(min, max)| (number(min), number(max.trim_start_matches('='))));
    match ends {
        Some((Some(min), Some(max))) if min <= max => Ok(Fleet::between(min, max)),
        _ => Err(format!(
            "`{text}` is no range of sites; write for example 2..8, {SITES_MAX_HERE} at most"
        )),
    }
}

/// Parses `name=value`.
fn setting(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.trim().is_empty());
    let (name, value) = parts
        .ok_or_else(|| format!("`{text}` has no `=`; write for example statement_timeout=30s"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
