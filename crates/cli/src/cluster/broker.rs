//! A Kafka broker on this machine, for trials. A shell script, which tests use as well, fetches and
//! starts it.

use super::ports::{LOOPBACK, free_port};
use crate::clock;
use crate::failure::Failure;
use crate::stop::Stop;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// The script fetches the broker's files, and then executes the broker.
const SCRIPT: &str = include_str!("../../../../clients/kafka");
/// The folder in which the script keeps the jars.
const HOME: &str = "ISOMER_KAFKA_HOME";
/// The file with a broker's ports: for its clients, and for itself.
const PORTS: &str = "ports";
const LOOK: Duration = Duration::from_millis(50);

/// A broker with its data in a folder.
pub(super) struct Broker {
    folder: PathBuf,
    ports: (u16, u16),
}

impl Broker {
    /// The broker of a folder, if the folder has one.
    pub(super) fn of(folder: &Path) -> Result<Option<Broker>, Failure> {
        let file = folder.join(PORTS);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).map_err(Failure::failed)?;
        let numbers: Vec<u16> = text.split_whitespace().flat_map(str::parse).collect();
        let [port, own] = numbers[..] else {
            return Err(Failure::failed(format!("{}: it should be two ports", file.display())));
        };
        Ok(Some(Broker { folder: folder.to_owned(), ports: (port, own) }))
    }

    /// A new broker, with ports that are free now.
    pub(super) fn new(folder: &Path) -> Result<Broker, Failure> {
        let free = || -> Result<(TcpListener, u16), Failure> {
            let listener = free_port(LOOPBACK).map_err(Failure::failed)?;
            let port = listener.local_addr().map_err(Failure::failed)?.port();
            Ok((listener, port))
        };
        let ((_one, port), (_other, own)) = (free()?, free()?);
        fs::create_dir_all(folder).map_err(Failure::failed)?;
        fs::write(folder.join(PORTS), format!("{port} {own}\n")).map_err(Failure::failed)?;
        Ok(Broker { folder: folder.to_owned(), ports: (port, own) })
    }

    /// The address of a database's logs at the broker.
    pub(super) fn log(&self) -> String {
        format!("kafka://127.0.0.1:{}/isomer", self.ports.0)
    }

    /// Starts it. The terminal's Ctrl-C does not reach it, because its users must end before it.
    pub(super) fn start(&self) -> Result<Child, Failure> {
        let mut script = Command::new("bash");
        script.args(["-c", SCRIPT, "kafka"]).arg(&self.folder).process_group(0);
        script.args([self.ports.0, self.ports.1].map(|port| port.to_string()));
        if std::env::var_os(HOME).is_none() {
            script.env(HOME, home()?);
        }
        script.spawn().map_err(|error| Failure::failed(format!("bash: {error}")))
    }

    /// Waits until it accepts clients; `false` if a stop was requested. The first start fetches the
    /// jars.
    pub(super) fn until_up(&self, child: &mut Child, stop: &Stop) -> Result<bool, Failure> {
        while !stop.is_asked() {
            if let Some(ended) = child.try_wait().map_err(Failure::failed)? {
                return Err(self.did_not_start(ended));
            }
            if TcpStream::connect(("127.0.0.1", self.ports.0)).is_ok() {
                return Ok(true);
            }
            clock::sleep(LOOK);
        }
        Ok(false)
    }

    fn did_not_start(&self, ended: ExitStatus) -> Failure {
        // The script has reported the missing program itself.
        const MISSING: i32 = 77;
        if ended.code() == Some(MISSING) {
            return Failure::failed(
                "a cluster with --kafka needs a broker, and there can be none here; without --kafka, its logs are in \
                 folders",
            );
        }
        let log = self.folder.join("broker.log");
        Failure::failed(format!("the broker has ended: {ended}; see {}", log.display()))
    }
}

/// The folder in which fetched files are kept.
fn home() -> Result<PathBuf, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.filter(|cache| cache.is_absolute()).ok_or_else(|| {
        Failure::failed(format!(
            "neither HOME nor XDG_CACHE_HOME says where to keep Kafka; {HOME} can"
        ))
    })?;
    Ok(cache.join("isomer/kafka"))
}
