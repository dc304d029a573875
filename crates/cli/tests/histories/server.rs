//! A server in a process of its own, and connections to it that wait for its restart.

use crate::broker::ports::{LOOPBACK, free_port};
use crate::brokers::{BROKERS, Brokers};
use crate::chance::Chance;
use crate::machines::{Machine, Machines};
use crate::wait_for;
use isomer_check::Outcome;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// The processes of a cluster and their sites; the first one has the router.
const PROCESSES: [(&str, &str); 3] = [("a", "1"), ("b", "2"), ("c", "3, 4")];

pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    /// The folder of its Unix socket.
    socket: PathBuf,
    process: Mutex<Child>,
    /// Each start gets a new port.
    port: AtomicU16,
    cluster: Option<Cluster>,
}

/// The other parts of a cluster: nodes and brokers, each on a machine of its own. The machine of
/// the router's process is the first, those of nodes and brokers follow. The machines are the last
/// field, because they must be dropped last.
struct Cluster {
    nodes: Vec<Mutex<Child>>,
    brokers: Brokers,
    machines: Machines,
}

/// The last parts of the machines' addresses.
const MACHINES: [u8; 6] = [1, 2, 3, 11, 12, 13];
/// Longer than the lease of a log in Kafka, so that the owner of a log may have changed.
const STANDS_STILL_MS: i64 = 4500;

impl Server {
    /// A new database of four sites in an empty folder.
    pub(crate) fn start(name: &str) -> Server {
        let folder = new_folder(name);
        let (process, port) = serve(&folder, &["--sites", "4"]);
        let (process, port) = (Mutex::new(process), AtomicU16::new(port));
        Server { socket: folder.clone(), folder, process, port, cluster: None }
    }

