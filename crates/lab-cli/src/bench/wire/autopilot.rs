//! The price of the autopilot where it has nothing to gain: all rows are at one site of several.
//!
//! ```text
//!   round 1   off ▇▇▇▇▇   auto ▇▇▇▇▇       one server, whose autopilot is switched by turns
//!   round 2   off ▇▇▇▇▇   auto ▇▇▇▇▇
//!   figures   the median of the rounds' ratios, and the processor time of the autopilot
//! ```
//!
//! Learning costs more for a transaction with many keys. The benchmark therefore has long
//! transactions beside short ones. Commits do not wait for the disk, because clients and autopilot
//! compete for the processor.

use super::clients::{Clients, pgbench_init};
use super::servers::{Server, Transport};
use super::tpcc::{self, Sizes};
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use std::time::Duration;

/// Ten updates, eight inserts and a short scan.
const LONG: &str = include_str!("long.sql");
const TABLES: &str = "
    create table items (id int primary key, n int not null);
    create table lines (id bigserial primary key, item int not null, n int not null);
    insert into items select id, 0 from generate_series(1, 100000) as id";
/// A business of one warehouse.
const ONE: Sizes = Sizes { warehouses: 1, items: 10_000, customers: 300 };
/// The number of terminals of TPC-C.
const TERMINALS: u16 = 2;

/// A load of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// pgbench's TPC-B-like: five statements.
    Short,
    /// Nineteen statements with about 40 keys.
    Long,
    /// TPC-C with one warehouse: up to 100 keys.
    Tpcc,
}

impl Load {
    pub(super) const ALL: [Load; 3] = [Load::Short, Load::Long, Load::Tpcc];

    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Load::Short => "short",
            Load::Long => "long",
            Load::Tpcc => "tpcc",
        }
    }
}

/// A server whose autopilot is switched.
pub(super) struct Switched {
    server: Server,
    clients: Clients,
    script: String,
}

impl Switched {
    /// Starts a server with the rows of all loads.
    pub(super) fn start(
        sites: u16,
        transport: Transport,
        clients: Clients,
    ) -> Result<Self, Failure> {
        let server = Server::isomer(sites, false, transport, IsolationLevel::ReadCommitted)?;
        let path = server.folder().join("long.sql");
        std::fs::write(&path, LONG).map_err(Failure::failed)?;
        pgbench_init(&server, 1)?;
        tpcc::load(&server, ONE, clients.seed)?;
        let script = path.display().to_string();
        let switched = Switched { server, clients, script };
        switched.run(TABLES)?;
        Ok(switched)
    }

    fn run(&self, text: &str) -> Result<(), Failure> {
        let ran = self.server.connect()?.batch_execute(text);
        ran.map_err(|error| Failure::of_server("the autopilot's benchmark", &error))
    }

    /// Transactions per second of a load with the autopilot in a mode.
    fn per_second(&self, load: Load, mode: &str) -> Result<f64, Failure> {
        self.run(&format!("alter system set autopilot = '{mode}'"))?;
        match load {
            Load::Short => self.clients.pgbench(&self.server, &[]),
            Load::Long => self.clients.pgbench(&self.server, &["-f", &self.script]),
            Load::Tpcc => {
                let Clients { seconds, seed, .. } = self.clients;
                let time = Duration::from_secs(seconds);
                let ran = tpcc::run(&self.server, ONE, TERMINALS, time, seed, None)?;
                Ok(ran.per_second())
            }
        }
    }

    /// The processor time that the autopilot has taken since the start, in milliseconds.
    fn taken_ms(&self) -> Result<f64, Failure> {
        let row =
            self.server.connect()?.query_one("select processor_ms from isomer.autopilot", &[]);
        let row = row.map_err(|error| Failure::of_server("isomer.autopilot", &error))?;
        Ok(row.get(0))
    }

    /// Transactions per second without and with the autopilot, and the share of one processor core
    /// that the autopilot took meanwhile, in percent.
    pub(super) fn measure(&self, load: Load) -> Result<((f64, f64), f64), Failure> {
        let off = self.per_second(load, "off")?;
        let before = self.taken_ms()?;
        let auto = self.per_second(load, "auto")?;
        let taken_ms = self.taken_ms()? - before;
        self.run("alter system set autopilot = 'off'")?;
        Ok(((off, auto), taken_ms / (self.clients.seconds as f64 * 10.0)))
    }
}
