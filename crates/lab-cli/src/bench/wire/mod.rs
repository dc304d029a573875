//! `isomer-lab bench wire`: Isomer beside a stock PostgreSQL, with stock clients; and `isomer-lab
//! bench tpcc`: TPC-C while the design changes.
//!
//! ```text
//!   round 1   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      both servers run all the time,
//!   round 2   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      one works at a time
//!   figure    the median of the rounds' ratios
//! ```
//!
//! Machines are noisy, so a figure is a ratio of two runs that follow each other. Both servers wait
//! for the disk at a commit, or neither does. Clients reach both by the same transport.
//!
//! * `select_only_vs_pg`: pgbench `-S`, prepared.
//! * `tpcb_vs_pg`, `tpcb_async_vs_pg`: pgbench's TPC-B-like, prepared; the second with asynchronous
//!   commits.
//! * `point_select_vs_pg`, `read_write_vs_pg`: sysbench's `oltp_point_select` and
//!   `oltp_read_write`.
//! * `tpcc_vs_pg`: transactions of TPC-C, [`mod@tpcc`].
//! * `tpcb_repeatable_read`, `tpcb_serializable`: TPC-B-like at this level over READ COMMITTED,
//!   with asynchronous commits. pgbench repeats failed transactions.
//! * `mixed_repeatable_read`, `mixed_serializable`: the same for transactions that read ten
//!   accounts and write another.
//! * `…_of_pg`: the same ratios for PostgreSQL.
//! * `p99_under_change`: TPC-B-like's 99th percentile while the design changes, over that without
//!   changes.
//! * `errors_under_change`: transactions that failed under changes, of TPC-B-like and of TPC-C.
//! * `autopilot_short`, `autopilot_long`, `autopilot_tpcc`: throughput with the autopilot over
//!   that without it, where it has nothing to gain, [`mod@autopilot`]; `…_percent`: the share of a
//!   processor core that it took.
//! * `statement_overhead`: reads by key that the library does in the time of one select-only
//!   statement; less is better.
//! * `load_time_vs_pg`, `tpcc_load_time_vs_pg`: `pgbench -i`, and the load of TPC-C; less is
//!   better.

mod autopilot;
mod clients;
#[cfg(feature = "kafka")]
mod cluster;
mod compare;
mod direct;
mod servers;
mod shake;
mod shaken;
mod sql;
mod tpcc;

use clap::ValueEnum;
#[cfg(feature = "kafka")]
pub(crate) use cluster::{ClusterArgs, run as cluster};
use compare::Bench;
use isomer::failure::Failure;
use isomer_workload::random;
use servers::{Server, Transport, needs};
use shake::{ASKERS, Shaker, Target};
pub(crate) use shaken::{TpccArgs, tpcc_under_change};
pub(crate) use sql::{SqlArgs, sql};
use std::time::Duration;
use tpcc::Sizes;

/// Speed over the wire, as ratios to a stock PostgreSQL measured in the same run
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Needs PostgreSQL with pgbench, and sysbench.

Examples:
  isomer-lab bench wire --json
  isomer-lab bench wire --seconds 20 --rounds 5
  isomer-lab bench wire --only tpcc --transport unix
  isomer-lab bench wire --only isolation --json
  isomer-lab bench wire --only autopilot --seconds 20")]
pub(crate) struct WireArgs {
    /// Measures only these parts; separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Pairs of runs for each figure
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u16,
    /// Threads of pgbench, which share its clients
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// pgbench's scale, in units of 100,000 accounts
    #[arg(long, value_name = "N", default_value_t = 10)]
    scale: u32,
    /// How clients reach both servers
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Transport::Tcp)]
    transport: Transport,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    changes: Changes,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// A part of the figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// pgbench: load, select-only beside PostgreSQL and the library, TPC-B-like
    Pgbench,
    /// sysbench: point selects, reads and writes
    Sysbench,
    /// TPC-C
    Tpcc,
    /// pgbench at each level of isolation
    Isolation,
    /// TPC-B and TPC-C while the design changes
    Change,
    /// Short and long transactions with the autopilot, and without
    Autopilot,
}

impl WireArgs {
    fn measures(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// The changes of the design.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Changes {
    /// Sites of the Isomer database
    #[arg(long, value_name = "N", default_value_t = 4)]
    sites: u16,
    /// Milliseconds between two changes of the design; 0: no changes
    #[arg(long, value_name = "MS", default_value_t = 100)]
    change_ms: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Changes {
    /// Makes a shaker that changes the design of `targets`; none if `--change-ms` is 0.
    fn shaker(&self, server: &Server, targets: Vec<Target>) -> Result<Option<Shaker>, Failure> {
        if self.change_ms == 0 {
            return Ok(None);
        }
        let pause = Duration::from_millis(self.change_ms);
        let rng = random(self.seed ^ 0xc4a_0ce5);
        let askers = (0..ASKERS).map(|_| server.connect()).collect::<Result<_, _>>()?;
        Ok(Some(Shaker::new(askers, rng, targets, self.sites, pause)))
    }
}

/// Tables of TPC-C whose keys begin with the warehouse, followed by its districts or items.
fn tpcc_targets(sizes: Sizes) -> Vec<Target> {
    let target = |table, more: &[i32]| Target { table, keys: [&[sizes.warehouses], more].concat() };
    vec![
        target("warehouse", &[]),
        target("district", &[10]),
        target("customer", &[10]),
        target("new_order", &[10]),
        target("orders", &[10]),
        target("order_line", &[10]),
        target("stock", &[sizes.items]),
    ]
}

fn pgbench_targets(scale: u32) -> Vec<Target> {
    let scale = scale as i32;
    vec![
        Target { table: "pgbench_accounts", keys: vec![scale * 100_000] },
        Target { table: "pgbench_tellers", keys: vec![scale * 10] },
        Target { table: "pgbench_branches", keys: vec![scale] },
    ]
}

/// Runs `isomer-lab bench wire`.
///
/// # Errors
/// If a program is missing, or a run fails.
pub(crate) fn wire(args: &WireArgs) -> Result<(), Failure> {
    needs("pgbench", "postgresql-contrib")?;
    needs("sysbench", "sysbench")?;
    let mut bench = Bench::start(args)?;
    bench.load()?;
    if args.measures(Part::Pgbench) {
        bench.pgbench()?;
    }
    if args.measures(Part::Sysbench) {
        bench.sysbench()?;
    }
    if args.measures(Part::Tpcc) {
        bench.tpcc()?;
    }
    if args.measures(Part::Isolation) {
        bench.isolation()?;
    }
    if args.measures(Part::Change) {
        bench.under_change()?;
    }
    if args.measures(Part::Autopilot) {
        bench.autopilot()?;
    }
    bench.report()
}
