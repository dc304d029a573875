//! A cluster of three processes for tests, with control over their starts and faults.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod bank;
pub(crate) mod up;

use crate::ports::{LOOPBACK, free_port};
use crate::run::isomer;
use postgres::{Client, Config, NoTls};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time limit of waits in tests: many times what a slow machine needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(20);

/// The processes: the gateway has site 1, each node one of the others.
pub(crate) const PROCESSES: [(&str, u16); 3] = [("a", 1), ("b", 2), ("c", 3)];

pub(crate) struct Cluster {
    folder: PathBuf,
    /// The folder of each process.
    data: Mutex<Vec<PathBuf>>,
    /// Further flags of each process.
    flags: Vec<String>,
    processes: Mutex<Vec<Option<Child>>>,
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(LOOK);
    }
}

impl Cluster {
    /// A cluster with these keys in its file, besides its processes. No process runs yet.
    pub(crate) fn new(folder: &Path, keys: &str) -> Cluster {
        Cluster::with_sites(folder, keys, 1)
    }

    /// As [`Cluster::new`], with `each` sites per process: with 2, these are 1 and 2, 3 and 4, 5
    /// and 6.
    pub(crate) fn with_sites(folder: &Path, keys: &str, each: u16) -> Cluster {
        let listeners = PROCESSES.map(|_| free_port(LOOPBACK).expect("a free port"));
        let mut text = format!("{keys}\n");
        for ((name, site), listener) in PROCESSES.iter().zip(&listeners) {
            let address = listener.local_addr().expect("it has an address");
            let (router, last) = (*site == 1, site * each);
            let sites: Vec<u16> = (last - each + 1..=last).collect();
            text += &format!(
                "[[process]]\nname = \"{name}\"\naddress = \"{address}\"\nsites = {sites:?}\nrouter = {router}\n"
            );
        }
        std::fs::write(folder.join("cluster.toml"), text).expect("a file");
        let processes = Mutex::new(PROCESSES.map(|_| None).into());
        let data = Mutex::new(PROCESSES.map(|(name, _)| folder.join(name)).into());
        Cluster { folder: folder.to_owned(), data, flags: Vec::new(), processes }
    }

    /// Starts each process with these flags as well.
    pub(crate) fn with_flags(mut self, flags: &[&str]) -> Cluster {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self
    }

    /// The folder of a process.
    pub(crate) fn data(&self, at: usize) -> PathBuf {
        self.data.lock().expect("no thread panics with it")[at].clone()
    }

    /// Gives a process an empty folder for its next start, as on another machine.
    pub(crate) fn move_away(&self, at: usize) {
        let mut data = self.data.lock().expect("no thread panics with it");
        let name = data[at].file_name().expect("it has a name").to_string_lossy().into_owned();
        data[at] = self.folder.join(name + "-elsewhere");
    }

    pub(crate) fn config(&self) -> String {
        self.folder.join("cluster.toml").display().to_string()
    }

    /// Starts a process, without waiting for it.
    pub(crate) fn start(&self, at: usize) {
        let (name, _) = PROCESSES[at];
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command.arg(if at == 0 { "serve" } else { "node" });
        command.args(["--config", &self.config(), "--name", name, "--data"]);
        command.arg(self.data(at)).args(&self.flags);
        if at == 0 {
            command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        } else {
            command.stdout(Stdio::null());
        }
        let mut child = command.spawn().expect("the program starts");
        if let Some(said) = child.stdout.take() {
            self.hear(said);
        }
        self.processes.lock().expect("no thread panics with it")[at] = Some(child);
    }

    /// The gateway prints its address once all processes are connected.
    fn hear(&self, said: std::process::ChildStdout) {
        let file = self.folder.join("port");
        let _ = std::fs::remove_file(&file);
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(said).read_line(&mut line);
            let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(':').next());
            let _ = port.map(|port| std::fs::write(file, port));
        });
    }

    pub(crate) fn kill(&self, at: usize) {
        let child = self.processes.lock().expect("no thread panics with it")[at].take();
        let mut child = child.expect("it runs");
        child.kill().expect("it runs until it is killed");
        child.wait().expect("it was killed");
    }

    /// Kills the running processes.
    pub(crate) fn kill_all(&self) {
        for child in self.processes.lock().expect("no thread panics with it").iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until a process ends by itself; returns its exit status.
    pub(crate) fn ended(&self, at: usize) -> ExitStatus {
        let ((name, _), mut ended) = (PROCESSES[at], None);
        wait_for(&format!("the end of the process {name}"), || {
            let mut processes = self.processes.lock().expect("no thread panics with it");
            let process = processes[at].as_mut().expect("it ran");
            ended = process.try_wait().expect("it can be waited for");
            ended.is_some()
        });
        ended.expect("it was waited for")
    }

    /// Sends a process a signal, such as `STOP`.
    pub(crate) fn signal(&self, at: usize, signal: &str) {
        let processes = self.processes.lock().expect("no thread panics with it");
        let process = processes[at].as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Waits until all processes reach each other.
    pub(crate) fn until_whole(&self) {
        wait_for("all reach all", || {
            isomer(&["cluster", "status", "--config", &self.config()]).code == 0
        });
    }

    /// Turns the autopilot off, for tests whose rows must stay at their initial sites.
    pub(crate) fn keep_design(&self) {
        self.client().batch_execute("alter system set autopilot = off").expect("it can be set");
    }

    /// Connects, as soon as the server accepts it.
    pub(crate) fn client(&self) -> Client {
        let mut client = None;
        wait_for("a connection", || {
            client = self.try_client();
            client.is_some()
        });
        client.expect("it was waited for")
    }

    pub(crate) fn try_client(&self) -> Option<Client> {
        let port = std::fs::read_to_string(self.folder.join("port")).ok()?.parse().ok()?;
        let mut config = Config::new();
        config.host_path(self.data(0)).port(port).user("isomer").dbname("isomer");
        config.connect(NoTls).ok()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}
