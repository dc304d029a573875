//! `isomer trace`: import, describe and generate recordings.

use super::input::{Counted, skipped_notes};
use super::progress::Progress;
use super::{Outcome, open_file, percent, print, table, write_text};
use crate::loads;
use isomer_plan::generate::{
    FollowGraph, Generated, Google, LoadTrace, MultiTenant, Pps, Remote, Tpcc, Twitter, Workload,
};
use isomer_plan::recording::import::{Importer, Kind, follow_graph};
use isomer_plan::recording::{
    BinaryWriter, CsvWriter, OnFault, Recording, RecordingError, Source, Statistics, open,
};
use serde_json::json;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Subcommands on recordings.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Turn files of other formats into a recording.
    Import(Import),
    /// Describe a recording.
    Stat(Stat),
    /// Generate a recording of a benchmark.
    Generate(Generate),
}

/// The arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer trace import flights nyc_flights_2013.csv.zst --out flights.trace")]
pub(crate) struct Import {
    /// flights, movietweetings, github, stackexchange, debian, kvcache or twitter-cache.
    kind: Kind,
    /// The files, one after the other.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The output: compact, or CSV if the name ends in .csv.
    #[arg(long)]
    out: PathBuf,
    /// Leave malformed lines out instead of stopping.
    #[arg(long)]
    skip_faults: bool,
}

