//! `isomer bench wire`: Isomer beside a stock PostgreSQL, with clients that nobody here wrote; and
//! `isomer bench tpcc`: TPC-C while the design changes.
//!
//! ```text
//!   round 1   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      both servers are there all the time,
//!   round 2   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      one works at a time
//!   figure    the median of the rounds' ratios
//! ```
//!
//! Machines are noisy, so a figure is a ratio of two runs that follow each other. Both servers wait for the
//! disk at a commit, or neither does.
//!
//! | key | what is compared |
//! | --- | --- |
//! | `select_only_vs_pg` | pgbench `-S`, prepared |
//! | `tpcb_vs_pg`, `tpcb_async_vs_pg` | pgbench's TPC-B-like, prepared; the second without waiting for the disk |
//! | `point_select_vs_pg`, `read_write_vs_pg` | sysbench's `oltp_point_select`, `oltp_read_write` |
//! | `tpcc_vs_pg` | transactions of TPC-C, [`mod@tpcc`] |
//! | `p99_under_change` | TPC-B-like's 99th percentile while the design changes, over that without |
//! | `errors_under_change` | transactions that failed meanwhile, here and in TPC-C |
//! | `load_time_vs_pg` | `pgbench -i`: less is better |

mod clients;
mod servers;
mod shake;
mod tpcc;

use crate::clock;
use crate::failure::Failure;
use crate::{out, text};
use clients::{Clients, pgbench_init};
use isomer_workload::random;
use serde_json::{Map, Value, json};
use servers::{Server, needs};
use shake::{Shaker, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tpcc::Sizes;

/// Speed over the wire, as ratios to a stock PostgreSQL measured in the same run
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Needs PostgreSQL with pgbench, and sysbench.

Examples:
  isomer bench wire --json
  isomer bench wire --seconds 20 --rounds 5")]
pub(crate) struct WireArgs {
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Pairs of runs for each figure
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u16,
    /// pgbench's scale: hundred thousand accounts each
    #[arg(long, value_name = "N", default_value_t = 10)]
    scale: u32,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    changes: Changes,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// TPC-C over the wire while the design changes, its result checked by a stock PostgreSQL
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Needs PostgreSQL. A client stops at its first error, and the command fails.

Examples:
  isomer bench tpcc --seconds 600
  isomer bench tpcc --seconds 3 --warehouses 2 --items 200 --customers 60"
)]
pub(crate) struct TpccArgs {
    /// Seconds of the run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    threads: u16,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    changes: Changes,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// How the design changes.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Changes {
    /// Sites of the Isomer database
    #[arg(long, value_name = "N", default_value_t = 4)]
    sites: u16,
    /// A change of the design every so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    change_ms: u64,
    /// Where all random choices begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Changes {
    fn shaker(&self, server: &Server, targets: Vec<Target>) -> Result<Shaker, Failure> {
        let pause = Duration::from_millis(self.change_ms);
        let rng = random(self.seed ^ 0xc4a_0ce5);
        Ok(Shaker::new(server.connect()?, rng, targets, self.sites, pause))
    }
}

/// Tables of TPC-C whose keys begin with the warehouse.
fn tpcc_targets(sizes: Sizes) -> Vec<Target> {
    let tables =
        ["warehouse", "district", "customer", "new_order", "orders", "order_line", "stock"];
    tables.map(|table| Target { table, keys: sizes.warehouses }).to_vec()
}

fn pgbench_targets(scale: u32) -> Vec<Target> {
    let scale = scale as i32;
    vec![
        Target { table: "pgbench_accounts", keys: scale * 100_000 },
        Target { table: "pgbench_tellers", keys: scale * 10 },
        Target { table: "pgbench_branches", keys: scale },
    ]
}

