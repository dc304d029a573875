//! Three brokers, each on a machine of its own. A topic has three replicas, and a record counts
//! once two of them have it.

use crate::broker::Broker;
use crate::broker::ports::{LOOPBACK, free_port};
use crate::machines::Machines;
use crate::wait_for;
use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

pub(crate) const BROKERS: usize = 3;
/// The file that fills the disk of a broker.
const FILLER: &str = "filler";

pub(crate) struct Brokers {
    all: Vec<One>,
    voters: String,
    /// The broker whose disk can be filled.
    small: Option<usize>,
}

struct One {
    address: String,
    /// The port for clients, and the one for the other brokers.
    ports: [u16; 2],
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Brokers {
    /// Starts the brokers at the machines from `first` on, the last one with a small disk if
    /// possible. Returns `None` if brokers cannot run here; a message says why.
    pub(crate) fn start(machines: &mut Machines, first: usize, folder: &Path) -> Option<Brokers> {
        if !Broker::is_to_be_had() {
            return None;
        }
        let ports = free_ports();
        let at = |at: usize| folder.join(format!("broker-{}", at + 1));
        let small = machines.make_small(&at(BROKERS - 1)).then_some(BROKERS - 1);
        let address = |at: usize| machines.at(first + at).address.clone();
        let voter =
            |number: usize| format!("{}@{}:{}", number + 1, address(number), ports[number][1]);
        let voters = (0..BROKERS).map(voter).collect::<Vec<_>>().join(",");
        let all = (0..BROKERS).map(|number| {
            let (address, ports, folder) = (address(number), ports[number], at(number));
            let command = machines.at(first + number).command(&script());
            let process = Mutex::new(launch(command, number, &address, ports, &folder, &voters));
            One { address, ports, folder, process }
        });
        let brokers = Brokers { all: all.collect(), voters, small };
        (0..BROKERS).for_each(|at| brokers.until_up(at));
        Some(brokers)
    }

    /// The address of a topic.
    pub(crate) fn address(&self, topic: &str) -> String {
        let all: Vec<String> =
            self.all.iter().map(|one| format!("{}:{}", one.address, one.ports[0])).collect();
        format!("kafka://{}/{topic}", all.join(","))
    }

    fn until_up(&self, at: usize) {
        let One { address, ports, process, folder, .. } = &self.all[at];
        wait_for("a broker", || {
            let ended = process.lock().expect("no thread panics with it").try_wait();
            assert!(
                ended.expect("it can be asked").is_none(),
                "see {}/broker.log",
                folder.display()
            );
            TcpStream::connect((&**address, ports[0])).is_ok()
        });
    }

    /// Kills a broker by `kill -9`, and starts it again.
    pub(crate) fn kill_and_restart(&self, machines: &Machines, first: usize, at: usize) {
        let One { address, ports, folder, process } = &self.all[at];
        {
            let mut process = process.lock().expect("no thread panics with it");
            let _ = process.kill();
            process.wait().expect("it was killed");
            let command = machines.at(first + at).command(&script());
            *process = launch(command, at, address, *ports, folder, &self.voters);
        }
        self.until_up(at);
    }

    /// Fills the disk of a broker, which ends it. Returns its number, or `None` if there is no
    /// small disk.
    pub(crate) fn fill(&self) -> Option<usize> {
        let at = self.small?;
        let filled = File::create(self.all[at].folder.join(FILLER)).and_then(|mut file| {
            let block = vec![0; 1 << 20];
            loop {
                file.write_all(&block)?;
            }
        });
        let full: Result<(), std::io::Error> = filled;
        full.map_or_else(|_| Some(at), |()| None)
    }

    /// Empties the disk; the broker must be started again.
    pub(crate) fn make_room(&self, at: usize) {
        let _ = std::fs::remove_file(self.all[at].folder.join(FILLER));
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for one in &mut self.all {
            if let Ok(process) = one.process.get_mut() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

fn script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/kafka").display().to_string()
}

fn launch(
    mut command: Command,
    at: usize,
    address: &str,
    ports: [u16; 2],
    folder: &Path,
    voters: &str,
) -> Child {
    command.arg(folder).args(ports.map(|port| port.to_string()));
    command.args([&(at + 1).to_string(), voters, address]).stdin(Stdio::null());
    command.spawn().expect("clients/kafka is there")
}

fn free_ports() -> [[u16; 2]; BROKERS] {
    let free = || free_port(LOOPBACK).expect("a port");
    let held = [(); BROKERS].map(|()| [free(), free()]);
    held.map(|pair| pair.map(|listener| listener.local_addr().expect("it has one").port()))
}
