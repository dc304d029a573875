//! A server whose file operations are traced by a shim before the C library.

use crate::disk::{self, Event};
use postgres::{Client, Config, NoTls};
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The limit for the start of a server and for each statement: many times what a slow machine
/// needs.
const LIMIT: Duration = Duration::from_secs(120);

/// Builds the shim; `None` without a C compiler.
pub(crate) fn shim(folder: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/power_cuts/shim.c");
    let built = folder.join("shim.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(source);
    match compiler.args(["-ldl", "-lpthread"]).status() {
        Ok(status) if status.success() => Some(built),
        failed => {
            eprintln!("SKIPPED: no C compiler: {failed:?}");
            None
        }
    }
}

/// Creates a new folder for a database.
pub(crate) fn data(at: &Path) -> PathBuf {
    let data = at.join("data");
    DirBuilder::new().mode(0o700).create(&data).expect("there is none yet");
    data
}

/// A server, and the trace of its file operations.
pub(crate) struct Server {
    process: Child,
    port: u16,
    trace: PathBuf,
}

impl Server {
    /// Serves the database in a folder.
    ///
    /// # Errors
    /// The messages of a server that does not start.
    pub(crate) fn start(data: &Path, shim: &Path) -> Result<Server, String> {
        let (trace, errors) = (data.with_extension("trace"), data.with_extension("errors"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--trust", "loopback", "--sites", "3"]);
        // Frequent checkpoints.
        command.args(["--checkpoint-log-mb", "1", "--checkpoint-seconds", "1"]);
        command.args(["--autopilot", "off", "--data"]).arg(data).stdout(Stdio::piped());
        command.stderr(File::create(&errors).expect("a file"));
        command.env("LD_PRELOAD", shim).env("TRACE_ROOT", data).env("TRACE_FILE", &trace);
        let mut process = command.spawn().expect("the program starts");
        let said = first_line(process.stdout.take().expect("it is piped"));
        if said.is_none() {
            // A silent server is killed, and its silence is the error.
            let _ = process.kill();
        }
        let said = said.unwrap_or_else(|| format!("it was silent for {LIMIT:?}"));
        let port = said.split_once(" at 127.0.0.1:").and_then(|(_, rest)| rest.split_once(':'));
        let port = port.and_then(|(port, _)| port.parse().ok());
        let server = Server { process, port: port.unwrap_or(0), trace };
        match port {
            Some(_) => Ok(server),
            None => Err(said + &std::fs::read_to_string(errors).expect("it is text")),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let mut config = Config::new();
        let config = config.host("127.0.0.1").port(self.port).user("isomer").dbname("isomer");
        let mut client = config.connect(NoTls).expect("the server answers");
        let limit = format!("set statement_timeout = '{}s'", LIMIT.as_secs());
        client.batch_execute(&limit).expect("it is a setting");
        client
    }

    /// The length of the trace, which contains everything that has been acknowledged.
    pub(crate) fn traced(&self) -> u64 {
        std::fs::metadata(&self.trace).expect("it is written").len()
    }

    /// Kills the server; returns its file operations, each with the length of the trace after it.
    pub(crate) fn end(mut self) -> Vec<(u64, Event)> {
        self.kill();
        let trace = std::fs::read(&self.trace).expect("it was written");
        let (mut events, mut at) = (Vec::new(), 0);
        while let Some((event, bytes)) = disk::read(&trace[at..]) {
            at += bytes;
            events.push((at as u64, event));
        }
        events
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The first line of a process, if it comes within [`LIMIT`].
fn first_line(lines: ChildStdout) -> Option<String> {
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        let mut said = String::new();
        let _ = BufReader::new(lines).read_line(&mut said);
        let _ = tell.send(said);
    });
    heard.recv_timeout(LIMIT).ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
