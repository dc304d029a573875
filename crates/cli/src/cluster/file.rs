//! The configuration file of a cluster, the same for all of its processes.
//!
//! ```toml
//! node_wait_seconds = 10          # keys of the file, with their defaults
//! failover_seconds = 5            # 0.5: half a second; 0: never
//! silence_ms = 3000
//! queue_mb = 64
//! requests = 2048
//! log = "nodes"                   # redo logs at a majority of the processes; or in Kafka:
//!                                 # "kafka://broker1:9092/shop" [default: in the folders]
//! kafka_options = ["sasl.username=me"]      # of its client; none: []
//! checkpoints = "file:///shared/shop"       # or s3://bucket/shop [default: in the folders]
//! node_tls_ca = "/etc/isomer/ca.pem"        # certificates between processes [default: none]
//! node_tls_cert = "/etc/isomer/{name}.pem"  # {name}: the name of each process
//! node_tls_key = "/etc/isomer/{name}.key"
//!
//! [[process]]                     # one for each process
//! name = "a"
//! address = "10.0.0.1:7433"
//! sites = [1, 2]                  # none: []
//! router = true                   # one of them has the router: `isomer serve` [default: false]
//! clients = "10.0.0.1:5433"       # for PostgreSQL's clients [default: only with the router]
//! http = "127.0.0.1:8080"         # of its console and metrics [default: none]
//! joined = true                   # it has joined later: only in the folder of that process
//! ```
//!
//! An unknown key is refused with the nearest known one, because an ignored key is a setting
//! without effect.

use super::join::TlsArgs;
use crate::failure::Failure;
use crate::kafka::LogArgs;
use isomer_cluster::Joined;
use isomer_design::SiteId;
use isomer_net::{Member, NodeTls, Role, ask_status};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

/// The keys of the file, and those of a process.
const KEYS: [&str; 12] = [
    "node_wait_seconds",
    "failover_seconds",
    "silence_ms",
    "queue_mb",
    "requests",
    "log",
    "kafka_options",
    "checkpoints",
    "node_tls_ca",
    "node_tls_cert",
    "node_tls_key",
    "process",
];
const PROCESS_KEYS: [&str; 8] =
    ["name", "address", "sites", "router", "clients", "http", "zone", "joined"];

/// The members of a cluster, and the settings of their communication.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterFile {
    pub processes: Vec<Process>,
    pub limits: Limits,
    /// The places of redo logs and checkpoints.
    pub log: LogArgs,
    /// The certificates between processes.
    pub tls: TlsArgs,
}

/// One of the processes.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    pub member: Member,
    pub role: Role,
    /// The address for PostgreSQL's clients: a host and a port.
    pub clients: Option<String>,
    /// The address of its console: a host and a port.
    #[cfg_attr(not(feature = "console"), allow(dead_code))]
    pub http: Option<String>,
    /// It has joined the cluster later: it keeps no logs for others, and does not take their place.
    pub joined: bool,
}

/// Settings of the communication between processes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    pub outage_wait: Duration,
    /// The time after which others take over from a failed process; `None`: never.
    pub failover_after: Option<Duration>,
    pub silence: Duration,
    pub queue_bytes: usize,
    pub requests: usize,
}

impl Limits {
    /// The lease of the logs' owners: with a short failover, a successor should wait for less.
    pub fn lease(&self) -> Duration {
        self.failover_after.unwrap_or(Duration::MAX)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            outage_wait: Duration::from_secs(10),
            failover_after: Some(Duration::from_secs(5)),
            silence: Duration::from_secs(3),
            queue_bytes: 64 << 20,
            requests: 2048,
        }
    }
}

