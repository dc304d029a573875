//! Servers for a benchmark: Isomer, and a stock PostgreSQL beside it, each in a folder of its own that
//! goes with it.
//!
//! Clients reach both in the same way, as [`Transport`] says: what differs then is the servers.
//!
//! PostgreSQL runs as it comes, with `initdb`'s settings. It refuses to be run by root, so root runs it as
//! the user `postgres`, as Debian's package does.

use clap::ValueEnum;
use isomer::clock;
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use postgres::{Client, Config, NoTls};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server has to answer in this time.
const START: Duration = Duration::from_secs(30);

/// How clients reach a server, whichever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Transport {
    /// A Unix socket, as psql and pgbench do when they are told no host
    Unix,
    /// TCP, at 127.0.0.1
    Tcp,
}

impl Transport {
    /// Its name, as an option and in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
        }
    }

    /// What PostgreSQL's clients take for a host: of a Unix socket it is the folder.
    fn host(self, folder: &Path) -> String {
        match self {
            Transport::Unix => folder.display().to_string(),
            Transport::Tcp => "127.0.0.1".to_owned(),
        }
    }
}

/// A server that runs. Dropping it stops it and removes its folder.
pub(super) struct Server {
    /// None: somebody else has started it, and ends it.
    child: Option<Child>,
    folder: PathBuf,
    /// Where clients find it.
    host: String,
    port: u16,
    user: &'static str,
    /// What its sessions begin with.
    isolation: IsolationLevel,
    /// Settings for every session, as PGOPTIONS has them.
    options: &'static str,
}

