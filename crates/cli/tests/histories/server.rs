//! A server in a process of its own, and connections to it that come back when it does.

use crate::wait_for;
use isomer_check::Outcome;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    process: Mutex<Child>,
    /// Each start gets another one.
    port: AtomicU16,
}

impl Server {
    /// A new database of four sites in an empty folder.
    pub(crate) fn start(name: &str) -> Server {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("histories-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        let (process, port) = serve(&folder);
        Server { folder, process: Mutex::new(process), port: AtomicU16::new(port) }
    }

    /// `kill -9`, and another start in the same folder.
    pub(crate) fn kill_and_restart(&self) {
        let mut process = self.process.lock().expect("nobody panics with it");
        process.kill().expect("it runs until it is killed");
        process.wait().expect("it was killed");
        let (again, port) = serve(&self.folder);
        *process = again;
        self.port.store(port, Ordering::SeqCst);
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
        config.host_path(&self.folder).port(port).user("isomer").dbname("isomer").connect(NoTls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(process) = self.process.get_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn serve(folder: &Path) -> (Child, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command.args(["serve", "--sites", "4", "--listen", "127.0.0.1:0", "--trust", "loopback"]);
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
        _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
            .contains(code) =>
        {
            (Outcome::Failed, false)
        }
        _ => panic!("not an error that this can have: {error:?}"),
    }
}
