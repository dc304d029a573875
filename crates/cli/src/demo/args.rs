//! The options of the demo.

use isomer_plan::elastic::Planner;
use std::path::PathBuf;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// A production trace, and the autopilot
    Trace,
    /// Suppliers of one site become hot, and a loop cures the overload
    Hotspot,
    /// The shard key of a table of ratings changes while viewers use it
    Reshard,
}

/// Who cures an overload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Elasticity {
    /// Moves what is accessed together
    Clay,
    /// Moves what is hot
    #[value(name = "estore")]
    EStore,
    /// Lets backups become masters
    #[value(name = "drtmb")]
    DrTmB,
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

/// Replays a production trace on a database that rearranges itself, and checks the outcome
///
/// Starts a database in this process, with keys spread over its sites at random, and replays a
/// cache trace of Twitter as transactions of one to four keys. What no single site can run commits over
/// several; meanwhile the autopilot learns what is used together and what things cost, and changes the
/// design where that pays: masters move, replicas come and go, partitions split and merge. Then the
/// same trace runs for a third of the time on a design that nobody changes, to compare.
///
/// On a terminal the run is shown live; `q` ends it early. At the end every row of every copy is
/// read, and everything that was promised is checked; exit code 1 if a check fails.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer demo                         thirty seconds, four sites
  isomer demo --seconds 5 --plain     lines instead of a live view
  isomer demo --json | tail -n 1      the report as one line of JSON
  isomer demo --scenario hotspot      a site is overloaded, and Clay cures it; the load of each site, as lines
  isomer demo --scenario hotspot --strategy drtmb
  isomer demo --scenario reshard      ratings by film become ratings by viewer, while they are used")]
pub(crate) struct DemoArgs {
    /// What is shown
    #[arg(long, value_enum, default_value_t = Scenario::Trace)]
    pub(crate) scenario: Scenario,
    /// Who cures the overload of the scenario hotspot [default: clay]
    #[arg(long, value_enum)]
    pub(crate) strategy: Option<Elasticity>,
    /// How long it takes
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// How many sites the database has
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) sites: u16,
    /// How many clients run transactions
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Where the chance of the run comes from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A trace to replay instead of the built-in one: CSV with the columns time_s,key,size,
    /// compressed with zstd
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Keys in each partition at first [default: 4 of the trace, 1000 parts of the hot spot]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) partition_keys: Option<u64>,
    /// Prints lines, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Prints the report as one line of JSON, and everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to draw throughput, single-site share and changes over time (trace)
    #[arg(long, value_name = "FILE.svg", default_value = "out/demo.svg")]
    pub(crate) plot: PathBuf,
}
