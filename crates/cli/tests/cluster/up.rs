//! A cluster of three processes by `isomer cluster up`, and clients of each.

use super::wait_for;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// `isomer cluster up`, and its messages so far.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Up {
    pub(crate) fn start(data: &Path, more: &[&str]) -> Up {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target =
            target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
        let mut up = Command::new(env!("CARGO_BIN_EXE_isomer"));
        up.args(["cluster", "up", "--nodes", "3", "--sites", "1", "--listen", "127.0.0.1:0"]);
        up.arg("--data").arg(data).args(more).env("ISOMER_KAFKA_HOME", target.join("kafka"));
        let child = up.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut up = Up { child, port: 0 };
        let said = BufReader::new(up.child.stdout.take().expect("it is piped"));
        let serves =
            said.lines().map_while(Result::ok).find(|line| line.starts_with("isomer serves"));
        let serves = serves.expect("it says where it serves");
        let port = serves.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(':').next());
        up.port = port.and_then(|port| port.parse().ok()).expect("a port");
        up
    }

    pub(crate) fn client(&self, data: &Path) -> Client {
        let mut config = Config::new();
        config.host_path(data.join("serve")).port(self.port).user("isomer").dbname("isomer");
        config.connect(NoTls).expect("the server's user may connect")
    }

    pub(crate) fn stop(mut self) {
        assert!(self.ended().success());
    }

    /// Its parts end with it, if it is stopped properly.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.expect("kill is there").success());
        self.child.wait().expect("it ends")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.ended();
        }
    }
}

/// A cluster of three whose gateways have seats, which goes on when one of its processes ends; its
/// file, the ports of its processes for clients, and a client of the first.
pub(crate) fn three(folder: &Path) -> (Up, String, Vec<u16>, Client) {
    let up = Up::start(folder, &["--trust", "loopback", "--when-one-ends", "leave"]);
    let config = folder.join("cluster.toml").display().to_string();
    let ports = clients_of(&config);
    let mut first = client_at(ports[0]).expect("it serves");
    wait_for("the others have seats", || {
        one(&mut first, "select count(*) from isomer.gateways where not has_conductor") == "2"
    });
    (up, config, ports, first)
}

/// The addresses of the processes for clients, in the order of the file.
pub(crate) fn clients_of(config: &str) -> Vec<u16> {
    let text = std::fs::read_to_string(config).expect("it is there");
    let ports = text.lines().filter_map(|line| line.strip_prefix("clients = \"127.0.0.1:"));
    ports.map(|port| port.trim_end_matches('"').parse().expect("a port")).collect()
}

/// A client of a process, once that is served with all definitions.
pub(crate) fn client_at(port: u16) -> Option<Client> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("isomer").dbname("isomer");
    config.connect_timeout(Duration::from_secs(2)).connect(NoTls).ok()
}

/// The first value of a query's result.
pub(crate) fn try_one(client: &mut Client, query: &str) -> Result<String, postgres::Error> {
    let found = client.simple_query(query)?;
    let row = found.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(row.unwrap_or_default())
}

/// The first value of the result of a query that cannot fail.
pub(crate) fn one(client: &mut Client, query: &str) -> String {
    try_one(client, query).unwrap_or_else(|error| panic!("{query}: {error:?}"))
}

/// The SQLSTATE of an error, or its text.
pub(crate) fn code(error: &postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

/// The process id of the part with this name.
pub(crate) fn pid_of(name: &str, config: &str) -> String {
    let pattern = format!("isomer serve --name {name} --config {config}");
    let found = Command::new("pgrep").args(["-f", &pattern]).output().expect("pgrep is there");
    String::from_utf8(found.stdout).expect("a number").trim().to_owned()
}

/// A process that ends with its test.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
