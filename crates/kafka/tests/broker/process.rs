//! A broker for the duration of a test (`clients/kafka`). On machines that cannot run one, tests
//! print that and pass.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, reason = "a process is waited for")]

#[path = "../../../cli/src/cluster/ports.rs"]
pub(crate) mod ports;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than a broker needs to start on a busy machine.
const STARTS: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Broker {
    process: Child,
    ports: [u16; 2],
    folder: TempDir,
}

/// The broker for tests that do not stop it.
static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());

impl Broker {
    /// The broker shared by the tests that run now, started by the first and stopped with the last.
    /// Otherwise like [`Broker::start`].
    pub(crate) fn shared() -> Option<Arc<Broker>> {
        let mut shared = SHARED.lock().unwrap_or_else(|panicked| panicked.into_inner());
        if let Some(broker) = shared.upgrade() {
            return Some(broker);
        }
        let broker = Arc::new(Broker::start()?);
        *shared = Arc::downgrade(&broker);
        Some(broker)
    }

    /// Downloads the broker; prints a note and returns `false` where none can run.
    pub(crate) fn is_to_be_had() -> bool {
        // The download has no time limit.
        let fetched = script().status().expect("clients/kafka is there");
        if fetched.code() == Some(77) {
            eprintln!("this test needs a broker, and passes without having looked");
        }
        fetched.success()
    }

    /// Starts a broker; prints a note and returns `None` where none can run.
    pub(crate) fn start() -> Option<Broker> {
        if !Broker::is_to_be_had() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let ports = free_ports();
        let process = launch(folder.path(), ports);
        let mut broker = Broker { process, ports, folder };
        broker.until_up();
        Some(broker)
    }

    fn until_up(&mut self) {
        for _ in 0..STARTS.as_millis() / LOOK.as_millis() {
            if TcpStream::connect(("127.0.0.1", self.ports[0])).is_ok() {
                return;
            }
            if let Some(status) = self.process.try_wait().expect("it can be asked") {
                let log = std::fs::read_to_string(self.folder.path().join("broker.log"));
                panic!("the broker ended: {status}\n{}", log.unwrap_or_default());
            }
            std::thread::sleep(LOOK);
        }
        panic!("the broker does not start");
    }

    /// Kills the broker, like a crash.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }

    /// Starts the broker again on the same disk.
    pub(crate) fn restart(&mut self) {
        self.process = launch(self.folder.path(), self.ports);
        self.until_up();
    }

    /// The address of a topic.
    pub(crate) fn address(&self, topic: &str) -> String {
        address(self.ports[0], topic)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of a topic of the broker at a port, which need not exist.
pub(crate) fn address(port: u16, topic: &str) -> String {
    format!("kafka://127.0.0.1:{port}/{topic}")
}

fn script() -> Command {
    let mut script =
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/kafka"));
    script.stdin(Stdio::null());
    script
}

fn launch(folder: &Path, ports: [u16; 2]) -> Child {
    let numbers = ports.map(|port| port.to_string());
    script().arg(folder).args(numbers).spawn().expect("clients/kafka is there")
}

fn free_ports() -> [u16; 2] {
    let held = [(); 2].map(|()| ports::free_port(ports::LOOPBACK).expect("a port"));
    held.map(|listener| listener.local_addr().expect("it has one").port())
}
