//! `isomer-lab ordered`: transactions in a total order, whose records move to the sites that need
//! them.
//!
//! ```text
//!   clients ─▶ sequencer ─▶ order ─▶ planner ─▶ s1 … s4, a thread each ─▶ clients
//!              batches                  │        push rows to each other
//!                                       └─▶ witness: the same order, one transaction at a time
//! ```
//!
//! The workload is Hermes' (section 5.2.2). Each site gets requests for its records in proportion
//! to the recorded load of a real machine. Half of the transactions also want a record from
//! anywhere, around a moving centre. So the load of the sites is uneven. The engine has no forecast
//! of it, but sees each batch before it runs.
//!
//! | file | contents |
//! | --- | --- |
//! | `runtime.rs` | the engine on threads, in place of processes |
//! | `flow.rs` | loads of sites and moves of records, from plans |
//! | this file | the run, the report, the checks |

mod flow;
mod runtime;

use crate::loads;
use isomer::checks::Check;
use isomer::failure::Failure;
use isomer::plan::recorded::{Header, write_header};
use isomer::{clock, out, text};
use isomer_batch::{FusionTable, Planner, Replacement};
use isomer_design::TableId;
use isomer_lab::ordered::{Demand, GoogleSpec, Initial, Load};
use isomer_plan::route::Options;
use isomer_plan::route::engine::EngineRouter;
use runtime::{Ran, Runtime};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Records of each site.
const KEYS_PER_SITE: u64 = 100_000;
/// Clients for each of `--threads`; each has one open request.
const CLIENTS: u64 = 100;
/// Number of messages of progress in a run.
const TOLD: u64 = 12;

/// Runs transactions in one total order, with records that move to the sites that need them
///
/// The engine of deterministic batches runs on threads of this process, a thread for each site,
/// with rows in memory. The load of each site follows that of a real machine. At the end the result
/// is compared with a serial execution; the exit code is 1 if a check fails.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab ordered
  isomer-lab ordered --seconds 5 --json
  isomer-lab ordered --record run.jsonl && isomer route run.jsonl --recorded")]
