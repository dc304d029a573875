//! A cluster of several processes on this machine, for trials.
//!
//! ```text
//!   isomer cluster up ──┬─▶ broker          with --kafka: starts first, stops last
//!                       ├─▶ isomer serve    has the router; stops first, so nothing is in flight
//!                       └─▶ isomer serve    the others, which stand by; `isomer node` where logs
//!                                           are in files
//! ```
//!
//! The parts are in process groups of their own, because a terminal's Ctrl-C would otherwise end
//! all at once. When one ends by itself, the others continue. Depending on the options, it is
//! restarted after a pause, which doubles while it ends soon after its start, or left as it is.

use super::broker::Broker;
use super::file::{ClusterFile, Process};
use super::nodes::{NODES, PROCESSES_MIN};
use super::ports::{LOOPBACK, free_port};
use crate::clock;
use crate::failure::Failure;
use crate::stop::Stop;
use isomer_net::Role;
use isomer_server::Trust;
use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The poll interval for a requested stop.
const LOOK: Duration = Duration::from_millis(50);
/// The shortest pause before a restart, and the longest, for a process that ends repeatedly.
const PAUSES_US: (i64, i64) = (1_000_000, 30_000_000);
/// A process that has run for 30 s has not ended soon after its start.
const LASTING_US: i64 = 30_000_000;
/// The name of the broker, beside the processes of the file.
pub const BROKER: &str = "broker";

/// Starts a cluster on this machine, for trials: a gateway process, nodes, and with --kafka a
/// broker
///
/// Its folder gets the file `cluster.toml` and a folder for each process; a second start in the
/// folder continues the cluster. Ctrl-C ends all processes. A process that ends by itself is
/// restarted (--when-one-ends). The broker needs a Java runtime; Maven fetches it, once, into
/// ~/.cache/isomer/kafka.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  isomer cluster up --nodes 3 --data /tmp/three
  isomer cluster up --nodes 3 --data /tmp/three --kafka --trust loopback
  isomer cluster status --config /tmp/three/cluster.toml
  psql -h /tmp/three/serve -p 5433 -d isomer -U isomer")]
pub struct UpArgs {
    /// Processes of a new cluster; the first one has the router
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=9))]
    pub nodes: u16,
    /// The redo logs of a new cluster are in Kafka, at a broker that is started as well
    #[arg(long, conflicts_with = "logs")]
    pub kafka: bool,
    /// The place of the redo logs of a new cluster without Kafka [default: nodes with three
    /// processes or more, otherwise files]
    #[arg(long, value_name = "PLACE")]
    pub logs: Option<LogsAt>,
    /// Sites of each process of a new cluster
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub sites: u16,
    /// The cluster's folder
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The address for clients of a new cluster; its nodes use the ports after it, or any ports
    /// with port 0
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    pub listen: SocketAddr,
    /// The fate of a process that ends by itself, while the others go on
    #[arg(long, value_name = "WHAT", default_value = "restart")]
    pub when_one_ends: WhenOneEnds,
    /// The local clients that need no password: see isomer serve
    #[arg(long, value_name = "WHO", default_value_t = Trust::Owner)]
    pub trust: Trust,
    /// The address of the console of a new cluster's first process; the others use the ports after
    /// it, or any ports with port 0
    #[cfg_attr(feature = "console", arg(long, value_name = "ADDR"))]
    #[cfg_attr(not(feature = "console"), arg(skip))]
    pub http: Option<SocketAddr>,
    /// Further lines of a new cluster's file.
    #[arg(skip)]
    pub keys: String,
}

/// The place of redo logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum LogsAt {
    /// Each log is kept by a majority of the processes
    Nodes,
    /// Each log is in its own process's folder
    Files,
}

/// The fate of a process that ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WhenOneEnds {
    /// Restarts it after a moment
    Restart,
    /// Leaves it
    Leave,
}

/// A process of the cluster, which ends with this one.
struct Part {
    name: String,
    child: Child,
    /// The time of its start, by the clock of [`clock::now_us`].
    started_us: i64,
    /// The pause before its start; 0 at first.
    pause_us: i64,
}

impl Part {
    fn new(name: &str, child: Child) -> Part {
        Part { name: name.to_owned(), child, started_us: clock::now_us(), pause_us: 0 }
    }

    /// The pause before its restart: longer while it ends soon after its start.
    fn next_pause(&self, now: i64) -> i64 {
        let (least, most) = PAUSES_US;
        let has_lasted = now - self.started_us >= LASTING_US;
        if has_lasted { least } else { (2 * self.pause_us).clamp(least, most) }
    }

    /// Stops it, and waits until it has ended.
    fn stop(&mut self) {
        if self.ask_to_stop() {
            let _ = self.child.wait();
        }
    }

