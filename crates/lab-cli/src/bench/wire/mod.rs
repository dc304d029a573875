//! `isomer-lab bench wire`: Isomer beside a stock PostgreSQL, with clients that nobody here wrote; and
//! `isomer-lab bench tpcc`: TPC-C while the design changes.
//!
//! ```text
//!   round 1   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      both servers are there all the time,
//!   round 2   PostgreSQL ▇▇▇▇▇   Isomer ▇▇▇▇▇      one works at a time
//!   figure    the median of the rounds' ratios
//! ```
//!
//! Machines are noisy, so a figure is a ratio of two runs that follow each other. Both servers wait for the
//! disk at a commit, or neither does; and clients reach both in the same way.
//!
//! | key | what is compared |
//! | --- | --- |
//! | `select_only_vs_pg` | pgbench `-S`, prepared |
//! | `tpcb_vs_pg`, `tpcb_async_vs_pg` | pgbench's TPC-B-like, prepared; the second without waiting for the disk |
//! | `point_select_vs_pg`, `read_write_vs_pg` | sysbench's `oltp_point_select`, `oltp_read_write` |
//! | `tpcc_vs_pg` | transactions of TPC-C, [`mod@tpcc`] |
//! | `tpcb_repeatable_read`, `tpcb_serializable` | TPC-B-like at this level over that at READ COMMITTED, without waiting for the disk; what fails is tried again |
//! | `mixed_repeatable_read`, `mixed_serializable` | the same, of transactions that read ten accounts and write another |
//! | .. `_of_pg` | the same ratios, of PostgreSQL |
//! | `p99_under_change` | TPC-B-like's 99th percentile while the design changes, over that without |
//! | `errors_under_change` | transactions that failed meanwhile, here and in TPC-C |
//! | `statement_overhead` | how many reads by key the library does in the time of one of select-only: less is better |
//! | `load_time_vs_pg`, `tpcc_load_time_vs_pg` | `pgbench -i`; TPC-C's tables: less is better |

mod clients;
#[cfg(feature = "kafka")]
mod cluster;
mod compare;
mod direct;
mod servers;
mod shake;
mod shaken;
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
use std::time::Duration;
use tpcc::Sizes;

/// Speed over the wire, as ratios to a stock PostgreSQL measured in the same run
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Needs PostgreSQL with pgbench, and sysbench.

Examples:
  isomer-lab bench wire --json
  isomer-lab bench wire --seconds 20 --rounds 5
  isomer-lab bench wire --only tpcc --transport unix
  isomer-lab bench wire --only isolation --json")]
pub(crate) struct WireArgs {
    /// Measures these only; more than one with commas
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
    /// pgbench's scale: hundred thousand accounts each
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
}

impl WireArgs {
    fn measures(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// How the design changes.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Changes {
    /// Sites of the Isomer database
    #[arg(long, value_name = "N", default_value_t = 4)]
    sites: u16,
    /// A change of the design every so many milliseconds; 0: none
    #[arg(long, value_name = "MS", default_value_t = 100)]
    change_ms: u64,
    /// Where all random choices begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Changes {
    /// What changes the design of these tables, if anything does.
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

/// Tables of TPC-C whose keys begin with the warehouse, and go on with its districts or items.
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
    bench.report()
}