pub(crate) struct OrderedArgs {
    /// Seconds of the run
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Sites
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    sites: u16,
    /// Hundreds of clients; each client has one open request
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for the planner's inputs and decisions, for `isomer route --recorded`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Prints the report as one line of JSON, and everything else on standard error
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    isolation: &'static str,
    sites: u16,
    clients: u64,
    seed: u64,
    seconds: f64,
    transactions: u64,
    throughput_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    batches: u64,
    /// Shares of requests by the site where records are at home, and by the site that ran them.
    asked_of: Vec<f64>,
    run_by: Vec<f64>,
    single_site_share: f64,
    /// Transactions that ran at the home of most of their records, where an earlier transaction had
    /// left these records, and elsewhere because those sites had reached their share of the batch.
    at_home: u64,
    where_left: u64,
    where_room: u64,
    records_moved: u64,
    records_away: usize,
    checks: Vec<Check>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(crate) fn run(args: &OrderedArgs) -> Result<(), Failure> {
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let load = loads::built_in(Load::Azure).map_err(Failure::failed)?;
    let spec =
        GoogleSpec { load: Load::Azure, keys_per_site: KEYS_PER_SITE, theta: 0.9, length: None };
    let demand = Demand::google(&spec, &load, args.sites, args.seconds as f64);
    let demand = demand.map_err(Failure::usage)?;
    let homes = demand.homes(Initial::Range);
    let recording = match &args.record {
        None => None,
        Some(path) => {
            let failed = |error: String| Failure::failed(format!("{}: {error}", path.display()));
            let file = File::create(path).map_err(|error| failed(error.to_string()))?;
            let mut file = BufWriter::new(file);
            let header = Header::of_hermes(&homes, &[TableId(1)]).map_err(Failure::failed)?;
            write_header(&mut file, &header).map_err(|error| failed(error.to_string()))?;
            Some(file)
        }
    };
    let route = Arc::new(EngineRouter::Hermes(Options::default()));
    let planner = Planner::new(homes, route, FusionTable::new(Replacement::Clock, None));
    let clients = u64::from(args.threads) * CLIENTS;
    say(format!(
        "{} sites in this process, {} records each; {} clients; their requests get one order, in batches",
        args.sites,
        text::count(KEYS_PER_SITE),
        text::count(clients)
    ));
    say("requests for a site follow the recorded load of a real machine; the engine has no forecast".into());
    let runtime = Runtime { planner, demand, clients, seed: args.seed, recording };
    let ran = runtime.run(|state| {
        let part = Duration::from_secs(args.seconds) / TOLD as u32;
        for _ in 0..TOLD {
            clock::sleep(part);
            let (flow, second) = state.since();
            say(flow.to_text(second, part.as_secs_f64()));
        }
    })?;
    let report = report(args, clients, &ran);
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    if report.checks.iter().all(|check| check.ok) { Ok(()) } else { Err(Failure::Told) }
}

fn report(args: &OrderedArgs, clients: u64, ran: &Ran) -> Report {
    let flow = &ran.flow;
    let ms = |quantile| ran.latency.value_at_quantile(quantile) as f64 / 1e6;
    Report {
        isolation: "serializable",
        sites: args.sites,
        clients,
        seed: args.seed,
        seconds: ran.seconds,
        transactions: ran.answered,
        throughput_per_s: ran.answered as f64 / ran.seconds,
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        batches: flow.batches,
        asked_of: flow.shares(&flow.asked_of),
        run_by: flow.shares(&flow.run_by),
        single_site_share: flow.single_site as f64 / flow.planned.max(1) as f64,
        at_home: flow.at_home,
        where_left: flow.where_left,
        where_room: flow.where_room,
        records_moved: flow.moved.values().sum(),
        records_away: ran.away,
        checks: checks(ran),
    }
}

fn checks(ran: &Ran) -> Vec<Check> {
    let flow = &ran.flow;
    let busiest = |counts: &[u64]| flow.shares(counts).into_iter().fold(0.0, f64::max);
    let (asked, run) = (busiest(&flow.asked_of), busiest(&flow.run_by));
    let detail = format!(
        "the busiest site was asked for {}, and ran {}",
        text::percent(asked),
        text::percent(run)
    );
    let above = format!("{} of {} batches had a site above it", flow.above_share, flow.batches);
    let told = format!("{} requests, {} answers", ran.asked, ran.answered);
    vec![
        Check::new("every request was answered once", ran.asked == ran.answered, told),
        Check::of("all is as a serial execution makes it", ran.verdict.clone()),
        Check::new("no site ran more of a batch than its share", flow.above_share == 0, above),
        Check::new("loads are more even than what is asked", run < asked, detail),
    ]
}

impl Report {
    fn to_text(&self) -> String {
        let shares = |shares: &[f64]| flow::bars(shares);
        let mut text = format!(
            "\n{} transactions in {:.1} s: {} per second; p50 {:.1} ms, p99 {:.1} ms; {} batches\n\n",
            text::count(self.transactions),
            self.seconds,
            text::count(self.throughput_per_s as u64),
            self.p50_ms,
            self.p99_ms,
            text::count(self.batches)
        );
        text += &format!(
            "asked of  {}\nrun by    {}\n\n",
            shares(&self.asked_of),
            shares(&self.run_by)
        );
        text += &format!(
            "{} ran where most of their records are at home, {} where an earlier one had left these, {} elsewhere, as \
             those sites had enough to do; {} found all at one site\n{} records moved; {} are not at home\n\n",
            text::count(self.at_home),
            text::count(self.where_left),
            text::count(self.where_room),
            text::percent(self.single_site_share),
            text::count(self.records_moved),
            text::count(self.records_away as u64)
        );
        self.checks.iter().for_each(|check| text += &format!("{}\n", check.line()));
        text
    }
}
