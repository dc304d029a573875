//! TPC-C over the wire: the transactions of an order business, against any server of the protocol.
//!
//! ```text
//!   load ──▶ terminals, a thread each ──▶ all tables by COPY ──▶ a stock PostgreSQL ──▶ check.sql
//!                  the design changes meanwhile                      twelve conditions, plain SQL
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `schema.sql` | the nine tables |
//! | [`mod@load`] | the initial rows |
//! | [`terminal`] | the five transactions |
//! | [`running`] | steps that they share |
//! | `check.sql` | the conditions that must hold at the end |
//!
//! The statements are those of go-tpc, so that stock clients' SQL is tested. A terminal stops at
//! its first error, so no error of the server goes unnoticed. At the stricter isolation levels the
//! server may refuse a transaction with 40001; the terminal repeats it with the same draws and
//! counts the repetition. The synchronous crate `postgres` drives the terminals: it is
//! `tokio-postgres` with a thread for each client.
//!
//! **Left out**: keying and thinking times, so figures compare servers with each other and are no
//! tpmC.

mod load;
mod running;
mod terminal;
mod values;

use super::servers::Server;
use super::shake::Shaker;
use isomer::clock;
use isomer::failure::Failure;
use isomer_workload::random;
use postgres::Client;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terminal::{Kind, Terminal};

/// The tables, in the order of `schema.sql`.
const TABLES: [&str; 9] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "stock",
    "item",
];

/// The size of the business.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Warehouses of TPC-C
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) warehouses: i32,
    /// Items of TPC-C, each in the stock of every warehouse
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i32).range(100..))]
    pub(super) items: i32,
    /// Customers of each of a warehouse's ten districts, and orders at the beginning
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(i32).range(30..))]
    pub(super) customers: i32,
}

impl Sizes {
    /// Orders of a district that are delivered at the beginning.
    fn delivered(self) -> i32 {
        self.customers * 7 / 10
    }
}

/// Counts of all terminals.
pub(super) struct Ran {
    pub(super) transactions: u64,
    pub(super) new_orders: u64,
    pub(super) seconds: f64,
    pub(super) changes: u64,
    /// Transactions that were refused with 40001 and repeated: 0 at READ COMMITTED.
    pub(super) repeated: u64,
}

impl Ran {
    pub(super) fn per_second(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }
}

/// Creates the tables and fills them.
pub(super) fn load(server: &Server, sizes: Sizes, seed: u64) -> Result<(), Failure> {
    load::load(&mut server.connect()?, sizes, seed)
        .map_err(|error| Failure::of_server("loading TPC-C", &error))
}

/// Lets terminals work for `time`, while `shaker`, if there is one, changes the design.
pub(super) fn run(
    server: &Server,
    sizes: Sizes,
    threads: u16,
    time: Duration,
    seed: u64,
    shaker: Option<Shaker>,
) -> Result<Ran, Failure> {
    let mut terminals = Vec::new();
    for number in 0..threads {
        let rng = random(seed.wrapping_mul(1000).wrapping_add(number.into()));
        let home = i32::from(number) % sizes.warehouses + 1;
        terminals.push(Terminal::new(server.connect()?, server.isolation(), rng, sizes, home));
    }
    let stop = AtomicBool::new(false);
    let begun = clock::now();
    std::thread::scope(|scope| {
        let stop = &stop;
        let shaking = shaker.map(|mut shaker| scope.spawn(move || shaker.shake_until(stop)));
        let working: Vec<_> = terminals
            .into_iter()
            .map(|mut terminal| scope.spawn(move || work(&mut terminal, stop)))
            .collect();
        while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
            clock::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        let mut ran = Ran { transactions: 0, new_orders: 0, seconds, changes: 0, repeated: 0 };
        for terminal in working {
            let worked = terminal.join().expect("a terminal does not panic")?;
            ran.transactions += worked.transactions;
            ran.new_orders += worked.new_orders;
            ran.repeated += worked.repeated;
        }
        if let Some(shaking) = shaking {
            ran.changes = shaking.join().expect("a shaker does not panic")?;
        }
        Ok(ran)
    })
}

/// Counts of one terminal.
#[derive(Default)]
struct Worked {
    transactions: u64,
    new_orders: u64,
    repeated: u64,
}

fn work(terminal: &mut Terminal, stop: &AtomicBool) -> Result<Worked, Failure> {
    let mut worked = Worked::default();
    while !stop.load(Ordering::Relaxed) {
        match terminal.run() {
            Ok((kind, repeated)) => {
                worked.transactions += 1;
                worked.new_orders += u64::from(kind == Kind::NewOrder);
                worked.repeated += repeated;
            }
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(Failure::of_server("a terminal of TPC-C", &error));
            }
        }
    }
    Ok(worked)
}

/// Copies the tables to a PostgreSQL and checks them there.
///
/// # Errors
/// Names the conditions that are broken.
pub(super) fn check(from: &mut Client, to: &mut Client, sizes: Sizes) -> Result<(), Failure> {
    copy(from, to).map_err(|error| Failure::failed(format!("exporting TPC-C: {error}")))?;
    let delivered = format!("SET tpcc.delivered = {}; ANALYZE", sizes.delivered());
    to.batch_execute(&delivered)
        .map_err(|error| Failure::of_server("preparing the check", &error))?;
    let found = to.query(include_str!("check.sql"), &[]);
    let found = found.map_err(|error| Failure::of_server("checking TPC-C", &error))?;
    let broken: Vec<String> = found
        .iter()
        .map(|row| (row.get::<_, i32>(0), row.get::<_, i64>(1)))
        .filter(|(_, broken)| *broken > 0)
        .map(|(condition, broken)| format!("condition {condition} is broken {broken} times"))
        .collect();
    if found.len() != 12 {
        return Err(Failure::failed(format!("{} of 12 conditions were checked", found.len())));
    }
    if broken.is_empty() { Ok(()) } else { Err(Failure::failed(broken.join("; "))) }
}

fn copy(from: &mut Client, to: &mut Client) -> Result<(), Box<dyn std::error::Error>> {
    let drop: Vec<String> =
        TABLES.iter().map(|table| format!("DROP TABLE IF EXISTS {table}")).collect();
    to.batch_execute(&drop.join("; "))?;
    to.batch_execute(include_str!("schema.sql"))?;
    for table in TABLES {
        let mut reader = from.copy_out(&format!("COPY {table} TO STDOUT"))?;
        let mut writer = to.copy_in(&format!("COPY {table} FROM STDIN"))?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match reader.read(&mut piece)? {
                0 => break,
                count => writer.write_all(&piece[..count])?,
            }
        }
        writer.finish()?;
    }
    Ok(())
}
