//! Servers for a benchmark: Isomer, and a stock PostgreSQL beside it. Each has a folder of its own,
//! which is removed with the server.
//!
//! Clients reach both by the same [`Transport`], so that a difference is one of the servers.
//!
//! PostgreSQL runs with the settings of `initdb`. It refuses to run as root, so root runs it as the
//! user `postgres`, as Debian's package does.

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

/// Time in which a server must answer after its start.
const START: Duration = Duration::from_secs(30);

/// The transport between clients and both servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Transport {
    /// A Unix socket, the default of psql and pgbench
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

    /// The host for PostgreSQL's clients: the folder of the Unix socket, or an address.
    fn host(self, folder: &Path) -> String {
        match self {
            Transport::Unix => folder.display().to_string(),
            Transport::Tcp => "127.0.0.1".to_owned(),
        }
    }
}

/// A running server. Dropping it stops it and removes its folder.
pub(super) struct Server {
    /// `None` if the benchmark did not start the server, and so does not stop it.
    child: Option<Child>,
    folder: PathBuf,
    /// The host for clients.
    host: String,
    port: u16,
    user: &'static str,
    /// The default isolation level of its sessions.
    isolation: IsolationLevel,
    /// Settings for every session, in the form of PGOPTIONS.
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
        let program = isomer::program()?;
        let mut serve = Command::new(program);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--sites", &sites.to_string()]);
        serve.args(["--set", &default(isolation)]);
        // As for PostgreSQL below: the benchmark does not measure password authentication.
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

    /// An Isomer at a port of this machine that listens, or is about to. `folder` has the files of
    /// the run.
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

    /// Sets options for every session that a client program opens from now on.
    pub(super) fn options(&mut self, options: &'static str) {
        self.options = options;
    }

    /// Waits until the server answers, at most [`START`].
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

    /// The default isolation level of transactions.
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

    /// The same as a connection string of PostgreSQL's clients.
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

    /// The options by which sysbench finds the server.
    pub(super) fn sysbench(&self) -> [String; 4] {
        [
            format!("--pgsql-host={}", self.host),
            format!("--pgsql-port={}", self.port),
            format!("--pgsql-user={}", self.user),
            "--pgsql-db=postgres".to_owned(),
        ]
    }

    /// The folder for files of the server's run.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // SIGINT is a fast shutdown of both servers.
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The default isolation level, as a setting that both servers read.
fn default(isolation: IsolationLevel) -> String {
    format!("default_transaction_isolation={}", isolation.setting())
}

fn folder(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::temp_dir().join(format!("isomer-wire-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).map_err(Failure::failed)?;
    Ok(path)
}

/// The folder with the programs of PostgreSQL's server.
///
/// # Errors
/// Says that PostgreSQL is missing.
pub(super) fn programs() -> Result<PathBuf, Failure> {
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

/// The user and group to run PostgreSQL as, if not as the current user.
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

/// Checks that a client program can run.
///
/// # Errors
/// Names the package of a missing program.
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
