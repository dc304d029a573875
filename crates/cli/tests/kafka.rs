//! `isomer serve --log`: a server with its redo logs at a real broker, and a second one that takes
//! them over.

#![cfg(feature = "kafka")]
#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

#[path = "../../kafka/tests/broker/process.rs"]
mod broker;
mod run;

use broker::Broker;
use postgres::{Client, Config, NoTls};
use run::isomer;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server with its logs at a broker.
struct Served {
    child: Child,
    port: u16,
    data: PathBuf,
}

impl Served {
    fn start(data: &Path, log: &str) -> Served {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_isomer"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--sites", "2", "--autopilot", "off"]);
        serve.arg("--data").arg(data).args(["--log", log]).stderr(Stdio::piped());
        let mut child = serve.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).expect("it says where it listens");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(':').next());
        let port = port.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("it says another thing: {line:?}"));
        Served { child, port, data: data.to_owned() }
    }

    fn client(&self) -> Client {
        let mut config = Config::new();
        config.host_path(&self.data).port(self.port).user("isomer").dbname("isomer");
        config.connect(NoTls).expect("the server's user may connect")
    }

    fn stop(mut self) {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(killed.expect("kill is there").success());
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Waits for its end; returns its messages.
    fn ended(mut self) -> String {
        assert!(!self.child.wait().expect("it ends").success());
        let mut said = String::new();
        let heard = self.child.stderr.take().expect("it is piped").read_to_string(&mut said);
        heard.expect("it has said something");
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(client: &mut Client) -> i64 {
    client.query_one("select count(*) from t", &[]).expect("a count").get(0)
}

#[test]
fn a_server_starts_from_its_logs_and_ends_when_another_takes_them() {
    let Some(broker) = Broker::start() else { return };
    let (log, folder) = (broker.address("shop"), tempfile::tempdir().expect("a folder"));
    let served = Served::start(&folder.path().join("one"), &log);
    let mut client = served.client();
    client.batch_execute("create table t (a int primary key)").expect("a table");
    client.batch_execute("insert into t values (1), (2)").expect("rows");
    served.stop();

    // In another folder, with nothing but the logs.
    let served = Served::start(&folder.path().join("two"), &log);
    let mut client = served.client();
    assert_eq!(count(&mut client), 2);

    let taker = Served::start(&folder.path().join("three"), &log);
    let refused = client.batch_execute("insert into t values (3)").expect_err("it is another's");
    let code = refused.code().map(|code| code.code().to_owned());
    // An unknown outcome, a failed log, or a server that had stopped already.
    let is_told = matches!(code.as_deref(), None | Some("57P01" | "08007"));
    assert!(is_told, "{refused} {code:?}");
    let said = served.ended();
    assert!(said.contains("another process has the database now"), "{said}");
    let mut client = taker.client();
    client.batch_execute("insert into t values (4)").expect("it goes on here");
    assert_eq!(count(&mut client), 3);

    // All commands refuse a folder without its logs with the same message.
    let data = folder.path().join("three").display().to_string();
    for args in [&["design", "show", &data][..], &["serve", "--data", &data]] {
        let said = isomer(args);
        assert_eq!(said.code, 1);
        assert!(said.err.contains(&format!("--log {log}")), "{}", said.err);
    }
    taker.stop();
}

#[test]
fn invalid_options_for_logs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("shop").display().to_string();
    let said = |more: &[&str]| {
        let args: Vec<&str> =
            ["serve", "--data", &data].into_iter().chain(more.iter().copied()).collect();
        let done = isomer(&args);
        assert_eq!((done.code, &done.out[..]), (2, ""), "{}", done.err);
        done.err
    };
    assert!(said(&["--log", "broker:9092"]).contains("kafka://broker1:9092"));
    let log = "kafka://127.0.0.1:1/shop";
    assert!(said(&["--log", log, "--kafka-option", "acks=1"]).contains("acks"));
    assert!(said(&["--log", log, "--kafka-option", "acks"]).contains("has no `=`"));
    assert!(said(&["--log", log, "--accept-loss"]).contains("--accept-loss"));
    assert!(said(&["--kafka-option", "a=b"]).contains("--log"));
}