/// Runs `isomer bench tpcc`.
///
/// # Errors
/// If a client has met an error, or a condition does not hold.
pub(crate) fn tpcc(args: &TpccArgs) -> Result<(), Failure> {
    let (pg, isomer) = (Server::postgres()?, Server::isomer(args.changes.sites, true)?);
    let (sizes, seed) = (args.sizes, args.changes.seed);
    eprintln!("loading {} warehouses", sizes.warehouses);
    tpcc::load(&|| isomer.connect(), sizes, seed)?;
    eprintln!("{} terminals for {} s", args.threads, args.seconds);
    let shaker = args.changes.shaker(&isomer, tpcc_targets(sizes))?;
    let time = Duration::from_secs(args.seconds);
    let ran = tpcc::run(&|| isomer.connect(), sizes, args.threads, time, seed, Some(shaker))?;
    eprintln!("checking in PostgreSQL");
    tpcc::check(&mut isomer.connect()?, &mut pg.connect()?, sizes)?;
    if args.json {
        out::line(json!({
            "bench": "tpcc", "seed": seed, "threads": args.threads, "sites": args.changes.sites,
            "warehouses": sizes.warehouses, "items": sizes.items, "customers": sizes.customers,
            "seconds": ran.seconds, "change_ms": args.changes.change_ms, "changes": ran.changes,
            "transactions": ran.transactions, "new_orders": ran.new_orders, "errors": 0,
            "conditions_held": 12,
        }));
    } else {
        out::line(format!(
            "{} transactions in {:.1} s ({:.0}/s, {:.0} new orders a minute), {} changes of the design, \
             no error; the twelve conditions hold",
            ran.transactions,
            ran.seconds,
            ran.per_second(),
            ran.new_orders as f64 * 60.0 / ran.seconds,
            ran.changes
        ));
    }
    Ok(())
}

/// Runs `isomer bench wire`.
///
/// # Errors
/// If a program is missing, or a run fails.
pub(crate) fn wire(args: &WireArgs) -> Result<(), Failure> {
    needs("pgbench", "postgresql-contrib")?;
    needs("sysbench", "sysbench")?;
    let mut bench = Bench::start(args)?;
    bench.pgbench()?;
    bench.sysbench()?;
    bench.tpcc()?;
    bench.under_change()?;
    bench.report()
}

/// Two servers, and what was found out about them.
struct Bench<'a> {
    args: &'a WireArgs,
    clients: Clients,
    pg: Server,
    isomer: Server,
    figures: Map<String, Value>,
    runs: Map<String, Value>,
}