impl ClusterFile {
    /// Reads the file at a path.
    ///
    /// # Errors
    /// A message with the path.
    pub fn open(path: &Path) -> Result<ClusterFile, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        ClusterFile::read(&text).map_err(|what| format!("{}: {what}", path.display()))
    }

    /// The file at a path with the processes that have joined since, and the certificate of the
    /// process that `whose` names, or of the one with the router.
    ///
    /// # Errors
    /// If the file or the certificate cannot be read.
    pub fn whole(
        path: &Path,
        whose: Option<&str>,
        limit: Duration,
    ) -> Result<(ClusterFile, Option<NodeTls>), Failure> {
        let mut file = ClusterFile::open(path).map_err(Failure::usage)?;
        let tls = file.tls.open(whose.unwrap_or(&file.router().member.name))?;
        file.add_joined(tls.as_ref(), limit);
        Ok((file, tls))
    }

    fn read(text: &str) -> Result<ClusterFile, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        check_keys(&table, &KEYS, "the file")?;
        let usual = Limits::default();
        let (wait, silence) = (usual.outage_wait.as_secs(), usual.silence.as_millis() as u64);
        let failover = usual.failover_after.unwrap_or_default();
        let failover = seconds(&table, "failover_seconds", failover)?;
        let limits = Limits {
            outage_wait: Duration::from_secs(number(
                &table,
                "node_wait_seconds",
                0..=86_400,
                wait,
            )?),
            failover_after: Some(failover).filter(|after| !after.is_zero()),
            silence: Duration::from_millis(number(&table, "silence_ms", 200..=4000, silence)?),
            queue_bytes: (number(&table, "queue_mb", 1..=65_536, 64)? as usize) << 20,
            requests: number(&table, "requests", 16..=100_000, usual.requests as u64)? as usize,
        };
        let (log, tls) = (log(&table)?, tls(&table)?);
        let Some(Value::Array(entries)) = table.get("process") else {
            return Err("it names no processes; each has a part [[process]]".to_owned());
        };
        let processes: Vec<Process> = entries.iter().map(process).collect::<Result<_, String>>()?;
        let zoned = processes.iter().filter(|process| process.member.zone.is_some()).count();
        if zoned != 0 && zoned != processes.len() {
            return Err("some processes have a `zone`, and others have none".to_owned());
        }
        let routers = processes.iter().filter(|process| process.role == Role::Router).count();
        if routers != 1 {
            return Err(format!("{routers} processes have `router = true`; one has to"));
        }
        Ok(ClusterFile { processes, limits, log, tls })
    }

    /// The process with this name, and the others.
    ///
    /// # Errors
    /// A message, if there is none.
    pub fn split(&self, name: &str) -> Result<(Process, Vec<Member>), String> {
        let named = |process: &&Process| process.member.name == name;
        let Some(own) = self.processes.iter().find(named) else {
            let known: Vec<&str> = self.names().collect();
            return Err(format!(
                "there is no process named `{name}` in the file, but: {}",
                known.join(", ")
            ));
        };
        let others = self.processes.iter().filter(|process| !named(process));
        Ok((own.clone(), others.map(|process| process.member.clone()).collect()))
    }

    /// The process with the router.
    pub fn router(&self) -> &Process {
        let mut all = self.processes.iter();
        all.find(|process| process.role == Role::Router).expect("there is one")
    }

    /// The names of the processes, that with the router first: the order in which they take its
    /// place.
    pub fn order(&self) -> Vec<String> {
        let first = &self.router().member.name;
        let others = self.founders().filter(|name| name != first);
        std::iter::once(&**first).chain(others).map(str::to_owned).collect()
    }

    /// The names of the processes that have not joined later.
    pub fn founders(&self) -> impl Iterator<Item = &str> {
        let founders = self.processes.iter().filter(|process| !process.joined);
        founders.map(|process| &*process.member.name)
    }

    /// Adds the processes that have joined the cluster, as the first process that answers knows
    /// them.
    fn add_joined(&mut self, tls: Option<&NodeTls>, limit: Duration) {
        let status = self.processes.iter().find_map(|process| {
            let Member { name, address, .. } = &process.member;
            ask_status(name, address, tls, limit).ok()
        });
        for Joined { name, address, sites, zone, clients } in
            status.into_iter().flat_map(|status| status.joined)
        {
            if self.names().all(|known| known != name) {
                let member = Member { name, address, sites, zone };
                let (role, joined) = (Role::Node, true);
                self.processes.push(Process { member, role, clients, http: None, joined });
            }
        }
    }

    /// The addresses for PostgreSQL's clients, by process.
    pub fn clients(&self) -> BTreeMap<String, String> {
        let address =
            |process: &Process| Some((process.member.name.clone(), process.clients.clone()?));
        self.processes.iter().filter_map(address).collect()
    }

    /// The addresses of consoles, by process.
    pub fn consoles(&self) -> BTreeMap<String, String> {
        let address =
            |process: &Process| Some((process.member.name.clone(), process.http.clone()?));
        self.processes.iter().filter_map(address).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().map(|process| &*process.member.name)
    }
}