    /// False if it could not be asked.
    fn ask_to_stop(&self) -> bool {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        asked.is_ok_and(|asked| asked.success())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has ended, or must end now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a cluster until a stop is requested, or no process is left.
///
/// # Errors
/// If a process cannot be started, or all have ended.
pub(super) fn run(args: &UpArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    isomer_server::make_private_files();
    let Some(mut running) = Running::start(args, true, &stop)? else { return Ok(()) };
    while !stop.is_asked() {
        clock::sleep(LOOK);
        let now = clock::now_us();
        for (part, ended) in running.ended()? {
            let (name, pause) = (&part.name, part.next_pause(now));
            match args.when_one_ends {
                WhenOneEnds::Restart => {
                    let seconds = pause / 1_000_000;
                    eprintln!(
                        "the process {name} has ended ({ended}); it starts again in {seconds} s"
                    );
                    running.due.push((name.clone(), now + pause, pause));
                }
                WhenOneEnds::Leave => {
                    eprintln!("the process {name} has ended ({ended}); the others go on");
                }
            }
        }
        running.start_due(now, &stop)?;
        if running.parts.is_empty() && running.due.is_empty() {
            return Err(Failure::failed("all processes have ended"));
        }
    }
    running.stop();
    Ok(())
}

/// A cluster whose processes are children of this one.
pub struct Running {
    /// The broker, if there is one, and then the processes in the order of the file.
    parts: Vec<Part>,
    /// Processes that have ended, with the times of their restarts, and the pauses.
    due: Vec<(String, i64, i64)>,
    broker: Option<Broker>,
    config: PathBuf,
    pub file: ClusterFile,
    data: PathBuf,
    trust: Trust,
    /// Whether its processes print their addresses.
    says: bool,
}

impl Running {
    /// Starts all; `None` if a stop was requested meanwhile.
    pub fn start(args: &UpArgs, says: bool, stop: &Stop) -> Result<Option<Running>, Failure> {
        std::fs::create_dir_all(&args.data).map_err(Failure::failed)?;
        let (config, broker) = prepare(args)?;
        let file = ClusterFile::open(&config).map_err(Failure::failed)?;
        let (data, trust) = (args.data.clone(), args.trust);
        let (parts, due) = (Vec::new(), Vec::new());
        let mut running = Running { parts, due, broker, config, file, data, trust, says };
        if let Some(broker) = &running.broker {
            let mut part = Part::new(BROKER, broker.start()?);
            if !broker.until_up(&mut part.child, stop)? {
                return Ok(None);
            }
            eprintln!("redo logs are at {}", broker.log());
            running.parts.push(part);
        }
        for process in &running.file.processes {
            let part = running.process(process)?;
            running.parts.push(part);
        }
        Ok(Some(running))
    }

    fn process(&self, process: &Process) -> Result<Part, Failure> {
        let name = process.member.name.clone();
        // Where logs survive their process, each process can serve.
        let can_serve = process.role == Role::Router || self.file.log.log.is_some();
        let program = crate::program()?;
        let mut command = Command::new(program);
        command.arg(if can_serve { "serve" } else { "node" });
        command.args(["--name", &name, "--config"]).arg(&self.config);
        command.arg("--data").arg(self.data.join(&name));
        if can_serve {
            command.args(["--trust", &self.trust.to_string()]);
        }
        if !self.says {
            command.stdout(Stdio::null());
        }
        let child = command.process_group(0).spawn().map_err(Failure::failed)?;
        Ok(Part::new(&name, child))
    }

    /// Removes and returns the processes that have ended, each with its exit status.
    fn ended(&mut self) -> Result<Vec<(Part, ExitStatus)>, Failure> {
        let (mut ended, mut at) = (Vec::new(), 0);
        while at < self.parts.len() {
            match self.parts[at].child.try_wait().map_err(Failure::failed)? {
                Some(how) => ended.push((self.parts.remove(at), how)),
                None => at += 1,
            }
        }
        Ok(ended)
    }

    /// Restarts the processes that are due.
    fn start_due(&mut self, now: i64, stop: &Stop) -> Result<(), Failure> {
        let due: Vec<_> = self.due.extract_if(.., |(_, at, _)| *at <= now).collect();
        for (name, _, pause_us) in due {
            let mut part = self.part(&name, stop)?;
            part.pause_us = pause_us;
            self.parts.push(part);
        }
        Ok(())
    }

    /// Starts a stopped process or the broker. Waits until a broker accepts clients.
    fn part(&self, name: &str, stop: &Stop) -> Result<Part, Failure> {
        match &self.broker {
            Some(broker) if name == BROKER => {
                let mut part = Part::new(name, broker.start()?);
                broker.until_up(&mut part.child, stop)?;
                Ok(part)
            }
            _ => {
                let named = |process: &&Process| process.member.name == name;
                let process = self.file.processes.iter().find(named).expect("it is in the file");
                self.process(process)
            }
        }
    }

    /// Stops all: the gateway process first, so that no transaction is in flight at the nodes, and
    /// the broker last.
    pub fn stop(mut self) {
        let serves = self.file.router().member.name.clone();
        self.parts.sort_by_key(|part| (part.name == BROKER, part.name != serves));
        let is_last = |part: &Part| part.name == BROKER;
        let (first, rest): (Vec<_>, Vec<_>) =
            self.parts.iter_mut().partition(|part| part.name == serves);
        first.into_iter().for_each(Part::stop);
        let (last, nodes): (Vec<_>, Vec<_>) = rest.into_iter().partition(|part| is_last(part));
        // At once: a process that is asked late would take the conductor meanwhile.
        let asked: Vec<&mut Part> = nodes.into_iter().filter(|part| part.ask_to_stop()).collect();
        for part in asked {
            let _ = part.child.wait();
        }
        last.into_iter().for_each(Part::stop);
    }
}

/// Faults of single parts, for trials.
#[cfg(feature = "kafka")]
impl Running {
    /// `kill -9`.
    pub fn kill(&mut self, name: &str) {
        self.parts.retain(|part| part.name != name);
    }

    /// Stops a part, and waits until it has ended.
    pub fn end(&mut self, name: &str) {
        self.parts.iter_mut().filter(|part| part.name == name).for_each(Part::stop);
        self.kill(name);
    }

    /// Starts a stopped process or the broker. Waits until a broker accepts clients.
    pub fn start_again(&mut self, name: &str) -> Result<(), Failure> {
        let part = self.part(name, &Stop::default())?;
        self.parts.push(part);
        Ok(())
    }

    /// The process id of a running process.
    pub fn pid(&self, name: &str) -> u32 {
        let mut all = self.parts.iter();
        all.find(|part| part.name == name).expect("it runs").child.id()
    }
}

/// The configuration file of the cluster, created if missing, and its broker, if it has one.
fn prepare(args: &UpArgs) -> Result<(PathBuf, Option<Broker>), Failure> {
    let (config, of_broker) = (args.data.join("cluster.toml"), args.data.join("broker"));
    if config.exists() {
        let broker = Broker::of(&of_broker)?;
        if args.kafka && broker.is_none() {
            return Err(Failure::usage(format!(
                "the cluster in {} has no broker: --kafka is for a new one",
                args.data.display()
            )));
        }
        return Ok((config, broker));
    }
    let broker = if args.kafka { Some(Broker::new(&of_broker)?) } else { None };
    let text = file(args, broker.as_ref())?;
    std::fs::write(&config, text).map_err(Failure::failed)?;
    Ok((config, broker))
}

/// The configuration file of a new cluster, with ports that are free now.
fn file(args: &UpArgs, broker: Option<&Broker>) -> Result<String, Failure> {
    let (nodes, sites) = (args.nodes, args.sites);
    let listen = |address: SocketAddr| {
        TcpListener::bind(address).map_err(|error| Failure::failed(format!("{address}: {error}")))
    };
    let mut text = "# A cluster of `isomer cluster up`: who is in it, and where.\n".to_owned();
    text += &args.keys;
    if let Some(broker) = broker {
        // A path that all processes can reach, because they are on one machine.
        let data = args.data.canonicalize().map_err(Failure::failed)?;
        let checkpoints = data.join("checkpoints");
        std::fs::create_dir_all(&checkpoints).map_err(Failure::failed)?;
        let checkpoints = format!("file://{}", checkpoints.display());
        writeln!(text, "log = \"{}\"\ncheckpoints = {checkpoints:?}", broker.log())
            .expect("text can be written to");
    }
    let usual = if usize::from(nodes) >= PROCESSES_MIN { LogsAt::Nodes } else { LogsAt::Files };
    if broker.is_none() && args.logs.unwrap_or(usual) == LogsAt::Nodes {
        writeln!(text, "log = \"{NODES}\"").expect("text can be written to");
    }
    // Held until all are chosen, so that none is chosen twice.
    let mut held = Vec::new();
    let mut consoles = Vec::new();
    for at in 0..nodes {
        let mut clients = args.listen;
        clients.set_port(clients.port().saturating_add(at));
        let free = |address| {
            free_port(address).map_err(|error| Failure::failed(format!("{address}: {error}")))
        };
        let clients = match args.listen.port() {
            0 => free(clients.ip())?,
            _ => listen(clients)?,
        };
        let processes = free(LOOPBACK)?;
        let own: Vec<String> = (1..=sites).map(|site| (at * sites + site).to_string()).collect();
        write!(
            text,
            "\n[[process]]\nname = \"{}\"\naddress = \"{}\"\nclients = \"{}\"\nsites = [{}]\n{}",
            if at == 0 { "serve".to_owned() } else { format!("node{at}") },
            processes.local_addr().map_err(Failure::failed)?,
            clients.local_addr().map_err(Failure::failed)?,
            own.join(", "),
            if at == 0 { "router = true\n" } else { "" }
        )
        .expect("text can be written to");
        if let Some(mut http) = args.http {
            let listener = match http.port() {
                0 => free(http.ip())?,
                port => {
                    http.set_port(port.saturating_add(at));
                    listen(http)?
                }
            };
            let http = listener.local_addr().map_err(Failure::failed)?;
            writeln!(text, "http = \"{http}\"").expect("text can be written to");
            consoles.push(listener);
        }
        held.push((processes, clients));
    }
    Ok(text)
}