impl Server {
    /// Starts a new Isomer database. Without `sync`, commits do not wait for the disk.
    pub(super) fn isomer(
        sites: u16,
        sync: bool,
        transport: Transport,
        isolation: IsolationLevel,
    ) -> Result<Server, Failure> {
        let folder = folder(if sync { "isomer" } else { "isomer-async" })?;
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let mut serve = Command::new(program);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--sites", &sites.to_string()]);
        serve.args(["--set", &default(isolation)]);
        // As PostgreSQL below: what is measured is not how passwords are proved.
        serve
            .args(["--trust", "loopback", "--autopilot", "off", "--data"])
            .arg(&folder)
            .stdout(Stdio::piped());
        if !sync {
            serve.arg("--no-sync");
        }
        let host = transport.host(&folder);
        if transport == Transport::Unix {
            serve.args(["--socket", &host]);
        }
        let mut child = serve.spawn().map_err(Failure::failed)?;
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).map_err(Failure::failed)?;
        let mut server = Server {
            child: Some(child),
            folder,
            host,
            port: 0,
            isolation,
            user: "isomer",
            options: "",
        };
        let address = line.split("127.0.0.1:").nth(1).unwrap_or_default();
        let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
        let no_port = |_| Failure::failed(format!("isomer serve does not say its port: {line:?}"));
        server.port = digits.parse().map_err(no_port)?;
        server.answered()
    }

    /// An Isomer that listens at a port of this machine, or is about to; what belongs to a run is in this folder.
    #[cfg(feature = "kafka")]
    pub(super) fn at(port: u16, folder: PathBuf) -> Result<Server, Failure> {
        let host = "127.0.0.1".to_owned();
        let isolation = IsolationLevel::ReadCommitted;
        Server { child: None, folder, host, port, isolation, user: "isomer", options: "" }
            .answered()
    }

    /// Starts a new PostgreSQL.
    ///
    /// # Errors
    /// Names what is missing if it is not installed.
    pub(super) fn postgres(
        transport: Transport,
        isolation: IsolationLevel,
    ) -> Result<Server, Failure> {
        let programs = programs()?;
        let folder = folder("postgres")?;
        let data = folder.join("data");
        let owner = owner()?;
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group)).map_err(Failure::failed)?;
        }
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut init = command("initdb");
        init.args(["--auth=trust", "--username=postgres", "-D"]).arg(&data);
        let made = init.status().map_err(Failure::failed)?;
        if !made.success() {
            return Err(Failure::failed(format!("initdb cannot make {}", data.display())));
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.map_err(Failure::failed)?.port();
        let mut serve = command("postgres");
        serve.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        let host = transport.host(&folder);
        let sockets = if transport == Transport::Unix { &host } else { "" };
        serve.args(["-c", "listen_addresses=127.0.0.1", "-c", &default(isolation), "-c"]);
        serve.arg(format!("unix_socket_directories={sockets}"));
        let child = serve.spawn().map_err(Failure::failed)?;
        let child = Some(child);
        Server { child, folder, host, port, isolation, user: "postgres", options: "" }.answered()
    }

    /// The same server, with settings for every session that is opened through the result.
    pub(super) fn options(&mut self, options: &'static str) {
        self.options = options;
    }

    /// Waits until the server answers.
    fn answered(self) -> Result<Server, Failure> {
        let begun = clock::now();
        while let Err(error) = self.connect() {
            if begun.elapsed() > START {
                return Err(error);
            }
            clock::sleep(Duration::from_millis(50));
        }
        Ok(self)
    }

    /// How transactions are isolated that do not say it themselves.
    pub(super) fn isolation(&self) -> IsolationLevel {
        self.isolation
    }

    /// Opens a connection.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        let mut config = Config::new();
        config.host(&self.host).port(self.port).user(self.user).dbname("postgres");
        config.connect(NoTls).map_err(|error| {
            Failure::failed(format!("the server at {}, port {}: {error}", self.host, self.port))
        })
    }

    /// The same, as a text that clients of PostgreSQL read.
    #[cfg(feature = "kafka")]
    pub(super) fn connection(&self) -> String {
        let Server { host, port, user, .. } = self;
        format!("host={host} port={port} user={user} dbname=postgres")
    }

    /// A client program of PostgreSQL that finds the server.
    pub(super) fn client(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PGHOST", &self.host).env("PGPORT", self.port.to_string());
        command.env("PGUSER", self.user).env("PGDATABASE", "postgres");
        command.env("PGOPTIONS", self.options);
        command
    }

    /// What sysbench is told to find the server.
    pub(super) fn sysbench(&self) -> [String; 4] {
        [
            format!("--pgsql-host={}", self.host),
            format!("--pgsql-port={}", self.port),
            format!("--pgsql-user={}", self.user),
            "--pgsql-db=postgres".to_owned(),
        ]
    }

    /// A folder for what belongs to the server's run.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // SIGINT: PostgreSQL's fast shutdown, and Isomer's.
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The setting that sessions begin with, as both servers are told it.
fn default(isolation: IsolationLevel) -> String {
    format!("default_transaction_isolation={}", isolation.setting())
}

fn folder(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::temp_dir().join(format!("isomer-wire-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).map_err(Failure::failed)?;
    Ok(path)
}

/// Where the programs of PostgreSQL's server are.
fn programs() -> Result<PathBuf, Failure> {
    let found = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&found).collect();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    places.extend(versions.into_iter().rev());
    places.into_iter().find(|place| place.join("initdb").exists()).ok_or_else(|| {
        Failure::failed(
            "PostgreSQL is missing: no initdb in PATH or /usr/lib/postgresql; install it \
             (Debian: postgresql)",
        )
    })
}

/// The user and group that PostgreSQL is run by, if not by this one.
fn owner() -> Result<Option<(u32, u32)>, Failure> {
    let id = |args: &[&str]| -> Result<u32, Failure> {
        let asked = Command::new("id").args(args).output().map_err(Failure::failed)?;
        let said = String::from_utf8_lossy(&asked.stdout);
        said.trim().parse().map_err(|_| {
            Failure::failed("root cannot run PostgreSQL, and there is no user postgres to run it")
        })
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    Ok(Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?)))
}

/// Checks that a client program can be run.
///
/// # Errors
/// Says which package has it.
pub(super) fn needs(program: &str, package: &str) -> Result<(), Failure> {
    match Command::new(program).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("{program} is missing; install it (Debian: {package})");
            Err(Failure::failed(what))
        }
        Err(error) => Err(Failure::failed(format!("{program}: {error}"))),
        Ok(_) => Ok(()),
    }
}