fn log(table: &Table) -> Result<LogArgs, String> {
    let text = |key: &str, like: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` is text as \"{like}\", and not {}", shown(other))),
    };
    let log = text("log", "kafka://broker1:9092/shop")?;
    let checkpoints = text("checkpoints", "file:///shared/shop")?;
    let option = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("`kafka_options` has {}, which is no text", shown(other))),
    };
    let options = match table.get("kafka_options") {
        None => Vec::new(),
        Some(Value::Array(options)) => options.iter().map(option).collect::<Result<_, _>>()?,
        Some(_) => {
            return Err("`kafka_options` is a list of texts: [\"sasl.username=me\"]".to_owned());
        }
    };
    if log.is_none() && !options.is_empty() {
        return Err("it has `kafka_options`, and no `log` that says where Kafka is".to_owned());
    }
    Ok(LogArgs { log, options, checkpoints })
}

fn tls(table: &Table) -> Result<TlsArgs, String> {
    let path = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(PathBuf::from(text))),
        Some(other) => Err(format!("`{key}` is the path of a file, and not {}", shown(other))),
    };
    let ca = path("node_tls_ca")?;
    let (cert, key) = (path("node_tls_cert")?, path("node_tls_key")?);
    match [&ca, &cert, &key].iter().filter(|path| path.is_some()).count() {
        0 | 3 => Ok(TlsArgs { ca, cert, key }),
        _ => Err("`node_tls_ca`, `node_tls_cert` and `node_tls_key` go together".to_owned()),
    }
}

fn process(entry: &Value) -> Result<Process, String> {
    let Value::Table(table) = entry else {
        return Err("each process has a part [[process]] of its own".to_owned());
    };
    let text = |key: &str| match table.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!("a process has no `{key}`, which is text in quotes")),
    };
    let name = text("name")?;
    let of = |what: String| format!("process `{name}`: {what}");
    check_keys(table, &PROCESS_KEYS, &format!("process `{name}`"))?;
    let address = text("address").map_err(of)?;
    let sites = match table.get("sites") {
        Some(Value::Array(sites)) => sites.iter().map(site).collect::<Result<_, String>>(),
        _ => Err("it has no `sites`, which is a list of numbers: [3, 4]".to_owned()),
    };
    let role = match table.get("router") {
        None | Some(Value::Boolean(false)) => Role::Node,
        Some(Value::Boolean(true)) => Role::Router,
        Some(other) => {
            return Err(of(format!("`router` is true or false, and not {}", shown(other))));
        }
    };
    let joined = match table.get("joined") {
        None => false,
        Some(Value::Boolean(joined)) => *joined,
        Some(other) => {
            return Err(of(format!("`joined` is true or false, and not {}", shown(other))));
        }
    };
    let place = |key: &str, example: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if text.contains(':') => Ok(Some(text.clone())),
        Some(other) => {
            let right = format!("a host and a port, as \"{example}\"");
            Err(of(format!("`{key}` is {right}, and not {}", shown(other))))
        }
    };
    let clients = place("clients", "10.0.0.1:5433")?;
    let http = place("http", "127.0.0.1:8080")?;
    let sites = sites.map_err(of)?;
    let zone = match table.get("zone") {
        None => None,
        Some(Value::String(zone)) if !zone.is_empty() => Some(zone.clone()),
        Some(other) => {
            let right = "the name of a rack, a room or a data centre in quotes";
            return Err(of(format!("`zone` is {right}, and not {}", shown(other))));
        }
    };
    Ok(Process { member: Member { name, address, sites, zone }, role, clients, http, joined })
}

fn site(value: &Value) -> Result<SiteId, String> {
    match value {
        Value::Integer(number @ 1..=1024) => Ok(SiteId(*number as u16)),
        other => Err(format!("{} is no site; these are numbers from 1 to 1024", shown(other))),
    }
}

/// Parses sites such as `3,4`.
///
/// # Errors
/// A message about the invalid site.
pub(crate) fn read_sites(text: &str) -> Result<BTreeSet<SiteId>, String> {
    let number = |text: &str| match text.trim().parse::<i64>() {
        Ok(number) => site(&Value::Integer(number)),
        Err(_) => Err(format!("`{text}` is no site; write numbers with commas between: 3,4")),
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(number).collect()
}

/// Parses another process such as `b=10.0.0.2:7433/3,4`.
///
/// # Errors
/// A message about the missing part.
pub(crate) fn read_member(text: &str) -> Result<Member, String> {
    let wrong = || format!("`{text}` is not NAME=HOST:PORT/SITES, as in b=10.0.0.2:7433/3,4");
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (address, sites) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() || !address.contains(':') {
        return Err(wrong());
    }
    let sites = read_sites(sites)?;
    let (name, address) = (name.to_owned(), address.to_owned());
    Ok(Member { name, address, sites, zone: None })
}

/// A value in the file's notation.
fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::String(text) => format!("\"{text}\""),
        other => format!("a value of type {}", other.type_str()),
    }
}

fn number(
    table: &Table,
    key: &str,
    allowed: std::ops::RangeInclusive<u64>,
    usual: u64,
) -> Result<u64, String> {
    let (least, most) = (*allowed.start(), *allowed.end());
    match table.get(key) {
        None => Ok(usual),
        Some(Value::Integer(number)) if allowed.contains(&(*number as u64)) && *number >= 0 => {
            Ok(*number as u64)
        }
        Some(other) => {
            let found = shown(other);
            Err(format!("`{key}` is {found}, and has to be from {least} to {most}"))
        }
    }
}

/// Seconds, possibly with a fraction.
fn seconds(table: &Table, key: &str, usual: Duration) -> Result<Duration, String> {
    match table.get(key) {
        Some(Value::Float(seconds)) if (0.0..=86_400.0).contains(seconds) => {
            Ok(Duration::from_secs_f64(*seconds))
        }
        None => Ok(usual),
        Some(_) => number(table, key, 0..=86_400, 0).map(Duration::from_secs),
    }
}

fn check_keys(table: &Table, known: &[&str], of: &str) -> Result<(), String> {
    let Some(unknown) = table.keys().find(|key| !known.contains(&&***key)) else { return Ok(()) };
    let nearest = known.iter().min_by_key(|key| distance(unknown, key)).expect("there are keys");
    Err(format!(
        "{of} has a key `{unknown}`, which is not known; the nearest is `{nearest}`, and there are: {}",
        known.join(", ")
    ))
}

/// The edit distance: letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in to.chars().enumerate() {
            let replaced = before + usize::from(letter != other);
            before = row[column + 1];
            row[column + 1] = replaced.min(before + 1).min(row[column] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        silence_ms = 500
        [[process]]
        name = \"a\"
        address = \"10.0.0.1:7433\"
        sites = [1, 2]
        router = true
        [[process]]
        name = \"b\"
        address = \"10.0.0.2:7433\"
        sites = [3]";

    #[test]
    fn a_file_names_the_members_of_the_cluster() {
        let file = ClusterFile::read(FILE).expect("it is right");
        assert_eq!(
            file.limits,
            Limits { silence: Duration::from_millis(500), ..Limits::default() }
        );
        let never =
            ClusterFile::read(&format!("failover_seconds = 0\n{FILE}")).expect("it is right");
        assert_eq!(never.limits.failover_after, None);
        let soon =
            ClusterFile::read(&format!("failover_seconds = 0.5\n{FILE}")).expect("it is right");
        assert_eq!(soon.limits.failover_after, Some(Duration::from_millis(500)));
        assert_eq!(file.log, LogArgs::default());
        let log = "log = \"kafka://k:9092/shop\"\nkafka_options = [\"a=b\"]";
        let with = ClusterFile::read(&format!("{log}\n{FILE}")).expect("it is right");
        assert_eq!(with.log.log.as_deref(), Some("kafka://k:9092/shop"));
        assert_eq!(with.log.options, ["a=b"]);
        let with = ClusterFile::read(&format!("checkpoints = \"file:///s\"\n{log}\n{FILE}"));
        let with = with.expect("it is right").log;
        assert_eq!(with.checkpoints.as_deref(), Some("file:///s"));
        let flag = LogArgs { checkpoints: Some("file:///t".to_owned()), ..LogArgs::default() };
        let said = with.with_flags(&flag).err().map(|failure| format!("{failure:?}"));
        assert!(said.is_some_and(|said| said.contains("at file:///s; leave --checkpoints out")));
        let (own, others) = file.split("b").expect("it is there");
        assert_eq!((own.role, own.member.sites), (Role::Node, [SiteId(3)].into()));
        assert_eq!(others, [read_member("a=10.0.0.1:7433/1,2").expect("it is right")]);
        assert_eq!(file.router().member.name, "a");
    }

    #[test]
    fn faults_are_named_with_the_right_form() {
        let wrong = |from: &str, to: &str| {
            ClusterFile::read(&FILE.replace(from, to)).expect_err("something is wrong")
        };
        assert_eq!(
            wrong("silence_ms", "silence_msec"),
            "the file has a key `silence_msec`, which is not known; the nearest is `silence_ms`, and there are: \
             node_wait_seconds, failover_seconds, silence_ms, queue_mb, requests, log, kafka_options, \
             checkpoints, node_tls_ca, node_tls_cert, node_tls_key, process"
        );
        assert_eq!(
            wrong("sites = [3]", "site = [3]"),
            "process `b` has a key `site`, which is not known; the nearest is `sites`, and there are: name, \
             address, sites, router, clients, http, zone, joined"
        );
        assert_eq!(
            wrong("sites = [3]", "sites = [3]\nclients = \"5433\""),
            "process `b`: `clients` is a host and a port, as \"10.0.0.1:5433\", and not \"5433\""
        );
        assert_eq!(
            wrong("[1, 2]", "[0]"),
            "process `a`: 0 is no site; these are numbers from 1 to 1024"
        );
        assert_eq!(wrong("= 500", "= 5"), "`silence_ms` is 5, and has to be from 200 to 4000");
        assert_eq!(
            wrong("silence_ms = 500", "log = 9092"),
            "`log` is text as \"kafka://broker1:9092/shop\", and not 9092"
        );
        assert_eq!(
            wrong("silence_ms = 500", "kafka_options = [\"a=b\"]"),
            "it has `kafka_options`, and no `log` that says where Kafka is"
        );
        assert_eq!(
            wrong("silence_ms = 500", "node_tls_ca = \"ca.pem\""),
            "`node_tls_ca`, `node_tls_cert` and `node_tls_key` go together"
        );
        assert_eq!(
            wrong("sites = [3]", "sites = [3]\nzone = \"east\""),
            "some processes have a `zone`, and others have none"
        );
        assert_eq!(wrong("= true", "= false"), "0 processes have `router = true`; one has to");
        let unknown = ClusterFile::read(FILE).expect("it is right").split("c");
        let unknown = unknown.expect_err("there is none");
        assert_eq!(unknown, "there is no process named `c` in the file, but: a, b");
        let bad = read_member("10.0.0.2:7433").expect_err("it has no name");
        assert_eq!(bad, "`10.0.0.2:7433` is not NAME=HOST:PORT/SITES, as in b=10.0.0.2:7433/3,4");
    }
}