    /// The same with the sites in three processes and the logs at three brokers; `None` if brokers
    /// cannot run here.
    pub(crate) fn start_cluster(name: &str) -> Option<Server> {
        let folder = new_folder(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut machines = Machines::new(&MACHINES);
        let brokers = Brokers::start(&mut machines, PROCESSES.len(), &folder)?;
        let file = cluster_file(&brokers, &machines);
        std::fs::write(folder.join("cluster.toml"), file).expect("a file");
        let nodes = (1..PROCESSES.len()).map(|at| Mutex::new(node(&folder, at, machines.at(at))));
        let nodes = nodes.collect();
        let (process, port) = serve_cluster(&folder, machines.at(0));
        let cluster = Some(Cluster { nodes, brokers, machines });
        let (process, port) = (Mutex::new(process), AtomicU16::new(port));
        Some(Server { socket: folder.join("a"), folder, process, port, cluster })
    }

    /// Kills the server by `kill -9`, and starts it in the same folder.
    pub(crate) fn kill_and_restart(&self) {
        let mut process = self.process.lock().expect("no thread panics with it");
        end(&mut process);
        let (again, port) = match &self.cluster {
            Some(cluster) => serve_cluster(&self.folder, cluster.machines.at(0)),
            None => serve(&self.folder, &["--sites", "4"]),
        };
        *process = again;
        self.port.store(port, Ordering::SeqCst);
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("it is a cluster")
    }

    /// Kills and restarts a random process of a cluster. Does not wait until a node has rejoined.
    pub(crate) fn kill_and_restart_process(&self, chance: &mut Chance) {
        let at = chance.below(PROCESSES.len() as i64) as usize;
        let Some(before) = at.checked_sub(1) else { return self.kill_and_restart() };
        let Cluster { nodes, machines, .. } = self.cluster();
        let mut process = nodes[before].lock().expect("no thread panics with it");
        end(&mut process);
        *process = node(&self.folder, at, machines.at(at));
    }

    /// Kills and restarts a random broker.
    pub(crate) fn kill_and_restart_broker(&self, chance: &mut Chance) {
        let Cluster { brokers, machines, .. } = self.cluster();
        brokers.kill_and_restart(machines, PROCESSES.len(), chance.below(BROKERS as i64) as usize);
    }

    /// Stops a random process of a cluster for longer than its lease, and lets it continue.
    pub(crate) fn stand_still(&self, chance: &mut Chance) {
        let at = chance.below(PROCESSES.len() as i64) as usize;
        let process = match at.checked_sub(1) {
            None => &self.process,
            Some(node) => &self.cluster().nodes[node],
        };
        let process = process.lock().expect("no thread panics with it");
        send(&process, "STOP");
        pause(STANDS_STILL_MS + chance.below(2000));
        send(&process, "CONT");
    }

    /// Cuts a machine off from all others or from one of them, and reconnects it; false if that is
    /// not possible here.
    pub(crate) fn cut_off(&self, chance: &mut Chance) -> bool {
        let machines = &self.cluster().machines;
        if !machines.can_be_cut_off() {
            return false;
        }
        let one = chance.below(MACHINES.len() as i64) as usize;
        let other = (one + 1 + chance.below(MACHINES.len() as i64 - 1) as usize) % MACHINES.len();
        let set: &dyn Fn(bool) = match chance.below(2) {
            0 => &|is_off| machines.cut_off(one, is_off),
            _ => &|is_off| machines.cut(one, other, is_off),
        };
        set(true);
        pause(500 + chance.below(6000));
        set(false);
        true
    }

    /// Fills the disk of a broker, which ends it, and restarts it when the disk is empty again;
    /// false if that is not possible here.
    pub(crate) fn fill_a_disk(&self, go_on: impl Fn()) -> bool {
        let Cluster { brokers, machines, .. } = self.cluster();
        let Some(at) = brokers.fill() else { return false };
        go_on();
        brokers.make_room(at);
        brokers.kill_and_restart(machines, PROCESSES.len(), at);
        true
    }

    /// Kills the server for good; waiting clients get an error.
    pub(crate) fn kill(&self) {
        let _ = self.process.lock().map(|mut process| process.kill());
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        send(&self.process.lock().expect("no thread panics with it"), name);
    }

    /// Connects, as soon as the server accepts it.
    pub(crate) fn client(&self) -> Client {
        let mut client = None;
        let cell = std::cell::RefCell::new(&mut client);
        wait_for("a connection", || {
            **cell.borrow_mut() = self.try_client().ok();
            cell.borrow().is_some()
        });
        client.expect("it was waited for")
    }

    /// Connects over the Unix socket in the database's folder, which trusts the user that runs the
    /// server.
    fn try_client(&self) -> Result<Client, postgres::Error> {
        let (mut config, port) = (Config::new(), self.port.load(Ordering::SeqCst));
        config.host_path(&self.socket).port(port).user("isomer").dbname("isomer").connect(NoTls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(process) = self.process.get_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
        for node in self.cluster.iter_mut().flat_map(|cluster| &mut cluster.nodes) {
            if let Ok(process) = node.get_mut() {
                end(process);
            }
        }
    }
}

fn send(process: &Child, signal: &str) {
    let sent =
        Command::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).status();
    assert!(sent.expect("kill can be run").success(), "{signal} was not sent");
}

#[allow(clippy::disallowed_methods, reason = "something lasts for some time")]
fn pause(ms: i64) {
    std::thread::sleep(Duration::from_millis(ms as u64));
}

fn end(process: &mut Child) {
    process.kill().expect("it runs until it is killed");
    process.wait().expect("it was killed");
}

fn new_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("histories-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn cluster_file(brokers: &Brokers, machines: &Machines) -> String {
    let listeners = PROCESSES.map(|_| free_port(LOOPBACK).expect("a free port"));
    let mut text = format!("log = \"{}\"\nnode_wait_seconds = 60\n", brokers.address("histories"));
    for (at, ((name, sites), listener)) in PROCESSES.iter().zip(&listeners).enumerate() {
        let port = listener.local_addr().expect("it has an address").port();
        let address = format!("{}:{port}", machines.at(at).address);
        let router = *name == PROCESSES[0].0;
        text += &format!(
            "[[process]]\nname = \"{name}\"\naddress = \"{address}\"\nsites = [{sites}]\nrouter = {router}\n"
        );
    }
    text
}

fn node(folder: &Path, at: usize, machine: &Machine) -> Child {
    let (name, _) = PROCESSES[at];
    let mut command = machine.command(env!("CARGO_BIN_EXE_isomer"));
    command
        .args(["node", "--trust-network", "--name", name, "--config"])
        .arg(folder.join("cluster.toml"));
    command.arg("--data").arg(folder.join(name)).stdout(Stdio::null());
    command.spawn().expect("the program starts")
}

fn serve_cluster(folder: &Path, machine: &Machine) -> (Child, u16) {
    let config = folder.join("cluster.toml").display().to_string();
    let command = machine.command(env!("CARGO_BIN_EXE_isomer"));
    started(command, &folder.join(PROCESSES[0].0), &["--trust-network", "--config", &config])
}

fn serve(folder: &Path, more: &[&str]) -> (Child, u16) {
    started(Command::new(env!("CARGO_BIN_EXE_isomer")), folder, more)
}

fn started(mut command: Command, folder: &Path, more: &[&str]) -> (Child, u16) {
    command.args(["serve", "--listen", "127.0.0.1:0", "--trust", "loopback"]).args(more);
    command.args(["--autopilot", "off", "--data"]).arg(folder);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut said = String::new();
    let lines = process.stdout.take().expect("it is piped");
    BufReader::new(lines).read_line(&mut said).expect("it says where it listens");
    let port = said.split_once(" at 127.0.0.1:").and_then(|(_, rest)| rest.split_once(':'));
    let port = port.and_then(|(port, _)| port.parse().ok());
    let port = port.unwrap_or_else(|| panic!("it does not serve: `{said}`"));
    (process, port)
}

/// The outcome of a transaction according to an error, and whether the connection has ended.
///
/// # Panics
/// At an error that a client without faults must not see.
pub(crate) fn judged(error: &postgres::Error, was_committing: bool) -> (Outcome, bool) {
    let unknown = if was_committing { Outcome::Unknown } else { Outcome::Failed };
    let Some(code) = error.code() else { return (unknown, true) };
    match code.code() {
        "08007" | "57P01" => (unknown, true),
        // A node or a log is unreachable: nothing was committed.
        "57P03" => (Outcome::Failed, false),
        _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
            .contains(code) =>
        {
            (Outcome::Failed, false)
        }
        _ => panic!("not an expected error: {error:?}"),
    }
}
