//! The options of the demo.

use std::path::PathBuf;

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
  isomer demo --json | tail -n 1      the report as one line of JSON")]
pub(crate) struct DemoArgs {
    /// How long to replay the trace
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
    /// Keys in each partition at first
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) partition_keys: u64,
    /// Prints lines, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Prints the report as one line of JSON, and everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to draw throughput, single-site share and changes over time
    #[arg(long, value_name = "FILE.svg", default_value = "out/demo.svg")]
    pub(crate) plot: PathBuf,
}
