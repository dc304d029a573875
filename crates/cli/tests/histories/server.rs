//! A server in a process of its own, and connections to it that come back when it does.

use crate::broker::Broker;
use crate::wait_for;
use isomer_check::Outcome;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

/// The processes of a cluster, with their sites; the first one serves.
const PROCESSES: [(&str, &str); 3] = [("a", "1"), ("b", "2"), ("c", "3, 4")];

pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    /// Where its Unix socket is.
    socket: PathBuf,
    process: Mutex<Child>,
    /// Each start gets another one.
    port: AtomicU16,
    cluster: Option<Cluster>,
}

/// What there is beside the process that serves, where sites are in several: nodes, and the broker of their logs.
struct Cluster {
    nodes: Vec<Mutex<Child>>,
    broker: Mutex<Broker>,
}

impl Server {
    /// A new database of four sites in an empty folder.
    pub(crate) fn start(name: &str) -> Server {
        let folder = new_folder(name);
        let (process, port) = serve(&folder, &["--sites", "4"]);
        let (process, port) = (Mutex::new(process), AtomicU16::new(port));
        Server { socket: folder.clone(), folder, process, port, cluster: None }
    }

    /// The same, with its sites in three processes and its logs at a broker; `None` if there can be no broker here.
    pub(crate) fn start_cluster(name: &str) -> Option<Server> {
        let broker = Broker::start()?;
        let folder = new_folder(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("cluster.toml"), cluster_file(&broker)).expect("a file");
        let nodes = (1..PROCESSES.len()).map(|at| Mutex::new(node(&folder, at))).collect();
        let cluster = Some(Cluster { nodes, broker: Mutex::new(broker) });
        let (process, port) = serve_cluster(&folder);
        let (process, port) = (Mutex::new(process), AtomicU16::new(port));
        Some(Server { socket: folder.join("a"), folder, process, port, cluster })
    }

    /// `kill -9`, and another start in the same folder.
    pub(crate) fn kill_and_restart(&self) {
        let mut process = self.process.lock().expect("nobody panics with it");
        end(&mut process);
        let (again, port) = match self.cluster {
            Some(_) => serve_cluster(&self.folder),
            None => serve(&self.folder, &["--sites", "4"]),
        };
        *process = again;
        self.port.store(port, Ordering::SeqCst);
    }

    /// The same of a node, chosen by a number; it does not wait until that is back.
    pub(crate) fn kill_and_restart_node(&self, number: usize) {
        let nodes = &self.cluster.as_ref().expect("it is a cluster").nodes;
        let at = number % nodes.len();
        let mut process = nodes[at].lock().expect("nobody panics with it");
        end(&mut process);
        *process = node(&self.folder, at + 1);
    }

    /// The same of the broker.
    pub(crate) fn kill_and_restart_broker(&self) {
        let broker = &self.cluster.as_ref().expect("it is a cluster").broker;
        let mut broker = broker.lock().expect("nobody panics with it");
        broker.kill();
        broker.restart();
    }

    /// Ends it for good; who waits for an answer is told that there is none.
    pub(crate) fn kill(&self) {
        let _ = self.process.lock().map(|mut process| process.kill());
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let process = self.process.lock().expect("nobody panics with it").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &process]).status();
        assert!(sent.expect("there is kill").success(), "{name} was not sent");
    }

    /// A connection, as soon as there is one.
    pub(crate) fn client(&self) -> Client {
        let mut client = None;
        let cell = std::cell::RefCell::new(&mut client);
        wait_for("a connection", || {
            **cell.borrow_mut() = self.try_client().ok();
            cell.borrow().is_some()
        });
        client.expect("it was waited for")
    }

    /// Over the Unix socket in the database's folder, where who runs the server is let in.
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

fn end(process: &mut Child) {
    process.kill().expect("it runs until it is killed");
    process.wait().expect("it was killed");
}

fn new_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("histories-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn cluster_file(broker: &Broker) -> String {
    let listeners = PROCESSES.map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let mut text = format!("log = \"{}\"\nnode_wait_seconds = 60\n", broker.address("histories"));
    for ((name, sites), listener) in PROCESSES.iter().zip(&listeners) {
        let address = listener.local_addr().expect("it has an address");
        let router = *name == PROCESSES[0].0;
        text += &format!(
            "[[process]]\nname = \"{name}\"\naddress = \"{address}\"\nsites = [{sites}]\nrouter = {router}\n"
        );
    }
    text
}

fn node(folder: &Path, at: usize) -> Child {
    let (name, _) = PROCESSES[at];
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command.args(["node", "--name", name, "--config"]).arg(folder.join("cluster.toml"));
    command.arg("--data").arg(folder.join(name)).stdout(Stdio::null());
    command.spawn().expect("the program starts")
}

fn serve_cluster(folder: &Path) -> (Child, u16) {
    let config = folder.join("cluster.toml").display().to_string();
    serve(&folder.join(PROCESSES[0].0), &["--config", &config])
}

fn serve(folder: &Path, more: &[&str]) -> (Child, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
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

/// What a client knows of a transaction after an error; whether its connection has ended.
///
/// # Panics
/// At an error that no client should see who has done nothing wrong.
pub(crate) fn judged(error: &postgres::Error, was_committing: bool) -> (Outcome, bool) {
    let unknown = if was_committing { Outcome::Unknown } else { Outcome::Failed };
    let Some(code) = error.code() else { return (unknown, true) };
    match code.code() {
        "08007" | "57P01" => (unknown, true),
        // A node, or a log, cannot be reached: nothing was done.
        "57P03" => (Outcome::Failed, false),
        _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
            .contains(code) =>
        {
            (Outcome::Failed, false)
        }
        _ => panic!("not an error that this can have: {error:?}"),
    }
}
