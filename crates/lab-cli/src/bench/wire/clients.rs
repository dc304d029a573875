//! Runs pgbench and sysbench, and reads their output.

use super::servers::Server;
use isomer::failure::Failure;
use std::process::Command;

/// Settings of the clients of every run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    pub(super) seconds: u64,
    pub(super) clients: u16,
    /// Threads of pgbench. sysbench and TPC-C have one for each client.
    pub(super) threads: u16,
    pub(super) seed: u64,
}

/// The result of a run of pgbench that logged each latency.
pub(super) struct Latencies {
    /// In microseconds.
    pub(super) p99_us: u64,
    /// Failed transactions, and clients that aborted.
    pub(super) errors: u64,
}

/// Rows of sysbench's one table.
const SYSBENCH_ROWS: &str = "--table-size=100000";

/// Creates and fills the tables of pgbench.
pub(super) fn pgbench_init(server: &Server, scale: u32) -> Result<(), Failure> {
    let mut init = server.client("pgbench");
    told(init.args(["-i", "-q", "-s", &scale.to_string()])).map(|_| ())
}

/// The same, with primary keys from the beginning. A key that is added later is a change of order,
/// which copies all rows once more.
#[cfg(feature = "kafka")]
pub(super) fn pgbench_init_with_keys(server: &Server, scale: u32) -> Result<(), Failure> {
    const TABLES: &str = "
        create table pgbench_branches (bid int primary key, bbalance int, filler char(88));
        create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler char(84));
        create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84));
        create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))";
    let made = server.connect()?.batch_execute(TABLES);
    made.map_err(|error| Failure::of_server("pgbench's tables", &error))?;
    let mut init = server.client("pgbench");
    told(init.args(["-i", "-I", "g", "-q", "-s", &scale.to_string()])).map(|_| ())
}

impl Clients {
    /// Runs pgbench with prepared statements; returns its transactions per second.
    pub(super) fn pgbench(&self, server: &Server, more: &[&str]) -> Result<f64, Failure> {
        Ok(self.run_pgbench(server, more)?.0)
    }

    /// Runs pgbench's TPC-B-like and logs each latency, which slows it down.
    pub(super) fn latencies(&self, server: &Server) -> Result<Latencies, Failure> {
        let prefix = server.folder().join("latencies");
        let prefix = format!("--log-prefix={}", prefix.display());
        let (_, errors) = self.run_pgbench(server, &["-l", &prefix])?;
        Ok(Latencies { p99_us: p99(server)?, errors })
    }

    /// Runs pgbench; returns transactions a second, and errors.
    fn run_pgbench(&self, server: &Server, more: &[&str]) -> Result<(f64, u64), Failure> {
        let mut bench = server.client("pgbench");
        bench.args(["-n", "-M", "prepared", "-j", &self.threads.to_string()]);
        bench.args(["-c", &self.clients.to_string(), "-T", &self.seconds.to_string()]);
        bench.arg(format!("--random-seed={}", self.seed)).args(more).current_dir("/");
        let said = bench.output().map_err(Failure::failed)?;
        let (out, err) =
            (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        let gave_up = err.lines().filter(|line| line.contains("aborted")).count() as u64;
        let number = |before: &str| {
            let at = out.find(before)? + before.len();
            out[at..].split_whitespace().next()?.parse::<f64>().ok()
        };
        let Some(per_second) = number("tps = ") else {
            return Err(Failure::failed(format!("pgbench: {}", err.trim())));
        };
        let failed = number("number of failed transactions: ").unwrap_or(0.0) as u64;
        Ok((per_second, failed + gave_up))
    }

    /// Creates and fills sysbench's table.
    pub(super) fn sysbench_prepare(&self, server: &Server) -> Result<(), Failure> {
        told(&mut self.sysbench_command(server, "oltp_point_select", "prepare")).map(|_| ())
    }

    /// Runs a test of sysbench; returns its transactions per second.
    pub(super) fn sysbench(&self, server: &Server, test: &str) -> Result<f64, Failure> {
        let said = told(&mut self.sysbench_command(server, test, "run"))?;
        let line = said.lines().find(|line| line.trim_start().starts_with("transactions:"));
        let number = line.and_then(|line| line.split(['(', ' ']).filter(|w| !w.is_empty()).nth(2));
        number.and_then(|number| number.parse().ok()).ok_or_else(|| {
            Failure::failed(format!("sysbench {test} does not say its transactions:\n{said}"))
        })
    }

    fn sysbench_command(&self, server: &Server, test: &str, what: &str) -> Command {
        let mut command = Command::new("sysbench");
        command.args([test, "--db-driver=pgsql", SYSBENCH_ROWS]).args(server.sysbench());
        command.arg(format!("--threads={}", self.clients));
        command.arg(format!("--time={}", self.seconds));
        command.arg(format!("--rand-seed={}", self.seed)).arg(what);
        command
    }
}

/// Runs a program; returns its standard output, or an error with its messages.
fn told(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.output().map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    if said.status.success() {
        return Ok(out.into_owned());
    }
    Err(Failure::failed(format!("{name} fails: {}{}", err.trim(), out.trim())))
}

/// The 99th percentile of the latencies that pgbench logged, in microseconds. Removes the log
/// files.
fn p99(server: &Server) -> Result<u64, Failure> {
    let mut latencies: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(server.folder()).map_err(Failure::failed)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("latencies") {
            let text = std::fs::read_to_string(entry.path()).map_err(Failure::failed)?;
            let third = |line: &str| line.split(' ').nth(2)?.parse::<u64>().ok();
            latencies.extend(text.lines().filter_map(third));
            std::fs::remove_file(entry.path()).map_err(Failure::failed)?;
        }
    }
    latencies.sort_unstable();
    let at = latencies.len() * 99 / 100;
    latencies.get(at).copied().ok_or_else(|| Failure::failed("pgbench made no transaction"))
}
