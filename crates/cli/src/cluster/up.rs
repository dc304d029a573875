//! A cluster of several processes on this machine, for trying out.
//!
//! ```text
//!   isomer cluster up ──┬─▶ broker          with --kafka: first to come, last to go
//!                       ├─▶ isomer serve    has the router; goes first, so that nothing is under way at the nodes
//!                       └─▶ isomer node …
//! ```
//!
//! The parts are in process groups of their own, as a terminal's Ctrl-C would end all at once.

use super::broker::Broker;
use super::file::{ClusterFile, Process};
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
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often the command looks whether it was asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// What the broker is called, beside the processes of the file.
pub const BROKER: &str = "broker";

/// Starts a cluster on this machine, for trying out: one process that serves, nodes, and with --kafka a broker
///
/// Its folder gets the file `cluster.toml` and a folder for each process; with the same folder it goes on. Ctrl-C ends
/// all of them. The broker needs a Java runtime; Maven fetches it, once, into ~/.cache/isomer/kafka.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  isomer cluster up --nodes 3 --data /tmp/three
  isomer cluster up --nodes 3 --data /tmp/three --kafka --trust loopback
  isomer cluster status --config /tmp/three/cluster.toml
  psql -h /tmp/three/serve -p 5433 -d isomer -U isomer")]
pub struct UpArgs {
    /// Processes of a new cluster; the first is the one that serves
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=9))]
    pub nodes: u16,
    /// The redo logs of a new cluster are in Kafka, at a broker that is started as well
    #[arg(long)]
    pub kafka: bool,
    /// Sites of each process of a new cluster
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub sites: u16,
    /// The cluster's folder
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Where clients of a new cluster connect; at its nodes, at the ports after that, or with port 0 at any
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    pub listen: SocketAddr,
    /// Which clients of this machine need no password: see isomer serve
    #[arg(long, value_name = "WHO", default_value_t = Trust::Owner)]
    pub trust: Trust,
    /// Further lines of a new cluster's file.
    #[arg(skip)]
    pub keys: String,
}

/// A process of the cluster; it is ended with this one.
struct Part {
    name: String,
    child: Child,
}

impl Part {
    /// Asks it to end, and waits until it has.
    fn stop(&mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        if asked.is_ok_and(|asked| asked.success()) {
            let _ = self.child.wait();
        }
    }
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
    let stop = Stop::on_signals()?;
    isomer_server::make_private_files();
    let Some(mut running) = Running::start(args, true, &stop)? else { return Ok(()) };
    while !stop.is_asked() {
        clock::sleep(LOOK);
        for part in &mut running.parts {
            if let Some(ended) = part.child.try_wait().map_err(Failure::failed)? {
                let name = &part.name;
                return Err(Failure::failed(format!("the process {name} has ended: {ended}")));
            }
        }
    }
    running.stop();
    Ok(())
}

/// A cluster whose processes are started by this one, and end with it.
pub struct Running {
    /// The broker, if there is one; and then as in the file.
    parts: Vec<Part>,
    broker: Option<Broker>,
    config: PathBuf,
    pub file: ClusterFile,
    data: PathBuf,
    trust: Trust,
    /// Whether its processes say where they are.
    says: bool,
}

impl Running {
    /// Starts all; `None` if it was told to stop meanwhile.
    pub fn start(args: &UpArgs, says: bool, stop: &Stop) -> Result<Option<Running>, Failure> {
        std::fs::create_dir_all(&args.data).map_err(Failure::failed)?;
        let (config, broker) = prepare(args)?;
        let file = ClusterFile::open(&config).map_err(Failure::failed)?;
        let (data, trust) = (args.data.clone(), args.trust);
        let parts = Vec::new();
        let mut running = Running { parts, broker, config, file, data, trust, says };
        if let Some(broker) = &running.broker {
            let mut part = Part { name: BROKER.to_owned(), child: broker.start()? };
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
        let (name, is_router) = (process.member.name.clone(), process.role == Role::Router);
        let program = crate::program()?;
        let mut command = Command::new(program);
        command.arg(if is_router { "serve" } else { "node" });
        command.args(["--name", &name, "--config"]).arg(&self.config);
        command.arg("--data").arg(self.data.join(&name));
        if is_router {
            command.args(["--trust", &self.trust.to_string()]);
        }
        if !self.says {
            command.stdout(Stdio::null());
        }
        let child = command.process_group(0).spawn().map_err(Failure::failed)?;
        Ok(Part { name, child })
    }

    /// Ends all, the one that serves first: then nothing is under way at the nodes. The broker last.
    pub fn stop(mut self) {
        let serves = self.file.router().member.name.clone();
        self.parts.sort_by_key(|part| (part.name == BROKER, part.name != serves));
        self.parts.iter_mut().for_each(Part::stop);
    }
}

/// What happens to single parts, where somebody tries that out.
#[cfg(feature = "kafka")]
impl Running {
    /// `kill -9`.
    pub fn kill(&mut self, name: &str) {
        self.parts.retain(|part| part.name != name);
    }

    /// Asks a part to end, and waits until it has.
    pub fn end(&mut self, name: &str) {
        self.parts.iter_mut().filter(|part| part.name == name).for_each(Part::stop);
        self.kill(name);
    }

    /// Starts a process, or the broker, that does not run. Of the broker it waits until that takes clients.
    pub fn start_again(&mut self, name: &str) -> Result<(), Failure> {
        let part = match &self.broker {
            Some(broker) if name == BROKER => {
                let mut part = Part { name: name.to_owned(), child: broker.start()? };
                broker.until_up(&mut part.child, &Stop::default())?;
                part
            }
            _ => {
                let named = |process: &&Process| process.member.name == name;
                let process = self.file.processes.iter().find(named).expect("it is in the file");
                self.process(process)?
            }
        };
        self.parts.push(part);
        Ok(())
    }

    /// The number of a process that runs.
    pub fn pid(&self, name: &str) -> u32 {
        let mut all = self.parts.iter();
        all.find(|part| part.name == name).expect("it runs").child.id()
    }
}

/// The file of the cluster, made if it is new; and its broker, if it has one.
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

/// The file of a new cluster: ports that are free now.
fn file(args: &UpArgs, broker: Option<&Broker>) -> Result<String, Failure> {
    let (nodes, sites) = (args.nodes, args.sites);
    let listen = |address: SocketAddr| {
        TcpListener::bind(address).map_err(|error| Failure::failed(format!("{address}: {error}")))
    };
    let mut text = "# A cluster of `isomer cluster up`: who is in it, and where.\n".to_owned();
    text += &args.keys;
    if let Some(broker) = broker {
        // What all processes reach: they are on one machine.
        let data = args.data.canonicalize().map_err(Failure::failed)?;
        let checkpoints = data.join("checkpoints");
        std::fs::create_dir_all(&checkpoints).map_err(Failure::failed)?;
        let checkpoints = format!("file://{}", checkpoints.display());
        writeln!(text, "log = \"{}\"\ncheckpoints = {checkpoints:?}", broker.log())
            .expect("text can be written to");
    }
    // Held until all are known: none is given twice.
    let mut held = Vec::new();
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
        held.push((processes, clients));
    }
    Ok(text)
}