/// The arguments of `stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer trace stat flights.trace")]
pub(crate) struct Stat {
    /// The recording.
    trace: PathBuf,
    /// Leave malformed lines out instead of stopping.
    #[arg(long)]
    skip_faults: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The arguments of `generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  isomer trace generate pps --size 10000 --out pps.trace
  isomer trace generate tpcc --sites 18 --placement-out unlucky.csv --out tpcc.trace")]
pub(crate) struct Generate {
    /// The benchmark.
    #[arg(value_enum)]
    benchmark: Benchmark,
    /// The output: compact, or CSV if the name ends in .csv.
    #[arg(long)]
    out: PathBuf,
    /// Transactions to make.
    #[arg(long, default_value_t = 100_000)]
    transactions: u64,
    /// Transactions a second.
    #[arg(long, default_value_t = 5_000.0, allow_negative_numbers = true)]
    rate: f64,
    /// Seed of the recording.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Suppliers, warehouses, users, or sites: the size of the benchmark.
    #[arg(long)]
    size: Option<u64>,
    /// pps: the share of supplier draws that go to six hot ones.
    #[arg(long, default_value_t = 0.2, allow_negative_numbers = true)]
    hot_share: f64,
    /// google and multitenant: keys of each site.
    #[arg(long, default_value_t = 100_000)]
    keys_per_site: u64,
    /// twitter: a social graph (two columns: follower, followed) instead of a generated one.
    #[arg(long)]
    graph: Option<PathBuf>,
    /// google: load per machine over time (time_s,machine,cpu_requested,task_events).
    #[arg(long)]
    load: Option<PathBuf>,
    /// tpcc and tpccs: also write the unlucky placement of the paper for this many sites.
    #[arg(long, requires = "placement_out")]
    sites: Option<u16>,
    /// The file for that placement.
    #[arg(long, requires = "sites")]
    placement_out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Benchmark {
    /// Products, parts, suppliers.
    Pps,
    /// TPC-C with three hot warehouses.
    Tpcc,
    /// TPC-C whose remote warehouses are always the partner.
    Tpccs,
    /// Users who follow each other.
    Twitter,
    /// YCSB under a moving load.
    Google,
    /// Tenants with a moving hot spot.
    Multitenant,
}

/// Runs the command.
pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Import(args) => import(args),
        Command::Stat(args) => stat(args),
        Command::Generate(args) => generate(args),
    }
}

enum Writer {
    Csv(CsvWriter<BufWriter<File>>),
    Binary(BinaryWriter<BufWriter<File>>),
}

impl Writer {
    fn new(path: &Path) -> Result<Writer, Box<dyn std::error::Error>> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let output = BufWriter::new(file);
        Ok(match path.extension().is_some_and(|extension| extension == "csv") {
            true => Writer::Csv(CsvWriter::new(output)?),
            false => Writer::Binary(BinaryWriter::new(output)?),
        })
    }

    fn copy(&mut self, mut source: impl Source) -> Result<u64, Box<dyn std::error::Error>> {
        let mut count = 0;
        while let Some(access) = source.next_access()? {
            match self {
                Writer::Csv(writer) => writer.push(&access)?,
                Writer::Binary(writer) => writer.push(&access)?,
            }
            count += 1;
        }
        skipped_notes(source.skipped()).iter().for_each(|note| eprintln!("{note}"));
        Ok(count)
    }

    fn finish(self) -> Outcome {
        match self {
            Writer::Csv(writer) => drop(writer.finish()?),
            Writer::Binary(writer) => drop(writer.finish()?),
        }
        Ok(())
    }
}

fn on_fault(skip: bool) -> OnFault {
    if skip { OnFault::Skip } else { OnFault::Stop }
}

fn import(args: &Import) -> Outcome {
    let mut progress = Progress::start();
    let mut writer = Writer::new(&args.out)?;
    let (mut count, mut first) = (0, 1);
    for path in &args.files {
        let fault = on_fault(args.skip_faults);
        let name = |error: Box<dyn std::error::Error>| format!("{}: {error}", path.display());
        let mut importer = Importer::new(args.kind, open_file(path)?, fault, first)
            .map_err(|error| name(error.into()))?;
        let counted = Counted { source: &mut importer, read: 0, progress: &mut progress };
        count += writer.copy(counted).map_err(name)?;
        first = importer.last_transaction() + 1;
    }
    drop(progress);
    writer.finish()?;
    print(&format!("{count} accesses, {} transactions to {}", first - 1, args.out.display()))
}

fn stat(args: &Stat) -> Outcome {
    let mut progress = Progress::start();
    let name = |error: RecordingError| format!("{}: {error}", args.trace.display());
    let mut source = open(open_file(&args.trace)?, on_fault(args.skip_faults)).map_err(name)?;
    let counted = Counted { source: &mut source, read: 0, progress: &mut progress };
    let stat = Statistics::of(&Recording::read(counted).map_err(name)?);
    drop(progress);
    skipped_notes(source.skipped()).iter().for_each(|note| eprintln!("{note}"));
    if args.json {
        let tables: Vec<_> = stat
            .tables
            .iter()
            .map(|table| {
                json!({
                    "name": table.name,
                    "keys": table.keys,
                    "accesses": table.accesses,
                    "writes": table.writes,
                    "hottest_hundredth": table.hottest_hundredth,
                })
            })
            .collect();
        let answer = json!({
            "transactions": stat.transactions,
            "accesses": stat.accesses,
            "seconds": stat.seconds,
            "keys_per_transaction": stat.keys_per_transaction,
            "multi_key_share": stat.multi_key_share,
            "tables": tables,
        });
        return print(&answer.to_string());
    }
    print(&format!(
        "{} transactions with {} accesses in {:.1} s; {:.2} keys each, {} with several keys",
        stat.transactions,
        stat.accesses,
        stat.seconds,
        stat.keys_per_transaction,
        percent(stat.multi_key_share),
    ))?;
    let mut rows = table(&["table", "keys", "accesses", "writes", "to the hottest 1 %"]);
    for table in stat.tables {
        rows.add_row(vec![
            table.name,
            table.keys.to_string(),
            table.accesses.to_string(),
            table.writes.to_string(),
            percent(table.hottest_hundredth),
        ]);
    }
    print(&rows.to_string())
}

fn generate(args: &Generate) -> Outcome {
    let seconds = args.transactions as f64 / args.rate;
    let size = |usual: u64| args.size.unwrap_or(usual);
    match args.benchmark {
        Benchmark::Pps => write(args, Pps::new(size(10_000), args.hot_share)?),
        Benchmark::Tpcc => write_tpcc(args, Tpcc::new(size(100), Remote::Any)?),
        Benchmark::Tpccs => write_tpcc(args, Tpcc::new(size(100), Remote::Partner)?),
        Benchmark::Twitter => write(args, Twitter::new(social_graph(args, size(10_000))?)?),
        Benchmark::Google => {
            let trace = match &args.load {
                Some(path) => load_trace(path, size(20) as usize)?,
                None => LoadTrace::wandering(size(20) as usize)?,
            };
            write(args, Google::new(trace, args.keys_per_site, seconds, 0.9)?)
        }
        Benchmark::Multitenant => {
            write(args, MultiTenant::new(size(20), args.keys_per_site, seconds / 8.0)?)
        }
    }
}

fn write(args: &Generate, workload: impl Workload) -> Outcome {
    let mut progress = Progress::start();
    let source = Generated::new(workload, args.transactions, args.rate, args.seed)?;
    let mut writer = Writer::new(&args.out)?;
    let count = writer.copy(Counted { source, read: 0, progress: &mut progress })?;
    drop(progress);
    writer.finish()?;
    print(&format!("{count} accesses to {}", args.out.display()))
}

fn write_tpcc(args: &Generate, workload: Tpcc) -> Outcome {
    if let (Some(sites), Some(path)) = (args.sites, &args.placement_out) {
        if sites == 0 {
            return Err("a placement on 0 sites: at least 1 is needed".into());
        }
        write_text(path, &workload.placement(usize::from(sites)).to_text())?;
    }
    write(args, workload)
}

fn social_graph(args: &Generate, users: u64) -> Result<FollowGraph, Box<dyn std::error::Error>> {
    match &args.graph {
        Some(path) => Ok(follow_graph(open_file(path)?, OnFault::Stop)?),
        None => {
            let users = u32::try_from(users)
                .map_err(|_| format!("{users} users: at most {} can be made", u32::MAX))?;
            Ok(FollowGraph::generate(users, args.seed)?)
        }
    }
}

/// The first `machines` machines of a load file, by time.
fn load_trace(path: &Path, machines: usize) -> Result<LoadTrace, Box<dyn std::error::Error>> {
    let name = |problem: String| format!("{}: {problem}", path.display());
    Ok(loads::read(open_file(path)?, Some(machines)).map_err(name)?)
}