impl Bench<'_> {
    fn start(args: &WireArgs) -> Result<Bench<'_>, Failure> {
        let (seconds, clients, seed) = (args.seconds, args.clients, args.changes.seed);
        Ok(Bench {
            args,
            clients: Clients { seconds, clients, seed },
            pg: Server::postgres()?,
            isomer: Server::isomer(args.changes.sites, true)?,
            figures: Map::new(),
            runs: Map::new(),
        })
    }

    /// Measures both servers in turn; the median of the ratios is the figure.
    fn compare(
        &mut self,
        key: &str,
        rounds: usize,
        measure: impl Fn(&Bench<'_>, &Server) -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        let mut pairs = Vec::new();
        for round in 1..=rounds {
            eprintln!("{key}: {round} of {rounds}");
            pairs.push((measure(self, &self.pg)?, measure(self, &self.isomer)?));
        }
        let ratio = median(pairs.iter().map(|(pg, isomer)| isomer / pg).collect());
        self.figures.insert(key.to_owned(), rounded(ratio));
        self.runs.insert(key.to_owned(), json!(pairs));
        Ok(())
    }

    fn pgbench(&mut self) -> Result<(), Failure> {
        let (rounds, scale) = (self.args.rounds, self.args.scale);
        self.compare("load_time_vs_pg", 1, |_, server| {
            let begun = clock::now();
            pgbench_init(server, scale)?;
            Ok(begun.elapsed().as_secs_f64())
        })?;
        self.compare("select_only_vs_pg", rounds, |bench, server| {
            Ok(bench.clients.pgbench(server, &["-S"])?.per_second)
        })?;
        let tpcb =
            |bench: &Bench<'_>, server: &Server| Ok(bench.clients.pgbench(server, &[])?.per_second);
        self.compare("tpcb_vs_pg", rounds, tpcb)?;
        let hasty = Server::isomer(self.args.changes.sites, false)?;
        pgbench_init(&hasty, scale)?;
        let patient = std::mem::replace(&mut self.isomer, hasty);
        self.pg.options("-c synchronous_commit=off");
        self.compare("tpcb_async_vs_pg", rounds, tpcb)?;
        self.pg.options("");
        self.isomer = patient;
        Ok(())
    }

    fn sysbench(&mut self) -> Result<(), Failure> {
        for server in [&self.pg, &self.isomer] {
            self.clients.sysbench_prepare(server)?;
        }
        for (key, test) in
            [("point_select_vs_pg", "oltp_point_select"), ("read_write_vs_pg", "oltp_read_write")]
        {
            self.compare(key, self.args.rounds, |bench, server| {
                bench.clients.sysbench(server, test)
            })?;
        }
        Ok(())
    }

    fn tpcc(&mut self) -> Result<(), Failure> {
        let (sizes, seed) = (self.args.sizes, self.args.changes.seed);
        for server in [&self.pg, &self.isomer] {
            eprintln!("loading {} warehouses", sizes.warehouses);
            tpcc::load(&|| server.connect(), sizes, seed)?;
        }
        let time = Duration::from_secs(self.args.seconds);
        self.compare("tpcc_vs_pg", self.args.rounds, |bench, server| {
            let clients = bench.clients.clients;
            let ran = tpcc::run(&|| server.connect(), sizes, clients, time, seed, None)?;
            Ok(ran.per_second())
        })
    }

    /// TPC-B and TPC-C while the design changes; the latter's tables are checked after.
    fn under_change(&mut self) -> Result<(), Failure> {
        let (mut ratios, mut errors, mut pairs) = (Vec::new(), 0, Vec::new());
        for round in 1..=self.args.rounds {
            eprintln!("p99_under_change: {round} of {}", self.args.rounds);
            let calm = self.clients.pgbench(&self.isomer, &[])?;
            let targets = pgbench_targets(self.args.scale);
            let mut shaker = self.args.changes.shaker(&self.isomer, targets)?;
            let stop = AtomicBool::new(false);
            let (shaken, changes) = std::thread::scope(|scope| {
                let shaking = scope.spawn(|| shaker.shake_until(&stop));
                let shaken = self.clients.pgbench(&self.isomer, &[]);
                stop.store(true, Ordering::Relaxed);
                (shaken, shaking.join().expect("a shaker says what is wrong"))
            });
            let (shaken, changes) = (shaken?, changes?);
            ratios.push(shaken.p99_us as f64 / calm.p99_us as f64);
            errors += shaken.errors;
            pairs.push(json!([calm.p99_us, shaken.p99_us, changes]));
        }
        let (sizes, seed) = (self.args.sizes, self.args.changes.seed);
        let shaker = self.args.changes.shaker(&self.isomer, tpcc_targets(sizes))?;
        let (time, clients) = (Duration::from_secs(self.args.seconds), self.clients.clients);
        let isomer = &self.isomer;
        tpcc::run(&|| isomer.connect(), sizes, clients, time, seed ^ 1, Some(shaker))?;
        tpcc::check(&mut self.isomer.connect()?, &mut self.pg.connect()?, sizes)?;
        self.figures.insert("p99_under_change".to_owned(), rounded(median(ratios)));
        self.figures.insert("errors_under_change".to_owned(), json!(errors));
        self.runs.insert("p99_under_change".to_owned(), json!(pairs));
        Ok(())
    }

    fn report(self) -> Result<(), Failure> {
        if !self.args.json {
            let rows: Vec<Vec<String>> = self
                .figures
                .iter()
                .map(|(key, value)| vec![key.clone(), value.to_string()])
                .collect();
            out::print(text::columns(&rows, 0));
            return Ok(());
        }
        let sizes = self.args.sizes;
        let mut line = self.figures;
        line.insert("bench".to_owned(), json!("wire"));
        line.insert(
            "inputs".to_owned(),
            json!({
                "seconds": self.args.seconds, "rounds": self.args.rounds,
                "clients": self.args.clients, "scale": self.args.scale,
                "warehouses": sizes.warehouses, "items": sizes.items,
                "customers": sizes.customers, "sites": self.args.changes.sites,
                "change_ms": self.args.changes.change_ms, "seed": self.args.changes.seed,
            }),
        );
        line.insert("runs".to_owned(), Value::Object(self.runs));
        out::line(Value::Object(line));
        Ok(())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}
