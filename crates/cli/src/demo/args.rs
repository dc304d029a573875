//! The options of the demo.

use isomer_plan::elastic::Planner;
use std::path::PathBuf;

/// The scenario of the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// A production trace, and the autopilot
    Trace,
    /// Suppliers of one site become hot, and the database moves load away from it
    Hotspot,
    /// The shard key of a table of ratings changes while viewers use it
    Reshard,
    /// Rows of an ordered table move to the processes that write them: `--isolation ordered`
    #[value(skip)]
    Ordered,
}

/// The isolation of the demo's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Isolation {
    /// An ordered table, in a cluster of processes on this machine
    Ordered,
}

/// The strategy against overloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Elasticity {
    /// Moves partitions that are accessed together
    Clay,
    /// Moves hot partitions
    #[value(name = "estore")]
    EStore,
    /// Makes backups masters
    #[value(name = "drtmb")]
    DrTmB,
}

impl DemoArgs {
    /// The address of the console, if it is to be opened.
    pub(crate) fn console(&self) -> Option<std::net::SocketAddr> {
        #[cfg(feature = "console")]
        {
            self.console
        }
        #[cfg(not(feature = "console"))]
        {
            None
        }
    }

    /// The scenario: the one that SQL serves, if the console is to be opened.
    pub(crate) fn scenario(&self) -> Scenario {
        let default = match self.isolation {
            Some(Isolation::Ordered) => Scenario::Ordered,
            None if self.console().is_some() => Scenario::Reshard,
            None => Scenario::Trace,
        };
        self.scenario.unwrap_or(default)
    }
}

impl Elasticity {
    pub(super) fn planner(self) -> Planner {
        match self {
            Elasticity::Clay => Planner::Clay,
            Elasticity::EStore => Planner::EStore,
            Elasticity::DrTmB => Planner::DrTmB,
        }
    }
}

/// Replays a production trace on a database that rearranges itself, and checks the result
///
/// Starts a database in this process, with keys spread over its sites at random, and replays a
/// cache trace of Twitter as transactions of one to four keys. Transactions over several sites use
/// two-phase commit. Meanwhile the autopilot learns which keys are used together, and what
/// transactions and changes cost; it changes the design where that pays. Masters move, replicas
/// come and go, partitions split and merge. Then the same trace runs for a third of the time on a
/// design that does not change, to compare.
///
/// On a terminal the run is shown live; `q` ends it early. At the end the demo reads every row of
/// every copy, and checks the guarantees; the exit code is 1 if a check fails.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer demo                         thirty seconds, four sites
  isomer demo --seconds 5 --plain     lines instead of a live view
  isomer demo --json | tail -n 1      the report as one line of JSON
  isomer demo --scenario hotspot      a site is overloaded, and Clay cures it; the load of each site, as lines
  isomer demo --scenario hotspot --strategy drtmb
  isomer demo --scenario reshard      ratings by film become ratings by viewer, while they are used
  isomer demo --console               the same, with the console in a browser
  isomer demo --isolation ordered     rows of an ordered table move to the processes that write them")]
pub(crate) struct DemoArgs {
    /// The scenario [default: trace; with --console: reshard]
    #[arg(long, value_enum)]
    pub(crate) scenario: Option<Scenario>,
    /// Shows an ordered table instead: rows that clients of several processes write gather where
    /// they are written
    #[arg(long, value_enum, conflicts_with = "scenario")]
    pub(crate) isolation: Option<Isolation>,
    /// Opens the console on the running demo (reshard), and keeps serving at the end until Ctrl-C
    #[cfg(feature = "console")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8080")]
    pub(crate) console: Option<std::net::SocketAddr>,
    /// The strategy against the overload, in scenario hotspot [default: clay]
    #[arg(long, value_enum)]
    pub(crate) strategy: Option<Elasticity>,
    /// Seconds of the run
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Sites of the database; with --isolation ordered, 3 to 9, each in a process of its own
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) sites: u16,
    /// Clients that run transactions; with --isolation ordered, of each process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A trace to replay instead of the built-in one: CSV with the columns time_s,key,size,
    /// compressed with zstd
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Keys in each partition at the beginning [default: trace 4, hotspot 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) partition_keys: Option<u64>,
    /// Prints lines, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Prints the report as one line of JSON, and everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// File for a plot of throughput, single-site share and changes over time (trace)
    #[arg(long, value_name = "FILE.svg", default_value = "out/demo.svg")]
    pub(crate) plot: PathBuf,
}
